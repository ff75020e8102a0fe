/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that hang, side by side: who is behind, what each waits for, who does not come.
 *
 * Pure; from snapshots with rows of thread_stacks and the names of their stacks. Of each process
 * the thread is taken that runs the program: the main thread where it runs Python or nothing else
 * does, else the one with the longest Python stack; a thread that waits in a collective goes before all.
 */
#ifndef VC_ANALYZE_VIEWS_HANG_H
#define VC_ANALYZE_VIEWS_HANG_H

#include "analyze/arena.h"
#include "analyze/model.h"
#include "analyze/names.h"

enum vc_wait_kind {
	VC_WAIT_NONE, /* it is not known to wait */
	VC_WAIT_COLLECTIVE,
	VC_WAIT_DEVICE,
	VC_WAIT_DATA,
	VC_WAIT_LOCK,
};

struct vc_hang_process {
	unsigned file;             /* number of the model */
	uint64_t pid, rank_plus_one, step;
	bool steps_known;
	uint64_t since;            /* nanoseconds from its last step to the snapshot; 0 unknown */
	uint64_t live;             /* device bytes */
	bool has_thread;
	uint64_t thread;           /* row of thread_stacks */
	enum vc_wait_kind wait;
	const char *wait_text;     /* of waits.def, else what it waits for in the kernel; "" nothing */
	const char *state;
	const char *module, *module_class; /* innermost running one of the model; "" unknown */
};

struct vc_hang {
	struct vc_hang_process *process; /* by step, then rank: who is behind comes first */
	unsigned count;
	bool steps_known;          /* of all */
	uint64_t first_step, last_step;
	unsigned behind;           /* processes at first_step, where the steps differ; else 0 */
	unsigned collective;       /* processes that wait in a collective */
};

/** 0 or VC_E_NO_MEMORY. Names of all stacks of thread_stacks must have been found. */
int vc_hang_make(const struct vc_model *models, unsigned count, const struct vc_names *names,
		 struct vc_arena *arena, struct vc_hang *ret);

#endif
