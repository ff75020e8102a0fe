/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
#include "formats/snapshot_read.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "formats/snapshot_group.h"
#include "formats/snapshot_layout.h"

/* Times the reader looks for the next frame behind a damaged one. */
#define RESYNC_MAX 256u
#define FIRST_BYTES 4096u

/* Where the bytes come from: memory, or a descriptor. */
struct source {
	const uint8_t *memory;
	int descriptor;
	uint64_t length;
};

struct reader {
	struct source source;
	struct vc_container_front front;
	struct vc_faults *faults;
	struct vc_faults local_faults; /* where the caller wants none */
	struct vc_group_reader groups;
	struct vc_tables tables;
	uint64_t decoded_left; /* bytes that may still be read and decoded */
	ZSTD_DCtx *context;
	struct vc_buffer section, group;
	bool seen[VC_TABLES];
};

bool vc_snapshot_probe(const void *bytes, size_t length)
{
	return vc_container_probe(bytes, length);
}

static void add_fault(struct reader *reader, int error, const char *section, uint64_t offset)
{
	struct vc_fault fault;

	vc_fault_set(&fault, error, section, offset);
	vc_faults_add(reader->faults, &fault);
}

/* ---- bytes ---- */

/*
 * `length` bytes at `offset`, which lie inside the source: a pointer into memory, or to *buffer.
 * A file that became shorter since is VC_E_UNSTABLE.
 */
static int get_bytes(const struct source *source, uint64_t offset, uint64_t length,
		     struct vc_buffer *buffer, const uint8_t **ret)
{
	uint64_t done = 0;
	uint8_t *room;

	if (source->memory) {
		*ret = source->memory + offset;
		return 0;
	}
	buffer->length = 0;
	room = vc_buffer_room(buffer, length);
	if (!room) {
		buffer->error = 0;
		return VC_E_NO_MEMORY;
	}
	while (done < length) {
		ssize_t count = pread(source->descriptor, room + done, length - done,
				      (off_t)(offset + done));

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return VC_E_IO;
		if (!count)
			return VC_E_UNSTABLE;
		done += (uint64_t)count;
	}
	*ret = buffer->bytes;
	return 0;
}

static int read_front(const struct source *source, struct vc_container_front *ret,
		      struct vc_faults *faults)
{
	uint64_t length = source->length < FIRST_BYTES ? source->length : FIRST_BYTES;
	uint64_t front_bytes;
	struct vc_buffer buffer = {0};
	const uint8_t *bytes = NULL;
	struct vc_fault fault;
	int error = get_bytes(source, 0, length, &buffer, &bytes);

	/* The front may be longer than what was read first. */
	if (!error && (vc_container_front_find(bytes, length, &front_bytes, &fault) ||
		       front_bytes > length)) {
		length = source->length < VC_CONTAINER_FRONT_MAX ? source->length :
								   VC_CONTAINER_FRONT_MAX;
		error = get_bytes(source, 0, length, &buffer, &bytes);
	}
	if (error) {
		vc_fault_set(&fault, error, VC_CONTAINER_FRONT, 0);
		vc_faults_add(faults, &fault);
	} else {
		error = vc_container_front_parse(bytes, length, ret, faults);
	}
	vc_buffer_deinit(&buffer);
	return error;
}

/* ---- frames ---- */

/* Decodes one frame into reader->group. Lengths that the frame claims are bounded first. */
static int decode_frame(struct reader *reader, const uint8_t *bytes, size_t frame_bytes)
{
	unsigned long long claimed = ZSTD_getFrameContentSize(bytes, frame_bytes);
	uint8_t *room;
	size_t length;

	if (claimed == ZSTD_CONTENTSIZE_UNKNOWN || claimed == ZSTD_CONTENTSIZE_ERROR)
		return VC_E_COMPRESSION;
	if (claimed > VC_SNAPSHOT_GROUP_BYTES_MAX || claimed > reader->decoded_left)
		return VC_E_LIMIT;
	reader->decoded_left -= claimed;
	reader->group.length = 0;
	room = vc_buffer_room(&reader->group, claimed + 1);
	if (!room) {
		reader->group.error = 0;
		return VC_E_NO_MEMORY;
	}
	length = ZSTD_decompressDCtx(reader->context, room, claimed, bytes, frame_bytes);
	if (ZSTD_isError(length) || length != claimed)
		return VC_E_COMPRESSION;
	reader->group.length = length;
	return 0;
}

