/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuFFT: a plan is a number. Its work area has the size of the whole batch's complex elements; that
 * stands for what the library asks for, which depends on the lengths' factors.
 */
#include "stub.h"

enum { SUCCESS = 0, INVALID_PLAN = 1, INVALID_VALUE = 4 };

static _Atomic int last_plan;

int stub_cufftCreate(int *ret)
{
	if (!ret)
		return INVALID_VALUE;
	*ret = ++last_plan;
	return SUCCESS;
}

/* Bytes of a complex element of a cudaDataType: half 2 and 6, float 0 and 4, double 1 and 5. */
static size_t complex_size(int type)
{
	switch (type) {
	case 1:
	case 5:
		return 16;
	case 2:
	case 6:
		return 4;
	default:
		return 8;
	}
}

int stub_cufftXtMakePlanMany(int plan, int rank, const long long *lengths, const long long *in,
			     long long in_step, long long in_distance, int in_type,
			     const long long *out, long long out_step, long long out_distance,
			     int out_type, long long batch, size_t *work, int execution)
{
	size_t size = complex_size(execution);

	(void)in, (void)in_step, (void)in_distance, (void)in_type;
	(void)out, (void)out_step, (void)out_distance, (void)out_type;
	if (plan < 1)
		return INVALID_PLAN;
	if (rank < 1 || !lengths || batch < 1)
		return INVALID_VALUE;
	for (int i = 0; i < rank; i++)
		size *= (size_t)lengths[i];
	if (work)
		*work = size * (size_t)batch;
	return SUCCESS;
}
