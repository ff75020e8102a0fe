/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/torch_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/error.h"

/* Items of a list are handed on in batches, as Python's pickle writes them. */
enum { BATCH = 1000, NUMBER_BYTES = 400 };

/** A container that is being read. */
struct open {
	uint64_t container; /* NEW_LIST or what its items so far made of it; of a dict NEW_DICT */
	uint64_t first;     /* its values that wait: from here on the stack */
	bool dict;
	bool batched;       /* items were handed on */
};

struct reader {
	struct vc_stream *stream;
	struct vc_values *values;
	uint64_t *stack, top, room;
	struct open *opened;
	uint64_t depth, depth_room;
	uint8_t *scratch;
	size_t scratch_room;
};

/** What the reader waits for. */
enum expect {
	EXPECT_VALUE,
	EXPECT_FIRST,      /* a value, or the end of an empty list */
	EXPECT_KEY,
	EXPECT_FIRST_KEY,
	EXPECT_MORE,       /* a comma or the end of the container */
	EXPECT_NOTHING,
};

bool vc_torch_json_is(const uint8_t *start, size_t length)
{
	size_t at = length >= 3 && !memcmp(start, "\xef\xbb\xbf", 3) ? 3 : 0;

	while (at < length && (start[at] == ' ' || (start[at] >= '\t' && start[at] <= '\r')))
		at++;
	return at < length && (start[at] == '{' || start[at] == '[');
}

/* ---- the stack ---- */

static int grow(void *array, uint64_t *room, size_t size)
{
	uint64_t larger = *room ? *room * 2 : 64;
	void *grown = realloc(*(void **)array, larger * size);

	if (!grown)
		return VC_E_NO_MEMORY;
	*(void **)array = grown;
	*room = larger;
	return 0;
}

static int push(struct reader *reader, uint64_t value)
{
	if (reader->top == reader->room) {
		int error;

		if (reader->top >= reader->values->limits->most[VC_LIMIT_STACK])
			return vc_values_limit(reader->values, VC_LIMIT_STACK);
		error = grow(&reader->stack, &reader->room, sizeof(*reader->stack));
		if (error)
			return error;
	}
	reader->stack[reader->top++] = value;
	return 0;
}

static int open_container(struct reader *reader, bool dict)
{
	if (reader->depth >= reader->values->limits->most[VC_LIMIT_DEPTH])
		return vc_values_limit(reader->values, VC_LIMIT_DEPTH);
	if (reader->depth == reader->depth_room) {
		int error = grow(&reader->opened, &reader->depth_room, sizeof(*reader->opened));

		if (error)
			return error;
	}
	reader->opened[reader->depth++] = (struct open){
		.container = vc_value_make(dict ? VC_VALUE_NEW_DICT : VC_VALUE_NEW_LIST, 0),
		.first = reader->top,
		.dict = dict,
	};
	return 0;
}

/** Hands the items of a list that wait to it. */
static int hand_on(struct reader *reader, struct open *open)
{
	uint64_t count = reader->top - open->first;

	reader->top = open->first;
	open->batched = true;
	return vc_values_append(reader->values, &open->container, reader->stack + open->first,
				count);
}

/** A pool's id was a tuple before it was JSON. */
static bool is_pair(const struct reader *reader, const struct open *open)
{
	const uint64_t *items = reader->stack + open->first;

	return !open->dict && !open->batched && reader->top - open->first == 2 &&
	       vc_value_tag(items[0]) == VC_VALUE_INTEGER &&
	       vc_value_tag(items[1]) == VC_VALUE_INTEGER;
}

static int close_container(struct reader *reader)
{
	struct open *open = &reader->opened[--reader->depth];
	uint64_t count = reader->top - open->first, *first = reader->stack + open->first;
	int error;

	if (is_pair(reader, open)) {
		error = vc_values_tuple(reader->values, first, count, &open->container);
	} else if (open->dict) {
		error = vc_values_set(reader->values, &open->container, first, count / 2);
	} else {
		error = hand_on(reader, open);
	}
	reader->top = open->first;
	return error ? error : push(reader, open->container);
}

/* ---- bytes ---- */