/* Position of the next thing that begins like a frame, or `length`. */
static size_t find_frame(const uint8_t *bytes, size_t length, size_t from)
{
	static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
	const uint8_t *found = NULL;

	if (from < length)
		found = memmem(bytes + from, length - from, magic, sizeof(magic));
	return found ? (size_t)(found - bytes) : length;
}

/* What loading a section came to. */
struct progress {
	int error;        /* first error, 0: none */
	uint64_t offset;  /* in the file, of the first error */
	uint64_t decoded; /* bytes before compression */
};

static void note_error(struct progress *progress, int error, uint64_t offset)
{
	if (progress->error)
		return;
	progress->error = error;
	progress->offset = offset;
}

/*
 * Loads the groups of a section, of which `length` bytes are there. In a damaged one the reader
 * goes on behind a frame that is broken, if it finds another one.
 */
static void load_groups(struct reader *reader, const struct vc_container_section *section,
			enum vc_table_index table, const uint8_t *bytes, size_t length,
			bool damaged, struct progress *progress)
{
	size_t at = sizeof(Elf64_Chdr);
	unsigned resyncs = 0;

	while (at < length) {
		size_t frame = ZSTD_findFrameCompressedSize(bytes + at, length - at);
		int error;

		if (ZSTD_isError(frame))
			error = length < section->bytes ? VC_E_TRUNCATED : VC_E_COMPRESSION;
		else
			error = decode_frame(reader, bytes + at, frame);
		if (!error) {
			error = vc_group_read(&reader->groups, table, reader->group.bytes,
					      reader->group.length, section->rows,
					      damaged || progress->error);
			progress->decoded += reader->group.length;
		}
		if (!error) {
			at += frame;
			continue;
		}
		note_error(progress, error, section->offset + at);
		if (!damaged || error == VC_E_NO_MEMORY || error == VC_E_LIMIT ||
		    ++resyncs > RESYNC_MAX)
			return;
		at = find_frame(bytes, length, at + 1);
	}
}

/* ---- sections ---- */

static int find_table(const char *name)
{
	for (int i = 0; i < VC_TABLES; i++)
		if (!strcmp(vc_table_info[i].section, name))
			return i;
	return -1;
}

static bool table_wanted(const struct vc_tables *tables, int table)
{
	const struct vc_table_info *info = &vc_table_info[table];
	bool wanted = table == VC_TABLE_strings;

	for (unsigned i = info->first; i < vc_table_end((enum vc_table_index)table); i++)
		wanted |= tables->column[i] != NULL;
	return wanted;
}

static void check_chdr(const struct vc_container_section *section, const uint8_t *bytes,
		       struct progress *progress)
{
	Elf64_Chdr header;

	memcpy(&header, bytes, sizeof(header));
	if (header.ch_type != VC_ELFCOMPRESS_ZSTD || header.ch_reserved ||
	    header.ch_addralign != 1 || header.ch_size != progress->decoded)
		note_error(progress, VC_E_CORRUPT, section->offset);
}

/* One section: verified, and loaded where its table is wanted. `length` bytes of it are there. */
static void load_section(struct reader *reader, const struct vc_container_section *section,
			 uint64_t length)
{
	int table = find_table(section->name);
	struct progress progress = {0};
	const uint8_t *bytes = NULL;
	bool damaged;
	int error;

	if (length > reader->decoded_left) {
		add_fault(reader, VC_E_LIMIT, section->name, section->offset);
		return;
	}
	reader->decoded_left -= length; /* a sparse file is long for nothing */
	error = get_bytes(&reader->source, section->offset, length, &reader->section, &bytes);
	if (error) {
		add_fault(reader, error, section->name, section->offset);
		return;
	}
	damaged = length < section->bytes || XXH64(bytes, length, 0) != section->hash;
	if (table >= 0 && reader->seen[table]) {
		add_fault(reader, VC_E_CORRUPT, section->name, section->offset);
		return;
	}
	if (table >= 0)
		reader->seen[table] = true;
	if (table >= 0 && table_wanted(&reader->tables, table)) {
		load_groups(reader, section, (enum vc_table_index)table, bytes, length, damaged,
			    &progress);
		if (length < sizeof(Elf64_Chdr))
			note_error(&progress, VC_E_CORRUPT, section->offset);
		else if (!progress.error && !damaged)
			check_chdr(section, bytes, &progress);
		if (!progress.error && reader->tables.rows[table] != section->rows)
			note_error(&progress, VC_E_CORRUPT, section->offset);
	}
	if (length < section->bytes)
		add_fault(reader, VC_E_TRUNCATED, section->name, section->offset + length);
	else if (damaged)
		add_fault(reader, VC_E_CHECKSUM, section->name,
			  progress.error ? progress.offset : section->offset);
	else if (progress.error)
		add_fault(reader, progress.error, section->name, progress.offset);
}

