/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a PyTorch snapshot as rows of trace: most of what a snapshot holds. */
#include <string.h>

#include "analyze/torch_more.h"
#include "analyze/torch_take.h"

/** The action words follow the keys in `strings`. */
static const struct {
	const char *word;
	uint32_t number;
} actions[] = {
#define VC_TRACE_ACTION(name, number, text, sign) {text, number},
#include "formats/trace_actions.def"
#undef VC_TRACE_ACTION
};

#define ACTIONS (sizeof(actions) / sizeof(actions[0]))
#define FIRST_ACTION (VC_TORCH_KEYS + 1u)

/** What an event is made of, before it is a row: words, the details last. */
enum {
	ACTION, ADDRESS, SIZE, STREAM, TIME_US, STACK, FORWARD,
	DETAIL_ACTION, DETAIL_CONTEXT, DETAIL_METADATA, DETAIL_INTERNAL, DETAIL_POOL_FIRST,
	DETAIL_POOL_SECOND, DETAIL_DEVICE_FREE, DETAIL_KEYS, DETAIL_MORE,
	WORDS,
};
_Static_assert((int)WORDS == (int)VC_TORCH_EVENT_WORDS &&
		       (int)(WORDS - DETAIL_ACTION) == (int)VC_TORCH_DETAIL_WORDS &&
		       VC_COL_trace_details_more - VC_COL_trace_details_action ==
			       DETAIL_MORE - DETAIL_ACTION,
	       "details are the columns of trace_details");

/** How the value of a key is taken, and the word it goes to. */
enum take {TAKE_NOTHING, TAKE_NUMBER, TAKE_TEXT, TAKE_STACK, TAKE_PAIR, TAKE_ACTION, TAKE_METADATA};
static const struct vc_torch_field fields[VC_TORCH_KEYS + 1] = {
	[VC_TORCH_KEY_ACTION] = {TAKE_ACTION, ACTION},
	[VC_TORCH_KEY_ADDR] = {TAKE_NUMBER, ADDRESS},
	[VC_TORCH_KEY_ADDRESS] = {TAKE_NUMBER, ADDRESS},
	[VC_TORCH_KEY_SIZE] = {TAKE_NUMBER, SIZE},
	[VC_TORCH_KEY_STREAM] = {TAKE_NUMBER, STREAM},
	[VC_TORCH_KEY_TIME_US] = {TAKE_NUMBER, TIME_US},
	[VC_TORCH_KEY_FRAMES] = {TAKE_STACK, STACK},
	[VC_TORCH_KEY_FORWARD_FRAMES] = {TAKE_STACK, FORWARD},
	[VC_TORCH_KEY_COMPILE_CONTEXT] = {TAKE_TEXT, DETAIL_CONTEXT},
	[VC_TORCH_KEY_USER_METADATA] = {TAKE_METADATA, DETAIL_METADATA},
	[VC_TORCH_KEY_INTERNAL_METADATA] = {TAKE_TEXT, DETAIL_INTERNAL},
	[VC_TORCH_KEY_DEVICE_FREE] = {TAKE_NUMBER, DETAIL_DEVICE_FREE},
	[VC_TORCH_KEY_POOL_ID] = {TAKE_PAIR, DETAIL_POOL_FIRST},
};

int vc_torch_add_actions(struct vc_torch *torch)
{
	uint64_t row;
	int error = 0;

	for (unsigned i = 0; i < ACTIONS && !error; i++)
		error = vc_tables_string(torch->tables, actions[i].word, strlen(actions[i].word),
					 &row);
	return error;
}

/* ---- values ---- */

/** An action by the row of its word: a number, or where it has none the word itself. */
static void set_action(struct vc_torch_event *event, uint64_t row)
{
	bool known = row - FIRST_ACTION < ACTIONS;

	event->word[ACTION] = known ? actions[row - FIRST_ACTION].number : VC_TRACE_OTHER;
	event->word[DETAIL_ACTION] = known ? 0 : row;
}

static int take_action(struct vc_torch *torch, const uint64_t *pair, struct vc_torch_event *event)
{
	uint64_t row;
	int error = vc_torch_take_text(torch, "event", pair, &row);

	if (!error)
		set_action(event, row);
	return error;
}

/** One that is no text is shown as JSON; what it was goes with the keys that are not known. */
static int take_metadata(struct vc_torch *torch, const uint64_t *pair, struct vc_torch_event *event)
{
	uint64_t *text = &event->word[DETAIL_METADATA];

	if (vc_value_tag(pair[1]) == VC_VALUE_TEXT) {
		*text = vc_value_content(pair[1]);
		return 0;
	}
	event->metadata_left = true;
	vc_torch_leave(torch, pair);
	return vc_value_tag(pair[1]) == VC_VALUE_NONE ? 0 : vc_torch_plain(torch, pair[1], text);
}

