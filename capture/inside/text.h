/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building short texts (paths, names) in a caller's buffer, without stdio or locale.
 * A text that does not fit is cut and `cut` is set; it always ends with NUL. Safe in any context.
 */
#ifndef VC_CAPTURE_INSIDE_TEXT_H
#define VC_CAPTURE_INSIDE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vc_text {
	char *buffer;
	size_t size, length;
	bool cut;
};

static inline struct vc_text vc_text_in(char *buffer, size_t size)
{
	buffer[0] = 0;
	return (struct vc_text){.buffer = buffer, .size = size};
}
static inline void vc_text_character(struct vc_text *text, char character)
{
	if (text->length + 1 >= text->size) {
		text->cut = true;
		return;
	}
	text->buffer[text->length++] = character;
	text->buffer[text->length] = 0;
}
static inline void vc_text_add(struct vc_text *text, const char *more)
{
	for (; *more; more++)
		vc_text_character(text, *more);
}
static inline void vc_text_number(struct vc_text *text, uint64_t value)
{
	char digits[20];
	int count = 0;

	do {
		digits[count++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (count)
		vc_text_character(text, digits[--count]);
}
/** `digits` hexadecimal digits, lower case. */
static inline void vc_text_hexadecimal(struct vc_text *text, uint64_t value, int digits)
{
	while (digits-- > 0)
		vc_text_character(text, "0123456789abcdef"[value >> (4 * digits) & 15]);
}

#endif
