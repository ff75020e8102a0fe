/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/replay_state.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/text.h"

/* ---- which moment ---- */

/** "1.5" seconds as microseconds. */
static int parse_seconds(const char *text, uint64_t *ret)
{
	uint64_t whole = 0, part = 0, unit = 1000000;
	bool digits = false;

	for (; *text >= '0' && *text <= '9'; text++, digits = true) {
		if (whole > UINT64_C(1) << 40)
			return VC_E_INVALID;
		whole = whole * 10 + (unsigned)(*text - '0');
	}
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++, digits = true) {
			unit /= 10;
			part += (unsigned)(*text - '0') * unit;
		}
	if (!strcmp(text, "s"))
		text++;
	if (*text || !digits)
		return VC_E_INVALID;
	*ret = whole * 1000000 + part;
	return 0;
}

int vc_replay_when_parse(const char *text, struct vc_replay_when *ret)
{
	static const struct {
		const char *word;
		enum vc_replay_when_kind kind;
	} words[] = {
		{"peak", VC_WHEN_PEAK}, {"oom", VC_WHEN_OOM}, {"snapshot", VC_WHEN_SNAPSHOT},
		{"mark", VC_WHEN_MARK}, {"event", VC_WHEN_EVENT}, {"time", VC_WHEN_TIME},
	};
	const char *colon = strchr(text, ':'), *value = colon ? colon + 1 : NULL;
	size_t length = colon ? (size_t)(colon - text) : strlen(text), i = 0;
	struct vc_replay_when when = {.number = 1};
	int error = 0;

	while (i < sizeof(words) / sizeof(*words) &&
	       (strlen(words[i].word) != length || strncmp(words[i].word, text, length)))
		i++;
	if (i == sizeof(words) / sizeof(*words))
		return VC_E_INVALID;
	when.kind = words[i].kind;
	if (when.kind == VC_WHEN_PEAK)
		error = value ? VC_E_INVALID : 0;
	else if (when.kind == VC_WHEN_TIME)
		error = value ? parse_seconds(value, &when.number) : VC_E_INVALID;
	else if (when.kind == VC_WHEN_EVENT)
		error = value ? vc_text_parse_number(value, &when.number) : VC_E_INVALID;
	else if (value && vc_text_parse_number(value, &when.number)) {
		error = when.kind == VC_WHEN_MARK && *value ? 0 : VC_E_INVALID;
		when.name = value;
	}
	if (!error && !when.number && when.kind != VC_WHEN_EVENT && when.kind != VC_WHEN_TIME)
		error = VC_E_INVALID;
	if (!error)
		*ret = when;
	return error;
}

/** Sets all lists to a time; those without times are left at their end. */
static void at_time(const struct vc_tables *tables, const struct vc_replay *replay, uint64_t time,
		    uint64_t *moments)
{
	for (uint32_t i = 0; i < replay->list_count; i++)
		moments[i] = replay->lists[i].has_time && time ?
				     vc_replay_moment_at(tables, &replay->lists[i], time) :
				     replay->lists[i].count;
}

static const struct vc_replay_mark *find_mark(const struct vc_replay *replay,
					      const struct vc_replay_when *when, uint64_t device,
					      uint64_t *ret_count)
{
	enum vc_replay_mark_kind kind = when->kind == VC_WHEN_OOM ? VC_MARK_OOM :
					when->kind == VC_WHEN_SNAPSHOT ? VC_MARK_SNAPSHOT :
									 VC_MARK_USER;

	*ret_count = 0;
	for (uint64_t i = 0; i < replay->mark_count; i++) {
		const struct vc_replay_mark *mark = &replay->marks[i];

		if (mark->kind != kind ||
		    (device != UINT64_MAX && replay->lists[mark->list].device != device))
			continue;
		++*ret_count;
		if (when->name ? !strcmp(when->name, mark->name) : *ret_count == when->number)
			return mark;
	}
	return NULL;
}