static int take_pair(struct vc_torch *torch, const uint64_t *pair, struct vc_torch_event *event)
{
	struct vc_torch_field field = fields[vc_torch_key(pair[0])];
	uint64_t *word = &event->word[field.word];

	switch ((enum take)field.take) {
	case TAKE_NUMBER:
		return vc_torch_take_number(torch, "event", pair, word);
	case TAKE_TEXT:
		return vc_torch_take_text(torch, "event", pair, word);
	case TAKE_STACK:
		return vc_torch_take_stack(torch, "event", pair, word);
	case TAKE_PAIR:
		return vc_torch_take_pair(torch, "event", pair, word, word + 1);
	case TAKE_ACTION:
		return take_action(torch, pair, event);
	case TAKE_METADATA:
		return take_metadata(torch, pair, event);
	case TAKE_NOTHING:
		break;
	}
	vc_torch_leave(torch, pair);
	return 0;
}

/* ---- rows ---- */

/** Row plus 1 of the event's details. Few differ from the one before of the same action. */
static int intern_detail(struct vc_torch *torch, const struct vc_torch_event *event, uint64_t *ret)
{
	const uint64_t *detail = &event->word[DETAIL_ACTION];
	unsigned entry = event->word[ACTION] % VC_TORCH_LATEST;
	uint64_t row;
	int error;

	if (torch->latest_row[entry] &&
	    !memcmp(torch->latest[entry], detail, sizeof(torch->latest[entry]))) {
		*ret = torch->latest_row[entry];
		return 0;
	}
	error = vc_torch_intern_row(torch, &torch->details,
			   (struct vc_torch_row){VC_TABLE_trace_details, detail,
					   VC_TORCH_DETAIL_WORDS}, &row);
	if (error)
		return error;
	memcpy(torch->latest[entry], detail, VC_TORCH_DETAIL_WORDS * sizeof(*detail));
	*ret = torch->latest_row[entry] = row + 1;
	return 0;
}

/** A failed allocation is also a row of `failures`. */
static int add_failure(struct vc_torch *torch, const struct vc_torch_event *event, uint64_t number)
{
	struct vc_tables *tables = torch->tables;
	uint64_t row, time_us = event->word[TIME_US];
	int error = vc_torch_append(torch, VC_TABLE_failures, &row);

	if (error)
		return error;
	tables->column[VC_COL_failures_number][row] = number;
	tables->column[VC_COL_failures_time][row] = time_us < UINT64_MAX / 1000 ? time_us * 1000 : 0;
	tables->column[VC_COL_failures_requested][row] = event->word[SIZE];
	tables->column[VC_COL_failures_device][row] = UINT64_MAX;
	tables->column[VC_COL_failures_python][row] = event->word[STACK];
	tables->column[VC_COL_failures_free_known][row] =
		(event->word[DETAIL_KEYS] & VC_TORCH_BIT(DEVICE_FREE)) != 0;
	tables->column[VC_COL_failures_free][row] = event->word[DETAIL_DEVICE_FREE];
	tables->column[VC_COL_failures_outcome][row] = VC_FAILURE_OUT_OF_MEMORY;
	return 0;
}

/** Adds a row to the trace without clearing it first: every column is set. */
static int append_event(struct vc_torch *torch, uint64_t *ret)
{
	struct vc_tables *tables = torch->tables;
	uint64_t row = tables->rows[VC_TABLE_trace];
	int error = 0;

	if (row >= tables->capacity[VC_TABLE_trace]) {
		error = vc_torch_check_records(torch, VC_TABLE_trace);
		if (!error)
			error = vc_tables_reserve(tables, VC_TABLE_trace, row + 1);
	}
	if (error)
		return error;
	tables->rows[VC_TABLE_trace] = row + 1;
	*ret = row;
	return 0;
}

