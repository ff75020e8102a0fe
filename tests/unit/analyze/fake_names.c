/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/analyze/fake_names.h"

#include <string.h>

static const struct fake_name *known;
static char module_build_id[64][64];

static int want(void *context, uint32_t module, const char *path, const char *build_id,
		uint64_t offset)
{
	(void)context;
	(void)path;
	(void)offset;
	strncpy(module_build_id[module], build_id, 63);
	return 0;
}

static int resolve(void *context)
{
	(void)context;
	return 0;
}

static int get(void *context, uint32_t module, uint64_t offset, size_t index,
	       struct vc_frame_name *ret)
{
	(void)context;
	for (const struct fake_name *name = known; name->build_id; name++) {
		if (strcmp(name->build_id, module_build_id[module]) || name->offset != offset ||
		    name->index != index)
			continue;
		ret->function = name->function;
		ret->file = name->file;
		ret->line = name->line;
		return 0;
	}
	return VC_E_NOT_FOUND;
}

struct vc_resolver *fake_resolver(const struct fake_name *names)
{
	static struct vc_resolver resolver = {NULL, want, resolve, get, NULL};

	known = names;
	return &resolver;
}
