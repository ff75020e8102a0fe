/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of a recording, its counters, its growth, and how a child knows that it is one. */
#include "capture/inside/store.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "capture/inside/budget.h"
#include "capture/inside/index.h"
#include "capture/inside/peak.h"
#include "capture/inside/sites.h"
#include "capture/inside/store_parts.h"
#include "capture/inside/system.h"
#include "capture/inside/thread.h"
#include "formats/error.h"

#if defined(__x86_64__)
#define VC_LARGEST_PAGE 4096
#else
#define VC_LARGEST_PAGE 65536
#endif

/*
 * One page of private memory that the kernel empties in every child that gets a copy of the
 * process's memory (fork, clone without CLONE_VM). A vfork child shares the memory, and with it
 * the recording, until it execs; so does a clone with CLONE_VM: for us it is a thread. Kernels
 * before 4.14 do not empty the page: there the word is the process id, asked for each time.
 */
static union {
	struct {
		uint64_t ready;
		uint64_t pid; /* kernel without MADV_WIPEONFORK; else 0 */
	};
	char page[VC_LARGEST_PAGE];
} own __attribute__((aligned(VC_LARGEST_PAGE)));

/* Counted while there is no recording. */
static uint64_t early[VC_COUNTERS];

/* See struct vc_anchor: found by name in the process and by its magic in a core file. */
union vc_anchor_page {
	struct vc_anchor anchor;
	char page[4096];
};
extern union vc_anchor_page vramcore_anchor;
union vc_anchor_page vramcore_anchor
	__attribute__((aligned(4096), visibility("default"), used)) = {.page = {0}};

static __attribute__((noinline)) bool ready_by_pid(void)
{
	return own.pid == (uint64_t)vc_sys_getpid();
}

bool vc_store_ready(void)
{
	uint64_t ready = vc_get_acquire(&own.ready);

	return ready == 1 || (ready == 2 && ready_by_pid());
}

struct vc_root *vc_store_root(void)
{
	return vc_space_root();
}

int vc_store_open(void)
{
	return vc_space_open();
}

bool vc_store_keep(int descriptor)
{
	return vc_space_keep(descriptor);
}

void vc_store_let_go(void)
{
	vc_space_let_go();
}

void vc_store_on_full(void (*wake)(void))
{
	vc_space_on_full(wake);
}

bool vc_store_addresses(uint64_t bytes)
{
	return vc_budget_addresses(bytes);
}

const char *vc_store_path(void)
{
	return vc_space_path();
}

