/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef VC_HAVE_ZLIB
#include <zlib.h>
#endif
#include <zstd.h>

#include "formats/error.h"

enum {
	WINDOW_BYTES = 256 << 10,
	PACKED_BYTES = 64 << 10,
};

struct vc_unpacker {
	uint8_t packed[PACKED_BYTES];
	size_t packed_at, packed_end;
	bool packed_ended;
	bool inside; /* a member or frame has begun and not ended */
#ifdef VC_HAVE_ZLIB
	z_stream gzip;
#endif
	ZSTD_DStream *zstd;
};

const char *vc_wrapping_text(enum vc_wrapping wrapping)
{
	return wrapping == VC_WRAPPING_GZIP ? "gzip" : wrapping == VC_WRAPPING_ZSTD ? "zstd" : "";
}

/** Reads from the file; *ret is 0 at its end. */
static int read_some(int descriptor, uint8_t *to, size_t room, size_t *ret)
{
	ssize_t got;

	do
		got = read(descriptor, to, room);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return VC_E_IO;
	*ret = (size_t)got;
	return 0;
}

#ifdef VC_HAVE_ZLIB
static int open_gzip(struct vc_unpacker *unpacker)
{
	return inflateInit2(&unpacker->gzip, 15 + 16) == Z_OK ? 0 : VC_E_NO_MEMORY;
}

static void close_gzip(struct vc_unpacker *unpacker)
{
	inflateEnd(&unpacker->gzip);
}

/** One step of zlib; gzip files may have several members. */
static int unpack_gzip(struct vc_unpacker *unpacker, uint8_t *to, size_t room, size_t *ret)
{
	z_stream *gzip = &unpacker->gzip;
	int result;

	if (!unpacker->inside && inflateReset(gzip) != Z_OK)
		return VC_E_COMPRESSION;
	unpacker->inside = true;
	gzip->next_in = unpacker->packed + unpacker->packed_at;
	gzip->avail_in = (uInt)(unpacker->packed_end - unpacker->packed_at);
	gzip->next_out = to;
	gzip->avail_out = (uInt)room;
	result = inflate(gzip, Z_NO_FLUSH);
	unpacker->packed_at = unpacker->packed_end - gzip->avail_in;
	*ret = room - gzip->avail_out;
	if (result == Z_STREAM_END)
		unpacker->inside = false;
	else if (result != Z_OK && result != Z_BUF_ERROR)
		return result == Z_MEM_ERROR ? VC_E_NO_MEMORY : VC_E_COMPRESSION;
	return 0;
}
#else
static int open_gzip(struct vc_unpacker *unpacker)
{
	(void)unpacker;
	return VC_E_NOT_OURS;
}

static void close_gzip(struct vc_unpacker *unpacker)
{
	(void)unpacker;
}

static int unpack_gzip(struct vc_unpacker *unpacker, uint8_t *to, size_t room, size_t *ret)
{
	(void)unpacker, (void)to, (void)room, (void)ret;
	return VC_E_NOT_OURS;
}
#endif

static int open_unpacker(struct vc_stream *stream, const uint8_t *start, size_t length)
{
	struct vc_unpacker *unpacker = calloc(1, sizeof(*unpacker));

	if (!unpacker)
		return VC_E_NO_MEMORY;
	stream->unpacker = unpacker;
	memcpy(unpacker->packed, start, length);
	unpacker->packed_end = length;
	if (stream->wrapping == VC_WRAPPING_GZIP)
		return open_gzip(unpacker);
	unpacker->zstd = ZSTD_createDStream();
	return unpacker->zstd ? 0 : VC_E_NO_MEMORY;
}

int vc_stream_open(int descriptor, uint64_t most, struct vc_stream *ret)
{
	struct vc_stream stream = {.descriptor = descriptor, .most = most, .room = WINDOW_BYTES};
	size_t length = 0, got = 1;
	int error = 0;

	stream.window = malloc(stream.room);
	if (!stream.window)
		return VC_E_NO_MEMORY;
	if (lseek(descriptor, 0, SEEK_SET) < 0)
		error = VC_E_IO;
	while (!error && got && length < PACKED_BYTES) {
		error = read_some(descriptor, stream.window + length, PACKED_BYTES - length, &got);
		length += error ? 0 : got;
	}
	stream.at = stream.end = stream.window;
	if (!error && length >= 4 && !memcmp(stream.window, "\x1f\x8b\x08", 3))
		stream.wrapping = VC_WRAPPING_GZIP;
	else if (!error && length >= 4 && !memcmp(stream.window, "\x28\xb5\x2f\xfd", 4))
		stream.wrapping = VC_WRAPPING_ZSTD;
	if (!error && stream.wrapping) {
		error = open_unpacker(&stream, stream.window, length);
	} else {
		stream.end += length;
		stream.offset = length;
		stream.ended = !got;
	}
	if (error)
		vc_stream_close(&stream);
	else
		*ret = stream;
	return error;
}