/** The list that an event number is of: the device's, or the only one of a device. */
static int find_list(const struct vc_replay *replay, uint64_t device, uint32_t *ret,
		     enum vc_replay_missing *ret_missing)
{
	uint32_t found = UINT32_MAX;

	for (uint32_t i = 0; i < replay->list_count; i++) {
		if (device != UINT64_MAX ? replay->lists[i].device != device :
					   replay->lists[i].device >= VC_REPLAY_HOST)
			continue;
		if (found != UINT32_MAX) {
			*ret_missing = VC_MISSING_DEVICE;
			return VC_E_NOT_FOUND;
		}
		found = i;
	}
	*ret_missing = VC_MISSING_TRACE;
	*ret = found;
	return found == UINT32_MAX ? VC_E_NOT_FOUND : 0;
}

static int find_event(const struct vc_tables *tables, const struct vc_replay *replay,
		      uint64_t number, uint64_t device, uint64_t *moments,
		      enum vc_replay_missing *ret_missing, uint64_t *ret_count)
{
	uint32_t list;
	int error = find_list(replay, device, &list, ret_missing);

	if (error)
		return error;
	*ret_missing = VC_MISSING_EVENT;
	*ret_count = replay->lists[list].count;
	if (number >= *ret_count)
		return VC_E_NOT_FOUND;
	at_time(tables, replay,
		vc_value(tables, VC_COL_trace_time_us, replay->lists[list].first + number),
		moments);
	moments[list] = number + 1;
	return 0;
}

static int find_time(const struct vc_tables *tables, const struct vc_replay *replay,
		     uint64_t after, uint64_t *moments, enum vc_replay_missing *ret_missing)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < replay->list_count; i++)
		if (replay->lists[i].has_time && replay->lists[i].first_time < first)
			first = replay->lists[i].first_time;
	*ret_missing = VC_MISSING_TIME;
	if (first == UINT64_MAX)
		return VC_E_NOT_FOUND;
	at_time(tables, replay, first > UINT64_MAX - after ? UINT64_MAX : first + after, moments);
	return 0;
}

int vc_replay_find(const struct vc_tables *tables, const struct vc_replay *replay,
		   const struct vc_replay_when *when, uint64_t device, uint64_t *moments,
		   enum vc_replay_missing *ret_missing, uint64_t *ret_count)
{
	const struct vc_replay_mark *mark;

	*ret_missing = VC_MISSING_TRACE;
	*ret_count = 0;
	if (!replay->list_count)
		return VC_E_NOT_FOUND;
	switch (when->kind) {
	case VC_WHEN_PEAK:
		for (uint32_t i = 0; i < replay->list_count; i++)
			moments[i] = replay->lists[i].peak_moment;
		return 0;
	case VC_WHEN_EVENT:
		return find_event(tables, replay, when->number, device, moments, ret_missing,
				  ret_count);
	case VC_WHEN_TIME:
		return find_time(tables, replay, when->number, moments, ret_missing);
	default:
		mark = find_mark(replay, when, device, ret_count);
		*ret_missing = VC_MISSING_MARK;
		if (!mark)
			return VC_E_NOT_FOUND;
		at_time(tables, replay, mark->time_us, moments);
		moments[mark->list] = mark->moment;
		return 0;
	}
}

/* ---- the tables then ---- */

/** Addresses that were reserved. */
struct range {
	uint64_t address, end;
	uint64_t segment;      /* row of segments plus 1; 0: gone at the end */
	uint64_t stack, stream;
};

/** An event that reserved memory. */
struct reservation {
	uint64_t address, row;
};

struct apply {
	struct vc_tables *tables;
	const struct vc_replay *replay;
	const struct vc_replay_list *list;
	uint64_t moment;
	struct range *ranges;          /* by address */
	uint64_t count, capacity, moved;
	const struct vc_replay_life **live;
	uint64_t live_count;
	struct reservation *reservations; /* of the list, by address and row */
	uint64_t reservation_count;
	uint64_t birth;                /* the last one given */
	uint64_t active_text;
};