static uint64_t clock_now(clockid_t clock)
{
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t vc_store_time(void)
{
	const struct vc_root *root = vc_space_root();

	return root ? clock_now(CLOCK_MONOTONIC) - root->fixed.start_monotonic : 0;
}

/* ---- what the process is ---- */

static uint64_t start_ticks(void)
{
	char buffer[1024];
	const char *at;

	if (vc_read_small("/proc/self/stat", buffer, sizeof(buffer)) <= 0)
		return 0;
	/* The name in field 2 may hold anything; its last bracket ends it. */
	at = strrchr(buffer, ')');
	for (int field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	return at ? vc_budget_number(&at) : 0;
}

static void boot_id(uint8_t ret[16])
{
	char buffer[64];
	unsigned digits = 0;

	memset(ret, 0, 16);
	if (vc_read_small("/proc/sys/kernel/random/boot_id", buffer, sizeof(buffer)) <= 0)
		return;
	for (const char *at = buffer; *at && digits < 32; at++) {
		unsigned digit;

		if (*at >= '0' && *at <= '9')
			digit = (unsigned)(*at - '0');
		else if (*at >= 'a' && *at <= 'f')
			digit = (unsigned)(*at - 'a') + 10;
		else
			continue;
		ret[digits / 2] = (uint8_t)(ret[digits / 2] << 4 | digit);
		digits++;
	}
}

static uint64_t pid_namespace(void)
{
	char buffer[64]; /* pid:[4026531836] */
	long length = vc_syscall(SYS_readlinkat, VC_AT_FDCWD, (long)"/proc/self/ns/pid",
				 (long)buffer, sizeof(buffer) - 1, 0, 0);
	const char *at = buffer;

	if (length <= 5)
		return 0;
	buffer[length] = '\0';
	at += 5;
	return vc_budget_number(&at);
}

static void fixed_fill(struct vc_root *root, const struct vc_store_options *options)
{
	struct vc_root_fixed *fixed = &root->fixed;

	*fixed = (struct vc_root_fixed){
		.read_version = VC_RECORDING_READ_VERSION,
		.write_version = VC_RECORDING_WRITE_VERSION,
		.root_bytes = VC_ROOT_BYTES,
		.record_bytes = sizeof(struct vc_record),
		.self_address = (uint64_t)(uintptr_t)root,
		.pid = (uint64_t)vc_sys_getpid(),
		.parent_pid = (uint64_t)vc_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0),
		.user = (uint64_t)vc_syscall(SYS_getuid, 0, 0, 0, 0, 0, 0),
		.start_ticks = start_ticks(),
		.start_realtime = clock_now(CLOCK_REALTIME),
		.start_monotonic = clock_now(CLOCK_MONOTONIC),
		.pid_namespace = pid_namespace(),
		.rank_plus_one = options->rank_plus_one,
		.world_size = options->world_size,
	};
	boot_id(fixed->boot_id);
	root->fixed_check = vc_check_words((const uint64_t *)fixed, sizeof(*fixed) / 8, 0);
}

static void anchor_fill(const struct vc_root *root)
{
	struct vc_anchor *anchor = &vramcore_anchor.anchor;

	anchor->read_version = VC_RECORDING_READ_VERSION;
	anchor->write_version = VC_RECORDING_WRITE_VERSION;
	anchor->self_address = (uint64_t)(uintptr_t)anchor;
	anchor->pid = root->fixed.pid;
	memcpy(anchor->boot_id, root->fixed.boot_id, sizeof(anchor->boot_id));
	anchor->root = root->fixed.self_address;
	anchor->root_bytes = VC_ROOT_BYTES;
	memcpy(anchor->path, vc_space_path(), strlen(vc_space_path()) + 1);
	anchor->check = vc_check_words(
		(const uint64_t *)&anchor->read_version,
		(offsetof(struct vc_anchor, check) - offsetof(struct vc_anchor, read_version)) / 8,
		0);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(anchor->magic, VC_ANCHOR_MAGIC, sizeof(anchor->magic));
}

/* ---- begin and end ---- */

static void early_counters_add(void)
{
	struct vc_root *root = vc_space_root();

	for (unsigned i = 0; i < VC_COUNTERS; i++) {
		uint64_t count = __atomic_exchange_n(&early[i], 0, __ATOMIC_SEQ_CST);

		if (count)
			vc_add(&root->counter[i], vc_word(count));
	}
}

int vc_store_start(const struct vc_store_options *options, int *ret_descriptor)
{
	struct vc_root *root;
	int descriptor, error;

	if (vc_space_root())
		return VC_E_EXISTS;
	error = vc_space_create(options, &descriptor);
	if (error < 0)
		return error;
	root = vc_space_root();
	fixed_fill(root, options);
	vc_names_start();
	vc_codes_start();
	vc_sites_start();
	vc_index_start();
	vc_put(&root->used[VC_REC_FREED], vc_word(vc_space_room(VC_REC_FREED)));
	vc_put(&root->freed_slots, vc_word(vc_space_room(VC_REC_FREED)));
	early_counters_add();
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(root->magic, VC_RECORDING_MAGIC, sizeof(root->magic));
	anchor_fill(root);
	own.pid = root->fixed.pid;
	if (vc_sys_madvise(&own, sizeof(own), MADV_WIPEONFORK) == 0)
		vc_put_release(&own.ready, 1);
	else
		vc_put_release(&own.ready, 2);
	early_counters_add();
	if (ret_descriptor)
		*ret_descriptor = descriptor;
	else
		vc_sys_close(descriptor);
	return 0;
}

void vc_store_forget(void)
{
	vc_put_release(&own.ready, 0);
	memset(&vramcore_anchor, 0, sizeof(vramcore_anchor));
	memset(early, 0, sizeof(early));
	vc_records_forget();
	vc_moments_forget();
	vc_peak_forget();
	vc_index_forget();
	vc_sites_forget();
	vc_names_forget();
	vc_codes_forget();
	vc_space_forget();
	vc_thread_forget();
}

void vc_store_unlink(void)
{
	if (vc_store_ready())
		vc_space_unlink();
}

/* ---- counters ---- */

void vc_store_count_by(enum vc_counter counter, uint64_t by)
{
	if (vc_store_ready())
		vc_add(&vc_space_root()->counter[counter], vc_word(by));
	else
		vc_add(&early[counter], by);
}

void vc_store_count(enum vc_counter counter)
{
	vc_store_count_by(counter, 1);
}

/* ---- growth ---- */

bool vc_store_grow(void)
{
	static const uint8_t ahead[] = {
		VC_REC_RECORDS, VC_REC_SITES,	 VC_REC_STACKS,	  VC_REC_STRINGS,
		VC_REC_MODULES, VC_REC_THREADS,	 VC_REC_MOMENTS,  VC_REC_FAILURES,
		VC_REC_FAILURE_SITES,
	};
	struct vc_root *root;
	bool grew = false;

	if (!vc_store_ready())
		return false;
	root = vc_space_root();
	early_counters_add();
	for (size_t i = 0; i < sizeof(ahead); i++)
		grew |= vc_space_grow_ahead(ahead[i]);
	if (vc_space_used(VC_REC_CODES))
		grew |= vc_space_grow_ahead(VC_REC_CODES);
	/*
	 * Before it goes round, so that no entry is lost. One that could not grow in time and does
	 * so later may overwrite newer entries before older ones: each has its own number.
	 */
	if (2 * vc_word_value(vc_get(&root->freed_next)) >
	    vc_word_value(vc_get(&root->freed_slots)))
		grew |= vc_records_grow_ring(true);
	grew |= vc_index_grow(vc_space_used(VC_REC_RECORDS));
	return grew;
}
