/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/library.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "formats/error.h"

#define LIBRARY "libvramcore.so"

int vc_library_find(char *ret, size_t size)
{
	static const char *const places[] = {
		"/" LIBRARY,
		"/../lib/" LIBRARY,
		"/../lib/vramcore/" LIBRARY,
#if defined(__x86_64__)
		"/../lib/x86_64-linux-gnu/" LIBRARY,
#elif defined(__aarch64__)
		"/../lib/aarch64-linux-gnu/" LIBRARY,
#endif
	};
	char program[PATH_MAX], path[PATH_MAX + 64];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	if (length <= 0)
		return VC_E_NOT_FOUND;
	program[length] = 0;
	slash = strrchr(program, '/');
	if (!slash)
		return VC_E_NOT_FOUND;
	*slash = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", program, places[i]);
		if (access(path, R_OK) == 0)
			return snprintf(ret, size, "%s", path) < (int)size ? 0 : VC_E_LIMIT;
	}
	return VC_E_NOT_FOUND;
}

int vc_library_preload(const char *library, const char *folder, const char *before, char *ret,
		       size_t size)
{
	char link[PATH_MAX];
	int length;

	if (strpbrk(library, " \t:")) {
		snprintf(link, sizeof(link), "%s/" LIBRARY, folder);
		if (strpbrk(link, " \t:") || symlink(library, link) != 0)
			return VC_E_INVALID;
		library = link;
	}
	length = before && *before ? snprintf(ret, size, "%s:%s", library, before) :
				     snprintf(ret, size, "%s", library);
	return length < (int)size ? 0 : VC_E_LIMIT;
}