int vc_stream_from(vc_stream_more more, void *context, uint64_t most, struct vc_stream *ret)
{
	uint8_t *window = malloc(WINDOW_BYTES);

	if (!window)
		return VC_E_NO_MEMORY;
	*ret = (struct vc_stream){.at = window, .end = window, .most = most, .descriptor = -1,
				  .window = window, .room = WINDOW_BYTES, .more = more,
				  .context = context};
	return 0;
}

void vc_stream_close(struct vc_stream *stream)
{
	if (stream->unpacker) {
		if (stream->wrapping == VC_WRAPPING_GZIP)
			close_gzip(stream->unpacker);
		ZSTD_freeDStream(stream->unpacker->zstd);
	}
	free(stream->unpacker);
	free(stream->window);
	*stream = (struct vc_stream){.descriptor = -1};
}

static int unpack_zstd(struct vc_unpacker *unpacker, uint8_t *to, size_t room, size_t *ret)
{
	ZSTD_inBuffer in = {unpacker->packed, unpacker->packed_end, unpacker->packed_at};
	ZSTD_outBuffer out = {to, room, 0};
	size_t result = ZSTD_decompressStream(unpacker->zstd, &out, &in);

	if (ZSTD_isError(result))
		return VC_E_COMPRESSION;
	unpacker->packed_at = in.pos;
	unpacker->inside = result != 0;
	*ret = out.pos;
	return 0;
}

/** Unpacks more; *ret is 0 at the end. */
static int unpack_some(struct vc_stream *stream, uint8_t *to, size_t room, size_t *ret)
{
	struct vc_unpacker *unpacker = stream->unpacker;
	size_t got = 0;
	int error = 0;

	while (!error && !got) {
		if (unpacker->packed_at == unpacker->packed_end && !unpacker->packed_ended) {
			unpacker->packed_at = 0;
			error = read_some(stream->descriptor, unpacker->packed, PACKED_BYTES,
					  &unpacker->packed_end);
			unpacker->packed_ended = !error && !unpacker->packed_end;
		}
		if (!error && unpacker->packed_ended && !unpacker->inside)
			break;
		size_t before = unpacker->packed_at;

		if (!error)
			error = stream->wrapping == VC_WRAPPING_GZIP ?
					unpack_gzip(unpacker, to, room, &got) :
					unpack_zstd(unpacker, to, room, &got);
		/* no input, no output, and more was promised: it is cut */
		if (!error && !got && unpacker->packed_ended && unpacker->packed_at == before)
			error = unpacker->inside ? VC_E_TRUNCATED : 0;
	}
	*ret = error ? 0 : got;
	return error;
}

/** Makes room for `bytes` bytes from `at` on, and moves what is there to the front. */
static int make_room(struct vc_stream *stream, size_t bytes)
{
	size_t left = (size_t)(stream->end - stream->at);

	memmove(stream->window, stream->at, left);
	if (bytes > stream->room) {
		uint8_t *larger = realloc(stream->window, bytes);

		if (!larger)
			return VC_E_NO_MEMORY;
		stream->window = larger;
		stream->room = bytes;
	}
	stream->at = stream->window;
	stream->end = stream->window + left;
	return 0;
}

int vc_stream_fill(struct vc_stream *stream, size_t bytes)
{
	size_t left = (size_t)(stream->end - stream->at), got;
	int error;

	while (left < bytes && !stream->ended) {
		/* as bytes arrive: a length that is not true costs what is there */
		size_t room = left * 2 < bytes ? left * 2 : bytes;

		error = make_room(stream, (room < WINDOW_BYTES ? WINDOW_BYTES : room) + 4);
		if (!error && stream->more)
			error = stream->more(stream->context, stream->window + left,
					     stream->room - left, &got);
		else if (!error)
			error = stream->wrapping ?
					unpack_some(stream, stream->window + left,
						    stream->room - left, &got) :
					read_some(stream->descriptor, stream->window + left,
						  stream->room - left, &got);
		if (error)
			return error;
		if (got > stream->most - stream->offset)
			return VC_E_LIMIT;
		stream->ended = !got;
		stream->end += got;
		stream->offset += got;
		left += got;
	}
	return 0;
}
