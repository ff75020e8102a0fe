/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of a caching allocator replayed: what was live and reserved after every event.
 *
 * Pure, on the tables segments, blocks, trace, trace_details and annotations. The dump shows the
 * state at the end of its trace; a trace is a ring, so it may begin in mid-run. What was live
 * before it is known all the same: blocks that are freed in it without being allocated in it, and
 * blocks that are active at the end and have no event. Sizes are those of the trace: as asked for,
 * not rounded to blocks. A free counts when it is completed. Events that contradict each other are
 * counted and do the least harm: a second allocation of an address ends the first one, a free of
 * what is not there does nothing. Sizes above VC_REPLAY_SIZE_MOST are taken as 0.
 */
#ifndef VC_ANALYZE_VIEWS_REPLAY_H
#define VC_ANALYZE_VIEWS_REPLAY_H

#include <stdbool.h>

#include "analyze/model.h"

#define VC_REPLAY_BEFORE UINT32_MAX /* born before the trace began */
#define VC_REPLAY_NEVER UINT32_MAX  /* live when it ended */
/* Rows of trace and of blocks, together, that are replayed at most. */
#define VC_REPLAY_ROWS_MOST (UINT64_C(1) << 31)
#define VC_REPLAY_SIZE_MOST (UINT64_C(1) << 50)
enum { VC_REPLAY_LISTS_MOST = 256 };
/** Device numbers from here on are lists of pinned host memory. */
#define VC_REPLAY_HOST (UINT64_C(1) << 63)

/** What an event does to the bytes. */
enum vc_replay_sign {
	VC_REPLAY_NONE,
	VC_REPLAY_ALLOCATES,
	VC_REPLAY_FREES,
	VC_REPLAY_RESERVES,
	VC_REPLAY_RELEASES,
};

/** One block from its allocation to its end; rows are rows of `trace`. */
struct vc_replay_life {
	uint32_t born, died;
	uint32_t block;      /* row of blocks plus 1, for one born before that is live at the end */
};

/** VC_REPLAY_FAULT(name, text): events that contradict each other, or the state at the end. */
#define VC_REPLAY_FAULTS(VC_REPLAY_FAULT)                                                          \
	VC_REPLAY_FAULT(double_allocations, "allocations of an address that was in use")           \
	VC_REPLAY_FAULT(double_frees, "frees of an address that was not in use")                   \
	VC_REPLAY_FAULT(overlaps, "allocations that overlap another")                              \
	VC_REPLAY_FAULT(not_at_end, "blocks without an end that are not there at the end")         \
	VC_REPLAY_FAULT(freed_at_end, "blocks there at the end although they were freed")          \
	VC_REPLAY_FAULT(sizes_differ, "blocks whose size at the end is another one")               \
	VC_REPLAY_FAULT(impossible_sizes, "events with an impossible size, taken as 0")            \
	VC_REPLAY_FAULT(released_more, "releases of more memory than was reserved")

/** One list of events: of a device, or of pinned host memory. */
struct vc_replay_list {
	uint64_t device;           /* as in the table */
	uint64_t first, count;     /* rows of trace */
	uint64_t first_life, life_count;
	/* with what was live before; a moment is how many events of the list have happened */
	uint64_t prior_bytes, prior_blocks; /* live when the trace began */
	uint64_t prior_frees;               /* of those */
	uint64_t peak, peak_moment;         /* of allocated bytes; the first such moment */
	uint64_t reserved_peak, reserved_peak_moment;
	uint64_t start_reserved, end_reserved;
	uint64_t end_bytes, end_blocks;
	/* as if nothing had been live when it began */
	uint64_t window_peak, window_peak_moment, window_end_bytes, window_end_blocks;
	int64_t reserved_net;
	/* time, in microseconds since 1970 */
	bool has_time, time_monotonic;
	uint64_t first_time, last_time;
#define VC_REPLAY_FAULT(name, text) uint64_t name;
	VC_REPLAY_FAULTS(VC_REPLAY_FAULT)
#undef VC_REPLAY_FAULT
};

enum vc_replay_mark_kind {
	VC_MARK_OOM,
	VC_MARK_SNAPSHOT,
	VC_MARK_USER,
};

/** Something to look at: an out-of-memory error, a snapshot that was taken, a user's mark. */
struct vc_replay_mark {
	enum vc_replay_mark_kind kind;
	uint32_t list;
	uint64_t moment;           /* events of its list, this one included */
	uint64_t time_us;          /* 0 unknown */
	uint64_t size;             /* asked for, of an OOM */
	uint64_t row;              /* of trace; VC_REPLAY_NEVER: of an annotation */
	const char *name, *stage;  /* of a user's mark; "" else */
};

