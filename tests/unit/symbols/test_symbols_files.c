/* SPDX-License-Identifier: Apache-2.0 */
/* Where names come from: separate debug files, stripped and foreign files, and none at all. */
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ID_OF_ANOTHER "00112233445566778899aabbccddeeff00112233"

static const char *const debug_dirs[] = {"empty", "symbols"};
static const struct vc_symbols_options with_dirs = {.debug_dirs = debug_dirs, .debug_dir_count = 2};

/* ./chain without debug information, ./chain.full with; symbols/ and empty/ are empty. */
static void prepare(const char *directory, const char *flags)
{
	enter_directory(directory);
	build("gcc", "chain.c", "chain", flags);
	run("mkdir empty symbols && cp chain chain.full && strip -g chain");
}

static void place_by_build_id(const char *file, const char *root)
{
	const char *id = build_id_of("chain.full");

	run("mkdir -p %s/.build-id/%.2s && cp %s %s/.build-id/%.2s/%s.debug", root, id, file, root,
	    id, id + 2);
}

/* Asks for the mark in the inlined chain. */
static struct answer ask_chain(const struct vc_symbols_options *options, const char *build_id)
{
	return ask(options, "chain", build_id, marked_offset("chain", "chain"));
}

static void check_full(struct answer *answer, const char *debug_path)
{
	assert_int_equal(answer->symbol.source, VC_SYMBOL_DEBUG);
	assert_int_equal(answer->symbol.count, 3);
	check_frame(answer, 0, "innermost", "chain.c", "innermost");
	check_frame(answer, 2, "outer", "chain.c", "outer");
	assert_int_equal(answer->report.state, VC_MODULE_DEBUG);
	assert_non_null(answer->report.debug_path);
	assert_string_equal(answer->report.debug_path, debug_path);
	answer_end(answer);
}

/* Only the symbol table is left; `detail` is part of what is said. */
static void check_table(struct answer *answer, const char *detail)
{
	assert_int_equal(answer->symbol.source, VC_SYMBOL_TABLE);
	assert_int_equal(answer->symbol.count, 1);
	check_frame(answer, 0, "outer", NULL, NULL);
	assert_int_equal(answer->report.state, VC_MODULE_TABLE);
	assert_null(answer->report.debug_path);
	if (!strstr(answer->report.detail, detail))
		fail_msg("\"%s\" lacks \"%s\"", answer->report.detail, detail);
	answer_end(answer);
}

/* Nothing is left but the name and the offset. */
static void check_place(struct answer *answer, enum vc_module_state state, const char *detail)
{
	char name[64];

	snprintf(name, sizeof(name), "chain+0x%lx", (unsigned long)marked_offset("chain", "chain"));
	assert_int_equal(answer->symbol.source, VC_SYMBOL_OFFSET);
	check_frame(answer, 0, name, NULL, NULL);
	assert_int_equal(answer->report.state, state);
	assert_false(answer->report.verified);
	if (!strstr(answer->report.detail, detail))
		fail_msg("\"%s\" lacks \"%s\"", answer->report.detail, detail);
	answer_end(answer);
}

static void test_by_build_id(void **state)
{
	struct answer answer;
	char path[256], id[128];

	(void)state;
	prepare("by_build_id", "-g");
	snprintf(id, sizeof(id), "%s", build_id_of("chain.full"));
	run("objcopy --only-keep-debug chain.full chain.symbols");
	answer = ask_chain(&with_dirs, id);
	check_table(&answer, "");
	place_by_build_id("chain.symbols", "symbols");
	snprintf(path, sizeof(path), "symbols/.build-id/%.2s/%s.debug", id, id + 2);
	answer = ask_chain(&with_dirs, id);
	assert_true(answer.report.verified);
	check_full(&answer, path);
	answer = ask_chain(&with_dirs, NULL); /* by the id that the module has */
	assert_false(answer.report.verified);
	check_full(&answer, path);
	answer = ask_chain(NULL, id); /* not told where */
	check_table(&answer, "");
	/* Without the module: its debug file is enough. */
	answer = ask(&with_dirs, "elsewhere/chain", id, marked_offset("chain", "chain"));
	assert_true(answer.report.verified);
	assert_null(answer.report.path);
	check_full(&answer, path);
}

