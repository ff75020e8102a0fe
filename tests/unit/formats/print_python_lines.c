/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads "VERSION FIRST_LINE LENGTH TABLE" lines (hexadecimal, decimal, decimal, hexadecimal) and
 * prints the line of every second byte of LENGTH bytes of code.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/python_lines.h"

int main(void)
{
	unsigned int version, first;
	unsigned long length;
	char *line = NULL;
	size_t size = 0;
	int used;

	while (getline(&line, &size, stdin) > 0) {
		uint8_t *table = malloc(size);
		size_t bytes = 0;

		if (!table || sscanf(line, "%x %u %lu %n", &version, &first, &length, &used) != 3)
			return 2;
		for (const char *at = line + used; sscanf(at, "%2hhx", &table[bytes]) == 1; at += 2)
			bytes++;
		for (unsigned long i = 0; i < length; i += 2)
			printf("%" PRIu32 " ", vc_python_line((uint16_t)version, first, table, bytes, i));
		putchar('\n');
		free(table);
	}
	free(line);
	return 0;
}
