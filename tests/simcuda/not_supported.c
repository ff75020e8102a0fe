/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A weak definition of every symbol of the table, so that all exist: whatever no other file defines
 * answers NOT_SUPPORTED and does nothing. Callers pass arguments that are not looked at.
 */
#include "sim.h"

static CUresult not_supported(enum sim_symbol_id id)
{
	SIM_CHECK_FAIL_ID(id);
	if (!atomic_load_explicit(sim_live, memory_order_acquire))
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Under names of this file's own, since the real names are declared with other arguments. */
#define SIM_SYMBOL(name, base, version, mode)                                                      \
	CUresult sim_weak_##name(void) __asm__(#name)                                              \
		__attribute__((weak, visibility("default")));                                      \
	CUresult sim_weak_##name(void)                                                             \
	{                                                                                          \
		return not_supported(SIM_ID_##name);                                               \
	}
#include "symbols.def"
#undef SIM_SYMBOL
