/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/oom_pattern.h"

#include <string.h>

struct scan {
	const char *text;
	size_t length, at;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/** The character `ahead` of the scan; NUL, which texts do not hold, past the end. */
static char look(const struct scan *scan, size_t ahead)
{
	return ahead < scan->length - scan->at ? scan->text[scan->at + ahead] : '\0';
}

void vc_oom_copy(char *to, size_t size, const char *from, size_t length)
{
	if (length >= size)
		length = size - 1;
	memcpy(to, from, length);
	to[length] = '\0';
}

/** Goes over a line break inside a word, and the indentation after it. */
static void skip_break(struct scan *scan)
{
	if (look(scan, 0) != '\n')
		return;
	while (is_blank(look(scan, 0)))
		scan->at++;
}

static bool match_blank(struct scan *scan)
{
	size_t start = scan->at;

	while (is_blank(look(scan, 0)))
		scan->at++;
	return scan->at > start;
}

/* ---- numbers ---- */

struct number {
	uint64_t whole, fraction;
	unsigned decimals;
	bool overflow;
};

static unsigned digits_after(const struct scan *scan, size_t ahead)
{
	unsigned count = 0;

	while (count < 8 && is_digit(look(scan, ahead + count)))
		count++;
	return count;
}

static void add_digit(struct number *number, char c, bool fraction)
{
	unsigned digit = (unsigned)(c - '0');

	if (!fraction) {
		number->overflow |= number->whole > (UINT64_MAX - digit) / 10;
		number->whole = number->overflow ? UINT64_MAX : number->whole * 10 + digit;
	} else if (number->decimals < 9) {
		number->fraction = number->fraction * 10 + digit;
		number->decimals++;
	}
}

/** "1,234,567", "2.50", "1900,00" (a decimal comma), with a line break anywhere inside. */
static bool read_number(struct scan *scan, struct number *ret)
{
	struct number number = {0};
	bool fraction = false;

	if (!is_digit(look(scan, 0)))
		return false;
	for (;; scan->at++) {
		char c = look(scan, 0);
		unsigned more = digits_after(scan, 1);

		if (is_digit(c)) {
			add_digit(&number, c, fraction);
		} else if (c == '.' && !fraction && (more || look(scan, 1) == '\n')) {
			fraction = true;
		} else if (c == ',' && !fraction && more && more < 3) {
			fraction = true;
		} else if (!(c == ',' && !fraction && more == 3) &&
			   !(c == '\n' && (more || (!fraction && look(scan, 1) == '.')))) {
			break;
		}
	}
	*ret = number;
	return true;
}

static const struct {
	const char *name;
	unsigned shift;
} units[] = {
	{"bytes", 0}, {"byte", 0}, {"B", 0},
	{"KiB", 10}, {"KB", 10}, {"kB", 10}, {"K", 10}, {"MiB", 20}, {"MB", 20}, {"M", 20},
	{"GiB", 30}, {"GB", 30}, {"G", 30}, {"TiB", 40}, {"TB", 40}, {"T", 40},
};

/** Length of a word in the text, with the line breaks in it; 0 where it is not there. */
static size_t word_length(const struct scan *scan, const char *word)
{
	size_t ahead = 0;

	for (const char *c = word; *c; c++) {
		while (c != word && look(scan, ahead) == '\n')
			ahead++;
		if (look(scan, ahead++) != *c)
			return 0;
	}
	return ahead;
}

/* All of these programs divide by 1024, whatever they call it. */
static bool read_unit(struct scan *scan, unsigned *ret)
{
	while (is_blank(look(scan, 0)))
		scan->at++;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		size_t length = word_length(scan, units[i].name);

		if (!length || is_word(look(scan, length)))
			continue;
		scan->at += length;
		*ret = units[i].shift;
		return true;
	}
	return false;
}

static void make_size(const struct number *number, unsigned shift, struct vc_oom_size *ret)
{
	struct vc_oom_size size = {.told = true};
	double part = (double)(UINT64_C(1) << shift);

	for (unsigned i = 0; i < number->decimals; i++)
		part /= 10;
	size.beyond = number->overflow || number->whole >= UINT64_C(1) << (56 - shift);
	if (size.beyond) {
		size.bytes = UINT64_MAX;
	} else {
		size.bytes = (number->whole << shift) +
			     (uint64_t)((double)number->fraction * part + 0.5);
		size.within = shift ? (uint64_t)(part / 2) + 1 : 0;
	}
	*ret = size;
}

static bool read_value(struct scan *scan, char kind, struct vc_oom_value *value)
{
	struct number number;
	unsigned shift = 0;

	if (!read_number(scan, &number))
		return false;
	if (kind == 's' && !read_unit(scan, &shift))
		return false;
	if (kind != 's' && is_word(look(scan, 0)) && kind == 'd')
		return false;
	value->number = number.whole;
	make_size(&number, shift, &value->size);
	return true;
}

static bool read_characters(struct scan *scan, char kind, struct vc_oom_value *value)
{
	size_t start = scan->at, most = kind == 'q' ? 255 : 120;

	for (; scan->at - start < most; scan->at++) {
		char c = look(scan, 0);

		if (!c || (kind == 'q' && (c == '"' || c == '\n')) ||
		    (kind == 'l' && c == '\n') ||
		    (kind == 'w' && (is_blank(c) || strchr(",;()[]\"", c))))
			break;
		if (kind == 'l' && c == ']') {
			scan->at++;
			break;
		}
	}
	value->characters = scan->text + start;
	value->length = scan->at - start;
	return value->length && (kind != 'l' || (value->characters[0] == '[' &&
						 scan->text[scan->at - 1] == ']'));
}

bool vc_oom_pattern_match(const char *pattern, const char *text, size_t length, size_t at,
			  struct vc_oom_match *ret)
{
	struct scan scan = {text, length, at};

	ret->count = 0;
	for (const char *p = pattern; *p; p++) {
		if (*p == ' ') {
			if (!match_blank(&scan))
				return false;
			continue;
		}
		if (p != pattern)
			skip_break(&scan);
		if (*p == '%') {
			struct vc_oom_value *value = &ret->values[ret->count++];

			*value = (struct vc_oom_value){0};
			p++;
			if (strchr("snd", *p) ? !read_value(&scan, *p, value) :
						!read_characters(&scan, *p, value))
				return false;
		} else if (look(&scan, 0) == *p) {
			scan.at++;
		} else {
			return false;
		}
	}
	ret->end = scan.at;
	return true;
}

bool vc_oom_pattern_begins(const char *pattern, unsigned char first)
{
	return *pattern == '%' ? is_digit((char)first) : (unsigned char)*pattern == first;
}
