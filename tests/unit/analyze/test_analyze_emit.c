/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter: one table said once, as text of several widths and as JSON. */
#include "tests/unit/analyze/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/emit.h"

static const struct vc_emit_column columns[] = {
	{"bytes", "bytes", VC_CELL_BYTES, false},
	{"growth", "growth", VC_CELL_SIGNED_BYTES, true},
	{"share", "share", VC_CELL_SHARE, true},
	{"hidden", NULL, VC_CELL_NUMBER, true},
	{"site", "site", VC_CELL_CHAIN, false},
};

static char *output;
static size_t output_length;
static struct vc_emit emit;

static void begin(bool json, unsigned width)
{
	emit = (struct vc_emit){.out = open_memstream(&output, &output_length), .json = json,
				.width = width};
}

static void is(const char *expected)
{
	assert_int_equal(vc_emit_finish(&emit), 0);
	fclose(emit.out);
	vc_emit_deinit(&emit);
	assert_string_equal(output, expected);
	free(output);
}

static void table(void)
{
	const struct vc_cell rows[2][5] = {
		{{.number = 1536}, {.amount = -1024}, {.amount = 600}, {.number = 5},
		 {.text = "a.c:1  leak  <- caller  <- main.c:2 main"}},
		{{.number = 0}, {.absent = true}, {.amount = 400}, {.number = 6},
		 {.text = "x\033y\n"}},
	};

	vc_emit_begin(&emit, "test/1");
	vc_emit_heading(&emit, "heading %s", "\033[2J");
	vc_emit_table(&emit, "rows", columns, 5);
	for (unsigned i = 0; i < 2; i++) {
		vc_emit_row(&emit, rows[i]);
		vc_emit_bool(&emit, "new", i == 0);
		vc_emit_list(&emit, "of");
		vc_emit_number(&emit, NULL, i);
		vc_emit_list_end(&emit);
		vc_emit_row_end(&emit);
	}
	vc_emit_table_end(&emit);
}

static void test_text(void **state)
{
	(void)state;
	begin(false, 100);
	table();
	is("heading \\x1b[2J\n"
	   "     bytes     growth   share  site\n"
	   "  1.50 KiB  -1.00 KiB  60.0 %  a.c:1  leak  <- caller  <- main.c:2 main\n"
	   "         0          -  40.0 %  x\\x1by\\x0a\n");
}

/* 63 columns: the chain is cut at a caller; 45: what may be dropped goes, from the right. */
static void test_narrow(void **state)
{
	(void)state;
	begin(false, 63);
	table();
	is("heading \\x1b[2J\n"
	   "     bytes     growth   share  site\n"
	   "  1.50 KiB  -1.00 KiB  60.0 %  a.c:1  leak  <- caller\n"
	   "         0          -  40.0 %  x\\x1by\\x0a\n");
	begin(false, 45);
	table();
	is("heading \\x1b[2J\n"
	   "     bytes  site\n"
	   "  1.50 KiB  a.c:1  leak  <- caller\n"
	   "         0  x\\x1by\\x0a\n");
}

static void test_json(void **state)
{
	(void)state;
	begin(true, 10);
	table();
	vc_emit_line(&emit, "only for people");
	vc_emit_real(&emit, "ratio", 0.5);
	vc_emit_string(&emit, "none", NULL);
	vc_emit_time(&emit, "time", UINT64_C(1796026447000000001));
	vc_emit_address(&emit, "at", 0x7f00);
	is("{\n"
	   "  \"schema\": \"test/1\",\n"
	   "  \"rows\": [\n"
	   "    {\"bytes\": 1536, \"growth\": -1024, \"share\": 0.6, \"hidden\": "
	   "5, "
	   "\"site\": \"a.c:1  leak  <- caller  <- main.c:2 main\", \"new\": true, \"of\": [0]},\n"
	   "    {\"bytes\": 0, \"growth\": null, \"share\": 0.4, \"hidden\": 6, "
	   "\"site\": \"x\\u001by\\u000a\", \"new\": false, \"of\": [1]}\n"
	   "  ],\n"
	   "  \"ratio\": 0.5,\n"
	   "  \"none\": null,\n"
	   "  \"time\": \"2026-11-30T08:14:07.000000001Z\",\n"
	   "  \"at\": \"0x7f00\"\n"
	   "}\n");
}

static void test_empty(void **state)
{
	(void)state;
	begin(true, 0);
	vc_emit_begin(&emit, "test/1");
	vc_emit_table(&emit, "rows", columns, 5);
	vc_emit_table_end(&emit);
	is("{\n  \"schema\": \"test/1\",\n  \"rows\": []\n}\n");
	begin(false, 0);
	vc_emit_table(&emit, "rows", columns, 5);
	vc_emit_table_end(&emit);
	is(""); /* no rows: no heading either */
}

static void test_color(void **state)
{
	(void)state;
	begin(false, 0);
	emit.color = true;
	vc_emit_warning(&emit, "bad \033");
	is("\033[1;33mbad \\x1b\033[0m\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text), cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_json), cmocka_unit_test(test_empty),
		cmocka_unit_test(test_color),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
