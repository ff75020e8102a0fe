/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells of a notebook. Its kernel compiles each under a file name that is a hash of the cell's text, and
 * keeps a table of which cell that was.
 */
#ifndef VC_CAPTURE_INSIDE_INTERPRETER_CELLS_H
#define VC_CAPTURE_INSIDE_INTERPRETER_CELLS_H

#include "capture/inside/walk_file.h"

/** Puts down the numbers of the cells as facts, VC_FACT_CELL before the file name. With the GIL. */
void vc_cells_walk(struct vc_walk_file *walk);

#endif
