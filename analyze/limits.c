/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/limits.h"

const struct vc_limits vc_limits_default = {{
#define VC_LIMIT(name, word, value, text) value,
#include "analyze/limits.def"
#undef VC_LIMIT
}};

const char *const vc_limit_name[VC_LIMITS] = {
#define VC_LIMIT(name, word, value, text) word,
#include "analyze/limits.def"
#undef VC_LIMIT
};

const char *const vc_limit_text[VC_LIMITS] = {
#define VC_LIMIT(name, word, value, text) text,
#include "analyze/limits.def"
#undef VC_LIMIT
};
