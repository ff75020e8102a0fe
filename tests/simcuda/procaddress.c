/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: (name, version, flags) to the address of an exported symbol.
 *
 * As measured on real drivers: the newest ABI that is not newer than the version asked for; names
 * with a suffix are unknown; the per-thread flag prefers the twin; the first ABI of the function
 * itself answers NOT_FOUND and leaves the pointer alone, the second succeeds with NULL and says
 * why.
 */
#include <string.h>

#include "sim.h"

enum mode { PLAIN, THREAD };

static const struct {
	const char *name;
	const char *base;
	int version;
	enum mode mode;
} symbols[] = {
#define SIM_SYMBOL(name, base, version, mode) { #name, #base, version, mode },
#include "symbols.def"
#undef SIM_SYMBOL
};

/* The exported functions, by address only: their types do not matter here. */
#define SIM_SYMBOL(name, base, version, mode) extern char sim_address_##name[] __asm__(#name);
#include "symbols.def"
#undef SIM_SYMBOL

static void *const addresses[] = {
#define SIM_SYMBOL(name, base, version, mode) sim_address_##name,
#include "symbols.def"
#undef SIM_SYMBOL
};

int sim_symbol_find(const char *name, size_t length)
{
	for (int i = 0; i < SIM_ID_COUNT; i++)
		if (!strncmp(symbols[i].name, name, length) && !symbols[i].name[length])
			return i;
	return -1;
}

static int best(const char *name, int version, enum mode mode, bool *known)
{
	int found = -1;

	for (int i = 0; i < SIM_ID_COUNT; i++) {
		if (symbols[i].mode != mode || strcmp(symbols[i].base, name) != 0)
			continue;
		*known = true;
		if (symbols[i].version > version)
			continue;
		if (found < 0 || symbols[i].version > symbols[found].version)
			found = i;
	}
	return found;
}

void *sim_procaddress(const char *name, int version, cuuint64_t flags,
		      CUdriverProcAddressQueryResult *why)
{
	bool known = false;
	int found = -1;

	if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		found = best(name, version, THREAD, &known);
	if (found < 0)
		found = best(name, version, PLAIN, &known);
	if (found >= 0)
		*why = CU_GET_PROC_ADDRESS_SUCCESS;
	else
		*why = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
			       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return found >= 0 ? addresses[found] : NULL;
}

static CUresult first_abi(const char *name, void **ret, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult why;
	void *address;

	if (!name || !ret || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	address = sim_procaddress(name, version, flags, &why);
	if (!address)
		return CUDA_ERROR_NOT_FOUND;
	*ret = address;
	return CUDA_SUCCESS;
}

static CUresult second_abi(const char *name, void **ret, int version, cuuint64_t flags,
			   CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult why;

	if (!name || !ret || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = sim_procaddress(name, version, flags, &why);
	if (status)
		*status = why;
	return CUDA_SUCCESS;
}

SIM_ENTRY_ALWAYS(cuGetProcAddress,
		 (const char *name, void **ret, int version, cuuint64_t flags),
		 first_abi(name, ret, version, flags))
SIM_ENTRY_ALWAYS(cuGetProcAddress_v2,
		 (const char *name, void **ret, int version, cuuint64_t flags,
		  CUdriverProcAddressQueryResult *status),
		 second_abi(name, ret, version, flags, status))
