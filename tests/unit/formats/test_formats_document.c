/* SPDX-License-Identifier: Apache-2.0 */
/* The hex examples of FORMAT.md are taken out of the document and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "formats/recording.h"
#include "formats/snapshot_read.h"
#include "tests/unit/formats/file_bytes.h"

/* The bytes of the example that begins with "```hex NAME": lines of "offset: bytes  text". */
static size_t example(const char *name, uint8_t **ret)
{
	size_t length, have = 0;
	char *document = (char *)file_bytes(VC_TEST_SOURCE "/formats/FORMAT.md", &length);
	char start[64], *line, *next;
	uint8_t *bytes = malloc(length);

	snprintf(start, sizeof(start), "\n```hex %s\n", name);
	line = strstr(document, start);
	assert_non_null(line);
	for (line += strlen(start); strncmp(line, "```", 3); line = next) {
		char *text;

		next = strchr(line, '\n') + 1;
		assert_int_equal(strtoul(line, &line, 16), have); /* offsets are right too */
		assert_int_equal(*line, ':');
		text = line + 2 + 16 * 3;
		for (line++; line < text && line[1] != ' ' && line[1] != '\n'; line += 3) {
			char digits[3] = {line[1], line[2], 0};

			bytes[have++] = (uint8_t)strtoul(digits, NULL, 16);
		}
	}
	free(document);
	*ret = bytes;
	return have;
}

static void file_has_what_the_text_says(void **state)
{
	struct vc_faults faults = {0};
	struct vc_container_front front;
	struct vc_tables tables;
	uint8_t *bytes, *group, decoded[256];
	size_t length = example("file", &bytes), group_length = example("group", &group);

	(void)state;
	assert_int_equal(vc_container_front_parse(bytes, length, &front, &faults), 0);
	assert_int_equal(faults.count, 0);
	assert_int_equal(front.front_bytes, 0x2f0);
	assert_int_equal(front.file_bytes, length);
	assert_true(front.time == 1790000000000000000u);
	assert_int_equal(front.number, 12);
	assert_int_equal(front.step, 1000);
	assert_int_equal(front.steps_known, 1);
	assert_int_equal(front.pid, 4711);
	assert_int_equal(front.devices, 1);
	assert_string_equal(front.host, "gpu-17");
	assert_string_equal(front.moment, "now");
	assert_string_equal(front.trigger, "request");
	assert_int_equal(front.sections, 1);
	assert_string_equal(front.section[0].name, ".vramcore.threads");
	assert_int_equal(front.section[0].offset, 0x2f0);
	assert_int_equal(front.section[0].rows, 3);

	assert_int_equal(ZSTD_decompress(decoded, sizeof(decoded),
					 bytes + front.section[0].offset + sizeof(Elf64_Chdr),
					 front.section[0].bytes - sizeof(Elf64_Chdr)),
			 group_length);
	assert_memory_equal(decoded, group, group_length);

	assert_int_equal(vc_snapshot_read_memory(bytes, length, NULL, &tables, &faults), 0);
	assert_int_equal(faults.kept[0].error, VC_E_MISSING_TABLE);
	assert_int_equal(faults.kept[1].error, VC_E_MISSING_TABLE);
	assert_int_equal(tables.rows[VC_TABLE_threads], 3);
	assert_true(tables.column[VC_COL_threads_thread][0] == 4711);
	assert_true(tables.column[VC_COL_threads_thread][1] == 4712);
	assert_true(tables.column[VC_COL_threads_thread][2] == 4720);
	for (unsigned row = 0; row < 3; row++)
		assert_true(tables.column[VC_COL_threads_name][row] == 0);
	vc_tables_deinit(&tables);
	free(bytes);
	free(group);
}

static void string_has_its_check(void **state)
{
	uint64_t words[3];
	uint8_t *bytes;

	(void)state;
	assert_int_equal(example("string", &bytes), sizeof(words));
	memcpy(words, bytes, sizeof(words));
	assert_int_equal(words[1], 3);
	assert_memory_equal(bytes + 16, "abc\0\0\0\0\0", 8);
	assert_true(words[0] == vc_check_words(words + 1, 2, 0));
	assert_true(words[0] != vc_check_words(words + 1, 2, 1));
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_has_what_the_text_says),
		cmocka_unit_test(string_has_its_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
