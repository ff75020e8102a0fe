/* SPDX-License-Identifier: Apache-2.0 */
/* How chains of callers are written; see names.h. */
#include <stdlib.h>
#include <string.h>

#include "analyze/names.h"
#include "analyze/source_frame.h"
#include "analyze/text.h"

enum {
	CALLERS_SHOWN = 3,       /* at most; the width decides */
	FUNCTION_COLUMNS = 48,   /* where longer, template arguments are left out */
	PATH_COMPONENTS = 2,     /* least components of a path that are kept */
	PATH_COMPONENTS_MOST = 4,
};

/* ---- paths ---- */

static bool is_separator(char character)
{
	return character == '/' || character == '\\';
}

/** "/home/..." or "C:\..." */
static bool is_absolute(const char *file)
{
	return *file == '/' || (file[0] && file[1] == ':' && is_separator(file[2]));
}

void vc_path_prefix_deinit(struct vc_path_prefix *prefix)
{
	free(prefix->text);
	*prefix = (struct vc_path_prefix){0};
}

void vc_path_prefix_add(struct vc_path_prefix *prefix, const struct vc_chain *chain)
{
	if (chain->forward)
		vc_path_prefix_add(prefix, chain->forward);
	for (uint32_t i = chain->shown; i < chain->count; i++) {
		const char *file = chain->frames[i]->file;
		size_t common = 0;

		if (chain->frames[i]->owner != VC_OWNER_USER || !file || !is_absolute(file))
			continue;
		if (!prefix->text) {
			prefix->length = (size_t)(vc_path_name(file) - file);
			prefix->text = strndup(file, prefix->length);
			if (!prefix->text)
				prefix->length = 0;
			continue;
		}
		for (size_t j = 0; j < prefix->length && prefix->text[j] == file[j]; j++)
			if (is_separator(file[j]))
				common = j + 1;
		prefix->length = common;
	}
}

/** The start of the last `count` components. */
static const char *last_components(const char *path, unsigned count)
{
	const char *start = path + strlen(path);

	while (start > path) {
		if (is_separator(start[-1]) && --count == 0)
			break;
		start--;
	}
	return start;
}

static const char *short_path(const char *file, const struct vc_path_prefix *prefix)
{
	const char *least = last_components(file, PATH_COMPONENTS);
	const char *most = last_components(file, PATH_COMPONENTS_MOST);
	const char *rest = file;

	if (prefix && prefix->text && !strncmp(file, prefix->text, prefix->length))
		rest = file + prefix->length;
	if (rest > least)
		rest = least;
	return rest < most ? most : rest;
}

/* ---- functions ---- */

/** Length of a demangled name without its arguments; start of it after the type it returns. */
static size_t without_arguments(const char **function)
{
	const char *start = *function, *end = NULL;
	int templates = 0;

	for (const char *p = start; *p; p++) {
		if (!strncmp(p, "operator", 8)) {
			/* its name may hold any of these characters */
			p += 8;
			while (*p && *p != '(')
				p++;
			if (!strncmp(p, "()", 2))
				p += 2;
			end = p;
			break;
		}
		if (!strncmp(p, "(anonymous namespace)", 21)) {
			p += 20;
		} else if (*p == '<' || *p == '{') {
			templates++; /* a lambda is "{lambda(int)#1}" */
		} else if (*p == '>' || *p == '}') {
			templates--;
		} else if (!templates && *p == '(' && p > start) {
			end = p;
			break;
		} else if (!templates && *p == ' ' && p[1] && p[1] != '(' && p[1] != '[') {
			start = p + 1;
		}
	}
	*function = start;
	return end ? (size_t)(end - start) : strlen(start);
}

static void add_function(struct vc_text *text, const char *function)
{
	size_t length = without_arguments(&function);
	int templates = 0;

	if (length <= FUNCTION_COLUMNS || !memchr(function, '<', length)) {
		vc_text_bytes_raw(text, function, length);
		return;
	}
	for (size_t i = 0; i < length; i++) {
		templates -= function[i] == '>';
		if (templates <= 0)
			vc_text_bytes_raw(text, &function[i], 1);
		templates += function[i] == '<';
	}
}

static void add_offset(struct vc_text *text, const struct vc_frame_name *frame)
{
	if (*frame->module)
		vc_text_add(text, "%s+0x%llx", vc_path_name(frame->module),
			    (unsigned long long)frame->offset);
	else
		vc_text_add(text, "0x%llx outside every loaded file",
			    (unsigned long long)frame->offset);
}

void vc_frame_text(struct vc_text *text, const struct vc_frame_name *frame,
		   const struct vc_path_prefix *prefix)
{
	if (frame->file && frame->line)
		vc_text_add(text, "%s:%u  ", short_path(frame->file, prefix), frame->line);
	if (frame->function && frame->verbatim)
		vc_text_add(text, "%s", frame->function);
	else if (frame->function)
		add_function(text, frame->function);
	else if (!frame->file || !frame->line)
		add_offset(text, frame);
	if (frame->owner == VC_OWNER_LIBRARY)
		vc_text_add(text, " (%s)", frame->library);
	else if (frame->function && !frame->file && *frame->module &&
		 !strchr(frame->function, '+'))
		vc_text_add(text, " (%s)", vc_path_name(frame->module));
}

