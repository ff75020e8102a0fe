/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/convert.h"

#include "formats/convert_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREED_DEFAULT 65536u
#define ROWS_DEFAULT (UINT64_C(1) << 24)
#define ROWS_MOST (UINT64_C(1) << 31)

/* ---- which moment ---- */

struct wanted {
	struct vc_conversion *conversion;
	bool by_number;
};

static int take_row(void *self, enum vc_item state, uint64_t number, const void *item,
		    uint64_t offset)
{
	const struct wanted *wanted = self;
	struct vc_conversion *conversion = wanted->conversion;
	const struct vc_moment_row *row = item;

	(void)number;
	(void)offset;
	if (state != VC_ITEM_GOOD || conversion->has_row ||
	    (wanted->by_number && row->number != conversion->number))
		return 0;
	conversion->has_row = true;
	conversion->row = *row;
	conversion->number = row->number;
	conversion->freed_next = row->freed_next;
	conversion->freed_next_known = true;
	return 0;
}

static int choose_row(struct vc_conversion *conversion, uint64_t row)
{
	struct wanted wanted = {conversion, false};
	int error = VC_E_NOT_FOUND;

	if (row < vc_recording_used(&conversion->recording, VC_REC_MOMENTS))
		error = vc_recording_one(&conversion->recording, VC_REC_MOMENTS, row, take_row,
					 &wanted);
	if (!error && !conversion->has_row)
		error = VC_E_NOT_FOUND;
	return error;
}

static int choose_number(struct vc_conversion *conversion, uint64_t number)
{
	struct vc_recording *recording = &conversion->recording;
	struct wanted wanted = {conversion, true};

	if (number > vc_recording_value(recording, &recording->root->clock, UINT64_MAX))
		return VC_E_INVALID;
	conversion->number = number;
	return vc_recording_scan(recording, VC_REC_MOMENTS, take_row, &wanted);
}

/* What the ring takes next is read before the clock: entries before it died at or before S. */
static int choose_now(struct vc_conversion *conversion)
{
	struct vc_recording *recording = &conversion->recording;
	uint64_t next = vc_recording_value(recording, &recording->root->freed_next, 0);
	int error = vc_recording_refresh(recording);

	if (error)
		return error;
	conversion->freed_next = next;
	conversion->freed_next_known = true;
	conversion->number = vc_recording_value(recording, &recording->root->clock, UINT64_MAX);
	return 0;
}

static int choose_moment(struct vc_conversion *conversion)
{
	const struct vc_convert_options *options = conversion->options;
	struct vc_recording *recording = &conversion->recording;
	uint64_t copied = vc_recording_value(recording, &recording->root->copied_moment, 0);
	int error;

	if (options->at == VC_AT_MOMENT)
		error = choose_row(conversion, options->number);
	else if (options->at == VC_AT_NUMBER)
		error = choose_number(conversion, options->number);
	else if (copied)
		error = choose_row(conversion, copied - 1);
	else
		error = choose_now(conversion);
	/* a directory read after S was taken has every chunk that what was born by S lies in */
	return error ? error : vc_recording_refresh(recording);
}

/* ---- process ---- */

static int cell_text(struct vc_conversion *conversion, enum vc_column_index column,
		     const char *text)
{
	return vc_tables_put_text(&conversion->tables, column, 0, text);
}

/* A string of the recording; `otherwise` (may be NULL) where it has none. */
static int cell_id(struct vc_conversion *conversion, enum vc_column_index column, uint64_t id,
		   const char *otherwise)
{
	uint64_t row = 0;
	int error = vc_convert_string(conversion, id, &row);

	if (error)
		return error;
	if (!row && otherwise)
		return cell_text(conversion, column, otherwise);
	conversion->tables.column[column][0] = row;
	return 0;
}

