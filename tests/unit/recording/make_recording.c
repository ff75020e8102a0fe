/* SPDX-License-Identifier: Apache-2.0 */
#include "make_recording.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tables.h"

#define PAGE 4096u

static const size_t item_bytes[VC_REC_TABLES] = {
	[VC_REC_RECORDS] = 160,
	[VC_REC_FREED] = 224,
	[VC_REC_STACKS] = 8,
	[VC_REC_STRINGS] = 8,
	[VC_REC_MODULES] = sizeof(struct vc_module_row),
	[VC_REC_SITES] = sizeof(struct vc_site),
	[VC_REC_THREADS] = sizeof(struct vc_thread_row),
	[VC_REC_MOMENTS] = sizeof(struct vc_moment_row),
	[VC_REC_FAILURES] = sizeof(struct vc_failure_row),
	[VC_REC_FAILURE_SITES] = sizeof(struct vc_failure_site_row),
	[VC_REC_ENVIRONMENT] = sizeof(struct vc_environment_row),
	[VC_REC_CODES] = sizeof(struct vc_code_row),
	[VC_REC_EVALS] = sizeof(struct vc_eval_row),
	[VC_REC_PATHS] = sizeof(struct vc_path_row),
};

void made_chunk(struct made_recording *made, uint32_t index, const struct vc_chunk *chunk)
{
	struct vc_chunk *entry = &made->root->chunk[index];

	*entry = *chunk;
	entry->check = vc_check_words((const uint64_t *)entry, 7, index);
	if (vc_word_value(made->root->chunks) <= index)
		made->root->chunks = vc_word(index + UINT64_C(1));
}

static void fixed_fill(struct vc_root *root)
{
	struct vc_root_fixed *fixed = &root->fixed;

	fixed->read_version = 1;
	fixed->write_version = 1;
	fixed->root_bytes = 32768;
	fixed->record_bytes = 160;
	fixed->pid = 4242;
	fixed->parent_pid = 4241;
	fixed->user = 1000;
	fixed->start_ticks = 777;
	fixed->start_realtime = 1000000000000u;
	fixed->start_monotonic = 5000000000u;
	fixed->pid_namespace = 4026531836u;
	fixed->rank_plus_one = 4;
	fixed->world_size = 8;
	for (unsigned i = 0; i < 16; i++)
		fixed->boot_id[i] = (uint8_t)(0x10 + i);
	root->fixed_check = vc_check_words((const uint64_t *)fixed, sizeof(*fixed) / 8, 0);
	memcpy(root->magic, VC_RECORDING_MAGIC, 16);
}

static uint64_t pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

void made_start(struct made_recording *made, const struct made_sizes *sizes)
{
	uint64_t end = VC_ROOT_BYTES;
	uint32_t index = 0;

	memset(made, 0, sizeof(*made));
	for (int table = 1; table < VC_REC_TABLES; table++) {
		made->items[table] = sizes->items[table];
		made->base[table] = end;
		end += pages(sizes->items[table] * item_bytes[table]);
	}
	made->length = end;
	made->bytes = calloc(1, end);
	assert(made->bytes);
	made->root = (struct vc_root *)made->bytes;
	fixed_fill(made->root);
	for (uint64_t table = 1; table < VC_REC_TABLES; table++) {
		struct vc_chunk chunk = {
			.table = table,
			.count = made->items[table],
			.offset = made->base[table],
			.bytes = pages(made->items[table] * item_bytes[table]),
			.address = 0x7f0000000000 + made->base[table],
		};

		if (chunk.count)
			made_chunk(made, index++, &chunk);
	}
	made->root->file_bytes = vc_word(end);
	made->root->freed_slots = vc_word(made->items[VC_REC_FREED]);
	made->root->used[VC_REC_FREED] = made->root->freed_slots;
	made->root->used[VC_REC_STACKS] = vc_word(1);
	made->root->used[VC_REC_STRINGS] = vc_word(1);
}

void made_end(struct made_recording *made)
{
	free(made->bytes);
	memset(made, 0, sizeof(*made));
}

/* Reserves `count` items; gives the number of the first. */
static uint64_t reserve(struct made_recording *made, int table, uint64_t count, void *ret)
{
	uint64_t used = vc_word_value(made->root->used[table]);
	uint8_t *at = made->bytes + made->base[table] + used * item_bytes[table];

	assert(used + count <= made->items[table]);
	made->root->used[table] = vc_word(used + count);
	memcpy(ret, &at, sizeof(at));
	return used;
}

uint32_t made_string(struct made_recording *made, const char *text)
{
	uint64_t length = strlen(text), padded = (length / 8 + 1) * 8;
	struct vc_string_head *head;
	uint64_t unit = reserve(made, VC_REC_STRINGS, 2 + padded / 8, &head);

	head->length = length;
	memcpy(head + 1, text, length);
	head->check = vc_check_words(&head->length, 1 + padded / 8, unit);
	return (uint32_t)unit;
}

