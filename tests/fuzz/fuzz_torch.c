/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a PyTorch snapshot: what is read is consistent, what is refused is told in one line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/load_torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct vc_limits limits = vc_limits_default;
	struct vc_problem problem = {0};
	struct vc_tables tables;
	int descriptor = memfd_create("fuzz", MFD_CLOEXEC), error;

	if (descriptor < 0 || write(descriptor, bytes, length) != (ssize_t)length)
		abort();
	limits.most[VC_LIMIT_BYTES] = 64 << 20;
	limits.most[VC_LIMIT_OBJECTS] = limits.most[VC_LIMIT_RECORDS] = 1 << 20;
	error = vc_torch_load(descriptor, "fuzz", NULL, &limits, &tables, &problem);
	close(descriptor);
	if (error) {
		if (!*problem.what || strchr(problem.what, '\n'))
			abort();
		return 0;
	}
	if (vc_tables_check(&tables, NULL))
		abort(); /* the analysis trusts references */
	vc_tables_deinit(&tables);
	return 0;
}
