/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which moment of a trace is meant, and the tables as they were then.
 *
 * vc_replay_apply changes tables as if the file had been written at that moment: it comes between
 * opening a file and the views on it. Blocks have the sizes that were asked for.
 */
#ifndef VC_ANALYZE_VIEWS_REPLAY_STATE_H
#define VC_ANALYZE_VIEWS_REPLAY_STATE_H

#include "analyze/views/replay.h"

enum vc_replay_when_kind {
	VC_WHEN_PEAK,     /* of allocated bytes, of each device its own */
	VC_WHEN_OOM,      /* the number-th out-of-memory error */
	VC_WHEN_SNAPSHOT, /* the number-th snapshot event */
	VC_WHEN_MARK,     /* the number-th user's mark, or the first of a name */
	VC_WHEN_EVENT,    /* after event `number`, counted from 0 */
	VC_WHEN_TIME,     /* `number` microseconds after the first event */
};

struct vc_replay_when {
	enum vc_replay_when_kind kind;
	uint64_t number;   /* of OOM, SNAPSHOT, MARK counted from 1 */
	const char *name;  /* of a mark; NULL: by number */
};

/** peak, oom[:N], snapshot[:N], mark:N, mark:NAME, event:N, time:SECONDS. 0, VC_E_INVALID. */
int vc_replay_when_parse(const char *text, struct vc_replay_when *ret);

/** Why there is no such moment, for a person. */
enum vc_replay_missing {
	VC_MISSING_TRACE,   /* the file has no events */
	VC_MISSING_MARK,    /* fewer errors, snapshots, marks; *ret_count is how many */
	VC_MISSING_EVENT,   /* fewer events */
	VC_MISSING_DEVICE,  /* several devices have events: one must be named */
	VC_MISSING_TIME,    /* events have no times */
};
/**
 * The moment of every list, into `moments`. `device` (UINT64_MAX: any) chooses whose OOM, mark or
 * event is meant; the other lists are taken at its time. 0, or VC_E_NOT_FOUND with the reason.
 */
int vc_replay_find(const struct vc_tables *tables, const struct vc_replay *replay,
		   const struct vc_replay_when *when, uint64_t device, uint64_t *moments,
		   enum vc_replay_missing *ret_missing, uint64_t *ret_count);

/**
 * Rewrites `allocations` of devices that have a list, and the moment and time of `process`. Rows
 * of segments that are gone at the end are added to `segments`. `text` names the moment. 0,
 * VC_E_NO_MEMORY, VC_E_LIMIT: more work than a real trace needs.
 */
int vc_replay_apply(struct vc_tables *tables, const struct vc_replay *replay,
		    const uint64_t *moments, const char *text);

#endif
