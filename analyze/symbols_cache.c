/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers kept from one run to the next: a file for each build-id in a folder of the user's.
 *
 * Only answers that complete debug information of that very build-id gave are kept, so they hold
 * wherever and whenever the build-id is met again. A file is private to this program, of one
 * machine's byte order, and checked in full before it is believed; one that is not as it should be
 * is as good as none. Nothing here fails: without a cache it only takes longer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyze/symbols_private.h"
#include "formats/error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FILE_BYTES_MAX ((size_t)64 << 20)
#define FOLDER_BYTES_MAX ((uint64_t)256 << 20)
#define STALE_SECONDS 3600
/* Another one for another layout, and when what is read from debug information gets better. */
static const char MAGIC[8] = "VRAMSYM1";
static const char SUFFIX[] = ".names", PART[] = ".part";

struct header {
	char magic[sizeof(MAGIC)];
	uint64_t hash; /* XXH64 of all that follows it */
	uint64_t file_bytes;
	uint32_t entries, frames, text_bytes, reserved;
	char build_id[VC_BUILD_ID_HEX + 7];
};
_Static_assert(sizeof(struct header) % 8 == 0, "entries follow, aligned");

struct entry {
	uint64_t offset;
	uint32_t first; /* frame */
	uint16_t count;
	uint8_t source; /* enum vc_symbol_source */
	uint8_t reserved;
};

/* Positions in the text, which begins with a NUL; 0: NULL. */
struct frame {
	uint32_t function, linkage_name, file, line, inlined;
};

/* ---- the folder ---- */

/* Makes it where it is not there. -1 where it is not this user's alone to write. */
static int open_folder(const char *path, bool make)
{
	struct stat status;
	char *parent;
	int folder;

	if (make && mkdir(path, 0700) && errno == ENOENT && (parent = strdup(path))) {
		char *slash = strrchr(parent, '/');

		if (slash && slash != parent) {
			*slash = '\0';
			mkdir(parent, 0700);
			mkdir(path, 0700);
		}
		free(parent);
	}
	folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder >= 0 && (fstat(folder, &status) || status.st_uid != geteuid() ||
			    (status.st_mode & (S_IWGRP | S_IWOTH)))) {
		close(folder);
		folder = -1;
	}
	return folder;
}

static bool ends_with(const char *name, const char *ending)
{
	size_t length = strlen(name), size = strlen(ending);

	return length > size && !strcmp(name + length - size, ending);
}

struct kept_file {
	struct timespec used;
	uint64_t bytes;
	char *name;
};

static int compare_age(const void *left, const void *right)
{
	const struct kept_file *a = left, *b = right;

	if (a->used.tv_sec != b->used.tv_sec)
		return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
	return a->used.tv_nsec < b->used.tv_nsec ? -1 : a->used.tv_nsec > b->used.tv_nsec;
}

/* The files of this cache; what a run that was killed left behind is removed. */
static struct kept_file *list_files(int folder, DIR *directory, size_t *ret_count)
{
	struct kept_file *files = NULL;
	size_t count = 0, capacity = 0;
	struct dirent *found;

