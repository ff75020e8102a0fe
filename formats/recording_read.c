/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/recording_read.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE 4096u
#define ROOT_WORDS (sizeof(struct vc_root) / 8)
#define BLOCK_BYTES (64u << 10)
#define WINDOW_BYTES (16u << 10)
#define ITEM_BYTES_MAX 512u
#define READS 4          /* of an item that does not fit, before it is taken for damaged */
#define PAUSE_READS 20   /* of one that a writer may be busy with */
#define PAUSES 512       /* of 100 microseconds, at most, for one recording */
#define ITEMS_MAX (UINT64_C(1) << 40)

/* ---- faults and words ---- */

const char *vc_recording_table_name(uint32_t table)
{
	static const char *const name[VC_REC_TABLES] = {
		[VC_REC_RECORDS] = "records",
		[VC_REC_FREED] = "freed",
		[VC_REC_STACKS] = "stacks",
		[VC_REC_STRINGS] = "strings",
		[VC_REC_MODULES] = "modules",
		[VC_REC_SITES] = "sites",
		[VC_REC_THREADS] = "threads",
		[VC_REC_MOMENTS] = "moments",
		[VC_REC_FAILURES] = "failures",
		[VC_REC_FAILURE_SITES] = "failure_sites",
		[VC_REC_ENVIRONMENT] = "environment",
		[VC_REC_CODES] = "codes",
		[VC_REC_EVALS] = "evals",
		[VC_REC_PATHS] = "paths",
	};

	return table < VC_REC_TABLES && name[table] ? name[table] : "unknown";
}

void vc_recording_fault(struct vc_recording *recording, int error, const char *section,
			uint64_t offset)
{
	struct vc_fault fault = {0};

	vc_fault_set(&fault, error, section, offset);
	vc_faults_add(recording->faults, &fault);
}

uint64_t vc_recording_value(struct vc_recording *recording, const uint64_t *word,
			    uint64_t otherwise)
{
	size_t at = (size_t)(word - (const uint64_t *)recording->root);

	if (vc_word_good(*word))
		return vc_word_value(*word);
	if (!recording->word_said[at])
		vc_recording_fault(recording, VC_E_CORRUPT, "root", at * 8);
	recording->word_said[at] = 1;
	return otherwise;
}

/* ---- root and directory ---- */

static int read_all(const struct vc_recording_source *source, uint64_t offset, void *buffer,
		    size_t length, uint64_t *ret_end)
{
	size_t got = 0;
	int error = source->read(source->self, offset, buffer, length, &got);

	*ret_end = offset + (error ? 0 : got);
	if (error)
		return error;
	return got < length ? VC_E_TRUNCATED : 0;
}

/* Whether the words of the root that change are all whole: a copy may have met one half-written. */
static int root_words_good(const struct vc_root *root)
{
	const uint64_t *word = &root->host, *end = root->reserved;

	for (; word < end; word++)
		if (!vc_word_good(*word))
			return 0;
	return 1;
}

static int read_root(const struct vc_recording_source *source, struct vc_root *root,
		     struct vc_fault *fault)
{
	uint64_t end = 0;

	for (int tries = 0; tries < READS; tries++) {
		int error = read_all(source, 0, root, VC_ROOT_BYTES, &end);

		if (error == VC_E_TRUNCATED &&
		    (end < sizeof(root->magic) ||
		     memcmp(root->magic, VC_RECORDING_MAGIC, sizeof(root->magic))))
			error = VC_E_NOT_A_RECORDING;
		if (error)
			return vc_fault_set(fault, error, "root", end);
		if (root_words_good(root))
			break;
	}
	return 0;
}

static int check_root(const struct vc_root *root, struct vc_fault *fault)
{
	const struct vc_root_fixed *fixed = &root->fixed;

	if (memcmp(root->magic, VC_RECORDING_MAGIC, sizeof(root->magic)))
		return vc_fault_set(fault, VC_E_NOT_A_RECORDING, "root", 0);
	if (fixed->read_version > VC_RECORDING_READ_VERSION)
		return vc_fault_set(fault, VC_E_TOO_NEW, "root",
				    offsetof(struct vc_root, fixed.read_version));
	if (!fixed->read_version || fixed->root_bytes != VC_ROOT_BYTES ||
	    fixed->record_bytes != sizeof(struct vc_record))
		return vc_fault_set(fault, VC_E_CORRUPT, "root", offsetof(struct vc_root, fixed));
	return 0;
}

