/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live blocks of PyTorch's allocator summed by role, module, tensor, holder or site.
 *
 * Pure. Rows whose texts differ only in numbers between dots (layers.0, layers.1) and that have
 * equal bytes become one, with * for the number.
 */
#ifndef VC_ANALYZE_VIEWS_TENSORS_H
#define VC_ANALYZE_VIEWS_TENSORS_H

#include "analyze/views/roles.h"

/** VC_TENSORS_BY(NAME, text) */
#define VC_TENSORS_BYS(VC_TENSORS_BY)    \
	VC_TENSORS_BY(ROLE, "role")      \
	VC_TENSORS_BY(MODULE, "module")  \
	VC_TENSORS_BY(TENSOR, "tensor")  \
	VC_TENSORS_BY(HOLDER, "holder")  \
	VC_TENSORS_BY(PLACE, "site")

enum vc_tensors_by {
#define VC_TENSORS_BY(name, text) VC_TENSORS_BY_##name,
	VC_TENSORS_BYS(VC_TENSORS_BY)
#undef VC_TENSORS_BY
	VC_TENSORS_BY_COUNT
};
extern const char *const vc_tensors_by_text[VC_TENSORS_BY_COUNT];

struct vc_tensor_row {
	const char *text;          /* role, module, ... */
	uint64_t bytes, count;     /* of blocks */
	uint64_t inferred_bytes;   /* whose role is inferred */
	uint64_t folded;           /* rows that it stands for; 1: itself */
	uint64_t largest;          /* row of allocations of its largest block */
	uint32_t id;               /* as in of_block */
	enum vc_role role;         /* of that one */
	const char *detail;        /* of its tensor: what saved it, key of the state; "" none */
	const char *kind;          /* of its tensor: "float32 [32, 1558]"; "" none */
	bool alike;                /* all its tensors are of that kind */
};

struct vc_tensor_rows {
	struct vc_tensor_row *rows; /* by bytes, then text */
	uint64_t count, bytes, blocks;
	uint64_t folded;           /* rows that were folded into others */
	uint32_t *of_block;        /* by row of allocations: id plus 1, 0 none; where it was asked for */
};

struct vc_tensors_options {
	enum vc_tensors_by by;
	uint32_t device_plus_one;  /* UINT32_MAX: all */
	uint32_t role_set;         /* bit (1 << enum vc_role); 0: all */
	bool no_fold;
	bool of_blocks;
	/* blocks of one site only, where group_key is not NULL: a key for each group of the account */
	const uint64_t *group_key;
	uint64_t key, born_after;
};

/** The text with * for every number between dots; false: there is none, and *text is the same. */
bool vc_tensor_pattern(struct vc_text *text, const char *from);

/** Texts live as long as the arena. 0, VC_E_NO_MEMORY. */
int vc_tensor_rows_make(const struct vc_tables *tables, const struct vc_account *account,
			const struct vc_roles *roles, const struct vc_names *names,
			const struct vc_tensors_options *options, struct vc_arena *arena,
			struct vc_tensor_rows *ret);

#endif
