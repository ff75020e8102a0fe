/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/start.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "capture/inside/agent.h"
#include "capture/inside/autograd.h"
#include "capture/inside/device.h"
#include "capture/inside/effects.h"
#include "capture/inside/events.h"
#include "capture/inside/facts.h"
#include "capture/inside/interpreter.h"
#include "capture/inside/observe.h"
#include "capture/inside/failure.h"
#include "capture/inside/python.h"
#include "capture/inside/paths.h"
#include "capture/inside/settings.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"
#include "capture/inside/text.h"
#include "capture/inside/thread.h"
#include "capture/inside/unhooked.h"
#include "capture/inside/walk_file.h"
#include "formats/supervisor.h"

#define WAIT_TURNS 1000           /* then a millisecond each */
#define WAIT_MILLISECONDS 1000
#define DEFAULT_BUDGET (UINT64_C(256) << 20)
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { STATE_NONE, STATE_STARTING, STATE_DONE };

/*
 * A page that a child finds zeroed. Kernels before 4.14 cannot do that: there the process id is
 * compared, in the few calls that find no recording.
 */
struct life_page {
	uint32_t state;
	uint32_t pid; /* 0: the kernel empties the page */
};

static struct life_page *life_page;
static uint8_t life;               /* of the recording that this process has or had; 0: none yet */
static uint32_t announce;
static const char *const own_call[] = {
#define VC_OWN_CALL(name, text) text,
	VC_OWN_CALLS(VC_OWN_CALL)
#undef VC_OWN_CALL
};

/* String ids, 0: not known yet. */
static uint32_t call_name[VC_ROWS];
static uint32_t own_name[sizeof(own_call) / sizeof(own_call[0])];

/* A write past the program's own limit on files would kill it. */
static bool may_grow(int descriptor)
{
	struct rlimit limit;
	long end = vc_syscall(SYS_lseek, descriptor, 0, SEEK_END, 0, 0, 0);

	/* Others write at the same time. */
	return end >= 0 && vc_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY || (rlim_t)end + 4096 <= limit.rlim_cur);
}

/* Under a supervisor every program counts itself, whether it ever uses the device or not. */
static void count_process(void)
{
	const char *directory = vc_setting(VC_SETTING_DIRECTORY);
	char path[1100];
	struct vc_text text = vc_text_in(path, sizeof(path));
	int descriptor;

	if (!directory)
		return;
	vc_text_add(&text, directory);
	vc_text_add(&text, "/" VC_SUPERVISOR_PROCESSES);
	if (text.cut)
		return;
	descriptor = vc_sys_open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0);
	if (descriptor < 0)
		return;
	if (may_grow(descriptor))
		vc_sys_write(descriptor, "", 1);
	vc_sys_close(descriptor);
}

/*
 * At load, or before, where the constructor of another library allocates: the recording that then
 * begins is made as the settings say.
 */
static __attribute__((constructor)) void load(void)
{
	static uint32_t settings_read, counted;

	if (!__atomic_load_n(&settings_read, __ATOMIC_ACQUIRE)) {
		vc_settings_read();
		__atomic_store_n(&settings_read, 1, __ATOMIC_RELEASE);
	}
	if (!__atomic_exchange_n(&counted, 1, __ATOMIC_ACQ_REL))
		count_process();
}

static __attribute__((destructor)) void unload(void)
{
	vc_enter();
	if (vc_store_ready())
		vc_event_exit();
	vc_leave();
}

static struct life_page *page(void)
{
	struct life_page *known = __atomic_load_n(&life_page, __ATOMIC_ACQUIRE), *made;
	uint32_t pid;

