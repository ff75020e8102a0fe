/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/error.h"

#include <errno.h>
#include <stdio.h>

const char *vc_error_text(int error)
{
	switch (error) {
#define VC_ERROR(name, number, text) \
	case -(number): \
		return text;
#include "formats/errors.def"
#undef VC_ERROR
	default:
		return "unknown error";
	}
}

int vc_fault_set(struct vc_fault *fault, int error, const char *section, uint64_t offset)
{
	if (fault) {
		fault->error = error;
		snprintf(fault->section, sizeof(fault->section), "%s", section ? section : "");
		fault->offset = offset;
		fault->system_error = error == VC_E_IO || error == VC_E_PERMISSION ? errno : 0;
	}
	return error;
}

void vc_faults_add(struct vc_faults *faults, const struct vc_fault *fault)
{
	if (!faults)
		return;
	if (faults->count < VC_FAULTS_KEPT)
		faults->kept[faults->count] = *fault;
	faults->count++;
}