	while ((found = readdir(directory))) {
		bool part = ends_with(found->d_name, PART);
		struct stat status;

		if ((!part && !ends_with(found->d_name, SUFFIX)) ||
		    fstatat(folder, found->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(status.st_mode))
			continue;
		if (part) {
			if (status.st_mtime < time(NULL) - STALE_SECONDS)
				unlinkat(folder, found->d_name, 0);
			continue;
		}
		if (count == capacity) {
			void *grown;

			capacity = capacity ? capacity * 2 : 64;
			grown = reallocarray(files, capacity, sizeof(*files));
			if (!grown)
				break;
			files = grown;
		}
		files[count] = (struct kept_file){
			.used = status.st_mtim,
			.bytes = (uint64_t)status.st_size,
			.name = strdup(found->d_name),
		};
		count += files[count].name != NULL;
	}
	*ret_count = count;
	return files;
}

/* Removes what was not used for the longest time, until the rest is small enough. */
static void trim_folder(int folder, uint64_t most)
{
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = copy < 0 ? NULL : fdopendir(copy);
	struct kept_file *files;
	uint64_t bytes = 0;
	size_t count;

	if (!directory) {
		if (copy >= 0)
			close(copy);
		return;
	}
	files = list_files(folder, directory, &count);
	closedir(directory);
	if (count)
		qsort(files, count, sizeof(*files), compare_age);
	for (size_t i = count; i > 0; i--) {
		bytes += files[i - 1].bytes;
		if (bytes > most)
			unlinkat(folder, files[i - 1].name, 0);
		free(files[i - 1].name);
	}
	free(files);
}

/* ---- reading ---- */

/* The whole file, in the session's memory. */
static const unsigned char *read_file(struct vc_store *store, int file, size_t *ret_bytes)
{
	struct stat status;
	unsigned char *bytes;
	size_t size, got = 0;

	if (fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
	    (status.st_mode & (S_IWGRP | S_IWOTH)) ||
	    status.st_size < (off_t)sizeof(struct header) ||
	    status.st_size > (off_t)FILE_BYTES_MAX)
		return NULL;
	size = (size_t)status.st_size;
	bytes = vc_store_allocate(store, size);
	while (bytes && got < size) {
		ssize_t now = pread(file, bytes + got, size - got, (off_t)got);

		if (now <= 0)
			return NULL;
		got += (size_t)now;
	}
	*ret_bytes = size;
	return bytes;
}

static uint64_t hash_of(const unsigned char *bytes, size_t size)
{
	size_t start = offsetof(struct header, file_bytes);

	return XXH64(bytes + start, size - start, 0);
}

/* Where the parts of a file are that is whole. */
struct parts {
	const struct header *header;
	const struct entry *entries;
	const struct frame *frames;
	const char *text;
};

static bool find_parts(const unsigned char *bytes, size_t size, const char *build_id,
		       struct parts *parts)
{
	const struct header *header = (const struct header *)bytes;
	uint64_t expected = sizeof(*header);

	parts->header = header;
	expected += (uint64_t)header->entries * sizeof(struct entry);
	expected += (uint64_t)header->frames * sizeof(struct frame);
	expected += header->text_bytes;
	if (memcmp(header->magic, MAGIC, sizeof(MAGIC)) || header->file_bytes != size ||
	    expected != size || header->hash != hash_of(bytes, size) || !header->text_bytes ||
	    strncmp(header->build_id, build_id, sizeof(header->build_id)))
		return false;
	parts->entries = (const struct entry *)(bytes + sizeof(*header));
	parts->frames = (const struct frame *)(parts->entries + header->entries);
	parts->text = (const char *)(parts->frames + header->frames);
	return !parts->text[0] && !parts->text[header->text_bytes - 1];
}

static bool read_text(const struct parts *parts, uint32_t at, const char **ret)
{
	*ret = at && at < parts->header->text_bytes ? parts->text + at : NULL;
	return at < parts->header->text_bytes;
}

static struct vc_source_frame *read_frames(struct vc_store *store, const struct parts *parts)
{
	size_t count = parts->header->frames;
	struct vc_source_frame *frames = vc_store_allocate(store, (count + 1) * sizeof(*frames));

	for (size_t i = 0; frames && i < count; i++) {
		const struct frame *frame = &parts->frames[i];

		if (!read_text(parts, frame->function, &frames[i].function) ||
		    !read_text(parts, frame->linkage_name, &frames[i].linkage_name) ||
		    !read_text(parts, frame->file, &frames[i].file))
			return NULL;
		frames[i].line = frame->line;
		frames[i].inlined = frame->inlined == 1;
	}
	return frames;
}

static bool read_entries(struct vc_store *store, const struct parts *parts, struct vc_cached *ret)
{
	size_t count = parts->header->entries;
	struct vc_source_frame *frames = read_frames(store, parts);
	struct vc_wanted *answers = vc_store_allocate(store, (count + 1) * sizeof(*answers));

	if (!frames || !answers)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct entry *entry = &parts->entries[i];

		if ((i && entry->offset <= entry[-1].offset) || entry->count == 0 ||
		    entry->count > VC_INLINE_LIMIT || entry->source >= VC_SYMBOL_SOURCES ||
		    entry->first > parts->header->frames ||
		    entry->count > parts->header->frames - entry->first)
			return false;
		answers[i] = (struct vc_wanted){
			.offset = entry->offset,
			.count = entry->count,
			.frames = frames + entry->first,
			.answered = true,
			.source = entry->source,
		};
	}
	ret->answers = answers;
	ret->count = count;
	return true;
}

