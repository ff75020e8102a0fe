/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/evidence.h"

#include <string.h>

#include "analyze/text.h"
#include "analyze/views/torch.h"

struct counter_info {
	const char *key;
	enum vc_effect effect;
	const char *text;
};

static const struct counter_info counter_info[] = {
#define VC_COUNTER(name, key, effect, text) {key, VC_EFFECT_##effect, text},
#include "formats/counters.def"
#undef VC_COUNTER
#define VC_IMPORT_COUNTER(key, effect, text) {key, VC_EFFECT_##effect, text},
#include "analyze/import_counters.def"
#undef VC_IMPORT_COUNTER
};

struct work {
	const struct vc_model *models;
	unsigned count;
	struct vc_arena *arena;
	struct vc_evidence *evidence;
	bool failed;
};

/** Most items one file can give: its rows of evidence, its faults, and those made up here. */
static uint64_t most_items(const struct vc_model *model)
{
	return model->tables.rows[VC_TABLE_evidence] + model->tables.rows[VC_TABLE_devices] +
	       VC_FAULTS_KEPT + 8;
}

static void add_item(struct work *work, unsigned file, const char *key, uint64_t value,
		     enum vc_effect effect, struct vc_text *text)
{
	struct vc_evidence_item *item = &work->evidence->items[work->evidence->count];

	item->file = file;
	item->key = key;
	item->value = value;
	item->effect = effect;
	item->text = vc_arena_string(work->arena, vc_text_get(text));
	work->failed |= text->failed || !item->text;
	if (effect == VC_EFFECT_BYTES)
		work->evidence->complete = false;
	work->evidence->count++;
	vc_text_deinit(text);
}

static uint64_t evidence_value(const struct vc_tables *tables, const char *key)
{
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_evidence]; i++)
		if (!strcmp(vc_string(tables, VC_COL_evidence_key, i), key))
			return vc_value(tables, VC_COL_evidence_value, i);
	return 0;
}

static const struct counter_info *find_counter(const char *key)
{
	for (size_t i = 0; i < sizeof(counter_info) / sizeof(*counter_info); i++)
		if (!strcmp(counter_info[i].key, key))
			return &counter_info[i];
	return NULL;
}

/** "1,204 allocations (3.10 GiB at most) came after ..." */
static void lost_text(uint64_t lost_bytes, uint64_t value, struct vc_text *text)
{
	vc_text_number(text, value);
	vc_text_add(text, " allocations (");
	vc_text_bytes(text, lost_bytes, VC_TEXT_ROUNDED);
	vc_text_add(text,
		    " at most) came after the recording was full (--budget raises the limit)");
}

static void add_counter(struct work *work, unsigned file, uint64_t row, uint64_t lost_bytes)
{
	const struct vc_tables *tables = &work->models[file].tables;
	const char *key = vc_string(tables, VC_COL_evidence_key, row);
	const char *detail = vc_string(tables, VC_COL_evidence_detail, row);
	uint64_t value = vc_value(tables, VC_COL_evidence_value, row);
	const struct counter_info *info = find_counter(key);
	struct vc_text text = {0};

	if (!strcmp(key, "source_fault") || !strcmp(key, "packed_fault")) {
		vc_text_add(&text, "the %s was damaged: %s at byte ",
			    *key == 's' ? "recording" : "snapshot before it was packed", detail);
		vc_text_number(&text, value);
		add_item(work, file, key, value, VC_EFFECT_BYTES, &text);
		return;
	}
	/* each of those is said by itself */
	if (!value || !strcmp(key, "records_lost_bytes") || !strcmp(key, "source_faults"))
		return;
	if (!strcmp(key, "records_lost")) {
		lost_text(lost_bytes, value, &text);
	} else {
		vc_text_number(&text, value);
		vc_text_add(&text, " %s", info ? info->text : key);
		if (*detail)
			vc_text_add(&text, " (%s)", detail);
	}
	/* what this program does not know may be of any weight: it is taken as the worst */
	add_item(work, file, key, value, info ? info->effect : VC_EFFECT_BYTES, &text);
}

static void add_faults(struct work *work, unsigned file)
{
	const struct vc_faults *faults = &work->models[file].faults;

	for (uint64_t i = 0; i < faults->count && i < VC_FAULTS_KEPT; i++) {
		const struct vc_fault *fault = &faults->kept[i];
		struct vc_text text = {0};

		vc_text_add(&text, "%s%sdamaged at byte ", fault->section,
			    *fault->section ? " is " : "");
		vc_text_number(&text, fault->offset);
		vc_text_add(&text, " (%s)", vc_error_text(fault->error));
		add_item(work, file, "damaged", fault->offset, VC_EFFECT_BYTES, &text);
	}
	if (faults->count > VC_FAULTS_KEPT) {
		struct vc_text text = {0};

		vc_text_add(&text, "damaged in ");
		vc_text_number(&text, faults->count - VC_FAULTS_KEPT);
		vc_text_add(&text, " more places");
		add_item(work, file, "damaged_more", faults->count - VC_FAULTS_KEPT,
			 VC_EFFECT_BYTES, &text);
	}
}

