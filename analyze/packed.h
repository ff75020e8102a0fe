/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are inside a snapshot: putting them there, and finding them again.
 *
 * A packed file carries the names of its frames in the tables `symbols`, `symbol_frames` and
 * `symbol_modules`, so that whoever gets it needs none of the programs it came from. Not thread
 * safe for one set of tables.
 */
#ifndef VC_ANALYZE_PACKED_H
#define VC_ANALYZE_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/names.h"
#include "formats/tables.h"

/** Rows of symbol_frames that name one address. */
struct vc_packed_run {
	uint64_t first, count;
};

/** Finds an address of a module (row of modules plus 1). False: not packed. */
bool vc_packed_find(const struct vc_tables *tables, uint64_t module, uint64_t offset,
		    struct vc_packed_run *ret);
/** Fills function, file, line and inlined of a row of symbol_frames; texts are the tables'. */
void vc_packed_frame(const struct vc_tables *tables, uint64_t row, struct vc_frame_name *ret);

struct vc_pack_count {
	uint64_t addresses;  /* different ones in frames, those outside every module left out */
	uint64_t named;      /* with a function */
	uint64_t with_lines;
	uint64_t kept;       /* named by the file as it was, and not by the resolver */
};

/**
 * Asks the resolver for every row of `frames` and puts the answers into the tables, all of whose
 * columns must be present. Names that were packed before stay where the resolver knows no line.
 * Returns 0, VC_E_NO_MEMORY, or what the resolver returned; the tables are then not to be used.
 */
int vc_packed_make(struct vc_tables *tables, const struct vc_resolver *resolver,
		   struct vc_pack_count *ret);

#endif
