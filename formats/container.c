/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/container.h"

#include <elf.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Positions inside the descriptor of the snapshot note; the first four never change. */
enum {
	NOTE_VERSIONS = 0,
	NOTE_FRONT_BYTES = 8,
	NOTE_FRONT_HASH = 16,
	NOTE_FILE_BYTES = 24,
	NOTE_BYTES = 216,
	NOTE_OWNER_BYTES = 12, /* "VRAMCORE", NUL, padding */
	NOTE_HEAD_BYTES = 12 + NOTE_OWNER_BYTES,
	NOTE_SECTION_BYTES = 16,
	SECTIONS_BEFORE = 3, /* null, names, note */
};

static const unsigned char identity[EI_NIDENT] = {
	ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE,
};

bool vc_container_probe(const void *bytes, size_t length)
{
	Elf64_Ehdr header;

	if (length < sizeof(header))
		return false;
	memcpy(&header, bytes, sizeof(header));
	return !memcmp(header.e_ident, identity, sizeof(identity)) && header.e_type == ET_CORE &&
	       header.e_machine == EM_NONE && header.e_phnum == 1;
}

/* ---- building ---- */

static void put_section_header(struct vc_buffer *out, uint32_t name, uint32_t type, uint64_t flags,
			       uint64_t offset, uint64_t bytes, uint64_t alignment)
{
	Elf64_Shdr header = {
		.sh_name = name,
		.sh_type = type,
		.sh_flags = flags,
		.sh_offset = offset,
		.sh_size = bytes,
		.sh_addralign = alignment,
	};

	vc_buffer_put(out, &header, sizeof(header));
}

static void put_note_head(struct vc_buffer *out, uint32_t type, size_t bytes)
{
	static const char owner[NOTE_OWNER_BYTES] = VC_NOTE_OWNER;

	vc_buffer_u32(out, sizeof(VC_NOTE_OWNER));
	vc_buffer_u32(out, (uint32_t)bytes);
	vc_buffer_u32(out, type);
	vc_buffer_put(out, owner, sizeof(owner));
}

static void put_notes(struct vc_buffer *out, const struct vc_container_front *front,
		      uint64_t front_bytes)
{
	put_note_head(out, VC_NOTE_SNAPSHOT, NOTE_BYTES);
	vc_buffer_u32(out, VC_CONTAINER_READ_VERSION);
	vc_buffer_u32(out, VC_CONTAINER_WRITE_VERSION);
	vc_buffer_u64(out, front_bytes);
	vc_buffer_u64(out, 0); /* the hash comes last */
	vc_buffer_u64(out, front->file_bytes);
	vc_buffer_u64(out, front->time);
	vc_buffer_u64(out, front->number);
	vc_buffer_u64(out, front->step);
	vc_buffer_u64(out, front->steps_known);
	vc_buffer_u64(out, front->pid);
	vc_buffer_u64(out, front->rank_plus_one);
	vc_buffer_u64(out, front->devices);
	vc_buffer_put(out, front->host, sizeof(front->host));
	vc_buffer_put(out, front->moment, sizeof(front->moment));
	vc_buffer_put(out, front->trigger, sizeof(front->trigger));

	put_note_head(out, VC_NOTE_SECTIONS,
		      (size_t)(SECTIONS_BEFORE + front->sections) * NOTE_SECTION_BYTES);
	for (unsigned i = 0; i < SECTIONS_BEFORE * 2; i++)
		vc_buffer_u64(out, 0); /* these three are covered by the hash of the front */
	for (unsigned i = 0; i < front->sections; i++) {
		vc_buffer_u64(out, front->section[i].hash);
		vc_buffer_u64(out, front->section[i].rows);
	}
}

