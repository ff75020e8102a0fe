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

#include "capture/inside/loader.h"
#include "capture/inside/modules.h"
#include "capture/inside/observe.h"
#include "capture/inside/old_libc.h"
#include "capture/inside/rows.h"
#include "capture/inside/store.h"
#include "capture/inside/thread.h"
#include "capture/inside/torch.h"
#include "capture/inside/unhooked.h"

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
struct vc_driver_calls vc_driver_calls[VC_DRIVERS];

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

/* ---- the real dlsym and dlvsym ---- */

void *(*vc_dlsym_real)(void *handle, const char *name);
void *(*vc_dlvsym_real)(void *handle, const char *name, const char *version);

/* What is asked of the system must not be a tail call: RTLD_NEXT means next to us. */
static void *next_to_us(const char *name, void *own)
{
	void *next = vc_dlsym_real(RTLD_NEXT, name);

	__asm__ volatile("" : "+r"(next));
	return next == own ? NULL : next;
}

/* Both are taken from the C library itself: whoever asks by name gets ours. */
void vc_dlsym_find(void)
{
	static const char *const libraries[] = {"libc.so.6", "libdl.so.2"};
	void *(*real)(void *, const char *) = NULL;
	void *(*real_version)(void *, const char *, const char *) = NULL;
	struct vc_object object;
	void *next;

	for (size_t i = 0; i < 2 && !(real && real_version); i++) {
		if (!vc_object_named(libraries[i], &object))
			continue;
		*(void **)&real = vc_object_symbol(&object, "dlsym");
		*(void **)&real_version = vc_object_symbol(&object, "dlvsym");
	}
	if (!real || !real_version)
		return;
	__atomic_store_n(&vc_dlsym_real, real, __ATOMIC_RELEASE);
	__atomic_store_n(&vc_dlvsym_real, real_version, __ATOMIC_RELEASE);
	/* Another library that stands in front of them keeps its place behind us. */
	next = next_to_us("dlvsym", (void *)dlvsym);
	if (next)
		__atomic_store_n((void **)&vc_dlvsym_real, next, __ATOMIC_RELEASE);
	next = next_to_us("dlsym", (void *)dlsym);
	if (next)
		__atomic_store_n((void **)&vc_dlsym_real, next, __ATOMIC_RELEASE);
}

void *vc_look_up(void *handle, const char *name)
{
	void *address;

	if (!vc_dlsym_real)
		vc_dlsym_find();
	if (!vc_dlsym_real)
		return NULL;
	vc_thread_local.looking_up = true;
	address = vc_dlsym_real(handle, name);
	__asm__ volatile("" : "+r"(address));
	vc_thread_local.looking_up = false;
	return address;
}

static void *look_up_version(void *handle, const char *name, const char *version)
{
	void *address;

	if (!vc_dlvsym_real)
		vc_dlsym_find();
	if (!vc_dlvsym_real)
		return NULL;
	vc_thread_local.looking_up = true;
	address = vc_dlvsym_real(handle, name, version);
	__asm__ volatile("" : "+r"(address));
	vc_thread_local.looking_up = false;
	return address;
}

/* ---- the first driver ---- */

static uint32_t resolved;
static uintptr_t driver_bias[VC_DRIVERS]; /* where each lies; 0: there is none */
static uint32_t driver_ready[VC_DRIVERS];

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
		address = vc_look_up(handle, vc_row_name[i]);
		if (address && address != row_wrapper[i])
			__atomic_store_n(&vc_row_real[i], address, __ATOMIC_RELEASE);
	}
