/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libvramcore-audit.so: for LD_AUDIT, where the recorder's dlsym and exports do not come first.
 *
 * The loader asks it about every binding to a driver, be it of a library that was opened with
 * RTLD_DEEPBIND or in another namespace, or an answer of dlsym past which another library stands. It
 * keeps nothing of its own: the one recorder (libvramcore.so, in the program's own namespace) says
 * what to bind to instead. Where that is not loaded it is, from beside this file, once the program
 * is about to start; what is bound earlier goes through a slot that is turned to the recorder then.
 *
 * It lives in a namespace of its own with a C library of its own, and runs under the loader's lock.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "capture/inside/loader.h"
#include "capture/inside/old_libc.h"

/* Younger than the oldest names of VC_OLD_LIBC. */
#if __GLIBC_PREREQ(2, 34) && defined(__x86_64__)
__asm__(".weak dlmopen\n.symver dlmopen, dlmopen@GLIBC_2.3.4");
#elif __GLIBC_PREREQ(2, 34) && defined(__aarch64__)
__asm__(".weak dlmopen\n.symver dlmopen, dlmopen@GLIBC_2.17");
#endif
extern __typeof__(dlmopen) dlmopen __attribute__((weak));
VC_OLD_LIBC(dladdr);

#define EXPORTED __attribute__((visibility("default")))
#define RECORDER "libvramcore.so"
#define REPORTS "_ZN3c1027report" /* c10::reportMemoryUsageToProfiler and the like */
#define OTHER_NAMESPACE 1u /* in the cookie of an object, beside the address of its link_map */
#define SLOTS 1024u        /* as in slots.S */

typedef void *redirect_function(const char *, void *, const struct link_map *, int);

static redirect_function *redirect;
static struct vc_object recorder;

/* Bound before the recorder could be asked: the code of slots.S jumps to vc_slot_target. */
extern const char vc_slots[] __attribute__((visibility("hidden")));
extern void *vc_slot_target[SLOTS] __attribute__((visibility("hidden")));
void *vc_slot_target[SLOTS];
static struct {
	const char *name;
	uintptr_t driver;
} slot[SLOTS];
static uint32_t slots;

EXPORTED unsigned int la_version(unsigned int version);
EXPORTED unsigned int la_objopen(struct link_map *map, Lmid_t name_space, uintptr_t *cookie);
EXPORTED void la_preinit(uintptr_t *cookie);
EXPORTED uintptr_t la_symbind64(ElfW(Sym) *symbol, unsigned int index, uintptr_t *from,
				uintptr_t *to, unsigned int *flags, const char *name);

unsigned int la_version(unsigned int version)
{
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned int la_objopen(struct link_map *map, Lmid_t name_space, uintptr_t *cookie)
{
	struct vc_object object = {map->l_addr, map->l_ld, map->l_name};

	*cookie = (uintptr_t)map | (name_space == LM_ID_BASE ? 0 : OTHER_NAMESPACE);
	if (name_space == LM_ID_BASE && !strcmp(vc_object_soname(&object), RECORDER)) {
		recorder = object;
		return 0; /* it gets what it asks for */
	}
	if (vc_object_is_driver(&object))
		return LA_FLG_BINDTO;
	/* it defines what PyTorch's allocator reports to */
	if (vc_same_text(vc_object_soname(&object), "libc10.so"))
		return LA_FLG_BINDTO | LA_FLG_BINDFROM;
	return LA_FLG_BINDFROM;
}

static void *ask(const char *name, void *function, uintptr_t driver)
{
	return redirect(name, function, (const struct link_map *)(driver & ~(uintptr_t)1),
			!(driver & OTHER_NAMESPACE));
}

static void load_recorder(void)
{
	char path[PATH_MAX];
	const char *slash;
	Dl_info own;

	if (!dlmopen || !dladdr || !dladdr((void *)la_version, &own) || !own.dli_fname)
		return;
	slash = strrchr(own.dli_fname, '/');
	if (!slash || (size_t)(slash - own.dli_fname) + sizeof("/" RECORDER) > sizeof(path))
		return;
	memcpy(path, own.dli_fname, (size_t)(slash - own.dli_fname));
	memcpy(path + (slash - own.dli_fname), "/" RECORDER, sizeof("/" RECORDER));
	dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_LOCAL);
}

/* The libraries are initialised, the program is not. */
void la_preinit(uintptr_t *cookie)
{
	(void)cookie;
	if (!recorder.dynamic)
		load_recorder();
	if (!recorder.dynamic)
		return;
	*(void **)&redirect = vc_object_symbol(&recorder, "vramcore_v1_redirect");
	for (uint32_t i = 0; redirect && i < slots && i < SLOTS; i++)
		__atomic_store_n(&vc_slot_target[i],
				 ask(slot[i].name, vc_slot_target[i], slot[i].driver),
				 __ATOMIC_RELEASE);
}

static void *through_slot(const char *name, void *function, uintptr_t driver)
{
	uint32_t number = __atomic_fetch_add(&slots, 1, __ATOMIC_RELAXED);

	if (number >= SLOTS)
		return function;
	slot[number].name = name;
	slot[number].driver = driver;
	vc_slot_target[number] = function;
	return (void *)(uintptr_t)(vc_slots + (size_t)number * 16);
}

uintptr_t la_symbind64(ElfW(Sym) *symbol, unsigned int index, uintptr_t *from, uintptr_t *to,
		       unsigned int *flags, const char *name)
{
	void *function = (void *)(uintptr_t)symbol->st_value;

	(void)index;
	(void)from;
	*flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
	if (strncmp(name, "cu", 2) != 0 && strncmp(name, REPORTS, sizeof(REPORTS) - 1) != 0)
		return symbol->st_value;
	if (redirect)
		return (uintptr_t)ask(name, function, *to);
	/* What dlsym answers now may be for the recorder, by way of others. */
	if (*flags & LA_SYMB_DLSYM)
		return symbol->st_value;
	return (uintptr_t)through_slot(name, function, *to);
}
