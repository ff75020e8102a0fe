/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each live block is for, and the tensor in it.
 *
 * Pure. A block is told by the strongest tensor whose storage lies in it, so that views count once;
 * one without a tensor by a function on its stack (role_rules.def); where neither says anything it
 * is unknown. Every live byte of a device has one role: sums by role add up to its live bytes.
 */
#ifndef VC_ANALYZE_VIEWS_ROLES_H
#define VC_ANALYZE_VIEWS_ROLES_H

#include "analyze/names.h"
#include "analyze/views/account.h"

enum vc_role {
#define VC_ROLE(name, key, text) VC_ROLE_##name,
#include "analyze/views/roles.def"
#undef VC_ROLE
	VC_ROLES
};
extern const char *const vc_role_key[VC_ROLES];
extern const char *const vc_role_text[VC_ROLES];

enum vc_role_how {
	VC_ROLE_HOW_UNKNOWN,
	VC_ROLE_HOW_EXACT,
	VC_ROLE_HOW_INFERRED,
};
extern const char *const vc_role_how_text[3];

/** Why, of a peak: its blocks that were not there when the tensors were looked at. */
#define VC_ROLES_APART                                                                             \
	"they were looked at before or after the peak: what lives at the peak only is told by its stack"

struct vc_roles {
	bool walked;          /* the file has a walk over tensors: else all is unknown */
	bool complete;        /* it came to its end, and read gradients and saved tensors */
	const char *why;      /* why not: one clause, "" it did */
	uint64_t rows;
	uint8_t *role, *how;  /* by row of allocations: enum vc_role, vc_role_how */
	uint32_t *storage;    /* by row of allocations: row of storages plus 1 */
	uint64_t root_length; /* of the model's name and its dot that all names begin with; 0: none */
};

/** `names` may be NULL: no rule of a function is tried; `file`: number in them. Lives as long as the arena. 0, VC_E_*. */
int vc_roles_make(const struct vc_tables *tables, const struct vc_account *account,
		  const struct vc_names *names, uint32_t file, struct vc_arena *arena,
		  struct vc_roles *ret);

/** Live bytes and blocks of a device by role, and how they are known. */
struct vc_role_sum {
	uint64_t bytes, count, inferred_bytes;
};
void vc_roles_sum(const struct vc_tables *tables, const struct vc_account *account,
		  const struct vc_roles *roles, uint32_t device_plus_one,
		  struct vc_role_sum ret[VC_ROLES]);

struct vc_text;
/** The way that keeps a storage alive (row of storages plus 1), as a person reads it. */
void vc_holder_text(struct vc_text *text, const struct vc_tables *tables, uint64_t step_plus_one);
/** Last step of it plus 1; 0: not known. By rows of storages, in the arena. */
uint32_t *vc_holder_steps(const struct vc_tables *tables, struct vc_arena *arena);

#endif