static void test_by_name(void **state)
{
	struct answer answer;
	char id[128];

	(void)state;
	prepare("by_name", "-g");
	snprintf(id, sizeof(id), "%s", build_id_of("chain.full"));
	run("objcopy --only-keep-debug chain.full symbols/chain.debug");
	answer = ask_chain(&with_dirs, id);
	check_full(&answer, "symbols/chain.debug");
	run("rm symbols/chain.debug && cp chain.full symbols/chain");
	answer = ask_chain(&with_dirs, id);
	check_full(&answer, "symbols/chain");
	/* The same name, another build. */
	run("gcc -w -O1 -g -fPIE -pie -DVC_PIE=1 -o symbols/chain '%s'", source_path("chain.c"));
	answer = ask_chain(&with_dirs, id);
	check_table(&answer, "symbols/chain not used: its build-id differs");
	run("objcopy --remove-section .note.gnu.build-id chain.full symbols/chain");
	answer = ask_chain(&with_dirs, id);
	check_table(&answer, "symbols/chain not used: no build-id");
}

static void test_by_link(void **state)
{
	struct answer answer;

	(void)state;
	prepare("by_link", "-g -Wl,--build-id=none");
	run("objcopy --only-keep-debug chain.full chain.dbg");
	run("objcopy --add-gnu-debuglink=chain.dbg chain");
	answer = ask_chain(NULL, NULL);
	check_full(&answer, "chain.dbg");
	run("mkdir .debug && mv chain.dbg .debug");
	answer = ask_chain(NULL, NULL);
	check_full(&answer, ".debug/chain.dbg");
	run("mv .debug/chain.dbg symbols");
	answer = ask_chain(NULL, NULL);
	check_table(&answer, "");
	answer = ask_chain(&with_dirs, NULL);
	check_full(&answer, "symbols/chain.dbg");
	/* One byte more: still a whole ELF file, of another checksum. */
	run("printf x >> symbols/chain.dbg");
	answer = ask_chain(&with_dirs, NULL);
	check_table(&answer, "symbols/chain.dbg not used: its checksum differs");
}

/* With a build-id on both sides the link is only a name, and the build-id decides. */
static void test_link_with_build_id(void **state)
{
	struct answer answer;

	(void)state;
	prepare("link_with_build_id", "-g");
	run("gcc -w -O1 -g -fPIE -pie -DVC_PIE=1 -o other '%s'", source_path("chain.c"));
	run("objcopy --only-keep-debug other chain.dbg");
	run("objcopy --add-gnu-debuglink=chain.dbg chain");
	answer = ask_chain(NULL, build_id_of("chain"));
	check_table(&answer, "chain.dbg not used: its build-id differs");
	run("objcopy --only-keep-debug chain.full chain.dbg");
	answer = ask_chain(NULL, build_id_of("chain"));
	check_full(&answer, "chain.dbg");
}

static void test_other_build_id(void **state)
{
	struct answer answer;

	(void)state;
	prepare("other_build_id", "-g");
	run("cp chain.full chain");
	answer = ask_chain(NULL, ID_OF_ANOTHER);
	assert_null(answer.report.path);
	check_place(&answer, VC_MODULE_DIFFERS, "chain not used: its build-id is");
	/* A debug file where that of the recorded module belongs, and is not. */
	run("mkdir -p symbols/.build-id/00 && cp chain.full symbols/.build-id/00/%s.debug",
	    &ID_OF_ANOTHER[2]);
	answer = ask_chain(&with_dirs, ID_OF_ANOTHER);
	check_place(&answer, VC_MODULE_DIFFERS, ".debug not used: its build-id differs");
	/* Nor does a made-up id lead out of the directories. */
	run("cp chain.full symbols/elsewhere.debug");
	answer = ask_chain(&with_dirs, "00../../elsewhere");
	assert_null(strstr(answer.report.detail, "elsewhere.debug"));
	check_place(&answer, VC_MODULE_DIFFERS, "");
}

static void test_compressed(void **state)
{
	struct answer answer;

	(void)state;
	prepare("compressed", "-g -gdwarf-5");
	for (int old = 0; old < 2; old++) {
		run("objcopy --compress-debug-sections=%s chain.full chain",
		    old ? "zlib-gnu" : "zlib");
		answer = ask_chain(NULL, NULL);
		check_full(&answer, "chain");
	}
}

