/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording of the process that a core file is of.
 *
 * The recorder keeps an anchor (struct vc_anchor) in a page of its own. It is looked for in the
 * pages of the recorder's library, as NT_FILE names it, which needs neither the library's file nor
 * its symbols, and then in every writable page of the core, one word each; an anchor carries its own
 * address, so that copies of one are not taken for it. The recording itself is read out of the core
 * where its pages are in it, else from the file that the anchor names. Every byte is untrusted.
 */
#ifndef VC_CAPTURE_OUTSIDE_CORE_FIND_H
#define VC_CAPTURE_OUTSIDE_CORE_FIND_H

#include <limits.h>
#include <stdbool.h>

#include "capture/outside/core.h"
#include "formats/recording_read.h"

struct vc_core_recording {
	struct vc_anchor anchor;
	bool searched;            /* the anchor was found by the search of all pages */
	bool library;             /* NT_FILE names the recorder's library */
	int descriptor;           /* of the file that holds it; -1: it is in the core */
	char path[PATH_MAX];      /* of that file */
	struct vc_recording_source source;
	/* private */
	const struct vc_core *core;
	struct vc_root *root;
};

enum vc_core_found {
	VC_CORE_FOUND,
	VC_CORE_NOT_RECORDED,     /* no anchor: recorder not loaded, or not begun */
	VC_CORE_OF_CHILD,         /* the anchor is of a parent; this process has no recording */
	VC_CORE_TOO_NEW,
	VC_CORE_GONE,             /* neither in the core nor in the file that the anchor names */
	VC_CORE_NO_MEMORY,
};

/**
 * Finds it. `named` (may be NULL) is a file to take instead of the one that the anchor names;
 * `beside` a folder in which that one may lie too. *ret is filled as far as was found in any case,
 * and the caller calls vc_core_forget.
 */
enum vc_core_found vc_core_find(const struct vc_core *core, const char *named, const char *beside,
				struct vc_core_recording *ret);
void vc_core_forget(struct vc_core_recording *recording);

#endif
