/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: the simulated driver's devices, with their bus and identity as the driver gives them; no
 * other processes, no NVLink, no fabric. It is asked by programs that have not initialised the
 * driver, so that it reads the driver's own variable for the number of devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

#define FIRST_BUS 0x18u /* as the simulated driver's devices have it */
#define MOST_DEVICES 16u

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

static unsigned int device_count(void)
{
	const char *text = getenv("SIMCUDA_DEVICES");
	int count = text && *text ? atoi(text) : 1;

	if (count < 0)
		return 0;
	return (unsigned int)count > MOST_DEVICES ? MOST_DEVICES : (unsigned int)count;
}

/* A handle is the device's number plus one. */
static void *handle_of(unsigned int device)
{
	return (void *)(uintptr_t)(device + 1);
}

const char *stub_nvmlErrorString(int result)
{
	return result == SUCCESS ? "Success" : "Not Supported";
}

static int write_text(char *ret, unsigned int size, const char *text)
{
	if (!ret)
		return INVALID_ARGUMENT;
	if (size <= strlen(text))
		return INSUFFICIENT_SIZE;
	strcpy(ret, text);
	return SUCCESS;
}

int stub_nvmlSystemGetDriverVersion(char *ret, unsigned int size)
{
	return write_text(ret, size, "580.00");
}

int stub_nvmlSystemGetCudaDriverVersion_v2(int *ret)
{
	if (!ret)
		return INVALID_ARGUMENT;
	*ret = 13000;
	return SUCCESS;
}

int stub_nvmlDeviceGetCount_v2(unsigned int *ret)
{
	if (!ret)
		return INVALID_ARGUMENT;
	*ret = device_count();
	return SUCCESS;
}

int stub_nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **ret)
{
	if (!ret || index >= device_count())
		return INVALID_ARGUMENT;
	*ret = handle_of(index);
	return SUCCESS;
}

int stub_nvmlDeviceGetHandleByPciBusId_v2(const char *text, void **ret)
{
	unsigned int domain, bus;

	if (!text || !ret)
		return INVALID_ARGUMENT;
	if (sscanf(text, "%x:%x", &domain, &bus) != 2 || bus < FIRST_BUS ||
	    bus - FIRST_BUS >= device_count())
		return NOT_FOUND;
	*ret = handle_of(bus - FIRST_BUS);
	return SUCCESS;
}

int stub_nvmlDeviceGetUUID(void *handle, char *ret, unsigned int size)
{
	unsigned char bytes[16];
	char text[48] = "GPU-";
	char *end = text + 4;

	if (!handle)
		return INVALID_ARGUMENT;
	memcpy(bytes, "SIMCUDA-DEVICE--", sizeof(bytes));
	bytes[15] = (unsigned char)((uintptr_t)handle - 1);
	for (unsigned int i = 0; i < sizeof(bytes); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*end++ = '-';
		end += sprintf(end, "%02x", bytes[i]);
	}
	return write_text(ret, size, text);
}

int stub_nvmlDeviceGetP2PStatus(void *one, void *other, int index, int *ret)
{
	(void)index;
	if (!one || !other || !ret)
		return INVALID_ARGUMENT;
	*ret = 0;
	return SUCCESS;
}