/* dwz moves what two files have in common to a third. */
static void test_shared_debug_file(void **state)
{
	struct answer answer;
	char id[128];

	(void)state;
	if (!have_tool("dwz"))
		skip();
	prepare("shared", "-gdwarf-4 -fno-eliminate-unused-debug-types");
	run("cp chain.full chain && cp chain.full second");
	run("dwz --multifile=common --multifile-name=common chain second");
	answer = ask_chain(NULL, NULL);
	assert_null(strstr(answer.report.detail, "is missing"));
	check_full(&answer, "chain");
	/* By build-id. */
	snprintf(id, sizeof(id), "%s", build_id_of("common"));
	run("mkdir -p symbols/.build-id/%.2s && mv common symbols/.build-id/%.2s/%s.debug", id, id,
	    id + 2);
	answer = ask_chain(&with_dirs, NULL);
	check_full(&answer, "chain");
	/* Nowhere: lines stay, some names are missing, and that is said. */
	answer = ask_chain(NULL, NULL);
	assert_int_equal(answer.symbol.source, VC_SYMBOL_DEBUG);
	assert_non_null(strstr(answer.report.detail, "common is missing"));
	answer_end(&answer);
	/* A pipe in its place. */
	run("mkfifo common");
	answer = ask_chain(NULL, NULL);
	check_frame(&answer, 0, "outer", NULL, NULL);
	assert_int_equal(answer.symbol.source, VC_SYMBOL_TABLE);
	answer_end(&answer);
}

static void test_missing(void **state)
{
	struct answer answer;

	(void)state;
	prepare("missing", "-g");
	run("mv chain chain.hidden");
	answer = ask_chain(NULL, ID_OF_ANOTHER);
	check_place(&answer, VC_MODULE_MISSING, "");
	run("mkdir chain");
	answer = ask_chain(NULL, NULL);
	check_place(&answer, VC_MODULE_MISSING, "");
	run("rmdir chain && echo not a program > chain");
	answer = ask_chain(NULL, NULL);
	check_place(&answer, VC_MODULE_UNREADABLE, "");
	run(": > chain");
	answer = ask_chain(NULL, NULL);
	check_place(&answer, VC_MODULE_UNREADABLE, "");
}

/* The variable that makes other readers ask a server is set, and nobody calls. */
static void test_no_network(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd waiting = {.fd = server, .events = POLLIN};
	socklen_t length = sizeof(address);
	struct answer answer;
	char url[64];

	(void)state;
	prepare("no_network", "-g");
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(server, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&address, &length), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(address.sin_port));
	assert_int_equal(setenv("DEBUGINFOD_URLS", url, 1), 0);
	assert_int_equal(setenv("DEBUGINFOD_TIMEOUT", "2", 1), 0);
	answer = ask_chain(NULL, build_id_of("chain"));
	check_table(&answer, "");
	run("rm chain");
	answer = ask_chain(NULL, build_id_of("chain.full"));
	check_place(&answer, VC_MODULE_MISSING, "");
	assert_int_equal(poll(&waiting, 1, 0), 0);
	assert_int_equal(unsetenv("DEBUGINFOD_URLS"), 0);
	close(server);
}

/* A pipe nobody writes to must not be waited for. */
static void test_special_files(void **state)
{
	struct answer answer;

	(void)state;
	prepare("special", "-g");
	run("mv chain chain.stripped && mkfifo chain");
	answer = ask_chain(NULL, NULL);
	check_place(&answer, VC_MODULE_MISSING, "");
	run("rm chain && mv chain.stripped chain && mkfifo symbols/chain.debug");
	answer = ask_chain(&with_dirs, NULL);
	check_table(&answer, "");
	/* The same for the files that split debug information names. */
	prepare("special_split", "-g -gsplit-dwarf");
	run("cp chain.full chain && for f in *.dwo; do rm $f && mkfifo $f || exit 1; done");
	answer = ask_chain(NULL, NULL);
	assert_int_equal(answer.symbol.source, VC_SYMBOL_DEBUG);
	check_frame(&answer, 0, "outer", "chain.c", "innermost");
	answer_end(&answer);
}

/* Split debug information that is not there, or packed: lines are known, and what is missing said. */
static void test_split_missing(void **state)
{
	struct answer answer;

	(void)state;
	prepare("split_missing", "-g -gsplit-dwarf");
	run("cp chain.full chain && mkdir away && mv *.dwo away");
	answer = ask_chain(NULL, NULL);
	check_frame(&answer, 0, "outer", "chain.c", "innermost");
	assert_non_null(strstr(answer.report.detail, ".dwo: split debug information, not found"));
	answer_end(&answer);
	if (!have_tool("dwp"))
		return;
	run("dwp -o chain.dwp away/*.dwo");
	answer = ask_chain(NULL, NULL);
	check_frame(&answer, 0, "outer", "chain.c", "innermost");
	assert_non_null(strstr(answer.report.detail,
			       "chain.dwp: split debug information in a package is not read"));
	answer_end(&answer);
	run("mv away/*.dwo . && rm chain.dwp");
	answer = ask_chain(NULL, NULL);
	assert_int_equal(answer.symbol.count, 3);
	assert_string_equal(answer.report.detail, "the recorded build-id is not known");
	answer_end(&answer);
}

