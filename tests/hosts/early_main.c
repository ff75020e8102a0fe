/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose memory is there before main, and which only looks on. */
#include <stdio.h>

int early_failed(void);

int main(void)
{
	printf("failed %d\n", early_failed());
	return 12;
}