/* A build-id is a part of a file name only where it looks like one. */
static bool usable(const struct vc_symbols_options *options, const char *build_id)
{
	size_t length = strlen(build_id);

	return options->cache_dir && options->cache_dir[0] == '/' && length >= 8 &&
	       length < VC_BUILD_ID_HEX && build_id[strspn(build_id, "0123456789abcdef")] == '\0';
}

void vc_cache_load(const struct vc_symbols_options *options, struct vc_store *store,
		   const char *build_id, struct vc_cached *ret)
{
	char name[VC_BUILD_ID_HEX + sizeof(SUFFIX)];
	const unsigned char *bytes;
	int folder, file = -1;
	struct parts parts;
	size_t size;

	*ret = (struct vc_cached){0};
	if (!usable(options, build_id))
		return;
	folder = open_folder(options->cache_dir, false);
	if (folder < 0)
		return;
	stpcpy(stpcpy(name, build_id), SUFFIX);
	file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file >= 0) {
		bytes = read_file(store, file, &size);
		if (bytes && find_parts(bytes, size, build_id, &parts) &&
		    read_entries(store, &parts, ret))
			futimens(file, NULL); /* used now: among the last to be removed */
		close(file);
	}
	close(folder);
}

const struct vc_wanted *vc_cache_find(const struct vc_cached *cached, uint64_t offset)
{
	size_t low = 0, high = cached->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (cached->answers[middle].offset == offset)
			return &cached->answers[middle];
		if (cached->answers[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* ---- writing ---- */

struct growing {
	unsigned char *bytes;
	size_t used, capacity;
	bool failed;
};

static void grow(struct growing *to, const void *bytes, size_t size)
{
	if (size > FILE_BYTES_MAX - to->used)
		to->failed = true;
	if (!to->failed && size > to->capacity - to->used) {
		size_t larger = 2 * (to->used + size) + 4096;
		void *grown = realloc(to->bytes, larger);

		if (grown) {
			to->bytes = grown;
			to->capacity = larger;
		} else {
			to->failed = true;
		}
	}
	if (to->failed)
		return;
	memcpy(to->bytes + to->used, bytes, size);
	to->used += size;
}

struct writer {
	struct growing entries, frames, text;
	uint32_t *slots; /* of texts by their hash; 0: empty */
	size_t slot_count, texts;
	bool failed;
};

static uint32_t *text_slot(const struct writer *writer, const char *text, size_t length)
{
	size_t mask = writer->slot_count - 1, at = XXH3_64bits(text, length) & mask;

	while (writer->slots[at] &&
	       strcmp((const char *)writer->text.bytes + writer->slots[at], text))
		at = (at + 1) & mask;
	return &writer->slots[at];
}

static bool more_slots(struct writer *writer)
{
	uint32_t *old = writer->slots;
	size_t old_count = writer->slot_count;

	writer->slot_count = old_count ? old_count * 2 : 4096;
	writer->slots = calloc(writer->slot_count, sizeof(*writer->slots));
	for (size_t i = 0; writer->slots && i < old_count; i++) {
		const char *text = (const char *)writer->text.bytes + old[i];

		if (old[i])
			*text_slot(writer, text, strlen(text)) = old[i];
	}
	free(old);
	return writer->slots != NULL;
}

static uint32_t add_text(struct writer *writer, const char *text)
{
	size_t length;
	uint32_t *slot;

	if (!text || writer->failed)
		return 0;
	if (2 * writer->texts >= writer->slot_count && !more_slots(writer)) {
		writer->failed = true;
		return 0;
	}
	length = strlen(text);
	slot = text_slot(writer, text, length);
	if (!*slot) {
		uint32_t at = (uint32_t)writer->text.used;

		grow(&writer->text, text, length + 1);
		if (writer->text.failed)
			return 0;
		*slot = at;
		writer->texts++;
	}
	return *slot;
}

static void add_answer(struct writer *writer, const struct vc_wanted *answer)
{
	struct entry entry = {
		.offset = answer->offset,
		.first = (uint32_t)(writer->frames.used / sizeof(struct frame)),
		.count = (uint16_t)answer->count,
		.source = answer->source,
	};

	grow(&writer->entries, &entry, sizeof(entry));
	for (uint32_t i = 0; i < answer->count; i++) {
		const struct vc_source_frame *from = &answer->frames[i];
		struct frame frame = {
			.function = add_text(writer, from->function),
			.linkage_name = add_text(writer, from->linkage_name),
			.file = add_text(writer, from->file),
			.line = from->line,
			.inlined = from->inlined,
		};

		grow(&writer->frames, &frame, sizeof(frame));
	}
}

/* Both are sorted; what is in both is written once. */
static void add_merged(struct writer *writer, const struct vc_cached *old,
		       const struct vc_wanted *answers, size_t count)
{
	size_t i = 0, k = 0;

	grow(&writer->text, "", 1);
	while (i < count || k < old->count) {
		if (k == old->count || (i < count && answers[i].offset <= old->answers[k].offset)) {
			k += k < old->count && answers[i].offset == old->answers[k].offset;
			add_answer(writer, &answers[i++]);
		} else {
			add_answer(writer, &old->answers[k++]);
		}
	}
}

static bool join(struct writer *writer, const char *build_id, struct growing *ret)
{
	struct header header = {
		.entries = (uint32_t)(writer->entries.used / sizeof(struct entry)),
		.frames = (uint32_t)(writer->frames.used / sizeof(struct frame)),
		.text_bytes = (uint32_t)writer->text.used,
	};

	memcpy(header.magic, MAGIC, sizeof(MAGIC));
	stpcpy(header.build_id, build_id);
	header.file_bytes = sizeof(header) + writer->entries.used + writer->frames.used +
			    writer->text.used;
	grow(ret, &header, sizeof(header));
	grow(ret, writer->entries.bytes, writer->entries.used);
	grow(ret, writer->frames.bytes, writer->frames.used);
	grow(ret, writer->text.bytes, writer->text.used);
	if (writer->failed || writer->entries.failed || writer->frames.failed ||
	    writer->text.failed || ret->failed)
		return false;
	header.hash = hash_of(ret->bytes, ret->used);
	memcpy(ret->bytes, &header, sizeof(header));
	return true;
}

static void write_file(int folder, const char *build_id, const struct growing *bytes)
{
	char name[VC_BUILD_ID_HEX + sizeof(SUFFIX)], *part;
	uint64_t number = 0;
	size_t written = 0;
	int file;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (uint64_t)getpid();
	part = vc_path_format("%s.%016llx%s", build_id, (unsigned long long)number, PART);
	if (!part)
		return;
	stpcpy(stpcpy(name, build_id), SUFFIX);
	file = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	while (file >= 0 && written < bytes->used) {
		ssize_t now = write(file, bytes->bytes + written, bytes->used - written);

		if (now <= 0)
			break;
		written += (size_t)now;
	}
	if (file >= 0 && (close(file) || written < bytes->used ||
			  renameat(folder, part, folder, name)))
		unlinkat(folder, part, 0);
	free(part);
}

static void writer_deinit(struct writer *writer)
{
	free(writer->entries.bytes);
	free(writer->frames.bytes);
	free(writer->text.bytes);
	free(writer->slots);
}

void vc_cache_save(const struct vc_symbols_options *options, const char *build_id,
		   const struct vc_cached *old, const struct vc_wanted *answers, size_t count)
{
	static const struct vc_cached nothing;
	uint64_t most = options->cache_bytes ? options->cache_bytes : FOLDER_BYTES_MAX;
	int folder;

	if (!usable(options, build_id))
		return;
	folder = open_folder(options->cache_dir, true);
	if (folder < 0)
		return;
	/* Where both together are too much, the new ones. */
	for (unsigned i = 0; i < 2; i++) {
		struct growing bytes = {0};
		struct writer writer = {0};
		bool good;

		add_merged(&writer, i ? &nothing : old, answers, count);
		good = join(&writer, build_id, &bytes);
		if (good)
			write_file(folder, build_id, &bytes);
		writer_deinit(&writer);
		free(bytes.bytes);
		if (good)
			break;
	}
	trim_folder(folder, most);
	close(folder);
}