#define VC_DRIVER_CALL(symbol, parameters)                                                         \
	*(void **)&vc_driver_calls[0].symbol = vc_look_up(handle, #symbol);
#include "capture/driver_calls.def"
#undef VC_DRIVER_CALL
	/* Where one was looked for in vain the loader remembers it: nobody else shall be told. */
	if (dlerror)
		dlerror();
	__atomic_store_n(&driver_bias[0], ((const struct link_map *)handle)->l_addr,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&driver_ready[0], 1, __ATOMIC_RELEASE);
	if (!__atomic_exchange_n(&resolved, 1, __ATOMIC_ACQ_REL))
		vc_observe_driver(((const struct link_map *)handle)->l_name);
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

/* ---- further drivers ---- */

static bool is_wrapper(const void *function)
{
	for (size_t i = 0; i < VC_ROWS; i++)
		if (row_wrapper[i] == function)
			return true;
	return false;
}

static void *wrapper_of(size_t driver, size_t row)
{
	return driver ? vc_wrapper_further[driver - 1][row] : row_wrapper[row];
}

static void *real_of(size_t driver, size_t row)
{
	void **real = driver ? &vc_row_real_further[driver - 1][row] : &vc_row_real[row];

	return __atomic_load_n(real, __ATOMIC_ACQUIRE);
}

/* Two threads that come with the same driver write the same. */
static void fill_driver(size_t number, const struct vc_object *object)
{
	void **real = number ? vc_row_real_further[number - 1] : vc_row_real;

	for (size_t i = 0; i < VC_ROWS; i++)
		__atomic_store_n(&real[i], vc_object_symbol(object, vc_row_name[i]),
				 __ATOMIC_RELEASE);
#define VC_DRIVER_CALL(symbol, parameters)                                                         \
	*(void **)&vc_driver_calls[number].symbol = vc_object_symbol(object, #symbol);
#include "capture/driver_calls.def"
#undef VC_DRIVER_CALL
	__atomic_store_n(&driver_ready[number], 1, __ATOMIC_RELEASE);
	if (!number)
		__atomic_store_n(&resolved, 1, __ATOMIC_RELEASE);
}

/*
 * The number of the driver that an object is, a new one if need be; -1: not a driver, or no room.
 * The first one is the one that the loader binds to, in the program's own namespace.
 */
static int driver_number(const struct vc_object *object, bool own_namespace)
{
	if (!vc_object_is_driver(object))
		return -1;
	for (size_t i = 0; i < VC_DRIVERS; i++) {
		uintptr_t bias = __atomic_load_n(&driver_bias[i], __ATOMIC_ACQUIRE);

		if (!bias && (i || own_namespace) &&
		    __atomic_compare_exchange_n(&driver_bias[i], &bias, object->bias, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			bias = object->bias;
			vc_observe_driver(object->name);
		}
		if (bias != object->bias)
			continue;
		if (!__atomic_load_n(&driver_ready[i], __ATOMIC_ACQUIRE))
			fill_driver(i, object);
		return (int)i;
	}
	return -1;
}

/* The wrapper of a driver's function; the function itself where there is none. */
static void *translate(void *function)
{
	for (size_t driver = 0; driver < VC_DRIVERS; driver++) {
		if (!__atomic_load_n(&driver_ready[driver], __ATOMIC_ACQUIRE))
			continue;
		for (size_t row = 0; row < VC_ROWS; row++)
			if (real_of(driver, row) == function && wrapper_of(driver, row))
				return wrapper_of(driver, row);
	}
	return function;
}

static void *wrapper_by_name(int driver, const char *name, void *function)
{
	for (size_t row = 0; driver >= 0 && row < VC_ROWS; row++)
		if (!strcmp(vc_row_name[row], name) && real_of((size_t)driver, row) &&
		    wrapper_of((size_t)driver, row))
			return wrapper_of((size_t)driver, row);
	return function;
}

/* As translate; an object that turns out to be a driver not met before is remembered, and kept. */
static void *translate_named(const char *name, void *function)
{
	void *wrapper = translate(function);
	struct vc_object object;
	int driver;

	if (wrapper == function && vc_object_of(function, &object)) {
		driver = driver_number(&object, true);
		if (driver > 0 && dlopen)
			dlopen(object.name, RTLD_LAZY | RTLD_NOLOAD);
		wrapper = wrapper_by_name(driver, name, function);
	}
	if (wrapper != function)
		VC_OBSERVE(by_name);
	return wrapper;
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
		if (vc_same_text(name_slot[slot], name))
			return true;
	return vc_unhooked_suspect(name);
}

/* As translate_named, for the program: a function of the driver that stays as it is is noted. */
static void *hand_out(const char *name, void *function)
{
	void *wrapper = translate_named(name, function);
	struct vc_object object;

	if (wrapper == function && vc_unhooked_suspect(name) && vc_object_of(function, &object) &&
	    driver_number(&object, true) >= 0)
		vc_unhooked_handed_out(name);
	return wrapper;
}

/*
 * A look-up in the global scope finds our exports, whether there is a driver or not. Where there is
 * none the answer is what it would be without us.
 */
void *vc_dlsym_answer(void *handle, const char *name)
{
	void *function = vc_look_up(handle, name);

	if (function && is_wrapper(function))
		return vc_resolve(false) ? function : vc_look_up(RTLD_NEXT, name);
	if (!function || !vc_resolve(false))
		return function;
	return hand_out(name, function);
}

void *vc_dlvsym_answer(void *handle, const char *name, const char *version)
{
	void *function = look_up_version(handle, name, version);

	if (function && is_wrapper(function))
		return vc_resolve(false) ? function : look_up_version(RTLD_NEXT, name, version);
	if (!function || !vc_resolve(false))
		return function;
	return hand_out(name, function);
}

void *vc_dlvsym_next(const char *name, const void *caller)
{
	struct vc_object from, own;

	if (!vc_same_text(name, "dlsym") && !vc_same_text(name, "dlvsym"))
		return NULL;
	if (!vc_object_of(caller, &from) || !vc_object_of((void *)vc_dlvsym_next, &own) ||
	    !vc_object_before(&from, &own))
		return NULL;
	return vc_same_text(name, "dlsym") ? (void *)dlsym : (void *)dlvsym;
}

/* ---- dlclose: so that captures need not ask the loader each time whether an object is gone ---- */

static int (*dlclose_real)(void *handle);

static __attribute__((constructor)) void watch_dlclose(void)
{
	void *real = vc_look_up(RTLD_NEXT, "dlclose");

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

static void *translate_asked(const char *symbol, void *function)
{
	void *wrapper = translate(function);

	VC_OBSERVE(asked);
	if (wrapper != function)
		VC_OBSERVE(translated);
	else
		vc_observe_unrecorded(symbol);
	if (wrapper == function && symbol && vc_unhooked_suspect(symbol))
		vc_unhooked_handed_out(symbol);
	return wrapper;
}

vc_cu_result vc_ask(void *real, const char *symbol, void **function, int version, uint64_t flags)
{
	vc_cu_result (*ask)(const char *, void **, int, uint64_t);
	vc_cu_result result;

	*(void **)&ask = real;
	result = ask(symbol, function, version, flags);
	if (result == VC_CU_SUCCESS && function && *function)
		*function = translate_asked(symbol, *function);
	return result;
}

vc_cu_result vc_ask_v2(void *real, const char *symbol, void **function, int version, uint64_t flags,
		       int *status)
{
	vc_cu_result (*ask)(const char *, void **, int, uint64_t, int *);
	vc_cu_result result;

	*(void **)&ask = real;
	result = ask(symbol, function, version, flags, status);
	if (result == VC_CU_SUCCESS && function && *function)
		*function = translate_asked(symbol, *function);
	return result;
}

EXPORTED vc_cu_result cuGetProcAddress(const char *symbol, void **function, int version,
				       uint64_t flags)
{
	vc_cu_result result;
	void *real = vc_row_find(VC_ROW_cuGetProcAddress, &result);

	return real ? vc_ask(real, symbol, function, version, flags) : result;
}

EXPORTED vc_cu_result cuGetProcAddress_v2(const char *symbol, void **function, int version,
					  uint64_t flags, int *status)
{
	vc_cu_result result;
	void *real = vc_row_find(VC_ROW_cuGetProcAddress_v2, &result);

	return real ? vc_ask_v2(real, symbol, function, version, flags, status) : result;
}

/* ---- cuInit: only its result is of interest, and only to the doctor ---- */

EXPORTED vc_cu_result cuInit(uint32_t flags)
{
	vc_cu_result (*real)(uint32_t);
	vc_cu_result result;

	*(void **)&real = vc_row_find(VC_ROW_cuInit, &result);
	if (!real)
		return result;
	result = real(flags);
	if (vc_observed) {
		vc_observed->init_result = result;
		VC_OBSERVE(init_calls);
	}
	return result;
}

static __attribute__((destructor)) void observe_end(void)
{
	/* A driver that nobody reached through the recorder may be loaded all the same. */
	if (vc_observed)
		vc_observe_end(vc_row_real, vc_resolve(false) ? VC_ROWS : 0);
}

/* ---- the loader's audit library ---- */

/*
 * Called by libvramcore-audit.so (capture/audit) for a function that the loader is about to bind or
 * to hand out, under the loader's lock: nothing is asked of the loader here.
 */
EXPORTED void *vramcore_v1_redirect(const char *name, void *function, const struct link_map *map,
				    int own_namespace);
void *vramcore_v1_redirect(const char *name, void *function, const struct link_map *map,
			   int own_namespace)
{
	struct vc_object object = {map->l_addr, map->l_ld, map->l_name};
	void *wrapper;

	if (name[0] == '_') {
		wrapper = own_namespace ? vc_torch_redirect(name, function) : function;
		if (wrapper != function)
			VC_OBSERVE(audit);
		return wrapper;
	}
	if (vc_thread_local.looking_up || !vc_dlsym_wanted(name))
		return function;
	wrapper = wrapper_by_name(driver_number(&object, own_namespace), name, function);
	if (wrapper != function)
		VC_OBSERVE(audit);
	else if (vc_unhooked_suspect(name))
		vc_unhooked_handed_out(name);
	return wrapper;
}