static int wrong_byte(struct reader *reader, const char *wanted)
{
	uint8_t byte = *reader->stream->at;

	if (byte > ' ' && byte < 0x7f)
		return vc_values_wrong(reader->values, VC_E_CORRUPT, "'%c' is no JSON where %s",
				       byte, wanted);
	return vc_values_wrong(reader->values, VC_E_CORRUPT, "0x%02x is no JSON where %s", byte,
			       wanted);
}

/** Waits for a byte that is no blank; VC_E_TRUNCATED at the end of the file. */
static int skip_blanks(struct reader *reader)
{
	struct vc_stream *stream = reader->stream;

	for (;;) {
		int error = 0;

		while (stream->at < stream->end && (*stream->at == ' ' || *stream->at == '\n' ||
						    *stream->at == '\r' || *stream->at == '\t'))
			stream->at++;
		if (stream->at < stream->end)
			return 0;
		error = vc_stream_fill(stream, 1);
		if (error)
			return error;
		if (stream->at == stream->end)
			return VC_E_TRUNCATED;
	}
}

/* ---- strings ---- */

static int hexadecimal(const uint8_t *digits, unsigned *ret)
{
	unsigned value = 0;

	for (unsigned i = 0; i < 4; i++) {
		uint8_t low = digits[i] | 0x20;

		if (digits[i] >= '0' && digits[i] <= '9')
			value = value << 4 | (unsigned)(digits[i] - '0');
		else if (low >= 'a' && low <= 'f')
			value = value << 4 | (unsigned)(low - 'a' + 10);
		else
			return VC_E_CORRUPT;
	}
	*ret = value;
	return 0;
}

