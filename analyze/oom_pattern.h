/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small patterns of oom_message.def, and the lines around a message: prefixes and frames.
 *
 * Works on bytes with a length; reads nothing beyond them, allocates nothing. Any thread.
 */
#ifndef VC_ANALYZE_OOM_PATTERN_H
#define VC_ANALYZE_OOM_PATTERN_H

#include "analyze/oom_message.h"

enum { VC_OOM_VALUES_MAX = 3 };

/** What one conversion found: a size, a number, or characters of the text. */
struct vc_oom_value {
	struct vc_oom_size size;
	uint64_t number;
	const char *characters;
	size_t length;
};

struct vc_oom_match {
	size_t end;              /* where the match ends in the text */
	unsigned count;
	struct vc_oom_value values[VC_OOM_VALUES_MAX];
};

/** True when the pattern fits at `at`. */
bool vc_oom_pattern_match(const char *pattern, const char *text, size_t length, size_t at,
			  struct vc_oom_match *ret);
/** True when text that begins with `first` can fit. */
bool vc_oom_pattern_begins(const char *pattern, unsigned char first);

/** What stands before a line. */
struct vc_oom_prefix {
	size_t length;           /* of all of it */
	char label[64];          /* what tells the writer: rank, process, service */
	int64_t rank;            /* -1: not told */
};
void vc_oom_prefix_parse(const char *line, size_t length, struct vc_oom_prefix *ret);

/** True when the line is a frame of a traceback: of Python, IPython or pytest. */
bool vc_oom_frame_parse(const char *line, size_t length, struct vc_oom_place *ret);
/** True for files of Python itself, of installed packages and of torch. */
bool vc_oom_is_library(const char *file);

/** Copies bytes to a string, cut where it does not fit. */
void vc_oom_copy(char *to, size_t size, const char *from, size_t length);

#endif
