/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* renameat2 */
#include "formats/snapshot_write.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "formats/column.h"
#include "formats/container.h"
#include "formats/snapshot_layout.h"

#define LEVEL 3
#define TEMPORARY_TRIES 16

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ELF structs are written as they are");
_Static_assert(VC_TABLES <= VC_CONTAINER_SECTIONS_MAX, "a section for every table");

struct writer {
	const struct vc_tables *tables;
	int descriptor;
	ZSTD_CCtx *context;
	struct vc_column_encoder *encoder;
	struct vc_column_key *key;
	struct vc_buffer group, data, section;
	uint64_t data_start; /* of a group: behind its directory */
};

static int system_fault(struct vc_fault *fault, uint64_t offset)
{
	int error = VC_E_IO;

	if (errno == EEXIST)
		error = VC_E_EXISTS;
	else if (errno == ENOENT || errno == ENOTDIR)
		error = VC_E_NOT_FOUND;
	else if (errno == EACCES || errno == EPERM || errno == EROFS)
		error = VC_E_PERMISSION;
	return vc_fault_set(fault, error, NULL, offset);
}

static int write_all(int descriptor, const uint8_t *bytes, size_t length, uint64_t offset,
		     struct vc_fault *fault)
{
	while (length) {
		ssize_t written = pwrite(descriptor, bytes, length, (off_t)offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			if (!written)
				errno = ENOSPC;
			return system_fault(fault, offset);
		}
		bytes += written;
		length -= (size_t)written;
		offset += (uint64_t)written;
	}
	return 0;
}

/* ---- groups ---- */

static void put_directory(struct writer *writer, unsigned column, enum vc_encoding encoding,
			  uint64_t offset)
{
	const struct vc_column_info *info = &vc_column_info[column];

	vc_buffer_u16(&writer->group, info->number);
	vc_buffer_u8(&writer->group, vc_snapshot_type_number(info->type));
	vc_buffer_u8(&writer->group, (uint8_t)encoding);
	vc_buffer_u32(&writer->group, vc_snapshot_column_flags(column));
	vc_buffer_u64(&writer->group, writer->data_start + offset);
	vc_buffer_u64(&writer->group, writer->data.length - offset);
}

static void put_text(struct writer *writer, uint64_t first, uint64_t rows)
{
	const struct vc_tables *tables = writer->tables;

	for (uint64_t row = first; row < first + rows; row++)
		vc_buffer_varint(&writer->data, vc_tables_text_length(tables, row));
	for (uint64_t row = first; row < first + rows; row++)
		vc_buffer_put(&writer->data, vc_tables_text(tables, row),
			      vc_tables_text_length(tables, row));
}

/* One column of a group: its data, and its entry in the directory. */
static int put_column(struct writer *writer, unsigned column, uint64_t first, uint64_t rows)
{
	const uint64_t *values = writer->tables->column[column];
	const struct vc_column_key *key = NULL;
	uint64_t offset = writer->data.length;
	int by = vc_snapshot_key_column(column), error = 0;
	enum vc_encoding encoding;

	if (vc_column_info[column].type == VC_TYPE_TEXT) {
		put_text(writer, first, rows);
		put_directory(writer, column, VC_ENCODING_TEXT, offset);
		return writer->data.error ? writer->data.error : writer->group.error;
	}
	if (!values)
		return 0;
	if (by >= 0 && writer->tables->column[by]) {
		key = writer->key;
		error = vc_column_key_build(writer->tables->column[by] + first, rows, writer->key);
	}
	if (!error)
		error = vc_column_encode(writer->encoder, values + first, rows, key,
					 key ? vc_column_info[by].number : 0, &writer->data,
					 &encoding);
	if (!error)
		put_directory(writer, column, encoding, offset);
	return error ? error : writer->group.error;
}

