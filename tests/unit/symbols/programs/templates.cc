/* SPDX-License-Identifier: Apache-2.0 */
#include "mark.h"

template <typename T> struct holder {
	T *items;
	INLINE T *grow(int count)
	{
		(void)count;
		mark("template"); AFTER; /* LINE grow */
		return items;
	}
};

/* Something to clean up when an exception passes: the unwind entry names who does it. */
struct guard {
	~guard() { AFTER; }
};

template <typename T, int N> NOINLINE T *fill(holder<T> &into)
{
	guard cleanup;
	T *items = into.grow(N); /* LINE fill */
	AFTER;
	return items;
}

namespace {

struct hidden {
	int value;
};

INLINE void in_lambda(const char *name)
{
	mark(name); AFTER; /* LINE in_lambda */
}

/* The code of such lambdas is described where they stand, inside the functions around them. */
INLINE int around_lambda(int count)
{
	auto lambda = [&]() NOINLINE {
		in_lambda("lambda"); /* LINE lambda */
		AFTER;
		return count + 1;
	};
	return lambda();
}

NOINLINE int not_inlined(int count)
{
	if (count > 2) {
		auto lambda = [&]() NOINLINE {
			in_lambda("in_block"); /* LINE in_block */
			AFTER;
			return count + 1;
		};
		count += lambda();
	}
	AFTER;
	return count;
}

NOINLINE int helper(const hidden &from)
{
	mark("hidden"); AFTER; /* LINE helper */
	return from.value;
}

} /* namespace */

namespace outer {
namespace inner {

NOINLINE void nested()
{
	struct local {
		NOINLINE void method()
		{
			mark("local"); AFTER; /* LINE method */
		}
	};
	local().method();
	AFTER;
}

} /* namespace inner */
} /* namespace outer */

int main()
{
	double item = 0;
	holder<double> doubles = {&item};
	hidden from = {3};

	fill<double, 3>(doubles);
	outer::inner::nested();
	return helper(from) + around_lambda(1) + not_inlined(from.value) == 0;
}
