/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/hung.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
/* A step may be slow now and then (a checkpoint, an evaluation): so much longer than any before,
 * and at least a minute, is not. */
#define TIMES_LONGEST 10u
#define SHORTEST (60 * SECOND)

void vc_duration_text(uint64_t nanoseconds, char *text, size_t size)
{
	uint64_t seconds = nanoseconds / SECOND;

	if (seconds < 10)
		snprintf(text, size, "%.1f s", (double)nanoseconds / (double)SECOND);
	else if (seconds < 120)
		snprintf(text, size, "%" PRIu64 " s", seconds);
	else if (seconds < 7200)
		snprintf(text, size, "%" PRIu64 " min", seconds / 60);
	else if (seconds < 172800)
		snprintf(text, size, "%" PRIu64 " h", seconds / 3600);
	else
		snprintf(text, size, "%" PRIu64 " d", seconds / 86400);
}

bool vc_hung(const struct vc_recording_summary *summary, const char *state, uint64_t now,
	     char *reason, size_t size)
{
	uint64_t since = summary->last_step_time, limit = SHORTEST;
	char age[32], longest[32];

	if (strcmp(state, "running") != 0 && strcmp(state, "stopped") != 0)
		return false;
	if (!since || !summary->longest_step || now <= since)
		return false;
	if (summary->longest_step > SHORTEST / TIMES_LONGEST)
		limit = summary->longest_step > UINT64_MAX / TIMES_LONGEST
				? UINT64_MAX : summary->longest_step * TIMES_LONGEST;
	if (now - since < limit)
		return false;
	vc_duration_text(now - since, age, sizeof(age));
	vc_duration_text(summary->longest_step, longest, sizeof(longest));
	snprintf(reason, size, "%sno step for %s, the longest before took %s",
		 strcmp(state, "stopped") == 0 ? "stopped by a signal, " : "", age, longest);
	return true;
}
