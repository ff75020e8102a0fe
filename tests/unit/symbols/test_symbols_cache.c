/* SPDX-License-Identifier: Apache-2.0 */
/* Names kept for the next run, and debug files asked for: what is believed, what is left alone. */
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[4096], id[256], kept[8192];
static struct vc_symbols_options options;

/* ./chain with debug information, and an empty place for the folder. */
static void prepare(const char *directory)
{
	char here[3072];

	enter_directory(directory);
	build("gcc", "chain.c", "chain", "-g");
	snprintf(id, sizeof(id), "%s", build_id_of("chain"));
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(folder, sizeof(folder), "%s/above/cache", here);
	snprintf(kept, sizeof(kept), "%s/%s.names", folder, id);
	options = (struct vc_symbols_options){.cache_dir = folder};
}

static struct answer ask_chain(void)
{
	return ask(&options, "chain", id, marked_offset("chain", "chain"));
}

static void check_full(struct answer answer)
{
	assert_int_equal(answer.symbol.source, VC_SYMBOL_DEBUG);
	assert_int_equal(answer.symbol.count, 3);
	check_frame(&answer, 0, "innermost", "chain.c", "innermost");
	check_frame(&answer, 1, "middle", "chain.c", "middle");
	check_frame(&answer, 2, "outer", "chain.c", "outer");
	assert_int_equal(answer.report.state, VC_MODULE_DEBUG);
	assert_true(answer.report.verified);
	answer_end(&answer);
}

static void check_nothing(struct answer answer)
{
	assert_int_equal(answer.symbol.source, VC_SYMBOL_OFFSET);
	assert_int_equal(answer.report.state, VC_MODULE_MISSING);
	answer_end(&answer);
}

static mode_t mode_of(const char *path)
{
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	return status.st_mode & 07777;
}

static void test_second_run(void **state)
{
	struct answer answer;

	(void)state;
	prepare("cache_second_run");
	check_full(ask_chain());
	assert_int_equal(mode_of(kept), 0600);
	assert_int_equal(mode_of(folder), 0700);
	assert_int_equal(mode_of("above"), 0700);
	run("mv chain away");
	check_full(ask_chain());
	/* the key is the build-id, not the path */
	answer = ask(&options, "/elsewhere/program", id, marked_offset("chain", "chain"));
	check_full(answer);
	/* an address that was not asked for yet */
	answer = ask(&options, "chain", id, marked_offset("chain", "plain"));
	check_nothing(answer);
	run("mv away chain");
	answer = ask(&options, "chain", id, marked_offset("chain", "plain"));
	assert_int_equal(answer.symbol.source, VC_SYMBOL_DEBUG);
	answer_end(&answer);
	run("mv chain away");
	answer = ask(&options, "chain", id, marked_offset("chain", "plain"));
	assert_int_equal(answer.symbol.source, VC_SYMBOL_DEBUG);
	check_frame(&answer, 0, "plain", "chain.c", "plain");
	answer_end(&answer);
	check_full(ask_chain()); /* both are there now */
	run("[ $(ls %s | wc -l) = 1 ]", folder);
}

static void test_only_what_is_certain(void **state)
{
	struct answer answer;

	(void)state;
	prepare("cache_certain");
	/* no build-id known, another build-id, no debug information, no folder */
	answer = ask(&options, "chain", NULL, marked_offset("chain", "chain"));
	answer_end(&answer);
	answer = ask(&options, "chain", "00112233445566778899", marked_offset("chain", "chain"));
	answer_end(&answer);
	run("cp chain full && strip -g chain");
	answer = ask(&options, "chain", id, marked_offset("chain", "chain"));
	assert_int_equal(answer.symbol.source, VC_SYMBOL_TABLE);
	answer_end(&answer);
	run("mv full chain");
	options.cache_dir = NULL;
	check_full(ask_chain());
	options.cache_dir = "relative";
	check_full(ask_chain());
	run("[ ! -e above ] && [ ! -e relative ]");
	/* a build-id is part of a name: it must not lead anywhere */
	options.cache_dir = folder;
	answer = ask(&options, "chain", "../../../../tmp/12345678", 16);
	answer_end(&answer);
	run("[ ! -e above ]");
}

static void test_foreign_folders(void **state)
{
	(void)state;
	prepare("cache_foreign");
	run("mkdir -m 700 above && mkdir -m 777 above/cache");
	run("chmod 777 above/cache");
	check_full(ask_chain());
	run("[ -z \"$(ls above/cache)\" ]");
	run("rmdir above/cache && mkdir -m 700 other && ln -s ../other above/cache");
	check_full(ask_chain());
	run("[ -z \"$(ls other)\" ]");
	run("rm above/cache && mkdir -m 700 above/cache");
	check_full(ask_chain());
	run("mv chain away && chmod 622 %s", kept);
	check_nothing(ask_chain());
	run("chmod 600 %s && mv %s kept && ln -s ../../kept %s", kept, kept, kept);
	check_nothing(ask_chain());
	run("rm %s && mkfifo -m 600 %s", kept, kept);
	check_nothing(ask_chain());
	run("rm %s && mv kept %s", kept, kept);
	check_full(ask_chain());
}