uint32_t made_stack(struct made_recording *made, const uint64_t *frames, uint32_t count,
		    uint32_t end)
{
	struct vc_stack_head *head;
	uint64_t unit = reserve(made, VC_REC_STACKS, UINT64_C(3) + count, &head);

	head->hash = 0x1234567890abcdefu + unit;
	head->count = count;
	head->end = end;
	memcpy(head + 1, frames, count * sizeof(*frames));
	head->check = vc_check_words(&head->hash, 2 + count, unit);
	return (uint32_t)unit;
}

static uint32_t row_add(struct made_recording *made, int table, const void *row)
{
	uint64_t *to;
	uint64_t number = reserve(made, table, 1, &to);
	size_t words = item_bytes[table] / 8;

	memcpy(to + 1, (const uint64_t *)row + 1, (words - 1) * 8);
	to[0] = vc_check_words(to + 1, words - 1, number);
	return (uint32_t)number;
}

uint32_t made_module(struct made_recording *made, const char *path, uint64_t bias,
		     const uint8_t *build_id, uint32_t build_id_bytes)
{
	struct vc_module_row row = {.bias = bias, .low = bias, .high = bias + 0x10000};

	row.path = made_string(made, path);
	row.build_id_bytes = build_id_bytes;
	memcpy(row.build_id, build_id, build_id_bytes);
	return row_add(made, VC_REC_MODULES, &row);
}

uint32_t made_code(struct made_recording *made, const char *name, uint16_t version,
		   uint32_t first_line, const void *line_table, uint32_t bytes)
{
	struct vc_code_row row = {.first_line = first_line, .line_table_bytes = bytes,
				  .version = version};
	uint64_t words[16] = {0};

	assert(bytes <= sizeof(words));
	memcpy(words, line_table, bytes);
	row.name = made_string(made, name);
	row.file = made_string(made, "/src/train.py");
	if (bytes)
		row.line_table = made_stack(made, words, (bytes + 7) / 8, 0);
	return row_add(made, VC_REC_CODES, &row);
}

uint32_t made_eval(struct made_recording *made, uint32_t module_plus_one, uint64_t low,
		   uint64_t high)
{
	struct vc_eval_row row = {.low = low, .high = high, .module = module_plus_one};

	return row_add(made, VC_REC_EVALS, &row);
}

uint32_t made_site(struct made_recording *made, uint32_t stack, uint16_t device_plus_one,
		   uint8_t kind, const uint64_t totals[4], uint64_t peak_epoch, uint64_t peak_bytes)
{
	struct vc_site *site;
	uint64_t row = reserve(made, VC_REC_SITES, 1, &site);

	site->stack = stack;
	site->device_plus_one = device_plus_one;
	site->kind = kind;
	site->allocated_count = vc_word(totals[0]);
	site->allocated_bytes = vc_word(totals[1]);
	site->freed_count = vc_word(totals[2]);
	site->freed_bytes = vc_word(totals[3]);
	site->peak_epoch = vc_word(peak_epoch);
	site->peak_bytes = vc_word(peak_bytes);
	site->check = vc_check_words(&site->check + 1, 2, row);
	return (uint32_t)row;
}

void made_thread(struct made_recording *made, uint32_t thread, const char *name)
{
	struct vc_thread_row row = {.thread = thread, .name = made_string(made, name)};

	row_add(made, VC_REC_THREADS, &row);
}

void made_environment(struct made_recording *made, const char *name, const char *value)
{
	struct vc_environment_row row = {.name = made_string(made, name)};

	row.value = made_string(made, value);
	row_add(made, VC_REC_ENVIRONMENT, &row);
}

uint32_t made_moment(struct made_recording *made, struct vc_moment_row row)
{
	return row_add(made, VC_REC_MOMENTS, &row);
}

uint32_t made_failure(struct made_recording *made, struct vc_failure_row row, uint64_t outcome)
{
	struct vc_failure_row *to;
	uint64_t number = reserve(made, VC_REC_FAILURES, 1, &to);

	*to = row;
	to->outcome = vc_word(outcome);
	to->check = vc_check_words(&to->number, sizeof(*to) / 8 - 2, number);
	return (uint32_t)number;
}

uint32_t made_failure_site(struct made_recording *made, uint64_t site, uint64_t bytes,
			   uint64_t count)
{
	struct vc_failure_site_row row = {.site = site, .bytes = bytes, .count = count};

	return row_add(made, VC_REC_FAILURE_SITES, &row);
}

