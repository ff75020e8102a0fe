/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of stacks, from the kernel's list of mappings. */
#include "capture/inside/stack_range.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	/* The main thread's mapping grows down into the gap below it, at most by this much. */
	GROWTH = 64 * 1024 * 1024,
};

/* One line of the list: LOW-HIGH PERMISSIONS OFFSET DEVICE INODE NAME. */
struct mapping {
	uintptr_t low;
	uintptr_t high;
	bool readable;
	bool grows;
};

static const char *take_hex(const char *at, const char *end, uintptr_t *ret)
{
	uintptr_t value = 0;

	for (; at < end; at++) {
		if (*at >= '0' && *at <= '9')
			value = value << 4 | (uintptr_t)(*at - '0');
		else if (*at >= 'a' && *at <= 'f')
			value = value << 4 | (uintptr_t)(*at - 'a' + 10);
		else
			break;
	}
	*ret = value;
	return at;
}

static bool parse_line(const char *at, const char *end, struct mapping *ret)
{
	static const char name[] = "[stack]";

	at = take_hex(at, end, &ret->low);
	if (at == end || *at++ != '-')
		return false;
	at = take_hex(at, end, &ret->high);
	if (end - at < 2 || *at++ != ' ')
		return false;
	ret->readable = *at == 'r';
	ret->grows = (size_t)(end - at) >= sizeof(name) - 1 &&
		     memcmp(end - (sizeof(name) - 1), name, sizeof(name) - 1) == 0;
	return true;
}

/* What is known while the lines go by in order of address. */
struct search {
	uintptr_t sp;
	uintptr_t previous_end;
	struct vc_stack_range found;
};

/* Returns true when the search is over. */
static bool consider(struct search *search, const struct mapping *m)
{
	uintptr_t low = m->low;

	if (m->grows) {
		low = m->high > GROWTH ? m->high - GROWTH : 0;
		low = low > search->previous_end ? low : search->previous_end;
		low = low < m->low ? low : m->low;
	}
	search->previous_end = m->high;
	if (search->sp >= m->high)
		return false;
	if (search->sp >= low && m->readable) {
		search->found.low = low;
		search->found.high = m->high;
	}
	/* The line of a growing mapping may come after sp, so only a lower bound above ends it. */
	return search->sp >= low ||
	       (m->low > search->sp && !m->grows && m->low - search->sp > GROWTH);
}

/* Lines longer than the buffer (long names) are used for what fits: the front is what counts. */
static void search_list(long descriptor, struct search *search, char *buffer, size_t size)
{
	size_t filled = 0;
	bool skipping = false;
	struct mapping m;

	for (;;) {
		long got = syscall(SYS_read, descriptor, buffer + filled, size - filled);
		char *line = buffer;
		char *end;

		if (got == -1 && errno == EINTR)
			continue;
		if (got <= 0)
			return;
		filled += (size_t)got;
		while ((end = memchr(line, '\n', filled - (size_t)(line - buffer)))) {
			if (!skipping && parse_line(line, end, &m) && consider(search, &m))
				return;
			skipping = false;
			line = end + 1;
		}
		filled -= (size_t)(line - buffer);
		memmove(buffer, line, filled);
		if (filled == size) {
			if (!skipping && parse_line(buffer, buffer + filled, &m) &&
			    consider(search, &m))
				return;
			skipping = true;
			filled = 0;
		}
	}
}

const struct vc_stack_range *vc_stack_range_read(struct vc_stack_ranges *ranges, uintptr_t sp,
						 char *buffer, size_t size)
{
	struct search search = { .sp = sp };
	uintptr_t control_block = (uintptr_t)__builtin_thread_pointer();
	int saved_errno = errno;
	struct vc_stack_range *range;
	long descriptor;
	unsigned int i;

	ranges->lookups++;
	/* Not /proc/self: it is empty once the main thread has ended. */
	descriptor = syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
	if (descriptor >= 0) {
		search_list(descriptor, &search, buffer, size);
		syscall(SYS_close, descriptor);
	}
	errno = saved_errno;
	if (!search.found.high)
		return NULL;
	if (control_block > sp && control_block < search.found.high)
		search.found.high = control_block & ~(uintptr_t)7;
	else if (control_block <= sp && control_block > search.found.low)
		search.found.low = control_block;
	/* What overlaps is an older view of the same addresses. */
	for (i = 0; i < VC_STACK_RANGES; i++) {
		if (ranges->range[i].low < search.found.high &&
		    search.found.low < ranges->range[i].high)
			ranges->range[i] = (struct vc_stack_range){ 0, 0 };
	}
	range = &ranges->range[ranges->next++ % VC_STACK_RANGES];
	*range = search.found;
	return range;
}
