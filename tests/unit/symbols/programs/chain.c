/* SPDX-License-Identifier: Apache-2.0 */
#include "mark.h"

static INLINE void innermost(int depth)
{
	(void)depth;
	mark("chain"); AFTER; /* LINE innermost */
}

static INLINE void middle(int depth)
{
	innermost(depth + 1); /* LINE middle */
	AFTER;
}

NOINLINE void outer(int depth)
{
	middle(depth + 1); /* LINE outer */
	AFTER;
}

static NOINLINE void plain(void)
{
	mark("plain"); AFTER; /* LINE plain */
}

/* Code that no sized symbol, no debug information and no unwind entry covers. */
void unsized(void);
__asm__(".text\n.type unsized,@function\nunsized:\n.rept 64\nnop\n.endr\nret\n");

int main(void)
{
	print_offset("start_of_outer", (const void *)outer);
	print_offset("unsized", (const char *)unsized + 16);
	outer(0);
	plain();
	mark("main"); AFTER; /* LINE main */
	return 0;
}
