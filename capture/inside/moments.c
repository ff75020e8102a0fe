/* SPDX-License-Identifier: Apache-2.0 */
/* Moments that triggers took, and allocations that failed. */
#include <string.h>

#include "capture/inside/sites.h"
#include "capture/inside/store_parts.h"

#define VC_FAILURE_SITES_MAX 64u

/* One failure at a time lists its sites here; a second one keeps none rather than wait. */
static struct {
	uint64_t taken;
	struct vc_site_total total[VC_FAILURE_SITES_MAX];
} largest;

void vc_moments_forget(void)
{
	memset(&largest, 0, sizeof(largest));
}

static uint32_t text_id(const char *text)
{
	return text ? vc_store_string(text, strlen(text)) : 0;
}

static void words_publish(uint64_t *to, const uint64_t *image, size_t words, uint64_t row)
{
	vc_put_words(to + 1, image + 1, words - 1);
	vc_put_release(to, vc_check_words(image + 1, words - 1, row));
}

static void device_memory(const struct vc_device_memory *memory, struct vc_moment_row *image)
{
	if (!memory->device_plus_one || memory->device_plus_one > 8)
		return;
	image->device_free[memory->device_plus_one - 1] = memory->free;
	image->graph_used = memory->graph_used;
	image->graph_reserved = memory->graph_reserved;
	image->pool_used = memory->pool_used;
	image->pool_reserved = memory->pool_reserved;
	image->asked_plus_one = memory->device_plus_one;
}

/* A moment that shows a failure is that of the failure, whatever happened since. */
static void moment_of_failure(struct vc_moment_row *image)
{
	const struct vc_failure_row *failure;

	if (!image->failure_plus_one)
		return;
	failure = vc_space_at(VC_REC_FAILURES, image->failure_plus_one - 1);
	if (!failure || !vc_get_acquire(&failure->check))
		return;
	if (image->number != failure->number) { /* those of a later moment */
		memset(image->torch_allocated, 0, sizeof(image->torch_allocated));
		memset(image->torch_reserved, 0, sizeof(image->torch_reserved));
	}
	image->number = failure->number;
	image->freed_next = failure->freed_next;
	image->time = failure->time;
	image->step = failure->step;
	image->phase = failure->phase;
	image->thread = failure->thread;
	if (failure->device_plus_one && failure->device_plus_one <= 8)
		image->device_free[failure->device_plus_one - 1] = failure->free_plus_one;
}

/*
 * PyTorch's totals, where they are those of S: their number is still what it was once S had been
 * read, and S is not before it.
 */
static void torch_totals(const struct vc_root *root, struct vc_instant *ret)
{
	for (unsigned i = 0; i < sizeof(ret->torch_allocated) / sizeof(uint64_t); i++) {
		const struct vc_device *device = &root->device[i];
		uint64_t number = vc_get_acquire(&device->torch_number);
		uint64_t allocated = vc_get(&device->torch_allocated);
		uint64_t reserved = vc_get(&device->torch_reserved);

		ret->torch_allocated[i] = ret->torch_reserved[i] = 0;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!number || vc_get(&device->torch_number) != number ||
		    vc_word_value(number) > ret->number)
			continue;
		ret->torch_allocated[i] = vc_word_value(allocated) + 1;
		ret->torch_reserved[i] = vc_word_value(reserved) + 1;
	}
}

void vc_store_instant(struct vc_instant *ret)
{
	struct vc_root *root = vc_space_root();

	/* The ring first: no death after S has a place before freed_next. */
	ret->freed_next = vc_word_value(__atomic_load_n(&root->freed_next, __ATOMIC_SEQ_CST));
	ret->number = vc_word_value(__atomic_load_n(&root->clock, __ATOMIC_SEQ_CST));
	ret->time = vc_store_time();
	torch_totals(root, ret);
}

