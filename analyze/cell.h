/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells of a notebook: kernels compile each as a file of its own, whose name says little to people.
 */
#ifndef VC_ANALYZE_CELL_H
#define VC_ANALYZE_CELL_H

#include <stdbool.h>
#include <stddef.h>

#include "formats/tables.h"

#define VC_CELL_BYTES 64u

/**
 * "cell In[3]" for the file of a cell, as the kernel counts them; "cell 3855403" by the hash of its text where
 * the kernel was not asked. False: `file` is no cell's.
 */
bool vc_cell_name(const struct vc_tables *tables, const char *file, char ret[VC_CELL_BYTES]);

#endif
