/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that holds a snapshot: an ELF core file with compressed sections and a note of ours.
 *
 * The front (ELF header, program header, section headers, their names, the note) says what is in
 * the file and where; it is covered by a hash that stands in the note, and each section by one of
 * its own. Sections follow in the order of their headers. This file knows nothing of tables.
 * No global state; not for use inside a host process.
 */
#ifndef VC_FORMATS_CONTAINER_H
#define VC_FORMATS_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/cursor.h"

#define VC_CONTAINER_READ_VERSION 1  /* readers that know less must refuse */
#define VC_CONTAINER_WRITE_VERSION 1 /* what this code writes */

#define VC_NOTE_OWNER "VRAMCORE"
#define VC_NOTE_SNAPSHOT 0x5652 /* struct vc_container_front, see FORMAT.md */
#define VC_NOTE_SECTIONS 0x5653 /* hash and rows of every section */

/* Limits of the reader, and of the writer so that it writes nothing that cannot be read. */
#define VC_CONTAINER_SECTIONS_MAX 64
#define VC_CONTAINER_FRONT_MAX (1u << 20)
#define VC_CONTAINER_ALIGNMENT 8

/** Elf64_Chdr.ch_type of zstd; older elf.h does not name it. */
#define VC_ELFCOMPRESS_ZSTD 2

/** The name faults of the front carry in place of a section's. */
#define VC_CONTAINER_FRONT "front"

struct vc_container_section {
	char name[32];
	uint64_t offset, bytes; /* in the file: Elf64_Chdr and frames */
	uint64_t hash;          /* XXH64 of these bytes, seed 0 */
	uint64_t rows;
};

/** All that the front says. */
struct vc_container_front {
	uint32_t read_version, write_version;
	uint64_t front_bytes; /* the first section begins here */
	uint64_t file_bytes;
	uint64_t time;        /* of the moment, nanoseconds since 1970 */
	uint64_t number;      /* S */
	uint64_t step, steps_known;
	uint64_t pid, rank_plus_one, devices;
	char host[64], moment[32], trigger[32]; /* NUL-terminated, cut where too long */
	uint32_t sections;
	struct vc_container_section section[VC_CONTAINER_SECTIONS_MAX];
};

/** Whether the first bytes of a file (64 are enough) are those of a snapshot. */
bool vc_container_probe(const void *bytes, size_t length);

/**
 * Appends the whole front to an empty *out. Its length depends on the number and the names of the
 * sections only; front_bytes is worked out here, and the versions are those above.
 */
int vc_container_front_build(const struct vc_container_front *front, struct vc_buffer *out);

/**
 * Length of the front of a file from its first bytes, VC_CONTAINER_FRONT_MAX of them or the whole
 * file; sets *fault and returns the error where there is none to be found.
 */
int vc_container_front_find(const uint8_t *bytes, size_t length, uint64_t *ret,
			    struct vc_fault *fault);
/**
 * Reads a front. A wrong hash is a fault, not an error: what can still be read is. On success every
 * section of *ret lies after the front and after the one before it, and in front of file_bytes,
 * which may be past the end of the file.
 */
int vc_container_front_parse(const uint8_t *bytes, size_t length, struct vc_container_front *ret,
			     struct vc_faults *faults);

#endif
