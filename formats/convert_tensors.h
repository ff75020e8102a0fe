/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a walk file to the tables of tensors and what keeps them alive.
 *
 * The file is hostile: references that lie outside become 0 and a fault, rows of damaged pieces
 * stay rows of zeroes, so that the numbers of the others hold.
 */
#ifndef VC_FORMATS_CONVERT_TENSORS_H
#define VC_FORMATS_CONVERT_TENSORS_H

#include "formats/tables.h"
#include "formats/walk_read.h"

/** Adds what an open walk file has of tensors (kinds 8 to 14); the tables have none of them yet. */
int vc_convert_tensors(struct vc_walk *walk, struct vc_tables *tables);

#endif