/* GCC 12 at -O3 warns of xxhash's branch for 32 bytes and more, which eight never take. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
static uint64_t front_hash(const uint8_t *bytes, uint64_t front_bytes, uint64_t field)
{
	static const uint8_t zero[8];
	XXH64_state_t state;

	XXH64_reset(&state, 0);
	XXH64_update(&state, bytes, field);
	XXH64_update(&state, zero, sizeof(zero));
	XXH64_update(&state, bytes + field + 8, front_bytes - field - 8);
	return XXH64_digest(&state);
}
#pragma GCC diagnostic pop

int vc_container_front_build(const struct vc_container_front *front, struct vc_buffer *out)
{
	static const char first_names[] = "\0.shstrtab\0.note.vramcore";
	unsigned headers = SECTIONS_BEFORE + front->sections;
	uint64_t names = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + headers * sizeof(Elf64_Shdr);
	uint64_t names_bytes = sizeof(first_names), note, note_bytes, front_bytes, hash;
	Elf64_Ehdr header = {
		.e_type = ET_CORE,
		.e_machine = EM_NONE,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = (Elf64_Half)headers,
		.e_shstrndx = 1,
	};
	Elf64_Phdr segment = {.p_type = PT_NOTE, .p_align = 4};
	uint32_t name = sizeof(first_names);

	if (front->sections > VC_CONTAINER_SECTIONS_MAX || out->length)
		return VC_E_INVALID;
	for (unsigned i = 0; i < front->sections; i++)
		names_bytes += strlen(front->section[i].name) + 1;
	note = (names + names_bytes + 7) & ~(uint64_t)7;
	note_bytes = NOTE_HEAD_BYTES * 2 + NOTE_BYTES + headers * NOTE_SECTION_BYTES;
	front_bytes = note + note_bytes;
	memcpy(header.e_ident, identity, sizeof(identity));
	segment.p_offset = note;
	segment.p_filesz = note_bytes;
	vc_buffer_put(out, &header, sizeof(header));
	vc_buffer_put(out, &segment, sizeof(segment));
	put_section_header(out, 0, SHT_NULL, 0, 0, 0, 0);
	put_section_header(out, 1, SHT_STRTAB, 0, names, names_bytes, 1);
	put_section_header(out, 11, SHT_NOTE, 0, note, note_bytes, 4);
	for (unsigned i = 0; i < front->sections; i++) {
		put_section_header(out, name, SHT_PROGBITS, SHF_COMPRESSED,
				   front->section[i].offset, front->section[i].bytes,
				   VC_CONTAINER_ALIGNMENT);
		name += (uint32_t)strlen(front->section[i].name) + 1;
	}
	vc_buffer_put(out, first_names, sizeof(first_names));
	for (unsigned i = 0; i < front->sections; i++)
		vc_buffer_put(out, front->section[i].name, strlen(front->section[i].name) + 1);
	vc_buffer_align(out, VC_CONTAINER_ALIGNMENT);
	put_notes(out, front, front_bytes);
	if (out->error)
		return out->error;
	hash = front_hash(out->bytes, front_bytes, note + NOTE_HEAD_BYTES + NOTE_FRONT_HASH);
	memcpy(out->bytes + note + NOTE_HEAD_BYTES + NOTE_FRONT_HASH, &hash, sizeof(hash));
	return 0;
}

/* ---- parsing ---- */

/* Where the parts of a front lie, all of it checked against its length. */
struct layout {
	uint64_t front_bytes;
	uint64_t descriptor;          /* of the snapshot note */
	uint64_t hashes, hashes_bytes; /* descriptor of the sections note */
	uint32_t read_version, write_version;
	uint64_t hash;
};

static int front_fault(struct vc_fault *fault, int error, uint64_t offset)
{
	return vc_fault_set(fault, error, VC_CONTAINER_FRONT, offset);
}

static int check_header(const uint8_t *bytes, size_t length, struct vc_fault *fault)
{
	for (size_t i = 0; i < sizeof(identity); i++) {
		if (i == length)
			return front_fault(fault, i < 4 ? VC_E_NOT_OURS : VC_E_TRUNCATED, i);
		if (bytes[i] != identity[i])
			return front_fault(fault, i == EI_DATA && bytes[i] == ELFDATA2MSB ?
							  VC_E_OTHER_ENDIAN :
							  VC_E_NOT_OURS,
					   i);
	}
	if (length < sizeof(Elf64_Ehdr))
		return front_fault(fault, VC_E_TRUNCATED, length);
	if (!vc_container_probe(bytes, length))
		return front_fault(fault, VC_E_NOT_OURS, offsetof(Elf64_Ehdr, e_type));
	return 0;
}

/* The next note: its type, owner's match and descriptor. */
static int next_note(struct vc_cursor *cursor, uint32_t *type, bool *ours, uint64_t *descriptor,
		     uint64_t *bytes)
{
	uint32_t name_bytes, descriptor_bytes;
	const uint8_t *name, *skipped;

	if (vc_cursor_u32(cursor, &name_bytes) || vc_cursor_u32(cursor, &descriptor_bytes) ||
	    vc_cursor_u32(cursor, type) ||
	    vc_cursor_bytes(cursor, ((uint64_t)name_bytes + 3) & ~(uint64_t)3, &name))
		return VC_E_TRUNCATED;
	*ours = name_bytes == sizeof(VC_NOTE_OWNER) &&
		!memcmp(name, VC_NOTE_OWNER, sizeof(VC_NOTE_OWNER));
	*descriptor = vc_cursor_offset(cursor);
	*bytes = descriptor_bytes;
	return vc_cursor_bytes(cursor, ((uint64_t)descriptor_bytes + 3) & ~(uint64_t)3, &skipped);
}

static int read_snapshot_note(const uint8_t *bytes, uint64_t length, uint64_t note,
			      struct layout *layout, struct vc_fault *fault)
{
	struct vc_cursor cursor;

