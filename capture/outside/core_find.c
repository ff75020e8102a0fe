/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/core_find.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define BLOCK (1u << 20)
#define LIBRARY "libvramcore.so"
#define LIBRARY_PAGES 4096u /* looked at around the library's mappings */

/* ---- the anchor ---- */

static bool anchor_good(const struct vc_anchor *anchor, uint64_t address)
{
	return !memcmp(anchor->magic, VC_ANCHOR_MAGIC, sizeof(anchor->magic)) &&
	       anchor->self_address == address &&
	       anchor->check ==
		       vc_check_words((const uint64_t *)&anchor->read_version,
				      (offsetof(struct vc_anchor, check) -
				       offsetof(struct vc_anchor, read_version)) / 8, 0);
}

/* The mapping of the recording was not inherited: a child that has only the page has none. */
static bool is_mapped(const struct vc_core *core, uint64_t address)
{
	if (vc_core_segment_at(core, address))
		return true;
	for (uint64_t i = 0; i < core->mappings; i++)
		if (address >= core->mapping[i].start && address < core->mapping[i].end)
			return true;
	return false;
}

/* Takes a page that holds an anchor; false: look on. One without its recording is a last resort. */
static bool take_page(const struct vc_core *core, uint64_t address, struct vc_core_recording *ret)
{
	struct vc_anchor anchor;

	if (vc_core_read(core, address, &anchor, sizeof(anchor)) < sizeof(anchor) ||
	    !anchor_good(&anchor, address))
		return false;
	anchor.path[sizeof(anchor.path) - 1] = 0;
	ret->anchor = anchor;
	return is_mapped(core, anchor.root);
}

static bool starts_with_magic(const uint8_t *page)
{
	return !memcmp(page, VC_ANCHOR_MAGIC, 16);
}

/* The pages of the library: its mappings and the zeroed memory behind them, which has no name. */
static bool search_library(const struct vc_core *core, struct vc_core_recording *ret)
{
	for (uint64_t i = 0; i < core->mappings; i++) {
		const struct vc_core_mapping *mapping = &core->mapping[i];
		const char *slash = strrchr(mapping->path, '/');
		uint64_t address = mapping->start & ~(uint64_t)(PAGE - 1);

		if (strncmp(slash ? slash + 1 : mapping->path, LIBRARY, strlen(LIBRARY)))
			continue;
		ret->library = true;
		for (unsigned page = 0; page < LIBRARY_PAGES; page++, address += PAGE) {
			const struct vc_core_segment *segment = vc_core_segment_at(core, address);

			if (!segment)
				break;
			if (segment->writable && take_page(core, address, ret))
				return true;
		}
	}
	return false;
}

static bool search_block(const struct vc_core *core, uint64_t address, const uint8_t *block,
			 size_t length, struct vc_core_recording *ret)
{
	for (size_t at = 0; at + 16 <= length; at += PAGE)
		if (starts_with_magic(block + at) && take_page(core, address + at, ret))
			return true;
	return false;
}

