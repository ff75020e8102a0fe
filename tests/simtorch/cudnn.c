/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN, versions 8 and 9: descriptors remember what was set and give it back; one engine, one
 * algorithm of each kind, neither of which needs a workspace. Constants are those of the public
 * documentation.
 */
#include <string.h>

#include "cudnn_rnn.h"

enum {
	SUCCESS = 0,
	NOT_SUPPORTED = STUB_REFUSAL,
	BAD_PARAMETER = STUB_REFUSAL > 1000 ? 2000 : 3,
	ALLOCATION_FAILED = STUB_REFUSAL > 1000 ? 4003 : 2
};

#define DROPOUT_STATES (1u << 20)

/* Of this library's minor release; newer than what any wheel that it stands for was built with. */
#if STUB_REFUSAL > 1000
enum { MAJOR = 9, MINOR = 26, VERSION = 92600 };
#else
enum { MAJOR = 8, MINOR = 9, VERSION = 8907 };
#endif

size_t stub_cudnnGetVersion(void)
{
	return VERSION;
}

size_t stub_cudnnGetCudartVersion(void)
{
	return STUB_CUDA_MAJOR >= 13 ? 13020 : 12040;
}

int stub_cudnnGetProperty(int which, int *ret)
{
	if (!ret || which < 0 || which > 2)
		return BAD_PARAMETER;
	*ret = which == 0 ? MAJOR : which == 1 ? MINOR : 0;
	return SUCCESS;
}

const char *stub_cudnnGetErrorString(int status)
{
	if (status == SUCCESS)
		return "CUDNN_STATUS_SUCCESS";
	return status == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}

void stub_cudnnGetLastErrorString(char *ret, size_t size)
{
	if (ret && size)
		*ret = '\0';
}

int stub_cudnnSetStream(void **handle, void *stream)
{
	if (!handle)
		return BAD_PARAMETER;
	*handle = stream;
	return SUCCESS;
}

int stub_cudnnGetStream(void **handle, void **ret)
{
	if (!handle || !ret)
		return BAD_PARAMETER;
	*ret = *handle;
	return SUCCESS;
}

int stub_cudnnDropoutGetStatesSize(void *handle, size_t *ret)
{
	(void)handle;
	if (!ret)
		return BAD_PARAMETER;
	*ret = DROPOUT_STATES;
	return SUCCESS;
}

/* --- descriptors of tensors and filters --- */

#define MOST_DIMENSIONS 8

static int set_shape(struct shape *shape, int type, int format, int count, const int *size,
		     const int *step)
{
	if (!shape || !size || count < 0)
		return BAD_PARAMETER;
	if (count > MOST_DIMENSIONS)
		return NOT_SUPPORTED;
	shape->type = type;
	shape->format = format;
	shape->count = count;
	memcpy(shape->size, size, (size_t)count * sizeof(*size));
	if (step)
		memcpy(shape->step, step, (size_t)count * sizeof(*step));
	return SUCCESS;
}

int stub_cudnnSetTensorNdDescriptor(struct shape *shape, int type, int count, const int *size,
				    const int *step)
{
	return set_shape(shape, type, 0, count, size, step);
}

int stub_cudnnSetFilterNdDescriptor(struct shape *shape, int type, int format, int count,
				    const int *size)
{
	return set_shape(shape, type, format, count, size, NULL);
}

static size_t asked_for(const struct shape *shape, int wanted)
{
	int count = wanted < shape->count ? wanted : shape->count;

	return count < 0 ? 0 : (size_t)count * sizeof(int);
}

int stub_cudnnGetTensorNdDescriptor(const struct shape *shape, int wanted, int *type, int *count,
				    int *size, int *step)
{
	if (!shape || !type || !count || !size || !step)
		return BAD_PARAMETER;
	*type = shape->type;
	*count = shape->count;
	memcpy(size, shape->size, asked_for(shape, wanted));
	memcpy(step, shape->step, asked_for(shape, wanted));
	return SUCCESS;
}

int stub_cudnnGetFilterNdDescriptor(const struct shape *shape, int wanted, int *type, int *format,
				    int *count, int *size)
{
	if (!shape || !type || !format || !count || !size)
		return BAD_PARAMETER;
	*type = shape->type;
	*format = shape->format;
	*count = shape->count;
	memcpy(size, shape->size, asked_for(shape, wanted));
	return SUCCESS;
}

/* --- the convolution algorithms of the interface before graphs --- */

struct performance { /* the same for all three directions */
	int algorithm;
	int status;
	float time;
	size_t memory;
	int determinism;
	int math;
	int reserved[3];
};

static int offer_one(int wanted, int *count, struct performance *ret)
{
	if (wanted < 1 || !count || !ret)
		return BAD_PARAMETER;
	memset(ret, 0, sizeof(*ret));
	*count = 1;
	return SUCCESS;
}

#define GET_ALGORITHM(name)                                                                        \
	int stub_##name(void *handle, void *a, void *b, void *convolution, void *c, int wanted,    \
			int *count, struct performance *ret)                                       \
	{                                                                                          \
		(void)handle, (void)a, (void)b, (void)convolution, (void)c;                        \
		return offer_one(wanted, count, ret);                                              \
	}

GET_ALGORITHM(cudnnGetConvolutionForwardAlgorithm_v7)
GET_ALGORITHM(cudnnGetConvolutionBackwardDataAlgorithm_v7)
GET_ALGORITHM(cudnnGetConvolutionBackwardFilterAlgorithm_v7)

#define FIND_ALGORITHM(name)                                                                       \
	int stub_##name(void *handle, void *a_shape, void *a, void *b_shape, void *b,              \
			void *convolution, void *c_shape, void *c, int wanted, int *count,         \
			struct performance *ret, void *workspace, size_t size)                     \
	{                                                                                          \
		(void)handle, (void)a_shape, (void)a, (void)b_shape, (void)b, (void)convolution;   \
		(void)c_shape, (void)c, (void)workspace, (void)size;                               \
		return offer_one(wanted, count, ret);                                              \
	}

FIND_ALGORITHM(cudnnFindConvolutionForwardAlgorithmEx)
FIND_ALGORITHM(cudnnFindConvolutionBackwardDataAlgorithmEx)
FIND_ALGORITHM(cudnnFindConvolutionBackwardFilterAlgorithmEx)
