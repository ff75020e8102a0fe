/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of a walk file (.walkN): what the interpreter told at one moment, beside the recording.
 *
 * A head, the directory, then pieces: runs of fixed-size rows of one kind, or of bytes of strings.
 * The rows of a kind are those of its pieces one after the other, in the order of the directory,
 * and are numbered from 0. Little endian, 64 bit; rows are multiples of 8 bytes. The head is
 * written last: a file without it is not whole and not read. FORMAT.md is normative.
 *
 * A string is named by the number of its first byte among all bytes of strings (0: ""); it ends
 * with NUL and never crosses a piece. A row that is longer than a reader knows has new fields at
 * its end; one that is shorter counts as having zeroes there.
 */
#ifndef VC_FORMATS_WALK_H
#define VC_FORMATS_WALK_H

#include <stdint.h>

#include "formats/recording.h" /* vc_check_words */

#define VC_WALK_MAGIC "VRAMCORE-WALK\n\0" /* 16 bytes with the NUL at the end */
/** Behind the name of the recording, before a number. */
#define VC_WALK_SUFFIX ".walk"
#define VC_WALK_READ_VERSION 1
#define VC_WALK_WRITE_VERSION 1
#define VC_WALK_PIECES_MAX 1024u
/** Largest piece. */
#define VC_WALK_PIECE_BYTES_MAX (UINT64_C(4) << 20)

/** What a piece holds. */
enum vc_walk_kind {
	VC_WALK_STRINGS = 1,  /* bytes */
	VC_WALK_FACTS = 2,    /* struct vc_walk_fact */
	VC_WALK_SEGMENTS = 3, /* struct vc_walk_segment */
	VC_WALK_BLOCKS = 4,   /* struct vc_walk_block */
	/* walk_tensors.h: */
	VC_WALK_TENSORS = 8,       /* struct vc_walk_tensor */
	VC_WALK_STORAGES = 9,      /* struct vc_walk_storage */
	VC_WALK_NODES = 10,        /* struct vc_walk_node */
	VC_WALK_SAVED = 11,        /* struct vc_walk_saved */
	VC_WALK_HOLDERS = 12, /* struct vc_walk_holder */
	VC_WALK_STEPS = 13,        /* struct vc_walk_step */
	VC_WALK_WALKS = 14,        /* struct vc_walk_walk */
	VC_WALK_KINDS = 32,   /* more than the highest number there can be */
};

struct vc_walk_head {
	uint8_t magic[16];
	uint32_t read_version, write_version;
	uint64_t pid;
	uint64_t start;       /* root.fixed.start_realtime of the recording it belongs to */
	uint64_t number;      /* S that was read before the walk began */
	uint64_t bytes;       /* length of the file */
	uint32_t pieces;
	uint32_t thread;      /* kernel thread id of the one that walked */
	uint64_t nanoseconds; /* that the walk took */
	uint64_t check;       /* over read_version .. nanoseconds, number 0 */
};
/** An entry of the directory, which follows the head: VC_WALK_PIECES_MAX entries. */
struct vc_walk_piece {
	uint32_t kind;        /* enum vc_walk_kind */
	uint32_t row_bytes;   /* 1 for strings */
	uint64_t rows;
	uint64_t offset;      /* in the file, a multiple of 4096 */
	uint64_t check;       /* over its rows, padded with zeroes to a multiple of 8; number: its index */
	uint64_t entry_check; /* over the words before it, number = its index */
};
#define VC_WALK_DATA_OFFSET                                                                        \
	((sizeof(struct vc_walk_head) + VC_WALK_PIECES_MAX * sizeof(struct vc_walk_piece) + 4095) /  \
	 4096 * 4096)

/** Key of a fact: this, and the file name of a notebook's cell; its value is the cell's number. */
#define VC_FACT_CELL "cell "

/** Something about the framework: a key, a value, and where the value comes from. */
struct vc_walk_fact {
	uint32_t key, value;  /* strings */
	uint32_t how;         /* string: "torch", "recorder" */
	uint32_t reserved;
};

/** A segment of PyTorch's allocator, as its own list has it. */
struct vc_walk_segment {
	uint64_t address, size, stream;
	uint64_t allocated, active, requested; /* bytes */
	uint64_t pool_first, pool_second;
	uint32_t device;
	uint32_t type;        /* string: large, small */
	uint32_t expandable;  /* 1: an expandable segment */
	uint32_t reserved;
};

/** A block in it, free ones too. */
struct vc_walk_block {
	uint64_t address, size, requested;
	uint32_t segment;     /* row of segments */
	uint32_t state;       /* string: active_allocated, active_pending_free, inactive */
};

#endif
