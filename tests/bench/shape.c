/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/shape.h"

#include <string.h>

typedef void shape_function(struct shape *shape, unsigned int at);
static shape_function *const functions[256];

static inline __attribute__((always_inline)) void next(struct shape *shape, unsigned int at)
{
	if (at == shape->depth)
		shape->leaf(shape);
	else
		functions[shape->function[shape->stack][at]](shape, at + 1);
}

/* What is used after the call lies in saved registers: in none, one or several of them. */
#define FUNCTION(number)                                                                           \
	static __attribute__((noinline)) void function_##number(struct shape *shape,              \
								unsigned int at)                  \
	{                                                                                          \
		volatile char room[16 + number * 7 % 13 * 24];                                     \
		uint64_t before = number % 4 > 1 ? shape->used : 0;                                \
                                                                                                   \
		room[at % sizeof(room)] = 0;                                                       \
		next(shape, at);                                                                   \
		if (number % 4)                                                                    \
			shape->used += at + (uint64_t)room[at % sizeof(room)] + before % 3;        \
	}
#define SIXTEEN(F, high)                                                                           \
	F(0x##high##0)                                                                             \
	F(0x##high##1)                                                                             \
	F(0x##high##2)                                                                             \
	F(0x##high##3)                                                                             \
	F(0x##high##4)                                                                             \
	F(0x##high##5)                                                                             \
	F(0x##high##6)                                                                             \
	F(0x##high##7)                                                                             \
	F(0x##high##8)                                                                             \
	F(0x##high##9)                                                                             \
	F(0x##high##a)                                                                             \
	F(0x##high##b)                                                                             \
	F(0x##high##c)                                                                             \
	F(0x##high##d)                                                                             \
	F(0x##high##e)                                                                             \
	F(0x##high##f)
#define ALL(F)                                                                                     \
	SIXTEEN(F, 0)                                                                              \
	SIXTEEN(F, 1)                                                                              \
	SIXTEEN(F, 2)                                                                              \
	SIXTEEN(F, 3)                                                                              \
	SIXTEEN(F, 4)                                                                              \
	SIXTEEN(F, 5)                                                                              \
	SIXTEEN(F, 6)                                                                              \
	SIXTEEN(F, 7)                                                                              \
	SIXTEEN(F, 8)                                                                              \
	SIXTEEN(F, 9)                                                                              \
	SIXTEEN(F, a)                                                                              \
	SIXTEEN(F, b)                                                                              \
	SIXTEEN(F, c)                                                                              \
	SIXTEEN(F, d)                                                                              \
	SIXTEEN(F, e)                                                                              \
	SIXTEEN(F, f)
ALL(FUNCTION)

static shape_function *const functions[256] = {
#define PLACE(number) [number] = function_##number,
	ALL(PLACE)
};

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

void shape_init(struct shape *shape, unsigned int depth, void (*leaf)(struct shape *shape))
{
	uint32_t random = 1;

	memset(shape, 0, sizeof(*shape));
	shape->leaf = leaf;
	shape->depth = depth < SHAPE_DEEPEST ? depth : SHAPE_DEEPEST;
	for (unsigned int i = 0; i < SHAPE_STACKS; i++) {
		unsigned int shared = 0;

		if (i > 0) {
			shared = shape->depth * (30 + next_random(&random) % 61) / 100;
			memcpy(shape->function[i], shape->function[i - 1], shared);
		}
		for (unsigned int at = shared; at < shape->depth; at++)
			shape->function[i][at] = (uint8_t)next_random(&random);
	}
}

void shape_visit(struct shape *shape)
{
	for (shape->stack = 0; shape->stack < SHAPE_STACKS; shape->stack++) {
		next(shape, 0);
		__asm__ volatile("" ::: "memory");
	}
}
