/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt: descriptors are empty objects; one algorithm, which needs no workspace. */
#include <string.h>

#include "stub.h"

enum { SUCCESS = 0, INVALID_VALUE = 7 };

struct algorithm {
	uint64_t data[8];
};

struct heuristic {
	struct algorithm algorithm;
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

static void propose(struct heuristic *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->waves = 1;
}

size_t stub_cublasLtGetVersion(void)
{
	return STUB_CUDA_MAJOR >= 13 ? 130100 : 120405;
}

int stub_cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
					void *d, void *preference, int wanted,
					struct heuristic *ret, int *count)
{
	(void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
	if (wanted < 1 || !ret || !count)
		return INVALID_VALUE;
	propose(ret);
	*count = 1;
	return SUCCESS;
}

int stub_cublasLtMatmulAlgoCheck(void *handle, void *operation, void *a, void *b, void *c, void *d,
				 const struct algorithm *algorithm, struct heuristic *ret)
{
	(void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)algorithm;
	if (!ret)
		return INVALID_VALUE;
	propose(ret);
	return SUCCESS;
}

int stub_cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d,
				int number, struct algorithm *ret)
{
	(void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d, (void)number;
	if (!ret)
		return INVALID_VALUE;
	memset(ret, 0, sizeof(*ret));
	return SUCCESS;
}

int stub_cublasLtMatmulAlgoConfigGetAttribute(const struct algorithm *algorithm, int attribute,
					      void *ret, size_t size, size_t *written)
{
	(void)algorithm, (void)attribute;
	if (ret)
		memset(ret, 0, size);
	if (written)
		*written = size;
	return SUCCESS;
}
