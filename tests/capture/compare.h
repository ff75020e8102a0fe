/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording against the simulated driver's own list, read by plain means of this folder's own.
 *
 * For test programs that run under the recorder: they find their own recording by pid in
 * VRAMCORE_DIR and the judge's file in SIMCUDA_MAP. Nothing of the recorder's code is used but the
 * layout in formats/recording.h.
 */
#ifndef TEST_CAPTURE_COMPARE_H
#define TEST_CAPTURE_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/recording.h"

struct test_recording {
	const struct vc_root *root;
	size_t bytes;
	char path[512];
};

/** Opens the recording of a process; 0, or -1 when there is none. */
int test_recording_open(int pid, struct test_recording *ret);
void test_recording_close(struct test_recording *recording);
/** Number of recordings of any process in VRAMCORE_DIR. */
int test_recordings(void);

/** Item of a table, NULL when no chunk holds it. */
const void *test_item(const struct test_recording *recording, enum vc_recording_table table,
		      uint64_t number, size_t item_bytes);
uint64_t test_used(const struct test_recording *recording, enum vc_recording_table table);
const char *test_string(const struct test_recording *recording, uint64_t id);
uint64_t test_counter(const struct test_recording *recording, enum vc_counter counter);
/** The live record of a kind at an address, NULL when there is none. */
const struct vc_record *test_record(const struct test_recording *recording, uint8_t kind,
				    uint64_t address);
/** Frames of a record's stack. */
const struct vc_stack_head *test_stack(const struct test_recording *recording, uint32_t id);

/** Differences between this process's recording and the judge's file, printed; 0: none. */
int test_compare(const char *where);

#endif
