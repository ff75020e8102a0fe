/* SPDX-License-Identifier: Apache-2.0 */
/* cuSPARSE: a matrix remembers its sizes; no pivot is zero. */
#include "stub.h"

enum { SUCCESS = 0, ALLOCATION_FAILED = 2, INVALID_VALUE = 3 };

struct matrix {
	int64_t rows, columns, nonzero;
};

static int create(struct matrix **ret, int64_t rows, int64_t columns, int64_t nonzero)
{
	struct matrix *matrix;

	if (!ret || rows < 0 || columns < 0 || nonzero < 0)
		return INVALID_VALUE;
	matrix = stub_object(sizeof(*matrix));
	if (!matrix)
		return ALLOCATION_FAILED;
	*matrix = (struct matrix){ rows, columns, nonzero };
	*ret = matrix;
	return SUCCESS;
}

/* The arrays, their types and the value's type follow; they are not looked at. */
int stub_cusparseCreateCoo(struct matrix **ret, int64_t rows, int64_t columns, int64_t nonzero)
{
	return create(ret, rows, columns, nonzero);
}

int stub_cusparseCreateCsr(struct matrix **ret, int64_t rows, int64_t columns, int64_t nonzero)
{
	return create(ret, rows, columns, nonzero);
}

int stub_cusparseSpMatGetSize(const struct matrix *matrix, int64_t *rows, int64_t *columns,
			      int64_t *nonzero)
{
	if (!matrix || !rows || !columns || !nonzero)
		return INVALID_VALUE;
	*rows = matrix->rows;
	*columns = matrix->columns;
	*nonzero = matrix->nonzero;
	return SUCCESS;
}

static int no_pivot(int *position)
{
	if (!position)
		return INVALID_VALUE;
	*position = -1;
	return SUCCESS;
}

int stub_cusparseXbsrsm2_zeroPivot(void *handle, void *info, int *position)
{
	(void)handle, (void)info;
	return no_pivot(position);
}

int stub_cusparseXbsrsv2_zeroPivot(void *handle, void *info, int *position)
{
	(void)handle, (void)info;
	return no_pivot(position);
}