/* Columns that others are keyed by stand first in the directory. */
static int put_columns(struct writer *writer, enum vc_table_index table, uint64_t first,
		       uint64_t rows)
{
	const struct vc_table_info *info = &vc_table_info[table];
	int error = 0;

	for (unsigned rank = 0; rank <= VC_SNAPSHOT_KEY_RANKS; rank++)
		for (unsigned i = info->first; !error && i < vc_table_end(table); i++)
			if (vc_snapshot_key_rank(i) == rank)
				error = put_column(writer, i, first, rows);
	return error;
}

static unsigned columns_present(const struct vc_tables *tables, enum vc_table_index table)
{
	const struct vc_table_info *info = &vc_table_info[table];
	unsigned present = 0;

	for (unsigned i = info->first; i < vc_table_end(table); i++)
		present += tables->column[i] || vc_column_info[i].type == VC_TYPE_TEXT;
	return present;
}

static int put_frame(struct writer *writer)
{
	size_t bound = ZSTD_compressBound(writer->group.length), bytes;
	uint8_t *room = vc_buffer_room(&writer->section, bound);

	if (!room)
		return VC_E_NO_MEMORY;
	bytes = ZSTD_compress2(writer->context, room, bound, writer->group.bytes,
			       writer->group.length);
	if (ZSTD_isError(bytes))
		return VC_E_COMPRESSION;
	writer->section.length -= bound - bytes;
	return 0;
}

/* Appends one group as a frame to the section; gives its length before compression. */
static int put_group(struct writer *writer, enum vc_table_index table, uint64_t first,
		     uint64_t rows, uint64_t *ret)
{
	unsigned columns = columns_present(writer->tables, table);
	int error;

	writer->group.length = writer->data.length = 0;
	writer->data_start = VC_SNAPSHOT_GROUP_HEAD_BYTES +
			     (uint64_t)columns * VC_SNAPSHOT_DIRECTORY_BYTES;
	vc_buffer_u64(&writer->group, first);
	vc_buffer_u32(&writer->group, (uint32_t)rows);
	vc_buffer_u32(&writer->group, columns);
	error = put_columns(writer, table, first, rows);
	if (error)
		return error;
	vc_buffer_put(&writer->group, writer->data.bytes, writer->data.length);
	if (writer->group.error)
		return writer->group.error;
	if (writer->group.length > VC_SNAPSHOT_GROUP_BYTES_MAX)
		return VC_E_LIMIT;
	error = put_frame(writer);
	if (!error)
		*ret = writer->group.length;
	return error;
}

/* Rows of the group that begins with `first`: fewer where strings are long. */
static uint64_t group_rows(const struct vc_tables *tables, enum vc_table_index table,
			   uint64_t first)
{
	uint64_t left = tables->rows[table] - first, bytes = 0;
	uint64_t rows = left < VC_GROUP_ROWS ? left : VC_GROUP_ROWS;

	if (table != VC_TABLE_strings)
		return rows;
	for (uint64_t row = 0; row < rows; row++) {
		bytes += vc_tables_text_length(tables, first + row);
		if (row && bytes > VC_SNAPSHOT_STRING_MAX)
			return row;
	}
	return rows;
}

static int put_section(struct writer *writer, enum vc_table_index table, uint64_t offset,
		       struct vc_container_section *ret, struct vc_fault *fault)
{
	const struct vc_table_info *info = &vc_table_info[table];
	Elf64_Chdr header = {.ch_type = VC_ELFCOMPRESS_ZSTD, .ch_addralign = 1};
	uint64_t rows = writer->tables->rows[table], first = 0, count, bytes;
	int error;

	writer->section.length = 0;
	vc_buffer_put(&writer->section, &header, sizeof(header));
	do { /* a table without rows has one group without rows */
		count = group_rows(writer->tables, table, first);
		error = put_group(writer, table, first, count, &bytes);
		if (error)
			return vc_fault_set(fault, error, info->section, offset);
		header.ch_size += bytes;
		first += count;
	} while (first < rows);
	memcpy(writer->section.bytes, &header, sizeof(header));
	error = write_all(writer->descriptor, writer->section.bytes, writer->section.length, offset,
			  fault);
	if (error)
		return error;
	snprintf(ret->name, sizeof(ret->name), "%s", info->section);
	ret->offset = offset;
	ret->bytes = writer->section.length;
	ret->rows = rows;
	ret->hash = XXH64(writer->section.bytes, writer->section.length, 0);
	return 0;
}

