/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/ask.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "formats/recording_read.h"

#define LOOKS_A_SECOND 50

/* Row plus 1 of the first moment from `first` on that was asked for; 0: there is none yet. */
static uint64_t answer(int descriptor, uint64_t first)
{
	struct vc_recording_moment *moments = NULL;
	struct vc_recording_source source;
	size_t count = 0;
	uint64_t found = 0;

	if (vc_recording_source_descriptor(descriptor, &source) == 0)
		vc_recording_moments(&source, &moments, &count, NULL);
	for (size_t i = 0; !found && i < count; i++)
		if (moments[i].row >= first && !strcmp(moments[i].trigger, VC_TRIGGER_ASKED))
			found = moments[i].row + 1;
	free(moments);
	return found;
}

static int ask(int descriptor, uint64_t *ret_first)
{
	struct vc_recording_summary summary;
	struct vc_recording_source source;
	const off_t place = offsetof(struct vc_root, asked);
	uint64_t word;
	int error = vc_recording_source_descriptor(descriptor, &source);

	if (!error)
		error = vc_recording_peek(&source, &summary);
	if (error)
		return error;
	if (pread(descriptor, &word, sizeof(word), place) != sizeof(word))
		return VC_E_IO;
	word = vc_word((vc_word_good(word) ? vc_word_value(word) : 0) + 1);
	if (pwrite(descriptor, &word, sizeof(word), place) != sizeof(word))
		return VC_E_IO;
	*ret_first = summary.moments;
	return 0;
}

int vc_ask(const char *path, uint64_t *ret_moment_plus_one)
{
	const struct timespec pause = {0, 1000000000 / LOOKS_A_SECOND};
	int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	uint64_t first, found = 0;
	int error;

	if (descriptor < 0)
		return VC_E_PERMISSION;
	error = ask(descriptor, &first);
	for (int i = 0; !error && !found && i < VC_ASK_SECONDS * LOOKS_A_SECOND; i++) {
		nanosleep(&pause, NULL);
		found = answer(descriptor, first);
	}
	close(descriptor);
	if (error)
		return error;
	if (!found)
		return VC_E_NOT_FOUND;
	*ret_moment_plus_one = found;
	return 0;
}