_Static_assert(sizeof(struct vc_moment_row) <= ITEM_BYTES_MAX, "the largest item");

/* Items of each table: their length and the words that their check covers. */
static const struct item_layout {
	uint16_t bytes, checked_at, checked_words;
} item_layout[VC_REC_TABLES] = {
	[VC_REC_RECORDS] = {sizeof(struct vc_record), offsetof(struct vc_record, address),
			    VC_RECORD_CHECKED_WORDS},
	[VC_REC_FREED] = {sizeof(struct vc_freed), offsetof(struct vc_freed, birth),
			  (sizeof(struct vc_freed) - offsetof(struct vc_freed, birth)) / 8},
	[VC_REC_STACKS] = {8, 0, 0},
	[VC_REC_STRINGS] = {8, 0, 0},
	[VC_REC_MODULES] = {sizeof(struct vc_module_row), 8, sizeof(struct vc_module_row) / 8 - 1},
	[VC_REC_SITES] = {sizeof(struct vc_site), 8, 2},
	[VC_REC_THREADS] = {sizeof(struct vc_thread_row), 8, sizeof(struct vc_thread_row) / 8 - 1},
	[VC_REC_MOMENTS] = {sizeof(struct vc_moment_row), 8, sizeof(struct vc_moment_row) / 8 - 1},
	[VC_REC_FAILURES] = {sizeof(struct vc_failure_row), offsetof(struct vc_failure_row, number),
			     (sizeof(struct vc_failure_row) -
			      offsetof(struct vc_failure_row, number)) / 8},
	[VC_REC_FAILURE_SITES] = {sizeof(struct vc_failure_site_row), 8,
				  sizeof(struct vc_failure_site_row) / 8 - 1},
	[VC_REC_ENVIRONMENT] = {sizeof(struct vc_environment_row), 8,
				sizeof(struct vc_environment_row) / 8 - 1},
	[VC_REC_CODES] = {sizeof(struct vc_code_row), 8, sizeof(struct vc_code_row) / 8 - 1},
	[VC_REC_EVALS] = {sizeof(struct vc_eval_row), 8, sizeof(struct vc_eval_row) / 8 - 1},
	[VC_REC_PATHS] = {sizeof(struct vc_path_row), 8, sizeof(struct vc_path_row) / 8 - 1},
};

static void chunk_fault(struct vc_recording *recording, uint32_t index, int error,
			const char *section, uint64_t offset)
{
	if (!recording->chunk_said[index])
		vc_recording_fault(recording, error, section, offset);
	recording->chunk_said[index] = 1;
}

static uint64_t entry_offset(uint32_t index)
{
	return offsetof(struct vc_root, chunk) + index * sizeof(struct vc_chunk);
}

static int entry_possible(const struct vc_chunk *entry)
{
	if (entry->offset % PAGE || entry->offset < VC_ROOT_BYTES ||
	    entry->offset > VC_RECORDING_BYTES_MAX || entry->bytes > VC_RECORDING_BYTES_MAX ||
	    entry->first > ITEMS_MAX || entry->count > ITEMS_MAX)
		return 0;
	return entry->bytes / item_layout[entry->table].bytes >= entry->count;
}

/* An entry whose check does not fit is read again: it may be in the making. */
static int entry_checked(struct vc_recording *recording, uint32_t index, struct vc_chunk *entry)
{
	uint64_t end;

	for (int tries = 0;; tries++) {
		if (!entry->check ||
		    entry->check == vc_check_words((const uint64_t *)entry, 7, index))
			return 1;
		if (tries == READS)
			return 0;
		if (read_all(recording->source, entry_offset(index), entry, sizeof(*entry), &end))
			return 0;
	}
}

