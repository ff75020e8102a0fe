/* SPDX-License-Identifier: Apache-2.0 */
/* What a module's names are like, in words: the same in a build that reads none. */
#include "analyze/symbols.h"

const char *vc_module_state_text(enum vc_module_state state)
{
	static const char *const texts[] = {
#define VC_MODULE_STATE(name, text) [VC_MODULE_##name] = text,
		VC_MODULE_STATES(VC_MODULE_STATE)
#undef VC_MODULE_STATE
	};

	return (unsigned)state < VC_MODULE_STATE_COUNT ? texts[state] : "unknown";
}
