/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program reaches the driver, and how it gets our wrappers instead.
 *
 * Three ways: symbols bound by the loader (our exports come first), dlsym, cuGetProcAddress. For
 * the latter two the real function answers, and only an answer that is the address of one of the
 * driver's exports that we stand in front of is replaced: what the driver means by a name, version
 * or flag stays its business. Nothing is looked up before the program itself reaches for the
 * driver; then everything is, at once, from a handle that stays open.
 */
#include "capture/inside/resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "capture/inside/modules.h"
#include "capture/inside/old_libc.h"
#include "capture/inside/rows.h"
#include "capture/inside/store.h"
#include "capture/inside/thread.h"

VC_OLD_LIBC(dlvsym);
VC_OLD_LIBC(dlopen);
VC_OLD_LIBC(dlerror);

#define EXPORTED __attribute__((visibility("default"), noinline))

const char *const vc_row_name[VC_ROWS] = {
#define VC_HOOK(symbol, parameters, arguments, effect, ...) #symbol,
#define VC_HOOK_OWN(symbol, parameters, arguments) #symbol,
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
};

void *vc_row_real[VC_ROWS];
struct vc_driver_calls vc_driver;

/* Our exports, under names of their own types. */
#define VC_HOOK(symbol, parameters, arguments, effect, ...)                                        \
	extern vc_cu_result symbol parameters __attribute__((visibility("default")));
#define VC_HOOK_OWN(symbol, parameters, arguments)                                                 \
	extern vc_cu_result symbol parameters __attribute__((visibility("default")));
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN

static void *const row_wrapper[VC_ROWS] = {
#define VC_HOOK(symbol, parameters, arguments, effect, ...) (void *)symbol,
#define VC_HOOK_OWN(symbol, parameters, arguments) (void *)symbol,
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
};

/* ---- the real dlsym ---- */

void *(*vc_dlsym_real)(void *handle, const char *name);

/* What is asked of the system must not be a tail call: RTLD_NEXT means next to us. */
void vc_dlsym_find(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	void *(*real)(void *, const char *) = NULL;
	void *next;

	if (!dlvsym)
		return;
	for (size_t i = 0; i < 3 && !real; i++)
		*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	if (!real)
		return;
	/* Another library that stands in front of dlsym keeps its place behind us. */
	next = real(RTLD_NEXT, "dlsym");
	__asm__ volatile("" : "+r"(next));
	if (next && next != (void *)vc_dlsym_find)
		*(void **)&real = next;
	__atomic_store_n(&vc_dlsym_real, real, __ATOMIC_RELEASE);
}

static void *look_up(void *handle, const char *name)
{
	void *address;

	if (!vc_dlsym_real)
		vc_dlsym_find();
	if (!vc_dlsym_real)
		return NULL;
	address = vc_dlsym_real(handle, name);
	__asm__ volatile("" : "+r"(address));
	return address;
}

/* ---- the driver ---- */

static uint32_t resolved;

static void *open_driver(bool load)
{
	void *handle = NULL;

	if (!dlopen)
		return NULL;
	handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (!handle && load)
		handle = dlopen("libcuda.so.1", RTLD_LAZY);
	return handle;
}

