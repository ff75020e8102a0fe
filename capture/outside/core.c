/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/core.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADERS_AT_ONCE 512
#define SEGMENTS_MAX (UINT64_C(4) << 20)
#define NOTES_MAX (UINT64_C(1) << 20)      /* looked at in one core */
#define FILE_NOTE_MAX (UINT64_C(64) << 20)
#define MAPPINGS_MAX (UINT64_C(4) << 20)

/* In the kernel's notes of every 64-bit machine. */
#define PRSTATUS_SIGNAL 12
#define PRSTATUS_NEEDED 36
#define PRPSINFO_PID 24
#define PRPSINFO_NAME 40
#define PRPSINFO_NEEDED 56

static size_t read_at(int descriptor, uint64_t offset, void *buffer, size_t length)
{
	size_t done = 0;

	while (done < length && offset + done <= INT64_MAX) {
		ssize_t got = pread(descriptor, (char *)buffer + done, length - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

/* ---- notes ---- */

static void take_status(struct vc_core *core, uint64_t offset, uint64_t length)
{
	uint8_t status[PRSTATUS_NEEDED];
	uint16_t signal;

	if (length < sizeof(status) ||
	    read_at(core->descriptor, offset, status, sizeof(status)) < sizeof(status))
		return;
	memcpy(&signal, status + PRSTATUS_SIGNAL, sizeof(signal));
	if (!core->threads++ && signal < 128)
		core->signal = signal;
}

static void take_process(struct vc_core *core, uint64_t offset, uint64_t length)
{
	uint8_t about[PRPSINFO_NEEDED];
	uint32_t pid;

	if (length < sizeof(about) ||
	    read_at(core->descriptor, offset, about, sizeof(about)) < sizeof(about))
		return;
	memcpy(&pid, about + PRPSINFO_PID, sizeof(pid));
	core->pid = pid;
	memcpy(core->program, about + PRPSINFO_NAME, sizeof(core->program) - 1);
	core->program[sizeof(core->program) - 1] = 0;
}

/* Count, page size, then start, end and page of each, then the paths, each with a NUL. */
static int take_mappings(struct vc_core *core, uint64_t offset, uint64_t length)
{
	uint64_t *words, count, page;
	char *path, *end;

	if (core->paths || length < 16 || length > FILE_NOTE_MAX)
		return 0;
	words = malloc(length + 1);
	if (!words)
		return VC_E_NO_MEMORY;
	core->paths = (char *)words;
	length = read_at(core->descriptor, offset, words, length);
	if (length < 16)
		return 0;
	end = core->paths + length;
	*end = 0;
	count = words[0];
	page = words[1];
	if (count > MAPPINGS_MAX || count > (length - 16) / 24)
		return 0;
	core->mapping = calloc(count ? count : 1, sizeof(*core->mapping));
	if (!core->mapping)
		return VC_E_NO_MEMORY;
	path = core->paths + 16 + count * 24;
	for (uint64_t i = 0; i < count && path < end; i++) {
		core->mapping[core->mappings++] = (struct vc_core_mapping){
			.start = words[2 + i * 3],
			.end = words[3 + i * 3],
			.file_offset = words[4 + i * 3] * page,
			.path = path,
		};
		path += strlen(path) + 1;
	}
	return 0;
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + 3) & ~UINT64_C(3);
}

static int take_notes(struct vc_core *core, const Elf64_Phdr *header)
{
	uint64_t at = header->p_offset, end = at + header->p_filesz;
	int error = 0;

	if (end < at || end > core->length)
		end = core->length;
	for (uint64_t i = 0; !error && i < NOTES_MAX && at < end; i++) {
		Elf64_Nhdr note;
		uint64_t body;
		char name[4] = "";

		if (end - at < sizeof(note) ||
		    read_at(core->descriptor, at, &note, sizeof(note)) < sizeof(note))
			break;
		at += sizeof(note);
		if (note.n_namesz >= 4)
			read_at(core->descriptor, at, name, sizeof(name));
		body = at + aligned(note.n_namesz);
		if (body > end || end - body < note.n_descsz)
			break;
		at = body + aligned(note.n_descsz);
		if (memcmp(name, "CORE", 4))
			continue;
		if (note.n_type == NT_PRSTATUS)
			take_status(core, body, note.n_descsz);
		else if (note.n_type == NT_PRPSINFO)
			take_process(core, body, note.n_descsz);
		else if (note.n_type == NT_FILE)
			error = take_mappings(core, body, note.n_descsz);
	}
	return error;
}

/* ---- program headers ---- */

static int add_segment(struct vc_core *core, const Elf64_Phdr *header)
{
	struct vc_core_segment segment = {
		.address = header->p_vaddr,
		.memory_bytes = header->p_memsz,
		.offset = header->p_offset,
		.file_bytes = header->p_filesz,
		.writable = header->p_flags & PF_W,
	};
	uint64_t there = core->length > segment.offset ? core->length - segment.offset : 0;

	if (segment.memory_bytes > UINT64_MAX - segment.address)
		return VC_E_CORRUPT;
	if (segment.file_bytes > segment.memory_bytes)
		segment.file_bytes = segment.memory_bytes;
	if (segment.file_bytes > there) {
		core->cut_segments++;
		core->cut_bytes += segment.file_bytes - there;
		segment.file_bytes = there;
	}
	if (!(core->segments & (core->segments - 1))) {
		uint64_t room = core->segments ? core->segments * 2 : 1;
		struct vc_core_segment *larger =
			realloc(core->segment, room * sizeof(*larger));

		if (!larger)
			return VC_E_NO_MEMORY;
		core->segment = larger;
	}
	core->segment[core->segments++] = segment;
	return 0;
}

/* Entries of the program header table; a count that needs more than 16 bits is in section 0. */
static int count_headers(const struct vc_core *core, const Elf64_Ehdr *elf, uint64_t *ret)
{
	Elf64_Shdr section;

	*ret = elf->e_phnum;
	if (elf->e_phnum != PN_XNUM)
		return 0;
	if (elf->e_shoff > core->length || !elf->e_shoff ||
	    read_at(core->descriptor, elf->e_shoff, &section, sizeof(section)) < sizeof(section))
		return VC_E_TRUNCATED;
	*ret = section.sh_info;
	return 0;
}

static int walk_headers(struct vc_core *core, const Elf64_Ehdr *elf, uint64_t count)
{
	Elf64_Phdr some[HEADERS_AT_ONCE];

	for (uint64_t done = 0; done < count;) {
		uint64_t left = count - done, want = left < HEADERS_AT_ONCE ? left : HEADERS_AT_ONCE;
		uint64_t got = read_at(core->descriptor, elf->e_phoff + done * sizeof(*some), some,
				       want * sizeof(*some)) /
			       sizeof(*some);

		for (uint64_t i = 0; i < got; i++) {
			int error = 0;

			if (some[i].p_type == PT_LOAD)
				error = add_segment(core, &some[i]);
			else if (some[i].p_type == PT_NOTE)
				error = take_notes(core, &some[i]);
			if (error)
				return error;
		}
		done += got;
		if (got < want)
			return VC_E_TRUNCATED;
	}
	return 0;
}

static int by_address(const void *left, const void *right)
{
	const struct vc_core_segment *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static int check_header(const Elf64_Ehdr *elf, size_t got)
{
	if (got < EI_NIDENT || memcmp(elf->e_ident, ELFMAG, SELFMAG))
		return VC_E_INVALID;
	if (got < sizeof(*elf))
		return VC_E_TRUNCATED;
	if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_ident[EI_DATA] != ELFDATA2LSB ||
	    elf->e_type != ET_CORE || elf->e_machine == EM_NONE)
		return VC_E_INVALID;
	return elf->e_phentsize == sizeof(Elf64_Phdr) ? 0 : VC_E_CORRUPT;
}

int vc_core_open(int descriptor, struct vc_core *ret, struct vc_fault *fault)
{
	struct vc_core core = {.descriptor = descriptor};
	struct stat about;
	uint64_t count = 0;
	Elf64_Ehdr elf = {0};
	int error;

	if (fstat(descriptor, &about) || !S_ISREG(about.st_mode))
		return vc_fault_set(fault, VC_E_INVALID, NULL, 0);
	core.length = (uint64_t)about.st_size;
	error = check_header(&elf, read_at(descriptor, 0, &elf, sizeof(elf)));
	if (!error)
		error = count_headers(&core, &elf, &count);
	if (!error && count > SEGMENTS_MAX)
		error = VC_E_LIMIT;
	if (!error)
		error = walk_headers(&core, &elf, count);
	if (error) {
		vc_core_close(&core);
		return vc_fault_set(fault, error, "program headers", elf.e_phoff);
	}
	if (core.segments)
		qsort(core.segment, core.segments, sizeof(*core.segment), by_address);
	*ret = core;
	return 0;
}

void vc_core_close(struct vc_core *core)
{
	free(core->segment);
	free(core->mapping);
	free(core->paths);
	memset(core, 0, sizeof(*core));
}

const struct vc_core_segment *vc_core_segment_at(const struct vc_core *core, uint64_t address)
{
	uint64_t low = 0, high = core->segments;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (core->segment[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address - core->segment[low - 1].address >= core->segment[low - 1].memory_bytes)
		return NULL;
	return &core->segment[low - 1];
}

size_t vc_core_read(const struct vc_core *core, uint64_t address, void *buffer, size_t length)
{
	size_t done = 0;

	while (done < length && address <= UINT64_MAX - done) {
		const struct vc_core_segment *segment = vc_core_segment_at(core, address + done);
		uint64_t into = segment ? address + done - segment->address : 0, some, got;

		if (!segment || into >= segment->file_bytes)
			break;
		some = segment->file_bytes - into;
		if (some > length - done)
			some = length - done;
		got = read_at(core->descriptor, segment->offset + into, (char *)buffer + done, some);
		done += got;
		if (got < some)
			break;
	}
	return done;
}