	if (length < NOTE_FILE_BYTES)
		return front_fault(fault, VC_E_CORRUPT, note);
	layout->descriptor = note;
	vc_cursor_init(&cursor, bytes + note, length, note);
	vc_cursor_u32(&cursor, &layout->read_version);
	vc_cursor_u32(&cursor, &layout->write_version);
	vc_cursor_u64(&cursor, &layout->front_bytes);
	vc_cursor_u64(&cursor, &layout->hash);
	return 0;
}

/* Finds our notes. `length` may be less than the front; then only what is there is looked at. */
static int find_notes(const uint8_t *bytes, size_t length, struct layout *ret,
		      struct vc_fault *fault)
{
	struct layout layout = {0};
	struct vc_cursor cursor;
	Elf64_Phdr segment;
	Elf64_Ehdr header;
	int error = check_header(bytes, length, fault);

	if (error)
		return error;
	memcpy(&header, bytes, sizeof(header));
	if (header.e_phoff > VC_CONTAINER_FRONT_MAX)
		return front_fault(fault, VC_E_CORRUPT, offsetof(Elf64_Ehdr, e_phoff));
	if (header.e_phoff > length || length - header.e_phoff < sizeof(segment))
		return front_fault(fault, VC_E_TRUNCATED, length);
	memcpy(&segment, bytes + header.e_phoff, sizeof(segment));
	if (segment.p_type != PT_NOTE || segment.p_offset > VC_CONTAINER_FRONT_MAX ||
	    segment.p_filesz > VC_CONTAINER_FRONT_MAX)
		return front_fault(fault, VC_E_CORRUPT, header.e_phoff);
	if (segment.p_offset > length || length - segment.p_offset < segment.p_filesz)
		return front_fault(fault, VC_E_TRUNCATED, length);
	vc_cursor_init(&cursor, bytes + segment.p_offset, segment.p_filesz, segment.p_offset);
	while (vc_cursor_left(&cursor)) {
		uint64_t at = vc_cursor_offset(&cursor), note, note_bytes;
		uint32_t type;
		bool ours;

		if (next_note(&cursor, &type, &ours, &note, &note_bytes))
			return front_fault(fault, VC_E_CORRUPT, at);
		if (ours && type == VC_NOTE_SNAPSHOT && !layout.descriptor) {
			error = read_snapshot_note(bytes, note_bytes, note, &layout, fault);
			if (error)
				return error;
		} else if (ours && type == VC_NOTE_SECTIONS && !layout.hashes) {
			layout.hashes = note;
			layout.hashes_bytes = note_bytes;
		}
	}
	/* A core file of something else. */
	if (!layout.descriptor)
		return front_fault(fault, VC_E_NOT_OURS, segment.p_offset);
	if (layout.front_bytes < segment.p_offset + segment.p_filesz ||
	    layout.front_bytes > VC_CONTAINER_FRONT_MAX)
		return front_fault(fault, VC_E_CORRUPT, layout.descriptor + NOTE_FRONT_BYTES);
	*ret = layout;
	return 0;
}

int vc_container_front_find(const uint8_t *bytes, size_t length, uint64_t *ret,
			    struct vc_fault *fault)
{
	struct layout layout;
	int error = find_notes(bytes, length, &layout, fault);

	if (!error)
		*ret = layout.front_bytes;
	return error;
}

static int read_identity(const uint8_t *bytes, const struct layout *layout,
			 struct vc_container_front *front, struct vc_fault *fault)
{
	struct vc_cursor cursor;
	const uint8_t *text;

	vc_cursor_init(&cursor, bytes + layout->descriptor,
		       layout->front_bytes - layout->descriptor, layout->descriptor);
	if (vc_cursor_bytes(&cursor, NOTE_FILE_BYTES, &text) ||
	    vc_cursor_u64(&cursor, &front->file_bytes) || vc_cursor_u64(&cursor, &front->time) ||
	    vc_cursor_u64(&cursor, &front->number) || vc_cursor_u64(&cursor, &front->step) ||
	    vc_cursor_u64(&cursor, &front->steps_known) || vc_cursor_u64(&cursor, &front->pid) ||
	    vc_cursor_u64(&cursor, &front->rank_plus_one) ||
	    vc_cursor_u64(&cursor, &front->devices) ||
	    vc_cursor_bytes(&cursor, sizeof(front->host), &text))
		return front_fault(fault, VC_E_CORRUPT, layout->descriptor);
	memcpy(front->host, text, sizeof(front->host) - 1);
	if (vc_cursor_bytes(&cursor, sizeof(front->moment), &text))
		return front_fault(fault, VC_E_CORRUPT, layout->descriptor);
	memcpy(front->moment, text, sizeof(front->moment) - 1);
	if (vc_cursor_bytes(&cursor, sizeof(front->trigger), &text))
		return front_fault(fault, VC_E_CORRUPT, layout->descriptor);
	memcpy(front->trigger, text, sizeof(front->trigger) - 1);
	front->read_version = layout->read_version;
	front->write_version = layout->write_version;
	front->front_bytes = layout->front_bytes;
	return 0;
}

