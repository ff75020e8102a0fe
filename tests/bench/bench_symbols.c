/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time to name addresses of a file, and their names on request, to set beside other symbolizers.
 *
 * Addresses come on standard input, one a line in hexadecimal, and are looked up as they are (not
 * as return addresses). The printed form is one line each: the address, then per frame, innermost
 * first, "linkage name file:line", divided by tabs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "analyze/symbols.h"

struct list {
	uint64_t *addresses;
	size_t count, capacity;
};

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int read_addresses(struct list *list)
{
	uint64_t address;

	while (scanf("%" SCNx64, &address) == 1) {
		if (list->count == list->capacity) {
			size_t capacity = list->capacity ? list->capacity * 2 : 1024;
			void *grown = reallocarray(list->addresses, capacity, sizeof(address));

			if (!grown)
				return -1;
			list->addresses = grown;
			list->capacity = capacity;
		}
		list->addresses[list->count++] = address;
	}
	return 0;
}

static void print(const struct vc_symbols *symbols, uint64_t address)
{
	struct vc_symbol symbol;

	if (vc_symbols_get(symbols, 0, address + 1, &symbol))
		return;
	printf("0x%" PRIx64, address);
	for (size_t i = 0; i < symbol.count; i++) {
		const struct vc_source_frame *frame = &symbol.frames[i];
		const char *name = frame->linkage_name ? frame->linkage_name : frame->function;

		printf("\t%s %s:%" PRIu32, name ? name : "??", frame->file ? frame->file : "??",
		       frame->line);
	}
	putchar('\n');
}

static void summarize(const struct vc_symbols *symbols, const struct list *list, double taken)
{
	struct vc_module_report report;
	struct rusage usage;

	if (vc_symbols_module_report(symbols, 0, &report))
		return;
	getrusage(RUSAGE_SELF, &usage);
	fprintf(stderr,
		"%zu addresses in %.3f s (%.2f us each), peak %ld MiB: %s; "
		"debug %" PRIu64 ", symbol %" PRIu64 ", unwind %" PRIu64 ", offset %" PRIu64
		"%s%s\n",
		list->count, taken, list->count ? taken * 1e6 / (double)list->count : 0,
		usage.ru_maxrss / 1024, vc_module_state_text(report.state),
		report.by_source[VC_SYMBOL_DEBUG], report.by_source[VC_SYMBOL_TABLE],
		report.by_source[VC_SYMBOL_UNWIND], report.by_source[VC_SYMBOL_OFFSET],
		report.detail[0] ? "; " : "", report.detail);
}

int main(int count, char **arguments)
{
	struct vc_module_key key = {.path = count > 1 ? arguments[1] : NULL};
	struct vc_symbols_options options = {0};
	const char *debug_dir = getenv("DEBUG_DIR");
	struct vc_symbols *symbols;
	struct list list = {0};
	double start, taken;
	int error = 0;

	if (count < 2 || (count > 2 && strcmp(arguments[2], "--print"))) {
		fprintf(stderr, "usage: [DEBUG_DIR=...] [CACHE_DIR=... BUILD_ID=...] %s FILE [--print] "
			"< addresses\n",
			arguments[0]);
		return 64;
	}
	options.debug_dirs = &debug_dir;
	options.debug_dir_count = debug_dir != NULL;
	options.cache_dir = getenv("CACHE_DIR");
	key.build_id = getenv("BUILD_ID");
	if (read_addresses(&list) || vc_symbols_create(&options, &symbols))
		return 2;
	start = seconds();
	for (size_t i = 0; i < list.count && !error; i++)
		error = vc_symbols_want(symbols, 0, &key, list.addresses[i] + 1);
	if (!error)
		error = vc_symbols_resolve(symbols, NULL, NULL);
	taken = seconds() - start;
	for (size_t i = 0; i < list.count && !error && count > 2; i++)
		print(symbols, list.addresses[i]);
	summarize(symbols, &list, taken);
	vc_symbols_destroy(symbols);
	free(list.addresses);
	return error ? 2 : 0;
}