/** Bytes of ranges that may be moved about: far more than real traces need. */
#define MOVED_MOST (UINT64_C(1) << 34)

static int make_room(struct apply *apply, uint64_t at)
{
	if (apply->count == apply->capacity) {
		uint64_t capacity = apply->capacity ? apply->capacity * 2 : 256;
		void *ranges = realloc(apply->ranges, capacity * sizeof(*apply->ranges));

		if (!ranges)
			return VC_E_NO_MEMORY;
		apply->ranges = ranges;
		apply->capacity = capacity;
	}
	apply->moved += (apply->count - at + 1) * sizeof(*apply->ranges);
	if (apply->moved > MOVED_MOST)
		return VC_E_LIMIT;
	memmove(apply->ranges + at + 1, apply->ranges + at,
		(apply->count - at) * sizeof(*apply->ranges));
	apply->count++;
	return 0;
}

static int drop_range(struct apply *apply, uint64_t at)
{
	apply->moved += (apply->count - at) * sizeof(*apply->ranges);
	apply->count--;
	memmove(apply->ranges + at, apply->ranges + at + 1,
		(apply->count - at) * sizeof(*apply->ranges));
	return apply->moved > MOVED_MOST ? VC_E_LIMIT : 0;
}

/** First range that ends after the address. */
static uint64_t first_range(const struct apply *apply, uint64_t address)
{
	uint64_t low = 0, high = apply->count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (apply->ranges[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/** What an event reserved was not there before it. */
static int take_away(struct apply *apply, uint64_t address, uint64_t end)
{
	uint64_t at = first_range(apply, address);
	int error = 0;

	while (!error && at < apply->count && apply->ranges[at].address < end) {
		struct range *range = &apply->ranges[at];

		if (range->address < address && range->end > end) {
			error = make_room(apply, at + 1);
			if (error)
				return error;
			range = &apply->ranges[at];
			apply->ranges[at + 1] = *range;
			apply->ranges[at + 1].address = end;
			range->end = address;
			return 0;
		}
		if (range->address >= address && range->end <= end) {
			error = drop_range(apply, at);
			continue;
		}
		if (range->address < address)
			range->end = address;
		else
			range->address = end;
		at++;
	}
	return error;
}

/** What an event released was there before it; where something else is, that stays. */
static int put_back(struct apply *apply, struct range range)
{
	uint64_t at = first_range(apply, range.address);
	int error;

	if (at < apply->count && apply->ranges[at].address < range.end)
		return 0;
	error = make_room(apply, at);
	if (!error)
		apply->ranges[at] = range;
	return error;
}

static uint64_t end_of(uint64_t address, uint64_t size)
{
	uint64_t end;

	return __builtin_add_overflow(address, size, &end) ? UINT64_MAX : end;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/** The segments at the end. */
static int list_segments(struct apply *apply)
{
	const struct vc_tables *tables = apply->tables;
	uint64_t kept = 0;
	int error = 0;

	apply->count = 0;
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_segments] && !error; i++) {
		uint64_t address = vc_value(tables, VC_COL_segments_address, i);
		uint64_t size = vc_value(tables, VC_COL_segments_total_size, i);

		if (vc_value(tables, VC_COL_segments_host, i) || !size ||
		    vc_value(tables, VC_COL_segments_device, i) != apply->list->device)
			continue;
		error = make_room(apply, apply->count);
		if (!error)
			apply->ranges[apply->count - 1] = (struct range){
				address, end_of(address, size), i + 1,
				vc_value(tables, VC_COL_segments_stack, i),
				vc_value(tables, VC_COL_segments_stream, i)};
	}
	if (error || !apply->count)
		return error;
	qsort(apply->ranges, apply->count, sizeof(*apply->ranges), compare_ranges);
	for (uint64_t i = 1; i < apply->count; i++) /* the search wants ranges that are apart */
		if (apply->ranges[i].address >= apply->ranges[kept].end)
			apply->ranges[++kept] = apply->ranges[i];
	apply->count = kept + 1;
	return 0;
}

static int compare_reservations(const void *a, const void *b)
{
	const struct reservation *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static int list_reservations(struct apply *apply)
{
	const struct vc_tables *tables = apply->tables;
	const struct vc_replay_list *list = apply->list;
	uint64_t count = 0;

	for (unsigned pass = 0; pass < 2; pass++) {
		if (pass) {
			void *room = realloc(apply->reservations,
					     (count + 1) * sizeof(*apply->reservations));

			if (!room)
				return VC_E_NO_MEMORY;
			apply->reservations = room;
			count = 0;
		}
		for (uint64_t row = list->first; row < list->first + list->count; row++) {
			if (vc_replay_sign_of(vc_value(tables, VC_COL_trace_action, row)) !=
			    VC_REPLAY_RESERVES)
				continue;
			if (pass)
				apply->reservations[count] = (struct reservation){
					vc_value(tables, VC_COL_trace_address, row), row};
			count++;
		}
	}
	apply->reservation_count = count;
	qsort(apply->reservations, count, sizeof(*apply->reservations), compare_reservations);
	return 0;
}

/** Stack of the last event before a release that reserved the same address; 0 unknown. */
static uint64_t reserved_by(const struct apply *apply, uint64_t release)
{
	const struct vc_tables *tables = apply->tables;
	struct reservation key = {vc_value(tables, VC_COL_trace_address, release), release};
	uint64_t low = 0, high = apply->reservation_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (compare_reservations(&apply->reservations[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || apply->reservations[low - 1].address != key.address)
		return 0;
	return vc_value(tables, VC_COL_trace_stack, apply->reservations[low - 1].row);
}

/** From the end back to the moment. */
static int rewind_segments(struct apply *apply)
{
	const struct vc_tables *tables = apply->tables;
	const struct vc_replay_list *list = apply->list;
	int error = list_segments(apply);

	if (!error)
		error = list_reservations(apply);

	for (uint64_t i = list->count; i > apply->moment && !error; i--) {
		uint64_t row = list->first + i - 1;
		uint64_t address = vc_value(tables, VC_COL_trace_address, row);
		uint64_t end = end_of(address, vc_replay_event_size(tables, row));
		enum vc_replay_sign sign =
			vc_replay_sign_of(vc_value(tables, VC_COL_trace_action, row));

		if (end == address)
			continue;
		if (sign == VC_REPLAY_RESERVES)
			error = take_away(apply, address, end);
		else if (sign == VC_REPLAY_RELEASES)
			error = put_back(apply, (struct range){
				address, end, 0, reserved_by(apply, row),
				vc_value(tables, VC_COL_trace_stream, row)});
	}
	return error;
}

static const struct vc_tables *comparing; /* qsort has no argument for it; not thread safe */

static int compare_lives(const void *a, const void *b)
{
	uint64_t x = vc_replay_life_address(comparing, *(const struct vc_replay_life *const *)a);
	uint64_t y = vc_replay_life_address(comparing, *(const struct vc_replay_life *const *)b);

	return x < y ? -1 : x > y;
}

static int list_live(struct apply *apply)
{
	const struct vc_replay_list *list = apply->list;
	const struct vc_replay_life *lives = apply->replay->lives + list->first_life;
	void *room = realloc(apply->live, (list->life_count + 1) * sizeof(*apply->live));

	if (!room)
		return VC_E_NO_MEMORY;
	apply->live = room;
	apply->live_count = 0;
	for (uint64_t i = 0; i < list->life_count; i++)
		if (vc_replay_is_live(list, &lives[i], apply->moment))
			apply->live[apply->live_count++] = &lives[i];
	comparing = apply->tables;
	qsort(apply->live, apply->live_count, sizeof(*apply->live), compare_lives);
	return 0;
}

static void set(struct vc_tables *tables, enum vc_column_index column, uint64_t row,
		uint64_t value)
{
	if (tables->column[column])
		tables->column[column][row] = value;
}

/** A row of segments for one that is gone at the end. */
static int revive_segment(struct apply *apply, struct range *range)
{
	struct vc_tables *tables = apply->tables;
	uint64_t row;
	int error = vc_tables_append(tables, VC_TABLE_segments, &row);

	if (error)
		return error;
	set(tables, VC_COL_segments_device, row, apply->list->device);
	set(tables, VC_COL_segments_address, row, range->address);
	set(tables, VC_COL_segments_total_size, row, range->end - range->address);
	set(tables, VC_COL_segments_stream, row, range->stream);
	range->segment = row + 1;
	return 0;
}

/** What segments and blocks have in common; the new row. */
static int add_row(struct apply *apply, const struct range *range, uint64_t *ret)
{
	struct vc_tables *tables = apply->tables;
	uint64_t row, segment = range ? range->segment : 0;
	int error = vc_tables_append(tables, VC_TABLE_allocations, &row);

	if (error)
		return error;
	set(tables, VC_COL_allocations_birth, row, ++apply->birth);
	set(tables, VC_COL_allocations_state, row, VC_STATE_LIVE);
	set(tables, VC_COL_allocations_device_plus_one, row, apply->list->device + 1);
	set(tables, VC_COL_allocations_segment, row, segment);
	if (segment)
		set(tables, VC_COL_allocations_pool, row,
		    vc_value(tables, VC_COL_segments_pool_first, segment - 1) << 32 |
			    (vc_value(tables, VC_COL_segments_pool_second, segment - 1) &
			     UINT32_MAX));
	*ret = row;
	return 0;
}

static int add_segment(struct apply *apply, struct range *range)
{
	struct vc_tables *tables = apply->tables;
	uint64_t row, size = range->end - range->address;
	int error = range->segment ? 0 : revive_segment(apply, range);

	if (!error)
		error = add_row(apply, range, &row);
	if (error)
		return error;
	set(tables, VC_COL_allocations_kind, row, VC_KIND_LINEAR);
	set(tables, VC_COL_allocations_address, row, range->address);
	set(tables, VC_COL_allocations_size, row, size);
	set(tables, VC_COL_allocations_requested, row, size);
	set(tables, VC_COL_allocations_stream, row, range->stream);
	set(tables, VC_COL_allocations_python, row, range->stack);
	return 0;
}

static int add_block(struct apply *apply, const struct range *range, uint64_t parent,
		     const struct vc_replay_life *life)
{
	struct vc_tables *tables = apply->tables;
	uint64_t row, size = vc_replay_life_size(tables, life);
	bool born = life->born != VC_REPLAY_BEFORE;
	uint64_t detail = born ? vc_value(tables, VC_COL_trace_detail, life->born) : 0;
	uint64_t time = born ? vc_value(tables, VC_COL_trace_time_us, life->born) : 0;
	int error = add_row(apply, range, &row);

	if (error)
		return error;
	set(tables, VC_COL_allocations_kind, row, VC_KIND_BLOCK);
	set(tables, VC_COL_allocations_address, row, vc_replay_life_address(tables, life));
	set(tables, VC_COL_allocations_size, row, size);
	set(tables, VC_COL_allocations_requested, row, size);
	set(tables, VC_COL_allocations_parent, row, parent);
	set(tables, VC_COL_allocations_stream, row,
	    born ? vc_value(tables, VC_COL_trace_stream, life->born) : range ? range->stream : 0);
	set(tables, VC_COL_allocations_python, row, vc_replay_life_stack(tables, life));
	set(tables, VC_COL_allocations_block_state, row, apply->active_text);
	set(tables, VC_COL_allocations_time, row, time < UINT64_MAX / 1000 ? time * 1000 : 0);
	if (detail)
		set(tables, VC_COL_allocations_metadata, row,
		    vc_value(tables, VC_COL_trace_details_metadata, detail - 1));
	return 0;
}

/** Segments by address, each followed by the blocks that begin in it. */
static int add_rows(struct apply *apply)
{
	uint64_t block = 0;
	int error = 0;

	for (uint64_t i = 0; i < apply->count && !error; i++) {
		struct range *range = &apply->ranges[i];
		uint64_t parent;

		for (; block < apply->live_count && !error &&
		       vc_replay_life_address(apply->tables, apply->live[block]) < range->address;
		     block++)
			error = add_block(apply, NULL, 0, apply->live[block]);
		if (!error)
			error = add_segment(apply, range);
		parent = apply->birth;
		for (; block < apply->live_count && !error &&
		       vc_replay_life_address(apply->tables, apply->live[block]) < range->end;
		     block++)
			error = add_block(apply, range, parent, apply->live[block]);
	}
	for (; block < apply->live_count && !error; block++)
		error = add_block(apply, NULL, 0, apply->live[block]);
	return error;
}

static bool has_list(const struct vc_replay *replay, uint64_t device)
{
	for (uint32_t i = 0; i < replay->list_count; i++)
		if (replay->lists[i].device == device)
			return true;
	return false;
}

/** Drops the rows that will be made anew; the others keep their births. */
static void drop_rows(struct apply *apply)
{
	struct vc_tables *tables = apply->tables;
	const struct vc_table_info *info = &vc_table_info[VC_TABLE_allocations];
	uint64_t to = 0;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_allocations]; row++) {
		uint64_t device = vc_value(tables, VC_COL_allocations_device_plus_one, row);

		if (device && has_list(apply->replay, device - 1) &&
		    vc_value(tables, VC_COL_allocations_kind, row) != VC_KIND_PINNED)
			continue;
		if (vc_value(tables, VC_COL_allocations_birth, row) > apply->birth)
			apply->birth = vc_value(tables, VC_COL_allocations_birth, row);
		for (unsigned i = info->first; i < vc_table_end(VC_TABLE_allocations); i++)
			if (tables->column[i])
				tables->column[i][to] = tables->column[i][row];
		to++;
	}
	tables->rows[VC_TABLE_allocations] = to;
}

static int set_process(struct apply *apply, const uint64_t *moments, const char *text)
{
	struct vc_tables *tables = apply->tables;
	uint64_t latest = 0, string;
	int error = vc_tables_string(tables, text, strlen(text), &string);

	for (uint32_t i = 0; i < apply->replay->list_count; i++) {
		uint64_t time = moments[i] ? vc_value(tables, VC_COL_trace_time_us,
						      apply->replay->lists[i].first +
							      moments[i] - 1) : 0;

		if (time > latest && time < UINT64_MAX / 1000)
			latest = time;
	}
	if (error || !tables->rows[VC_TABLE_process])
		return error;
	set(tables, VC_COL_process_moment, 0, string);
	if (latest)
		set(tables, VC_COL_process_snapshot_time, 0, latest * 1000);
	return 0;
}

int vc_replay_apply(struct vc_tables *tables, const struct vc_replay *replay,
		    const uint64_t *moments, const char *text)
{
	static const char active[] = "active_allocated";
	struct apply apply = {.tables = tables, .replay = replay};
	int error = vc_tables_string(tables, active, strlen(active), &apply.active_text);

	if (!error)
		error = set_process(&apply, moments, text);
	if (!error)
		drop_rows(&apply);
	for (uint32_t i = 0; i < replay->list_count && !error; i++) {
		apply.list = &replay->lists[i];
		apply.moment = moments[i];
		if (apply.list->device >= VC_MODEL_DEVICES_MOST)
			continue; /* pinned host memory stays as it is at the end */
		error = rewind_segments(&apply);
		if (!error)
			error = list_live(&apply);
		if (!error)
			error = add_rows(&apply);
	}
	free(apply.ranges);
	free(apply.live);
	free(apply.reservations);
	return error;
}
