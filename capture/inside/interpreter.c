/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/interpreter.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "capture/inside/interpreter_api.h"
#include "capture/inside/interpreter_work.h"
#include "capture/inside/own_thread.h"
#include "capture/inside/python_lock.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"
#include "capture/inside/thread.h"
#include "capture/inside/triggers.h"


#define MILLISECOND UINT64_C(1000000)
#define PENDING_WAIT (50 * MILLISECOND)
#define START_WAIT (2000 * MILLISECOND)
#define MOMENT_WAIT (1000 * MILLISECOND)
#define IMPORT_WAIT (100 * MILLISECOND) /* PyTorch is being imported: until the next look */
#define STARTS_MAX 600
#define MAIN_FIRST (5 * MILLISECOND)    /* the main thread's share, once the lock can be had */
#define STEP_FIRST (800 * MILLISECOND)  /* that of another thread that trains */
#define RUNNING_WAIT (30000 * MILLISECOND)
#define ENDING_WAIT (10000 * MILLISECOND)
#define NAMED_MAX 4
#define STACK_BYTES (1u << 20)          /* PyTorch's own functions run on it */

enum job_state { JOB_NONE, JOB_WANTED, JOB_TAKEN, JOB_DONE };
enum job_kind { KIND_START, KIND_MOMENT };

/* Something that was asked for. */
struct asked {
	uint64_t step_plus_one; /* 0: nothing */
	struct vc_instant at;   /* the moment's; number 0: when it is taken */
};

static struct {
	uint32_t first;      /* 1: a block was seen */
	uint32_t ready;
	uint32_t asked;      /* futex: changes with everything asked for */
	uint32_t stop;
	uint32_t threads;
	/* one job at a time; written by the helper's thread while nobody wants it */
	uint32_t state;      /* enum job_state; futex */
	enum job_kind kind;
	enum vc_interpreter_trigger trigger;
	uint64_t step;
	bool again;          /* of the start: PyTorch is being imported */
	enum vc_helper_state outcome;
	uint32_t queued;     /* a pending call waits for the main thread */
	uint32_t blocked;    /* a thread waits for the interpreter's lock */
	uint32_t inside;     /* 1: that thread is in the interpreter; futex */
	uint32_t closed;     /* 1: the interpreter is about to end; written with its lock held */
	uint32_t named;      /* times that the lock's holder was said */
	char who[400];       /* the last one */
	bool stuck;          /* a job was taken and never ended */
	struct vc_instant at;
	struct asked wanted[VC_INTERPRETER_TRIGGERS];
} helper;

static const struct {
	const char *trigger, *moment;
} names[VC_INTERPRETER_TRIGGERS] = {
	[VC_INTERPRETER_STEP] = {"step", "after-step"},
	[VC_INTERPRETER_EVERY_STEP] = {"every", "after-step"},
	[VC_INTERPRETER_EVERY] = {"every", "now"},
	[VC_INTERPRETER_USED] = {"used", "now"},
	[VC_INTERPRETER_SIGNAL] = {"signal", "now"},
	[VC_INTERPRETER_REQUEST] = {"request", "now"},
	[VC_INTERPRETER_ASKED] = {VC_TRIGGER_ASKED, "now"},
};

void vc_interpreter_forget(void)
{
	memset(&helper, 0, sizeof(helper));
	vc_work_forget();
}

static void say(enum vc_helper_state state)
{
	__atomic_store_n(&vc_store_root()->helper, vc_word(state), __ATOMIC_RELAXED);
}

/* Waits for a word to differ from `value`, so long and no longer; whether it does. */
static bool wait_change(uint32_t *word, uint32_t value, uint64_t nanoseconds)
{
	uint64_t now = vc_store_time(), end = now + nanoseconds;

	for (; __atomic_load_n(word, __ATOMIC_ACQUIRE) == value; now = vc_store_time()) {
		struct timespec left;

		if (now >= end)
			return false;
		left = (struct timespec){(time_t)((end - now) / 1000000000),
					 (long)((end - now) % 1000000000)};
		vc_sys_futex_wait(word, value, &left);
	}
	return true;
}

