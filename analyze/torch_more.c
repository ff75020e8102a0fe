/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/torch_more.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/text.h"

enum { DEPTH_MOST = 32 };

/** Text of one file that may be made and kept: dicts refer to each other, text does not. */
#define ALL_MOST (UINT64_C(64) << 20)

static const char TUPLE[] = "(", PAIRS[] = "{";

/* ---- values as text ---- */

struct encoder {
	const struct vc_torch *torch;
	struct vc_text *text;
	size_t most;
};

static void encode_text(struct encoder *encoder, const char *at)
{
	vc_text_bytes_raw(encoder->text, "\"", 1);
	for (; *at; at++)
		if (*at == '"' || *at == '\\')
			vc_text_add(encoder->text, "\\%c", *at);
		else if ((unsigned char)*at < ' ')
			vc_text_add(encoder->text, "\\u%04x", *at);
		else
			vc_text_bytes_raw(encoder->text, at, 1);
	vc_text_bytes_raw(encoder->text, "\"", 1);
}

static void encode_fraction(struct encoder *encoder, uint64_t bits)
{
	char digits[40];
	double number;

	memcpy(&number, &bits, sizeof(number));
	if (number != number || number - number != 0) { /* as Python writes them */
		vc_text_add(encoder->text, "%s", number != number ? "NaN" :
						 number > 0 ? "Infinity" : "-Infinity");
		return;
	}
	snprintf(digits, sizeof(digits), "%.17g", number);
	vc_text_add(encoder->text, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

static const char *text_of(const struct encoder *encoder, uint64_t value)
{
	return vc_tables_text(encoder->torch->tables, vc_value_content(value));
}

/** Whether a dict can be written as an object. */
static bool is_object(const struct encoder *encoder, const struct vc_node *node)
{
	for (uint64_t i = 0; i < node->count; i += 2)
		if (vc_value_tag(node->items[i]) != VC_VALUE_TEXT ||
		    !strcmp(text_of(encoder, node->items[i]), TUPLE) ||
		    !strcmp(text_of(encoder, node->items[i]), PAIRS))
			return false;
	return true;
}

static bool encode(struct encoder *encoder, uint64_t value, unsigned depth);

static bool encode_items(struct encoder *encoder, const uint64_t *items, uint64_t count,
			 unsigned depth)
{
	bool fits = true;

	vc_text_add(encoder->text, "[");
	for (uint64_t i = 0; i < count && fits; i++) {
		vc_text_add(encoder->text, "%s", i ? "," : "");
		fits = encode(encoder, items[i], depth);
	}
	vc_text_add(encoder->text, "]");
	return fits;
}

static bool encode_tuple(struct encoder *encoder, const uint64_t *items, uint64_t count,
			 unsigned depth)
{
	bool fits;

	vc_text_add(encoder->text, "{\"%s\":", TUPLE);
	fits = encode_items(encoder, items, count, depth);
	vc_text_add(encoder->text, "}");
	return fits;
}

static bool encode_dict(struct encoder *encoder, const struct vc_node *node, unsigned depth)
{
	bool object = is_object(encoder, node), fits = true;

	vc_text_add(encoder->text, object ? "{" : "{\"%s\":[", PAIRS);
	for (uint64_t i = 0; i + 1 < node->count && fits; i += 2) {
		vc_text_add(encoder->text, "%s", i ? "," : "");
		if (!object) {
			fits = encode_items(encoder, &node->items[i], 2, depth);
			continue;
		}
		encode_text(encoder, text_of(encoder, node->items[i]));
		vc_text_add(encoder->text, ":");
		fits = encode(encoder, node->items[i + 1], depth);
	}
	vc_text_add(encoder->text, object ? "}" : "]}");
	return fits;
}

/** False where it is a record, too deep or too long. */
static bool encode(struct encoder *encoder, uint64_t value, unsigned depth)
{
	const struct vc_values *values = &encoder->torch->values;
	uint64_t content = vc_value_content(value), number = 0, pair[2];
	const struct vc_node *node = NULL;

	if (depth++ == DEPTH_MOST || encoder->text->length > encoder->most)
		return false;
	vc_values_get_number(values, value, &number);
	switch (vc_value_tag(value)) {
	case VC_VALUE_NONE:
		vc_text_add(encoder->text, "null");
		return true;
	case VC_VALUE_BOOLEAN:
		vc_text_add(encoder->text, number ? "true" : "false");
		return true;
	case VC_VALUE_INTEGER:
	case VC_VALUE_LONG:
		vc_text_add(encoder->text, "%lld", (long long)number);
		return true;
	case VC_VALUE_UNSIGNED:
		vc_text_add(encoder->text, "%llu", (unsigned long long)number);
		return true;
	case VC_VALUE_FRACTION:
		encode_fraction(encoder, values->numbers[content]);
		return true;
	case VC_VALUE_TEXT:
		if (vc_tables_text_length(encoder->torch->tables, content) > encoder->most)
			return false;
		encode_text(encoder, text_of(encoder, value));
		return true;
	case VC_VALUE_PAIR:
		pair[0] = vc_value_make(VC_VALUE_INTEGER, content >> 28);
		pair[1] = vc_value_make(VC_VALUE_INTEGER, content & ((1u << 28) - 1));
		return encode_tuple(encoder, pair, 2, depth);
	case VC_VALUE_NEW_LIST:
		vc_text_add(encoder->text, "[]");
		return true;
	case VC_VALUE_NEW_DICT:
		vc_text_add(encoder->text, "{}");
		return true;
	case VC_VALUE_LIST:
		node = vc_values_node(values, value);
		return encode_items(encoder, node->items, node->count, depth);
	case VC_VALUE_TUPLE:
		node = vc_values_node(values, value);
		return encode_tuple(encoder, node->items, node->count, depth);
	case VC_VALUE_DICT:
		return encode_dict(encoder, vc_values_node(values, value), depth);
	default:
		return false;
	}
}

static void count_left_out(struct vc_torch *torch, uint64_t key)
{
	if (!torch->unknown_keys++)
		torch->unknown_key = vc_value_content(key);
}

void vc_torch_leave(struct vc_torch *torch, const uint64_t *pair)
{
	if (torch->left_count == VC_TORCH_LEFT_MOST) {
		count_left_out(torch, pair[0]);
		return;
	}
	torch->left[torch->left_count][0] = pair[0];
	torch->left[torch->left_count++][1] = pair[1];
}

/** A text of what was encoded, within the bound of all of them. */
static int keep_text(struct vc_torch *torch, const struct vc_text *text, uint64_t *ret)
{
	const char *bytes = vc_text_get(text);
	uint64_t value;
	int error = vc_values_text(&torch->values, (const uint8_t *)bytes, strlen(bytes), &value);

	if (!error)
		*ret = vc_value_content(value);
	return error;
}

int vc_torch_plain(struct vc_torch *torch, uint64_t value, uint64_t *ret)
{
	struct vc_text text = {0};
	struct encoder encoder = {torch, &text, VC_TORCH_MORE_MOST};
	int error = 0;

	*ret = 0;
	if (torch->more_bytes < ALL_MOST && encode(&encoder, value, 0))
		error = keep_text(torch, &text, ret);
	torch->more_bytes += text.length;
	vc_text_deinit(&text);
	return error;
}

int vc_torch_more(struct vc_torch *torch, uint64_t *ret)
{
	struct vc_text all = {0}, one = {0};
	int error = 0;

	for (unsigned i = 0; i < torch->left_count; i++) {
		struct encoder encoder = {torch, &one, VC_TORCH_MORE_MOST - 1 - all.length};
		bool fits;

		vc_text_clear(&one);
		encode_text(&encoder, text_of(&encoder, torch->left[i][0]));
		vc_text_add(&one, ":");
		fits = torch->more_bytes < ALL_MOST && encode(&encoder, torch->left[i][1], 0) &&
		       all.length + one.length + 2 < VC_TORCH_MORE_MOST;
		torch->more_bytes += one.length;
		if (fits)
			vc_text_add(&all, "%s%s", all.length ? "," : "{", vc_text_get(&one));
		else
			count_left_out(torch, torch->left[i][0]);
	}
	torch->left_count = 0;
	*ret = 0;
	if (all.length) {
		vc_text_add(&all, "}");
		error = keep_text(torch, &all, ret);
	}
	vc_text_deinit(&all);
	vc_text_deinit(&one);
	return error;
}

/* ---- text as values ---- */

/** Reads a text that was written above; without `out` it only checks it. */
struct decoder {
	const char *at;
	struct vc_pickle_writer *out;
};

static bool take(struct decoder *decoder, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(decoder->at, word, length))
		return false;
	decoder->at += length;
	return true;
}

static void put(struct decoder *decoder, uint8_t opcode)
{
	if (decoder->out)
		vc_pickle_put(decoder->out, opcode);
}

/** The character behind a backslash; -1: none that is written above. */
static int decode_escape(struct decoder *decoder)
{
	char digits[5] = "", *end;
	long number;

	if (*decoder->at == '"' || *decoder->at == '\\')
		return *decoder->at++;
	if (*decoder->at != 'u' || strnlen(decoder->at + 1, 4) < 4)
		return -1;
	memcpy(digits, decoder->at + 1, 4);
	number = strtol(digits, &end, 16);
	decoder->at += 5;
	return *end || number < 1 || number >= ' ' ? -1 : (int)number;
}

/** The text after its first quote. */
static bool decode_text(struct decoder *decoder)
{
	size_t length = 0;
	char *bytes = malloc(strlen(decoder->at) + 1);
	bool fine = bytes != NULL;

	while (fine && *decoder->at != '"') {
		int next = (unsigned char)*decoder->at++;

		if (next == '\\')
			next = decode_escape(decoder);
		fine = next > 0;
		if (fine)
			bytes[length++] = (char)next;
	}
	decoder->at += fine;
	if (fine && decoder->out)
		vc_pickle_text(decoder->out, bytes, length);
	free(bytes);
	return fine;
}

static bool decode_number(struct decoder *decoder)
{
	size_t length = strspn(decoder->at, "+-0123456789.eE");
	char digits[48];
	bool fraction;

	if (!length || length >= sizeof(digits))
		return false;
	memcpy(digits, decoder->at, length);
	digits[length] = 0;
	decoder->at += length;
	fraction = strpbrk(digits, ".eE");
	if (!decoder->out)
		return true;
	if (fraction)
		vc_pickle_fraction(decoder->out, strtod(digits, NULL));
	else if (*digits == '-')
		vc_pickle_signed(decoder->out, strtoll(digits, NULL, 10));
	else
		vc_pickle_unsigned(decoder->out, strtoull(digits, NULL, 10));
	return true;
}

static bool decode(struct decoder *decoder, unsigned depth);

/** Items up to the closing bracket; `pairs`: each is a list of a key and a value. */
static bool decode_items(struct decoder *decoder, bool pairs, unsigned depth)
{
	bool first = true;

	for (; !take(decoder, "]"); first = false) {
		if (!first && !take(decoder, ","))
			return false;
		if (pairs ? !(take(decoder, "[") && decode(decoder, depth) && take(decoder, ",") &&
			      decode(decoder, depth) && take(decoder, "]")) :
			    !decode(decoder, depth))
			return false;
	}
	return true;
}

/** Pairs up to the closing brace. */
static bool decode_pairs(struct decoder *decoder, unsigned depth)
{
	bool first = true;

	for (; !take(decoder, "}"); first = false)
		if ((!first && !take(decoder, ",")) || !take(decoder, "\"") ||
		    !decode_text(decoder) || !take(decoder, ":") || !decode(decoder, depth))
			return false;
	return true;
}

static bool decode_object(struct decoder *decoder, unsigned depth)
{
	bool fine;

	if (take(decoder, "\"(\":[")) {
		put(decoder, VC_PICKLE_MARK);
		fine = decode_items(decoder, false, depth);
		put(decoder, VC_PICKLE_TUPLE);
		return fine && take(decoder, "}");
	}
	put(decoder, VC_PICKLE_DICT);
	put(decoder, VC_PICKLE_MARK);
	fine = take(decoder, "\"{\":[") ? decode_items(decoder, true, depth) && take(decoder, "}") :
					  decode_pairs(decoder, depth);
	put(decoder, VC_PICKLE_SET);
	return fine;
}

static void put_fraction(struct decoder *decoder, double number)
{
	if (decoder->out)
		vc_pickle_fraction(decoder->out, number);
}

static bool decode(struct decoder *decoder, unsigned depth)
{
	bool fine;

	if (depth++ == 2 * DEPTH_MOST)
		return false;
	if (take(decoder, "\""))
		return decode_text(decoder);
	if (take(decoder, "{"))
		return decode_object(decoder, depth);
	if (take(decoder, "[")) {
		put(decoder, VC_PICKLE_LIST);
		put(decoder, VC_PICKLE_MARK);
		fine = decode_items(decoder, false, depth);
		put(decoder, VC_PICKLE_APPEND);
		return fine;
	}
	if (take(decoder, "null"))
		put(decoder, VC_PICKLE_NONE);
	else if (take(decoder, "true"))
		put(decoder, VC_PICKLE_TRUE);
	else if (take(decoder, "false"))
		put(decoder, VC_PICKLE_FALSE);
	else if (take(decoder, "NaN"))
		put_fraction(decoder, __builtin_nan(""));
	else if (take(decoder, "Infinity"))
		put_fraction(decoder, __builtin_inf());
	else if (take(decoder, "-Infinity"))
		put_fraction(decoder, -__builtin_inf());
	else
		return decode_number(decoder);
	return true;
}

void vc_torch_write_more(struct vc_pickle_writer *writer, const char *text)
{
	struct decoder decoder = {.at = text};

	if (!take(&decoder, "{") || !decode_pairs(&decoder, 0) || *decoder.at)
		return;
	decoder = (struct decoder){text + 1, writer};
	decode_pairs(&decoder, 0);
}
