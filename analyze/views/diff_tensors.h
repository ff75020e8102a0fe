/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grew between two files or over several by role, module or tensor, and what keeps it.
 *
 * Pure. Rows of the files are matched by their texts (tensors.h). Where the files show different
 * moments, only the roles that live at any moment of a step are compared (roles.def says which);
 * of the others it is said how much there was. Axis and shapes are those of diff.h. Rows whose texts
 * differ only in numbers between dots and that have equal bytes in every file become one.
 */
#ifndef VC_ANALYZE_VIEWS_DIFF_TENSORS_H
#define VC_ANALYZE_VIEWS_DIFF_TENSORS_H

#include "analyze/views/diff.h"
#include "analyze/views/tensors.h"

struct vc_diff_tensor_row {
	const char *text;
	uint64_t *bytes, *count;       /* one a file */
	int64_t growth, count_growth;  /* last less first */
	double rate, fit;              /* as of struct vc_diff_row */
	enum vc_shape shape;
	bool is_new, is_gone;
	uint64_t folded;               /* rows that it stands for; 1: itself */
	enum vc_role role;             /* of the largest block, in the last file that has it */
	const char *kind;              /* of that one's tensor: "float32 [32, 1558]"; "" none */
	bool alike;                    /* all its tensors are of that kind */
	/* what keeps most of the blocks that were born between the files; NULL: nothing is known */
	const char *holder;
	uint64_t held_bytes, held_count;
	uint64_t held_first;           /* row of allocations of one of them */
	enum vc_role held_role;        /* of that one */
	const char *held_kind;         /* of their tensors; "" they are of several kinds */
};

struct vc_diff_tensors {
	uint64_t *bytes, *count;       /* of what is compared, one a file */
	int64_t growth;
	double rate;
	struct vc_diff_tensor_row *rows; /* that changed: largest growth first, largest shrinking last */
	uint64_t rows_count, grew, shrank, unchanged;
	uint64_t folded;               /* rows that were folded into others */
	uint32_t compared;             /* bit (1 << enum vc_role) */
	uint64_t *left_out[VC_ROLES];  /* bytes of a role that is not compared, one a file; NULL: none */
};

struct vc_diff_tensors_options {
	enum vc_tensors_by by;         /* ROLE, MODULE, TENSOR */
	uint32_t device_plus_one;
	uint32_t role_set;             /* as in struct vc_tensors_options */
	bool no_fold;
	bool same_moment;
};

/** `roles`: one a file. Texts live as long as the arena. 0, VC_E_NO_MEMORY. */
int vc_diff_tensors_make(const struct vc_diff_input *inputs, const struct vc_roles *roles,
			 const struct vc_diff *diff, const struct vc_diff_tensors_options *options,
			 struct vc_arena *arena, struct vc_diff_tensors *ret);

#endif
