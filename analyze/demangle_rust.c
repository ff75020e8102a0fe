/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/demangle_rust.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	NAME_LIMIT = 16384,
	OUTPUT_LIMIT = 16384,
	DEPTH_LIMIT = 128,
	STEP_LIMIT = 65536,
	PUNYCODE_LIMIT = 256, /* characters of one identifier that is not ASCII */
};

struct demangler {
	const char *text; /* what follows "_R": back-references count from here */
	size_t at, length;
	unsigned depth, steps;
	uint64_t lifetimes; /* bound by "for<...>" around here */
	bool silent;	    /* parts that are read and not written */
	bool failed;
	char *out;
	size_t used;
};

/* ---- writing ---- */

static void put_bytes(struct demangler *d, const char *bytes, size_t length)
{
	if (d->silent || d->failed)
		return;
	if (length >= OUTPUT_LIMIT - d->used) {
		d->failed = true;
		return;
	}
	memcpy(d->out + d->used, bytes, length);
	d->used += length;
	d->out[d->used] = '\0';
}

static void put(struct demangler *d, const char *text)
{
	put_bytes(d, text, strlen(text));
}

static void put_number(struct demangler *d, uint64_t number)
{
	char text[32];

	put_bytes(d, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number));
}

static void put_character(struct demangler *d, uint32_t code)
{
	char text[4];
	size_t length = 0;

	if (code < 0x80) {
		text[length++] = (char)code;
	} else if (code < 0x800) {
		text[length++] = (char)(0xc0 | code >> 6);
		text[length++] = (char)(0x80 | (code & 0x3f));
	} else if (code < 0x10000) {
		text[length++] = (char)(0xe0 | code >> 12);
		text[length++] = (char)(0x80 | (code >> 6 & 0x3f));
		text[length++] = (char)(0x80 | (code & 0x3f));
	} else {
		text[length++] = (char)(0xf0 | code >> 18);
		text[length++] = (char)(0x80 | (code >> 12 & 0x3f));
		text[length++] = (char)(0x80 | (code >> 6 & 0x3f));
		text[length++] = (char)(0x80 | (code & 0x3f));
	}
	put_bytes(d, text, length);
}

/* ---- reading ---- */

static char peek(const struct demangler *d)
{
	return d->failed || d->at >= d->length ? '\0' : d->text[d->at];
}

static bool eat(struct demangler *d, char wanted)
{
	if (peek(d) != wanted || !wanted)
		return false;
	d->at++;
	return true;
}

static char next(struct demangler *d)
{
	char found = peek(d);

	if (found)
		d->at++;
	else
		d->failed = true;
	return found;
}

/* Every rule of the grammar that can nest begins with this, and ends with leave. */
static bool enter(struct demangler *d)
{
	if (++d->depth > DEPTH_LIMIT || ++d->steps > STEP_LIMIT)
		d->failed = true;
	return !d->failed;
}

static void leave(struct demangler *d)
{
	d->depth--;
}

