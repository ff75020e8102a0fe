/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core file of a process, as the kernel or a debugger writes it: its memory by address, the files
 * it had mapped, its threads.
 *
 * The program headers are walked here and nothing else of the file is looked at before it is asked
 * for, so that a core of any apparent size costs a few reads; a core is never mapped. Every byte is
 * untrusted. A core that ends too early keeps what is whole: what is missing is counted. ELF, 64
 * bit, little endian; any machine. Not thread safe.
 */
#ifndef VC_CAPTURE_OUTSIDE_CORE_H
#define VC_CAPTURE_OUTSIDE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/error.h"

/** A run of memory. `file_bytes` of it stand at `offset`, the rest was not written. */
struct vc_core_segment {
	uint64_t address, memory_bytes, offset, file_bytes;
	bool writable;
};

/** A mapping of a file, as NT_FILE names it. */
struct vc_core_mapping {
	uint64_t start, end, file_offset;
	const char *path;
};

struct vc_core {
	int descriptor;           /* the caller's */
	uint64_t length;
	uint64_t segments, mappings, threads;
	struct vc_core_segment *segment; /* by address */
	struct vc_core_mapping *mapping; /* as in the note */
	uint64_t cut_segments, cut_bytes; /* of memory that the file ends before */
	uint64_t pid;             /* 0: unknown */
	int signal;               /* that it died of; 0: none, as in a debugger's core */
	char program[17];         /* first 15 bytes of its name */
	/* private */
	char *paths;
};

/** Reads the headers and notes. The descriptor must be of a regular file. 0 or a negative VC_E_*. */
int vc_core_open(int descriptor, struct vc_core *ret, struct vc_fault *fault);
/** Frees what it owns; accepts a struct that is all zero. */
void vc_core_close(struct vc_core *core);
/** The segment that an address lies in, written to the file or not; NULL: none. */
const struct vc_core_segment *vc_core_segment_at(const struct vc_core *core, uint64_t address);
/** Reads memory at an address: the bytes that are in the file, from the first on. */
size_t vc_core_read(const struct vc_core *core, uint64_t address, void *buffer, size_t length);

#endif
