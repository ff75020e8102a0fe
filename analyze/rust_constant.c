/* SPDX-License-Identifier: Apache-2.0 */
/* Constants in Rust names: numbers, texts, what is composed of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/rust_name.h"

/* Hexadecimal digits up to "_", as they stand; leading zeroes left out. */
static struct vc_rust_identifier read_digits(struct vc_rust *d)
{
	struct vc_rust_identifier digits = {.bytes = d->text + d->at};

	while (!d->failed && !vc_rust_eat(d, '_')) {
		char c = vc_rust_next(d);

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

static uint64_t digits_value(const struct vc_rust_identifier *digits)
{
	uint64_t value = 0;

	for (size_t i = 0; i < digits->length && i < 16; i++) {
		char c = digits->bytes[i];

		value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return value;
}

static void put_integer(struct vc_rust *d)
{
	struct vc_rust_identifier digits;

	vc_rust_put(d, vc_rust_eat(d, 'n') ? "-" : "");
	digits = read_digits(d);
	if (digits.length <= 16) {
		vc_rust_put_number(d, digits_value(&digits));
	} else {
		vc_rust_put(d, "0x");
		vc_rust_put_bytes(d, digits.bytes, digits.length);
	}
}

static void put_quoted(struct vc_rust *d, uint32_t code, char quote)
{
	char text[16];

	if (code == '\n' || code == '\r' || code == '\t' || code == 0)
		vc_rust_put(d, code == '\n'   ? "\\n"
			       : code == '\r' ? "\\r"
			       : code == '\t' ? "\\t"
					      : "\\0");
	else if (code == '\\' || code == (uint32_t)quote)
		vc_rust_put_bytes(d, text, (size_t)snprintf(text, sizeof(text), "\\%c", (int)code));
	else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
		vc_rust_put_bytes(d, text, (size_t)snprintf(text, sizeof(text), "\\u{%x}", code));
	else
		vc_rust_put_character(d, code);
}

static void put_char_constant(struct vc_rust *d)
{
	struct vc_rust_identifier digits = read_digits(d);
	uint64_t code = digits_value(&digits);

	if (digits.length > 6 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		d->failed = true;
	vc_rust_put(d, "'");
	put_quoted(d, (uint32_t)code, '\'');
	vc_rust_put(d, "'");
}

static void put_bool_constant(struct vc_rust *d)
{
	struct vc_rust_identifier digits = read_digits(d);
	uint64_t value = digits_value(&digits);

	if (digits.length > 1 || value > 1)
		d->failed = true;
	vc_rust_put(d, value ? "true" : "false");
}

/* Bytes of UTF-8, two digits each. */
static void put_str_constant(struct vc_rust *d)
{
	size_t start = d->at;

	vc_rust_put(d, "\"");
	while (!d->failed && !vc_rust_eat(d, '_')) {
		char digits[3] = {vc_rust_next(d), vc_rust_next(d), '\0'};
		unsigned long byte = strtoul(digits, NULL, 16);
		char raw = (char)byte;

		if (strspn(digits, "0123456789abcdef") != 2 || d->at - start > VC_RUST_NAME_LIMIT)
			d->failed = true;
		else if (byte < 0x80)
			put_quoted(d, (uint32_t)byte, '"');
		else
			vc_rust_put_bytes(d, &raw, 1);
	}
	vc_rust_put(d, "\"");
}

static void bare_constant(struct vc_rust *d)
{
	vc_rust_constant(d, true);
}

static void field(struct vc_rust *d)
{
	struct vc_rust_identifier name;

	vc_rust_optional_base_62(d, 's');
	name = vc_rust_read_identifier(d);
	vc_rust_put_identifier(d, &name);
	vc_rust_put(d, ": ");
	vc_rust_constant(d, true);
}

static void adt_constant(struct vc_rust *d)
{
	vc_rust_path(d, true);
	switch (vc_rust_next(d)) {
	case 'U':
		break;
	case 'T':
		vc_rust_put(d, "(");
		vc_rust_list(d, bare_constant);
		vc_rust_put(d, ")");
		break;
	case 'S':
		vc_rust_put(d, " { ");
		vc_rust_list(d, field);
		vc_rust_put(d, " }");
		break;
	default:
		d->failed = true;
	}
}

/* What is no plain number, written in braces where an expression could be misread. */
static void composed_constant(struct vc_rust *d, char kind, bool in_value)
{
	vc_rust_put(d, in_value ? "" : "{");
	switch (kind) {
	case 'e':
		vc_rust_put(d, "*");
		put_str_constant(d);
		break;
	case 'R':
	case 'Q':
		if (kind == 'R' && vc_rust_eat(d, 'e')) {
			put_str_constant(d);
			break;
		}
		vc_rust_put(d, kind == 'R' ? "&" : "&mut ");
		vc_rust_constant(d, true);
		break;
	case 'A':
		vc_rust_put(d, "[");
		vc_rust_list(d, bare_constant);
		vc_rust_put(d, "]");
		break;
	case 'T':
		vc_rust_put(d, "(");
		vc_rust_put(d, vc_rust_list(d, bare_constant) == 1 ? ",)" : ")");
		break;
	case 'V':
		adt_constant(d);
		break;
	default:
		d->failed = true;
	}
	vc_rust_put(d, in_value ? "" : "}");
}

void vc_rust_constant(struct vc_rust *d, bool in_value)
{
	size_t back;
	char kind;

	if (!vc_rust_enter(d))
		goto out;
	kind = vc_rust_next(d);
	if (kind == 'p') {
		vc_rust_put(d, "_");
	} else if (kind == 'b') {
		put_bool_constant(d);
	} else if (kind == 'c') {
		put_char_constant(d);
	} else if (kind && strchr("hstmyojaxlni", kind)) {
		put_integer(d);
	} else if (kind == 'B') {
		if (vc_rust_follow(d, &back)) {
			vc_rust_constant(d, in_value);
			d->at = back;
		}
	} else {
		composed_constant(d, kind, in_value);
	}
out:
	vc_rust_leave(d);
}