/** Bytes before one row of trace in VC_REPLAY_STRIDE: what others had is found from there. */
enum { VC_REPLAY_STRIDE = 64 };
struct vc_replay_check {
	uint64_t allocated, reserved;
};

/** An event that did not do what it says, as events that contradict others do. */
struct vc_replay_exception {
	uint64_t row;
	uint64_t more;             /* allocated bytes beyond what it says; wraps */
};

struct vc_replay {
	const struct vc_tables *tables; /* must outlive it; the trace must not change */
	struct vc_replay_list *lists;   /* those with events */
	uint32_t list_count;
	struct vc_replay_life *lives;   /* by list, in order of birth */
	uint64_t life_count;
	struct vc_replay_check *checks;
	struct vc_replay_exception *exceptions; /* by row */
	uint64_t exception_count;
	struct vc_replay_mark *marks;   /* by list and moment */
	uint64_t mark_count;
};

/** Replays. Frees itself on failure. 0, VC_E_NO_MEMORY, VC_E_LIMIT: more than 256 lists,
 * or more rows than VC_REPLAY_ROWS_MOST. */
int vc_replay_make(const struct vc_tables *tables, struct vc_replay *ret);
void vc_replay_deinit(struct vc_replay *replay);

static inline enum vc_replay_sign vc_replay_sign_of(uint64_t action)
{
	static const uint8_t sign[] = {
#define VC_TRACE_ACTION(name, number, text, effect) [number] = VC_REPLAY_##effect,
#include "formats/trace_actions.def"
#undef VC_TRACE_ACTION
	};

	return action < sizeof(sign) ? (enum vc_replay_sign)sign[action] : VC_REPLAY_NONE;
}
/** Size of a row of trace; 0 for impossible ones. */
static inline uint64_t vc_replay_event_size(const struct vc_tables *tables, uint64_t row)
{
	uint64_t size = vc_value(tables, VC_COL_trace_size, row);

	return size > VC_REPLAY_SIZE_MOST ? 0 : size;
}
/** What a row of trace says it adds to the allocated bytes; wraps where it takes some away. */
uint64_t vc_replay_change(const struct vc_tables *tables, uint64_t row);
/** Reserved bytes after a row, from those before it; never less than nothing. */
uint64_t vc_replay_reserve(const struct vc_tables *tables, uint64_t row, uint64_t reserved);
/** Size and stack (row of source_stacks plus 1; 0 unknown) of a block. */
uint64_t vc_replay_life_size(const struct vc_tables *tables, const struct vc_replay_life *life);
uint64_t vc_replay_life_stack(const struct vc_tables *tables, const struct vc_replay_life *life);
uint64_t vc_replay_life_address(const struct vc_tables *tables, const struct vc_replay_life *life);

/** Whether a block of the list was live at a moment. */
static inline bool vc_replay_is_live(const struct vc_replay_list *list,
				     const struct vc_replay_life *life, uint64_t moment)
{
	return (life->born == VC_REPLAY_BEFORE || life->born < list->first + moment) &&
	       (life->died == VC_REPLAY_NEVER || life->died >= list->first + moment);
}

/** Walks along a list. */
struct vc_replay_cursor {
	uint64_t row;                 /* the next event */
	uint64_t allocated, reserved; /* before it */
	uint64_t exception;           /* the next one */
};
void vc_replay_cursor_init(const struct vc_replay *replay, const struct vc_replay_list *list,
			   uint64_t moment, struct vc_replay_cursor *ret);
/** To the next moment. */
void vc_replay_cursor_step(const struct vc_replay *replay, struct vc_replay_cursor *cursor);

/** Bytes at a moment of a list. */
uint64_t vc_replay_allocated(const struct vc_replay *replay, const struct vc_replay_list *list,
			     uint64_t moment);
uint64_t vc_replay_reserved(const struct vc_replay *replay, const struct vc_replay_list *list,
			    uint64_t moment);
/** The moment of a list at a time: all events up to it have happened. Arbitrary where times go back. */
uint64_t vc_replay_moment_at(const struct vc_tables *tables, const struct vc_replay_list *list,
			     uint64_t time_us);
/** True where the trace began in mid-run: something was live or reserved before. */
bool vc_replay_began_late(const struct vc_replay_list *list);
/** Sum of all contradictions of a list. */
uint64_t vc_replay_fault_count(const struct vc_replay_list *list);

#endif