/* ---- the file ---- */

static void copy_text(char *to, size_t size, const struct vc_tables *tables, unsigned column)
{
	const uint64_t *values = tables->column[column];

	if (values)
		snprintf(to, size, "%s", vc_tables_text(tables, values[0]));
}

static uint64_t process_number(const struct vc_tables *tables, unsigned column)
{
	return tables->column[column] ? tables->column[column][0] : 0;
}

static void fill_front(const struct vc_tables *tables, struct vc_container_front *front)
{
	front->time = process_number(tables, VC_COL_process_snapshot_time);
	front->number = process_number(tables, VC_COL_process_number);
	front->step = process_number(tables, VC_COL_process_step);
	front->steps_known = process_number(tables, VC_COL_process_steps_known);
	front->pid = process_number(tables, VC_COL_process_pid);
	front->rank_plus_one = process_number(tables, VC_COL_process_rank_plus_one);
	front->devices = tables->rows[VC_TABLE_devices];
	copy_text(front->host, sizeof(front->host), tables, VC_COL_process_host);
	copy_text(front->moment, sizeof(front->moment), tables, VC_COL_process_moment);
	copy_text(front->trigger, sizeof(front->trigger), tables, VC_COL_process_trigger);
}

/* Numbers in a table and bytes of its strings: how much a cut file loses with it. */
static uint64_t table_weight(const struct vc_tables *tables, enum vc_table_index table)
{
	uint64_t weight = tables->rows[table] * vc_table_info[table].columns * 8;

	return table == VC_TABLE_strings ? tables->text_bytes : weight;
}

/* Small tables first: what a file that was cut still holds. */
static void order_tables(const struct vc_tables *tables, enum vc_table_index *order)
{
	for (unsigned i = 0; i < VC_TABLES; i++) {
		unsigned at = i;

		for (; at && table_weight(tables, order[at - 1]) >
				     table_weight(tables, (enum vc_table_index)i);
		     at--)
			order[at] = order[at - 1];
		order[at] = (enum vc_table_index)i;
	}
}

static int check_limits(const struct vc_tables *tables, struct vc_fault *fault)
{
	int error = vc_tables_check(tables, fault);

	for (unsigned table = 0; !error && table < VC_TABLES; table++)
		if (tables->rows[table] > VC_SNAPSHOT_ROWS_MAX)
			error = vc_fault_set(fault, VC_E_LIMIT, vc_table_info[table].section, 0);
	for (uint64_t row = 0; !error && row < tables->rows[VC_TABLE_strings]; row++)
		if (vc_tables_text_length(tables, row) > VC_SNAPSHOT_STRING_MAX)
			error = vc_fault_set(fault, VC_E_LIMIT,
					     vc_table_info[VC_TABLE_strings].section, 0);
	return error;
}

static int write_file(struct writer *writer, struct vc_fault *fault)
{
	struct vc_container_front front = {.sections = VC_TABLES};
	enum vc_table_index order[VC_TABLES];
	struct vc_buffer bytes = {0};
	uint64_t offset;
	int error;

	order_tables(writer->tables, order);
	fill_front(writer->tables, &front);
	for (unsigned i = 0; i < VC_TABLES; i++)
		snprintf(front.section[i].name, sizeof(front.section[i].name), "%s",
			 vc_table_info[order[i]].section);
	error = vc_container_front_build(&front, &bytes); /* for its length */
	if (error)
		goto out;
	offset = bytes.length;
	for (unsigned i = 0; i < VC_TABLES; i++) {
		offset = (offset + VC_CONTAINER_ALIGNMENT - 1) &
			 ~(uint64_t)(VC_CONTAINER_ALIGNMENT - 1);
		error = put_section(writer, order[i], offset, &front.section[i], fault);
		if (error)
			goto done;
		offset += front.section[i].bytes;
	}
	front.file_bytes = offset;
	bytes.length = 0;
	error = vc_container_front_build(&front, &bytes);
	if (!error) {
		error = write_all(writer->descriptor, bytes.bytes, bytes.length, 0, fault);
		goto done;
	}
out:
	vc_fault_set(fault, error, VC_CONTAINER_FRONT, 0);
done:
	vc_buffer_deinit(&bytes);
	return error;
}

