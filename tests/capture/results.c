/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls every row of results.def, by the way given: as it is, and with the simulated driver told to
 * answer out of memory, an illegal address, and not ready. What a call gives must come through; the
 * first two must be kept with call and stack, the others must leave no trace.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare.h"
#include "functions.h"
#include "formats/tables.h"

#define ILLEGAL_ADDRESS 700
#define NOT_READY 600
#define ERRORS_KEPT 16

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, name, #condition);  \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* All parameters are integers or pointers, and zero is one of each. */
typedef vc_cu_result (*any_function)(long, long, long, long, long, long, long, long, long, long,
				     long, long, long, long);

static struct row {
	const char *name;
	any_function *function;
} rows[] = {
#define VC_HOOK(symbol, parameters, arguments, effect, ...)
#define VC_HOOK_OWN(symbol, parameters, arguments)
#define VC_RESULT(symbol, parameters, arguments) {#symbol, (any_function *)&cu.symbol},
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
#undef VC_RESULT
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static struct test_recording recording;

/* A failure is kept in any free place of its table, which grows meanwhile. */
static const struct vc_failure_row *failure_at(uint64_t row)
{
	const struct vc_failure_row *failure =
		test_item(&recording, VC_REC_FAILURES, row, sizeof(*failure));

	return failure && failure->check ? failure : NULL;
}

static uint64_t kept(void)
{
	uint64_t count = 0;

	test_recording_close(&recording);
	if (test_recording_open(getpid(), &recording))
		return 0;
	for (uint64_t row = 0; row < test_used(&recording, VC_REC_FAILURES); row++)
		count += failure_at(row) != NULL;
	return count;
}

static uint64_t errors(void)
{
	return test_counter(&recording, VC_COUNTER_DEVICE_ERRORS);
}

static uint64_t lost(void)
{
	return test_counter(&recording, VC_COUNTER_FAILURES_LOST);
}

static vc_cu_result call(const struct row *row)
{
	return (*row->function)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

/* The call gives that result, and errno stays. */
static void expect(const struct row *row, vc_cu_result result)
{
	const char *name = row->name;

	errno = 4711;
	CHECK(call(row) == result);
	CHECK(errno == 4711);
}

static void the_failure(const struct row *row, vc_cu_result result)
{
	const char *name = row->name;
	const struct vc_failure_row *failure = NULL;
	const struct vc_stack_head *stack;
	bool of_memory = result == VC_CU_OUT_OF_MEMORY;

	for (uint64_t i = 0; i < test_used(&recording, VC_REC_FAILURES); i++) {
		const struct vc_failure_row *one = failure_at(i);

		if (one && one->result == (uint32_t)result &&
		    !strcmp(test_string(&recording, one->call_name), row->name))
			failure = one;
	}
	CHECK(failure);
	if (!failure)
		return;
	CHECK(failure->device_plus_one == 1);
	CHECK(vc_word_value(failure->outcome) ==
	      (uint64_t)(of_memory ? VC_FAILURE_OPEN : VC_FAILURE_ERROR));
	CHECK((failure->free_plus_one != 0) == of_memory);
	stack = test_stack(&recording, failure->stack);
	CHECK(stack && stack->count >= 4); /* call, expect, check_row, main */
}

/* Rows that the recorder calls itself when memory is wanting: they cannot be counted here. */
static bool own_call(const char *name)
{
	static const char *const own[] = {
#define VC_DRIVER_CALL(symbol, parameters) #symbol,
#include "capture/driver_calls.def"
#undef VC_DRIVER_CALL
	};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!strcmp(own[i], name))
			return true;
	return false;
}

static void check_own(const struct row *row)
{
	const char *name = row->name;
	uint64_t errors_before = errors();

	expect(row, ILLEGAL_ADDRESS);
	CHECK(errors() == errors_before + 1);
	the_failure(row, ILLEGAL_ADDRESS);
}

static void check_row(const struct row *row)
{
	const char *name = row->name;
	uint64_t before = kept(), lost_before = lost(), errors_before = errors();
	vc_cu_pointer pointer;

	call(row);
	CHECK(kept() == before && errors() == errors_before);
	expect(row, VC_CU_OUT_OF_MEMORY);
	/* While the table grows there may be no room, which is said. */
	CHECK(lost() == lost_before ? kept() == before + 1 : lost() == lost_before + 1);
	if (lost() == lost_before)
		the_failure(row, VC_CU_OUT_OF_MEMORY);
	CHECK(!cu.cuMemAlloc_v2(&pointer, 1000)); /* so that it was a retry */
	CHECK(!cu.cuMemFree_v2(pointer));
	before = kept();
	expect(row, ILLEGAL_ADDRESS);
	CHECK(errors() == errors_before + 1);
	CHECK(kept() == before + (errors_before < ERRORS_KEPT));
	if (errors_before < ERRORS_KEPT)
		the_failure(row, ILLEGAL_ADDRESS);
	before = kept();
	expect(row, NOT_READY);
	CHECK(kept() == before && errors() == errors_before + 1);
}

/* The driver reads its orders when it is loaded: the program starts once more. */
static void order_failures(char **argv)
{
	static char orders[ROWS * 200];
	size_t length = 0;

	if (getenv("SIMCUDA_FAIL"))
		return;
	for (size_t i = 0; i < ROWS; i++)
		length += (size_t)sprintf(orders + length,
					  own_call(rows[i].name) ? "%s%s:1=%d" :
								   "%s%s:3=%d,%s:2=2,%s:4=%d",
					  i ? "," : "", rows[i].name, ILLEGAL_ADDRESS, rows[i].name,
					  rows[i].name, NOT_READY);
	setenv("SIMCUDA_FAIL", orders, 1);
	execv("/proc/self/exe", argv);
	perror("execv");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *name = "main";
	vc_cu_context context;
	size_t own = 0;

	order_failures(argv);
	if (!test_functions_get(argc > 1 ? argv[1] : "link"))
		return 1;
	CHECK(!cu.cuInit(0));
	CHECK(!cu.cuCtxCreate_v2(&context, 0, 0));
	CHECK(!test_recording_open(getpid(), &recording));
	for (size_t i = 0; i < ROWS; i++)
		if (own_call(rows[i].name) && ++own)
			check_own(&rows[i]);
	CHECK(own > 0 && own < ERRORS_KEPT);
	for (size_t i = 0; i < ROWS && !failures; i++)
		if (!own_call(rows[i].name))
			check_row(&rows[i]);
	CHECK(lost() < ROWS / 10);
	CHECK(test_counter(&recording, VC_COUNTER_CALLS_FAILED) == 0);
	CHECK(test_counter(&recording, VC_COUNTER_RETRIES) == ROWS - own);
	CHECK(test_counter(&recording, VC_COUNTER_STACKS_SKIPPED) == 0);
	CHECK(test_counter(&recording, VC_COUNTER_REENTERED) == 0);
	failures += test_compare("at the end") != 0;
	return failures != 0;
}
