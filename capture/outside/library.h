/* SPDX-License-Identifier: Apache-2.0 */
/* Where the recorder's library is: beside this program, or where an installation puts it. */
#ifndef VC_CAPTURE_OUTSIDE_LIBRARY_H
#define VC_CAPTURE_OUTSIDE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Path of libvramcore.so, found relative to the running program (its own folder, ../lib,
 * ../lib/vramcore, ../lib/ARCH-linux-gnu), so that an unpacked folder works wherever it lies.
 * 0, or a negative VC_E_NOT_FOUND.
 */
int vc_library_find(char *ret, size_t size);
/**
 * A folder of this user's own, below /tmp and kept, for a link to a library whose path LD_PRELOAD
 * cannot hold; it exists for this library alone. 0 or a negative VC_E_*.
 */
int vc_library_link_folder(const char *library, char *ret, size_t size);
/** Whether LD_PRELOAD can hold a path. */
bool vc_library_plain(const char *path);
/** Path of libvramcore-audit.so, beside `library`. 0, or a negative VC_E_NOT_FOUND or _LIMIT. */
int vc_library_audit(const char *library, char *ret, size_t size);
/**
 * A value for LD_PRELOAD or LD_AUDIT: the library before what is there already. They cannot hold
 * paths with blanks or colons; for such a library a link in `folder` is used. 0 or a negative VC_E_*.
 */
int vc_library_preload(const char *library, const char *folder, const char *before, char *ret,
		       size_t size);

/**
 * A value for ASAN_OPTIONS with which `program` starts although the recorder is loaded before
 * AddressSanitizer, which wants to be first; the recorder stands in front of nothing that it needs.
 * False where the program has no AddressSanitizer and needs none.
 */
bool vc_library_sanitizer(const char *program, char *ret, size_t size);

#endif
