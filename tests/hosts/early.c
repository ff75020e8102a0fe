/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library whose constructor allocates before main and before the constructors of libraries that
 * were preloaded, and whose destructor frees when main is over.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/cuda_abi.h"

int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(vc_cu_pointer *pointer, size_t size);
int cuMemFree_v2(vc_cu_pointer pointer);
int early_failed(void);

#define EARLY 100

static vc_cu_pointer block[EARLY];
static int failed;

static __attribute__((constructor)) void allocate_early(void)
{
	void *context = NULL;

	failed += cuInit(0) != 0;
	failed += cuDevicePrimaryCtxRetain(&context, 0) != 0;
	failed += cuCtxSetCurrent(context) != 0;
	for (unsigned int i = 0; i < EARLY; i++)
		failed += cuMemAlloc_v2(&block[i], 4096 + i) != 0;
}

static __attribute__((destructor)) void free_late(void)
{
	for (unsigned int i = 0; i < EARLY / 2; i++)
		failed += cuMemFree_v2(block[i]) != 0;
	if (failed)
		abort();
}

int early_failed(void)
{
	return failed;
}
