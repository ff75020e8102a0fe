/* SPDX-License-Identifier: Apache-2.0 */
/* What Rust names are made of: their numbers, identifiers and texts. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/rust_name.h"

enum { PUNYCODE_LIMIT = 256 }; /* characters of one identifier that is not ASCII */

/* ---- writing ---- */

void vc_rust_put_bytes(struct vc_rust *d, const char *bytes, size_t length)
{
	if (d->silent || d->failed)
		return;
	if (length >= VC_RUST_OUTPUT_LIMIT - d->used) {
		d->failed = true;
		return;
	}
	memcpy(d->out + d->used, bytes, length);
	d->used += length;
	d->out[d->used] = '\0';
}

void vc_rust_put(struct vc_rust *d, const char *text)
{
	vc_rust_put_bytes(d, text, strlen(text));
}

void vc_rust_put_number(struct vc_rust *d, uint64_t number)
{
	char text[32];

	vc_rust_put_bytes(d, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number));
}

void vc_rust_put_character(struct vc_rust *d, uint32_t code)
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
	vc_rust_put_bytes(d, text, length);
}

/* ---- numbers and identifiers ---- */

uint64_t vc_rust_base_62(struct vc_rust *d)
{
	uint64_t value = 0;

	if (vc_rust_eat(d, '_'))
		return 0;
	while (!d->failed && !vc_rust_eat(d, '_')) {
		char c = vc_rust_next(d);
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

uint64_t vc_rust_optional_base_62(struct vc_rust *d, char letter)
{
	uint64_t value;

	if (!vc_rust_eat(d, letter))
		return 0;
	value = vc_rust_base_62(d);
	return value < UINT64_MAX ? value + 1 : value;
}

struct vc_rust_identifier vc_rust_read_counted(struct vc_rust *d, bool divided)
{
	struct vc_rust_identifier name = {0};
	size_t length = 0;

	if (vc_rust_peek(d) < '0' || vc_rust_peek(d) > '9')
		d->failed = true;
	if (!vc_rust_eat(d, '0'))
		while (vc_rust_peek(d) >= '0' && vc_rust_peek(d) <= '9' &&
		       length < VC_RUST_NAME_LIMIT)
			length = length * 10 + (size_t)(vc_rust_next(d) - '0');
	if (divided)
		vc_rust_eat(d, '_');
	if (d->failed || length > d->length - d->at) {
		d->failed = true;
		return name;
	}
	name.bytes = d->text + d->at;
	name.length = length;
	d->at += length;
	return name;
}

struct vc_rust_identifier vc_rust_read_identifier(struct vc_rust *d)
{
	bool punycode = vc_rust_eat(d, 'u');
	struct vc_rust_identifier name = vc_rust_read_counted(d, true);

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

static bool decode_punycode(const struct vc_rust_identifier *name, struct punycode *code)
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

void vc_rust_put_identifier(struct vc_rust *d, const struct vc_rust_identifier *name)
{
	struct punycode code;

	if (d->failed || d->silent)
		return;
	if (!name->punycode) {
		vc_rust_put_bytes(d, name->bytes, name->length);
	} else if (decode_punycode(name, &code)) {
		for (size_t i = 0; i < code.length; i++)
			vc_rust_put_character(d, code.text[i]);
	} else {
		vc_rust_put(d, "punycode{");
		vc_rust_put_bytes(d, name->bytes, name->length);
		vc_rust_put(d, "}");
	}
}