static int process_strings(struct vc_conversion *conversion)
{
	const struct vc_convert_options *options = conversion->options;
	struct vc_recording *recording = &conversion->recording;
	const struct vc_root *root = recording->root;
	const uint8_t *b = root->fixed.boot_id;
	static const uint8_t no_boot_id[16];
	const struct {
		enum vc_column_index column;
		const uint64_t *word;
	} of_root[] = {
		{VC_COL_process_host, &root->host},
		{VC_COL_process_program, &root->program},
		{VC_COL_process_command, &root->command},
		{VC_COL_process_job, &root->job},
		{VC_COL_process_recorder_version, &root->recorder_version},
	};
	uint64_t phase = vc_recording_value(recording, &root->phase, 0);
	char boot_id[40] = "";
	int error = 0;

	if (memcmp(b, no_boot_id, sizeof(no_boot_id)))
		snprintf(boot_id, sizeof(boot_id),
			 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
			 b[12], b[13], b[14], b[15]);
	for (size_t i = 0; !error && i < sizeof(of_root) / sizeof(*of_root); i++)
		error = cell_id(conversion, of_root[i].column,
				vc_recording_value(recording, of_root[i].word, 0), NULL);
	if (!error)
		error = cell_text(conversion, VC_COL_process_boot_id, boot_id);
	if (!error)
		error = cell_text(conversion, VC_COL_process_state, options->state);
	if (!error)
		error = cell_id(conversion, VC_COL_process_trigger, conversion->row.trigger,
				options->trigger);
	if (!error)
		error = cell_id(conversion, VC_COL_process_moment, conversion->row.moment,
				options->moment);
	if (!error)
		error = cell_id(conversion, VC_COL_process_phase,
				conversion->has_row ? conversion->row.phase : phase, NULL);
	return error;
}

static uint64_t snapshot_time(struct vc_conversion *conversion)
{
	struct vc_recording *recording = &conversion->recording;
	uint64_t event = vc_recording_value(recording, &recording->root->last_event_time, 0);

	if (conversion->has_row)
		return vc_convert_time(conversion, conversion->row.time);
	if (conversion->options->time)
		return conversion->options->time;
	if (conversion->options->at == VC_AT_NOW && event > conversion->latest)
		conversion->latest = event;
	return vc_convert_time(conversion, conversion->latest);
}

static int convert_process(struct vc_conversion *conversion)
{
	struct vc_recording *recording = &conversion->recording;
	const struct vc_root *root = recording->root;
	const struct vc_root_fixed *fixed = &root->fixed;
	uint64_t step_plus_one = vc_recording_value(recording, &root->step, 0), step, row;
	int error = vc_tables_append(&conversion->tables, VC_TABLE_process, &row);

	if (error)
		return error;
	step = step_plus_one ? step_plus_one - 1 : 0;
	VC_CELL(conversion, process_pid, row) = fixed->pid;
	VC_CELL(conversion, process_parent_pid, row) = fixed->parent_pid;
	VC_CELL(conversion, process_user, row) = fixed->user;
	VC_CELL(conversion, process_rank_plus_one, row) = fixed->rank_plus_one;
	VC_CELL(conversion, process_world_size, row) = fixed->world_size;
	VC_CELL(conversion, process_start_time, row) = fixed->start_realtime;
	VC_CELL(conversion, process_snapshot_time, row) = snapshot_time(conversion);
	VC_CELL(conversion, process_number, row) = conversion->number;
	VC_CELL(conversion, process_step, row) = conversion->has_row ? conversion->row.step : step;
	VC_CELL(conversion, process_steps_known, row) = step_plus_one != 0;
	VC_CELL(conversion, process_deaths_missing, row) = conversion->deaths_missing;
	VC_CELL(conversion, process_peak_device_plus_one, row) = conversion->row.peak_device_plus_one;
	step = vc_recording_value(recording, &root->last_step_time, 0);
	VC_CELL(conversion, process_last_step_time, row) = step ? vc_convert_time(conversion, step) : 0;
	VC_CELL(conversion, process_longest_step, row) =
		vc_recording_value(recording, &root->longest_step, 0);
	return process_strings(conversion);
}

