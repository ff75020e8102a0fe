/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of call chains in C++: destructors, exceptions, virtual calls, callbacks of the library. */
#include "tests/unit/unwind/chain.h"

#include <algorithm>
#include <functional>
#include <string>

namespace {

struct guard {
	std::string text{"a text long enough not to lie in the object itself"};
	~guard()
	{
		__asm__ volatile("" : : "r"(text.data()) : "memory");
	}
};

void with_guard(struct chain *chain, unsigned int at)
{
	guard g;

	chain_next(chain, at);
}

void throws(struct chain *chain, unsigned int at)
{
	try {
		guard g;

		chain_next(chain, at);
		throw at;
	} catch (unsigned int) {
		/* The stack as it is while an exception is handled. */
		chain->leaf(chain);
	}
}

void through_function(struct chain *chain, unsigned int at)
{
	std::function<void()> next = [chain, at] { chain_next(chain, at); };

	next();
	__asm__ volatile("" : : : "memory");
}

} // namespace

extern "C" {
extern chain_node *const CHAIN_NODES[];
chain_node *const CHAIN_NODES[] = {with_guard, throws, through_function, nullptr};
}
