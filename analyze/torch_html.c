/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/torch_html.h"

#include <string.h>

#include "formats/error.h"

#define KEY "\"base64\""

enum { KEY_BYTES = sizeof(KEY) - 1, BLANKS_MOST = 64 };

bool vc_torch_html_is(const uint8_t *start, size_t length)
{
	size_t at = length >= 3 && !memcmp(start, "\xef\xbb\xbf", 3) ? 3 : 0;

	while (at < length && (start[at] == ' ' || (start[at] >= '\t' && start[at] <= '\r')))
		at++;
	return at + 1 < length && start[at] == '<' &&
	       (start[at + 1] == '!' || (start[at + 1] | 0x20) == 'h');
}

/** Moves behind `: "`, blanks allowed; false where something else follows the key. */
static bool take_opening(struct vc_stream *page)
{
	const uint8_t *at = page->at;
	const char wanted[] = ":\"";

	for (const char *next = wanted; *next; next++) {
		while (at < page->end && (*at == ' ' || (*at >= '\t' && *at <= '\r')))
			at++;
		if (at == page->end || *at != (uint8_t)*next)
			return false;
		at++;
	}
	page->at = at;
	return true;
}

/** Moves behind the quote that the base64 begins with. VC_E_NOT_FOUND. */
static int find_start(struct vc_stream *page)
{
	for (;;) {
		size_t there;
		const uint8_t *found;
		int error = vc_stream_fill(page, KEY_BYTES + BLANKS_MOST);

		if (error)
			return error;
		there = (size_t)(page->end - page->at);
		found = memmem(page->at, there, KEY, KEY_BYTES);
		if (found) {
			page->at = found + KEY_BYTES;
			error = vc_stream_fill(page, BLANKS_MOST);
			if (error)
				return error;
			if (take_opening(page))
				return 0;
			continue;
		}
		if (page->ended)
			return VC_E_NOT_FOUND;
		/* its start may be the last bytes that are there */
		page->at = page->end - (KEY_BYTES - 1);
	}
}

/** 0 .. 63; -1 for a byte that is none of base64's. */
static int digit_of(uint8_t byte)
{
	if (byte >= 'A' && byte <= 'Z')
		return byte - 'A';
	if (byte >= 'a' && byte <= 'z')
		return byte - 'a' + 26;
	if (byte >= '0' && byte <= '9')
		return byte - '0' + 52;
	return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

/** Takes one byte of the page. VC_E_CORRUPT: no base64. */
static int take_byte(struct vc_torch_html *html, uint8_t byte, uint8_t **to)
{
	int digit = digit_of(byte);

	if (byte == '"') {
		html->ended = true;
		return (html->count + html->padding) % 4 ? VC_E_CORRUPT : 0;
	}
	if (byte == '=' && html->count >= 2 && html->count + html->padding < 4) {
		html->padding++;
		return 0;
	}
	if (digit < 0 || html->padding)
		return VC_E_CORRUPT;
	html->bits = html->bits << 6 | (unsigned)digit;
	if (++html->count < 4)
		return 0;
	*(*to)++ = (uint8_t)(html->bits >> 16);
	*(*to)++ = (uint8_t)(html->bits >> 8);
	*(*to)++ = (uint8_t)html->bits;
	html->count = 0;
	return 0;
}

/** The bytes of a last group that is not full. */
static void end_group(struct vc_torch_html *html, uint8_t **to)
{
	uint32_t bits = html->bits << 6 * (4 - html->count);

	if (html->count >= 2)
		*(*to)++ = (uint8_t)(bits >> 16);
	if (html->count == 3)
		*(*to)++ = (uint8_t)(bits >> 8);
	html->count = html->padding = 0;
}

static int decode(void *context, uint8_t *to, size_t room, size_t *ret)
{
	struct vc_torch_html *html = context;
	struct vc_stream *page = html->page;
	uint8_t *start = to, *end = to + room - 4;
	int error = 0;

	while (!error && to <= end && !html->ended) {
		if (page->at == page->end) {
			error = vc_stream_fill(page, 1);
			if (!error && page->at == page->end)
				error = VC_E_TRUNCATED;
			if (error)
				break;
		}
		error = take_byte(html, *page->at, &to);
		html->wrong = error != 0;
		page->at += !error;
	}
	if (!error && html->ended)
		end_group(html, &to);
	*ret = (size_t)(to - start);
	/* what came before is read first; the error comes again */
	if (to > start && error)
		html->ended = false;
	return to > start ? 0 : error;
}

int vc_torch_html_open(struct vc_stream *page, struct vc_values *values,
		       struct vc_torch_html *html, struct vc_stream *ret)
{
	int error = find_start(page);

	if (error == VC_E_NOT_FOUND)
		return vc_values_wrong(values, VC_E_NOT_OURS,
				       "a page without the base64 of a pickle");
	if (error)
		return error;
	*html = (struct vc_torch_html){.page = page};
	return vc_stream_from(decode, html, page->most, ret);
}