/* ---- evidence ---- */

static int add_evidence(struct vc_conversion *conversion, const char *key, uint64_t value,
			const char *detail)
{
	uint64_t row, text;
	int error = vc_tables_append(&conversion->tables, VC_TABLE_evidence, &row);

	if (error)
		return error;
	VC_CELL(conversion, evidence_value, row) = value;
	error = vc_tables_string(&conversion->tables, key, strlen(key), &text);
	if (error)
		return error;
	VC_CELL(conversion, evidence_key, row) = text;
	error = vc_tables_string(&conversion->tables, detail, strlen(detail), &text);
	if (!error)
		VC_CELL(conversion, evidence_detail, row) = text;
	return error;
}

/* The words that go with a counter, one after the other: cut where they get long. */
static void detail_of(struct vc_conversion *conversion, const char *key, char *detail, size_t size)
{
	const struct vc_tables *tables = &conversion->tables;
	size_t length = strlen(key), used = 0;

	detail[0] = '\0';
	for (uint64_t i = 0; i < conversion->detail.count; i++) {
		const char *name = vc_tables_text(tables, conversion->detail_key.number[i]);
		const char *text = vc_tables_text(tables, conversion->detail.number[i]);

		if (strncmp(name + 1, key, length) || strcmp(name + 1 + length, ")"))
			continue;
		if (used + strlen(text) + 8 > size) {
			snprintf(detail + used, size - used, ", ...");
			break;
		}
		used += (size_t)snprintf(detail + used, size - used, "%s%s", used ? ", " : "",
					 text);
	}
}

/* The first call that returned an error of earlier work, and which. */
static void first_error(struct vc_conversion *conversion, char *detail, size_t size)
{
	const struct vc_tables *tables = &conversion->tables;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_failures]; row++) {
		if (VC_CELL(conversion, failures_outcome, row) != VC_FAILURE_ERROR)
			continue;
		snprintf(detail, size, "first: %s gave %llu",
			 vc_tables_text(tables, VC_CELL(conversion, failures_call, row)),
			 (unsigned long long)VC_CELL(conversion, failures_result, row));
		break;
	}
}

static int convert_evidence(struct vc_conversion *conversion)
{
	static const char *const key[VC_COUNTERS] = {
#define VC_COUNTER(name, counter_key, effect, text) [VC_COUNTER_##name] = counter_key,
#include "formats/counters.def"
#undef VC_COUNTER
	};
	struct vc_recording *recording = &conversion->recording;
	const struct vc_faults *faults = recording->faults;
	char detail[400];
	int error = 0;

	for (unsigned i = 0; !error && i < VC_COUNTERS; i++) {
		uint64_t value = vc_recording_value(recording, &recording->root->counter[i], 0);

		if (i == VC_COUNTER_DEATHS_MISSING)
			value = conversion->deaths_missing;
		if (i == VC_COUNTER_SOURCE_FAULTS)
			value = faults->count;
		if (!value)
			continue;
		detail_of(conversion, key[i], detail, sizeof(detail));
		if (i == VC_COUNTER_DEVICE_ERRORS)
			first_error(conversion, detail, sizeof(detail));
		error = add_evidence(conversion, key[i], value, detail);
	}
	for (uint64_t i = 0; !error && i < faults->count && i < VC_FAULTS_KEPT; i++) {
		const struct vc_fault *fault = &faults->kept[i];

		snprintf(detail, sizeof(detail), "%s: %s", fault->section,
			 vc_error_text(fault->error));
		error = add_evidence(conversion, "source_fault", fault->offset, detail);
	}
	return error;
}

/* ---- all of it ---- */

static struct vc_convert_options with_defaults(const struct vc_convert_options *options)
{
	struct vc_convert_options full = {0};

