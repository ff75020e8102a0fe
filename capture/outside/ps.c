/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/outside/hung.h"
#include "capture/outside/json.h"
#include "capture/outside/locate.h"
#include "capture/outside/outside.h"
#include "capture/outside/process.h"

#define SECOND UINT64_C(1000000000)
#define GIBIBYTE 1073741824.0

struct ps {
	bool json;
	uint64_t shown;
	uint64_t now;
};

static const struct argp_option options[] = {
	{"json", 'j', NULL, 0, "print JSON (schema vramcore.ps/1)", 0},
	{"dir", 'd', "DIR", 0, "look into this folder alone (default: $VRAMCORE_DIR and /dev/shm)", 0},
	{0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct ps *ps = state->input;

	if (key == 'j')
		ps->json = true;
	else if (key == 'd')
		vc_locate_only(argument);
	else if (key == ARGP_KEY_ARG)
		argp_usage(state);
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

/* The command of a running process, else the program's path as recorded; control characters out. */
static void program_of(const struct vc_located *found, char *text, size_t size)
{
	text[0] = 0;
	if (strcmp(found->state, "dead") != 0 && strcmp(found->state, "unknown") != 0)
		vc_process_command(found->summary->pid, text, size);
	if (!text[0])
		snprintf(text, size, "%s", found->summary->program);
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
}

/* "41 min ago"; "-" where nothing was reported. */
static void age_text(uint64_t since, uint64_t now, char *text, size_t size)
{
	char duration[24];

	if (!since) {
		snprintf(text, size, "-");
		return;
	}
	vc_duration_text(now > since ? now - since : 0, duration, sizeof(duration));
	snprintf(text, size, "%s ago", duration);
}

/* The device with most of its memory in use by this process; -1 none. */
static int main_device(const struct vc_recording_summary *summary)
{
	int best = -1;

	for (int i = 0; i < (int)VC_DEVICES_MAX; i++)
		if (summary->live[i] && (best < 0 || summary->live[i] > summary->live[best]))
			best = i;
	return best;
}

static void print_line(const struct ps *ps, const struct vc_located *found, const char *program)
{
	const struct vc_recording_summary *summary = found->summary;
	char age[32], rank[24] = "-", step[24] = "-", device[24] = "-", live[24] = "0", reason[128];
	int number = main_device(summary);

	if (!ps->shown)
		printf("%8s %5s  %-8s %-28s %-7s %11s  %-11s %10s  %s\n", "pid", "rank", "state",
		       "program", "device", "live", "last event", "step", "recording");
	age_text(summary->last_event_time, ps->now, age, sizeof(age));
	if (summary->rank_plus_one)
		snprintf(rank, sizeof(rank), "%" PRIu64, summary->rank_plus_one - 1);
	if (summary->step_plus_one)
		snprintf(step, sizeof(step), "%" PRIu64, summary->step_plus_one - 1);
	if (number >= 0) {
		snprintf(device, sizeof(device), "GPU %d", number);
		snprintf(live, sizeof(live), "%.2f GiB", (double)summary->live[number] / GIBIBYTE);
	}
	printf("%8" PRIu64 " %5s  %-8s %-28.28s %-7s %11s  %-11s %10s  %s\n", summary->pid, rank,
	       found->state, program, device, live, age, step, found->path);
	if (vc_hung(summary, found->state, ps->now, reason, sizeof(reason)))
		printf("%8s %5s  hung? %s (vramcore hang %" PRIu64 ")\n", "", "", reason, summary->pid);
}

static void print_json(const struct ps *ps, const struct vc_located *found, const char *program)
{
	const struct vc_recording_summary *summary = found->summary;
	char reason[128];
	bool first = true;

	printf("%s\n  {\"pid\": %" PRIu64 ", \"state\": \"%s\", \"program\": ", ps->shown ? "," : "",
	       summary->pid, found->state);
	vc_json_text(program);
	printf(", \"recording\": ");
	vc_json_text(found->path);
	if (summary->rank_plus_one)
		printf(", \"rank\": %" PRIu64, summary->rank_plus_one - 1);
	if (summary->step_plus_one)
		printf(", \"step\": %" PRIu64 ", \"step_counter\": \"%s\"",
		       summary->step_plus_one - 1, vc_step_source_text(summary->step_source));
	if (summary->longest_step)
		printf(", \"last_step_time\": %" PRIu64 ", \"longest_step\": %" PRIu64,
		       summary->last_step_time, summary->longest_step);
	if (vc_hung(summary, found->state, ps->now, reason, sizeof(reason))) {
		printf(", \"hung\": ");
		vc_json_text(reason);
	}
	printf(", \"last_event_time\": %" PRIu64 ", \"devices\": [", summary->last_event_time);
	for (unsigned int i = 0; i < VC_DEVICES_MAX; i++)
		if (summary->live[i]) {
			printf("%s{\"device\": %u, \"live\": %" PRIu64 "}", first ? "" : ", ", i,
			       summary->live[i]);
			first = false;
		}
	printf("]}");
}

static int show(void *self, const struct vc_located *found)
{
	struct ps *ps = self;
	char program[512];

	program_of(found, program, sizeof(program));
	if (ps->json)
		print_json(ps, found, program);
	else
		print_line(ps, found, program);
	ps->shown++;
	return 0;
}

int vc_outside_ps(int argc, char **argv)
{
	static const struct argp description = {
		.options = options,
		.parser = parse,
		.doc = "Lists recorded processes, running, stopped and dead.",
	};
	struct ps ps = {0};
	struct timespec now;
	char name[] = "vramcore ps";

	argv[0] = name;
	argp_err_exit_status = 64;
	argp_parse(&description, argc, argv, 0, NULL, &ps);
	clock_gettime(CLOCK_REALTIME, &now);
	ps.now = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
	if (ps.json)
		printf("{\"schema\": \"vramcore.ps/1\", \"processes\": [");
	vc_locate_all(show, &ps);
	if (ps.json)
		printf("%s]}\n", ps.shown ? "\n" : "");
	else if (!ps.shown)
		printf("no recorded process (vramcore run -- PROGRAM records one)\n");
	return 0;
}
