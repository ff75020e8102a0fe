/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/source_frame.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/cell.h"
#include "analyze/model.h"

const char *vc_path_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/' || *path == '\\')
			name = path + 1;
	return name;
}

/** What follows `part` in a path, where \ counts as /; NULL where it is not in it. */
static const char *after_part(const char *path, const char *part)
{
	size_t length = strlen(part);

	for (; *path; path++) {
		size_t i = 0;

		while (i < length && (path[i] == part[i] || (path[i] == '\\' && part[i] == '/')))
			i++;
		if (i == length)
			return path + length;
	}
	return NULL;
}

/** Installed packages lie below one of these; what follows is the package. */
static const char *package_of(const char *file)
{
	const char *package = after_part(file, "/site-packages/"), *next;

	if (!package)
		package = after_part(file, "/dist-packages/");
	/* a virtual environment inside another's packages: the innermost counts */
	while (package && ((next = after_part(package, "/site-packages/")) ||
			   (next = after_part(package, "/dist-packages/"))))
		package = next;
	return package;
}

/** "lib/python3.11/" before the rest: the interpreter's own library. */
static bool is_standard_library(const char *file)
{
	const char *after = after_part(file, "/lib/python");

	if (after && isdigit((unsigned char)*after))
		return true;
	after = after_part(file, "/Lib/"); /* Windows */
	return after && !strchr(after, '\\') && strstr(file, "ython");
}

static bool is_python(const char *file)
{
	size_t length = strlen(file);

	return (length > 3 && !strcmp(file + length - 3, ".py")) || *file == '<' ||
	       strstr(file, "ipykernel") || strstr(file, ".pyx") || strstr(file, ".ipynb");
}

static bool begins(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

static void set_owner(struct vc_frame_name *frame, enum vc_owner owner, const char *library)
{
	frame->owner = owner;
	frame->library = library;
}

/** Functions of the allocator and of what gathered the stack: in every stack, they say nothing. */
static bool is_allocator(const char *function)
{
	static const char *const part[] = {
		"torch::unwind", "torch::CapturedTraceback", "torch::cuda::(anonymous",
		"c10::cuda::", "c10::CachingAllocator", "at::detail::empty", "c10::StorageImpl",
		"at::detail::_empty", "c10::intrusive_ptr<c10::StorageImpl",
	};

	for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++)
		if (begins(function, part[i]))
			return true;
	return false;
}

/** C and C++ below the interpreter: PyTorch's, or the interpreter's and the system's. */
static void own_native(struct vc_frame_name *frame)
{
	static const char *const torch[] = {"torch::", "c10::", "at::", "THP", "void at::",
					    "pybind11::", "caffe2::"};
	const char *function = frame->function ? frame->function : "";

	set_owner(frame, VC_OWNER_SYSTEM, "native code");
	for (size_t i = 0; i < sizeof(torch) / sizeof(*torch); i++)
		if (begins(function, torch[i]))
			set_owner(frame, VC_OWNER_LIBRARY, "PyTorch");
	if (is_allocator(function))
		set_owner(frame, VC_OWNER_DRIVER, "PyTorch");
	frame->verbatim = false;
}

static int own_python(struct vc_frame_name *frame, struct vc_arena *arena)
{
	const char *package = package_of(frame->file);
	size_t length;
	char *name;

	if (!package) {
		if (begins(frame->file, "<frozen") || is_standard_library(frame->file))
			set_owner(frame, VC_OWNER_SYSTEM, "Python");
		else if (begins(frame->file, "<eval_with_key>") ||
			 strstr(frame->file, "torchinductor") || strstr(frame->file, "/.triton/"))
			set_owner(frame, VC_OWNER_LIBRARY, "compiled code");
		else
			frame->owner = VC_OWNER_USER;
		return 0;
	}
	length = strcspn(package, "/\\");
	if (begins(package, "torch") && length == 5) {
		set_owner(frame, VC_OWNER_LIBRARY, "PyTorch");
		return 0;
	}
	name = vc_arena_allocate(arena, length + 1, 1);
	if (!name)
		return VC_E_NO_MEMORY;
	memcpy(name, package, length);
	if (length > 3 && !strcmp(name + length - 3, ".py"))
		name[length - 3] = 0;
	set_owner(frame, VC_OWNER_LIBRARY, name);
	return 0;
}

