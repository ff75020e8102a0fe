/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and types of Rust names, v0: RFC 2603. */
#include <string.h>

#include "analyze/rust_name.h"

static void type(struct vc_rust *d);

bool vc_rust_follow(struct vc_rust *d, size_t *ret_return)
{
	size_t start = d->at - 1;
	uint64_t target = vc_rust_base_62(d);

	if (d->failed || target >= start) {
		d->failed = true;
		return false;
	}
	*ret_return = d->at;
	if (d->silent) /* what it stands for was read before */
		return false;
	d->at = (size_t)target;
	return true;
}

static void put_lifetime(struct vc_rust *d, uint64_t index)
{
	uint64_t depth = d->lifetimes - index;

	if (!index) {
		vc_rust_put(d, "'_");
	} else if (index > d->lifetimes) {
		d->failed = true;
	} else if (depth < 26) {
		char text[3] = {'\'', (char)('a' + depth), '\0'};

		vc_rust_put(d, text);
	} else {
		vc_rust_put(d, "'_");
		vc_rust_put_number(d, depth);
	}
}

/* "for<'a, 'b> "; returns how many there were before. */
static uint64_t binder(struct vc_rust *d)
{
	uint64_t before = d->lifetimes, count = vc_rust_optional_base_62(d, 'G');

	if (!count || d->failed)
		return before;
	if (count > VC_RUST_NAME_LIMIT) {
		d->failed = true;
		return before;
	}
	vc_rust_put(d, "for<");
	for (uint64_t i = 0; i < count && !d->failed; i++) {
		vc_rust_put(d, i ? ", " : "");
		d->lifetimes++;
		put_lifetime(d, 1);
	}
	vc_rust_put(d, "> ");
	return before;
}

static void generic_argument(struct vc_rust *d)
{
	if (vc_rust_eat(d, 'L'))
		put_lifetime(d, vc_rust_base_62(d));
	else if (vc_rust_eat(d, 'K'))
		vc_rust_constant(d, false);
	else
		type(d);
}

unsigned vc_rust_list(struct vc_rust *d, void (*item)(struct vc_rust *d))
{
	unsigned count = 0;

	while (!d->failed && !vc_rust_eat(d, 'E')) {
		vc_rust_put(d, count++ ? ", " : "");
		item(d);
	}
	return count;
}

static void nested(struct vc_rust *d, bool in_value)
{
	char space = vc_rust_next(d);
	uint64_t number;
	struct vc_rust_identifier name;

	vc_rust_path(d, in_value);
	number = vc_rust_optional_base_62(d, 's');
	name = vc_rust_read_identifier(d);
	if (space >= 'A' && space <= 'Z') {
		vc_rust_put(d, "::{");
		if (space == 'C')
			vc_rust_put(d, "closure");
		else if (space == 'S')
			vc_rust_put(d, "shim");
		else
			vc_rust_put_bytes(d, &space, 1);
		if (name.length) {
			vc_rust_put(d, ":");
			vc_rust_put_identifier(d, &name);
		}
		vc_rust_put(d, "#");
		vc_rust_put_number(d, number);
		vc_rust_put(d, "}");
	} else if (space >= 'a' && space <= 'z') {
		if (name.length) {
			vc_rust_put(d, "::");
			vc_rust_put_identifier(d, &name);
		}
	} else {
		d->failed = true;
	}
}

/* Where an implementation stands: read, not written. */
static void implementation_path(struct vc_rust *d)
{
	bool before = d->silent;

	d->silent = true;
	vc_rust_optional_base_62(d, 's');
	vc_rust_path(d, false);
	d->silent = before;
}

static void implementation(struct vc_rust *d, char kind)
{
	if (kind != 'Y')
		implementation_path(d);
	vc_rust_put(d, "<");
	type(d);
	if (kind != 'M') {
		vc_rust_put(d, " as ");
		vc_rust_path(d, false);
	}
	vc_rust_put(d, ">");
}

void vc_rust_path(struct vc_rust *d, bool in_value)
{
	struct vc_rust_identifier name;
	size_t back;
	char kind;

	if (!vc_rust_enter(d))
		goto out;
	switch (kind = vc_rust_next(d)) {
	case 'C':
		vc_rust_optional_base_62(d, 's');
		name = vc_rust_read_identifier(d);
		vc_rust_put_identifier(d, &name);
		break;
	case 'N':
		nested(d, in_value);
		break;
	case 'M':
	case 'X':
	case 'Y':
		implementation(d, kind);
		break;
	case 'I':
		vc_rust_path(d, in_value);
		vc_rust_put(d, in_value ? "::<" : "<");
		vc_rust_list(d, generic_argument);
		vc_rust_put(d, ">");
		break;
	case 'B':
		if (vc_rust_follow(d, &back)) {
			vc_rust_path(d, in_value);
			d->at = back;
		}
		break;
	default:
		d->failed = true;
	}
out:
	vc_rust_leave(d);
}

