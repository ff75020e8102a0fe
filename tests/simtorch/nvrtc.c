/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVRTC: every source compiles to the same text, which names nothing; the driver takes any kernel's
 * name for such an image.
 */
#include <string.h>

#include "stub.h"

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3 };

struct program {
	int unused;
};

static const char image[] = "// simtorch\n";

const char *stub_nvrtcGetErrorString(int result)
{
	return result == SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_INVALID_INPUT";
}

int stub_nvrtcVersion(int *major, int *minor)
{
	if (!major || !minor)
		return INVALID_INPUT;
	*major = STUB_CUDA_MAJOR;
	*minor = STUB_CUDA_MAJOR >= 13 ? 2 : 4;
	return SUCCESS;
}

int stub_nvrtcCreateProgram(struct program **ret, const char *source, const char *name, int headers,
			    const char *const *header, const char *const *include)
{
	struct program *program = ret && source ? stub_object(sizeof(*program)) : NULL;

	(void)name, (void)headers, (void)header, (void)include;
	if (!program)
		return ret && source ? OUT_OF_MEMORY : INVALID_INPUT;
	*ret = program;
	return SUCCESS;
}

int stub_nvrtcDestroyProgram(struct program **program)
{
	if (!program)
		return INVALID_INPUT;
	stub_object_free(*program);
	*program = NULL;
	return SUCCESS;
}

int stub_nvrtcGetLoweredName(struct program *program, const char *expression, const char **ret)
{
	(void)program, (void)expression;
	if (!ret)
		return INVALID_INPUT;
	*ret = "simtorch_kernel";
	return SUCCESS;
}

static int write_size(size_t *ret, size_t size)
{
	if (!ret)
		return INVALID_INPUT;
	*ret = size;
	return SUCCESS;
}

static int write_text(char *ret, const char *text, size_t size)
{
	if (!ret)
		return INVALID_INPUT;
	memcpy(ret, text, size);
	return SUCCESS;
}

#define TEXT(name, text)                                                                           \
	int stub_nvrtcGet##name##Size(struct program *program, size_t *ret)                        \
	{                                                                                          \
		(void)program;                                                                     \
		return write_size(ret, sizeof(text));                                              \
	}                                                                                          \
	int stub_nvrtcGet##name(struct program *program, char *ret)                                \
	{                                                                                          \
		(void)program;                                                                     \
		return write_text(ret, text, sizeof(text));                                        \
	}

TEXT(PTX, image)
TEXT(CUBIN, image)
TEXT(ProgramLog, "")