/** Adds the event, all of whose words are known. */
static int add_event(struct vc_torch *torch, const struct vc_torch_event *event, uint64_t *ret)
{
	struct vc_tables *tables = torch->tables;
	uint64_t row, detail = 0;
	int error = append_event(torch, &row);

	if (!error && event->word[ACTION] == VC_TRACE_OOM)
		error = add_failure(torch, event, row + 1);
	if (!error && torch->keep_trace)
		error = intern_detail(torch, event, &detail);
	if (error)
		return error;
	*ret = vc_value_make(VC_TORCH_EVENT, row);
	if (!torch->keep_trace)
		return 0;
	/* a device is known when its list is */
	if ((error = vc_tables_put(tables, VC_COL_trace_device, row, 0)) ||
	    (error = vc_tables_put(tables, VC_COL_trace_action, row, event->word[ACTION])) ||
	    (error = vc_tables_put(tables, VC_COL_trace_address, row, event->word[ADDRESS])) ||
	    (error = vc_tables_put(tables, VC_COL_trace_size, row, event->word[SIZE])) ||
	    (error = vc_tables_put(tables, VC_COL_trace_stream, row, event->word[STREAM])) ||
	    (error = vc_tables_put(tables, VC_COL_trace_time_us, row, event->word[TIME_US])) ||
	    (error = vc_tables_put(tables, VC_COL_trace_stack, row, event->word[STACK])))
		return error;
	return vc_tables_put(tables, VC_COL_trace_detail, row, detail);
}

/* ---- events that are alike ---- */

/** Remembers what keys an event had, if its values are all that has to be known of the next one. */
static void learn(struct vc_torch *torch, const uint64_t *pairs, uint64_t count, uint64_t keys)
{
	struct vc_torch_alike *alike = &torch->alike;
	bool same = alike->shape.count == count;

	for (uint64_t i = 0; i < count && same; i++)
		same = alike->shape.keys[i] == pairs[i * 2];
	if (same || count > VC_SHAPE_MOST)
		return;
	alike->shape.count = 0;
	for (uint64_t i = 0; i < count; i++) {
		alike->field[i] = fields[vc_torch_key(pairs[i * 2])];
		if (alike->field[i].take == TAKE_NOTHING)
			return;
		alike->shape.keys[i] = pairs[i * 2];
	}
	alike->shape.count = (unsigned)count;
	/* each event sets the same words: those of its keys */
	alike->event = (struct vc_torch_event){.word[DETAIL_KEYS] = keys};
}

/** Takes a value as most are; false: it is something else. */
static inline bool take_usual(uint64_t value, struct vc_torch_field field, struct vc_torch_event *event)
{
	unsigned tag = vc_value_tag(value);
	uint64_t content = vc_value_content(value);

	switch ((enum take)field.take) {
	case TAKE_NUMBER:
		event->word[field.word] = (uint64_t)((int64_t)(value << 8) >> 8);
		return tag == VC_VALUE_INTEGER || tag == VC_VALUE_NONE;
	case TAKE_TEXT:
		event->word[field.word] = content;
		return tag == VC_VALUE_TEXT || tag == VC_VALUE_NONE;
	case TAKE_METADATA:
		event->word[field.word] = content;
		return tag == VC_VALUE_TEXT;
	case TAKE_STACK:
		event->word[field.word] = tag == VC_TORCH_STACK ? content + 1 : 0;
		return tag == VC_TORCH_STACK || tag == VC_VALUE_NEW_LIST;
	case TAKE_PAIR:
		event->word[field.word] = content >> 28;
		event->word[field.word + 1] = content & ((1u << 28) - 1);
		return tag == VC_VALUE_PAIR;
	case TAKE_ACTION:
		set_action(event, content);
		return tag == VC_VALUE_TEXT;
	case TAKE_NOTHING:
		break;
	}
	return false;
}

int vc_torch_make_alike(void *context, const uint64_t *values, uint64_t *ret)
{
	struct vc_torch *torch = context;
	struct vc_torch_event *event = &torch->alike.event;

	for (unsigned i = 0; i < torch->alike.shape.count; i++)
		if (!take_usual(values[i], torch->alike.field[i], event))
			return VC_E_NOT_FOUND;
	return event->word[FORWARD] ? VC_E_NOT_FOUND : add_event(torch, event, ret);
}

int vc_torch_make_event(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
			uint64_t keys, uint64_t *ret)
{
	struct vc_torch_event event = {0};
	int error = 0;

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2)
		error = take_pair(torch, pair, &event);
	keys = (keys & VC_TORCH_ORIGIN_BITS) |
	       (keys & VC_TORCH_BIT(ADDR) ? VC_TORCH_BIT(ADDRESS) : 0);
	event.word[DETAIL_KEYS] = event.metadata_left ? keys & ~VC_TORCH_BIT(USER_METADATA) : keys;
	if (!error && torch->left_count)
		error = vc_torch_more(torch, &event.word[DETAIL_MORE]);
	if (!error && event.word[FORWARD])
		error = vc_torch_stack_with_forward(torch, event.word[STACK], event.word[FORWARD],
						    &event.word[STACK]);
	if (!error)
		error = add_event(torch, &event, ret);
	if (!error)
		learn(torch, pairs, count, keys);
	return error;
}