/* A chunk that the file ends in keeps what is whole; the fault says where. */
static void probe_end(struct vc_recording *recording, const struct vc_recording_chunk *chunk)
{
	const struct vc_recording_source *source = recording->source;
	uint64_t end = chunk->offset + chunk->bytes, got;
	uint8_t byte;

	if (end <= source->length || !chunk->bytes)
		return;
	if (read_all(source, end - 1, &byte, 1, &got) == VC_E_TRUNCATED)
		chunk_fault(recording, chunk->index, VC_E_TRUNCATED,
			    vc_recording_table_name(chunk->table),
			    source->length > chunk->offset ? source->length : chunk->offset);
}

static int by_offset(const void *left, const void *right)
{
	const struct vc_recording_chunk *a = left, *b = right;

	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static int by_table(const void *left, const void *right)
{
	const struct vc_recording_chunk *a = left, *b = right;

	if (a->table != b->table)
		return a->table < b->table ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

/* Drops chunks that share bytes, or numbers, with the one before them. */
static void drop_overlaps(struct vc_recording *recording, int bytes)
{
	struct vc_recording_chunk *chunk = recording->chunk;
	uint32_t kept = 0;

	qsort(chunk, recording->chunks, sizeof(*chunk), bytes ? by_offset : by_table);
	for (uint32_t i = 0; i < recording->chunks; i++) {
		const struct vc_recording_chunk *last = &chunk[kept - 1];
		int overlap = 0;

		if (kept && bytes)
			overlap = last->offset + last->bytes > chunk[i].offset;
		else if (kept)
			overlap = last->table == chunk[i].table &&
				  last->first + last->count > chunk[i].first;
		if (overlap)
			chunk_fault(recording, chunk[i].index, VC_E_CORRUPT, "directory",
				    entry_offset(chunk[i].index));
		else
			chunk[kept++] = chunk[i];
	}
	recording->chunks = kept;
}

static void load_directory(struct vc_recording *recording)
{
	struct vc_root *root = recording->root;
	uint64_t entries = vc_recording_value(recording, &root->chunks, VC_ROOT_CHUNKS);

	if (entries > VC_ROOT_CHUNKS)
		entries = VC_ROOT_CHUNKS;
	recording->chunks = 0;
	for (uint32_t i = 0; i < entries; i++) {
		struct vc_chunk *entry = &root->chunk[i];
		int good = entry_checked(recording, i, entry);

		if (good && (!entry->check || entry->table >= VC_REC_TABLES))
			continue; /* not published yet, or of a later version: may be ignored */
		if (!good || !entry->table || !entry_possible(entry)) {
			chunk_fault(recording, i, good ? VC_E_CORRUPT : VC_E_CHECKSUM, "directory",
				    entry_offset(i));
			continue;
		}
		recording->chunk[recording->chunks++] = (struct vc_recording_chunk){
			.table = (uint32_t)entry->table,
			.index = i,
			.first = entry->first,
			.count = entry->count,
			.offset = entry->offset,
			.bytes = entry->bytes,
		};
	}
	drop_overlaps(recording, 1);
	drop_overlaps(recording, 0);
	for (uint32_t table = 0, at = 0; table <= VC_REC_TABLES; table++) {
		while (at < recording->chunks && recording->chunk[at].table < table)
			at++;
		recording->table_chunk[table] = at;
	}
	for (uint32_t i = 0; i < recording->chunks; i++)
		probe_end(recording, &recording->chunk[i]);
}

int vc_recording_open(const struct vc_recording_source *source, struct vc_recording *ret,
		      struct vc_faults *faults, struct vc_fault *fault)
{
	struct vc_recording made = {.source = source, .faults = faults, .pauses = PAUSES};
	int error;

	if (source->length > VC_RECORDING_BYTES_MAX)
		return vc_fault_set(fault, VC_E_LIMIT, "", source->length);
	made.root = malloc(VC_ROOT_BYTES);
	made.chunk = calloc(VC_ROOT_CHUNKS, sizeof(*made.chunk));
	made.chunk_said = calloc(VC_ROOT_CHUNKS, 1);
	made.word_said = calloc(ROOT_WORDS, 1);
	made.block = malloc(BLOCK_BYTES);
	made.window = malloc(WINDOW_BYTES);
	if (!made.root || !made.chunk || !made.chunk_said || !made.word_said || !made.block ||
	    !made.window)
		error = vc_fault_set(fault, VC_E_NO_MEMORY, "", 0);
	else
		error = read_root(source, made.root, fault);
	if (!error)
		error = check_root(made.root, fault);
	if (error) {
		vc_recording_close(&made);
		return error;
	}
	if (made.root->fixed_check != vc_check_words((const uint64_t *)&made.root->fixed,
						     sizeof(made.root->fixed) / 8, 0))
		vc_recording_fault(&made, VC_E_CHECKSUM, "root",
				   offsetof(struct vc_root, fixed_check));
	load_directory(&made);
	*ret = made;
	return 0;
}

void vc_recording_close(struct vc_recording *recording)
{
	free(recording->root);
	free(recording->chunk);
	free(recording->chunk_said);
	free(recording->word_said);
	free(recording->block);
	free(recording->window);
	free(recording->item);
	memset(recording, 0, sizeof(*recording));
}

int vc_recording_refresh(struct vc_recording *recording)
{
	struct vc_root *root = malloc(VC_ROOT_BYTES);
	struct vc_fault fault;
	int error;

	if (!root)
		return VC_E_NO_MEMORY;
	error = read_root(recording->source, root, &fault);
	if (!error)
		error = check_root(root, &fault);
	if (error) {
		free(root);
		return error;
	}
	free(recording->root);
	recording->root = root;
	load_directory(recording);
	recording->window_length = 0;
	return 0;
}

static uint64_t capacity_of(const struct vc_recording *recording, enum vc_recording_table table)
{
	uint32_t end = recording->table_chunk[table + 1];

	if (end == recording->table_chunk[table])
		return 0;
	return recording->chunk[end - 1].first + recording->chunk[end - 1].count;
}

uint64_t vc_recording_used(struct vc_recording *recording, enum vc_recording_table table)
{
	uint64_t capacity = capacity_of(recording, table);
	uint64_t used;

	if (table == VC_REC_FREED) /* a ring: any slot may be in use */
		return capacity;
	used = vc_recording_value(recording, &recording->root->used[table], capacity);
	return used < capacity ? used : capacity;
}

/* ---- items ---- */

/* 1 / 0xd6e8feb86659fd93 modulo 2^64: gives back the number that a check was made with. */
static uint64_t number_of_check(uint64_t check, const uint64_t *words, size_t count)
{
	const uint64_t factor = 0xd6e8feb86659fd93u;
	uint64_t inverse = factor;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - factor * inverse;
	return (check - vc_check_words(words, count, UINT64_MAX)) * inverse - 1;
}

/*
 * A filling record is being committed when its check already fits another number, a later one: all
 * of its fields are final and only its state word is old.
 */
static enum vc_item judge_filling(const struct vc_record *record, const struct vc_root *root)
{
	uint64_t began = vc_state_number(record->state);
	uint64_t clock = vc_word_good(root->clock) ? vc_word_value(root->clock) : began;
	uint64_t number = number_of_check(record->check, &record->address, VC_RECORD_CHECKED_WORDS);

	/* the copy of the clock may be a little old */
	if (number == began || (number > began && number <= clock + (1u << 24)))
		return VC_ITEM_GOOD;
	return VC_ITEM_PARTIAL;
}

static enum vc_item judge_record(const struct vc_record *record, const struct vc_root *root)
{
	enum vc_record_state state = vc_state_of(record->state);

	if (!vc_word_good(record->state))
		return VC_ITEM_BAD;
	if (state == VC_RECORD_EMPTY)
		return VC_ITEM_NONE;
	if (!vc_word_good(record->references) ||
	    (state == VC_RECORD_FREEING && !vc_word_good(record->death)))
		return VC_ITEM_BAD;
	if (state == VC_RECORD_FILLING)
		return judge_filling(record, root);
	return record->check == vc_check_words(&record->address, VC_RECORD_CHECKED_WORDS,
					       vc_state_number(record->state)) ?
		       VC_ITEM_GOOD :
		       VC_ITEM_BAD;
}

static enum vc_item judge_freed(const struct vc_freed *freed)
{
	uint64_t sequence = vc_word_value(freed->sequence);

	if (!vc_word_good(freed->sequence))
		return VC_ITEM_BAD;
	if (!sequence)
		return VC_ITEM_NONE;
	if (sequence & 1)
		return VC_ITEM_PARTIAL;
	return freed->check == vc_check_words(&freed->birth,
					      item_layout[VC_REC_FREED].checked_words,
					      sequence / 2 - 1)
		       ? VC_ITEM_GOOD
		       : VC_ITEM_BAD;
}

static enum vc_item judge(const struct vc_recording *recording, enum vc_recording_table table,
			  uint64_t number, const void *item)
{
	const struct item_layout *layout = &item_layout[table];
	uint64_t check;

	if (table == VC_REC_RECORDS)
		return judge_record(item, recording->root);
	if (table == VC_REC_FREED)
		return judge_freed(item);
	memcpy(&check, item, sizeof(check));
	if (!check)
		return VC_ITEM_NONE;
	return check == vc_check_words((const uint64_t *)item + layout->checked_at / 8,
				       layout->checked_words, number) ?
		       VC_ITEM_GOOD :
		       VC_ITEM_BAD;
}

static void pause_for_writer(struct vc_recording *recording)
{
	const struct timespec moment = {.tv_nsec = 100000};

	recording->pauses--;
	nanosleep(&moment, NULL);
}

/*
 * An item that did not fit, read again by itself. What nobody writes to reads the same each time;
 * a record in the middle of its commit is waited for a little.
 */
static enum vc_item read_again(struct vc_recording *recording, enum vc_recording_table table,
			       uint64_t number, uint64_t *item, uint64_t offset)
{
	size_t bytes = item_layout[table].bytes;
	uint64_t before[ITEM_BYTES_MAX / 8], end;
	enum vc_item state = VC_ITEM_BAD;
	int changed = 0;

	for (int tries = 0; tries < PAUSE_READS; tries++) {
		memcpy(before, item, bytes);
		if (read_all(recording->source, offset, item, bytes, &end))
			break;
		state = judge(recording, table, number, item);
		if (state == VC_ITEM_GOOD || state == VC_ITEM_NONE ||
		    (state == VC_ITEM_PARTIAL && table == VC_REC_FREED))
			return state;
		changed |= memcmp(before, item, bytes) != 0;
		if (tries < READS)
			continue;
		if ((!changed && state != VC_ITEM_PARTIAL) || !recording->pauses)
			break;
		pause_for_writer(recording);
	}
	vc_recording_fault(recording,
			   changed || state == VC_ITEM_PARTIAL ? VC_E_UNSTABLE : VC_E_CHECKSUM,
			   vc_recording_table_name(table), offset);
	return state;
}

static int visit_item(struct vc_recording *recording, enum vc_recording_table table,
		      uint64_t number, const void *item, uint64_t offset, vc_recording_visit visit,
		      void *self)
{
	uint64_t copy[ITEM_BYTES_MAX / 8];
	enum vc_item state = judge(recording, table, number, item);

	if (state == VC_ITEM_NONE)
		return 0;
	if (state == VC_ITEM_BAD || (state == VC_ITEM_PARTIAL && table == VC_REC_RECORDS)) {
		memcpy(copy, item, item_layout[table].bytes);
		state = read_again(recording, table, number, copy, offset);
		item = copy;
		if (state == VC_ITEM_NONE)
			return 0;
	}
	return visit(self, state, number, item, offset);
}

static int scan_chunk(struct vc_recording *recording, const struct vc_recording_chunk *chunk,
		      uint64_t count, vc_recording_visit visit, void *self)
{
	enum vc_recording_table table = (enum vc_recording_table)chunk->table;
	uint64_t bytes = item_layout[table].bytes, done = 0;

	while (done < count) {
		uint64_t some = BLOCK_BYTES / bytes, offset = chunk->offset + done * bytes, end = 0;
		int error;

		if (some > count - done)
			some = count - done;
		error = read_all(recording->source, offset, recording->block, some * bytes, &end);
		if (error) {
			chunk_fault(recording, chunk->index, error, vc_recording_table_name(table),
				    end > offset ? end : offset);
			some = end > offset ? (end - offset) / bytes : 0;
		}
		for (uint64_t i = 0; i < some; i++) {
			int stop = visit_item(recording, table, chunk->first + done + i,
					      recording->block + i * bytes, offset + i * bytes,
					      visit, self);

			if (stop)
				return stop;
		}
		if (error)
			break;
		done += some;
	}
	return 0;
}

int vc_recording_scan(struct vc_recording *recording, enum vc_recording_table table,
		      vc_recording_visit visit, void *self)
{
	uint64_t used = vc_recording_used(recording, table);

	for (uint32_t i = recording->table_chunk[table]; i < recording->table_chunk[table + 1];
	     i++) {
		const struct vc_recording_chunk *chunk = &recording->chunk[i];
		uint64_t count;
		int stop;

		if (chunk->first >= used)
			break;
		count = used - chunk->first < chunk->count ? used - chunk->first : chunk->count;
		stop = scan_chunk(recording, chunk, count, visit, self);
		if (stop)
			return stop;
	}
	return 0;
}

static const struct vc_recording_chunk *chunk_of(const struct vc_recording *recording,
						 enum vc_recording_table table, uint64_t number)
{
	uint32_t low = recording->table_chunk[table], high = recording->table_chunk[table + 1];

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct vc_recording_chunk *chunk = &recording->chunk[middle];

		if (number < chunk->first)
			high = middle;
		else if (number - chunk->first >= chunk->count)
			low = middle + 1;
		else
			return chunk;
	}
	return NULL;
}

int vc_recording_one(struct vc_recording *recording, enum vc_recording_table table,
		     uint64_t number, vc_recording_visit visit, void *self)
{
	const struct vc_recording_chunk *chunk = chunk_of(recording, table, number);
	uint64_t copy[ITEM_BYTES_MAX / 8], offset, end;

	if (!chunk)
		return VC_E_NOT_FOUND;
	offset = chunk->offset + (number - chunk->first) * item_layout[table].bytes;
	if (read_all(recording->source, offset, copy, item_layout[table].bytes, &end))
		return VC_E_NOT_FOUND;
	return visit_item(recording, table, number, copy, offset, visit, self);
}

/* ---- stacks and strings ---- */

/* Reads units through a window, since ids that are asked for come mostly in order. */
static int read_units(struct vc_recording *recording, const struct vc_recording_chunk *chunk,
		      uint64_t unit, void *buffer, uint64_t count)
{
	uint64_t offset = chunk->offset + (unit - chunk->first) * 8, bytes = count * 8, end;
	uint64_t chunk_end = chunk->offset + chunk->count * 8;
	size_t length = WINDOW_BYTES, got = 0;
	int error;

	if (bytes > WINDOW_BYTES)
		return read_all(recording->source, offset, buffer, bytes, &end);
	if (offset < recording->window_offset ||
	    offset + bytes > recording->window_offset + recording->window_length) {
		if (length > chunk_end - offset)
			length = chunk_end - offset;
		recording->window_length = 0;
		error = recording->source->read(recording->source->self, offset, recording->window,
						length, &got);
		if (error)
			return error;
		recording->window_offset = offset;
		recording->window_length = got;
		if (got < bytes)
			return VC_E_TRUNCATED;
	}
	memcpy(buffer, recording->window + (offset - recording->window_offset), bytes);
	return 0;
}

static int item_missing(struct vc_recording *recording, enum vc_recording_table table,
			const struct vc_recording_chunk *chunk, uint64_t unit, int error)
{
	uint64_t offset = chunk ? chunk->offset + (unit - chunk->first) * 8 : 0;

	vc_recording_fault(recording, error, vc_recording_table_name(table), offset);
	return error;
}

/* Room for the words that the check of a stack or string covers. */
static uint64_t *item_room(struct vc_recording *recording, uint64_t words)
{
	uint64_t *larger;

	if (words <= recording->item_words)
		return recording->item;
	larger = realloc(recording->item, 2 * words * sizeof(*larger));
	if (!larger)
		return NULL;
	recording->item = larger;
	recording->item_words = 2 * words;
	return larger;
}

/*
 * Reads an item whose head is a check and `head_words` - 1 more words; `head` holds them all, and
 * `count` words follow. What the check covers is then in recording->item.
 */
static int item_rest(struct vc_recording *recording, const struct vc_recording_chunk *chunk,
		     uint64_t unit, const uint64_t *head, uint64_t head_words, uint64_t count)
{
	uint64_t *words;
	int error;

	if (!head[0] || count > chunk->count - (unit - chunk->first) - head_words)
		return VC_E_CORRUPT;
	words = item_room(recording, head_words + count);
	if (!words)
		return VC_E_NO_MEMORY;
	memcpy(words, head + 1, (head_words - 1) * sizeof(*head));
	error = read_units(recording, chunk, unit + head_words, words + head_words - 1, count);
	if (error)
		return error;
	return vc_check_words(words, head_words - 1 + count, unit) == head[0] ? 0 : VC_E_CHECKSUM;
}

static int stack_once(struct vc_recording *recording, const struct vc_recording_chunk *chunk,
		      uint64_t unit, struct vc_recording_stack *ret)
{
	const uint64_t head_words = sizeof(struct vc_stack_head) / 8;
	union {
		struct vc_stack_head head;
		uint64_t words[sizeof(struct vc_stack_head) / 8];
	} read;
	int error;

	if (chunk->count - (unit - chunk->first) < head_words)
		return VC_E_RANGE;
	error = read_units(recording, chunk, unit, &read, head_words);
	if (!error && read.head.count > VC_RECORDING_FRAMES_MAX)
		error = VC_E_CORRUPT;
	if (!error)
		error = item_rest(recording, chunk, unit, read.words, head_words, read.head.count);
	if (error)
		return error;
	ret->count = read.head.count;
	ret->end = read.head.end;
	ret->frames = recording->item + head_words - 1;
	return 0;
}

int vc_recording_stack(struct vc_recording *recording, uint32_t id, struct vc_recording_stack *ret)
{
	const struct vc_recording_chunk *chunk = chunk_of(recording, VC_REC_STACKS, id);
	int error = VC_E_RANGE;

	for (int tries = 0; chunk && tries < READS; tries++) {
		error = stack_once(recording, chunk, id, ret);
		if (!error)
			return 0;
		recording->window_length = 0;
	}
	return item_missing(recording, VC_REC_STACKS, chunk, id, error);
}

static int string_once(struct vc_recording *recording, const struct vc_recording_chunk *chunk,
		       uint64_t unit, const char **ret, size_t *ret_length)
{
	const uint64_t head_words = sizeof(struct vc_string_head) / 8;
	union {
		struct vc_string_head head;
		uint64_t words[sizeof(struct vc_string_head) / 8];
	} read;
	const char *text;
	int error;

	if (chunk->count - (unit - chunk->first) < head_words)
		return VC_E_RANGE;
	error = read_units(recording, chunk, unit, &read, head_words);
	if (!error && read.head.length >= VC_RECORDING_STRING_MAX)
		error = VC_E_CORRUPT;
	if (!error)
		error = item_rest(recording, chunk, unit, read.words, head_words,
				  read.head.length / 8 + 1);
	if (error)
		return error;
	text = (const char *)(recording->item + head_words - 1);
	if (memchr(text, 0, read.head.length) || text[read.head.length])
		return VC_E_CORRUPT;
	*ret = text;
	*ret_length = read.head.length;
	return 0;
}

int vc_recording_string(struct vc_recording *recording, uint32_t id, const char **ret,
			size_t *ret_length)
{
	const struct vc_recording_chunk *chunk = chunk_of(recording, VC_REC_STRINGS, id);
	int error = VC_E_RANGE;

	for (int tries = 0; chunk && tries < READS; tries++) {
		error = string_once(recording, chunk, id, ret, ret_length);
		if (!error)
			return 0;
		recording->window_length = 0;
	}
	return item_missing(recording, VC_REC_STRINGS, chunk, id, error);
}