/* "_" is 0, "0_" is 1, ... */
static uint64_t base_62(struct demangler *d)
{
	uint64_t value = 0;

	if (eat(d, '_'))
		return 0;
	while (!d->failed && !eat(d, '_')) {
		char c = next(d);
		uint64_t digit = 0;

		if (c >= '0' && c <= '9')
			digit = (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'z')
			digit = (uint64_t)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'Z')
			digit = (uint64_t)(c - 'A') + 36;
		else
			d->failed = true;
		if (__builtin_mul_overflow(value, 62, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			d->failed = true;
	}
	if (value == UINT64_MAX)
		d->failed = true;
	return value + 1;
}

/* A number behind its letter; 0 where the letter is not there. */
static uint64_t optional_base_62(struct demangler *d, char letter)
{
	uint64_t value;

	if (!eat(d, letter))
		return 0;
	value = base_62(d);
	return value < UINT64_MAX ? value + 1 : value;
}

struct identifier {
	const char *bytes;
	size_t length;
	bool punycode;
};

/* "5hello"; in v0 "_" stands between where the name begins with a digit or "_". */
static struct identifier read_counted(struct demangler *d, bool divided)
{
	struct identifier name = {0};
	size_t length = 0;

	if (peek(d) < '0' || peek(d) > '9')
		d->failed = true;
	if (!eat(d, '0'))
		while (peek(d) >= '0' && peek(d) <= '9' && length < NAME_LIMIT)
			length = length * 10 + (size_t)(next(d) - '0');
	if (divided)
		eat(d, '_');
	if (d->failed || length > d->length - d->at) {
		d->failed = true;
		return name;
	}
	name.bytes = d->text + d->at;
	name.length = length;
	d->at += length;
	return name;
}

static struct identifier read_identifier(struct demangler *d)
{
	bool punycode = eat(d, 'u');
	struct identifier name = read_counted(d, true);

	name.punycode = punycode;
	return name;
}

/* ---- identifiers that are not ASCII: RFC 3492, with "_" in place of "-" ---- */

struct punycode {
	uint32_t text[PUNYCODE_LIMIT];
	size_t length;
};

static uint32_t adapt(uint32_t delta, uint32_t length, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / 700 : delta / 2;
	delta += delta / length;
	for (; delta > 35 * 26 / 2; k += 36)
		delta /= 35;
	return k + 36 * delta / (delta + 38);
}

static bool insert(struct punycode *code, uint32_t at, uint32_t character)
{
	if (code->length == PUNYCODE_LIMIT || at > code->length || character > 0x10ffff ||
	    (character >= 0xd800 && character < 0xe000))
		return false;
	memmove(&code->text[at + 1], &code->text[at], (code->length - at) * sizeof(*code->text));
	code->text[at] = character;
	code->length++;
	return true;
}

static bool decode_punycode(const struct identifier *name, struct punycode *code)
{
	uint32_t character = 128, at = 0, bias = 72;
	size_t i = 0, plain = 0;

	for (size_t k = 0; k < name->length; k++)
		if (name->bytes[k] == '_')
			plain = k;
	code->length = 0;
	for (; i < plain; i++)
		if (!insert(code, (uint32_t)i, (unsigned char)name->bytes[i]))
			return false;
	i += plain > 0 || (name->length > 0 && name->bytes[0] == '_');
	while (i < name->length) {
		uint32_t before = at, weight = 1;

		for (uint32_t k = 36;; k += 36) {
			uint32_t digit, least = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
			char c = i < name->length ? name->bytes[i++] : '\0';

			if (c >= 'a' && c <= 'z')
				digit = (uint32_t)(c - 'a');
			else if (c >= '0' && c <= '9')
				digit = (uint32_t)(c - '0') + 26;
			else
				return false;
			if (__builtin_mul_overflow(digit, weight, &digit) ||
			    __builtin_add_overflow(at, digit, &at))
				return false;
			if (digit / weight < least)
				break;
			if (__builtin_mul_overflow(weight, 36 - least, &weight))
				return false;
		}
		bias = adapt(at - before, (uint32_t)code->length + 1, before == 0);
		character += at / ((uint32_t)code->length + 1);
		at %= (uint32_t)code->length + 1;
		if (!insert(code, at++, character))
			return false;
	}
	return true;
}

static void put_identifier(struct demangler *d, const struct identifier *name)
{
	struct punycode code;

	if (d->failed || d->silent)
		return;
	if (!name->punycode) {
		put_bytes(d, name->bytes, name->length);
	} else if (decode_punycode(name, &code)) {
		for (size_t i = 0; i < code.length; i++)
			put_character(d, code.text[i]);
	} else {
		put(d, "punycode{");
		put_bytes(d, name->bytes, name->length);
		put(d, "}");
	}
}

/* ---- the grammar ---- */

static void path(struct demangler *d, bool in_value);
static void type(struct demangler *d);
static void constant(struct demangler *d, bool in_value);

/* Where a back-reference leads: always before itself, so that none goes in a circle. */
static bool follow(struct demangler *d, size_t *ret_return)
{
	size_t start = d->at - 1;
	uint64_t target = base_62(d);

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

static void put_lifetime(struct demangler *d, uint64_t index)
{
	uint64_t depth = d->lifetimes - index;

	if (!index) {
		put(d, "'_");
	} else if (index > d->lifetimes) {
		d->failed = true;
	} else if (depth < 26) {
		char text[3] = {'\'', (char)('a' + depth), '\0'};

		put(d, text);
	} else {
		put(d, "'_");
		put_number(d, depth);
	}
}

/* "for<'a, 'b> "; returns how many there were before. */
static uint64_t binder(struct demangler *d)
{
	uint64_t before = d->lifetimes, count = optional_base_62(d, 'G');

	if (!count || d->failed)
		return before;
	if (count > NAME_LIMIT) {
		d->failed = true;
		return before;
	}
	put(d, "for<");
	for (uint64_t i = 0; i < count && !d->failed; i++) {
		put(d, i ? ", " : "");
		d->lifetimes++;
		put_lifetime(d, 1);
	}
	put(d, "> ");
	return before;
}

static void generic_argument(struct demangler *d)
{
	if (eat(d, 'L'))
		put_lifetime(d, base_62(d));
	else if (eat(d, 'K'))
		constant(d, false);
	else
		type(d);
}

/* Up to E, divided by ", "; returns how many. */
static unsigned list(struct demangler *d, void (*item)(struct demangler *d))
{
	unsigned count = 0;

	while (!d->failed && !eat(d, 'E')) {
		put(d, count++ ? ", " : "");
		item(d);
	}
	return count;
}

static void nested(struct demangler *d, bool in_value)
{
	char space = next(d);
	uint64_t number;
	struct identifier name;

	path(d, in_value);
	number = optional_base_62(d, 's');
	name = read_identifier(d);
	if (space >= 'A' && space <= 'Z') {
		put(d, "::{");
		if (space == 'C')
			put(d, "closure");
		else if (space == 'S')
			put(d, "shim");
		else
			put_bytes(d, &space, 1);
		if (name.length) {
			put(d, ":");
			put_identifier(d, &name);
		}
		put(d, "#");
		put_number(d, number);
		put(d, "}");
	} else if (space >= 'a' && space <= 'z') {
		if (name.length) {
			put(d, "::");
			put_identifier(d, &name);
		}
	} else {
		d->failed = true;
	}
}

/* Where an implementation stands: read, not written. */
static void implementation_path(struct demangler *d)
{
	bool before = d->silent;

	d->silent = true;
	optional_base_62(d, 's');
	path(d, false);
	d->silent = before;
}

static void implementation(struct demangler *d, char kind)
{
	if (kind != 'Y')
		implementation_path(d);
	put(d, "<");
	type(d);
	if (kind != 'M') {
		put(d, " as ");
		path(d, false);
	}
	put(d, ">");
}

static void path(struct demangler *d, bool in_value)
{
	struct identifier name;
	size_t back;
	char kind;

	if (!enter(d))
		goto out;
	switch (kind = next(d)) {
	case 'C':
		optional_base_62(d, 's');
		name = read_identifier(d);
		put_identifier(d, &name);
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
		path(d, in_value);
		put(d, in_value ? "::<" : "<");
		list(d, generic_argument);
		put(d, ">");
		break;
	case 'B':
		if (follow(d, &back)) {
			path(d, in_value);
			d->at = back;
		}
		break;
	default:
		d->failed = true;
	}
out:
	leave(d);
}

static const char *basic_type(char letter)
{
	static const char *const names[26] = {
		"i8", "bool", "char", "f64", "str", "f32", NULL, "u8", "isize", "usize", NULL,
		"i32", "u32", "i128", "u128", "_", NULL, NULL, "i16", "u16", "()", "...", NULL,
		"i64", "u64", "!",
	};

	return letter >= 'a' && letter <= 'z' ? names[letter - 'a'] : NULL;
}

static void function_type(struct demangler *d)
{
	uint64_t before = binder(d);
	struct identifier abi;

	put(d, eat(d, 'U') ? "unsafe " : "");
	if (eat(d, 'K')) {
		put(d, "extern \"");
		if (eat(d, 'C')) {
			put(d, "C");
		} else {
			abi = read_identifier(d);
			for (size_t i = 0; i < abi.length && !d->failed; i++)
				put_bytes(d, abi.bytes[i] == '_' ? "-" : &abi.bytes[i], 1);
		}
		put(d, "\" ");
	}
	put(d, "fn(");
	list(d, type);
	put(d, ")");
	if (!eat(d, 'u')) { /* nothing is returned as () */
		put(d, " -> ");
		type(d);
	}
	d->lifetimes = before;
}

/* A path whose generic arguments, if it has any, are left open. True: they are. */
static bool open_path(struct demangler *d)
{
	bool open = false;
	size_t back;

	if (!enter(d))
		goto out;
	if (eat(d, 'B')) {
		if (follow(d, &back)) {
			open = open_path(d);
			d->at = back;
		}
	} else if (eat(d, 'I')) {
		path(d, false);
		put(d, "<");
		list(d, generic_argument);
		open = true;
	} else {
		path(d, false);
	}
out:
	leave(d);
	return open;
}

static void dyn_trait(struct demangler *d)
{
	bool open = open_path(d);

	while (eat(d, 'p')) {
		struct identifier name = read_identifier(d);

		put(d, open ? ", " : "<");
		open = true;
		put_identifier(d, &name);
		put(d, " = ");
		type(d);
	}
	put(d, open ? ">" : "");
}

static void dyn_type(struct demangler *d)
{
	uint64_t before, lifetime, count = 0;

	put(d, "dyn ");
	before = binder(d);
	while (!d->failed && !eat(d, 'E')) {
		put(d, count++ ? " + " : "");
		dyn_trait(d);
	}
	d->lifetimes = before;
	if (!eat(d, 'L')) {
		d->failed = true;
		return;
	}
	lifetime = base_62(d);
	if (lifetime) {
		put(d, " + ");
		put_lifetime(d, lifetime);
	}
}

static void reference_type(struct demangler *d, bool can_change)
{
	put(d, "&");
	if (eat(d, 'L')) {
		uint64_t lifetime = base_62(d);

		if (lifetime) {
			put_lifetime(d, lifetime);
			put(d, " ");
		}
	}
	put(d, can_change ? "mut " : "");
	type(d);
}

static void array_type(struct demangler *d, bool sized)
{
	put(d, "[");
	type(d);
	if (sized) {
		put(d, "; ");
		constant(d, true);
	}
	put(d, "]");
}

static void type(struct demangler *d)
{
	char kind;
	size_t back;

	if (!enter(d))
		goto out;
	kind = peek(d);
	if (basic_type(kind)) {
		d->at++;
		put(d, basic_type(kind));
		goto out;
	}
	if (kind && strchr("CNMXYI", kind)) {
		path(d, false);
		goto out;
	}
	switch (next(d)) {
	case 'A':
	case 'S':
		array_type(d, kind == 'A');
		break;
	case 'T':
		put(d, "(");
		put(d, list(d, type) == 1 ? ",)" : ")");
		break;
	case 'R':
	case 'Q':
		reference_type(d, kind == 'Q');
		break;
	case 'P':
	case 'O':
		put(d, kind == 'P' ? "*const " : "*mut ");
		type(d);
		break;
	case 'F':
		function_type(d);
		break;
	case 'D':
		dyn_type(d);
		break;
	case 'B':
		if (follow(d, &back)) {
			type(d);
			d->at = back;
		}
		break;
	default:
		d->failed = true;
	}
out:
	leave(d);
}

/* ---- constants ---- */

/* Hexadecimal digits up to "_", as they stand; leading zeroes left out. */
static struct identifier read_digits(struct demangler *d)
{
	struct identifier digits = {.bytes = d->text + d->at};

	while (!d->failed && !eat(d, '_')) {
		char c = next(d);

		if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
			d->failed = true;
		digits.length++;
	}
	while (digits.length > 0 && digits.bytes[0] == '0') {
		digits.bytes++;
		digits.length--;
	}
	return digits;
}

static uint64_t digits_value(const struct identifier *digits)
{
	uint64_t value = 0;

	for (size_t i = 0; i < digits->length && i < 16; i++) {
		char c = digits->bytes[i];

		value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return value;
}

static void put_integer(struct demangler *d)
{
	struct identifier digits;

	put(d, eat(d, 'n') ? "-" : "");
	digits = read_digits(d);
	if (digits.length <= 16) {
		put_number(d, digits_value(&digits));
	} else {
		put(d, "0x");
		put_bytes(d, digits.bytes, digits.length);
	}
}

static void put_quoted(struct demangler *d, uint32_t code, char quote)
{
	char text[16];

	if (code == '\n' || code == '\r' || code == '\t' || code == 0)
		put(d, code == '\n' ? "\\n" : code == '\r' ? "\\r" : code == '\t' ? "\\t" : "\\0");
	else if (code == '\\' || code == (uint32_t)quote)
		put_bytes(d, text, (size_t)snprintf(text, sizeof(text), "\\%c", (int)code));
	else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
		put_bytes(d, text, (size_t)snprintf(text, sizeof(text), "\\u{%x}", code));
	else
		put_character(d, code);
}

static void put_char_constant(struct demangler *d)
{
	struct identifier digits = read_digits(d);
	uint64_t code = digits_value(&digits);

	if (digits.length > 6 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		d->failed = true;
	put(d, "'");
	put_quoted(d, (uint32_t)code, '\'');
	put(d, "'");
}

static void put_bool_constant(struct demangler *d)
{
	struct identifier digits = read_digits(d);
	uint64_t value = digits_value(&digits);

	if (digits.length > 1 || value > 1)
		d->failed = true;
	put(d, value ? "true" : "false");
}

/* Bytes of UTF-8, two digits each. */
static void put_str_constant(struct demangler *d)
{
	size_t start = d->at;

	put(d, "\"");
	while (!d->failed && !eat(d, '_')) {
		char digits[3] = {next(d), next(d), '\0'};
		unsigned long byte = strtoul(digits, NULL, 16);
		char raw = (char)byte;

		if (strspn(digits, "0123456789abcdef") != 2 || d->at - start > NAME_LIMIT)
			d->failed = true;
		else if (byte < 0x80)
			put_quoted(d, (uint32_t)byte, '"');
		else
			put_bytes(d, &raw, 1);
	}
	put(d, "\"");
}

static void bare_constant(struct demangler *d)
{
	constant(d, true);
}

static void field(struct demangler *d)
{
	struct identifier name;

	optional_base_62(d, 's');
	name = read_identifier(d);
	put_identifier(d, &name);
	put(d, ": ");
	constant(d, true);
}

static void adt_constant(struct demangler *d)
{
	path(d, true);
	switch (next(d)) {
	case 'U':
		break;
	case 'T':
		put(d, "(");
		list(d, bare_constant);
		put(d, ")");
		break;
	case 'S':
		put(d, " { ");
		list(d, field);
		put(d, " }");
		break;
	default:
		d->failed = true;
	}
}

/* What is no plain number, written in braces where an expression could be misread. */
static void composed_constant(struct demangler *d, char kind, bool in_value)
{
	put(d, in_value ? "" : "{");
	switch (kind) {
	case 'e':
		put(d, "*");
		put_str_constant(d);
		break;
	case 'R':
	case 'Q':
		if (kind == 'R' && eat(d, 'e')) {
			put_str_constant(d);
			break;
		}
		put(d, kind == 'R' ? "&" : "&mut ");
		constant(d, true);
		break;
	case 'A':
		put(d, "[");
		list(d, bare_constant);
		put(d, "]");
		break;
	case 'T':
		put(d, "(");
		put(d, list(d, bare_constant) == 1 ? ",)" : ")");
		break;
	case 'V':
		adt_constant(d);
		break;
	default:
		d->failed = true;
	}
	put(d, in_value ? "" : "}");
}

static void constant(struct demangler *d, bool in_value)
{
	size_t back;
	char kind;

	if (!enter(d))
		goto out;
	kind = next(d);
	if (kind == 'p') {
		put(d, "_");
	} else if (kind == 'b') {
		put_bool_constant(d);
	} else if (kind == 'c') {
		put_char_constant(d);
	} else if (kind && strchr("hstmyojaxlni", kind)) {
		put_integer(d);
	} else if (kind == 'B') {
		if (follow(d, &back)) {
			constant(d, in_value);
			d->at = back;
		}
	} else {
		composed_constant(d, kind, in_value);
	}
out:
	leave(d);
}

/* ---- names as a whole ---- */

/* What a compiler adds to the names of copies and parts (".llvm.1A2B", ".cold") is left out. */
static void check_suffix(struct demangler *d, const char *suffix)
{
	if (*suffix && *suffix != '.' && *suffix != '$')
		d->failed = true;
}

static void demangle_v0(struct demangler *d)
{
	d->text += 2;
	d->length = strcspn(d->text, ".$");
	path(d, true);
	if (!d->failed && d->at < d->length) { /* the crate that made it from a generic one */
		d->silent = true;
		path(d, false);
		d->silent = false;
	}
	if (d->at != d->length)
		d->failed = true;
	check_suffix(d, d->text + d->length);
}

/* "h" and 16 hexadecimal digits, which hardly ever are all alike. */
static bool is_hash(const struct identifier *part)
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
static size_t put_escape(struct demangler *d, const char *at, size_t left)
{
	static const char *const escapes[][2] = {
		{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"}, {"$GT$", ">"},
		{"$LP$", "("}, {"$RP$", ")"}, {"$C$", ","},
	};
	uint32_t code = 0;
	size_t length = 2;

	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		size_t size = strlen(escapes[i][0]);

		if (size <= left && !memcmp(at, escapes[i][0], size)) {
			put(d, escapes[i][1]);
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
	put_character(d, code);
	return length + 1;
}

static void put_part(struct demangler *d, const struct identifier *part)
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
			put(d, "::");
			taken = 2;
		} else if (*at == '$') {
			taken = put_escape(d, at, left);
			if (!taken)
				d->failed = true;
		} else {
			put_bytes(d, at, 1);
		}
		at += taken;
		left -= taken;
	}
}

static void demangle_legacy(struct demangler *d)
{
	struct identifier last = {0};
	unsigned count = 0;

	d->text += 3;
	d->length = strlen(d->text);
	for (; !d->failed && !eat(d, 'E'); count++) {
		struct identifier part = read_counted(d, false);

		if (count > 0) {
			put(d, count > 1 ? "::" : "");
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
	struct demangler d = {.text = name};

	if (!name || strnlen(name, NAME_LIMIT) == NAME_LIMIT || name[0] != '_')
		return NULL;
	if (strncmp(name, "_R", 2) && strncmp(name, "_ZN", 3))
		return NULL;
	d.out = calloc(1, OUTPUT_LIMIT);
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
