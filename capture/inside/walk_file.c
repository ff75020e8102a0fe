/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/walk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "capture/inside/atomic.h"
#include "capture/inside/budget.h"
#include "capture/inside/space.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"
#include "capture/inside/text.h"

#define PIECE_BYTES_FIRST (UINT64_C(16) << 10)
#define STRING_MAX 4000u
#define TABLE_FIRST 1024u
#define LIMIT_SHARE 2 /* of the recording's budget */

struct piece {
	uint8_t *address;
	uint64_t bytes, rows, room; /* rows written, and rows it has room for */
	uint64_t first;             /* number of its first row */
	uint32_t before_plus_one;   /* the piece before it of the same kind */
};

/* Pieces of one kind, oldest first. */
struct kind {
	uint32_t row_bytes;
	uint32_t last_plus_one; /* piece that is being filled */
	uint64_t rows;
	uint64_t next_bytes;    /* of its next piece */
};

struct vc_walk_file {
	uint32_t taken;         /* 1: a walk is under way */
	uint32_t index;         /* N of its name */
	bool full;
	uint64_t bytes, limit;
	uint64_t device, inode;
	uint64_t started;
	struct vc_walk_head *head; /* head and directory */
	struct piece piece[VC_WALK_PIECES_MAX];
	uint32_t pieces;
	struct kind kind[VC_WALK_KINDS];
	uint32_t *table;        /* ids of strings, by hash; 0 empty */
	uint64_t table_size, strings;
	char path[1200];
};

static struct vc_walk_file file;

bool vc_walk_path(const char *recording, uint32_t walk_plus_one, char *ret, size_t size)
{
	struct vc_text text = vc_text_in(ret, size);

	vc_text_add(&text, recording);
	vc_text_add(&text, VC_WALK_SUFFIX);
	vc_text_number(&text, walk_plus_one - 1);
	return !text.cut;
}

void vc_walk_forget(void)
{
	uint32_t index = file.index;

	memset(&file, 0, sizeof(file));
	file.index = index;
}

/* ---- storage ---- */

/* A descriptor for one growth, so that the program's table of them stays as it is. */
static int file_open(void)
{
	int descriptor = vc_sys_open(file.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
	struct stat facts;

	if (descriptor >= 0 &&
	    (vc_syscall(SYS_fstat, descriptor, (long)&facts, 0, 0, 0, 0) != 0 ||
	     facts.st_dev != file.device || facts.st_ino != file.inode)) {
		vc_sys_close(descriptor);
		return -EBADF;
	}
	return descriptor;
}

static bool may_be_so_long(uint64_t end)
{
	struct rlimit limit;

	if (end > file.limit)
		return false;
	return vc_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0) < 0 ||
	       limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur;
}

static bool store_zeroes(int descriptor, uint64_t offset, uint64_t bytes)
{
	static const char zeroes[4096];
	long result;
	int tries = 0;

	do {
		result = vc_syscall(SYS_fallocate, descriptor, 0, (long)offset, (long)bytes, 0, 0);
	} while (result == -EINTR && ++tries < 100);
	if (result != -EOPNOTSUPP)
		return result == 0;
	for (uint64_t done = 0; done < bytes; done += sizeof(zeroes))
		if (vc_sys_pwrite(descriptor, zeroes, sizeof(zeroes), offset + done) !=
		    (long)sizeof(zeroes))
			return false;
	return true;
}

/* The next `bytes` of the file, a multiple of 4096, with storage and mapped; NULL: none. */
static void *grow(int descriptor, uint64_t bytes)
{
	void *address;

	if (!may_be_so_long(file.bytes + bytes) || !vc_budget_addresses(bytes) ||
	    !store_zeroes(descriptor, file.bytes, bytes))
		return NULL;
	address = vc_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
			      file.bytes);
	if (vc_sys_failed(address))
		return NULL;
	vc_sys_madvise(address, bytes, MADV_DONTFORK);
	vc_sys_madvise(address, bytes, MADV_DONTDUMP);
	file.bytes += bytes;
	return address;
}

static bool create(void)
{
	struct stat facts;
	int descriptor;

	if (!vc_walk_path(vc_store_path(), ++file.index, file.path, sizeof(file.path)))
		return false;
	descriptor = vc_sys_open(file.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				 0600);
	if (descriptor < 0)
		return false;
	if (vc_syscall(SYS_fstat, descriptor, (long)&facts, 0, 0, 0, 0) == 0) {
		file.device = facts.st_dev;
		file.inode = facts.st_ino;
		file.limit = vc_budget(descriptor, vc_space_budget() / LIMIT_SHARE);
		file.head = grow(descriptor, VC_WALK_DATA_OFFSET);
	}
	vc_sys_close(descriptor);
	if (!file.head)
		vc_sys_unlink(file.path);
	return file.head != NULL;
}

