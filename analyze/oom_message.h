/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out-of-memory messages in any text: what they say, and nothing that they do not say.
 *
 * A reader is fed the bytes of a log as they come. Terminal escapes, NULs (UTF-16) and what
 * loggers and launchers put before a line are taken off; lines of different ranks, where their
 * prefix tells them apart, are read as texts of their own, so messages that interleave or wrap
 * are still whole. The wordings are in oom_message.def. Memory is bounded whatever the input: 256
 * prefixes, one message at a time for each, of which the first and the last are kept and the rest
 * counted. Lines longer than 16 KiB are read in pieces. Not thread safe; all strings may hold any
 * byte but NUL.
 */
#ifndef VC_ANALYZE_OOM_MESSAGE_H
#define VC_ANALYZE_OOM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vc_oom_quantity {
#define VC_OOM_QUANTITY(name, key, text) VC_OOM_##name,
#include "analyze/oom_message.def"
	VC_OOM_QUANTITIES
};

enum vc_oom_group {
#define VC_OOM_GROUP(name, patience, expected) VC_OOM_GROUP_##name,
#include "analyze/oom_message.def"
	VC_OOM_GROUPS
};

enum vc_oom_wording {
#define VC_OOM_WORDING(name, group, key, text) VC_OOM_WORDING_##name,
#include "analyze/oom_message.def"
	VC_OOM_WORDINGS
};

/** Where else a conversion of a pattern goes. */
enum vc_oom_target {
	VC_OOM_TO_NOTHING = VC_OOM_QUANTITIES,
	VC_OOM_TO_DEVICE, VC_OOM_TO_PROCESS, VC_OOM_TO_PROCESS_SIZE, VC_OOM_TO_BEYOND,
	VC_OOM_TO_END, VC_OOM_TO_ALLOCATOR, VC_OOM_TO_TYPE, VC_OOM_TO_WHERE,
	VC_OOM_TO_SHAPE, VC_OOM_TO_CALL, VC_OOM_TO_BUFFER_FILE, VC_OOM_TO_BUFFER_LINE,
	VC_OOM_TO_NO_FAILURE, VC_OOM_TO_HOST_SIZE,
	VC_OOM_TO_POOL_LIMIT,
};

struct vc_oom_wording_info {
	enum vc_oom_group group;
	const char *key, *text;
};
extern const struct vc_oom_wording_info vc_oom_wordings[VC_OOM_WORDINGS];

struct vc_oom_size {
	bool told;
	bool beyond;          /* 2^56 or more: a counter that fell below zero, or nonsense */
	uint64_t bytes;
	uint64_t within;      /* the text was rounded: at most this far off */
};

enum { VC_OOM_PROCESSES_MAX = 16 };

struct vc_oom_process {
	uint64_t pid;
	struct vc_oom_size size;
};

/** A line of a program; file[0] is 0 where there is none. */
struct vc_oom_place {
	char file[256], function[96], source[160];
	uint64_t line;
};

struct vc_oom_message {
	enum vc_oom_wording wording;
	struct vc_oom_size sizes[VC_OOM_QUANTITIES];
	struct vc_oom_process processes[VC_OOM_PROCESSES_MAX];
	unsigned process_count, processes_more;
	int64_t device, rank;            /* -1: not told */
	char label[64];                  /* what stood before the line and tells who wrote it */
	char allocator[64], type[32], where[96], shape[96], call[64];
	bool host;                       /* memory of the host was asked for */
	bool pool_limit;                 /* the pool's own limit is named as the cause */
	bool no_failure;                 /* the program says that it goes on */
	bool pinning;                    /* the traceback passes through pin_memory */
	struct vc_oom_place user;        /* last frame of the traceback that is not a library's */
	struct vc_oom_place innermost;   /* last frame */
	struct vc_oom_place buffer;      /* where a compiled program's largest buffer is made */
	uint64_t line;                   /* in the text, from 1 */
	uint64_t times;                  /* how often it stands there, word for word */
	char text[768];                  /* its beginning, white space folded */
};

/** The messages of one prefix. */
struct vc_oom_source {
	const struct vc_oom_message *first; /* the first that tells a size, else the first */
	uint64_t messages;                  /* distinct ones in a row */
};

struct vc_oom_log {
	struct vc_oom_source *sources;      /* in the order of their first messages */
	unsigned source_count;
	const struct vc_oom_message *last;  /* NULL: none found */
	uint64_t messages;                  /* all, repetitions too */
	uint64_t bytes, lines;
	bool sources_merged;                /* there were more prefixes than are told apart */
};

struct vc_oom_reader;

/** 0 or VC_E_NO_MEMORY. */
int vc_oom_reader_create(struct vc_oom_reader **ret);
void vc_oom_reader_destroy(struct vc_oom_reader *reader);
/** Any bytes, any number at a time. 0 or VC_E_NO_MEMORY. */
int vc_oom_reader_feed(struct vc_oom_reader *reader, const void *bytes, size_t length);
/** What was found; valid until the reader is destroyed. Feed no more. 0 or VC_E_NO_MEMORY. */
int vc_oom_reader_finish(struct vc_oom_reader *reader, struct vc_oom_log *ret);

#endif
