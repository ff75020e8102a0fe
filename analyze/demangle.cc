/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/demangle.h"

#include <cxxabi.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analyze/demangle_rust.h"

namespace
{

const size_t NAME_LIMIT = 16384;
const uint64_t EXPANSION_LIMIT = uint64_t(1) << 28;
const unsigned DEPTH_LIMIT = 256;

/*
 * Estimates the length a name expands to, without parsing it, and errs on the large side. A group
 * between an opening letter and its E weighs what stands in it; a back-reference (S_, S0_, T_) as
 * much as the heaviest thing it may mean: a closed group, or a nested name still open. Real names
 * of large C++ libraries stay below 2^24; names made to explode double with every few letters.
 */
struct Estimate {
	uint64_t weight[DEPTH_LIMIT];
	bool nested_name[DEPTH_LIMIT];
	uint64_t heaviest;
	unsigned depth;

	uint64_t reference() const
	{
		uint64_t most = heaviest;

		for (unsigned i = 0; i <= depth; i++)
			if (nested_name[i] && weight[i] > most)
				most = weight[i];
		return most;
	}
};

/* Length of a reference at `at`, 0 if there is none. */
size_t reference_length(const char *at)
{
	size_t length = 1;

	if (*at != 'S' && *at != 'T')
		return 0;
	while ((at[length] >= '0' && at[length] <= '9') || (at[length] >= 'A' && at[length] <= 'Z'))
		length++;
	return at[length] == '_' ? length + 1 : 0;
}

/*
 * Steps over a number and the identifier whose length it may be. It may also be the value of a
 * literal, put there to hide what follows, so references inside still count.
 */
const char *step_identifier(Estimate *estimate, const char *at)
{
	uint64_t *weight = &estimate->weight[estimate->depth];
	size_t length = 0;

	for (; *at >= '0' && *at <= '9' && length < NAME_LIMIT; at++)
		length = length * 10 + size_t(*at - '0');
	for (; length > 0 && *at && *weight < EXPANSION_LIMIT; length--, at++) {
		uint64_t most = estimate->reference();

		*weight += 1;
		if (reference_length(at))
			*weight += most > *weight ? most : *weight;
	}
	return at;
}

bool expands_too_far(const char *at)
{
	Estimate estimate;

	memset(&estimate, 0, sizeof(estimate));
	while (*at && estimate.weight[estimate.depth] < EXPANSION_LIMIT) {
		uint64_t *weight = &estimate.weight[estimate.depth];
		size_t length = reference_length(at);

		if (*at >= '0' && *at <= '9') {
			at = step_identifier(&estimate, at);
			continue;
		}
		*weight += 1;
		if (length) {
			*weight += estimate.reference();
			at += length;
			continue;
		}
		if ((*at == 'D' || *at == 's') && at[1] == 'p') /* a pack: repeats what follows */
			*weight += 8 * estimate.reference();
		if (strchr("INFXJL", *at)) {
			if (++estimate.depth == DEPTH_LIMIT)
				return true;
			estimate.weight[estimate.depth] = 0;
			estimate.nested_name[estimate.depth] = *at == 'N';
		} else if (*at == 'E' && estimate.depth > 0) {
			if (*weight > estimate.heaviest)
				estimate.heaviest = *weight;
			estimate.depth--;
			estimate.weight[estimate.depth] += *weight;
		}
		at++;
	}
	return estimate.weight[estimate.depth] >= EXPANSION_LIMIT;
}

} /* namespace */

extern "C" char *vc_demangle(const char *name)
{
	int status = 0;
	char *rust = vc_demangle_rust(name);

	if (rust)
		return rust;
	if (!name || name[0] != '_' || name[1] != 'Z' || strnlen(name, NAME_LIMIT) == NAME_LIMIT)
		return NULL;
	if (expands_too_far(name + 2))
		return NULL;
	return abi::__cxa_demangle(name, NULL, NULL, &status);
}