/**
 * Compiled code says which lines it was made from: the last `File "model.py", line 88, in forward`
 * of the text is the user's. The frame becomes that line.
 */
static int name_compiled(struct vc_frame_name *frame, const char *source, const char *node,
			 struct vc_arena *arena)
{
	const char *last = NULL, *end, *in;
	char *file, *function;
	size_t length, room;

	for (const char *at = source; (at = strstr(at, "File \"")); at++)
		last = at + 6;
	end = last ? strstr(last, "\", line ") : NULL;
	in = end ? strstr(end, ", in ") : NULL;
	if (!in)
		return 0;
	file = vc_arena_allocate(arena, (size_t)(end - last) + 1, 1);
	length = strcspn(in + 5, "\n");
	room = length + strlen(node) + 32;
	function = vc_arena_allocate(arena, room, 1);
	if (!file || !function)
		return VC_E_NO_MEMORY;
	memcpy(file, last, (size_t)(end - last));
	snprintf(function, room, "%.*s [compiled%s%s]", (int)length, in + 5, *node ? ": " : "",
		 node);
	frame->file = file;
	frame->function = function;
	frame->line = (uint32_t)strtoul(end + 8, NULL, 10);
	return 0;
}

static int name_cell(const struct vc_tables *tables, struct vc_frame_name *frame,
		     struct vc_arena *arena)
{
	char name[VC_CELL_BYTES], *file;

	if (!vc_cell_name(tables, frame->file, name))
		return 0;
	file = vc_arena_allocate(arena, sizeof(name), 1);
	if (!file)
		return VC_E_NO_MEMORY;
	memcpy(file, name, strlen(name) + 1);
	frame->file = file;
	return 0;
}

/** What torch.compile makes of a function after a graph break: torch_dynamo_resume_in_NAME_at_LINE. */
static int name_resumed(struct vc_frame_name *frame, struct vc_arena *arena)
{
	static const char resume[] = "torch_dynamo_resume_in_";
	const char *name = frame->function ? strstr(frame->function, resume) : NULL, *at = NULL;
	size_t room;
	char *function;

	if (!name)
		return 0;
	name += sizeof(resume) - 1;
	for (const char *next = name; (next = strstr(next, "_at_")); next++)
		at = next;
	if (!at)
		return 0;
	room = strlen(name) + 40;
	function = vc_arena_allocate(arena, room, 1);
	if (!function)
		return VC_E_NO_MEMORY;
	snprintf(function, room, "%.*s [compiled, from line %s on]", (int)(at - name), name, at + 4);
	frame->function = function;
	return 0;
}

int vc_source_frame(const struct vc_tables *tables, uint64_t row, struct vc_arena *arena,
		    struct vc_frame_name *ret)
{
	const char *function = vc_string(tables, VC_COL_source_frames_function, row);
	const char *file = vc_string(tables, VC_COL_source_frames_file, row);
	const char *source = vc_string(tables, VC_COL_source_frames_fx_source, row);
	const char *node = vc_string(tables, VC_COL_source_frames_fx_name, row);
	uint64_t line = vc_value(tables, VC_COL_source_frames_line, row);
	struct vc_frame_name frame = {
		.function = *function ? function : NULL,
		.file = *file && strcmp(file, "??") ? file : NULL,
		.line = line <= UINT32_MAX ? (uint32_t)line : 0,
		.module = "", .build_id = "", .verbatim = true,
	};
	int error = 0;

	if (*source)
		error = name_compiled(&frame, source, node, arena);
	if (!error && frame.file && is_python(frame.file))
		error = own_python(&frame, arena);
	else if (!error)
		own_native(&frame);
	if (!error && frame.file)
		error = name_cell(tables, &frame, arena);
	if (!error)
		error = name_resumed(&frame, arena);
	if (!error)
		*ret = frame;
	return error;
}
