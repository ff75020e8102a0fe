/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A resolver that knows a table of (build-id, offset) and the frames there: names without files.
 */
#ifndef VC_TESTS_UNIT_ANALYZE_FAKE_NAMES_H
#define VC_TESTS_UNIT_ANALYZE_FAKE_NAMES_H

#include "analyze/names.h"

struct fake_name {
	const char *build_id;
	uint64_t offset;
	size_t index;         /* of the frame at this address, innermost 0 */
	const char *function, *file;
	uint32_t line;
};

/** Names until a row without build-id. The table must outlive the resolver. */
struct vc_resolver *fake_resolver(const struct fake_name *names);

#endif
