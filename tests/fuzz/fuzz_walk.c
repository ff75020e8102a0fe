/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walk files: as they come, and again behind checks that are made to fit, so that what they say of
 * lengths and places is believed as far as a check goes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/walk_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static int visit(void *self, uint64_t number, const void *row)
{
	uint32_t word[4];

	(void)number;
	memcpy(word, row, sizeof(word));
	for (int i = 0; i < 4; i++)
		if (strlen(vc_walk_text(self, word[i])) > ((struct vc_walk *)self)->string_bytes)
			abort();
	return 0;
}

static void read_walk(const uint8_t *bytes, size_t length)
{
	struct vc_recording_bytes held = {bytes, length};
	struct vc_recording_source source;
	struct vc_faults faults = {0};
	struct vc_walk walk;

	vc_recording_source_memory(&held, &source);
	if (vc_walk_open(&source, &walk, &faults, NULL))
		return;
	for (unsigned kind = 0; kind < VC_WALK_KINDS; kind++) {
		vc_walk_scan(&walk, (enum vc_walk_kind)kind, 16, visit, &walk);
		vc_walk_scan(&walk, (enum vc_walk_kind)kind, VC_WALK_ROW_BYTES_MAX, visit, &walk);
	}
	vc_walk_close(&walk);
}

/* Makes the checks of a copy fit where there is something to check. */
static void repair(uint8_t *bytes, size_t length)
{
	struct vc_walk_head *head = (struct vc_walk_head *)bytes;
	struct vc_walk_piece *piece = (struct vc_walk_piece *)(head + 1);

	if (length < VC_WALK_DATA_OFFSET)
		return;
	for (uint32_t i = 0; i < head->pieces && i < VC_WALK_PIECES_MAX; i++) {
		uint64_t held = piece[i].rows * piece[i].row_bytes;

		if (piece[i].offset % 8 == 0 && piece[i].offset < length &&
		    held <= (length - piece[i].offset) / 8 * 8)
			piece[i].check = vc_check_words((uint64_t *)(bytes + piece[i].offset),
							(held + 7) / 8, i);
		piece[i].entry_check = vc_check_words((uint64_t *)&piece[i],
						      sizeof(piece[i]) / 8 - 1, i);
	}
	head->check = vc_check_words((uint64_t *)&head->read_version,
				     (offsetof(struct vc_walk_head, check) - 16) / 8, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	uint8_t *copy = malloc(length + 1);

	memcpy(copy, bytes, length);
	read_walk(copy, length);
	repair(copy, length);
	read_walk(copy, length);
	free(copy);
	return 0;
}
