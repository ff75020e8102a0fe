/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/resolver.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct state {
	struct vc_resolver resolver;
	struct vc_symbols *symbols;
	struct timespec start;
	bool said;            /* a line of progress stands on the terminal */
};

static int want(void *context, uint32_t module, const char *path, const char *build_id,
		uint64_t offset)
{
	struct vc_module_key key = {.path = path, .build_id = build_id};

	return vc_symbols_want(((struct state *)context)->symbols, module, &key, offset);
}

/** On a terminal, and only when it takes more than a second. */
static void progress(void *context, uint64_t done, uint64_t total)
{
	struct state *state = context;
	struct timespec now;

	double seconds;

	clock_gettime(CLOCK_MONOTONIC, &now);
	seconds = (double)(now.tv_sec - state->start.tv_sec) +
		  (double)(now.tv_nsec - state->start.tv_nsec) / 1e9;
	if (seconds <= 1 || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\rvramcore: finding names: %llu of %llu addresses ",
		(unsigned long long)done, (unsigned long long)total);
	state->said = true;
}

static int resolve(void *context)
{
	struct state *state = context;
	int error;

	clock_gettime(CLOCK_MONOTONIC, &state->start);
	error = vc_symbols_resolve(state->symbols, progress, state);
	if (state->said)
		fprintf(stderr, "\r\033[K");
	state->said = false;
	return error;
}

static int get(void *context, uint32_t module, uint64_t offset, size_t index,
	       struct vc_frame_name *ret)
{
	const struct state *state = context;
	const struct vc_source_frame *frame;
	struct vc_symbol symbol;
	int error = vc_symbols_get(state->symbols, module, offset, &symbol);

	if (error)
		return error;
	/* a place in a file is no name: it is written from module and offset where it is needed */
	if (symbol.source > VC_SYMBOL_TABLE || index >= symbol.count)
		return VC_E_NOT_FOUND;
	frame = &symbol.frames[index];
	ret->function = frame->function;
	ret->file = frame->file;
	ret->line = frame->line;
	ret->inlined = frame->inlined;
	return 0;
}

static const char *lacks(void *context, uint32_t module, const char **ret_detail)
{
	const struct state *state = context;
	struct vc_module_report report;

	if (vc_symbols_module_report(state->symbols, module, &report) ||
	    report.state == VC_MODULE_DEBUG)
		return NULL;
	*ret_detail = report.detail ? report.detail : "";
	return vc_module_state_text(report.state);
}

int vc_resolver_create(const struct vc_symbols_options *options, struct vc_resolver **ret)
{
	struct state *state = calloc(1, sizeof(*state));
	int error;

	if (!state)
		return VC_E_NO_MEMORY;
	error = vc_symbols_create(options, &state->symbols);
	if (error) {
		free(state);
		return error;
	}
	state->resolver = (struct vc_resolver){state, want, resolve, get, lacks};
	*ret = &state->resolver;
	return 0;
}

void vc_resolver_destroy(struct vc_resolver *resolver)
{
	struct state *state = resolver ? resolver->context : NULL;

	if (state)
		vc_symbols_destroy(state->symbols);
	free(state);
}