/* Between sections lie at most seven bytes, all zero, so that no byte goes unverified. */
static void check_gap(struct reader *reader, uint64_t from, uint64_t to, const char *name)
{
	const uint8_t *bytes = NULL;
	int error;

	if (to > reader->source.length)
		to = reader->source.length;
	if (to <= from)
		return;
	if (to - from >= VC_CONTAINER_ALIGNMENT) {
		add_fault(reader, VC_E_CORRUPT, name, from);
		return;
	}
	error = get_bytes(&reader->source, from, to - from, &reader->section, &bytes);
	for (uint64_t i = 0; !error && i < to - from; i++)
		if (bytes[i]) {
			error = VC_E_CORRUPT;
			from += i;
		}
	if (error)
		add_fault(reader, error, name, from);
}

static void load_sections(struct reader *reader)
{
	const struct vc_container_front *front = &reader->front;
	uint64_t length = reader->source.length, end = front->front_bytes;

	for (unsigned i = 0; i < front->sections; i++) {
		const struct vc_container_section *section = &front->section[i];
		uint64_t there = 0;

		check_gap(reader, end, section->offset, section->name);
		end = section->offset + section->bytes;
		if (section->offset < length)
			there = length - section->offset;
		if (there >= section->bytes)
			there = section->bytes;
		else if (!there) {
			int table = find_table(section->name);

			if (table >= 0)
				reader->seen[table] = true;
			add_fault(reader, VC_E_TRUNCATED, section->name, length);
			continue;
		}
		load_section(reader, section, there);
	}
	check_gap(reader, end, front->file_bytes, VC_CONTAINER_FRONT);
	if (length > front->file_bytes)
		add_fault(reader, VC_E_CORRUPT, VC_CONTAINER_FRONT, front->file_bytes);
	/* Tables that later versions added may be missing; these two never are. */
	if (!reader->seen[VC_TABLE_strings])
		add_fault(reader, VC_E_MISSING_TABLE, vc_table_info[VC_TABLE_strings].section, 0);
	if (!reader->seen[VC_TABLE_process])
		add_fault(reader, VC_E_MISSING_TABLE, vc_table_info[VC_TABLE_process].section, 0);
}

/* ---- the whole file ---- */

static void drop_columns(struct vc_tables *tables, const struct vc_snapshot_options *options)
{
	if (!options || !options->some_columns)
		return;
	for (unsigned i = 0; i < VC_COLUMNS; i++) {
		if (options->columns[i / 64] >> i % 64 & 1)
			continue;
		free(tables->column[i]);
		tables->column[i] = NULL;
	}
}

static int reader_init(struct reader *reader, const struct vc_snapshot_options *options)
{
	uint64_t rows_max = VC_SNAPSHOT_READ_ROWS_MAX, bytes_max = VC_SNAPSHOT_READ_BYTES_MAX;
	int error = vc_tables_init(&reader->tables);

	if (options && options->rows_max)
		rows_max = options->rows_max;
	if (options && options->bytes_max)
		bytes_max = options->bytes_max;
	if (error)
		return error;
	reader->decoded_left = bytes_max;
	drop_columns(&reader->tables, options);
	/* The strings come from the file, "" too. */
	reader->tables.rows[VC_TABLE_strings] = 0;
	reader->tables.text_bytes = 0;
	reader->context = ZSTD_createDCtx();
	if (!reader->context)
		return VC_E_NO_MEMORY;
	return vc_group_reader_init(&reader->groups, &reader->tables, rows_max, bytes_max);
}

static void reader_deinit(struct reader *reader)
{
	vc_group_reader_deinit(&reader->groups);
	ZSTD_freeDCtx(reader->context);
	vc_buffer_deinit(&reader->section);
	vc_buffer_deinit(&reader->group);
	vc_tables_deinit(&reader->tables);
}