struct vc_walk_file *vc_walk_begin(uint64_t number)
{
	if (!vc_store_ready() || !vc_store_path()[0] ||
	    __atomic_exchange_n(&file.taken, 1, __ATOMIC_ACQ_REL))
		return NULL;
	file.started = vc_store_time();
	if (!create()) {
		vc_walk_forget();
		return NULL;
	}
	file.head->number = number;
	return &file;
}

/* ---- rows ---- */

static struct vc_walk_piece *directory(void)
{
	return (struct vc_walk_piece *)(file.head + 1);
}

static struct piece *piece_add(struct vc_walk_file *walk, enum vc_walk_kind which)
{
	struct kind *kind = &walk->kind[which];
	struct piece *piece = &walk->piece[walk->pieces];
	int descriptor;

	if (!kind->next_bytes)
		kind->next_bytes = PIECE_BYTES_FIRST;
	if (walk->pieces == VC_WALK_PIECES_MAX)
		return NULL;
	descriptor = file_open();
	if (descriptor < 0)
		return NULL;
	directory()[walk->pieces].offset = walk->bytes;
	piece->address = grow(descriptor, kind->next_bytes);
	vc_sys_close(descriptor);
	if (!piece->address)
		return NULL;
	piece->bytes = kind->next_bytes;
	piece->room = piece->bytes / kind->row_bytes;
	piece->rows = 0;
	piece->first = kind->rows;
	piece->before_plus_one = kind->last_plus_one;
	directory()[walk->pieces].kind = which;
	directory()[walk->pieces].row_bytes = kind->row_bytes;
	kind->last_plus_one = ++walk->pieces;
	if (kind->next_bytes < VC_WALK_PIECE_BYTES_MAX)
		kind->next_bytes *= 2;
	return piece;
}

/* `count` rows that lie in one piece. */
static void *rows_take(struct vc_walk_file *walk, enum vc_walk_kind which, size_t row_bytes,
		       uint64_t count, uint64_t *ret_number)
{
	struct kind *kind = &walk->kind[which];
	struct piece *piece = kind->last_plus_one ? &walk->piece[kind->last_plus_one - 1] : NULL;
	void *row;

	kind->row_bytes = (uint32_t)row_bytes;
	if (piece && piece->room - piece->rows < count && which == VC_WALK_STRINGS) {
		/* no string crosses pieces: the rest of this one stays empty */
		kind->rows += piece->room - piece->rows;
		piece->rows = piece->room;
	}
	if (!piece || piece->room - piece->rows < count)
		piece = piece_add(walk, which);
	if (!piece) {
		walk->full = true;
		return NULL;
	}
	row = piece->address + piece->rows * row_bytes;
	if (ret_number)
		*ret_number = kind->rows;
	piece->rows += count;
	kind->rows += count;
	return row;
}

void *vc_walk_row(struct vc_walk_file *walk, enum vc_walk_kind kind, size_t row_bytes,
		  uint64_t *ret_number)
{
	return rows_take(walk, kind, row_bytes, 1, ret_number);
}

void *vc_walk_row_at(struct vc_walk_file *walk, enum vc_walk_kind kind, uint64_t number)
{
	const struct piece *piece;

	if (number >= walk->kind[kind].rows)
		return NULL;
	for (uint32_t i = walk->kind[kind].last_plus_one; i > 0; i = piece->before_plus_one) {
		piece = &walk->piece[i - 1];
		if (number >= piece->first)
			return number - piece->first < piece->rows ?
				piece->address +
					(number - piece->first) * walk->kind[kind].row_bytes :
				NULL;
	}
	return NULL;
}

bool vc_walk_full(const struct vc_walk_file *walk)
{
	return walk->full;
}

/* ---- strings ---- */

static uint64_t hash_of(const char *text, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3u;
	return vc_mix(hash);
}

static uint32_t *table_place(struct vc_walk_file *walk, const char *text, size_t length)
{
	uint64_t at = hash_of(text, length) & (walk->table_size - 1);

	for (; walk->table[at]; at = (at + 1) & (walk->table_size - 1)) {
		const char *known = vc_walk_row_at(walk, VC_WALK_STRINGS, walk->table[at]);

		if (known && !memcmp(known, text, length) && !known[length])
			break;
	}
	return &walk->table[at];
}

