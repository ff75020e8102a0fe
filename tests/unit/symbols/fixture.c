/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void enter_directory(const char *name)
{
	char path[PATH_MAX];

	assert_int_equal(chdir(VC_TEST_BUILD), 0);
	run("rm -rf '%s' && mkdir '%s'", name, name);
	snprintf(path, sizeof(path), "%s/%s", VC_TEST_BUILD, name);
	assert_int_equal(chdir(path), 0);
}

bool have_tool(const char *tool)
{
	char command[256];
	bool found;

	snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", tool);
	found = system(command) == 0;
	if (!found)
		printf("SKIPPED, part of the test: no %s here\n", tool);
	return found;
}

void run(const char *format, ...)
{
	char command[4096];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	assert_in_range(length, 1, sizeof(command) - 1);
	if (system(command) != 0)
		fail_msg("command failed: %s", command);
}

const char *source_path(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/programs/%s", VC_TEST_SOURCE, name);
	return path;
}

void build(const char *compiler, const char *source, const char *output, const char *flags)
{
	run("%s -w -O2 -fPIE -pie -DVC_PIE=1 %s -o '%s' '%s'", compiler, flags, output,
	    source_path(source));
	run("./%s > '%s.marks'", output, output);
}

uint64_t marked_offset(const char *program, const char *mark)
{
	char path[PATH_MAX], name[64];
	uint64_t offset;
	bool found = false;
	FILE *marks;

	snprintf(path, sizeof(path), "%s.marks", program);
	marks = fopen(path, "r");
	assert_non_null(marks);
	while (!found && fscanf(marks, "%63s %" SCNx64, name, &offset) == 2)
		found = !strcmp(name, mark);
	fclose(marks);
	assert_true(found);
	return offset;
}

uint32_t marked_line(const char *source, const char *mark)
{
	FILE *file = fopen(source_path(source), "r");
	char line[512], wanted[128];
	uint32_t number = 0, found = 0;

	assert_non_null(file);
	snprintf(wanted, sizeof(wanted), "/* LINE %s */", mark);
	while (!found && fgets(line, sizeof(line), file)) {
		number++;
		if (strstr(line, wanted))
			found = number;
	}
	fclose(file);
	assert_int_not_equal(found, 0);
	return found;
}

const char *build_id_of(const char *path)
{
	static char id[256];
	char command[PATH_MAX];
	FILE *output;

	snprintf(command, sizeof(command),
		 "readelf -n '%s' 2>/dev/null | sed -n 's/.*Build ID: //p'", path);
	output = popen(command, "r");
	assert_non_null(output);
	assert_non_null(fgets(id, sizeof(id), output));
	pclose(output);
	id[strcspn(id, "\n")] = '\0';
	assert_true(strlen(id) > 8);
	return id;
}

struct answer ask(const struct vc_symbols_options *options, const char *path, const char *build_id,
		  uint64_t offset)
{
	struct vc_module_key key = {.path = path, .build_id = build_id};
	struct answer answer = {0};

	assert_int_equal(vc_symbols_create(options, &answer.session), 0);
	assert_int_equal(vc_symbols_want(answer.session, 7, &key, offset), 0);
	assert_int_equal(vc_symbols_resolve(answer.session, NULL, NULL), 0);
	assert_int_equal(vc_symbols_get(answer.session, 7, offset, &answer.symbol), 0);
	assert_int_equal(vc_symbols_module_report(answer.session, 7, &answer.report), 0);
	assert_true(answer.symbol.count > 0);
	assert_int_equal(answer.report.by_source[answer.symbol.source], 1);
	return answer;
}

void answer_end(struct answer *answer)
{
	vc_symbols_destroy(answer->session);
}

void check_frame(const struct answer *answer, size_t index, const char *function,
		 const char *source, const char *line_mark)
{
	const struct vc_source_frame *frame;

	assert_in_range(index, 0, answer->symbol.count - 1);
	frame = &answer->symbol.frames[index];
	assert_non_null(frame->function);
	assert_string_equal(frame->function, function);
	assert_int_equal(frame->inlined, index + 1 < answer->symbol.count);
	if (!line_mark) {
		assert_null(frame->file);
		assert_int_equal(frame->line, 0);
		return;
	}
	assert_non_null(frame->file);
	assert_string_equal(frame->file, source_path(source));
	assert_int_equal(frame->line, marked_line(source, line_mark));
}