static const char *basic_type(char letter)
{
	static const char *const names[26] = {
		"i8",	 "bool", "char", "f64", "str",	"f32",	NULL,  "u8", "isize",
		"usize", NULL,	 "i32",	 "u32", "i128", "u128", "_",   NULL, NULL,
		"i16",	 "u16",	 "()",	 "...", NULL,	"i64",	"u64", "!",
	};

	return letter >= 'a' && letter <= 'z' ? names[letter - 'a'] : NULL;
}

static void function_type(struct vc_rust *d)
{
	uint64_t before = binder(d);
	struct vc_rust_identifier abi;

	vc_rust_put(d, vc_rust_eat(d, 'U') ? "unsafe " : "");
	if (vc_rust_eat(d, 'K')) {
		vc_rust_put(d, "extern \"");
		if (vc_rust_eat(d, 'C')) {
			vc_rust_put(d, "C");
		} else {
			abi = vc_rust_read_identifier(d);
			for (size_t i = 0; i < abi.length && !d->failed; i++)
				vc_rust_put_bytes(d, abi.bytes[i] == '_' ? "-" : &abi.bytes[i], 1);
		}
		vc_rust_put(d, "\" ");
	}
	vc_rust_put(d, "fn(");
	vc_rust_list(d, type);
	vc_rust_put(d, ")");
	if (!vc_rust_eat(d, 'u')) { /* nothing is returned as () */
		vc_rust_put(d, " -> ");
		type(d);
	}
	d->lifetimes = before;
}

/* A path whose generic arguments, if it has any, are left open. True: they are. */
static bool open_path(struct vc_rust *d)
{
	bool open = false;
	size_t back;

	if (!vc_rust_enter(d))
		goto out;
	if (vc_rust_eat(d, 'B')) {
		if (vc_rust_follow(d, &back)) {
			open = open_path(d);
			d->at = back;
		}
	} else if (vc_rust_eat(d, 'I')) {
		vc_rust_path(d, false);
		vc_rust_put(d, "<");
		vc_rust_list(d, generic_argument);
		open = true;
	} else {
		vc_rust_path(d, false);
	}
out:
	vc_rust_leave(d);
	return open;
}

static void dyn_trait(struct vc_rust *d)
{
	bool open = open_path(d);

	while (vc_rust_eat(d, 'p')) {
		struct vc_rust_identifier name = vc_rust_read_identifier(d);

		vc_rust_put(d, open ? ", " : "<");
		open = true;
		vc_rust_put_identifier(d, &name);
		vc_rust_put(d, " = ");
		type(d);
	}
	vc_rust_put(d, open ? ">" : "");
}

static void dyn_type(struct vc_rust *d)
{
	uint64_t before, lifetime, count = 0;

	vc_rust_put(d, "dyn ");
	before = binder(d);
	while (!d->failed && !vc_rust_eat(d, 'E')) {
		vc_rust_put(d, count++ ? " + " : "");
		dyn_trait(d);
	}
	d->lifetimes = before;
	if (!vc_rust_eat(d, 'L')) {
		d->failed = true;
		return;
	}
	lifetime = vc_rust_base_62(d);
	if (lifetime) {
		vc_rust_put(d, " + ");
		put_lifetime(d, lifetime);
	}
}

static void reference_type(struct vc_rust *d, bool can_change)
{
	vc_rust_put(d, "&");
	if (vc_rust_eat(d, 'L')) {
		uint64_t lifetime = vc_rust_base_62(d);

		if (lifetime) {
			put_lifetime(d, lifetime);
			vc_rust_put(d, " ");
		}
	}
	vc_rust_put(d, can_change ? "mut " : "");
	type(d);
}

static void array_type(struct vc_rust *d, bool sized)
{
	vc_rust_put(d, "[");
	type(d);
	if (sized) {
		vc_rust_put(d, "; ");
		vc_rust_constant(d, true);
	}
	vc_rust_put(d, "]");
}

static void type(struct vc_rust *d)
{
	char kind;
	size_t back;

	if (!vc_rust_enter(d))
		goto out;
	kind = vc_rust_peek(d);
	if (basic_type(kind)) {
		d->at++;
		vc_rust_put(d, basic_type(kind));
		goto out;
	}
	if (kind && strchr("CNMXYI", kind)) {
		vc_rust_path(d, false);
		goto out;
	}
	switch (vc_rust_next(d)) {
	case 'A':
	case 'S':
		array_type(d, kind == 'A');
		break;
	case 'T':
		vc_rust_put(d, "(");
		vc_rust_put(d, vc_rust_list(d, type) == 1 ? ",)" : ")");
		break;
	case 'R':
	case 'Q':
		reference_type(d, kind == 'Q');
		break;
	case 'P':
	case 'O':
		vc_rust_put(d, kind == 'P' ? "*const " : "*mut ");
		type(d);
		break;
	case 'F':
		function_type(d);
		break;
	case 'D':
		dyn_type(d);
		break;
	case 'B':
		if (vc_rust_follow(d, &back)) {
			type(d);
			d->at = back;
		}
		break;
	default:
		d->failed = true;
	}
out:
	vc_rust_leave(d);
}
