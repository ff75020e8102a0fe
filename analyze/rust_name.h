/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a Rust name that is being read, its text, and the rules that files share. Private to
 * demangle_rust.h's: rust_text.c, rust_grammar.c, rust_constant.c. Whatever is wrong sets `failed`,
 * after which nothing is read or written.
 */
#ifndef VC_ANALYZE_RUST_NAME_H
#define VC_ANALYZE_RUST_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VC_RUST_NAME_LIMIT = 16384,
	VC_RUST_OUTPUT_LIMIT = 16384,
	VC_RUST_DEPTH_LIMIT = 128,
	VC_RUST_STEP_LIMIT = 65536,
};

struct vc_rust {
	const char *text; /* what follows "_R": back-references count from here */
	size_t at, length;
	unsigned depth, steps;
	uint64_t lifetimes; /* bound by "for<...>" around here */
	bool silent;	    /* parts that are read and not written */
	bool failed;
	char *out;
	size_t used;
};

struct vc_rust_identifier {
	const char *bytes;
	size_t length;
	bool punycode;
};

/* ---- reading ---- */

static inline char vc_rust_peek(const struct vc_rust *d)
{
	return d->failed || d->at >= d->length ? '\0' : d->text[d->at];
}

static inline bool vc_rust_eat(struct vc_rust *d, char wanted)
{
	if (vc_rust_peek(d) != wanted || !wanted)
		return false;
	d->at++;
	return true;
}

static inline char vc_rust_next(struct vc_rust *d)
{
	char found = vc_rust_peek(d);

	if (found)
		d->at++;
	else
		d->failed = true;
	return found;
}

/* Every rule of the grammar that can nest begins with this, and ends with leave. */
static inline bool vc_rust_enter(struct vc_rust *d)
{
	if (++d->depth > VC_RUST_DEPTH_LIMIT || ++d->steps > VC_RUST_STEP_LIMIT)
		d->failed = true;
	return !d->failed;
}

static inline void vc_rust_leave(struct vc_rust *d)
{
	d->depth--;
}

/** "_" is 0, "0_" is 1, ... */
uint64_t vc_rust_base_62(struct vc_rust *d);
/** A number behind its letter; 0 where the letter is not there. */
uint64_t vc_rust_optional_base_62(struct vc_rust *d, char letter);
/** "5hello"; in v0 "_" stands between where the name begins with a digit or "_". */
struct vc_rust_identifier vc_rust_read_counted(struct vc_rust *d, bool divided);
struct vc_rust_identifier vc_rust_read_identifier(struct vc_rust *d);
/** Where a back-reference leads: always before itself, so that none goes in a circle. */
bool vc_rust_follow(struct vc_rust *d, size_t *ret_return);

/* ---- writing: nothing where it is silent ---- */

void vc_rust_put_bytes(struct vc_rust *d, const char *bytes, size_t length);
void vc_rust_put(struct vc_rust *d, const char *text);
void vc_rust_put_number(struct vc_rust *d, uint64_t number);
/** As UTF-8. */
void vc_rust_put_character(struct vc_rust *d, uint32_t code);
void vc_rust_put_identifier(struct vc_rust *d, const struct vc_rust_identifier *name);

/* ---- rules ---- */

/** Up to E, divided by ", "; returns how many. */
unsigned vc_rust_list(struct vc_rust *d, void (*item)(struct vc_rust *d));
void vc_rust_path(struct vc_rust *d, bool in_value);
void vc_rust_constant(struct vc_rust *d, bool in_value);

#endif
