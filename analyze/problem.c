/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int vc_problem_set(struct vc_problem *problem, int error, const char *path, const char *hint,
		   const char *format, ...)
{
	va_list list;

	*problem = (struct vc_problem){.status = VC_EXIT_NOTHING, .error = error};
	snprintf(problem->path, sizeof(problem->path), "%s", path ? path : "");
	snprintf(problem->hint, sizeof(problem->hint), "%s", hint ? hint : "");
	va_start(list, format);
	vsnprintf(problem->what, sizeof(problem->what), format, list);
	va_end(list);
	return error;
}

int vc_problem_usage(struct vc_problem *problem, const char *hint, const char *format, ...)
{
	va_list list;

	*problem = (struct vc_problem){.status = VC_EXIT_USAGE, .error = VC_E_INVALID};
	snprintf(problem->hint, sizeof(problem->hint), "%s", hint ? hint : "");
	va_start(list, format);
	vsnprintf(problem->what, sizeof(problem->what), format, list);
	va_end(list);
	return VC_E_INVALID;
}

/** What a person can try when a reader found this; "" nothing. */
static const char *hint_for(int error)
{
	switch (error) {
	case VC_E_NOT_FOUND:
		return "is the name right? snapshots are in the folder that `vramcore run` "
		       "named in its last line";
	case VC_E_PERMISSION:
		return "recordings and snapshots can be read by their owner only";
	case VC_E_NOT_OURS:
	case VC_E_NOT_A_RECORDING:
		return "give a snapshot (.vramcore), a recording (.vrec) or a PyTorch snapshot";
	case VC_E_TOO_NEW:
		return "read it with the vramcore that wrote it, or a newer one";
	case VC_E_TRUNCATED:
	case VC_E_CHECKSUM:
	case VC_E_CORRUPT:
	case VC_E_COMPRESSION:
	case VC_E_RANGE:
		return "`vramcore check` names every damaged part; copy the file again if it was "
		       "copied";
	default:
		return "";
	}
}

int vc_problem_fault(struct vc_problem *problem, const char *path, const struct vc_fault *fault)
{
	vc_problem_set(problem, fault->error, path, hint_for(fault->error), "%s%s%s",
		       vc_error_text(fault->error), fault->system_error ? ": " : "",
		       fault->system_error ? strerror(fault->system_error) : "");
	/* damage has a place, the wrong kind of file has none */
	problem->has_offset = fault->error <= VC_E_TRUNCATED;
	if (problem->has_offset)
		snprintf(problem->section, sizeof(problem->section), "%s", fault->section);
	problem->offset = fault->offset;
	return fault->error;
}
