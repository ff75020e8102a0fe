/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct vc_arena_piece {
	struct vc_arena_piece *older;
	_Alignas(16) unsigned char bytes[];
};

#define PIECE_BYTES 65536u

void *vc_arena_allocate(struct vc_arena *arena, size_t count, size_t size)
{
	struct vc_arena_piece *piece;
	size_t bytes;
	void *ret;

	if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4)
		return NULL;
	bytes = (bytes + 15) & ~(size_t)15;
	if (!arena->newest || arena->size - arena->used < bytes) {
		size_t room = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;

		piece = malloc(sizeof(*piece) + room);
		if (!piece)
			return NULL;
		piece->older = arena->newest;
		arena->newest = piece;
		arena->used = 0;
		arena->size = room;
	}
	ret = arena->newest->bytes + arena->used;
	arena->used += bytes;
	return memset(ret, 0, bytes);
}

char *vc_arena_string(struct vc_arena *arena, const char *string)
{
	size_t bytes = strlen(string) + 1;
	char *copy = vc_arena_allocate(arena, bytes, 1);

	return copy ? memcpy(copy, string, bytes) : NULL;
}

void vc_arena_deinit(struct vc_arena *arena)
{
	while (arena->newest) {
		struct vc_arena_piece *older = arena->newest->older;

		free(arena->newest);
		arena->newest = older;
	}
	*arena = (struct vc_arena){0};
}