uint32_t vc_store_moment(const struct vc_moment *moment)
{
	struct vc_moment_row image = {
		.step = moment->step,
		.phase = moment->phase,
		.thread = moment->thread,
		.failure_plus_one = (uint32_t)moment->failure_plus_one,
		.walk_plus_one = moment->walk_plus_one,
	};
	struct vc_instant instant = {0};
	uint64_t row;

	if (!vc_store_ready())
		return UINT32_MAX;
	if (moment->at)
		instant = *moment->at;
	else
		vc_store_instant(&instant);
	image.number = instant.number;
	image.freed_next = instant.freed_next;
	image.time = instant.time;
	image.peak_device_plus_one = instant.peak_device_plus_one;
	memcpy(image.step_peak, instant.peak, sizeof(image.step_peak));
	memcpy(image.torch_allocated, instant.torch_allocated, sizeof(image.torch_allocated));
	memcpy(image.torch_reserved, instant.torch_reserved, sizeof(image.torch_reserved));
	device_memory(&moment->memory, &image);
	moment_of_failure(&image);
	image.trigger = text_id(moment->trigger);
	image.moment = text_id(moment->moment);
	row = vc_space_append(VC_REC_MOMENTS, 1);
	if (row >= UINT32_MAX)
		return UINT32_MAX;
	words_publish(vc_space_at(VC_REC_MOMENTS, row), (const uint64_t *)&image, sizeof(image) / 8,
		      row);
	return (uint32_t)row;
}

/* Lists the device's largest sites; gives the row of the first, and how many. */
static uint64_t sites_keep(uint16_t device_plus_one, uint64_t *ret_count)
{
	uint64_t none = 0, first = VC_SPACE_NONE;
	unsigned count;

	*ret_count = 0;
	if (!vc_swap_if(&largest.taken, &none, 1)) {
		vc_store_count(VC_COUNTER_FAILURES_LOST);
		return 0;
	}
	count = vc_sites_largest(device_plus_one, largest.total, VC_FAILURE_SITES_MAX);
	if (count)
		first = vc_space_append(VC_REC_FAILURE_SITES, count);
	for (unsigned i = 0; first != VC_SPACE_NONE && i < count; i++) {
		struct vc_failure_site_row image = {
			.site = largest.total[i].row,
			.bytes = largest.total[i].bytes,
			.count = largest.total[i].count,
		};

		words_publish(vc_space_at(VC_REC_FAILURE_SITES, first + i),
			      (const uint64_t *)&image, sizeof(image) / 8, first + i);
	}
	vc_put_release(&largest.taken, 0);
	if (first == VC_SPACE_NONE) {
		if (count)
			vc_store_count(VC_COUNTER_FAILURES_LOST);
		return 0;
	}
	*ret_count = count;
	return first;
}

uint32_t vc_store_failure(const struct vc_failure *failure)
{
	struct vc_failure_row image = {
		.step = failure->step,
		.requested = failure->requested,
		.free_plus_one = failure->free_plus_one,
		.total = failure->total,
		.call_name = failure->call_name,
		.result = failure->result,
		.phase = failure->phase,
		.thread = failure->thread,
		.stack = failure->stack,
		.python = failure->python,
		.device_plus_one = failure->device_plus_one,
	};
	const size_t words = (sizeof(image) - offsetof(struct vc_failure_row, number)) / 8;
	struct vc_failure_row *to;
	struct vc_root *root;
	uint64_t row;

	if (!vc_store_ready())
		return UINT32_MAX;
	root = vc_space_root();
	image.freed_next = vc_word_value(__atomic_load_n(&root->freed_next, __ATOMIC_SEQ_CST));
	image.number = vc_word_value(__atomic_load_n(&root->clock, __ATOMIC_SEQ_CST));
	image.time = vc_store_time();
	if (failure->device_plus_one)
		image.live = vc_store_device_live(failure->device_plus_one - 1u);
	row = vc_space_append(VC_REC_FAILURES, 1);
	if (row >= UINT32_MAX) {
		vc_store_count(VC_COUNTER_FAILURES_LOST);
		return UINT32_MAX;
	}
	image.first_site = sites_keep(failure->device_plus_one, &image.sites);
	to = vc_space_at(VC_REC_FAILURES, row);
	vc_put(&to->outcome, vc_word(VC_FAILURE_OPEN));
	vc_put_words(&to->number, &image.number, words);
	vc_put_release(&to->check, vc_check_words(&image.number, words, row));
	return (uint32_t)row;
}

void vc_store_failure_outcome(uint32_t row, enum vc_failure_outcome outcome)
{
	struct vc_failure_row *failure;

	if (row == UINT32_MAX || !vc_store_ready())
		return;
	failure = vc_space_at(VC_REC_FAILURES, row);
	if (failure)
		vc_put_release(&failure->outcome, vc_word(outcome));
}