/* Any byte changed, any end cut off: it is as if nothing was kept. */
static void test_damage(void **state)
{
	static unsigned char whole[65536];
	size_t length;
	FILE *file;

	(void)state;
	prepare("cache_damage");
	check_full(ask_chain());
	run("mv chain away");
	file = fopen(kept, "r");
	assert_non_null(file);
	length = fread(whole, 1, sizeof(whole), file);
	fclose(file);
	assert_in_range(length, 100, sizeof(whole) - 1);
	for (size_t at = 0; at < length; at++) {
		file = fopen(kept, "r+");
		assert_non_null(file);
		fseek(file, (long)at, SEEK_SET);
		fputc(whole[at] ^ 0x41, file);
		fclose(file);
		check_nothing(ask_chain());
		file = fopen(kept, "w");
		fwrite(whole, 1, at, file);
		fclose(file);
		check_nothing(ask_chain());
		file = fopen(kept, "w");
		fwrite(whole, 1, length, file);
		fclose(file);
	}
	check_full(ask_chain());
	/* and a damaged one is replaced */
	run("mv away chain && echo damage > %s", kept);
	check_full(ask_chain());
	run("mv chain away");
	check_full(ask_chain());
}

static void test_bounds(void **state)
{
	(void)state;
	prepare("cache_bounds");
	run("mkdir -p -m 700 above/cache && cd above/cache && for i in 1 2 3; do "
	    "head -c 10000 /dev/zero > 000000000$i.names; "
	    "touch -d \"2020-01-0$i\" 000000000$i.names; done; "
	    "touch old.part other; touch -d 2020-01-01 old.part; touch new.part");
	options.cache_bytes = 25000;
	check_full(ask_chain());
	/* the two newest of the three and the new one fit; what is not ours is left alone */
	run("cd above/cache && [ ! -e 0000000001.names ] && [ -e 0000000002.names ] && "
	    "[ -e 0000000003.names ] && [ -e other ] && [ ! -e old.part ] && [ -e new.part ]");
	run("[ -e %s ]", kept);
}

/* ---- debuginfod-find ---- */

static void place_program(const char *script)
{
	run("mkdir -p bin && printf '%%s\\n' '#!/bin/sh' '%s' > bin/debuginfod-find && "
	    "chmod 755 bin/debuginfod-find",
	    script);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check_refused(const char *why)
{
	double start = seconds();
	struct answer answer = ask_chain();

	assert_int_equal(answer.symbol.source, VC_SYMBOL_TABLE);
	if (!strstr(answer.report.detail, why))
		fail_msg("\"%s\" lacks \"%s\"", answer.report.detail, why);
	assert_true(seconds() - start < 3);
	answer_end(&answer);
}

static void test_asking(void **state)
{
	char here[4096], path[16384], *old = strdup(getenv("PATH"));

	(void)state;
	prepare("asking");
	options = (struct vc_symbols_options){0};
	run("cp chain full && strip -g chain");
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(path, sizeof(path), "%s/bin:%s", here, old);
	setenv("PATH", path, 1);
	place_program("echo \"$@\" >> asked; echo $PWD/full");
	check_refused(""); /* not asked for */
	run("[ ! -e asked ]");
	options.debuginfod = true;
	check_full(ask_chain());
	run("[ \"$(cat asked)\" = \"debuginfo %s\" ]", id);
	place_program("echo $PWD/chain"); /* the file itself */
	check_refused("");
	place_program("gcc -x c -shared -o foreign -g /dev/null; echo $PWD/foreign");
	check_refused("its build-id differs");
	place_program("echo nothing; exit 1");
	check_refused("debuginfod-find: has none");
	place_program("exec sleep 20");
	check_refused("debuginfod-find: no answer in 2 s");
	place_program("exec >&-; exec sleep 20");
	check_refused("debuginfod-find: no answer in 2 s");
	place_program("exec yes");
	check_refused("debuginfod-find: has none");
	run("rm bin/debuginfod-find");
	if (system("command -v debuginfod-find >/dev/null"))
		check_refused("debuginfod-find: not installed");
	setenv("PATH", old, 1);
	free(old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_run),	cmocka_unit_test(test_only_what_is_certain),
		cmocka_unit_test(test_foreign_folders), cmocka_unit_test(test_damage),
		cmocka_unit_test(test_bounds),		cmocka_unit_test(test_asking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
