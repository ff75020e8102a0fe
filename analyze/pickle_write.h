/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a pickle, protocol 4, of plain data: the opcodes one after the other, in frames of about
 * 64 KiB.
 *
 * The caller puts opcodes in the order of the format; what is remembered gets rising numbers.
 * Texts must be UTF-8 to be read back: other bytes become U+FFFD. Errors are kept until
 * vc_pickle_end. Not thread safe.
 */
#ifndef VC_ANALYZE_PICKLE_WRITE_H
#define VC_ANALYZE_PICKLE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct vc_pickle_writer {
	FILE *out;
	uint8_t *buffer;
	size_t length, room;
	uint32_t remembered;
	int error;
};

enum {
	VC_PICKLE_MARK = '(', VC_PICKLE_DICT = '}', VC_PICKLE_SET = 'u', VC_PICKLE_LIST = ']',
	VC_PICKLE_APPEND = 'e', VC_PICKLE_NONE = 'N', VC_PICKLE_TRUE = 0x88,
	VC_PICKLE_FALSE = 0x89, VC_PICKLE_PAIR = 0x86, VC_PICKLE_TUPLE = 't',
};

void vc_pickle_start(struct vc_pickle_writer *writer, FILE *out);
/** Writes the end. 0, VC_E_IO (errno says why), VC_E_NO_MEMORY. */
int vc_pickle_end(struct vc_pickle_writer *writer);

/** One of the opcodes without operands above. */
void vc_pickle_put(struct vc_pickle_writer *writer, uint8_t opcode);
void vc_pickle_signed(struct vc_pickle_writer *writer, int64_t number);
void vc_pickle_unsigned(struct vc_pickle_writer *writer, uint64_t number);
void vc_pickle_fraction(struct vc_pickle_writer *writer, double number);
void vc_pickle_text(struct vc_pickle_writer *writer, const char *bytes, size_t length);
/** Remembers the newest value: its number plus 1; 0 where no more numbers are left. */
uint32_t vc_pickle_remember(struct vc_pickle_writer *writer);
/** The value that has this number plus 1. */
void vc_pickle_recall(struct vc_pickle_writer *writer, uint32_t number_plus_one);
/** Before item `index` of a list, and after the last of `count`: lists go in batches of 1,000. */
void vc_pickle_item(struct vc_pickle_writer *writer, uint64_t index);
void vc_pickle_list_end(struct vc_pickle_writer *writer, uint64_t count);

#endif