static void add_caller(struct vc_text *text, const struct vc_frame_name *frame,
		       const struct vc_frame_name *before, bool last)
{
	bool same_file = before->file && frame->file && !strcmp(before->file, frame->file);

	vc_text_add(text, "  <- ");
	if (!frame->function) {
		vc_frame_text(text, frame, NULL);
		return;
	}
	if (frame->file && frame->line && (last || !same_file))
		vc_text_add(text, "%s:%u ", vc_path_name(frame->file), frame->line);
	if (frame->verbatim)
		vc_text_add(text, "%s", frame->function);
	else
		add_function(text, frame->function);
}

/**
 * In a dump of PyTorch's allocator everything goes through PyTorch, and a line of Python that
 * allocates nearly always does: it need not be said.
 */
static bool is_expected(const struct vc_frame_name *frame, const struct vc_frame_name *user)
{
	return (!*frame->module || user->verbatim) &&
	       (!strcmp(frame->library, "PyTorch") || !strcmp(frame->library, "Python"));
}

/** The first library that the user's code went through, outermost; NULL none. */
static const char *through_library(const struct vc_chain *chain)
{
	for (uint32_t i = chain->user; chain->has_user && i-- > 0;)
		if (chain->frames[i]->owner == VC_OWNER_LIBRARY &&
		    !is_expected(chain->frames[i], chain->frames[chain->user]))
			return chain->frames[i]->library;
	return NULL;
}

/** The user's own native code that a line of Python called. */
static void add_native(struct vc_text *text, const struct vc_frame_name *frame)
{
	vc_text_add(text, " (in ");
	if (frame->function)
		add_function(text, frame->function);
	else
		add_offset(text, frame);
	if (frame->function && frame->file && frame->line)
		vc_text_add(text, " %s:%u", vc_path_name(frame->file), frame->line);
	vc_text_add(text, ")");
}

/** "AddmmBackward0" of "torch::autograd::generated::AddmmBackward0::apply(...)": a node that ran. */
static bool add_node(struct vc_text *text, const struct vc_frame_name *frame)
{
	static const char engine[] = "torch::autograd::", generated[] = "generated::",
			  apply[] = "::apply";
	const char *function = frame->function;
	size_t length = function ? without_arguments(&function) : 0;

	if (frame->owner != VC_OWNER_LIBRARY || length < sizeof(engine) + sizeof(generated) ||
	    strncmp(function, engine, sizeof(engine) - 1))
		return false;
	function += sizeof(engine) - 1;
	length -= sizeof(engine) - 1;
	if (!strncmp(function, generated, sizeof(generated) - 1)) {
		function += sizeof(generated) - 1;
		length -= sizeof(generated) - 1;
	}
	if (length > sizeof(apply) - 1 &&
	    !memcmp(function + length - (sizeof(apply) - 1), apply, sizeof(apply) - 1))
		length -= sizeof(apply) - 1;
	vc_text_bytes_raw(text, function, length);
	return true;
}

static bool user_after(const struct vc_chain *chain, uint32_t frame)
{
	while (++frame < chain->count)
		if (chain->frames[frame]->owner == VC_OWNER_USER)
			return true;
	return false;
}

static void add_callers(struct vc_text *text, const struct vc_chain *chain)
{
	const struct vc_frame_name *before = chain->frames[chain->shown];
	unsigned callers = 0;

	for (uint32_t i = chain->shown + 1; i < chain->count && callers < CALLERS_SHOWN; i++) {
		const struct vc_frame_name *frame = chain->frames[i];

		if (frame->owner != VC_OWNER_USER)
			continue;
		callers++;
		add_caller(text, frame, before, callers == CALLERS_SHOWN || !user_after(chain, i));
		before = frame;
	}
}

/** Where the node was made: what the program has to do with it, where its own code is not there. */
static void add_forward(struct vc_text *text, const struct vc_chain *chain,
			const struct vc_path_prefix *prefix)
{
	const struct vc_chain *forward = chain->forward;

	vc_text_add(text, "  of forward ");
	vc_frame_text(text, forward->frames[forward->shown], prefix);
	if (!chain->has_user)
		add_callers(text, forward);
}

void vc_chain_text(struct vc_text *text, const struct vc_chain *chain,
		   const struct vc_path_prefix *prefix)
{
	bool forward = chain->forward && chain->forward->count;
	const struct vc_frame_name *shown;
	const char *library = through_library(chain);

	if (!chain->count) {
		vc_text_add(text, "(no stack)");
		return;
	}
	shown = chain->frames[chain->shown];
	if (!forward || chain->has_user || !add_node(text, shown))
		vc_frame_text(text, shown, prefix);
	if (library)
		vc_text_add(text, " (in %s)", library);
	else if (chain->native_user && chain->shown == chain->user)
		add_native(text, chain->frames[chain->native_user - 1]);
	add_callers(text, chain);
	if (forward)
		add_forward(text, chain, prefix);
}
