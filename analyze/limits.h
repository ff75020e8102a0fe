/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds on what an imported file may cost; see limits.def.
 */
#ifndef VC_ANALYZE_LIMITS_H
#define VC_ANALYZE_LIMITS_H

#include <stdint.h>

enum vc_limit {
#define VC_LIMIT(name, word, most, text) VC_LIMIT_##name,
#include "analyze/limits.def"
#undef VC_LIMIT
	VC_LIMITS
};

struct vc_limits {
	uint64_t most[VC_LIMITS];
};

extern const struct vc_limits vc_limits_default;
extern const char *const vc_limit_name[VC_LIMITS];
extern const char *const vc_limit_text[VC_LIMITS];

#endif