/* Copies a name out of the section names; "" where it lies outside or is too long. */
static void copy_name(const uint8_t *bytes, const Elf64_Shdr *names, uint32_t name, char *ret)
{
	const char *from;
	size_t length;

	if (name >= names->sh_size)
		return;
	from = (const char *)bytes + names->sh_offset + name;
	length = strnlen(from, names->sh_size - name);
	if (length < sizeof(((struct vc_container_section *)0)->name) &&
	    length < names->sh_size - name)
		memcpy(ret, from, length);
}

static int read_sections(const uint8_t *bytes, const struct layout *layout,
			 struct vc_container_front *front, struct vc_fault *fault)
{
	uint64_t end = front->front_bytes;
	Elf64_Shdr names, header;
	Elf64_Ehdr elf;

	memcpy(&elf, bytes, sizeof(elf));
	if (elf.e_shentsize != sizeof(header) ||
	    elf.e_shnum > SECTIONS_BEFORE + VC_CONTAINER_SECTIONS_MAX ||
	    elf.e_shstrndx >= elf.e_shnum || elf.e_shoff > front->front_bytes ||
	    front->front_bytes - elf.e_shoff < (uint64_t)elf.e_shnum * sizeof(header) ||
	    layout->hashes_bytes < (uint64_t)elf.e_shnum * NOTE_SECTION_BYTES)
		return front_fault(fault, VC_E_CORRUPT, offsetof(Elf64_Ehdr, e_shoff));
	memcpy(&names, bytes + elf.e_shoff + elf.e_shstrndx * sizeof(header), sizeof(names));
	if (names.sh_offset > front->front_bytes ||
	    names.sh_size > front->front_bytes - names.sh_offset)
		return front_fault(fault, VC_E_CORRUPT, elf.e_shoff);
	for (unsigned i = 0; i < elf.e_shnum; i++) {
		uint64_t at = elf.e_shoff + i * sizeof(header);
		struct vc_container_section *section = &front->section[front->sections];

		memcpy(&header, bytes + at, sizeof(header));
		if (!(header.sh_flags & SHF_COMPRESSED) || header.sh_type != SHT_PROGBITS)
			continue;
		if (front->sections == VC_CONTAINER_SECTIONS_MAX || header.sh_offset < end ||
		    header.sh_size > UINT64_MAX - header.sh_offset ||
		    header.sh_offset + header.sh_size > front->file_bytes)
			return front_fault(fault, VC_E_CORRUPT, at);
		copy_name(bytes, &names, header.sh_name, section->name);
		if (!section->name[0]) /* faults in it could not be named */
			return front_fault(fault, VC_E_CORRUPT, at);
		section->offset = header.sh_offset;
		section->bytes = header.sh_size;
		end = header.sh_offset + header.sh_size;
		memcpy(&section->hash, bytes + layout->hashes + i * NOTE_SECTION_BYTES, 8);
		memcpy(&section->rows, bytes + layout->hashes + i * NOTE_SECTION_BYTES + 8, 8);
		front->sections++;
	}
	return 0;
}

int vc_container_front_parse(const uint8_t *bytes, size_t length, struct vc_container_front *ret,
			     struct vc_faults *faults)
{
	struct vc_container_front front;
	struct vc_fault fault;
	struct layout layout;
	bool damaged = false;
	int error = find_notes(bytes, length, &layout, &fault);

	memset(&front, 0, sizeof(front));
	if (!error && layout.front_bytes > length)
		error = front_fault(&fault, VC_E_TRUNCATED, length);
	if (!error) {
		uint64_t field = layout.descriptor + NOTE_FRONT_HASH;

		damaged = front_hash(bytes, layout.front_bytes, field) != layout.hash;
		if (damaged) {
			front_fault(&fault, VC_E_CHECKSUM, 0);
			vc_faults_add(faults, &fault);
		}
		if (layout.read_version > VC_CONTAINER_READ_VERSION)
			error = front_fault(&fault, damaged ? VC_E_CHECKSUM : VC_E_TOO_NEW,
					    layout.descriptor + NOTE_VERSIONS);
	}
	if (!error)
		error = read_identity(bytes, &layout, &front, &fault);
	if (!error)
		error = read_sections(bytes, &layout, &front, &fault);
	if (error) {
		vc_faults_add(faults, &fault);
		return error;
	}
	*ret = front;
	return 0;
}
