/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI: it is there, and refuses to trace; profilers go on with what they see on the host. */
#include "stub.h"

enum { SUCCESS = 0, INVALID_PARAMETER = 1 };

int stub_cuptiGetVersion(uint32_t *ret)
{
	if (!ret)
		return INVALID_PARAMETER;
	*ret = STUB_CUDA_MAJOR >= 13 ? 130200 : 24;
	return SUCCESS;
}

int stub_cuptiGetResultString(int result, const char **ret)
{
	if (!ret)
		return INVALID_PARAMETER;
	*ret = result == SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_NOT_SUPPORTED";
	return SUCCESS;
}
