/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a file from its start to its end, as they are or unpacked (gzip, zstd), in a window
 * that moves along.
 *
 * `at` .. `end` is what is in the window; vc_stream_fill brings more. Nothing is kept behind `at`,
 * so a file of any size costs one window. Not thread safe.
 */
#ifndef VC_ANALYZE_STREAM_H
#define VC_ANALYZE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vc_wrapping {
	VC_WRAPPING_NONE,
	VC_WRAPPING_GZIP,
	VC_WRAPPING_ZSTD,
};

struct vc_unpacker;

/** Brings some bytes, at most `room` (never below 4); *ret is 0 at the end. */
typedef int (*vc_stream_more)(void *context, uint8_t *to, size_t room, size_t *ret);

struct vc_stream {
	const uint8_t *at, *end;
	uint64_t offset;          /* of `end`: bytes handed out up to there */
	uint64_t most;            /* bytes that may be handed out */
	bool ended;               /* nothing follows `end` */
	enum vc_wrapping wrapping;
	/* private */
	int descriptor;
	uint8_t *window;
	size_t room;
	struct vc_unpacker *unpacker;
	vc_stream_more more;
	void *context;
};

/** Starts at byte 0 of a file; what it is packed with, its first bytes say. */
int vc_stream_open(int descriptor, uint64_t most, struct vc_stream *ret);
/** The same for bytes that a function brings: something unpacked from another stream. */
int vc_stream_from(vc_stream_more more, void *context, uint64_t most, struct vc_stream *ret);
void vc_stream_close(struct vc_stream *stream);

/**
 * Brings the window to at least `bytes` bytes, less where the file ends. 0; VC_E_IO;
 * VC_E_COMPRESSION; VC_E_LIMIT where more than `most` would be read; VC_E_NO_MEMORY.
 */
int vc_stream_fill(struct vc_stream *stream, size_t bytes);

/** Offset of the byte at `at`. */
static inline uint64_t vc_stream_offset(const struct vc_stream *stream)
{
	return stream->offset - (uint64_t)(stream->end - stream->at);
}

/** "gzip", "zstd", "" */
const char *vc_wrapping_text(enum vc_wrapping wrapping);

#endif
