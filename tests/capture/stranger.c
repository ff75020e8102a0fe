/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is not the driver and exports names like the driver's. */
int cuMemAlloc_v2(void);
int cudnnCreate(void);

int cuMemAlloc_v2(void)
{
	return 4242;
}

int cudnnCreate(void)
{
	return 4243;
}