static void add_account(struct work *work, unsigned file, const struct vc_account *account)
{
	struct vc_text text = {0};

	if (account->outside_bytes) {
		vc_text_bytes(&text, account->outside_bytes, VC_TEXT_ROUNDED);
		vc_text_add(&text,
			    " of blocks lie outside all recorded allocations and are not counted");
		add_item(work, file, "blocks_outside", account->outside_bytes, VC_EFFECT_BYTES,
			 &text);
	}
	text = (struct vc_text){0};
	if (account->overlap_bytes) {
		vc_text_bytes(&text, account->overlap_bytes, VC_TEXT_ROUNDED);
		vc_text_add(&text, " of blocks overlap others and are counted once");
		add_item(work, file, "blocks_overlap", account->overlap_bytes, VC_EFFECT_BYTES,
			 &text);
	}
}

/** What PyTorch's allocator said it had handed out, against the blocks it told of. */
static void add_torch(struct work *work, unsigned file, const struct vc_account *account)
{
	const struct vc_tables *tables = &work->models[file].tables;

	if (!tables->column[VC_COL_allocations_size]) /* not asked for: nothing was summed */
		return;
	for (uint64_t i = 0; account->has_torch && i < tables->rows[VC_TABLE_devices]; i++) {
		uint64_t device = vc_value(tables, VC_COL_devices_device, i);
		uint32_t device_plus_one = device < VC_MODEL_DEVICES_MOST ? (uint32_t)device + 1 : 0;
		struct vc_torch_recorded recorded;
		struct vc_text text = {0};

		if (!vc_torch_recorded(tables, account, device_plus_one, &recorded) ||
		    !recorded.said || recorded.said_allocated == recorded.allocated)
			continue;
		vc_text_add(&text, "PyTorch says that ");
		vc_text_bytes(&text, recorded.said_allocated, VC_TEXT_ROUNDED);
		vc_text_add(&text, " are allocated on GPU %u, its blocks recorded are ",
			    device_plus_one - 1);
		vc_text_bytes(&text, recorded.allocated, VC_TEXT_ROUNDED);
		add_item(work, file, "torch_differs",
			 recorded.said_allocated > recorded.allocated ?
				 recorded.said_allocated - recorded.allocated :
				 recorded.allocated - recorded.said_allocated,
			 VC_EFFECT_BYTES, &text);
	}
}

static void add_file(struct work *work, unsigned file, const struct vc_account *account)
{
	const struct vc_tables *tables = &work->models[file].tables;
	uint64_t missing = vc_value(tables, VC_COL_process_deaths_missing, 0);
	uint64_t lost_bytes = evidence_value(tables, "records_lost_bytes");

	if (!work->models[file].from_recording) /* else they are rows of evidence */
		add_faults(work, file);
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_evidence]; row++)
		add_counter(work, file, row, lost_bytes);
	if (missing && !evidence_value(tables, "deaths_missing")) {
		struct vc_text text = {0};

		vc_text_number(&text, missing);
		vc_text_add(&text, " allocations freed while the snapshot was taken are missing");
		add_item(work, file, "deaths_missing", missing, VC_EFFECT_BYTES, &text);
	}
	if (!tables->rows[VC_TABLE_process]) {
		struct vc_text text = {0};

		vc_text_add(&text, "nothing is known about the process");
		add_item(work, file, "no_process", 1, VC_EFFECT_BYTES, &text);
	}
	if (account) {
		add_account(work, file, account);
		add_torch(work, file, account);
	}
}

int vc_evidence_make(const struct vc_model *models, const struct vc_account *accounts,
		     unsigned count, struct vc_arena *arena, struct vc_evidence *ret)
{
	struct vc_evidence evidence = {.complete = true};
	struct work work = {models, count, arena, &evidence, false};
	uint64_t most = 0;

	for (unsigned i = 0; i < count; i++)
		most += most_items(&models[i]);
	evidence.items = vc_arena_allocate(arena, most, sizeof(*evidence.items));
	if (!evidence.items)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < count; i++)
		add_file(&work, i, accounts ? &accounts[i] : NULL);
	if (count) {
		evidence.seen = evidence_value(&models[count - 1].tables, "allocations_seen");
		evidence.lost = evidence_value(&models[count - 1].tables, "records_lost");
	}
	if (work.failed)
		return VC_E_NO_MEMORY;
	*ret = evidence;
	return 0;
}
