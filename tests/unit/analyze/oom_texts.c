/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/analyze/oom_texts.h"

struct vc_oom_reader *reader;
struct vc_oom_log found;
struct vc_arena arena;
struct vc_oom_reading reading;

int tear_down(void **state)
{
	(void)state;
	vc_oom_reader_destroy(reader);
	reader = NULL;
	vc_arena_deinit(&arena);
	return 0;
}

void read_pieces(const char *text, size_t length, size_t piece)
{
	tear_down(NULL);
	assert_int_equal(vc_oom_reader_create(&reader), 0);
	for (size_t at = 0; at < length; at += piece)
		assert_int_equal(vc_oom_reader_feed(reader, text + at, length - at < piece ?
						    length - at : piece), 0);
	assert_int_equal(vc_oom_reader_finish(reader, &found), 0);
}

const struct vc_oom_message *only(const char *text)
{
	read_pieces(text, strlen(text), 4096);
	assert_int_equal(found.source_count, 1);
	assert_ptr_equal(found.last, found.sources[0].first);
	assert_int_equal(vc_oom_message_read(found.last, VC_TEXT_ROUNDED, &arena, &reading), 0);
	return found.last;
}

void told(const struct vc_oom_message *message, enum vc_oom_quantity quantity, uint64_t bytes)
{
	assert_true(message->sizes[quantity].told);
	assert_int_equal(message->sizes[quantity].bytes, bytes);
}

void kind(enum vc_oom_kind expected)
{
	assert_string_equal(vc_oom_kinds[reading.findings[0].kind].key,
			    vc_oom_kinds[expected].key);
}

void consistent(void)
{
	int64_t total = 0, share = 0;

	assert_int_equal(reading.contradiction_count, 0);
	assert_int_equal(reading.missing_count, 0);
	for (unsigned i = 0; i < reading.row_count; i++) {
		total += reading.rows[i].bytes;
		share += reading.rows[i].share;
	}
	assert_int_equal(total, reading.total);
	assert_int_equal(share, reading.total ? 1000 : 0);
}

int64_t row(const char *key)
{
	for (unsigned i = 0; i < reading.row_count; i++)
		if (!strcmp(reading.rows[i].key, key))
			return reading.rows[i].bytes;
	fail_msg("no row %s", key);
	return 0;
}
