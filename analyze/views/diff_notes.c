/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/diff_notes.h"

#include <stdio.h>
#include <string.h>

#include "analyze/text.h"
#include "analyze/views/info.h"

static bool same_text(const struct vc_diff_input *inputs, unsigned count,
		      enum vc_column_index column)
{
	for (unsigned i = 1; i < count; i++)
		if (strcmp(vc_string(inputs[0].tables, column, 0),
			   vc_string(inputs[i].tables, column, 0)))
			return false;
	return true;
}

static void add_note(struct vc_diff_notes *notes, const char *line)
{
	notes->line[notes->count++] = line;
}

/** "different hosts: gpu-17 and gpu-18" */
static int add_difference(struct vc_diff_notes *notes, const char *what,
			  const struct vc_diff_input *inputs, unsigned count,
			  enum vc_column_index column, struct vc_arena *arena)
{
	struct vc_text text = {0};
	const char *line;

	vc_text_add(&text, "different %s: %s and %s", what, vc_string(inputs[0].tables, column, 0),
		    vc_string(inputs[count - 1].tables, column, 0));
	line = vc_arena_string(arena, vc_text_get(&text));
	vc_text_deinit(&text);
	if (!line)
		return VC_E_NO_MEMORY;
	add_note(notes, line);
	return 0;
}

/** True where a device has one UUID in the first file and another in the last. */
static bool devices_differ(const struct vc_tables *a, const struct vc_tables *b)
{
	for (uint64_t i = 0; i < a->rows[VC_TABLE_devices]; i++) {
		const char *uuid = vc_string(a, VC_COL_devices_uuid, i), *other;
		uint64_t row;

		if (vc_device_row(b, vc_value(a, VC_COL_devices_device, i), &row))
			continue;
		other = vc_string(b, VC_COL_devices_uuid, row);
		if (*uuid && *other && strcmp(uuid, other))
			return true;
	}
	return false;
}

/** What comes of comparing different moments. */
static const char *moments_differ(const struct vc_diff_input *inputs, unsigned count, bool tensors)
{
	bool walked = true;

	if (tensors)
		return "different moments are compared: only roles that live at any moment of a step";
	for (unsigned i = 0; i < count; i++)
		walked &= inputs[i].tables->rows[VC_TABLE_walks] &&
			  !*vc_string(inputs[i].tables, VC_COL_walks_why, 0);
	return walked ? "different moments are compared: what lives at one and not at the other shows as "
			"growth or shrinking (--by role, module or tensor leaves it out)" :
			"different moments are compared: what lives at one and not at the other shows as "
			"growth or shrinking";
}

int vc_diff_notes_make(const struct vc_diff_input *inputs, unsigned count, bool tensors,
		       struct vc_arena *arena, struct vc_diff_notes *ret)
{
	const struct vc_tables *first = inputs[0].tables, *last = inputs[count - 1].tables;
	struct vc_diff_notes notes = {
		.same_moment = same_text(inputs, count, VC_COL_process_moment)};
	int error = 0;

	for (unsigned i = 0; i < count; i++)
		notes.has_blocks |= inputs[i].account->has_blocks;
	if (!notes.same_moment)
		add_note(&notes, moments_differ(inputs, count, tensors));
	if (!same_text(inputs, count, VC_COL_process_program))
		error = add_difference(&notes, "programs", inputs, count, VC_COL_process_program,
				       arena);
	if (!error && !same_text(inputs, count, VC_COL_process_host))
		error = add_difference(&notes, "hosts", inputs, count, VC_COL_process_host, arena);
	if (devices_differ(first, last))
		add_note(&notes, "different devices: they are compared by their numbers");
	if (!notes.has_blocks)
		add_note(&notes,
			 "no block reports: if the program has an allocator of its own, the line "
			 "that asked the driver need not be the line that leaks");
	if (*vc_info_not_known(last))
		add_note(&notes, vc_info_not_known(last));
	*ret = notes;
	return error;
}

struct vc_diff_shown vc_diff_choose(const struct vc_diff_device *device, uint64_t most)
{
	struct vc_diff_shown shown = {0};
	uint64_t lesser = device->count - device->grew;

	if (!most || most >= device->count) {
		shown.first = device->grew;
		shown.last = lesser;
		return shown;
	}
	shown.last = most / 4 < lesser ? most / 4 : lesser;
	shown.first = most - shown.last < device->grew ? most - shown.last : device->grew;
	shown.last = most - shown.first < lesser ? most - shown.first : lesser;
	for (uint64_t i = shown.first; i < device->count - shown.last; i++) {
		if (device->rows[i].growth > 0) {
			shown.grew++;
			shown.grew_bytes += device->rows[i].growth;
		} else {
			shown.shrank++;
			shown.shrank_bytes += device->rows[i].growth;
		}
	}
	return shown;
}

bool vc_diff_is_shown(const struct vc_diff_device *device, const struct vc_diff_shown *shown,
		      uint64_t row)
{
	return row < shown->first || row >= device->count - shown->last;
}

struct vc_diff_explained vc_diff_explain(const struct vc_diff_device *device)
{
	struct vc_diff_explained explained = {0};
	unsigned __int128 sum = 0;
	uint64_t hundredths;

	if (!device->grown)
		return explained;
	/* one site where it is half of it; else as many as make four fifths */
	while (explained.sites < device->grew) {
		sum += (uint64_t)device->rows[explained.sites++].growth;
		if (sum * 5 >= (unsigned __int128)device->grown * 4 ||
		    (explained.sites == 1 && sum * 2 >= device->grown))
			break;
	}
	hundredths = (uint64_t)(sum * 10000 / device->grown);
	if (hundredths % 100)
		snprintf(explained.share, sizeof(explained.share), "%llu.%02llu",
			 (unsigned long long)(hundredths / 100),
			 (unsigned long long)(hundredths % 100));
	else
		snprintf(explained.share, sizeof(explained.share), "%llu",
			 (unsigned long long)(hundredths / 100));
	return explained;
}

uint64_t vc_diff_recorded(const struct vc_tables *tables)
{
	uint64_t start = vc_value(tables, VC_COL_process_start_time, 0);
	uint64_t end = vc_value(tables, VC_COL_process_snapshot_time, 0);

	return start && end > start ? end - start : 0;
}

uint64_t vc_diff_nanoseconds(double seconds)
{
	return seconds < 9e9 ? (uint64_t)(seconds * 1e9) : UINT64_C(9000000000000000000);
}
