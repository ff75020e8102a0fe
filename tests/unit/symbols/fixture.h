/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the symbol reader share: building sample programs, running them for the
 * offsets they print, finding lines by their marks, and asking a session about one offset.
 *
 * Everything is made in a directory of the test's own, which is the working directory. Failures
 * of a step fail the test at hand.
 */
#ifndef VC_TEST_SYMBOLS_FIXTURE_H
#define VC_TEST_SYMBOLS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/symbols.h"

/** Makes "name" afresh below the build directory and moves there. */
void enter_directory(const char *name);

/** True if a program is found in PATH; says so loudly if not. */
bool have_tool(const char *tool);

/** Runs a shell command, which must succeed. */
void run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Path of a sample program's source; static storage, valid until the next call. */
const char *source_path(const char *name);

/** Builds SOURCE to ./OUTPUT with the compiler and flags given, position independent. */
void build(const char *compiler, const char *source, const char *output, const char *flags);

/** Runs the program as it was when built, and returns the offset it prints for a mark. */
uint64_t marked_offset(const char *program, const char *mark);

/** Number of the line of a sample source that is marked LINE `mark`. */
uint32_t marked_line(const char *source, const char *mark);

/** Build-id of a file by readelf; static storage, valid until the next call. */
const char *build_id_of(const char *path);

/** What a session said about one offset; the strings live until `answer_end`. */
struct answer {
	struct vc_symbols *session;
	struct vc_symbol symbol;
	struct vc_module_report report;
};

/** Options and build_id may be NULL. */
struct answer ask(const struct vc_symbols_options *options, const char *path, const char *build_id,
		  uint64_t offset);
void answer_end(struct answer *answer);

/** Checks one frame; line_mark NULL: no file and line expected. */
void check_frame(const struct answer *answer, size_t index, const char *function,
		 const char *source, const char *line_mark);

#endif
