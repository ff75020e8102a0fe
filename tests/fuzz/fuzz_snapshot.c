/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a snapshot: the reader stays inside them, and what it hands out is consistent. */
#include <stdint.h>
#include <stdlib.h>

#include "formats/snapshot_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const struct vc_snapshot_options options = {.rows_max = 1 << 20, .bytes_max = 64 << 20};
	struct vc_faults faults = {0};
	struct vc_tables tables;
	int error = vc_snapshot_read_memory(bytes, length, &options, &tables, &faults);

	if (error) {
		if (!faults.count)
			abort(); /* nothing shown, and nothing said */
		return 0;
	}
	if (vc_tables_check(&tables, NULL))
		abort();
	vc_tables_deinit(&tables);
	return 0;
}
