/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: verbs.def and options.def as tables, the parser, and the help made from them.
 *
 * Nothing here knows what a verb does. Not thread safe.
 */
#ifndef VC_ANALYZE_COMMAND_H
#define VC_ANALYZE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyze/problem.h"

struct vc_command;
struct vc_emit;

enum vc_verb_index {
#define VC_OUTSIDE_VERB(name, operands, summary) VC_VERB_##name,
#define VC_VERB(name, least, most, operands, metrics, summary) VC_VERB_##name,
#include "analyze/verbs.def"
#undef VC_OUTSIDE_VERB
#undef VC_VERB
	VC_VERBS
};

/** Makes the report; an exit status (0 or more), or a negative VC_E_* with *problem filled. */
typedef int (*vc_verb_function)(const struct vc_command *command, struct vc_emit *emit,
				struct vc_problem *problem);
#define VC_OUTSIDE_VERB(name, operands, summary)
#define VC_VERB(name, least, most, operands, metrics, summary)                         \
	int vc_verb_##name(const struct vc_command *command, struct vc_emit *emit,      \
			   struct vc_problem *problem);
#include "analyze/verbs.def"
#undef VC_OUTSIDE_VERB
#undef VC_VERB

struct vc_verb {
	const char *name, *operands, *metrics, *summary;
	unsigned least, most;
	vc_verb_function function; /* NULL: taken by capture/outside */
};
extern const struct vc_verb vc_verbs[VC_VERBS];

enum vc_option_index {
#define VC_OPTION(name, long_name, short_name, argument, verbs, help) VC_OPTION_##name,
#include "analyze/options.def"
#undef VC_OPTION
	VC_OPTIONS
};

struct vc_command {
	const struct vc_verb *verb;
	unsigned operand_count;
	const char **operands;
	const char **shown;          /* what reports call the operands; NULL: as they are */
	struct {
		unsigned count;      /* times given */
		const char **values; /* of options with an argument */
	} options[VC_OPTIONS];
	void *memory;                /* private */
};

/** Verb by its exact name; NULL none. */
const struct vc_verb *vc_verb_find(const char *name);
/** Parses what follows the verb. With --help all else is forgiven. */
int vc_command_parse(const struct vc_verb *verb, int argc, char **argv, struct vc_command *ret,
		     struct vc_problem *problem);
void vc_command_deinit(struct vc_command *command);

bool vc_option_given(const struct vc_command *command, enum vc_option_index option);
/** Its last value; `otherwise` where it was not given. */
const char *vc_option_value(const struct vc_command *command, enum vc_option_index option,
			    const char *otherwise);
/** The same as a number; a usage problem where it is none or above `most`. */
int vc_option_number(const struct vc_command *command, enum vc_option_index option,
		     uint64_t otherwise, uint64_t most, uint64_t *ret, struct vc_problem *problem);
/** Position of its value in a list of words; a usage problem where it is not there. */
int vc_option_word(const struct vc_command *command, enum vc_option_index option,
		   const char *const *words, unsigned count, unsigned otherwise, unsigned *ret,
		   struct vc_problem *problem);
/** True when a --fail-on for this metric is exceeded. */
bool vc_command_fails_on(const struct vc_command *command, const char *metric, uint64_t value);

/** Help of a verb; with NULL the general one. */
void vc_help(FILE *out, const struct vc_verb *verb);

#endif
