/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "formats/error.h"

void vc_text_deinit(struct vc_text *text)
{
	free(text->data);
	*text = (struct vc_text){0};
}

const char *vc_text_get(const struct vc_text *text)
{
	return text->data ? text->data : "";
}

void vc_text_clear(struct vc_text *text)
{
	text->length = 0;
	if (text->data)
		text->data[0] = '\0';
}

static bool text_room(struct vc_text *text, size_t more)
{
	size_t need = text->length + more + 1, capacity = text->capacity ? text->capacity : 64;
	char *data;

	if (need <= text->capacity)
		return true;
	while (capacity < need)
		capacity *= 2;
	data = realloc(text->data, capacity);
	if (!data) {
		text->failed = true;
		return false;
	}
	text->data = data;
	text->capacity = capacity;
	return true;
}

void vc_text_bytes_raw(struct vc_text *text, const char *bytes, size_t length)
{
	if (!text_room(text, length))
		return;
	if (length)
		memcpy(text->data + text->length, bytes, length);
	text->length += length;
	text->data[text->length] = '\0';
}

void vc_text_add_list(struct vc_text *text, const char *format, va_list list)
{
	va_list again;
	int length;

	va_copy(again, list);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (length < 0 || !text_room(text, (size_t)length))
		return;
	vsnprintf(text->data + text->length, (size_t)length + 1, format, list);
	text->length += (size_t)length;
}

void vc_text_add(struct vc_text *text, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vc_text_add_list(text, format, list);
	va_end(list);
}

void vc_text_number(struct vc_text *text, uint64_t value)
{
	char digits[32], out[48];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value), to = 0;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			out[to++] = ',';
		out[to++] = digits[i];
	}
	vc_text_bytes_raw(text, out, (size_t)to);
}

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static void add_sign(struct vc_text *text, int64_t value)
{
	if (value)
		vc_text_bytes_raw(text, value < 0 ? "-" : "+", 1);
}

void vc_text_signed_number(struct vc_text *text, int64_t value)
{
	add_sign(text, value);
	vc_text_number(text, magnitude(value));
}

void vc_text_about(struct vc_text *text, double value)
{
	double unit = 1;

	if (!(value < 1e18)) {
		vc_text_add(text, "more than 10^18");
		return;
	}
	if (value < 0)
		value = 0;
	while (value / unit >= 10000)
		unit *= 10;
	vc_text_number(text, (uint64_t)(round(value / unit) * unit));
}

void vc_text_rate(struct vc_text *text, double bytes)
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	size_t i = 0;

	/* what would be written as 1024.0 belongs to the next unit */
	while (fabs(bytes) >= 1023.95 && i + 1 < sizeof(unit) / sizeof(*unit)) {
		bytes /= 1024;
		i++;
	}
	vc_text_add(text, fabs(bytes) < 9.995 ? "%.2f %s" : "%.1f %s", bytes, unit[i]);
}

void vc_text_bytes(struct vc_text *text, uint64_t bytes, enum vc_text_exact exact)
{
	if (!bytes) {
		vc_text_add(text, "0");
	} else if (exact == VC_TEXT_EXACT || bytes < 1024) {
		vc_text_number(text, bytes);
		vc_text_add(text, " B");
	} else {
		vc_text_rate(text, (double)bytes);
	}
}

void vc_text_signed_bytes(struct vc_text *text, int64_t bytes, enum vc_text_exact exact)
{
	add_sign(text, bytes);
	vc_text_bytes(text, magnitude(bytes), exact);
}

void vc_text_share(struct vc_text *text, int64_t tenths)
{
	uint64_t value = magnitude(tenths);

	vc_text_add(text, "%s%llu.%llu %%", tenths < 0 ? "-" : "", (unsigned long long)(value / 10),
		    (unsigned long long)(value % 10));
}

void vc_text_duration(struct vc_text *text, uint64_t nanoseconds)
{
	static const struct {
		uint64_t seconds, part_seconds;
		const char *unit, *part;
	} scale[] = {
		{86400, 3600, "d", "h"}, {3600, 60, "h", "min"}, {60, 1, "min", "s"},
	};
	uint64_t seconds = nanoseconds / 1000000000;

	for (size_t i = 0; i < sizeof(scale) / sizeof(*scale); i++) {
		if (seconds < scale[i].seconds)
			continue;
		vc_text_number(text, seconds / scale[i].seconds);
		vc_text_add(text, " %s", scale[i].unit);
		seconds = seconds % scale[i].seconds / scale[i].part_seconds;
		if (seconds)
			vc_text_add(text, " %llu %s", (unsigned long long)seconds, scale[i].part);
		return;
	}
	vc_text_add(text, "%.2f s", (double)nanoseconds / 1e9);
}

void vc_text_time(struct vc_text *text, uint64_t nanoseconds)
{
	time_t seconds = (time_t)(nanoseconds / 1000000000);
	struct tm parts;
	char out[64];

	if (!nanoseconds || !gmtime_r(&seconds, &parts) ||
	    !strftime(out, sizeof(out), "%Y-%m-%d %H:%M:%SZ", &parts))
		vc_text_add(text, "at an unknown time");
	else
		vc_text_add(text, "%s", out);
}

/* ---- strings from files ---- */

