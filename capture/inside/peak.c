/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/peak.h"

#include <string.h>

#include "capture/inside/sites.h"
#include "capture/inside/store_parts.h"
#include "capture/inside/thread.h"

#define OF_SHIFT 60
#define BYTES_MASK ((UINT64_C(1) << OF_SHIFT) - 1)
#define LOOKS 400

uint32_t vc_peak_watched;

struct mark {
	uint64_t high;        /* enum vc_peak_of in the top bits, bytes; 0: none yet */
	uint64_t taken;       /* 1: somebody writes or reads `at` */
	struct vc_instant at;
};

static struct mark marks[VC_DEVICES_MAX];

static bool mark_take(struct mark *mark)
{
	for (int look = 0; look < LOOKS; look++) {
		uint64_t none = 0;

		if (!vc_get(&mark->taken) && vc_swap_if(&mark->taken, &none, 1))
			return true;
	}
	return false;
}

/* The mark is taken. */
static void mark_put(struct mark *mark, uint64_t high)
{
	vc_store_instant(&mark->at);
	mark->at.phase = vc_thread_local.phase;
	mark->at.thread = vc_thread_local.id;
	__atomic_store_n(&mark->high, high, __ATOMIC_SEQ_CST);
}

void vc_peak_raise(unsigned int device, enum vc_peak_of of, uint64_t bytes)
{
	uint64_t high = (uint64_t)of << OF_SHIFT | (bytes & BYTES_MASK);
	struct mark *mark = &marks[device % VC_DEVICES_MAX];

	if (device >= VC_DEVICES_MAX ||
	    high <= __atomic_load_n(&mark->high, __ATOMIC_SEQ_CST))
		return;
	if (!mark_take(mark)) {
		vc_store_count(VC_COUNTER_PEAKS_LOST);
		return;
	}
	if (high > mark->high)
		mark_put(mark, high);
	vc_put_release(&mark->taken, 0);
}

/* What a device has now, as `high`; 0: it is not used. */
static uint64_t present(unsigned int index)
{
	const struct vc_device *device = &vc_space_root()->device[index];
	uint64_t blocks = vc_sites_blocks(index);

	if (vc_get(&device->torch_reserved))
		return (uint64_t)VC_PEAK_TORCH << OF_SHIFT |
		       vc_word_value(vc_get(&device->torch_allocated));
	if (blocks)
		return (uint64_t)VC_PEAK_BLOCKS << OF_SHIFT | blocks;
	if (vc_get_acquire(&device->check))
		return (uint64_t)VC_PEAK_DRIVER << OF_SHIFT | vc_store_device_live(index);
	return 0;
}

/*
 * The old mark goes before the bytes are looked at: whoever is born meanwhile is in them, or finds
 * no mark and waits to raise it.
 */
void vc_peak_begin(void)
{
	if (!vc_store_ready())
		return;
	__atomic_store_n(&vc_peak_watched, 1, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < VC_DEVICES_MAX; i++) {
		struct mark *mark = &marks[i];
		uint64_t high;

		if (!mark_take(mark)) {
			vc_store_count(VC_COUNTER_PEAKS_LOST);
			continue;
		}
		__atomic_store_n(&mark->high, 0, __ATOMIC_SEQ_CST);
		high = present(i);
		if (high)
			mark_put(mark, high);
		vc_put_release(&mark->taken, 0);
	}
}

/* The mark of the device that was fullest, with the highest bytes of the others. */
static bool fullest(struct vc_instant *ret)
{
	struct vc_instant best = {0};
	uint64_t most = 0, peak[sizeof(best.peak) / sizeof(best.peak[0])] = {0};

	for (unsigned int i = 0; i < VC_DEVICES_MAX; i++) {
		struct mark *mark = &marks[i];
		uint64_t bytes;

		if (!vc_get(&mark->high) || !mark_take(mark))
			continue;
		bytes = mark->high & BYTES_MASK;
		if (bytes > most) {
			most = bytes;
			best = mark->at;
			best.peak_device_plus_one = i + 1;
		}
		vc_put_release(&mark->taken, 0);
		if (i < sizeof(peak) / sizeof(peak[0]))
			peak[i] = bytes + 1;
	}
	if (!most)
		return false;
	memcpy(best.peak, peak, sizeof(peak));
	*ret = best;
	return true;
}

bool vc_peak_end(struct vc_instant *ret)
{
	return vc_store_ready() && __atomic_exchange_n(&vc_peak_watched, 0, __ATOMIC_SEQ_CST) &&
	       fullest(ret);
}

uint64_t vc_peak_number(void)
{
	struct vc_instant at;

	return vc_store_ready() && __atomic_load_n(&vc_peak_watched, __ATOMIC_SEQ_CST) &&
	       fullest(&at) ? at.number : 0;
}

void vc_peak_forget(void)
{
	vc_peak_watched = 0;
	memset(marks, 0, sizeof(marks));
}