void made_device(struct made_recording *made, uint32_t ordinal, const char *name, uint64_t total,
		 uint64_t live, uint64_t peak, uint64_t peak_epoch)
{
	struct vc_device *device = &made->root->device[ordinal];

	for (unsigned i = 0; i < 16; i++)
		device->uuid[i] = (uint8_t)(0xa0 + i + ordinal);
	device->name = made_string(made, name);
	device->pci = made_string(made, "0000:65:00.0");
	device->driver_version = 13000;
	device->total = total;
	device->live = vc_word(live);
	device->peak = vc_word(peak);
	device->peak_epoch = vc_word(peak_epoch);
	device->peak_time = vc_word(123);
	device->peak_step = vc_word(7);
	device->check = vc_check_words((const uint64_t *)device->uuid, 5, ordinal);
}

struct vc_record *made_record_at(struct made_recording *made, uint32_t slot)
{
	return (struct vc_record *)(made->bytes + made->base[VC_REC_RECORDS]) + slot;
}

void made_record(struct made_recording *made, uint32_t slot, uint64_t number,
		 enum vc_record_state state, uint64_t death, struct vc_record record)
{
	struct vc_record *to = made_record_at(made, slot);

	assert(slot < made->items[VC_REC_RECORDS]);
	*to = record;
	to->state = vc_state_word(number, state);
	to->death = vc_word(death);
	to->check = vc_check_words(&to->address, VC_RECORD_CHECKED_WORDS, number);
	if (vc_word_value(made->root->used[VC_REC_RECORDS]) <= slot)
		made->root->used[VC_REC_RECORDS] = vc_word(slot + UINT64_C(1));
}

struct vc_freed *made_freed_at(struct made_recording *made, uint32_t slot)
{
	return (struct vc_freed *)(made->bytes + made->base[VC_REC_FREED]) + slot;
}

void made_freed(struct made_recording *made, uint64_t entry, uint64_t birth, uint64_t death,
		struct vc_record record)
{
	struct vc_freed *to = made_freed_at(made, (uint32_t)(entry % made->items[VC_REC_FREED]));

	to->birth = birth;
	to->death = death;
	to->death_time = 1000 * death;
	to->death_step = death / 10;
	to->death_thread = 4243;
	to->record = record;
	to->check = vc_check_words(&to->birth, sizeof(*to) / 8 - 2, entry);
	to->sequence = vc_word(2 * (entry + 1));
	if (vc_word_value(made->root->freed_next) <= entry)
		made->root->freed_next = vc_word(entry + 1);
}

struct vc_record made_linear(uint64_t birth)
{
	return (struct vc_record){
		.address = 0x7000000000 + birth * 0x200000,
		.size = 0x100000 + birth,
		.requested = 0xfff00 + birth,
		.time = birth * 1000,
		.stream = 0x55,
		.context = 0x66,
		.step = birth / 10,
		.thread = 4242,
		.kind = VC_KIND_LINEAR,
		.device_plus_one = 1,
	};
}

/* ---- the golden one ---- */

struct golden_names {
	uint32_t stack[3], label, call;
	uint32_t python;
};

static struct vc_record golden_record(const struct golden_names *names, uint64_t birth)
{
	struct vc_record record = made_linear(birth);

	record.stack = names->stack[birth % 3];
	record.site = birth % 3;
	record.label = names->label;
	record.call_name = names->call;
	return record;
}

static void golden_records(struct made_recording *made, const struct golden_names *names)
{
	static const uint64_t birth[10] = {1, 3, 5, 7, 15, 18, 20, 21, 22, 23};
	struct vc_record block = golden_record(names, 9);

	for (uint32_t i = 0; i < 8; i++) {
		struct vc_record record = golden_record(names, 2 * i + 2);

		record.phase = names->label;
		record.module = names->call;
		record.references = vc_word(i);
		record.python = names->python;
		made_record(made, i, 2 * i + 2, VC_RECORD_LIVE, 0, record);
	}
	block.kind = VC_KIND_BLOCK;
	block.address = made_linear(4).address + 0x1000;
	block.size = 0x800;
	made_record(made, 8, 9, VC_RECORD_LIVE, 0, block);
	made_record(made, 10, 17, VC_RECORD_FILLING, 0, golden_record(names, 30));
	made_record(made, 11, 11, VC_RECORD_FREEING, 19, golden_record(names, 11));
	made_record(made, 12, 13, VC_RECORD_FREEING, 28, golden_record(names, 13));
	made_record(made, 13, 25, VC_RECORD_LIVE, 0, golden_record(names, 25));
	/* the ring has room for 8: entries 0 and 1 are overwritten by 8 and 9 */
	for (uint64_t entry = 0; entry < 10; entry++)
		made_freed(made, entry, birth[entry], 17 + entry,
			   golden_record(names, birth[entry]));
}

