/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/owner.h"

#include <string.h>

struct rule {
	const char *pattern;
	enum vc_owner owner;
	const char *name;
};

static const struct rule libraries[] = {
#define VC_LIBRARY(prefix, owner, name) {prefix, VC_OWNER_##owner, name},
#define VC_FUNCTION(prefix, owner)
#define VC_SOURCE(part, owner)
#include "analyze/libraries.def"
#undef VC_LIBRARY
#undef VC_FUNCTION
#undef VC_SOURCE
};

static const struct rule functions[] = {
#define VC_LIBRARY(prefix, owner, name)
#define VC_FUNCTION(prefix, owner) {prefix, VC_OWNER_##owner, ""},
#define VC_SOURCE(part, owner)
#include "analyze/libraries.def"
#undef VC_LIBRARY
#undef VC_FUNCTION
#undef VC_SOURCE
};

static const struct rule sources[] = {
#define VC_LIBRARY(prefix, owner, name)
#define VC_FUNCTION(prefix, owner)
#define VC_SOURCE(part, owner) {part, VC_OWNER_##owner, ""},
#include "analyze/libraries.def"
#undef VC_LIBRARY
#undef VC_FUNCTION
#undef VC_SOURCE
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct rule *by_prefix(const struct rule *rules, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(text, rules[i].pattern, strlen(rules[i].pattern)))
			return &rules[i];
	return NULL;
}

static const struct rule *of_path(const char *path)
{
	const char *slash = strrchr(path, '/');

	return by_prefix(libraries, COUNT(libraries), slash ? slash + 1 : path);
}

bool vc_owner_is_driver(const char *path)
{
	const struct rule *rule = of_path(path);

	return rule && rule->owner == VC_OWNER_DRIVER;
}

void vc_owner_find(struct vc_frame_name *frame)
{
	const struct rule *rule = of_path(frame->module);

	if (!rule && frame->function && !frame->file)
		rule = by_prefix(functions, COUNT(functions), frame->function);
	for (size_t i = 0; !rule && frame->file && i < COUNT(sources); i++)
		if (strstr(frame->file, sources[i].pattern))
			rule = &sources[i];
	frame->owner = rule ? rule->owner : VC_OWNER_USER;
	frame->library = rule ? rule->name : NULL;
}

bool vc_owner_tells(const struct vc_frame_name *frame)
{
	static const struct {
		const char *start, *part;
	} telling[] = {
#define VC_TELLING(start, part) {start, part},
#include "analyze/telling.def"
#undef VC_TELLING
	};

	if (!frame->function || frame->owner != VC_OWNER_LIBRARY)
		return false;
	for (size_t i = 0; i < COUNT(telling); i++)
		if (!strncmp(frame->function, telling[i].start, strlen(telling[i].start)) &&
		    strstr(frame->function, telling[i].part))
			return true;
	return false;
}
