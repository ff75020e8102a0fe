/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/formats/file_bytes.h"

#include <stdio.h>
#include <stdlib.h>

uint8_t *file_bytes(const char *path, size_t *length)
{
	size_t have = 0, capacity = 1 << 16, count;
	uint8_t *bytes = malloc(capacity + 1);
	FILE *file = fopen(path, "rb");

	if (!file) {
		perror(path);
		exit(1);
	}
	while (bytes && (count = fread(bytes + have, 1, capacity - have, file)) > 0) {
		have += count;
		if (have == capacity)
			bytes = realloc(bytes, (capacity *= 2) + 1);
	}
	fclose(file);
	if (!bytes)
		exit(1);
	bytes[have] = 0;
	*length = have;
	return bytes;
}
