/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/recording_read.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_descriptor(void *self, uint64_t offset, void *buffer, size_t length,
			   size_t *ret_length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t got = pread((int)(intptr_t)self, (char *)buffer + done, length - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return VC_E_IO;
		if (!got)
			break;
		done += (size_t)got;
	}
	*ret_length = done;
	return 0;
}

int vc_recording_source_descriptor(int descriptor, struct vc_recording_source *ret)
{
	struct stat about;

	if (fstat(descriptor, &about))
		return VC_E_IO;
	if (!S_ISREG(about.st_mode))
		return VC_E_NOT_A_RECORDING;
	ret->read = read_descriptor;
	ret->length = (uint64_t)about.st_size;
	ret->self = (void *)(intptr_t)descriptor;
	return 0;
}

static int read_memory(void *self, uint64_t offset, void *buffer, size_t length, size_t *ret_length)
{
	const struct vc_recording_bytes *bytes = self;
	size_t left = offset < bytes->length ? bytes->length - offset : 0;

	if (length > left)
		length = left;
	if (length)
		memcpy(buffer, (const char *)bytes->bytes + offset, length);
	*ret_length = length;
	return 0;
}

void vc_recording_source_memory(struct vc_recording_bytes *bytes, struct vc_recording_source *ret)
{
	ret->read = read_memory;
	ret->length = bytes->length;
	ret->self = bytes;
}
