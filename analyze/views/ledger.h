/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a device's memory is: rows that add up to its total exactly.
 *
 * Pure. Live memory by role and kind, what the program's allocator keeps, calls in doubt, what the driver
 * and others use (only where the device was asked), free. A row may be negative only when the
 * device says less is used than was recorded; it is then called what it is.
 */
#ifndef VC_ANALYZE_VIEWS_LEDGER_H
#define VC_ANALYZE_VIEWS_LEDGER_H

#include "analyze/arena.h"
#include "analyze/views/account.h"
#include "analyze/views/roles.h"

struct vc_ledger_row {
	const char *what;     /* "linear", "cached by the program's allocator, free" */
	const char *key;      /* the same for programs: "linear", "cached" */
	int64_t bytes;
	int64_t share;        /* tenths of a percent */
	uint64_t count;       /* allocations or blocks; 0: not a count */
	const char *how;      /* exact, at most, driver, residual, cuMemGetInfo */
};

enum { VC_LEDGER_ROWS = VC_KINDS + VC_ROLES + 10 };
struct vc_ledger {
	struct vc_ledger_row rows[VC_LEDGER_ROWS];
	unsigned count;
	uint64_t total;       /* of the device; where it is unknown, the sum of the rows */
	bool total_known, used_known;
};

/**
 * Makes the ledger of a device; blocks by role where those are given and known, else NULL. 0,
 * VC_E_NO_MEMORY.
 */
int vc_ledger_make(const struct vc_tables *tables, const struct vc_account *account,
		   const struct vc_roles *roles, uint32_t device_plus_one,
		   struct vc_ledger *ret);

#endif
