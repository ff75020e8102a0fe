/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a recording, of a running, stopped or dead process or out of a core, and trusts nothing.
 *
 * A source gives bytes by offset; it is never mapped, so that a file that shrinks is a short read
 * and not a signal. Nothing is locked and nothing is written to. Whoever reads takes the clock
 * first, then the records, then the freed ring, then the tables that only grow: what an item
 * refers to is always published before it, and a record that leaves its slot is in the ring
 * before. Each item is taken only when its check fits; one that does not fit is read again, since
 * it may have changed meanwhile, and then becomes a fault.
 *
 * A single flipped bit anywhere leads to the same items, or to a fault, or to an error. Work and
 * memory are bounded by the length of the file. Not thread safe; for use outside the host.
 */
#ifndef VC_FORMATS_RECORDING_READ_H
#define VC_FORMATS_RECORDING_READ_H

#include <stddef.h>
#include <stdint.h>

#include "formats/error.h"
#include "formats/recording.h"

/** Where bytes come from. */
struct vc_recording_source {
	/**
	 * Reads at most `length` bytes at `offset`; fewer at the end of the file. 0 or a negative
	 * VC_E_* where the bytes cannot be had.
	 */
	int (*read)(void *self, uint64_t offset, void *buffer, size_t length, size_t *ret_length);
	uint64_t length; /* when it was opened; a recording that is being written grows */
	void *self;
};

/** A source that reads a descriptor (pread); the caller keeps and closes it. */
int vc_recording_source_descriptor(int descriptor, struct vc_recording_source *ret);

struct vc_recording_bytes {
	const void *bytes;
	uint64_t length;
};
/** A source that reads memory; *bytes must outlive it. */
void vc_recording_source_memory(struct vc_recording_bytes *bytes, struct vc_recording_source *ret);

/** Longest file and longest items this reader takes. */
#define VC_RECORDING_BYTES_MAX (UINT64_C(4) << 30)
#define VC_RECORDING_FRAMES_MAX 4096u
#define VC_RECORDING_STRING_MAX (1u << 20)

/** One run of items that was found good. */
struct vc_recording_chunk {
	uint32_t table;
	uint32_t index; /* in the directory */
	uint64_t first, count, offset, bytes;
};

/** An open recording. Read-only for others; initialised by vc_recording_open. */
struct vc_recording {
	const struct vc_recording_source *source;
	struct vc_root *root; /* a copy, VC_ROOT_BYTES long */
	struct vc_faults *faults;
	uint32_t chunks;
	struct vc_recording_chunk *chunk;     /* by table, then first */
	uint32_t table_chunk[VC_REC_TABLES + 1]; /* chunks of table t: [t] .. [t + 1] - 1 */
	/* private */
	uint8_t *chunk_said;                  /* per directory entry: a fault was reported */
	uint8_t *word_said;                   /* per word of the root */
	uint8_t *block;                       /* for scans */
	uint8_t *window;                      /* for stacks and strings */
	uint64_t window_offset, window_length;
	uint64_t *item;                       /* the last stack or string */
	uint64_t item_words;
	uint32_t pauses;                      /* left for waiting on a writer */
};

/**
 * Opens a recording: reads root and directory. Faults that leave the rest readable go to *faults
 * (may be NULL), which must outlive *ret. On an error *fault (may be NULL) says where.
 */
int vc_recording_open(const struct vc_recording_source *source, struct vc_recording *ret,
		      struct vc_faults *faults, struct vc_fault *fault);
/** Frees what it owns; accepts a struct that is all zero. The source is the caller's. */
void vc_recording_close(struct vc_recording *recording);
/** Reads root and directory again. On an error the old ones stay. */
int vc_recording_refresh(struct vc_recording *recording);

/**
 * The value of a word of the copied root (`word` points into recording->root); `otherwise` and,
 * once, a fault where it is damaged.
 */
uint64_t vc_recording_value(struct vc_recording *recording, const uint64_t *word,
			    uint64_t otherwise);