/* ---- the job, with the GIL held ---- */

static void take(void)
{
	uint32_t wanted = JOB_WANTED;

	if (!__atomic_compare_exchange_n(&helper.state, &wanted, JOB_TAKEN, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return;
	if (helper.kind == KIND_START)
		helper.again = !vc_work_start(&helper.outcome);
	else
		vc_work_moment(names[helper.trigger].trigger, names[helper.trigger].moment,
			       helper.step, helper.at.number ? &helper.at : NULL);
	__atomic_store_n(&helper.state, JOB_DONE, __ATOMIC_RELEASE);
	vc_sys_futex_wake(&helper.state);
}

/* Another thread trains: its next step is the better place, while there is time. */
static bool wants_other_thread(void)
{
	return __atomic_load_n(&helper.state, __ATOMIC_ACQUIRE) == JOB_WANTED &&
	       helper.kind == KIND_MOMENT && vc_work_trains_elsewhere();
}

void vc_interpreter_step(void)
{
	if (__builtin_expect(__atomic_load_n(&helper.state, __ATOMIC_RELAXED) == JOB_WANTED, 0))
		take();
}

/* CTX: the main thread of the program, between two instructions. */
static int pending_call(void *argument)
{
	int saved = errno;

	(void)argument;
	/* a child that was forked meanwhile has the call in its queue too */
	if (vc_store_ready()) {
		__atomic_store_n(&helper.queued, 0, __ATOMIC_RELEASE);
		if (!wants_other_thread())
			take();
	}
	errno = saved;
	return 0;
}

static void enter_own_thread(void)
{
	const struct sched_param usual = {0};

	vc_enter(); /* for good: this thread is never recorded */
	vc_syscall(SYS_prctl, PR_SET_NAME, (long)"vramcore", 0, 0, 0, 0);
	vc_syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, (long)&usual, 0, 0, 0);
}

/*
 * PyTorch's functions give the lock back meanwhile, and take it again in places that no thread may
 * end in: the interpreter must not end before this does.
 */
static void take_here(void)
{
	int had = vc_py.PyGILState_Ensure();
	bool open = !__atomic_load_n(&helper.closed, __ATOMIC_ACQUIRE);

	if (open) {
		__atomic_store_n(&helper.inside, 1, __ATOMIC_RELEASE);
		take();
	}
	vc_py.PyGILState_Release(had);
	if (open) {
		__atomic_store_n(&helper.inside, 0, __ATOMIC_RELEASE);
		vc_sys_futex_wake(&helper.inside);
	}
}

/*
 * May wait for ever, and end inside PyGILState_Ensure: nobody depends on it. With the lock in its
 * hands it lets the main thread go first, which is the better place for the job.
 */
static void *lock_main(void *argument)
{
	int had;

	(void)argument;
	enter_own_thread();
	had = vc_py.PyGILState_Ensure();
	vc_py.PyGILState_Release(had);
	if (wants_other_thread())
		wait_change(&helper.state, JOB_WANTED, STEP_FIRST);
	else if (__atomic_load_n(&helper.queued, __ATOMIC_ACQUIRE))
		wait_change(&helper.state, JOB_WANTED, MAIN_FIRST);
	if (__atomic_load_n(&helper.state, __ATOMIC_ACQUIRE) == JOB_WANTED &&
	    vc_interpreter_alive())
		take_here();
	__atomic_store_n(&helper.blocked, 0, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&helper.threads, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* ---- the helper's thread ---- */

static bool make_thread(void *(*run)(void *))
{
	bool made;

	__atomic_fetch_add(&helper.threads, 1, __ATOMIC_RELEASE);
	made = vc_own_thread_make(run, STACK_BYTES);
	if (!made)
		__atomic_fetch_sub(&helper.threads, 1, __ATOMIC_RELEASE);
	return made;
}

static bool end_of_wait(uint64_t nanoseconds)
{
	if (!wait_change(&helper.state, JOB_WANTED, nanoseconds))
		return false;
	/* taken: it runs now, on a thread that holds the lock */
	while (__atomic_load_n(&helper.state, __ATOMIC_ACQUIRE) == JOB_TAKEN && !helper.stuck)
		helper.stuck = !wait_change(&helper.state, JOB_TAKEN, RUNNING_WAIT);
	return true;
}

/* Has the job done by whoever gets to it first. False: nobody did, nor will any more. */
static bool in_interpreter(uint64_t deadline)
{
	uint32_t wanted = JOB_WANTED;

	if (helper.stuck || !vc_interpreter_alive())
		return false;
	__atomic_store_n(&helper.state, JOB_WANTED, __ATOMIC_RELEASE);
	/* one call in the queue does for all jobs: the interpreter has room for 32 */
	if (!__atomic_exchange_n(&helper.queued, 1, __ATOMIC_ACQ_REL) &&
	    vc_py.Py_AddPendingCall(pending_call, NULL) != 0)
		__atomic_store_n(&helper.queued, 0, __ATOMIC_RELEASE);
	if (end_of_wait(PENDING_WAIT))
		return !helper.stuck;
	if (vc_interpreter_alive() &&
	    !__atomic_exchange_n(&helper.blocked, 1, __ATOMIC_ACQ_REL) && !make_thread(lock_main))
		__atomic_store_n(&helper.blocked, 0, __ATOMIC_RELEASE);
	if (end_of_wait(deadline))
		return !helper.stuck;
	if (__atomic_compare_exchange_n(&helper.state, &wanted, JOB_NONE, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return false;
	end_of_wait(0);
	return !helper.stuck;
}

static enum vc_helper_state find(void)
{
	switch (vc_interpreter_api_find()) {
	case VC_PYTHON_FOUND:
		return VC_HELPER_STARTING;
	case VC_PYTHON_NONE:
		return VC_HELPER_NO_PYTHON;
	case VC_PYTHON_VERSION:
		return VC_HELPER_OTHER_VERSION;
	case VC_PYTHON_FREE_THREADED:
		return VC_HELPER_FREE_THREADED;
	case VC_PYTHON_INCOMPLETE:
		break;
	}
	return VC_HELPER_INCOMPLETE;
}

static bool stopped(void)
{
	return __atomic_load_n(&helper.stop, __ATOMIC_ACQUIRE);
}

/* Registers the hooks; tries again while PyTorch is being imported or the interpreter is busy. */
static enum vc_helper_state start(void)
{
	enum vc_helper_state found = find();

	for (unsigned int i = 0; found == VC_HELPER_STARTING && i < STARTS_MAX && !stopped(); i++) {
		helper.kind = KIND_START;
		helper.again = false;
		if (in_interpreter(START_WAIT) && !helper.again)
			return helper.outcome;
		if (helper.stuck || !vc_interpreter_alive())
			break;
		wait_change(&helper.stop, 0, IMPORT_WAIT);
	}
	return found == VC_HELPER_STARTING ? VC_HELPER_NO_ANSWER : found;
}

/* Who has the interpreter's lock and does not give it; for the evidence, a few times at most. */
static void say_who(void)
{
	char who[sizeof(helper.who)];

	if (helper.named == NAMED_MAX || !vc_python_lock_holder(who, sizeof(who)) ||
	    !strcmp(who, helper.who))
		return;
	helper.named++;
	memcpy(helper.who, who, sizeof(who));
	vc_store_detail_add("interpreter_missed", who);
}

/* Asked for and not taken: with the interpreter where `ask`. */
static void serve_one(enum vc_interpreter_trigger trigger, bool ask)
{
	uint64_t step_plus_one =
		__atomic_exchange_n(&helper.wanted[trigger].step_plus_one, 0, __ATOMIC_ACQ_REL);
	struct vc_instant at;

	if (!step_plus_one)
		return;
	at = helper.wanted[trigger].at;
	if (ask) {
		helper.kind = KIND_MOMENT;
		helper.trigger = trigger;
		helper.step = step_plus_one - 1;
		helper.at = at;
		if (in_interpreter(MOMENT_WAIT))
			return;
	}
	vc_store_count(VC_COUNTER_INTERPRETER_MISSED);
	if (ask)
		say_who();
	vc_trigger_at(names[trigger].trigger, names[trigger].moment, step_plus_one - 1,
		      at.number ? &at : NULL);
}

static void serve(bool ask)
{
	for (unsigned int i = 0; i < VC_INTERPRETER_TRIGGERS; i++)
		serve_one((enum vc_interpreter_trigger)i, ask);
}

static void *helper_main(void *argument)
{
	enum vc_helper_state state;

	(void)argument;
	enter_own_thread();
	state = start();
	say(state);
	__atomic_store_n(&helper.ready, state == VC_HELPER_RUNS, __ATOMIC_RELEASE);
	while (state == VC_HELPER_RUNS) {
		uint32_t seen = __atomic_load_n(&helper.asked, __ATOMIC_ACQUIRE);

		if (stopped())
			break;
		serve(true);
		vc_sys_futex_wait(&helper.asked, seen, NULL);
	}
	__atomic_store_n(&helper.ready, 0, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&helper.threads, 1, __ATOMIC_RELEASE);
	return NULL;
}

void vc_interpreter_first_block(void)
{
	int saved = errno;

	if (__builtin_expect(__atomic_load_n(&helper.first, __ATOMIC_RELAXED), 1) ||
	    __atomic_exchange_n(&helper.first, 1, __ATOMIC_ACQ_REL) || !vc_store_ready())
		return;
	vc_work_first_thread();
	say(VC_HELPER_STARTING);
	if (!make_thread(helper_main))
		say(VC_HELPER_NO_THREAD);
	errno = saved;
}

/* ---- what others ask ---- */

bool vc_interpreter_ready(void)
{
	return __atomic_load_n(&helper.ready, __ATOMIC_ACQUIRE);
}

bool vc_interpreter_ask(enum vc_interpreter_trigger trigger, uint64_t step,
			const struct vc_instant *at)
{
	struct asked *wanted = &helper.wanted[trigger];

	/* one of a kind waits; the caller takes a second one by itself */
	if (!vc_interpreter_ready() || __atomic_load_n(&wanted->step_plus_one, __ATOMIC_ACQUIRE))
		return false;
	wanted->at = at ? *at : (struct vc_instant){0};
	__atomic_store_n(&wanted->step_plus_one, step + 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&helper.asked, 1, __ATOMIC_RELEASE);
	vc_sys_futex_wake(&helper.asked);
	return true;
}

void vc_interpreter_open(void)
{
	__atomic_store_n(&helper.closed, 0, __ATOMIC_RELEASE);
}

void vc_interpreter_close(void)
{
	void *own;

	__atomic_store_n(&helper.closed, 1, __ATOMIC_RELEASE);
	if (!__atomic_load_n(&helper.inside, __ATOMIC_ACQUIRE))
		return;
	own = vc_py.PyEval_SaveThread();
	wait_change(&helper.inside, 1, ENDING_WAIT);
	vc_py.PyEval_RestoreThread(own);
}

void vc_interpreter_stop(void)
{
	__atomic_store_n(&helper.stop, 1, __ATOMIC_RELEASE);
	vc_sys_futex_wake(&helper.stop);
	__atomic_fetch_add(&helper.asked, 1, __ATOMIC_RELEASE);
	vc_sys_futex_wake(&helper.asked);
}

void vc_interpreter_finish(void)
{
	if (!__atomic_exchange_n(&helper.ready, 0, __ATOMIC_ACQ_REL))
		return;
	vc_interpreter_stop();
	serve(false);
}

unsigned int vc_interpreter_threads(void)
{
	return __atomic_load_n(&helper.threads, __ATOMIC_ACQUIRE);
}
