/* SPDX-License-Identifier: Apache-2.0 */
/* Rust names as a whole: of the scheme v0, and of the one before it, which looks like that of C++.
 */
#include "analyze/demangle_rust.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/rust_name.h"

/* What a compiler adds to the names of copies and parts (".llvm.1A2B", ".cold") is left out. */
static void check_suffix(struct vc_rust *d, const char *suffix)
{
	if (*suffix && *suffix != '.' && *suffix != '$')
		d->failed = true;
}

static void demangle_v0(struct vc_rust *d)
{
	d->text += 2;
	d->length = strcspn(d->text, ".$");
	vc_rust_path(d, true);
	if (!d->failed && d->at < d->length) { /* the crate that made it from a generic one */
		d->silent = true;
		vc_rust_path(d, false);
		d->silent = false;
	}
	if (d->at != d->length)
		d->failed = true;
	check_suffix(d, d->text + d->length);
}

/* "h" and 16 hexadecimal digits, which hardly ever are all alike. */
static bool is_hash(const struct vc_rust_identifier *part)
{
	unsigned seen = 0;

	if (part->length != 17 || part->bytes[0] != 'h')
		return false;
	for (size_t i = 1; i < 17; i++) {
		char c = part->bytes[i];

		if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
			return false;
		seen |= 1u << (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return __builtin_popcount(seen) >= 5;
}

/* "$LT$" and the like; returns the bytes taken, 0: none. */
static size_t put_escape(struct vc_rust *d, const char *at, size_t left)
{
	static const char *const escapes[][2] = {
		{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"},
		{"$GT$", ">"}, {"$LP$", "("}, {"$RP$", ")"}, {"$C$", ","},
	};
	uint32_t code = 0;
	size_t length = 2;

	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		size_t size = strlen(escapes[i][0]);

		if (size <= left && !memcmp(at, escapes[i][0], size)) {
			vc_rust_put(d, escapes[i][1]);
			return size;
		}
	}
	if (left < 4 || memcmp(at, "$u", 2))
		return 0;
	for (; length < left && length < 8 && at[length] != '$'; length++) {
		char c = at[length];

		if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
			return 0;
		code = code << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (length == left || at[length] != '$' || length == 2 || code < 0x20 || code > 0x10ffff ||
	    (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000))
		return 0;
	vc_rust_put_character(d, code);
	return length + 1;
}

static void put_part(struct vc_rust *d, const struct vc_rust_identifier *part)
{
	const char *at = part->bytes;
	size_t left = part->length;

	if (left >= 2 && at[0] == '_' && at[1] == '$') { /* an identifier cannot begin with "$" */
		at++;
		left--;
	}
	while (left > 0 && !d->failed) {
		size_t taken = 1;

		if (left >= 2 && at[0] == '.' && at[1] == '.') {
			vc_rust_put(d, "::");
			taken = 2;
		} else if (*at == '$') {
			taken = put_escape(d, at, left);
			if (!taken)
				d->failed = true;
		} else {
			vc_rust_put_bytes(d, at, 1);
		}
		at += taken;
		left -= taken;
	}
}

static void demangle_legacy(struct vc_rust *d)
{
	struct vc_rust_identifier last = {0};
	unsigned count = 0;

	d->text += 3;
	d->length = strlen(d->text);
	for (; !d->failed && !vc_rust_eat(d, 'E'); count++) {
		struct vc_rust_identifier part = vc_rust_read_counted(d, false);

		if (count > 0) {
			vc_rust_put(d, count > 1 ? "::" : "");
			put_part(d, &last);
		}
		last = part;
	}
	if (d->failed || count < 2 || !is_hash(&last))
		d->failed = true;
	else
		check_suffix(d, d->text + d->at);
}

char *vc_demangle_rust(const char *name)
{
	struct vc_rust d = {.text = name};

	if (!name || strnlen(name, VC_RUST_NAME_LIMIT) == VC_RUST_NAME_LIMIT || name[0] != '_')
		return NULL;
	if (strncmp(name, "_R", 2) && strncmp(name, "_ZN", 3))
		return NULL;
	d.out = calloc(1, VC_RUST_OUTPUT_LIMIT);
	if (!d.out)
		return NULL;
	if (name[1] == 'R')
		demangle_v0(&d);
	else
		demangle_legacy(&d);
	if (d.failed || !d.used) {
		free(d.out);
		return NULL;
	}
	return d.out;
}
