/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of one run of a verb: opened, counted, and the names of their stacks found.
 *
 * What every view needs stands ready here, so that a verb is options, view, emit. Not thread safe.
 */
#ifndef VC_ANALYZE_SESSION_H
#define VC_ANALYZE_SESSION_H

#include "analyze/arena.h"
#include "analyze/command.h"
#include "analyze/limits.h"
#include "analyze/model.h"
#include "analyze/names.h"
#include "analyze/views/account.h"

struct vc_session {
	unsigned count;                /* files */
	struct vc_model *models;
	struct vc_account *accounts;   /* vc_session_count */
	struct vc_names *names;        /* files have the numbers of models */
	struct vc_arena arena;         /* what views allocate */
	struct vc_resolver *resolver;  /* NULL: no names are looked for */
	/* private */
	struct vc_session_wanted {
		uint64_t stack, kind;
	} *wanted;                     /* by vc_session_want */
	uint64_t wanted_count, wanted_capacity;
};

/** Limits on imported files, with what --limit says. */
int vc_session_limits(const struct vc_command *command, struct vc_limits *ret,
		      struct vc_problem *problem);
/** Opens the operands `first` .. `first + count - 1` of the command. */
int vc_session_open(const struct vc_command *command, unsigned first, unsigned count,
		    const struct vc_wanted_columns *wanted, struct vc_session *ret,
		    struct vc_problem *problem);
/** Columns that vc_account_make needs. */
void vc_session_wants_account(struct vc_wanted_columns *wanted);
/** Makes the accounts and asks for the names of all stacks they hold. */
int vc_session_count(struct vc_session *session, enum vc_account_mode mode,
		     enum vc_column_index extra, struct vc_problem *problem);
/** Asks for the name of one more stack of the first file, of something of this kind. */
int vc_session_want(struct vc_session *session, uint64_t stack, uint64_t kind);
/** Finds all names, with a line of progress where that takes long. */
int vc_session_names(struct vc_session *session, struct vc_problem *problem);
void vc_session_close(struct vc_session *session);

#endif
