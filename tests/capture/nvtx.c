/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX ranges as phases and steps, by NVTX's own header and its own way of finding the recorder. */
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compare.h"
#include "formats/tables.h"
#include "functions.h"

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

static struct test_recording recording;

static void check_phase(int line, const char *phase)
{
	const struct vc_record *record;
	vc_cu_pointer pointer;

	if (cu.cuMemAlloc_v2(&pointer, 1000))
		failures++;
	record = test_record(&recording, VC_KIND_LINEAR, pointer);
	if (!record || strcmp(test_string(&recording, record->phase), phase)) {
		fprintf(stderr, "line %d: phase \"%s\", not \"%s\"\n", line,
			record ? test_string(&recording, record->phase) : "(no record)", phase);
		failures++;
	}
}
#define PHASE(phase) check_phase(__LINE__, phase)

static void check_step(int line, uint64_t step_plus_one)
{
	uint64_t found = vc_word_value(recording.root->step);

	if (found == step_plus_one)
		return;
	fprintf(stderr, "line %d: step plus 1 is %llu, not %llu\n", line,
		(unsigned long long)found, (unsigned long long)step_plus_one);
	failures++;
}
#define STEP(step_plus_one) check_step(__LINE__, step_plus_one)

int main(void)
{
	nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
					    .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
	nvtxDomainHandle_t domain;
	nvtxRangeId_t range;
	vc_cu_context context;

	if (!test_functions_get("dlsym"))
		return 1;
	nvtxRangePushA("before anything is recorded");
	nvtxRangePop();
	CHECK(!cu.cuInit(0) && !cu.cuCtxCreate_v2(&context, 0, 0));
	if (test_recording_open(getpid(), &recording))
		return 1;
	PHASE("");
	CHECK(nvtxRangePushA("epoch") == 0);
	CHECK(nvtxRangePushW(L"batch") == 1);
	PHASE("epoch > batch");
	CHECK(nvtxRangePop() == 1);
	PHASE("epoch");
	STEP(0);
	/* A range of the steps' name: the step ends with it, and its number is in no phase. */
	nvtxRangePushA("step 17");
	PHASE("epoch > step");
	STEP(0);
	nvtxRangePushA("forward");
	nvtxRangePop();
	STEP(0);
	nvtxRangePop();
	STEP(18);
	PHASE("epoch");
	/* A mark; one without a number counts on; one of another name does not. */
	nvtxMarkA("step 20");
	STEP(21);
	nvtxMarkA("step ");
	STEP(22);
	nvtxMarkA("stop 99");
	STEP(22);
	/* By domain, with a registered string. */
	domain = nvtxDomainCreateA("domain");
	attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	attributes.message.registered = nvtxDomainRegisterStringA(domain, "loss");
	nvtxDomainRangePushEx(domain, &attributes);
	PHASE("epoch > loss");
	nvtxDomainRangePop(domain);
	PHASE("epoch");
	attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
	attributes.message.ascii = "step 30";
	range = nvtxDomainRangeStartEx(domain, &attributes);
	STEP(22);
	PHASE("epoch");
	nvtxDomainRangeEnd(domain, range);
	STEP(31);
	nvtxDomainRangeEnd(domain, range);
	STEP(31);
	nvtxRangePop();
	PHASE("");
	return failures != 0;
}
