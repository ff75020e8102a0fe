/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS: what is set on a handle is kept, matrices stay as they are. Results that go to the host
 * (scalars, in host pointer mode) are 0; a rotation is the identity.
 */
#include <string.h>

#include "stub.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOCATION_FAILED = 3, INVALID_VALUE = 7 };
enum { POINTERS_ON_HOST = 0 };

struct handle {
	void *stream;
	void *workspace;
	size_t workspace_size;
	int pointer_mode;
	int math_mode;
	int multiprocessors;
};

int stub_cublasCreate_v2(struct handle **ret)
{
	struct handle *handle = ret ? stub_object(sizeof(*handle)) : NULL;

	if (!handle)
		return ret ? ALLOCATION_FAILED : INVALID_VALUE;
	*ret = handle;
	return SUCCESS;
}

int stub_cublasDestroy_v2(struct handle *handle)
{
	stub_object_free(handle);
	return handle ? SUCCESS : NOT_INITIALIZED;
}

#define SET(name, type, member)                                                                    \
	int stub_##name(struct handle *handle, type value)                                         \
	{                                                                                          \
		if (!handle)                                                                       \
			return NOT_INITIALIZED;                                                    \
		handle->member = value;                                                            \
		return SUCCESS;                                                                    \
	}

#define GET(name, type, member)                                                                    \
	int stub_##name(struct handle *handle, type *ret)                                          \
	{                                                                                          \
		if (!handle || !ret)                                                               \
			return handle ? INVALID_VALUE : NOT_INITIALIZED;                           \
		*ret = handle->member;                                                             \
		return SUCCESS;                                                                    \
	}

SET(cublasSetStream_v2, void *, stream)
SET(cublasSetPointerMode_v2, int, pointer_mode)
GET(cublasGetPointerMode_v2, int, pointer_mode)
SET(cublasSetMathMode, int, math_mode)
GET(cublasGetMathMode, int, math_mode)
SET(cublasSetSmCountTarget, int, multiprocessors)

int stub_cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t size)
{
	if (!handle)
		return NOT_INITIALIZED;
	handle->workspace = workspace;
	handle->workspace_size = size;
	return SUCCESS;
}

/* A scalar result: written where the host can write it; else a kernel would, and none runs. */
static int scalar(const struct handle *handle, void *ret, size_t size)
{
	if (!handle)
		return NOT_INITIALIZED;
	if (ret && handle->pointer_mode == POINTERS_ON_HOST)
		memset(ret, 0, size);
	return SUCCESS;
}

#define DOT(name, size)                                                                            \
	int stub_##name(struct handle *handle, int n, const void *x, int x_step, const void *y,    \
			int y_step, void *ret)                                                     \
	{                                                                                          \
		(void)n, (void)x, (void)x_step, (void)y, (void)y_step;                             \
		return scalar(handle, ret, size);                                                  \
	}

DOT(cublasSdot_v2, 4)
DOT(cublasDdot_v2, 8)
DOT(cublasCdotc_v2, 8)
DOT(cublasCdotu_v2, 8)
DOT(cublasZdotc_v2, 16)
DOT(cublasZdotu_v2, 16)

/* Bytes of a cudaDataType: float, double, half, byte, complex of these, bfloat16. */
static size_t type_size(int type)
{
	switch (type) {
	case 0: /* R_32F */
		return 4;
	case 1: /* R_64F */
	case 4: /* C_32F */
		return 8;
	case 5: /* C_64F */
		return 16;
	default:
		return 2;
	}
}

int stub_cublasDotEx(struct handle *handle, int n, const void *x, int x_type, int x_step,
		     const void *y, int y_type, int y_step, void *ret, int type, int compute)
{
	(void)n, (void)x, (void)x_type, (void)x_step, (void)y, (void)y_type, (void)y_step;
	(void)compute;
	return scalar(handle, ret, type_size(type));
}

