/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "capture/inside/atomic.h"
#include "capture/inside/space.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"
#include "capture/inside/text.h"
#include "capture/inside/walk_file.h"

#define PAGE 4096u
#define PIECE (64u << 10)
#define TRIES 1000

/* One copy at a time; the agent and the exiting thread never run it together. */
static struct {
	int descriptor;
	uint64_t limit;              /* of the program's files: a write past it raises a signal */
	uint64_t written;
	uint8_t *buffer;             /* VC_ROOT_BYTES + PIECE */
	bool copied[VC_ROOT_CHUNKS];
} copy;

static const struct vc_chunk *chunk_at(const struct vc_root *root, uint32_t i)
{
	return __atomic_load_n(&root->chunk[i].check, __ATOMIC_ACQUIRE) ? &root->chunk[i] : NULL;
}

const struct vc_moment_row *vc_copy_moment(uint32_t row)
{
	const struct vc_moment_row *moment =
		vc_store_root() ? vc_space_at(VC_REC_MOMENTS, row) : NULL;

	return moment && __atomic_load_n(&moment->check, __ATOMIC_ACQUIRE) ? moment : NULL;
}

static bool all_zero(const uint8_t *bytes, size_t length)
{
	const uint64_t *word = (const uint64_t *)bytes;

	for (size_t i = 0; i < length / 8; i++)
		if (word[i])
			return false;
	return true;
}

/* Pages that are all zero stay holes. */
static int put(const uint8_t *bytes, size_t length, uint64_t offset)
{
	for (size_t at = 0; at < length; at += PAGE) {
		size_t part = length - at < PAGE ? length - at : PAGE;
		long done;

		if (all_zero(bytes + at, part))
			continue;
		if (offset + at + part > copy.limit)
			return -EFBIG;
		done = vc_sys_pwrite(copy.descriptor, bytes + at, part, offset + at);
		if (done != (long)part)
			return done < 0 ? (int)done : -ENOSPC;
		copy.written += part;
	}
	return 0;
}

/* What others write to meanwhile is taken word by word, each of them whole. */
static void take_words(void *to, const void *from, size_t length)
{
	vc_get_words(to, from, length / 8);
}

/* A record as it stood at one instant: the state word frames the fields, the check proves them. */
static void take_record(struct vc_record *ret, const struct vc_record *record)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);

		take_words(ret, record, sizeof(*ret));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		ret->state = state;
		if (state == __atomic_load_n(&record->state, __ATOMIC_RELAXED) &&
		    (vc_state_of(state) == VC_RECORD_EMPTY ||
		     ret->check == vc_check_words(&ret->address, VC_RECORD_CHECKED_WORDS,
						  vc_state_number(state))))
			return;
	}
}

static void take_freed(struct vc_freed *ret, const struct vc_freed *entry)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t sequence = __atomic_load_n(&entry->sequence, __ATOMIC_ACQUIRE);

		take_words(ret, entry, sizeof(*ret));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		ret->sequence = sequence;
		if (sequence == __atomic_load_n(&entry->sequence, __ATOMIC_RELAXED) &&
		    !(vc_word_value(sequence) & 1))
			return;
	}
}

static size_t item_bytes(uint64_t table)
{
	return table == VC_REC_RECORDS ? sizeof(struct vc_record) :
	       table == VC_REC_FREED   ? sizeof(struct vc_freed) :
					 0;
}

/* The piece of a chunk that starts at `at`, into the buffer; gives its length. */
static size_t take_piece(const struct vc_chunk *chunk, uint64_t at, uint8_t *to)
{
	const uint8_t *from = (const uint8_t *)chunk->address;
	size_t item = item_bytes(chunk->table), length = chunk->bytes - at;
	/* whole items, so that each is taken at one instant */
	size_t most = item ? PIECE / item * item : PIECE;

	if (length > most)
		length = most;
	if (!item) {
		take_words(to, from + at, length);
		return length;
	}
	for (size_t i = 0; i + item <= length; i += item) {
		if (chunk->table == VC_REC_RECORDS)
			take_record((struct vc_record *)(to + i),
				    (const struct vc_record *)(from + at + i));
		else
			take_freed((struct vc_freed *)(to + i), (const struct vc_freed *)(from + at + i));
	}
	if (length % item)
		memset(to + length / item * item, 0, length % item);
	return length;
}

static int put_chunk(const struct vc_chunk *chunk)
{
	uint8_t *piece = copy.buffer + VC_ROOT_BYTES;

	for (uint64_t at = 0; at < chunk->bytes;) {
		size_t length = take_piece(chunk, at, piece);
		int error = put(piece, length, chunk->offset + at);

		if (error)
			return error;
		at += length;
	}
	return 0;
}

/*
 * Records first, then the freed ring, then what both refer to: what moves meanwhile only moves
 * towards what is copied later. The root comes last and lists the chunks that were copied.
 */
static int put_chunks(const struct vc_root *root)
{
	for (uint64_t table = VC_REC_RECORDS; table < VC_REC_TABLES; table++)
		for (uint32_t i = 0; i < VC_ROOT_CHUNKS; i++) {
			const struct vc_chunk *chunk = chunk_at(root, i);
			int error;

			if (!chunk || chunk->table != table)
				continue;
			error = put_chunk(chunk);
			if (error)
				return error;
			copy.copied[i] = true;
		}
	return 0;
}