	if (known && known->pid) {
		pid = (uint32_t)vc_sys_getpid();
		if (__atomic_exchange_n(&known->pid, pid, __ATOMIC_ACQ_REL) != pid)
			__atomic_store_n(&known->state, STATE_NONE, __ATOMIC_RELEASE);
	}
	if (known)
		return known;
	made = vc_sys_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (vc_sys_failed(made))
		return NULL;
	if (vc_sys_madvise(made, 4096, MADV_WIPEONFORK) != 0)
		made->pid = (uint32_t)vc_sys_getpid();
	if (__atomic_compare_exchange_n(&life_page, &known, made, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return made;
	vc_sys_munmap(made, 4096);
	return known;
}

/* What was kept of the recording of a parent means nothing in this one. */
static void forget(void)
{
	if (life)
		vc_store_forget();
	life++;
	if (!life) /* after 255 generations: old marks of threads are long gone */
		life = 1;
	memset(call_name, 0, sizeof(call_name));
	memset(own_name, 0, sizeof(own_name));
	vc_stack_forget();
	vc_autograd_forget();
	vc_device_forget();
	vc_context_forget();
	vc_graph_forget();
	vc_agent_forget();
	vc_failure_forget();
	vc_interpreter_forget();
	vc_walk_forget();
	vc_paths_forget();
}

static void open_recording(void)
{
	struct vc_store_options options = {.budget = DEFAULT_BUDGET};
	const char *budget;
	char name[128];

	load();
	options.directory = vc_setting(VC_SETTING_DIRECTORY);
	options.in_core = vc_setting(VC_SETTING_IN_CORE) != NULL;
	budget = vc_setting(VC_SETTING_BUDGET);
	forget();
	vc_facts_name(name, sizeof(name));
	options.name = name;
	if (budget)
		vc_parse_bytes(budget, &options.budget);
	if (!options.directory)
		options.directory = "/dev/shm";
	vc_facts_rank(&options.rank_plus_one, &options.world_size);
	if (vc_store_start(&options, NULL) != 0) {
		options.directory = NULL;
		if (vc_store_start(&options, NULL) != 0)
			return;
	}
	vc_start_thread();
	vc_facts_write();
	vc_python_begin();
	vc_unhooked_begin();
	__atomic_store_n(&announce, 1, __ATOMIC_RELEASE);
	VC_OBSERVE(recording);
}

bool vc_start(void)
{
	struct life_page *own = page();
	uint32_t state = STATE_NONE;

	if (!own)
		return false;
	if (__atomic_load_n(&own->state, __ATOMIC_ACQUIRE) == STATE_DONE)
		return false;
	if (__atomic_compare_exchange_n(&own->state, &state, STATE_STARTING, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		open_recording();
		__atomic_store_n(&own->state, STATE_DONE, __ATOMIC_RELEASE);
		return true;
	}
	/* Another thread is at it, and may have lost its processor meanwhile. */
	for (int i = 0; i < WAIT_TURNS + WAIT_MILLISECONDS; i++) {
		const struct timespec millisecond = {0, 1000000};

		if (__atomic_load_n(&own->state, __ATOMIC_ACQUIRE) == STATE_DONE)
			return false;
		if (i < WAIT_TURNS)
			vc_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
		else
			vc_syscall(SYS_nanosleep, (long)&millisecond, 0, 0, 0, 0, 0);
	}
	vc_store_count(VC_COUNTER_RECORDS_LOST);
	return false;
}

bool vc_start_enter(bool start)
{
	bool outer = vc_enter();

	if (!vc_store_ready() && (!start || !outer || !vc_start()) && !vc_store_ready())
		return false;
	vc_start_thread();
	return true;
}

void vc_start_announce(void)
{
	if (__builtin_expect(__atomic_load_n(&announce, __ATOMIC_ACQUIRE), 0) &&
	    __atomic_exchange_n(&announce, 0, __ATOMIC_ACQ_REL))
		vc_event_first_record(vc_store_open());
}

static void meet_thread(void)
{
	char name[17] = "";

	if (vc_thread_local.life) { /* a child of a process that recorded */
		vc_thread_local.context_known = false;
		vc_thread_local.capturing = 0;
		vc_thread_local.allocates = false;
	}
	vc_thread_local.life = life;
	vc_thread_local.id = (uint32_t)vc_sys_gettid();
	vc_thread_local.phase = 0;
	vc_thread_local.phase_depth = 0;
	vc_thread_local.failure_plus_one = 0;
	vc_syscall(SYS_prctl, PR_GET_NAME, (long)name, 0, 0, 0, 0);
	vc_store_thread_add(vc_thread_local.id, name);
}

void vc_start_thread(void)
{
	if (__builtin_expect(vc_thread_local.life != life && vc_store_ready(), 0))
		meet_thread();
}

uint64_t vc_start_step(void)
{
	const struct vc_root *root = vc_store_root();
	uint64_t plus_one = root ? vc_word_value(__atomic_load_n(&root->step, __ATOMIC_RELAXED)) : 0;

	return plus_one ? plus_one - 1 : 0;
}

static uint32_t name_id(uint32_t *kept, const char *name)
{
	uint32_t id = __atomic_load_n(kept, __ATOMIC_RELAXED);

	if (__builtin_expect(!id, 0)) {
		id = vc_store_string(name, strlen(name));
		__atomic_store_n(kept, id, __ATOMIC_RELAXED);
	}
	return id;
}

uint32_t vc_start_call_name(enum vc_row row)
{
	return name_id(&call_name[row], vc_row_name[row]);
}

uint32_t vc_start_own_name(enum vc_own_call call)
{
	return name_id(&own_name[call], own_call[call]);
}
