/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real_driver alone|recorded: asks a real driver library for every row of hooks.def that it exports, by
 * dlsym and by cuGetProcAddress, and calls cuInit. Alone it must get the library's own functions;
 * recorded it must get others, the same ones both ways. Prints what it found and what cuInit gave.
 *
 * It gives up root's rights before cuInit, which would make device nodes with them.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture/cuda_abi.h"
#include "capture/inside/loader.h"

#define NOBODY 65534

static const char *const row[] = {
#define VC_HOOK(symbol, parameters, arguments, effect, ...) #symbol,
#define VC_HOOK_OWN(symbol, parameters, arguments) #symbol,
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
};

/* The request that makes cuGetProcAddress give an exported symbol. */
static const struct {
	const char *exported, *base;
	int version;
	uint64_t flags;
} request[] = {
#define PLAIN 0
#define THREAD 2
#define SIM_SYMBOL(exported, base, version, mode) {#exported, #base, version, mode},
#include "symbols.def"
#undef SIM_SYMBOL
};

static int (*ask)(const char *, void **, int, uint64_t, int *);
static int failures;

static void *asked(const char *name)
{
	void *function = NULL;
	int status;

	for (size_t i = 0; i < sizeof(request) / sizeof(request[0]); i++)
		if (!strcmp(request[i].exported, name) &&
		    ask(request[i].base, &function, request[i].version, request[i].flags, &status))
			return NULL;
	return function;
}

static void check(const char *name, void *own, void *driver, bool recorded)
{
	void *named = dlsym(driver, name), *given = asked(name);

	if (named == given && (named == own) == !recorded)
		return;
	printf("%s: the library has %p, dlsym gives %p, cuGetProcAddress %p\n", name, own, named,
	       given);
	failures++;
}

int main(int argc, char **argv)
{
	bool recorded = argc > 1 && !strcmp(argv[1], "recorded");
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	struct vc_object object;
	int (*init)(unsigned int);
	int exported = 0;

	if (!driver) {
		printf("%s\n", dlerror());
		return 1;
	}
	object = (struct vc_object){((struct link_map *)driver)->l_addr,
				    ((struct link_map *)driver)->l_ld, ""};
	*(void **)&ask = dlsym(driver, "cuGetProcAddress_v2");
	*(void **)&init = dlsym(driver, "cuInit");
	if (!ask || !init)
		return 1;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		void *own = vc_object_symbol(&object, row[i]);

		if (!own)
			continue;
		exported++;
		/* There is no request that gives the first of these. */
		if (strcmp(row[i], "cuGetProcAddress") != 0)
			check(row[i], own, driver, recorded);
	}
	if (!geteuid() && (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
		return 1;
	printf("%d exports, cuInit gives %d\n", exported, init(0));
	return failures || exported < 100;
}