static int put_root(const struct vc_root *root, uint32_t row)
{
	struct vc_root *image = (struct vc_root *)copy.buffer;

	take_words(image, root, VC_ROOT_BYTES);
	image->copied_moment = vc_word((uint64_t)row + 1);
	for (uint32_t i = 0; i < VC_ROOT_CHUNKS; i++)
		if (!copy.copied[i])
			memset(&image->chunk[i], 0, sizeof(image->chunk[i]));
	return put(copy.buffer, VC_ROOT_BYTES, 0);
}

static void name_copy(struct vc_text *text, const struct vc_root *root,
		      const struct vc_moment_row *moment)
{
	const char *host = vc_store_text((uint32_t)vc_word_value(root->host));

	vc_text_add(text, *host ? host : "localhost");
	vc_text_character(text, '.');
	if (root->fixed.rank_plus_one)
		vc_text_number(text, root->fixed.rank_plus_one - 1);
	else
		vc_text_character(text, '-');
	vc_text_character(text, '.');
	vc_text_number(text, root->fixed.pid);
	vc_text_add(text, ".step");
	vc_text_number(text, moment->step);
	vc_text_character(text, '.');
	vc_text_add(text, vc_store_text(moment->trigger));
}

/*
 * The walk file that goes with the moment, from beside the recording to beside the copy: what cannot
 * be had is missing there, as it would be where the interpreter had not been asked.
 */
static void take_walk(const char *path, uint32_t walk_plus_one)
{
	char from[1400], to[1400];
	int source, target;
	long got = 0, put_bytes = 0;

	if (!walk_plus_one || !vc_walk_path(vc_store_path(), walk_plus_one, from, sizeof(from)) ||
	    !vc_walk_path(path, walk_plus_one, to, sizeof(to)))
		return;
	source = vc_sys_open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
	target = source < 0 ? -1 : vc_sys_open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
						   O_CLOEXEC, 0600);
	while (target >= 0 && put_bytes == got &&
	       (got = vc_sys_read(source, copy.buffer + VC_ROOT_BYTES, PIECE)) > 0) {
		copy.written += (uint64_t)got;
		put_bytes = copy.written <= copy.limit ?
				    vc_sys_write(target, copy.buffer + VC_ROOT_BYTES, (size_t)got) :
				    -EFBIG;
	}
	if (target >= 0) {
		vc_sys_close(target);
		if (got)
			vc_sys_unlink(to);
	}
	if (source >= 0)
		vc_sys_close(source);
	vc_sys_unlink(from);
}

static int give_name(const char *temporary, const char *folder, const struct vc_root *root,
		     const struct vc_moment_row *moment)
{
	int error = -EEXIST;

	for (uint64_t i = 1; error == -EEXIST && i < 1000; i++) {
		char path[1400];
		struct vc_text text = vc_text_in(path, sizeof(path));

		vc_text_add(&text, folder);
		vc_text_character(&text, '/');
		name_copy(&text, root, moment);
		if (i > 1) {
			vc_text_character(&text, '.');
			vc_text_number(&text, i);
		}
		vc_text_add(&text, ".vrec");
		error = text.cut ? -ENAMETOOLONG : vc_sys_link(temporary, path);
		if (!error)
			take_walk(path, moment->walk_plus_one);
	}
	vc_sys_unlink(temporary);
	return error;
}

/* Makes a folder, with those above it. */
static void make_folder(const char *folder)
{
	char path[1400];
	struct vc_text text = vc_text_in(path, sizeof(path));

	if (vc_sys_mkdir(folder, 0700) != -ENOENT)
		return;
	vc_text_add(&text, folder);
	for (size_t i = 1; !text.cut && path[i]; i++) {
		if (path[i] != '/')
			continue;
		path[i] = '\0';
		vc_sys_mkdir(path, 0700);
		path[i] = '/';
	}
	vc_sys_mkdir(folder, 0700);
}

static int open_temporary(const char *folder, const struct vc_root *root, struct vc_text *text)
{
	make_folder(folder);
	vc_text_add(text, folder);
	vc_text_add(text, "/.vramcore-");
	vc_text_number(text, root->fixed.pid);
	vc_text_character(text, '-');
	vc_text_hexadecimal(text, vc_store_time(), 16);
	if (text->cut)
		return -ENAMETOOLONG;
	return vc_sys_open(text->buffer, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static uint64_t file_limit(void)
{
	struct rlimit limit;

	if (vc_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0) < 0 ||
	    limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

int vc_copy_write(const char *folder, uint32_t row, uint64_t *ret_bytes)
{
	const struct vc_root *root = vc_store_root();
	const struct vc_moment_row *moment = vc_copy_moment(row);
	char path[1400];
	struct vc_text text = vc_text_in(path, sizeof(path));
	uint64_t bytes;
	int error;

	if (!moment)
		return -ENOENT;
	if (!copy.buffer) {
		void *memory = vc_sys_mmap(NULL, VC_ROOT_BYTES + PIECE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (vc_sys_failed(memory))
			return -ENOMEM;
		copy.buffer = memory;
	}
	copy.written = 0;
	copy.limit = file_limit();
	memset(copy.copied, 0, sizeof(copy.copied));
	copy.descriptor = open_temporary(folder, root, &text);
	if (copy.descriptor < 0)
		return copy.descriptor;
	error = put_chunks(root);
	if (!error)
		error = put_root(root, row);
	bytes = vc_word_value(vc_get(&root->file_bytes));
	if (!error && bytes > copy.limit)
		error = -EFBIG;
	if (!error)
		error = (int)vc_syscall(SYS_ftruncate, copy.descriptor, (long)bytes, 0, 0, 0, 0);
	vc_sys_close(copy.descriptor);
	if (error) {
		vc_sys_unlink(path);
		return error;
	}
	*ret_bytes = copy.written;
	return give_name(path, folder, root, moment);
}
