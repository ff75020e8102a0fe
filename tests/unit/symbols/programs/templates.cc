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

template <typename T, int N> NOINLINE T *fill(holder<T> &into)
{
	T *items = into.grow(N); /* LINE fill */
	AFTER;
	return items;
}

namespace {

struct hidden {
	int value;
};

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
	return helper(from) != 3;
}
