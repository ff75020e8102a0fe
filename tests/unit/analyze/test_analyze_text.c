/* SPDX-License-Identifier: Apache-2.0 */
/* Text helpers: every expected string was written down by hand. */
#include "tests/unit/analyze/cmocka.h"

#include "analyze/text.h"
#include "formats/error.h"

#define GIB (UINT64_C(1) << 30)

static struct vc_text text;

static void is(const char *expected)
{
	assert_false(text.failed);
	assert_string_equal(vc_text_get(&text), expected);
	vc_text_deinit(&text);
}

static void bytes(uint64_t value, const char *rounded, const char *exact)
{
	vc_text_bytes(&text, value, VC_TEXT_ROUNDED);
	is(rounded);
	vc_text_bytes(&text, value, VC_TEXT_EXACT);
	is(exact);
}

static void test_bytes(void **state)
{
	(void)state;
	bytes(0, "0", "0");
	bytes(1, "1 B", "1 B");
	bytes(1023, "1,023 B", "1,023 B");
	bytes(1024, "1.00 KiB", "1,024 B");
	bytes(51200, "50.0 KiB", "51,200 B");
	bytes(199680, "195.0 KiB", "199,680 B");
	bytes(1048575, "1.00 MiB", "1,048,575 B"); /* 1,024.0 KiB is never written */
	bytes(1048524, "1023.9 KiB", "1,048,524 B");
	bytes(10 * GIB - 1, "10.0 GiB", "10,737,418,239 B"); /* not 10.00 */
	bytes(2508800000, "2.34 GiB", "2,508,800,000 B");
	bytes(UINT64_MAX, "16.0 EiB", "18,446,744,073,709,551,615 B");
}

static void test_signed(void **state)
{
	(void)state;
	vc_text_signed_bytes(&text, 2508800000, VC_TEXT_ROUNDED);
	is("+2.34 GiB");
	vc_text_signed_bytes(&text, -419430, VC_TEXT_ROUNDED);
	is("-409.6 KiB");
	vc_text_signed_bytes(&text, INT64_MIN, VC_TEXT_EXACT);
	is("-9,223,372,036,854,775,808 B");
	vc_text_signed_number(&text, 49000);
	is("+49,000");
	vc_text_signed_number(&text, 0);
	is("0");
	vc_text_rate(&text, 0.5);
	is("0.50 B");
}

static void test_numbers(void **state)
{
	(void)state;
	vc_text_number(&text, 999);
	is("999");
	vc_text_number(&text, 41202114);
	is("41,202,114");
	vc_text_about(&text, 1557123.4);
	is("1,557,000");
	vc_text_about(&text, 9999.4);
	is("9,999");
	vc_text_about(&text, 1e300);
	is("more than 10^18");
	vc_text_share(&text, 164);
	is("16.4 %");
	vc_text_share(&text, -5);
	is("-0.5 %");
}

static void test_times(void **state)
{
	(void)state;
	vc_text_duration(&text, UINT64_C(529200) * 1000000000);
	is("6 d 3 h");
	vc_text_duration(&text, UINT64_C(86400) * 1000000000);
	is("1 d");
	vc_text_duration(&text, UINT64_C(725) * 1000000000);
	is("12 min 5 s");
	vc_text_duration(&text, 210000000);
	is("0.21 s");
	vc_text_time(&text, UINT64_C(1796026447) * 1000000000);
	is("2026-11-30 08:14:07Z");
	vc_text_time(&text, 0);
	is("at an unknown time");
}

static void test_escapes(void **state)
{
	(void)state;
	vc_text_escaped(&text, "plain \xc3\xa9 text");
	is("plain \xc3\xa9 text");
	vc_text_escaped(&text, "\033[31m\n\t\x7f");
	is("\\x1b[31m\\x0a\\x09\\x7f");
	vc_text_escaped(&text, "\xff\xc0\x80\xed\xa0\x80"); /* no UTF-8: overlong, surrogate */
	is("\\xff\\xc0\\x80\\xed\\xa0\\x80");
	vc_text_escaped(&text, "\xc2\x9b" "31m\xe2\x80\xae"); /* C1 CSI, right-to-left override */
	is("\\u{9b}31m\\u{202e}");
	vc_text_escaped(&text, "\xe2\x82"); /* cut in a character */
	is("\\xe2\\x82");
	vc_text_json(&text, "a\"b\\c\n\033\xff\xc2\x9b");
	is("a\\\"b\\\\c\\u000a\\u001b\\ufffd\\u009b");
	vc_text_csv(&text, "a,\"b\"");
	is("\"a,\"\"b\"\"\"");
	assert_int_equal(vc_text_columns("\xc3\xa9\xe2\x82\xac x"), 4);
}

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0}, {"512", 512}, {"1MiB", 1048576}, {"1.5 GiB", 1610612736},
		{"10kB", 10000}, {"2g", 2147483648},
	};
	static const char *const bad[] = {"", "-1", "x", "1Q", "1 MiBx", "99999999TiB", "0x10"};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(vc_text_parse_bytes(good[i].text, &value), 0);
		assert_int_equal(value, good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		value = 7;
		assert_int_equal(vc_text_parse_bytes(bad[i], &value), VC_E_INVALID);
		assert_int_equal(value, 7);
	}
	assert_int_equal(vc_text_parse_address("0x7f2c4a000400", &value), 0);
	assert_int_equal(value, 0x7f2c4a000400);
	assert_int_equal(vc_text_parse_address("ff", &value), 0);
	assert_int_equal(value, 255);
	assert_int_equal(vc_text_parse_address("0x", &value), VC_E_INVALID);
	assert_int_equal(vc_text_parse_address("0x1ffffffffffffffff", &value), VC_E_INVALID);
	assert_int_equal(vc_text_parse_number("18446744073709551616", &value), VC_E_INVALID);
	assert_int_equal(vc_text_parse_number("+5", &value), VC_E_INVALID);
}

static void test_shares(void **state)
{
	const int64_t thirds[] = {1, 1, 1};
	const int64_t mixed[] = {997, 2, -1, 2};
	int64_t shares[4];

	(void)state;
	assert_int_equal(vc_text_shares(thirds, 3, 3, shares), 0);
	assert_int_equal(shares[0], 334); /* 333.3 each: the first gets what is left */
	assert_int_equal(shares[1], 333);
	assert_int_equal(shares[2], 333);
	assert_int_equal(vc_text_shares(mixed, 4, 1000, shares), 0);
	assert_int_equal(shares[0] + shares[1] + shares[2] + shares[3], 1000);
	assert_int_equal(shares[2], -1);
	assert_int_equal(vc_text_shares(thirds, 3, 0, shares), 0); /* of nothing */
	assert_int_equal(shares[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),   cmocka_unit_test(test_signed),
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_times),
		cmocka_unit_test(test_escapes), cmocka_unit_test(test_parse),
		cmocka_unit_test(test_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
