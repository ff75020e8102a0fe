/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file holds in all: devices to show, how long was recorded, numbers of rows. Pure.
 */
#ifndef VC_ANALYZE_VIEWS_INFO_H
#define VC_ANALYZE_VIEWS_INFO_H

#include "analyze/views/account.h"

struct vc_info_count {
	const char *key, *one, *many;  /* "stack", "stacks" */
	uint64_t value;
};

enum { VC_INFO_COUNTS = 11 };
struct vc_info {
	uint32_t *devices; /* plus one: all that are in the table or hold memory, fullest first */
	uint32_t device_count;
	uint64_t recorded; /* nanoseconds from the start of recording to the moment; 0 unknown */
	uint64_t most_reserved;/* reserved bytes of the device that has most */
	struct vc_info_count counts[VC_INFO_COUNTS];
};

/** 0, VC_E_NO_MEMORY. */
int vc_info_make(const struct vc_tables *tables, const struct vc_account *account,
		 struct vc_arena *arena, struct vc_info *ret);
/** "not known: tensors, roles (no PyTorch in this process)"; "" nothing is missing. */
const char *vc_info_not_known(const struct vc_tables *tables);
/**
 * "PyTorch's allocator reported no blocks (...)": it allocates here, but not by way of the
 * allocator that tells of its blocks. NULL: there is nothing to say.
 */
const char *vc_info_silent_torch(const struct vc_tables *tables, const struct vc_account *account);
/** True where a device (plus one) is among those to show. */
bool vc_info_has_device(const struct vc_info *info, uint32_t device_plus_one);
/** True for kinds that are listed beside the ledger: neither device memory nor blocks of it. */
bool vc_info_is_beside(unsigned kind);

#endif