/* Threads that come here together find the same and write the same. */
bool vc_resolve(bool load)
{
	void *handle, *address;

	if (__atomic_load_n(&resolved, __ATOMIC_ACQUIRE))
		return true;
	handle = open_driver(load);
	if (!handle)
		return false;
	for (size_t i = 0; i < VC_ROWS; i++) {
		address = look_up(handle, vc_row_name[i]);
		if (address && address != row_wrapper[i])
			__atomic_store_n(&vc_row_real[i], address, __ATOMIC_RELEASE);
	}
#define VC_DRIVER_CALL(symbol, parameters)                                                         \
	*(void **)&vc_driver.symbol = look_up(handle, #symbol);
#include "capture/driver_calls.def"
#undef VC_DRIVER_CALL
	/* Where one was looked for in vain the loader remembers it: nobody else shall be told. */
	if (dlerror)
		dlerror();
	__atomic_store_n(&resolved, 1, __ATOMIC_RELEASE);
	return true;
}

static int is_driver(struct dl_phdr_info *info, size_t size, void *found)
{
	static const char name[] = "/libcuda.so.1";
	size_t length = info->dlpi_name ? strlen(info->dlpi_name) : 0;

	(void)size;
	if (length >= sizeof(name) - 1 &&
	    !strcmp(info->dlpi_name + length - (sizeof(name) - 1), name))
		*(bool *)found = true;
	return *(bool *)found;
}

/*
 * A program that is linked with the driver has reached for it by being loaded. What its first call
 * would have to look up could not be done then without the loss of an error that dlerror still has
 * to tell the program.
 */
static __attribute__((constructor)) void resolve_at_load(void)
{
	bool found = false;
	int saved = errno;

	dl_iterate_phdr(is_driver, &found);
	if (found)
		vc_resolve(false);
	errno = saved;
}

void *vc_row_find(enum vc_row row, vc_cu_result *ret_error)
{
	void *real;

	if (!vc_resolve(true)) {
		*ret_error = VC_CU_LIBRARY_MISSING;
		return NULL;
	}
	real = __atomic_load_n(&vc_row_real[row], __ATOMIC_ACQUIRE);
	if (!real)
		*ret_error = VC_CU_NOT_SUPPORTED;
	return real;
}

/* The wrapper of a driver's function; the function itself where there is none. */
static void *translate(void *function)
{
	for (size_t i = 0; i < VC_ROWS; i++)
		if (vc_row_real[i] == function)
			return row_wrapper[i];
	return function;
}

/* ---- dlsym ---- */

/* FNV-1a, into a table of twice as many slots as there are names, made at the first look-up. */
static uint32_t hash_of(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash ^ hash >> 15;
}

#define SLOTS 2048u
_Static_assert(VC_ROWS * 2 <= SLOTS, "the table of names is too small");
static const char *name_slot[SLOTS];
static uint32_t names_ready;

static void add_name(const char *name)
{
	uint32_t slot = hash_of(name) % SLOTS;

	while (name_slot[slot] && name_slot[slot] != name)
		slot = (slot + 1) % SLOTS;
	name_slot[slot] = name;
}

/* Done at load; a call that comes even earlier does it itself, with the same outcome. */
static __attribute__((constructor)) void fill_names(void)
{
	if (__atomic_load_n(&names_ready, __ATOMIC_ACQUIRE))
		return;
	for (size_t i = 0; i < VC_ROWS; i++)
		add_name(vc_row_name[i]);
	__atomic_store_n(&names_ready, 1, __ATOMIC_RELEASE);
}

bool vc_dlsym_wanted(const char *name)
{
	uint32_t slot;

	fill_names();
	for (slot = hash_of(name) % SLOTS; name_slot[slot]; slot = (slot + 1) % SLOTS)
		if (!strcmp(name_slot[slot], name))
			return true;
	return false;
}

static bool is_wrapper(const void *function)
{
	for (size_t i = 0; i < VC_ROWS; i++)
		if (row_wrapper[i] == function)
			return true;
	return false;
}

void *vc_dlsym_answer(void *handle, const char *name)
{
	void *function = look_up(handle, name);

	/*
	 * A look-up in the global scope finds our exports, whether there is a driver or not. Where
	 * there is none the answer is what it would be without us.
	 */
	if (function && is_wrapper(function))
		return vc_resolve(false) ? function : look_up(RTLD_NEXT, name);
	if (!function || !vc_resolve(false))
		return function;
	return translate(function);
}

/* ---- dlclose: so that captures need not ask the loader each time whether an object is gone ---- */

static int (*dlclose_real)(void *handle);

static __attribute__((constructor)) void watch_dlclose(void)
{
	void *real = look_up(RTLD_NEXT, "dlclose");

	if (real) {
		__atomic_store_n((void **)&dlclose_real, real, __ATOMIC_RELEASE);
		vc_modules_watch_dlclose();
	} else if (dlerror) {
		dlerror(); /* the program did not ask */
	}
}

EXPORTED int dlclose(void *handle)
{
	int result;

	if (!dlclose_real) /* by a library that is initialised before us */
		watch_dlclose();
	if (!dlclose_real)
		return -1;
	vc_modules_dlclose_begin();
	result = dlclose_real(handle);
	vc_modules_dlclose_end();
	return result;
}

/* ---- cuGetProcAddress ---- */

EXPORTED vc_cu_result cuGetProcAddress(const char *symbol, void **function, int version,
				       uint64_t flags)
{
	vc_cu_result (*real)(const char *, void **, int, uint64_t);
	vc_cu_result result;

	*(void **)&real = vc_row_find(VC_ROW_cuGetProcAddress, &result);
	if (!real)
		return result;
	result = real(symbol, function, version, flags);
	if (result == VC_CU_SUCCESS && function && *function)
		*function = translate(*function);
	return result;
}

EXPORTED vc_cu_result cuGetProcAddress_v2(const char *symbol, void **function, int version,
					  uint64_t flags, int *status)
{
	vc_cu_result (*real)(const char *, void **, int, uint64_t, int *);
	vc_cu_result result;

	*(void **)&real = vc_row_find(VC_ROW_cuGetProcAddress_v2, &result);
	if (!real)
		return result;
	result = real(symbol, function, version, flags, status);
	if (result == VC_CU_SUCCESS && function && *function)
		*function = translate(*function);
	return result;
}
