/* SPDX-License-Identifier: Apache-2.0 */
/* When a process is called hung, and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/outside/hung.h"

#define SECOND UINT64_C(1000000000)
#define NOW (UINT64_C(1800000000) * SECOND)

static bool hung(uint64_t ago, uint64_t longest, const char *state, char *reason)
{
	struct vc_recording_summary summary = {
		.last_step_time = ago ? NOW - ago : 0,
		.longest_step = longest,
	};

	reason[0] = 0;
	return vc_hung(&summary, state, NOW, reason, 128);
}

/* A minute at least, ten times the longest step at least. */
static void limits(void **state)
{
	char reason[128];

	(void)state;
	assert_false(hung(59 * SECOND, SECOND, "running", reason));
	assert_true(hung(60 * SECOND, SECOND, "running", reason));
	assert_string_equal(reason, "no step for 60 s, the longest before took 1.0 s");
	assert_false(hung(2459 * SECOND, 246 * SECOND, "running", reason));
	assert_true(hung(2460 * SECOND, 246 * SECOND, "running", reason));
	assert_string_equal(reason, "no step for 41 min, the longest before took 4 min");
}

static void states(void **state)
{
	char reason[128];

	(void)state;
	assert_true(hung(7200 * SECOND, SECOND / 2, "stopped", reason));
	assert_string_equal(reason, "stopped by a signal, no step for 2 h, the longest before took 0.5 s");
	assert_false(hung(7200 * SECOND, SECOND, "dead", reason));
	assert_false(hung(7200 * SECOND, SECOND, "unknown", reason));
}

/* Nothing to measure against is no reason; a clock set back or a broken number is none either. */
static void nothing_known(void **state)
{
	struct vc_recording_summary ahead = {.last_step_time = NOW + SECOND, .longest_step = 1};
	char reason[128];

	(void)state;
	assert_false(hung(0, SECOND, "running", reason));
	assert_false(hung(86400 * SECOND, 0, "running", reason));
	assert_false(hung(86400 * SECOND, UINT64_MAX, "running", reason));
	assert_false(vc_hung(&ahead, "running", NOW, reason, sizeof(reason)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits),
		cmocka_unit_test(states),
		cmocka_unit_test(nothing_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