static bool table_grow(struct vc_walk_file *walk)
{
	uint64_t size = walk->table_size, larger = size ? size * 2 : TABLE_FIRST;
	uint32_t *old = walk->table, *made;

	if (walk->strings * 2 < size)
		return true;
	made = vc_space_private(larger * sizeof(*made));
	if (!made)
		return false;
	walk->table = made;
	walk->table_size = larger;
	for (uint64_t i = 0; i < size; i++) {
		const char *text = old[i] ? vc_walk_row_at(walk, VC_WALK_STRINGS, old[i]) : NULL;

		if (text)
			*table_place(walk, text, strlen(text)) = old[i];
	}
	if (old)
		vc_sys_munmap(old, size * sizeof(*old));
	return true;
}

uint32_t vc_walk_string(struct vc_walk_file *walk, const char *text, size_t length)
{
	uint64_t number;
	uint32_t *place;
	char *to;

	if (length > STRING_MAX)
		length = STRING_MAX;
	length = strnlen(text, length);
	if (!length || !table_grow(walk))
		return 0;
	/* id 0 is "": the first byte of all */
	if (!walk->kind[VC_WALK_STRINGS].rows &&
	    !rows_take(walk, VC_WALK_STRINGS, 1, 1, &number))
		return 0;
	place = table_place(walk, text, length);
	if (*place)
		return *place;
	to = rows_take(walk, VC_WALK_STRINGS, 1, length + 1, &number);
	if (!to || number > UINT32_MAX)
		return 0;
	memcpy(to, text, length);
	*place = (uint32_t)number;
	walk->strings++;
	return *place;
}

void vc_walk_fact(struct vc_walk_file *walk, const char *key, const char *value, const char *how)
{
	uint32_t value_id = value ? vc_walk_string(walk, value, strlen(value)) : 0;
	uint32_t key_id = vc_walk_string(walk, key, strlen(key));
	uint32_t how_id = vc_walk_string(walk, how, strlen(how));
	struct vc_walk_fact *fact =
		value ? vc_walk_row(walk, VC_WALK_FACTS, sizeof(*fact), NULL) : NULL;

	if (fact)
		*fact = (struct vc_walk_fact){.key = key_id, .value = value_id, .how = how_id};
}

void vc_walk_fact_number(struct vc_walk_file *walk, const char *key, uint64_t value,
			 const char *how)
{
	char digits[24];
	struct vc_text text = vc_text_in(digits, sizeof(digits));

	vc_text_number(&text, value);
	vc_walk_fact(walk, key, digits, how);
}

/* ---- end ---- */

static void close_file(struct vc_walk_file *walk)
{
	for (uint32_t i = 0; i < walk->pieces; i++)
		vc_sys_munmap(walk->piece[i].address, walk->piece[i].bytes);
	vc_sys_munmap(walk->head, VC_WALK_DATA_OFFSET);
	if (walk->table)
		vc_sys_munmap(walk->table, walk->table_size * sizeof(*walk->table));
}

uint32_t vc_walk_finish(struct vc_walk_file *walk)
{
	struct vc_walk_head *head = walk->head;
	uint32_t index = walk->index;

	for (uint32_t i = 0; i < walk->pieces; i++) {
		struct vc_walk_piece *entry = &directory()[i];
		const struct piece *piece = &walk->piece[i];

		entry->rows = piece->rows;
		entry->check = vc_check_words((const uint64_t *)piece->address,
					      (piece->rows * entry->row_bytes + 7) / 8, i);
		entry->entry_check = vc_check_words((const uint64_t *)entry,
						    sizeof(*entry) / 8 - 1, i);
	}
	head->read_version = VC_WALK_READ_VERSION;
	head->write_version = VC_WALK_WRITE_VERSION;
	head->pid = vc_store_root()->fixed.pid;
	head->start = vc_store_root()->fixed.start_realtime;
	head->bytes = walk->bytes;
	head->pieces = walk->pieces;
	head->thread = (uint32_t)vc_sys_gettid();
	head->nanoseconds = vc_store_time() - walk->started;
	head->check = vc_check_words((const uint64_t *)&head->read_version,
				     (offsetof(struct vc_walk_head, check) -
				      offsetof(struct vc_walk_head, read_version)) / 8, 0);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(head->magic, VC_WALK_MAGIC, sizeof(head->magic));
	close_file(walk);
	vc_walk_forget();
	return index;
}

void vc_walk_abandon(struct vc_walk_file *walk)
{
	close_file(walk);
	vc_sys_unlink(walk->path);
	vc_walk_forget();
}

void vc_walk_remove(uint32_t walk_plus_one)
{
	char path[sizeof(file.path)];

	if (vc_store_path()[0] && vc_walk_path(vc_store_path(), walk_plus_one, path, sizeof(path)))
		vc_sys_unlink(path);
}
