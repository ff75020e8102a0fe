/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded objects of this process: which one an address is in, and its unwind data.
 *
 * Every object ever seen has an index from 1 on that is never used for another: what is loaded
 * later at the same addresses is another module, unless path, build-id and addresses are the same.
 * The table is read without a lock; it is changed only inside dl_iterate_phdr's callback, which
 * glibc runs under the lock that also covers unmapping, so unwind data is never read while it goes
 * away. That lock is taken only for an address not seen before, by vc_modules_check, and (26 ns) on
 * every capture while a dlclose is running or nobody watches it. Objects that the C library opens
 * for itself (character sets, name services) it also closes unwatched: their code calls nobody that
 * captures.
 *
 * All functions: no allocation; a system call only when an object is seen for the first time; errno
 * is kept. Not to be called from a signal handler that interrupted one of them: the guard of the
 * hooks sees to that.
 */
#ifndef VC_CAPTURE_INSIDE_MODULES_H
#define VC_CAPTURE_INSIDE_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/cfi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	VC_MODULES_MAX = 4095,	  /* later ones count as unknown code */
	VC_BUILD_ID_MAX = 32,	  /* longer ones are cut */
};

/** What is known about one module. Pointers stay valid for the life of the process. */
struct vc_module_view {
	uint32_t index;
	uint32_t build_id_size; /* 0: it has none */
	uint64_t bias;		/* address = bias + address in the file */
	uint64_t low;		/* lowest and one past the highest address of its segments */
	uint64_t high;
	const uint8_t *build_id;
	const char *path; /* as the loader knows it, made absolute; "" if unknown */
};

/** The module whose segments hold pc; VC_E_NOT_FOUND if none does. */
int vc_module_of(uint64_t pc, struct vc_module_view *ret);

/** The module with this index, loaded or gone; VC_E_NOT_FOUND if there never was one. */
int vc_module_at(uint32_t index, struct vc_module_view *ret);

/** How many modules were ever seen; indexes run from 1 to this. */
uint32_t vc_modules_count(void);

/** Changes whenever an object was found to have been unloaded. */
uint64_t vc_modules_generation(void);

/** Compares the table with the loader's list and brings it up to date. */
void vc_modules_check(void);

/**
 * The rule for the instruction at pc, and the index of its module in *module (0: in none). Returns
 * what vc_cfi_rule_at does. Brings the table up to date first.
 */
bool vc_module_rule(uintptr_t pc, struct vc_cfi_rule *rule, uint32_t *module);

/** Where the function that holds pc begins and ends, by its unwind data; false: it has none. */
bool vc_module_function(uintptr_t pc, uintptr_t *ret_low, uintptr_t *ret_high);

/*
 * Whoever stands in front of dlclose says so once, and then calls begin before and end after the
 * real call. Until then every capture asks the loader whether an object is gone.
 */
void vc_modules_watch_dlclose(void);
void vc_modules_dlclose_begin(void);
void vc_modules_dlclose_end(void);

/** For captures: true if an object may have gone since *mark was last set by this function. */
bool vc_modules_may_have_changed(uint64_t *mark);

#ifdef __cplusplus
}
#endif

#endif
