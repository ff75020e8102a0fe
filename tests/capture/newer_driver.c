/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that is newer than the recorder: it has functions that nobody here knows, and one of a
 * known name gives memory in a new way.
 */
#include <string.h>

int cuInit(unsigned int flags);
int cuTexObjectCreate(void);
int cuFutureAllocate(void);
int cuFutureShare(void);
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
			int *status);

int cuInit(unsigned int flags)
{
	return (int)flags;
}

int cuTexObjectCreate(void)
{
	return 1;
}

int cuFutureAllocate(void)
{
	return 2;
}

int cuFutureShare(void)
{
	return 3;
}

static int allocate_anew(void)
{
	return 4;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
			int *status)
{
	(void)version;
	(void)flags;
	if (status)
		*status = 0;
	*function = !strcmp(name, "cuMemAlloc") ? (void *)allocate_anew :
						  (void *)cuTexObjectCreate;
	return 0;
}