#define REDUCTION(name, size)                                                                      \
	int stub_##name(struct handle *handle, int n, const void *x, int x_step, void *ret)        \
	{                                                                                          \
		(void)n, (void)x, (void)x_step;                                                    \
		return scalar(handle, ret, size);                                                  \
	}

REDUCTION(cublasSasum_v2, 4)
REDUCTION(cublasDasum_v2, 8)
REDUCTION(cublasScasum_v2, 4)
REDUCTION(cublasDzasum_v2, 8)
REDUCTION(cublasSnrm2_v2, 4)
REDUCTION(cublasDnrm2_v2, 8)
REDUCTION(cublasScnrm2_v2, 4)
REDUCTION(cublasDznrm2_v2, 8)
REDUCTION(cublasIsamax_v2, 4)
REDUCTION(cublasIdamax_v2, 4)
REDUCTION(cublasIcamax_v2, 4)
REDUCTION(cublasIzamax_v2, 4)
REDUCTION(cublasIsamin_v2, 4)
REDUCTION(cublasIdamin_v2, 4)
REDUCTION(cublasIcamin_v2, 4)
REDUCTION(cublasIzamin_v2, 4)

#define ROTATION(name, real, sine_size)                                                            \
	int stub_##name(struct handle *handle, void *a, void *b, real *cosine, void *sine)         \
	{                                                                                          \
		(void)a, (void)b;                                                                  \
		if (handle && handle->pointer_mode == POINTERS_ON_HOST && cosine)                  \
			*cosine = 1;                                                               \
		return scalar(handle, sine, sine_size);                                            \
	}

ROTATION(cublasSrotg_v2, float, 4)
ROTATION(cublasDrotg_v2, double, 8)
ROTATION(cublasCrotg_v2, float, 8)
ROTATION(cublasZrotg_v2, double, 16)

/* The first of a modified rotation's five parameters: -2 is the identity. */
#define MODIFIED_ROTATION(name, real)                                                              \
	int stub_##name(struct handle *handle, real *d1, real *d2, real *x1, const real *y1,       \
			real *parameters)                                                          \
	{                                                                                          \
		(void)d1, (void)d2, (void)x1, (void)y1;                                            \
		if (handle && handle->pointer_mode == POINTERS_ON_HOST && parameters)              \
			*parameters = -2;                                                          \
		return handle ? SUCCESS : NOT_INITIALIZED;                                         \
	}

MODIFIED_ROTATION(cublasSrotmg_v2, float)
MODIFIED_ROTATION(cublasDrotmg_v2, double)

/* --- copies, which are real --- */

static int copy_matrix(int rows, int columns, int element, const char *from, int from_rows,
		       char *to, int to_rows)
{
	if (rows < 0 || columns < 0 || element <= 0 || from_rows < rows || to_rows < rows)
		return INVALID_VALUE;
	for (size_t i = 0; i < (size_t)columns; i++)
		if (stub_copy(to + i * (size_t)to_rows * (size_t)element,
			      from + i * (size_t)from_rows * (size_t)element,
			      (size_t)rows * (size_t)element))
			return 11; /* CUBLAS_STATUS_MAPPING_ERROR */
	return SUCCESS;
}

#define COPY_MATRIX(name)                                                                          \
	int stub_##name(int rows, int columns, int element, const void *from, int from_rows,       \
			void *to, int to_rows, void *stream)                                       \
	{                                                                                          \
		(void)stream;                                                                      \
		return copy_matrix(rows, columns, element, from, from_rows, to, to_rows);          \
	}

/* A vector is a matrix of one row of which every step-th column is taken. */
#define COPY_VECTOR(name)                                                                          \
	int stub_##name(int n, int element, const void *from, int from_step, void *to,             \
			int to_step, void *stream)                                                 \
	{                                                                                          \
		(void)stream;                                                                      \
		return copy_matrix(1, n, element, from, from_step, to, to_step);                   \
	}

COPY_MATRIX(cublasSetMatrixAsync)
COPY_MATRIX(cublasGetMatrixAsync)
COPY_VECTOR(cublasSetVectorAsync)
COPY_VECTOR(cublasGetVectorAsync)
