/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/recording_read.h"

#include <stdlib.h>
#include <string.h>

#define MOMENTS_MAX (1u << 20)

static uint64_t value(uint64_t word)
{
	return vc_word_good(word) ? vc_word_value(word) : 0;
}

static void copy_text(struct vc_recording *recording, uint64_t id, char *ret, size_t size)
{
	const char *text;
	size_t length;

	ret[0] = 0;
	if (!id || id > UINT32_MAX)
		return;
	if (vc_recording_string(recording, (uint32_t)id, &text, &length))
		return;
	if (length >= size)
		length = size - 1;
	memcpy(ret, text, length);
	ret[length] = 0;
}

static void summarize(struct vc_recording *recording, struct vc_recording_summary *ret)
{
	const struct vc_root *root = recording->root;
	const struct vc_root_fixed *fixed = &root->fixed;
	uint64_t event = value(root->last_event_time), step = value(root->last_step_time);

	ret->pid = fixed->pid;
	ret->parent_pid = fixed->parent_pid;
	ret->user = fixed->user;
	ret->start_ticks = fixed->start_ticks;
	ret->pid_namespace = fixed->pid_namespace;
	memcpy(ret->boot_id, fixed->boot_id, sizeof(ret->boot_id));
	ret->start_time = fixed->start_realtime;
	ret->last_event_time = event ? fixed->start_realtime + event : 0;
	ret->last_step_time = step ? fixed->start_realtime + step : 0;
	ret->longest_step = value(root->longest_step);
	ret->rank_plus_one = fixed->rank_plus_one;
	ret->world_size = fixed->world_size;
	ret->step_plus_one = value(root->step);
	ret->step_source = value(root->step_source);
	ret->clock = value(root->clock);
	ret->moments = value(root->used[VC_REC_MOMENTS]);
	for (uint32_t i = 0; i < VC_DEVICES_MAX; i++) {
		const struct vc_device *device = &root->device[i];

		if (!device->check ||
		    device->check != vc_check_words((const uint64_t *)device->uuid, 5, i))
			continue;
		ret->devices++;
		ret->live[i] = value(device->live);
	}
	ret->file_bytes = value(root->file_bytes);
	ret->records_lost = value(root->counter[VC_COUNTER_RECORDS_LOST]);
	ret->ended = value(root->ended);
	copy_text(recording, value(root->program), ret->program, sizeof(ret->program));
	copy_text(recording, value(root->job), ret->job, sizeof(ret->job));
}

int vc_recording_peek(const struct vc_recording_source *source, struct vc_recording_summary *ret)
{
	struct vc_recording_summary made = {0};
	struct vc_recording recording;
	int error = vc_recording_open(source, &recording, NULL, NULL);

	if (error)
		return error;
	if (recording.root->fixed_check !=
	    vc_check_words((const uint64_t *)&recording.root->fixed,
			   sizeof(recording.root->fixed) / 8, 0))
		error = VC_E_CHECKSUM;
	else
		summarize(&recording, &made);
	vc_recording_close(&recording);
	if (!error)
		*ret = made;
	return error;
}

struct list {
	struct vc_recording *recording;
	struct vc_recording_moment *moments;
	struct vc_moment_row *rows;
	size_t count, capacity;
};

static int add_moment(void *self, enum vc_item state, uint64_t number, const void *item,
		      uint64_t offset)
{
	struct list *list = self;
	const struct vc_moment_row *row = item;

	(void)offset;
	if (state != VC_ITEM_GOOD || list->count == list->capacity)
		return 0;
	list->rows[list->count] = *row;
	list->moments[list->count++] = (struct vc_recording_moment){
		.row = number,
		.number = row->number,
		.time = list->recording->root->fixed.start_realtime + row->time,
		.step = row->step,
		.failure_plus_one = row->failure_plus_one,
		.walk_plus_one = row->walk_plus_one,
		.thread = row->thread,
	};
	return 0;
}

int vc_recording_moments(const struct vc_recording_source *source, struct vc_recording_moment **ret,
			 size_t *ret_count, struct vc_faults *faults)
{
	struct vc_recording recording;
	struct list list = {.recording = &recording};
	int error = vc_recording_open(source, &recording, faults, NULL);

	if (error)
		return error;
	list.capacity = vc_recording_used(&recording, VC_REC_MOMENTS);
	if (list.capacity > MOMENTS_MAX) {
		error = VC_E_LIMIT;
		goto out;
	}
	list.moments = calloc(list.capacity + 1, sizeof(*list.moments));
	list.rows = calloc(list.capacity + 1, sizeof(*list.rows));
	if (!list.moments || !list.rows) {
		error = VC_E_NO_MEMORY;
		goto out;
	}
	error = vc_recording_scan(&recording, VC_REC_MOMENTS, add_moment, &list);
	if (error)
		goto out;
	/* strings after the rows: they were there before the rows were */
	for (size_t i = 0; i < list.count; i++) {
		copy_text(&recording, list.rows[i].trigger, list.moments[i].trigger,
			  sizeof(list.moments[i].trigger));
		copy_text(&recording, list.rows[i].moment, list.moments[i].moment,
			  sizeof(list.moments[i].moment));
	}
	*ret = list.moments;
	*ret_count = list.count;
	list.moments = NULL;
out:
	free(list.moments);
	free(list.rows);
	vc_recording_close(&recording);
	return error;
}

static int take_walk(void *self, enum vc_item state, uint64_t number, const void *item,
		     uint64_t offset)
{
	(void)number;
	(void)offset;
	if (state == VC_ITEM_GOOD)
		*(uint32_t *)self = ((const struct vc_moment_row *)item)->walk_plus_one;
	return 0;
}

uint32_t vc_recording_walk(const struct vc_recording_source *source, uint64_t moment_plus_one)
{
	uint32_t walk_plus_one = 0;
	struct vc_recording recording;

	if (vc_recording_open(source, &recording, NULL, NULL))
		return 0;
	if (!moment_plus_one)
		moment_plus_one = value(recording.root->copied_moment);
	if (moment_plus_one &&
	    moment_plus_one <= vc_recording_used(&recording, VC_REC_MOMENTS))
		vc_recording_one(&recording, VC_REC_MOMENTS, moment_plus_one - 1, take_walk,
				 &walk_plus_one);
	vc_recording_close(&recording);
	return walk_plus_one;
}

const char *vc_step_source_text(uint64_t source)
{
	static const char *const text[] = {
#define VC_STEP_SOURCE(name, number, key) [number] = key,
#include "formats/helper.def"
	};

	return source < sizeof(text) / sizeof(text[0]) ? text[source] : "unknown";
}