/* Faults of references get the place of the section they stand in. */
static void place_faults(struct reader *reader, const struct vc_faults *faults)
{
	for (uint64_t i = 0; i < faults->count && i < VC_FAULTS_KEPT; i++) {
		struct vc_fault fault = faults->kept[i];

		for (unsigned k = 0; k < reader->front.sections; k++)
			if (!strcmp(reader->front.section[k].name, fault.section))
				fault.offset = reader->front.section[k].offset;
		vc_faults_add(reader->faults, &fault);
	}
}

/* References may dangle where tables were damaged, and in a file that was made to deceive. */
static int check_references(struct reader *reader)
{
	struct vc_faults faults = {0};
	int error;

	if (!vc_tables_check(&reader->tables, NULL))
		return 0;
	error = vc_tables_repair(&reader->tables, &faults);
	place_faults(reader, &faults);
	if (!error)
		error = vc_tables_check(&reader->tables, NULL);
	return error;
}

static int read_source(const struct source *source, const struct vc_snapshot_options *options,
		       struct vc_tables *ret, struct vc_faults *faults)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int error;

	if (!reader)
		return VC_E_NO_MEMORY;
	reader->source = *source;
	reader->faults = faults ? faults : &reader->local_faults;
	error = read_front(source, &reader->front, reader->faults);
	if (error)
		goto out;
	error = reader_init(reader, options);
	if (!error) {
		load_sections(reader);
		error = check_references(reader);
	}
	if (error) {
		add_fault(reader, error, NULL, 0);
		goto out;
	}
	*ret = reader->tables;
	memset(&reader->tables, 0, sizeof(reader->tables));
out:
	reader_deinit(reader);
	free(reader);
	return error;
}

static int source_from_descriptor(int descriptor, struct source *ret, struct vc_fault *fault)
{
	struct stat status;

	if (fstat(descriptor, &status))
		return vc_fault_set(fault, VC_E_IO, NULL, 0);
	if (!S_ISREG(status.st_mode))
		return vc_fault_set(fault, VC_E_NOT_OURS, NULL, 0);
	ret->memory = NULL;
	ret->descriptor = descriptor;
	ret->length = (uint64_t)status.st_size;
	return 0;
}

static int open_source(const char *path, struct source *ret, struct vc_fault *fault)
{
	/* Not blocking: the path may name a pipe that nobody writes to. */
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;

	if (descriptor < 0) {
		error = VC_E_IO;
		if (errno == ENOENT || errno == ENOTDIR)
			error = VC_E_NOT_FOUND;
		else if (errno == EACCES || errno == EPERM)
			error = VC_E_PERMISSION;
		return vc_fault_set(fault, error, NULL, 0);
	}
	error = source_from_descriptor(descriptor, ret, fault);
	if (error)
		close(descriptor);
	return error;
}

int vc_snapshot_read_descriptor(int descriptor, const struct vc_snapshot_options *options,
				struct vc_tables *ret, struct vc_faults *faults)
{
	struct source source = {.descriptor = -1};
	struct vc_fault fault;
	int error = source_from_descriptor(descriptor, &source, &fault);

	if (error) {
		vc_faults_add(faults, &fault);
		return error;
	}
	return read_source(&source, options, ret, faults);
}

int vc_snapshot_read(const char *path, const struct vc_snapshot_options *options,
		     struct vc_tables *ret, struct vc_faults *faults)
{
	struct source source = {.descriptor = -1};
	struct vc_fault fault;
	int error = open_source(path, &source, &fault);

	if (error) {
		vc_faults_add(faults, &fault);
		return error;
	}
	error = read_source(&source, options, ret, faults);
	close(source.descriptor);
	return error;
}

int vc_snapshot_read_memory(const void *bytes, size_t length,
			    const struct vc_snapshot_options *options, struct vc_tables *ret,
			    struct vc_faults *faults)
{
	static const uint8_t nothing;
	struct source source = {
		.memory = length ? bytes : &nothing, .descriptor = -1, .length = length,
	};

	return read_source(&source, options, ret, faults);
}

int vc_snapshot_read_front(const char *path, struct vc_container_front *ret,
			   struct vc_faults *faults)
{
	struct source source = {.descriptor = -1};
	struct vc_fault fault;
	int error = open_source(path, &source, &fault);

	if (error) {
		vc_faults_add(faults, &fault);
		return error;
	}
	error = read_front(&source, ret, faults);
	close(source.descriptor);
	return error;
}