static void test_stripped(void **state)
{
	unsigned long offset, start;
	struct answer answer;
	char name[64];

	(void)state;
	prepare("stripped", "-g");
	run("strip -s chain");
	offset = marked_offset("chain", "chain");
	start = marked_offset("chain", "start_of_outer");
	snprintf(name, sizeof(name), "chain!fn@0x%lx+0x%lx", start, offset - start);
	answer = ask_chain(NULL, NULL);
	assert_int_equal(answer.symbol.source, VC_SYMBOL_UNWIND);
	check_frame(&answer, 0, name, NULL, NULL);
	assert_int_equal(answer.report.state, VC_MODULE_STRIPPED);
	assert_non_null(answer.report.path);
	answer_end(&answer);
	/* C++ unwind entries name a personality routine before the encoding that is looked for. */
	run("cp '%s' copy.cc && g++ -w -O2 -fPIE -pie -DVC_PIE=1 -I%s/programs -o cc copy.cc",
	    source_path("templates.cc"), VC_TEST_SOURCE);
	run("./cc > cc.marks && strip -s cc");
	answer = ask(NULL, "cc", NULL, marked_offset("cc", "template"));
	assert_int_equal(answer.symbol.source, VC_SYMBOL_UNWIND);
	answer_end(&answer);
}

/* A name is never that of the nearest symbol. */
static void test_not_nearest(void **state)
{
	unsigned long offset;
	struct answer answer;
	char name[64];

	(void)state;
	prepare("not_nearest", "-g");
	offset = marked_offset("chain", "unsized");
	snprintf(name, sizeof(name), "chain+0x%lx", offset);
	answer = ask(NULL, "chain.full", NULL, offset);
	assert_int_equal(answer.symbol.source, VC_SYMBOL_OFFSET);
	answer_end(&answer);
	answer = ask(NULL, "chain", NULL, offset);
	assert_int_equal(answer.symbol.source, VC_SYMBOL_OFFSET);
	check_frame(&answer, 0, name, NULL, NULL);
	assert_int_equal(answer.report.state, VC_MODULE_TABLE);
	answer_end(&answer);
	/* A return address where a function starts is of a call in what lies before it. */
	answer = ask(NULL, "chain.full", NULL, marked_offset("chain", "start_of_outer"));
	for (size_t i = 0; i < answer.symbol.count; i++) {
		const char *function = answer.symbol.frames[i].function;

		assert_true(!function || strcmp(function, "outer"));
	}
	answer_end(&answer);
}

static void test_sysroot(void **state)
{
	struct vc_symbols_options options = {.sysroot = "root"};
	struct answer answer;
	uint64_t offset;
	char path[512];

	(void)state;
	prepare("sysroot", "-g");
	offset = marked_offset("chain", "chain");
	run("mkdir -p root/opt && cp chain.full root/opt/chain");
	answer = ask(&options, "/opt/chain", NULL, offset);
	assert_string_equal(answer.report.path, "root/opt/chain");
	check_full(&answer, "root/opt/chain");
	answer = ask(NULL, "/opt/chain", NULL, offset);
	check_place(&answer, VC_MODULE_MISSING, "");
	run("cp chain root/opt/chain");
	place_by_build_id("chain.full", "root/usr/lib/debug");
	snprintf(path, sizeof(path), "root/usr/lib/debug/.build-id/%.2s/%s.debug",
		 build_id_of("chain"), build_id_of("chain") + 2);
	answer = ask(&options, "/opt/chain", NULL, offset);
	check_full(&answer, path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_build_id),	  cmocka_unit_test(test_by_name),
		cmocka_unit_test(test_by_link),		  cmocka_unit_test(test_link_with_build_id),
		cmocka_unit_test(test_other_build_id),	  cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_shared_debug_file), cmocka_unit_test(test_missing),
		cmocka_unit_test(test_no_network),	  cmocka_unit_test(test_special_files),
		cmocka_unit_test(test_split_missing),
		cmocka_unit_test(test_stripped),	  cmocka_unit_test(test_not_nearest),
		cmocka_unit_test(test_sysroot),
	};

	if (!have_tool("gcc") || !have_tool("g++") || !have_tool("objcopy") ||
	    !have_tool("strip") || !have_tool("readelf"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
