/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/library.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/outside/program.h"
#include "formats/error.h"

#define LIBRARY "libvramcore.so"
#define AUDIT_LIBRARY "libvramcore-audit.so"

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

int vc_library_audit(const char *library, char *ret, size_t size)
{
	const char *slash = strrchr(library, '/');

	if (!slash)
		return VC_E_NOT_FOUND;
	if (snprintf(ret, size, "%.*s/" AUDIT_LIBRARY, (int)(slash - library), library) >= (int)size)
		return VC_E_LIMIT;
	return access(ret, R_OK) == 0 ? 0 : VC_E_NOT_FOUND;
}

bool vc_library_plain(const char *path)
{
	return !strpbrk(path, " \t\n:");
}

/* A folder that nobody else can put anything into. */
static int own_folder(const char *path)
{
	struct stat status;

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return VC_E_IO;
	if (lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
	    status.st_mode & (S_IWGRP | S_IWOTH))
		return VC_E_INVALID;
	return 0;
}

int vc_library_link_folder(const char *library, char *ret, size_t size)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	int result;

	for (const char *at = library; *at; at++)
		hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	if (snprintf(ret, size, "/tmp/vramcore-%u", (unsigned int)geteuid()) >= (int)size)
		return VC_E_LIMIT;
	result = own_folder(ret);
	if (!result && snprintf(ret, size, "/tmp/vramcore-%u/%016" PRIx64, (unsigned int)geteuid(),
				hash) >= (int)size)
		return VC_E_LIMIT;
	return result ? result : own_folder(ret);
}

static bool links_to(const char *link, const char *library)
{
	char target[PATH_MAX];
	ssize_t length = readlink(link, target, sizeof(target) - 1);

	return length == (ssize_t)strlen(library) && memcmp(target, library, (size_t)length) == 0;
}

int vc_library_preload(const char *library, const char *folder, const char *before, char *ret,
		       size_t size)
{
	char link[PATH_MAX];
	int length;

	if (!vc_library_plain(library)) {
		const char *slash = strrchr(library, '/');

		if (snprintf(link, sizeof(link), "%s/%s", folder, slash ? slash + 1 : library) >=
		    (int)sizeof(link))
			return VC_E_LIMIT;
		if (!vc_library_plain(link) ||
		    (symlink(library, link) != 0 && !(errno == EEXIST && links_to(link, library))))
			return VC_E_INVALID;
		library = link;
	}
	length = before && *before ? snprintf(ret, size, "%s:%s", library, before) :
				     snprintf(ret, size, "%s", library);
	return length < (int)size ? 0 : VC_E_LIMIT;
}

bool vc_library_sanitizer(const char *program, char *ret, size_t size)
{
	const char *before = getenv("ASAN_OPTIONS");
	char path[PATH_MAX];

	return vc_program_find(program, path) && vc_program_needs(path, "libasan.so") &&
	       snprintf(ret, size, "verify_asan_link_order=0%s%s", before && *before ? ":" : "",
			before ? before : "") < (int)size;
}
