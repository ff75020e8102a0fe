/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/backward.h"

#include <string.h>

#include "analyze/model.h"
#include "analyze/views/roles.h"

static const struct {
	enum vc_role role;
	const char *start, *part;
} rules[] = {
#define VC_ROLE_FUNCTION(name, text)
#define VC_ROLE_LIBRARY(name, text)
#define VC_ROLE_HOLDER(name, text)
#define VC_ROLE_MEMBER(name, class, text)
#define VC_ROLE_GIVEN(text)
#define VC_ROLE_BACKWARD(name, start, part) {VC_ROLE_##name, start, part},
#include "analyze/views/role_rules.def"
#undef VC_ROLE_FUNCTION
#undef VC_ROLE_LIBRARY
#undef VC_ROLE_HOLDER
#undef VC_ROLE_MEMBER
#undef VC_ROLE_GIVEN
#undef VC_ROLE_BACKWARD
};

static bool fits(const char *function, enum vc_role *ret)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (!strncmp(function, rules[i].start, strlen(rules[i].start)) &&
		    strstr(function, rules[i].part)) {
			*ret = rules[i].role;
			return true;
		}
	return false;
}

/* PyTorch's own function that every module of a model runs through, with its class or without. */
static bool runs_module(const struct vc_frame_name *frame)
{
	return frame->verbatim && frame->function && strstr(frame->function, "_call_impl");
}

enum vc_backward vc_backward_of(const struct vc_chain *chain)
{
	bool module = false; /* runs inside of the node: what a block is said to be of may be its node's */
	enum vc_role role;

	for (uint32_t i = 0; i < chain->count; i++) {
		const struct vc_frame_name *frame = chain->frames[i];

		if (frame->function && fits(frame->function, &role))
			return role != VC_ROLE_GRADIENT || module ? VC_BACKWARD_AGAIN :
								    VC_BACKWARD_GRADIENT;
		module |= runs_module(frame);
	}
	return VC_BACKWARD_NONE;
}

uint64_t vc_failure_of_moment(const struct vc_tables *tables)
{
	uint64_t number = vc_value(tables, VC_COL_process_number, 0);

	if (strcmp(vc_string(tables, VC_COL_process_moment, 0), "oom"))
		return 0;
	for (uint64_t row = tables->rows[VC_TABLE_failures]; row-- > 0;)
		if (vc_value(tables, VC_COL_failures_number, row) == number)
			return row + 1;
	return 0;
}

bool vc_backward_failed(const struct vc_tables *tables, const struct vc_names *names, uint32_t file)
{
	uint64_t row = vc_failure_of_moment(tables);

	return row && vc_backward_of(vc_names_chain(
			      names, file,
			      vc_stack_reference(tables,
						 vc_value(tables, VC_COL_failures_stack, row - 1),
						 vc_value(tables, VC_COL_failures_python, row - 1)))) !=
		      VC_BACKWARD_NONE;
}