	if (options)
		full = *options;
	if (!full.state)
		full.state = "unknown";
	if (!full.trigger)
		full.trigger = "request";
	if (!full.moment)
		full.moment = "now";
	if (!full.freed_max)
		full.freed_max = FREED_DEFAULT;
	if (!full.rows_max)
		full.rows_max = ROWS_DEFAULT;
	if (full.rows_max > ROWS_MOST)
		full.rows_max = ROWS_MOST;
	if (full.freed_max > ROWS_MOST)
		full.freed_max = ROWS_MOST;
	return full;
}

/*
 * Numbers come from the clock, which was read after the records were: one that is behind them is
 * older than they are, as on a disk that lost power. What came after it is not shown. In a copy
 * the clock is the first thing that was copied.
 */
static void check_clock(struct vc_conversion *conversion)
{
	struct vc_recording *recording = &conversion->recording;
	uint64_t clock = vc_recording_value(recording, &recording->root->clock, UINT64_MAX);

	if (conversion->highest > clock &&
	    !vc_recording_value(recording, &recording->root->copied_moment, 0))
		vc_recording_fault(recording, VC_E_CORRUPT, "clock",
				   offsetof(struct vc_root, clock));
}

/* Records, then the ring, then what both refer to: see recording_read.h. */
static int convert(struct vc_conversion *conversion)
{
	struct vc_fault fault = {0};
	int error = vc_tables_init(&conversion->tables);

	if (!error)
		error = choose_moment(conversion);
	if (!error)
		error = vc_convert_walk_open(conversion);
	if (!error)
		error = vc_convert_records(conversion);
	if (!error)
		error = vc_recording_refresh(&conversion->recording);
	if (!error)
		error = vc_convert_freed(conversion);
	if (!error)
		error = vc_recording_refresh(&conversion->recording);
	if (!error)
		check_clock(conversion);
	if (!error)
		error = vc_convert_tables(conversion);
	if (!error)
		error = vc_convert_finish_records(conversion);
	if (!error)
		error = vc_convert_paths(conversion);
	if (!error)
		error = vc_convert_walk(conversion);
	if (!error)
		error = convert_process(conversion);
	if (!error)
		error = convert_evidence(conversion);
	if (!error)
		error = vc_tables_check(&conversion->tables, &fault);
	return error;
}

static void conversion_deinit(struct vc_conversion *conversion)
{
	vc_recording_close(&conversion->recording);
	vc_tables_deinit(&conversion->tables);
	vc_walk_close(&conversion->walk);
	free(conversion->freeing.number);
	free(conversion->missed.number);
	free(conversion->gone.number);
	free(conversion->entry.number);
	free(conversion->detail_key.number);
	free(conversion->detail.number);
	free(conversion->strings.entry);
	free(conversion->stacks.entry);
	free(conversion->pythons.entry);
	free(conversion->frames.key);
	free(conversion->frames.value);
	free(conversion->sequence);
	free(conversion->module_row);
	free(conversion->site_row);
}

static void hand_out(struct vc_faults *faults, const struct vc_faults *own)
{
	for (uint64_t i = 0; i < own->count && i < VC_FAULTS_KEPT; i++)
		vc_faults_add(faults, &own->kept[i]);
	if (faults && own->count > VC_FAULTS_KEPT)
		faults->count += own->count - VC_FAULTS_KEPT;
}

int vc_convert(const struct vc_recording_source *source, const struct vc_convert_options *options,
	       struct vc_tables *ret, struct vc_faults *faults)
{
	struct vc_convert_options full = with_defaults(options);
	struct vc_conversion conversion = {.options = &full};
	struct vc_faults own = {0};
	struct vc_fault fault = {0};
	int error = vc_recording_open(source, &conversion.recording, &own, &fault);

	if (!error) {
		error = convert(&conversion);
		vc_fault_set(&fault, error, "", 0);
	}
	if (error)
		vc_faults_add(faults, &fault);
	hand_out(faults, &own);
	if (!error) {
		*ret = conversion.tables;
		memset(&conversion.tables, 0, sizeof(conversion.tables));
	}
	conversion_deinit(&conversion);
	return error;
}
