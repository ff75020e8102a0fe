/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks as people know them: named frames, whose code each is, and a key that two runs share.
 *
 * Every stack that a report may show is asked for first (vc_names_want), all are named at once
 * (vc_names_resolve), then each is a chain (vc_names_chain). The key of a chain is made of
 * function, file and line where they are known, else of build-id and offset, so it does not depend
 * on where code was loaded. Frames of the recorder, the driver and the C runtime are no part of it;
 * those of a known library count as its name only: what it does inside differs between its
 * versions. Strings live as long as the struct. Not thread safe.
 */
#ifndef VC_ANALYZE_NAMES_H
#define VC_ANALYZE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/tables.h"

enum vc_owner {
	VC_OWNER_USER,
	VC_OWNER_LIBRARY,
	VC_OWNER_SYSTEM,
	VC_OWNER_DRIVER,
	VC_OWNER_RECORDER
};

/** One function in a chain. Inlined functions are frames of their own. */
struct vc_frame_name {
	const char *function;  /* NULL unknown */
	const char *file;      /* NULL unknown */
	uint32_t line;
	bool inlined;          /* into the frame that follows */
	enum vc_owner owner;
	const char *library;   /* "cuBLAS", for what is not the user's; NULL else */
	const char *module;    /* path of the loaded object, "" none */
	const char *build_id;  /* "" none */
	uint64_t offset;
	bool verbatim;         /* names are an interpreter's: nothing in them is cut */
};

struct vc_chain {
	const struct vc_frame_name *const *frames; /* innermost first */
	uint32_t count;
	uint32_t user;         /* first frame of the user's code; where there is none, the first */
			       /* that is a library's, else 0 */
	uint32_t shown; /* frame the report calls the site: user, or past a function that all */
			/* stacks of the program come through; see vc_names_common */
	bool has_user;
	uint32_t native_user;  /* native frame of the user's that a line of Python called, plus 1; 0 */
	uint64_t end;          /* enum vc_stack_end */
	const struct vc_chain *forward; /* of the forward pass, beside one of the backward; NULL */
};

/** Names for addresses; symbols.h behind it, or a test. Functions return 0 or VC_E_*. */
struct vc_resolver {
	void *context;
	int (*want)(void *context, uint32_t module, const char *path, const char *build_id,
		    uint64_t offset);
	int (*resolve)(void *context);
	/* NULL functions where nothing is known; valid until the resolver ends */
	int (*get)(void *context, uint32_t module, uint64_t offset, size_t index,
		   struct vc_frame_name *ret); /* VC_E_NOT_FOUND: no frame of that index */
	/* what keeps a module from having lines: one clause, NULL nothing; may be NULL */
	const char *(*lacks)(void *context, uint32_t module, const char **ret_detail);
};

struct vc_names;

/**
 * One number for a native stack (row of `stacks` plus 1) and a Python stack (row of `source_stacks`
 * plus 1) of the same call. Where there is only one: the rows of `source_stacks` follow those of
 * `stacks`. Of both: the Python stack in the upper 32 bits, the native one below. 0: none.
 */
static inline uint64_t vc_stack_reference(const struct vc_tables *tables, uint64_t stack,
					  uint64_t python)
{
	if (stack && python)
		return python << 32 | stack;
	return python ? tables->rows[VC_TABLE_stacks] + python : stack;
}

/**
 * Starts; `resolver` may be NULL: nothing is named, not even by names that are inside a file, which
 * else come before the resolver's. It is used until vc_names_destroy.
 */
int vc_names_create(const struct vc_resolver *resolver, struct vc_names **ret);
void vc_names_destroy(struct vc_names *names);
/** Adds a file; its number (0, 1, ...) goes to *ret. The tables must outlive `names`. */
int vc_names_add(struct vc_names *names, const struct vc_tables *tables, uint32_t *ret);
/** Asks for a stack of a file: see vc_stack_reference; 0 and stacks asked before are fine. */
int vc_names_want(struct vc_names *names, uint32_t file, uint64_t stack);
/** Names all that was asked for and makes the chains. 0, VC_E_NO_MEMORY, VC_E_LIMIT. */
int vc_names_resolve(struct vc_names *names);
/** Chain of a stack that was asked for; an empty chain (count 0), which
 * must not be changed, for 0 or one not asked for. */
struct vc_chain *vc_names_chain(const struct vc_names *names, uint32_t file, uint64_t stack);

/**
 * Finds functions that all these chains begin with (after `user`): an allocator's own. Each
 * chain's `shown` is moved past them, but never past its last user frame. Lines may differ in the
 * innermost function only. Nothing happens unless that tells more lines apart than the innermost
 * functions do: a function that allocates everything itself, in many lines, stays what is shown.
 * Returns how many functions were passed.
 */
unsigned vc_names_common(struct vc_chain *const *chains, size_t count);

/**
 * A number below vc_names_places() that tells the stacks of a file apart that were asked for; 0: none
 * or not asked for.
 */
uint64_t vc_names_place(const struct vc_names *names, uint32_t file, uint64_t stack);
uint64_t vc_names_places(const struct vc_names *names, uint32_t file);

/** Key of a chain for comparisons, never 0; of its first `depth` user frames (0: of all). */
uint64_t vc_chain_key(const struct vc_chain *chain, unsigned depth);

/** A loaded object of the user's whose code has no lines. */
struct vc_names_lack {
	const char *module;      /* its path */
	const char *why;         /* "no debug information, symbols only" */
	const char *detail;      /* "" nothing more is known */
};
/** The first `most` of them; how many there are. */
unsigned vc_names_lacks(const struct vc_names *names, struct vc_names_lack *ret, unsigned most);

struct vc_names_count {
	uint64_t frames;  /* of the stacks asked for, each different one once, inlined ones not */
	uint64_t named;   /* with a function */
};
struct vc_names_count vc_names_count(const struct vc_names *names);

/* ---- how chains are written ---- */

struct vc_text;

/** A folder that all source files of the user's code in these chains lie in. Empty at first. */
struct vc_path_prefix {
	size_t length;
	char *text;
};
void vc_path_prefix_add(struct vc_path_prefix *prefix, const struct vc_chain *chain);
void vc_path_prefix_deinit(struct vc_path_prefix *prefix);

/** "samples/train.c:212  cache_put  <- remember  <- train.c:340 forward" */
void vc_chain_text(struct vc_text *text, const struct vc_chain *chain,
		   const struct vc_path_prefix *prefix);
/** One frame: "samples/train.c:212  cache_put" or "libfoo.so+0x1234" */
void vc_frame_text(struct vc_text *text, const struct vc_frame_name *frame,
		   const struct vc_path_prefix *prefix);

#endif