static size_t put_utf8(uint8_t *to, unsigned code)
{
	if (code < 0x80) {
		to[0] = (uint8_t)code;
		return 1;
	}
	if (code < 0x800) {
		to[0] = (uint8_t)(0xc0 | code >> 6);
		to[1] = (uint8_t)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		to[0] = (uint8_t)(0xe0 | code >> 12);
		to[1] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
		to[2] = (uint8_t)(0x80 | (code & 0x3f));
		return 3;
	}
	to[0] = (uint8_t)(0xf0 | code >> 18);
	to[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
	to[2] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
	to[3] = (uint8_t)(0x80 | (code & 0x3f));
	return 4;
}

/** Decodes one escape; *from is after the backslash and moves behind it. Bytes written to *to. */
static int put_escape(const uint8_t **from, const uint8_t *end, uint8_t **to)
{
	static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	const char *letter;
	unsigned code, low;

	if (*from < end && **from && (letter = strchr(letters, **from))) {
		*(*to)++ = (uint8_t)bytes[letter - letters];
		(*from)++;
		return 0;
	}
	if (end - *from < 5 || **from != 'u' || hexadecimal(*from + 1, &code))
		return VC_E_CORRUPT;
	*from += 5;
	if (code >= 0xd800 && code < 0xdc00 && end - *from >= 6 && (*from)[0] == '\\' &&
	    (*from)[1] == 'u' && !hexadecimal(*from + 2, &low) && low >= 0xdc00 && low < 0xe000) {
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
		*from += 6;
	}
	*to += put_utf8(*to, code);
	return 0;
}

static int push_escaped(struct reader *reader, const uint8_t *from, size_t length)
{
	const uint8_t *end = from + length;
	uint64_t value;
	uint8_t *to;
	int error;

	if (length > reader->scratch_room) { /* escapes are never shorter than what they mean */
		uint8_t *larger = realloc(reader->scratch, length);

		if (!larger)
			return VC_E_NO_MEMORY;
		reader->scratch = larger;
		reader->scratch_room = length;
	}
	to = reader->scratch;
	while (from < end) {
		if (*from != '\\') {
			*to++ = *from++;
			continue;
		}
		from++;
		if (put_escape(&from, end, &to))
			return vc_values_wrong(reader->values, VC_E_CORRUPT,
					       "an escape in a string is none of JSON's");
	}
	error = vc_values_text(reader->values, reader->scratch, (size_t)(to - reader->scratch),
			       &value);
	return error ? error : push(reader, value);
}

/** A string; `at` is behind its opening quote. */
static int push_string(struct reader *reader)
{
	struct vc_stream *stream = reader->stream;
	size_t length = 0, most = reader->values->limits->most[VC_LIMIT_STRING];
	bool escaped = false;
	uint64_t value;
	int error;

	for (;; length++) {
		size_t there = (size_t)(stream->end - stream->at);

		if (length > most)
			return vc_values_limit(reader->values, VC_LIMIT_STRING);
		if (length + 1 >= there) { /* a byte, and the one behind a backslash */
			error = vc_stream_fill(stream, length + 2 + length / 2);
			if (error)
				return error;
			there = (size_t)(stream->end - stream->at);
			if (length >= there)
				return VC_E_TRUNCATED;
		}
		if (stream->at[length] == '"')
			break;
		if (stream->at[length] < ' ')
			return vc_values_wrong(reader->values, VC_E_CORRUPT,
					       "byte 0x%02x inside a string", stream->at[length]);
		if (stream->at[length] == '\\') {
			escaped = true;
			length++;
		}
	}
	if (escaped) {
		error = push_escaped(reader, stream->at, length);
	} else {
		error = vc_values_text(reader->values, stream->at, length, &value);
		error = error ? error : push(reader, value);
	}
	if (!error)
		stream->at += length + 1;
	return error;
}

/* ---- numbers and words ---- */

static bool in_word(uint8_t byte)
{
	return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
	       (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '+' || byte == '.';
}

/** Digits without zeroes in front, then perhaps a fraction and an exponent. */
static bool is_number(const char *text, bool *whole)
{
	const char *digits = text += *text == '-';

	text += strspn(text, "0123456789");
	if (text == digits || (*digits == '0' && text > digits + 1))
		return false;
	*whole = !*text;
	if (*text == '.') {
		digits = ++text;
		text += strspn(text, "0123456789");
		if (text == digits)
			return false;
	}
	if (*text == 'e' || *text == 'E') {
		text++;
		digits = text += *text == '+' || *text == '-';
		text += strspn(text, "0123456789");
		if (text == digits)
			return false;
	}
	return !*text;
}

static int make_whole(struct reader *reader, const char *text, uint64_t *ret)
{
	bool negative = *text == '-';
	unsigned long long number;

	errno = 0;
	number = strtoull(text + negative, NULL, 10);
	if (errno || (negative && number > UINT64_C(1) << 63))
		return vc_values_wrong(reader->values, VC_E_LIMIT, "a number over 64 bits");
	return negative ? vc_values_number(reader->values, (int64_t)(0 - number), ret) :
			  vc_values_unsigned(reader->values, number, ret);
}

static int push_word(struct reader *reader)
{
	static const struct {
		const char *word;
		uint64_t value;
	} words[] = {
		{"null", (uint64_t)VC_VALUE_NONE << 56},
		{"true", (uint64_t)VC_VALUE_BOOLEAN << 56 | 1},
		{"false", (uint64_t)VC_VALUE_BOOLEAN << 56},
	};
	struct vc_stream *stream = reader->stream;
	char text[NUMBER_BYTES + 1];
	uint64_t value = 0;
	size_t length = 0;
	bool whole = false, known = false;
	int error = vc_stream_fill(stream, sizeof(text));

	if (error)
		return error;
	while (length < NUMBER_BYTES && stream->at + length < stream->end &&
	       in_word(stream->at[length]))
		length++;
	if (!length)
		return wrong_byte(reader, "a value should be");
	if (stream->at + length == stream->end) /* a number that may go on */
		return VC_E_TRUNCATED;
	memcpy(text, stream->at, length);
	text[length] = 0;
	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(text, words[i].word)) {
			value = words[i].value;
			known = true;
		}
	if (known)
		error = 0;
	else if (!strcmp(text, "NaN") || !strcmp(text, "Infinity") || !strcmp(text, "-Infinity"))
		error = vc_values_fraction(reader->values, strtod(text, NULL), &value);
	else if (!is_number(text, &whole))
		return vc_values_wrong(reader->values, VC_E_CORRUPT, "'%.40s' is no value of JSON",
				       text);
	else
		error = whole ? make_whole(reader, text, &value) :
				vc_values_fraction(reader->values, strtod(text, NULL), &value);
	if (error)
		return error;
	stream->at += length;
	return push(reader, value);
}

/* ---- the loop ---- */

/** A value has come: a list that has many of them hands them on. */
static int after_value(struct reader *reader, enum expect *expect)
{
	struct open *open = reader->depth ? &reader->opened[reader->depth - 1] : NULL;

	*expect = open ? EXPECT_MORE : EXPECT_NOTHING;
	return open && !open->dict && reader->top - open->first >= BATCH ? hand_on(reader, open) :
									   0;
}

static int take_key(struct reader *reader, enum expect *expect)
{
	int error;

	if (*reader->stream->at == '}' && *expect == EXPECT_FIRST_KEY) {
		reader->stream->at++;
		error = close_container(reader);
		return error ? error : after_value(reader, expect);
	}
	if (*reader->stream->at != '"')
		return wrong_byte(reader, "a key should be");
	reader->stream->at++;
	error = push_string(reader);
	if (!error)
		error = skip_blanks(reader);
	if (!error && *reader->stream->at != ':')
		return wrong_byte(reader, "a colon should be");
	reader->stream->at += !error;
	*expect = EXPECT_VALUE;
	return error;
}

static int take_value(struct reader *reader, enum expect *expect)
{
	uint8_t byte = *reader->stream->at;
	int error;

	if (byte == '{' || byte == '[') {
		error = open_container(reader, byte == '{');
		reader->stream->at += !error;
		*expect = byte == '{' ? EXPECT_FIRST_KEY : EXPECT_FIRST;
		return error;
	}
	if (byte == ']' && *expect == EXPECT_FIRST) {
		reader->stream->at++;
		error = close_container(reader);
	} else if (byte == '"') {
		reader->stream->at++;
		error = push_string(reader);
	} else {
		error = push_word(reader);
	}
	return error ? error : after_value(reader, expect);
}

static int take_more(struct reader *reader, enum expect *expect)
{
	bool dict = reader->opened[reader->depth - 1].dict;
	uint8_t byte = *reader->stream->at;
	int error;

	if (byte == ',') {
		reader->stream->at++;
		*expect = dict ? EXPECT_KEY : EXPECT_VALUE;
		return 0;
	}
	if (byte != (dict ? '}' : ']'))
		return wrong_byte(reader, dict ? "a comma or } should be" :
						 "a comma or ] should be");
	reader->stream->at++;
	error = close_container(reader);
	return error ? error : after_value(reader, expect);
}

static int run(struct reader *reader)
{
	enum expect expect = EXPECT_VALUE;
	int error = vc_stream_fill(reader->stream, 3);

	if (!error && reader->stream->end - reader->stream->at >= 3 &&
	    !memcmp(reader->stream->at, "\xef\xbb\xbf", 3))
		reader->stream->at += 3;
	while (!error && expect != EXPECT_NOTHING) {
		error = skip_blanks(reader);
		if (error)
			return error;
		if (expect == EXPECT_MORE)
			error = take_more(reader, &expect);
		else if (expect == EXPECT_KEY || expect == EXPECT_FIRST_KEY)
			error = take_key(reader, &expect);
		else
			error = take_value(reader, &expect);
	}
	if (error)
		return error;
	error = skip_blanks(reader);
	if (!error)
		return wrong_byte(reader, "the file should end");
	return error == VC_E_TRUNCATED ? 0 : error;
}

int vc_torch_json_read(struct vc_stream *stream, struct vc_values *values, uint64_t *ret,
		       uint64_t *offset)
{
	struct reader reader = {.stream = stream, .values = values};
	int error = grow(&reader.stack, &reader.room, sizeof(*reader.stack));

	if (!error)
		error = run(&reader);
	*offset = vc_stream_offset(stream);
	if (!error)
		*ret = vc_values_use(values, reader.stack[0]);
	free(reader.stack);
	free(reader.opened);
	free(reader.scratch);
	return error;
}