/* Two functions of one file: lines 11 and 20. */
static void golden_python(struct made_recording *made, struct golden_names *names)
{
	static const uint8_t lines[] = {4, 1, 8, 9};
	const uint64_t frames[2] = {vc_python_frame(1, 6, 0), vc_python_frame(2, 0, 1)};

	made_code(made, "step", 0x0309, 10, lines, sizeof(lines));
	made_code(made, "<module>", 0x0309, 20, "", 0);
	made_eval(made, 1, 0x1100, 0x1200);
	names->python = made_stack(made, frames, 2, 0);
}

static void golden_tables(struct made_recording *made, struct golden_names *names)
{
	static const uint8_t build_id[20] = {0xde, 0xad, 0xbe, 0xef, 1, 2, 3};
	static const uint64_t totals[4] = {9, 9000, 4, 4000};
	const uint64_t frames[3] = {vc_frame(1, 0x1111), vc_frame(2, 0x2222), vc_frame(0, 0x3333)};

	made_module(made, "/usr/bin/train", 0x400000, build_id, 20);
	made_module(made, "/lib/libcuda.so.1", 0x7f1234560000, build_id, 8);
	for (unsigned i = 0; i < 3; i++)
		names->stack[i] = made_stack(made, frames, i + 1, i);
	golden_python(made, names);
	names->label = made_string(made, "weights");
	names->call = made_string(made, "cuMemAlloc_v2");
	made_site(made, 0, 0, 0, totals, 0, 0);
	made_site(made, names->stack[1], 1, VC_KIND_LINEAR, totals, 2, 4000);
	made_site(made, names->stack[2], 1, VC_KIND_LINEAR, totals, 3, 8000);
	made_thread(made, 4242, "main");
	made_thread(made, 4243, "loader");
	made_environment(made, "CUDA_VISIBLE_DEVICES", "0");
	made_environment(made, "NCCL_DEBUG", "INFO");
	made_device(made, 0, "Simulated GPU", 80ull << 30, 5000, 9000, 3);
}

static void golden_moments(struct made_recording *made, const struct golden_names *names)
{
	struct vc_moment_row moment = {.number = 10, .time = 10500, .step = 1, .thread = 4242};
	struct vc_failure_row failure = {
		.number = 15,
		.freed_next = 1,
		.time = 15500,
		.step = 1,
		.requested = 1 << 20,
		.live = 5000,
		.free_plus_one = 401,
		.total = 80ull << 30,
		.sites = 2,
		.call_name = names->call,
		.result = 2,
		.stack = names->stack[0],
		.device_plus_one = 1,
	};

	moment.trigger = made_string(made, "step");
	moment.moment = made_string(made, "after-step");
	moment.device_free[0] = 1000001;
	moment.graph_used = 2001;
	moment.graph_reserved = 3001;
	moment.pool_reserved = 4001;
	moment.asked_plus_one = 1;
	made_moment(made, moment);
	moment.number = 20;
	moment.freed_next = 4;
	moment.time = 20500;
	moment.step = 2;
	made_moment(made, moment);
	made_failure_site(made, 1, 5000, 5);
	made_failure_site(made, 2, 4000, 4);
	made_failure(made, failure, VC_FAILURE_RETRIED);
}

void made_golden(struct made_recording *made)
{
	static const struct made_sizes sizes = {{
		[VC_REC_RECORDS] = 24,
		[VC_REC_FREED] = 8,
		[VC_REC_STACKS] = 64,
		[VC_REC_STRINGS] = 180,
		[VC_REC_MODULES] = 4,
		[VC_REC_SITES] = 6,
		[VC_REC_THREADS] = 4,
		[VC_REC_MOMENTS] = 4,
		[VC_REC_FAILURES] = 4,
		[VC_REC_FAILURE_SITES] = 6,
		[VC_REC_ENVIRONMENT] = 4,
		[VC_REC_CODES] = 2,
		[VC_REC_EVALS] = 1,
	}};
	struct golden_names names;
	struct vc_root *root;

	made_start(made, &sizes);
	root = made->root;
	golden_tables(made, &names);
	golden_moments(made, &names);
	golden_records(made, &names);
	root->clock = vc_word(30);
	root->step = vc_word(3);
	root->phase = vc_word(names.label);
	root->last_event_time = vc_word(29500);
	root->host = vc_word(made_string(made, "node7"));
	root->program = vc_word(made_string(made, "/usr/bin/train"));
	root->command = vc_word(made_string(made, "train --steps 10"));
	root->job = vc_word(made_string(made, "1337"));
	root->recorder_version = vc_word(made_string(made, "0.1.0"));
	root->counter[VC_COUNTER_ALLOCATIONS_SEEN] = vc_word(40);
	root->counter[VC_COUNTER_STACKS_CUT] = vc_word(3);
}