/** Length of the UTF-8 character at s, its number in *ret; 0 where there is none. */
static size_t utf8_character(const unsigned char *s, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 :
			s[0] >> 3 == 30 ? 4 : 0;
	uint32_t code;

	if (!length)
		return 0;
	code = length == 1 ? s[0] : s[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	*ret = code;
	return length;
}

/** True for what a terminal would obey or what changes the order of what is read. */
static bool is_active(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
	       code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

void vc_text_escaped(struct vc_text *text, const char *string)
{
	const unsigned char *s = (const unsigned char *)string;

	while (*s) {
		uint32_t code = 0;
		size_t length = utf8_character(s, &code);

		if (!length)
			vc_text_add(text, "\\x%02x", *s);
		else if (!is_active(code))
			vc_text_bytes_raw(text, (const char *)s, length);
		else if (code < 0x80)
			vc_text_add(text, "\\x%02x", code);
		else
			vc_text_add(text, "\\u{%x}", code);
		s += length ? length : 1;
	}
}

void vc_text_json(struct vc_text *text, const char *string)
{
	const unsigned char *s = (const unsigned char *)string;

	while (*s) {
		uint32_t code = 0;
		size_t length = utf8_character(s, &code);

		if (!length)
			vc_text_add(text, "\\ufffd");
		else if (code == '"' || code == '\\')
			vc_text_add(text, "\\%c", (int)code);
		else if (is_active(code))
			vc_text_add(text, "\\u%04x", code);
		else
			vc_text_bytes_raw(text, (const char *)s, length);
		s += length ? length : 1;
	}
}

void vc_text_csv(struct vc_text *text, const char *string)
{
	if (!strpbrk(string, ",\"\r\n")) {
		vc_text_add(text, "%s", string);
		return;
	}
	vc_text_add(text, "\"");
	for (; *string; string++) {
		if (*string == '"')
			vc_text_add(text, "\"");
		vc_text_bytes_raw(text, string, 1);
	}
	vc_text_add(text, "\"");
}

size_t vc_text_columns(const char *string)
{
	size_t columns = 0;

	for (; *string; string++)
		columns += ((unsigned char)*string & 0xc0) != 0x80;
	return columns;
}

/* ---- numbers from the command line ---- */

int vc_text_parse_number(const char *string, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	if (*string < '0' || *string > '9')
		return VC_E_INVALID;
	errno = 0;
	value = strtoull(string, &end, 10);
	if (errno || *end)
		return VC_E_INVALID;
	*ret = value;
	return 0;
}

int vc_text_parse_address(const char *string, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	if (string[0] == '0' && (string[1] == 'x' || string[1] == 'X'))
		string += 2;
	if (!strchr("0123456789abcdefABCDEF", *string) || !*string)
		return VC_E_INVALID;
	errno = 0;
	value = strtoull(string, &end, 16);
	if (errno || *end)
		return VC_E_INVALID;
	*ret = value;
	return 0;
}

int vc_text_parse_bytes(const char *string, uint64_t *ret)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = {
		{"", 1}, {"B", 1}, {"K", 1024.0}, {"KiB", 1024.0}, {"kB", 1e3},
		{"M", 1048576.0}, {"MiB", 1048576.0}, {"MB", 1e6},
		{"G", 1073741824.0}, {"GiB", 1073741824.0}, {"GB", 1e9},
		{"T", 1099511627776.0}, {"TiB", 1099511627776.0}, {"TB", 1e12},
	};
	char *end;
	double value;

	if (*string < '0' || *string > '9')
		return VC_E_INVALID;
	value = strtod(string, &end);
	if (end != string + strspn(string, "0123456789."))
		return VC_E_INVALID; /* hexadecimal, exponents */
	while (*end == ' ')
		end++;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcasecmp(end, units[i].name) || !(value * units[i].factor < 1.8e19))
			continue;
		*ret = (uint64_t)(value * units[i].factor);
		return 0;
	}
	return VC_E_INVALID;
}

/* ---- shares ---- */

/** Shares beyond, of numbers that do not belong together, are cut. */
#define SHARE_MOST 1e12

struct remainder {
	double part;
	size_t index;
};

static int compare_remainders(const void *a, const void *b)
{
	const struct remainder *x = a, *y = b;

	if (x->part != y->part)
		return x->part < y->part ? 1 : -1;
	return x->index < y->index ? -1 : 1;
}

int vc_text_shares(const int64_t *values, size_t count, int64_t whole, int64_t *ret)
{
	struct remainder *rest = calloc(count ? count : 1, sizeof(*rest));
	int64_t sum = 0, shares = 0;
	bool overflow = false; /* sizes that no machine has */

	if (!rest)
		return VC_E_NO_MEMORY;
	for (size_t i = 0; i < count; i++) {
		double exact = whole ? (double)values[i] * 1000.0 / (double)whole : 0;

		exact = fabs(exact) < SHARE_MOST ? exact : copysign(SHARE_MOST, exact);
		ret[i] = (int64_t)floor(exact);
		rest[i] = (struct remainder){exact - floor(exact), i};
		overflow |= __builtin_add_overflow(sum, values[i], &sum);
		shares += ret[i];
	}
	if (whole && sum == whole && !overflow) {
		qsort(rest, count, sizeof(*rest), compare_remainders);
		for (size_t i = 0; i < count && shares < 1000; i++, shares++)
			ret[rest[i].index]++;
	} else {
		for (size_t i = 0; i < count; i++)
			ret[i] += rest[i].part >= 0.5;
	}
	free(rest);
	return 0;
}
