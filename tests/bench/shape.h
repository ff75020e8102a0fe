/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call stacks of the shape that programs have, for measurements.
 *
 * 64 different stacks of one depth, each through functions chosen among 256 that lay out their
 * frames differently and keep no frame pointer. Each stack has the outer part of the one before it:
 * between 30 and 90 % of its frames, 60 % on average. A program visits all of them in order, over
 * and over, as training visits its layers. One thread at a time may visit a shape.
 */
#ifndef VC_TESTS_BENCH_SHAPE_H
#define VC_TESTS_BENCH_SHAPE_H

#include <stdint.h>

enum { SHAPE_STACKS = 64, SHAPE_DEEPEST = 128 };

struct shape {
	void (*leaf)(struct shape *shape);
	unsigned int stack;  /* now visited */
	unsigned int depth;  /* functions between shape_visit and the leaf */
	uint64_t used;       /* so that the functions have something to do */
	uint8_t function[SHAPE_STACKS][SHAPE_DEEPEST];
};

/** `depth` functions in each stack, at most SHAPE_DEEPEST. The same shape in every run. */
void shape_init(struct shape *shape, unsigned int depth, void (*leaf)(struct shape *shape));
/** Calls the leaf once at the end of each stack. */
void shape_visit(struct shape *shape);

#endif
