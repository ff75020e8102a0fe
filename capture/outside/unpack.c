/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef VC_HAVE_ZLIB
#include <zlib.h>
#endif
#include <zstd.h>

#include "formats/error.h"

#define BLOCK (256u << 10)
#define PAGE 4096u
#define APPARENT_MAX (UINT64_C(1) << 44)

extern char **environ;

struct work {
	int from, to;
	uint64_t bytes;          /* unpacked so far, those of zeroes too */
	const char *cut;
	char folder[PATH_MAX];
	char *problem;
	size_t problem_size;
	uint8_t *in, *out;       /* BLOCK each */
	size_t filled;           /* of out */
};

static int fail(struct work *work, int error, const char *what)
{
	snprintf(work->problem, work->problem_size, "%s", what);
	return error;
}

/* ---- the plain file ---- */

/* Disk rather than memory: what is unpacked may be larger than either. */
static int plain_file(struct work *work)
{
	const char *chosen = getenv("TMPDIR"), *folder[] = {chosen, "/var/tmp", "/tmp"};

	for (size_t i = 0; i < sizeof(folder) / sizeof(*folder); i++) {
		if (!folder[i] || !*folder[i])
			continue;
		snprintf(work->folder, sizeof(work->folder), "%s", folder[i]);
		work->to = open(folder[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (work->to < 0) {
			char name[PATH_MAX];

			if (snprintf(name, sizeof(name), "%s/vramcore-core-XXXXXX", folder[i]) >=
			    (int)sizeof(name))
				continue;
			work->to = mkostemp(name, O_CLOEXEC);
			if (work->to >= 0)
				unlink(name);
		}
		if (work->to >= 0)
			return 0;
	}
	return fail(work, VC_E_IO, "no folder to unpack it in (TMPDIR, /var/tmp, /tmp)");
}

static bool all_zero(const uint8_t *page, size_t length)
{
	return !page[0] && !memcmp(page, page + 1, length - 1);
}

static int write_run(struct work *work, size_t from, size_t to)
{
	while (from < to) {
		ssize_t done = pwrite(work->to, work->out + from, to - from,
				      (off_t)(work->bytes + from));

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			snprintf(work->problem, work->problem_size,
				 "%s after %" PRIu64 " bytes in %s, where it is unpacked (TMPDIR "
				 "chooses another folder)",
				 strerror(done < 0 ? errno : ENOSPC), work->bytes, work->folder);
			return VC_E_IO;
		}
		from += (size_t)done;
	}
	return 0;
}

/* Writes the pages of the block that are not all zero. */
static int flush(struct work *work)
{
	size_t run = 0;
	int error = 0;

	for (size_t at = 0; at < work->filled && !error; at += PAGE) {
		size_t length = work->filled - at < PAGE ? work->filled - at : PAGE;

		if (!all_zero(work->out + at, length))
			continue;
		error = write_run(work, run, at);
		run = at + length;
	}
	if (!error)
		error = write_run(work, run, work->filled);
	work->bytes += work->filled;
	work->filled = 0;
	if (!error && work->bytes > APPARENT_MAX)
		error = fail(work, VC_E_LIMIT, "unpacks to more than 16 TiB");
	return error;
}

static ssize_t read_some(int descriptor, void *buffer, size_t length)
{
	ssize_t got;

	do
		got = read(descriptor, buffer, length);
	while (got < 0 && errno == EINTR);
	return got;
}

/* ---- zstd, gzip ---- */

static int unpack_zstd(struct work *work)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	size_t left = 1;
	int error = context ? 0 : fail(work, VC_E_NO_MEMORY, "out of memory");

	while (!error && !work->cut) {
		ssize_t got = read_some(work->from, work->in, BLOCK);
		ZSTD_inBuffer in = {work->in, got > 0 ? (size_t)got : 0, 0};

		if (got <= 0) {
			work->cut = got < 0 ? strerror(errno) : left ? "the packed file ends too early" :
								       NULL;
			break;
		}
		/* also when all was taken in, there may be more to come out */
		for (bool more = true; more && !error && !work->cut;) {
			ZSTD_outBuffer out = {work->out, BLOCK, work->filled};

			left = ZSTD_decompressStream(context, &out, &in);
			if (ZSTD_isError(left))
				work->cut = "the packed data is damaged";
			work->filled = out.pos;
			more = in.pos < in.size || (left && out.pos == out.size);
			if (out.pos == out.size)
				error = flush(work);
		}
	}
	ZSTD_freeDCtx(context);
	return error;
}