/** Items of a table that are in use or reserved, never more than there is room for. */
uint64_t vc_recording_used(struct vc_recording *recording, enum vc_recording_table table);
/** Name of a table of a recording as faults give it: "records". */
const char *vc_recording_table_name(uint32_t table);
/** Adds a fault of this recording. */
void vc_recording_fault(struct vc_recording *recording, int error, const char *section,
			uint64_t offset);

/** What is known of an item a scan came to. */
enum vc_item {
	VC_ITEM_NONE,    /* not there: an empty record, a row not published, a slot never used */
	VC_ITEM_GOOD,
	VC_ITEM_PARTIAL, /* being written: an entry of the freed ring, or the details of a record */
			 /* that is filling (after a fault) */
	VC_ITEM_BAD,     /* damaged; a fault was reported */
};

/** Called for each item but VC_ITEM_NONE; the item is a copy. Not 0 ends the scan. */
typedef int (*vc_recording_visit)(void *self, enum vc_item state, uint64_t number,
				  const void *item, uint64_t offset);
/** Visits all items of a table, by number. Not for stacks and strings. */
int vc_recording_scan(struct vc_recording *recording, enum vc_recording_table table,
		      vc_recording_visit visit, void *self);
/** Visits one item. */
int vc_recording_one(struct vc_recording *recording, enum vc_recording_table table,
		     uint64_t number, vc_recording_visit visit, void *self);

struct vc_recording_stack {
	uint32_t count;
	uint32_t end;           /* enum vc_stack_end */
	const uint64_t *frames; /* vc_frame(); valid until the next call */
};
/** A stack by id; a negative error and a fault where it is not there or damaged. */
int vc_recording_stack(struct vc_recording *recording, uint32_t id, struct vc_recording_stack *ret);
/**
 * A string by id, NUL-terminated and valid until the next call; a negative error and a fault where
 * it is not there or damaged.
 */
int vc_recording_string(struct vc_recording *recording, uint32_t id, const char **ret,
			size_t *ret_length);

/** What a list of recordings shows; strings are cut to fit. */
struct vc_recording_summary {
	uint64_t pid, parent_pid, user, start_ticks, pid_namespace;
	uint8_t boot_id[16];
	uint64_t start_time;       /* CLOCK_REALTIME, nanoseconds */
	uint64_t last_event_time;  /* CLOCK_REALTIME of the last step or trigger; 0: none */
	uint64_t last_step_time;   /* CLOCK_REALTIME; 0: none */
	uint64_t longest_step;     /* nanoseconds between two steps; 0: fewer than two */
	uint64_t rank_plus_one, world_size;
	uint64_t step_plus_one;    /* 0: no steps reported */
	uint64_t step_source;      /* enum vc_step_source */
	uint64_t clock;
	uint64_t moments;
	uint64_t devices;          /* that were used */
	uint64_t live[VC_DEVICES_MAX]; /* by ordinal */
	uint64_t file_bytes;
	uint64_t records_lost;
	uint64_t ended;            /* 0, or 1 + exit status once exit handlers ran */
	char program[256];
	char job[64];
};
/** Who counts steps: "optimizer", "program". */
const char *vc_step_source_text(uint64_t source);
/** The front of a recording: a few reads, whatever its size. */
int vc_recording_peek(const struct vc_recording_source *source, struct vc_recording_summary *ret);

/** A trigger that fired. */
struct vc_recording_moment {
	uint64_t row;
	uint64_t number;           /* S */
	uint64_t time;             /* CLOCK_REALTIME, nanoseconds */
	uint64_t step;
	uint64_t failure_plus_one;
	uint64_t walk_plus_one;    /* see vc_moment_row */
	uint32_t thread;
	char trigger[32], moment[32];
};
/**
 * N plus 1 of the walk file of a moment, by its row plus 1 (0: the one that the file is a copy for);
 * 0: it has none, or the recording cannot be read.
 */
uint32_t vc_recording_walk(const struct vc_recording_source *source, uint64_t moment_plus_one);
/** All moments by row; free(*ret) is the caller's. Faults go to *faults (may be NULL). */
int vc_recording_moments(const struct vc_recording_source *source, struct vc_recording_moment **ret,
			 size_t *ret_count, struct vc_faults *faults);

#endif