/* Looks at the data of a segment and steps over the holes of the file. */
static bool search_segment(const struct vc_core *core, const struct vc_core_segment *segment,
			   uint8_t *block, struct vc_core_recording *ret)
{
	uint64_t into = -segment->address & (PAGE - 1);

	while (into < segment->file_bytes) {
		off_t from = (off_t)(segment->offset + into);
		off_t data = lseek(core->descriptor, from, SEEK_DATA);
		uint64_t some = segment->file_bytes - into;

		if (data > from) {
			/* pages of memory need not begin where those of the file do */
			into += (uint64_t)(data - from) & ~(uint64_t)(PAGE - 1);
			if (into >= segment->file_bytes)
				break;
			some = segment->file_bytes - into;
		} else if (data < 0 && lseek(core->descriptor, 0, SEEK_CUR) >= 0 &&
			   lseek(core->descriptor, from, SEEK_HOLE) >= 0) {
			break; /* a hole up to the end of the file */
		}
		if (some > BLOCK)
			some = BLOCK;
		some = vc_core_read(core, segment->address + into, block, some);
		if (!some)
			break;
		if (search_block(core, segment->address + into, block, some, ret))
			return true;
		into += (some + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	}
	return false;
}

/* Segments of a real core share no bytes, so that no more is read than there is. */
static bool search_all(const struct vc_core *core, struct vc_core_recording *ret)
{
	uint8_t *block = malloc(BLOCK);
	uint64_t left = core->length;
	bool found = false;

	ret->searched = true;
	for (uint64_t i = 0; block && !found && i < core->segments; i++) {
		const struct vc_core_segment *segment = &core->segment[i];

		if (!segment->writable || segment->file_bytes > left)
			continue;
		left -= segment->file_bytes;
		found = search_segment(core, segment, block, ret);
	}
	free(block);
	return found;
}

/* ---- the recording ---- */

/* Whether a root is that of the anchor, not of another process whose file has the name now. */
static bool root_good(const struct vc_root *root, const struct vc_anchor *anchor)
{
	const struct vc_root_fixed *fixed = &root->fixed;

	return !memcmp(root->magic, VC_RECORDING_MAGIC, sizeof(root->magic)) &&
	       fixed->pid == anchor->pid && fixed->self_address == anchor->root &&
	       !memcmp(fixed->boot_id, anchor->boot_id, sizeof(fixed->boot_id));
}

/* The address of an offset of the recording, and how many bytes from it on belong together. */
static uint64_t address_of(const struct vc_core_recording *recording, uint64_t offset,
			   uint64_t *ret_bytes)
{
	const struct vc_root *root = recording->root;
	uint64_t entries = vc_word_good(root->chunks) ? vc_word_value(root->chunks) : VC_ROOT_CHUNKS;

	if (offset < VC_ROOT_BYTES) {
		*ret_bytes = VC_ROOT_BYTES - offset;
		return recording->anchor.root + offset;
	}
	if (entries > VC_ROOT_CHUNKS)
		entries = VC_ROOT_CHUNKS;
	for (uint64_t i = 0; i < entries; i++) {
		const struct vc_chunk *chunk = &root->chunk[i];

		if (!chunk->check || offset < chunk->offset || offset - chunk->offset >= chunk->bytes ||
		    chunk->check != vc_check_words((const uint64_t *)chunk, 7, i))
			continue;
		*ret_bytes = chunk->bytes - (offset - chunk->offset);
		return chunk->address + (offset - chunk->offset);
	}
	*ret_bytes = 0;
	return 0;
}

static int read_core(void *self, uint64_t offset, void *buffer, size_t length, size_t *ret_length)
{
	const struct vc_core_recording *recording = self;
	size_t done = 0;

	while (done < length) {
		uint64_t some, address = address_of(recording, offset + done, &some);
		size_t got;

		if (some > length - done)
			some = length - done;
		got = vc_core_read(recording->core, address, (char *)buffer + done, some);
		done += got;
		if (!got || got < some)
			break;
	}
	*ret_length = done;
	return 0;
}

static bool take_core(struct vc_core_recording *ret)
{
	uint64_t end = VC_ROOT_BYTES;

	if (vc_core_read(ret->core, ret->anchor.root, ret->root, VC_ROOT_BYTES) < VC_ROOT_BYTES ||
	    !root_good(ret->root, &ret->anchor))
		return false;
	for (uint64_t i = 0; i < VC_ROOT_CHUNKS; i++) {
		const struct vc_chunk *chunk = &ret->root->chunk[i];

		if (chunk->check &&
		    chunk->check == vc_check_words((const uint64_t *)chunk, 7, i) &&
		    chunk->offset < VC_RECORDING_BYTES_MAX && chunk->bytes < VC_RECORDING_BYTES_MAX &&
		    chunk->offset + chunk->bytes > end)
			end = chunk->offset + chunk->bytes;
	}
	ret->source = (struct vc_recording_source){
		.read = read_core, .length = end, .self = ret};
	return true;
}

static bool take_file(struct vc_core_recording *ret, const char *path)
{
	struct vc_recording_source source;
	size_t got = 0;
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (descriptor < 0)
		return false;
	if (vc_recording_source_descriptor(descriptor, &source) ||
	    source.read(source.self, 0, ret->root, VC_ROOT_BYTES, &got) || got < VC_ROOT_BYTES ||
	    !root_good(ret->root, &ret->anchor)) {
		close(descriptor);
		return false;
	}
	ret->descriptor = descriptor;
	ret->source = source;
	snprintf(ret->path, sizeof(ret->path), "%s", path);
	return true;
}

static enum vc_core_found take_recording(const char *named, const char *beside,
					 struct vc_core_recording *ret)
{
	const char *path = ret->anchor.path, *name = strrchr(path, '/');
	char near[PATH_MAX];

	ret->root = malloc(VC_ROOT_BYTES);
	if (!ret->root)
		return VC_CORE_NO_MEMORY;
	if (named)
		return take_file(ret, named) ? VC_CORE_FOUND : VC_CORE_GONE;
	if (take_core(ret) || (*path == '/' && take_file(ret, path)))
		return VC_CORE_FOUND;
	if (name && snprintf(near, sizeof(near), "%s%s", beside, name) < (int)sizeof(near) &&
	    take_file(ret, near))
		return VC_CORE_FOUND;
	return VC_CORE_GONE;
}

enum vc_core_found vc_core_find(const struct vc_core *core, const char *named, const char *beside,
				struct vc_core_recording *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->core = core;
	ret->descriptor = -1;
	if (!search_library(core, ret) && (ret->anchor.root || !search_all(core, ret)))
		return ret->anchor.root ? VC_CORE_OF_CHILD : VC_CORE_NOT_RECORDED;
	if (ret->anchor.read_version > VC_RECORDING_READ_VERSION)
		return VC_CORE_TOO_NEW;
	return take_recording(named, beside, ret);
}

void vc_core_forget(struct vc_core_recording *recording)
{
	if (recording->descriptor >= 0)
		close(recording->descriptor);
	free(recording->root);
	recording->root = NULL;
	recording->descriptor = -1;
}