#ifdef VC_HAVE_ZLIB
static int unpack_gzip(struct work *work)
{
	z_stream stream = {0};
	int result = Z_OK, error = 0;

	if (inflateInit2(&stream, 15 + 16) != Z_OK)
		return fail(work, VC_E_NO_MEMORY, "out of memory");
	while (!error && !work->cut) {
		ssize_t got = read_some(work->from, work->in, BLOCK);

		if (got <= 0) {
			work->cut = got < 0 ? strerror(errno) :
				    result != Z_STREAM_END ? "the packed file ends too early" :
							     NULL;
			break;
		}
		stream.next_in = work->in;
		stream.avail_in = (unsigned)got;
		for (bool more = true; more && !error && !work->cut;) {
			if (result == Z_STREAM_END) /* members follow each other */
				inflateReset(&stream);
			stream.next_out = work->out + work->filled;
			stream.avail_out = (unsigned)(BLOCK - work->filled);
			result = inflate(&stream, Z_NO_FLUSH);
			if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
				work->cut = "the packed data is damaged";
			work->filled = BLOCK - stream.avail_out;
			more = stream.avail_in || (!stream.avail_out && result != Z_STREAM_END);
			if (!stream.avail_out)
				error = flush(work);
			else if (result == Z_BUF_ERROR)
				more = false;
		}
	}
	inflateEnd(&stream);
	return error;
}
#endif

/* ---- lz4, xz: by their commands ---- */

static int start_command(struct work *work, char *const *command, pid_t *ret_pid, int *ret_output)
{
	posix_spawn_file_actions_t actions;
	int ends[2], error;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return fail(work, VC_E_IO, strerror(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, work->from, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	error = posix_spawnp(ret_pid, command[0], &actions, NULL, command, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	*ret_output = ends[0];
	if (!error)
		return 0;
	close(ends[0]);
	if (error == ENOENT)
		snprintf(work->problem, work->problem_size,
			 "packed with %s, and there is no command %s here to unpack it with", command[0],
			 command[0]);
	else
		snprintf(work->problem, work->problem_size, "%s: %s", command[0], strerror(error));
	return VC_E_NOT_FOUND;
}

static int unpack_by_command(struct work *work, const char *name)
{
	char word[8], option[] = "-dc";
	char *command[] = {word, option, NULL};
	int output, status = 0, error;
	pid_t pid;

	snprintf(word, sizeof(word), "%s", name);
	error = start_command(work, command, &pid, &output);
	if (error)
		return error;
	while (!error) {
		ssize_t got = read_some(output, work->out + work->filled, BLOCK - work->filled);

		if (got <= 0)
			break;
		work->filled += (size_t)got;
		if (work->filled == BLOCK)
			error = flush(work);
	}
	close(output);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!error && status)
		work->cut = "the packed data is damaged or ends too early";
	return error;
}

/* ---- which ---- */

static const struct packing {
	const char *name;
	uint8_t magic[6], length;
} packings[] = {
	{"gzip", {0x1f, 0x8b}, 2},
	{"zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4},
	{"lz4", {0x04, 0x22, 0x4d, 0x18}, 4},
	{"xz", {0xfd, '7', 'z', 'X', 'Z', 0}, 6},
};

static int unpack(struct work *work, const char *packing)
{
	int error;

	if (!strcmp(packing, "zstd"))
		error = unpack_zstd(work);
	else if (strcmp(packing, "gzip"))
		error = unpack_by_command(work, packing);
	else
#ifdef VC_HAVE_ZLIB
		error = unpack_gzip(work);
#else
		error = unpack_by_command(work, "gzip");
#endif
	if (!error)
		error = flush(work);
	if (!error && ftruncate(work->to, (off_t)work->bytes) != 0)
		error = fail(work, VC_E_IO, strerror(errno));
	return error;
}

int vc_unpack(int descriptor, struct vc_unpacked *ret, char *problem, size_t problem_size)
{
	struct work work = {
		.from = descriptor, .to = -1, .problem = problem, .problem_size = problem_size};
	struct vc_unpacked made = {.descriptor = descriptor};
	uint8_t magic[6] = {0};
	int error;

	if (pread(descriptor, magic, sizeof(magic), 0) < 0)
		return fail(&work, VC_E_IO, strerror(errno));
	for (size_t i = 0; i < sizeof(packings) / sizeof(*packings); i++)
		if (!memcmp(magic, packings[i].magic, packings[i].length))
			made.packing = packings[i].name;
	if (!made.packing) {
		*ret = made;
		return 0;
	}
	work.in = malloc(BLOCK);
	work.out = malloc(BLOCK);
	error = work.in && work.out ? plain_file(&work) :
				      fail(&work, VC_E_NO_MEMORY, "out of memory");
	if (!error && lseek(descriptor, 0, SEEK_SET) != 0)
		error = fail(&work, VC_E_IO, strerror(errno));
	if (!error)
		error = unpack(&work, made.packing);
	free(work.in);
	free(work.out);
	if (error) {
		if (work.to >= 0)
			close(work.to);
		return error;
	}
	made.descriptor = work.to;
	made.bytes = work.bytes;
	made.cut = work.cut;
	*ret = made;
	return 0;
}
