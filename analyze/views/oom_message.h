/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from the sizes that an out-of-memory message tells: ledger, contradictions, kind.
 *
 * Nothing is guessed: a kind is named only where arithmetic on told sizes shows it, with the rule
 * in words; what the text cannot tell is listed. Sizes were rounded when they were written: a
 * relation holds or fails only when it does so for every value that rounds to what is told.
 * Strings live in the arena. Not thread safe per arena.
 */
#ifndef VC_ANALYZE_VIEWS_OOM_MESSAGE_H
#define VC_ANALYZE_VIEWS_OOM_MESSAGE_H

#include "analyze/arena.h"
#include "analyze/oom_message.h"
#include "analyze/text.h"

/* VC_OOM_KIND(NAME, key, headline) */
#define VC_OOM_KIND_LIST                                                                       \
	VC_OOM_KIND(NONSENSE, "nonsense", "no such size can be meant")                         \
	VC_OOM_KIND(HOST, "host", "memory of the host was asked for, not of the device")       \
	VC_OOM_KIND(TOO_LARGE, "too-large", "that is more than the device has")                \
	VC_OOM_KIND(LIMIT, "limit", "a limit was reached, not the end of the device")          \
	VC_OOM_KIND(FRAGMENTED, "fragmented", "the memory is fragmented")                      \
	VC_OOM_KIND(OTHER_PROCESSES, "other-processes", "other processes hold the memory")     \
	VC_OOM_KIND(FULL, "full", "the memory is full")                                        \
	VC_OOM_KIND(OUTSIDE, "outside", "most of it is held outside of the allocator")         \
	VC_OOM_KIND(UNEXPLAINED, "unexplained", "enough was free; the sizes do not say why")   \
	VC_OOM_KIND(NOT_TOLD, "not-told", "the text does not tell why")

enum vc_oom_kind {
#define VC_OOM_KIND(name, key, headline) VC_OOM_KIND_##name,
	VC_OOM_KIND_LIST
#undef VC_OOM_KIND
	VC_OOM_KINDS
};

struct vc_oom_kind_info {
	const char *key, *headline;
};
extern const struct vc_oom_kind_info vc_oom_kinds[VC_OOM_KINDS];

struct vc_oom_ledger_row {
	const char *key, *text, *how;
	int64_t bytes;           /* below zero only where parts overlap */
	int64_t share;           /* tenths of a percent of the total */
};

struct vc_oom_finding {
	enum vc_oom_kind kind;
	const char *text;        /* the rule, with the sizes */
};

enum { VC_OOM_ROWS_MAX = 32, VC_OOM_TEXTS_MAX = 12 };

struct vc_oom_reading {
	struct vc_oom_size requested;
	bool requested_computed; /* from a shape and a type */
	struct vc_oom_ledger_row rows[VC_OOM_ROWS_MAX];
	unsigned row_count;
	uint64_t total;          /* of the rows; 0: no ledger */
	const char *total_text;
	struct vc_oom_finding findings[VC_OOM_TEXTS_MAX];
	unsigned finding_count;  /* at least one; the first is the headline */
	const char *contradictions[VC_OOM_TEXTS_MAX];
	unsigned contradiction_count;
	const char *missing[VC_OOM_TEXTS_MAX]; /* what such a message should tell and does not */
	unsigned missing_count;
	const char *untold[VC_OOM_TEXTS_MAX];  /* what the text cannot tell */
	unsigned untold_count;
};

/** 0 or VC_E_NO_MEMORY. */
int vc_oom_message_read(const struct vc_oom_message *message, enum vc_text_exact exact,
			struct vc_arena *arena, struct vc_oom_reading *ret);

#endif
