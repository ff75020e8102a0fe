/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core files as they are stored: plain, or packed with gzip, zstd, lz4 or xz, told by content.
 *
 * A packed file is unpacked as a stream into a file without a name, in which pages of zeroes take
 * no room, so that a core of a large apparent size takes the room of what was in use. lz4 and xz
 * are unpacked by the commands of these names. Memory is bounded; every byte is untrusted.
 */
#ifndef VC_CAPTURE_OUTSIDE_UNPACK_H
#define VC_CAPTURE_OUTSIDE_UNPACK_H

#include <stddef.h>
#include <stdint.h>

struct vc_unpacked {
	int descriptor;       /* plain; the one given where nothing was packed */
	const char *packing;  /* "gzip", "zstd", "lz4", "xz"; NULL: none */
	uint64_t bytes;
	const char *cut;      /* why it ends too early; NULL: it is whole */
};

/**
 * 0, or a negative VC_E_* with *problem saying what is wrong in words. What was unpacked before
 * the packed data ended or proved damaged is kept, and `cut` says so. The caller closes both
 * descriptors, where they differ.
 */
int vc_unpack(int descriptor, struct vc_unpacked *ret, char *problem, size_t problem_size);

#endif
