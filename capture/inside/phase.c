/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/phase.h"

#include <string.h>

#include "capture/inside/events.h"
#include "capture/inside/store.h"
#include "capture/inside/thread.h"

#define SEPARATOR " > "
#define SEPARATOR_LENGTH (sizeof(SEPARATOR) - 1)
#define PATH_MAX_BYTES 240u
#define DEPTH_MAX 32u

static void change(uint32_t id)
{
	struct vc_root *root = vc_store_root();

	vc_thread_local.phase = id;
	__atomic_store_n(&root->phase, vc_word(id), __ATOMIC_RELAXED);
}

/* Names in a path; 0 for the empty path. */
static unsigned int names_in(const char *path)
{
	unsigned int names = *path != '\0';

	for (; *path; path++)
		if (!strncmp(path, SEPARATOR, SEPARATOR_LENGTH))
			names++;
	return names;
}

void vc_phase_set(const char *name, size_t length)
{
	if (length > PATH_MAX_BYTES)
		length = PATH_MAX_BYTES;
	change(length ? vc_store_string(name, length) : 0);
	vc_thread_local.phase_depth = length != 0;
}

void vc_phase_push(const char *name, size_t length)
{
	const char *path = vc_store_text(vc_thread_local.phase);
	size_t known = strlen(path);
	char next[PATH_MAX_BYTES + 1];

	if (vc_thread_local.phase_depth == UINT8_MAX)
		return;
	vc_thread_local.phase_depth++;
	/* Once a name is left out, all further in are: leaving is then a matter of counting. */
	if (!length || vc_thread_local.phase_depth > DEPTH_MAX ||
	    names_in(path) + 1 != vc_thread_local.phase_depth ||
	    known + SEPARATOR_LENGTH + length > PATH_MAX_BYTES || strstr(name, SEPARATOR))
		return;
	memcpy(next, path, known);
	if (known) {
		memcpy(next + known, SEPARATOR, SEPARATOR_LENGTH);
		known += SEPARATOR_LENGTH;
	}
	memcpy(next + known, name, length);
	change(vc_store_string(next, known + length));
}

void vc_phase_pop(void)
{
	const char *path = vc_store_text(vc_thread_local.phase), *last = path;

	if (!vc_thread_local.phase_depth)
		return;
	if (names_in(path) < vc_thread_local.phase_depth--)
		return;
	for (const char *at = path; *at; at++)
		if (!strncmp(at, SEPARATOR, SEPARATOR_LENGTH))
			last = at;
	change(last == path ? 0 : vc_store_string(path, (size_t)(last - path)));
}

void vc_phase_step(enum vc_step_source source, uint64_t step)
{
	struct vc_root *root = vc_store_root();
	uint64_t known = vc_word_value(__atomic_load_n(&root->step_source, __ATOMIC_RELAXED));

	if (source < known)
		return;
	if (source != known)
		__atomic_store_n(&root->step_source, vc_word(source), __ATOMIC_RELAXED);
	vc_event_step(step);
}