int vc_snapshot_write_descriptor(int descriptor, const struct vc_tables *tables,
				 struct vc_fault *fault)
{
	struct writer writer = {.tables = tables, .descriptor = descriptor};
	int error = check_limits(tables, fault);

	if (error)
		return error;
	writer.context = ZSTD_createCCtx();
	writer.key = malloc(sizeof(*writer.key));
	if (!writer.context || !writer.key || vc_column_encoder_create(&writer.encoder)) {
		error = vc_fault_set(fault, VC_E_NO_MEMORY, NULL, 0);
		goto out;
	}
	ZSTD_CCtx_setParameter(writer.context, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(writer.context, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setParameter(writer.context, ZSTD_c_contentSizeFlag, 1);
	error = write_file(&writer, fault);
out:
	vc_column_encoder_destroy(writer.encoder);
	free(writer.key);
	ZSTD_freeCCtx(writer.context);
	vc_buffer_deinit(&writer.group);
	vc_buffer_deinit(&writer.data);
	vc_buffer_deinit(&writer.section);
	return error;
}

/* ---- names ---- */

/* A new file beside `path`; *ret is its name, to be freed. */
static int open_temporary(const char *path, char **ret, struct vc_fault *fault)
{
	size_t size = strlen(path) + 32;
	char *name = malloc(size);
	int descriptor = -1;

	if (!name)
		return vc_fault_set(fault, VC_E_NO_MEMORY, NULL, 0);
	for (unsigned i = 0; i < TEMPORARY_TRIES && descriptor < 0; i++) {
		uint64_t number = 0;

		if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
			number = ((uint64_t)getpid() << 32) + i;
		snprintf(name, size, "%s.%016llx.part", path, (unsigned long long)number);
		descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (descriptor < 0 && errno != EEXIST)
			break;
	}
	if (descriptor < 0) {
		int error = system_fault(fault, 0);

		free(name);
		return error;
	}
	*ret = name;
	return descriptor;
}

/* Gives a file its name; never takes that of another one. */
static int publish(const char *from, const char *to, struct vc_fault *fault)
{
	int placeholder;

	if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return system_fault(fault, 0);
	/* A file system that cannot do it in one step: reserve the name, then rename onto it. */
	placeholder = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (placeholder < 0)
		return system_fault(fault, 0);
	close(placeholder);
	if (rename(from, to)) {
		int error = system_fault(fault, 0);

		unlink(to);
		return error;
	}
	return 0;
}

/* So that the name outlives a crash of the machine. A folder that cannot be synced is no error. */
static void sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	int descriptor;

	if (!folder)
		return;
	descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (descriptor >= 0) {
		fsync(descriptor);
		close(descriptor);
	}
	free(folder);
}

int vc_snapshot_write(const char *path, const struct vc_tables *tables, struct vc_fault *fault)
{
	struct stat status;
	char *name = NULL;
	int descriptor, error;

	if (!lstat(path, &status)) {
		errno = EEXIST;
		return system_fault(fault, 0);
	}
	descriptor = open_temporary(path, &name, fault);
	if (descriptor < 0)
		return descriptor;
	error = vc_snapshot_write_descriptor(descriptor, tables, fault);
	if (!error && fsync(descriptor))
		error = system_fault(fault, 0);
	if (close(descriptor) && !error)
		error = system_fault(fault, 0);
	if (!error)
		error = publish(name, path, fault);
	if (error)
		unlink(name);
	else
		sync_folder(path);
	free(name);
	return error;
}
