/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "capture/inside/copy.h"
#include "capture/inside/events.h"
#include "capture/inside/keeper.h"
#include "capture/inside/observe.h"
#include "capture/inside/own_thread.h"
#include "capture/inside/settings.h"
#include "capture/inside/space.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"
#include "capture/inside/text.h"
#include "capture/inside/thread.h"
#include "capture/inside/triggers.h"
#include "formats/supervisor.h"


#define MILLISECOND 1000000l
#define IDLE (200 * MILLISECOND)     /* between looks at what needs growth */
#define BUSY (5 * MILLISECOND)       /* while the recording grows */
#define READY_WAIT (1000 * MILLISECOND) /* microseconds, but on a machine that is overloaded */
#define EXIT_WAIT (2000 * MILLISECOND)
#define FAILURE_WINDOW UINT64_C(60000000000)
#define STACK_BYTES (256u << 10)
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define CLOSE_RANGE_UNSHARE_FLAG 2u
#define CLONE_FILES_FLAG 0x400

static struct {
	uint32_t wake;               /* futex: changes with every trigger */
	uint32_t ready;              /* futex: 1 once the agent has its own descriptors */
	uint32_t stop;               /* 1: finish what is pending and end */
	uint32_t ended;              /* futex: 1 once the agent has ended */
	bool running;
	bool alone;                  /* it ended and there is no supervisor */
	int descriptor;              /* of the recording, -1 */
	int socket;                  /* to the supervisor, -1 none */
	uint32_t next_moment;        /* first row not handed on yet */
	uint64_t files, bytes;       /* copies written */
	uint64_t max_files, max_bytes;
	int exit_status;
	bool exit_seen;
	char folder[1100];           /* where copies go, absolute */
} agent;

void vc_agent_wake(void)
{
	__atomic_fetch_add(&agent.wake, 1, __ATOMIC_RELEASE);
	vc_sys_futex_wake(&agent.wake);
}

/* Waits for a word to become 1, so long and no longer: signals may come all the time. */
static void wait_for(uint32_t *word, uint64_t nanoseconds)
{
	uint64_t now = vc_store_time(), end = now + nanoseconds;

	for (; !__atomic_load_n(word, __ATOMIC_ACQUIRE) && now < end; now = vc_store_time()) {
		struct timespec left = {(time_t)((end - now) / 1000000000),
					(long)((end - now) % 1000000000)};

		vc_sys_futex_wait(word, 0, &left);
	}
}

/* ---- start ---- */

/*
 * A descriptor table of its own, holding nothing of the host's: a pipe that the host closes reaches
 * its end although this thread lives.
 */
static bool leave_descriptors(int keep)
{
	if (keep < 0) {
		if (vc_syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE_FLAG, 0, 0, 0) == 0)
			return true;
	} else if (vc_syscall(SYS_unshare, CLONE_FILES_FLAG, 0, 0, 0, 0, 0) == 0) {
		if (keep > 0)
			vc_syscall(SYS_close_range, 0, keep - 1, 0, 0, 0, 0);
		vc_syscall(SYS_close_range, keep + 1, ~0u, 0, 0, 0, 0);
		return true;
	}
	if (vc_syscall(SYS_unshare, CLONE_FILES_FLAG, 0, 0, 0, 0, 0) != 0)
		return false;
	for (int i = 0; i < 65536; i++) /* kernels before 5.9 */
		if (i != keep)
			vc_sys_close(i);
	return true;
}

/* A socket that sends to the supervisor; -1 where there is none. CTX: agent. */
static int reach_supervisor(void)
{
	const char *directory = vc_setting(VC_SETTING_DIRECTORY);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct vc_text text = vc_text_in(address.sun_path, sizeof(address.sun_path));
	long descriptor;
	int folder;

	if (!directory)
		return -1;
	/* by way of /proc, since the address of a socket has no room for long names */
	folder = vc_sys_open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (folder < 0)
		return -1;
	vc_text_add(&text, "/proc/thread-self/fd/");
	vc_text_number(&text, (uint64_t)folder);
	vc_text_add(&text, "/" VC_SUPERVISOR_SOCKET);
	descriptor = vc_syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
				0, 0, 0);
	if (descriptor >= 0 &&
	    vc_syscall(SYS_connect, descriptor, (long)&address, sizeof(address), 0, 0, 0) != 0) {
		vc_sys_close((int)descriptor);
		descriptor = -1;
	}
	vc_sys_close(folder);
	return descriptor < 0 ? -1 : (int)descriptor;
}

static const char *file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

/* Tells the supervisor; a full or closed socket loses a hint and nothing else. */
static void tell(enum vc_supervisor_event event)
{
	struct vc_supervisor_message message = {
		.magic = VC_SUPERVISOR_MAGIC,
		.pid = vc_store_root()->fixed.pid,
		.event = event,
		.moments = agent.next_moment,
	};
	struct vc_text text = vc_text_in(message.file, sizeof(message.file));
	struct iovec piece = {&message, sizeof(message)};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr head = {.msg_iov = &piece, .msg_iovlen = 1};

	if (agent.socket < 0)
		return;
	vc_text_add(&text, file_name(vc_store_path()));
	if (event == VC_SUPERVISOR_STARTED && agent.descriptor >= 0) {
		head.msg_control = &control;
		head.msg_controllen = sizeof(control);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &agent.descriptor, sizeof(int));
	}
	vc_syscall(SYS_sendmsg, agent.socket, (long)&head, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0, 0);
}

/* ---- moments ---- */

static void write_copy(uint32_t row)
{
	uint64_t bytes = 0;

	if (agent.files >= agent.max_files || agent.bytes >= agent.max_bytes ||
	    vc_copy_write(agent.folder, row, &bytes) != 0) {
		vc_store_count(VC_COUNTER_SNAPSHOTS_LOST);
		return;
	}
	agent.files++;
	agent.bytes += bytes;
}

static void hand_on(void)
{
	const struct vc_moment_row *moment;
	uint32_t before = agent.next_moment;

	while ((moment = vc_copy_moment(agent.next_moment))) {
		/* who asked from outside makes the snapshot */
		if (agent.socket < 0 && strcmp(vc_store_text(moment->trigger), VC_TRIGGER_ASKED) != 0)
			write_copy(agent.next_moment);
		__atomic_store_n(&agent.next_moment, agent.next_moment + 1, __ATOMIC_RELEASE);
	}
	if (agent.next_moment != before)
		tell(VC_SUPERVISOR_MOMENT);
}

static void sleep_until_woken(uint32_t seen, bool busy)
{
	uint64_t due = vc_triggers_due();
	struct timespec timeout = {0, busy ? BUSY : IDLE};

	if (due < (uint64_t)timeout.tv_nsec)
		timeout.tv_nsec = (long)due;
	vc_sys_futex_wait(&agent.wake, seen, &timeout);
}

/* Being woken by a thread of the program, this one does not take its processor away. */
static void stay_behind(void)
{
	const struct sched_param usual = {0};

	vc_syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, (long)&usual, 0, 0, 0);
}

static void *agent_main(void *argument)
{
	(void)argument;
	vc_enter(); /* this thread is inside the recorder for good: it is never recorded */
	vc_syscall(SYS_prctl, PR_SET_NAME, (long)"vramcore", 0, 0, 0, 0);
	stay_behind();
	if (!leave_descriptors(agent.descriptor)) {
		agent.descriptor = -1;
	} else {
		if (agent.descriptor >= 0 && !vc_store_keep(agent.descriptor)) {
			vc_sys_close(agent.descriptor);
			agent.descriptor = -1;
		}
		agent.socket = reach_supervisor();
	}
	__atomic_store_n(&agent.ready, 1, __ATOMIC_RELEASE);
	vc_sys_futex_wake(&agent.ready);
	vc_triggers_watch_signal();
	tell(VC_SUPERVISOR_STARTED);
	for (;;) {
		uint32_t seen = __atomic_load_n(&agent.wake, __ATOMIC_ACQUIRE);
		bool stop = __atomic_load_n(&agent.stop, __ATOMIC_ACQUIRE), grew = vc_store_grow();

		vc_triggers_poll();
		hand_on();
		if (stop)
			break;
		sleep_until_woken(seen, grew);
	}
	tell(VC_SUPERVISOR_ENDED);
	agent.alone = agent.socket < 0;
	__atomic_store_n(&agent.ended, 1, __ATOMIC_RELEASE);
	vc_sys_futex_wake(&agent.ended);
	return NULL;
}

/* Copies go to an absolute folder, since the host may change its own. */
static void choose_folder(void)
{
	const char *out = vc_setting(VC_SETTING_OUT);
	struct vc_text text = vc_text_in(agent.folder, sizeof(agent.folder));
	char here[1024];

	if (!out || out[0] != '/') {
		if (vc_syscall(SYS_getcwd, (long)here, sizeof(here), 0, 0, 0, 0) > 0)
			vc_text_add(&text, here);
		vc_text_character(&text, '/');
	}
	if (out) {
		vc_text_add(&text, out);
	} else {
		vc_text_add(&text, "vramcore-");
		vc_text_number(&text, vc_store_root()->fixed.pid);
	}
}

static void read_limits(void)
{
	const char *files = vc_setting(VC_SETTING_MAX_FILES), *end;
	const char *bytes = vc_setting(VC_SETTING_MAX_BYTES);

	if (!files || !vc_parse_number(files, &end, &agent.max_files))
		agent.max_files = 20;
	if (!bytes || !vc_parse_bytes(bytes, &agent.max_bytes))
		agent.max_bytes = UINT64_C(2) << 30;
}

/* exit() was called: the status is known before the program's own handlers of earlier days run. */
static void on_exit_called(int status, void *argument)
{
	(void)argument;
	agent.exit_status = status;
	agent.exit_seen = true;
}

void vc_agent_forget(void)
{
	memset(&agent, 0, sizeof(agent));
	agent.descriptor = agent.socket = -1;
}

void vc_event_first_record(int descriptor)
{
	static bool handler_set;
	int saved = errno; /* of what the C library is asked here */

	vc_agent_forget();
	agent.descriptor = descriptor;
	read_limits();
	choose_folder();
	vc_triggers_start();
	if (!handler_set)
		handler_set = on_exit(on_exit_called, NULL) == 0;
	agent.running = vc_own_thread_make(agent_main, STACK_BYTES);
	if (vc_observed)
		vc_observed->agent = agent.running ? 1 : 2;
	if (agent.running) {
		vc_store_on_full(vc_agent_wake);
		vc_keeper_start();
	} else
		vc_store_count(VC_COUNTER_AGENT_MISSING);
	errno = saved;
	if (descriptor < 0)
		return;
	if (agent.running) {
		wait_for(&agent.ready, READY_WAIT);
		if (__atomic_load_n(&agent.ready, __ATOMIC_ACQUIRE))
			vc_store_let_go();
	}
	vc_sys_close(descriptor);
}

/* ---- end ---- */

bool vc_agent_runs(void)
{
	return agent.running && !__atomic_load_n(&agent.stop, __ATOMIC_ACQUIRE);
}

void vc_agent_stop(void)
{
	__atomic_store_n(&agent.stop, 1, __ATOMIC_RELEASE);
	vc_agent_wake();
	wait_for(&agent.ended, EXIT_WAIT);
}

/* The row of the newest failure that nothing more is known of and that is young enough to matter. */
static bool open_failure(uint32_t *ret)
{
	const struct vc_failure_row *row;
	uint64_t now = vc_store_time();
	bool found = false;

	for (uint32_t i = 0; (row = vc_space_at(VC_REC_FAILURES, i)); i++) {
		if (!__atomic_load_n(&row->check, __ATOMIC_ACQUIRE) ||
		    vc_word_value(row->outcome) != VC_FAILURE_OPEN ||
		    now - row->time > FAILURE_WINDOW)
			continue;
		*ret = i;
		found = true;
	}
	return found;
}

void vc_agent_finish(void)
{
	struct vc_root *root = vc_store_root();
	uint32_t failure;

	if (agent.exit_seen) {
		if (agent.exit_status != 0 && open_failure(&failure))
			vc_event_failure(failure, true);
		__atomic_store_n(&root->ended, vc_word(1 + (uint64_t)(agent.exit_status & 0xff)),
				 __ATOMIC_RELEASE);
	}
	if (!agent.running)
		return;
	/* Where it has ended before (keeper.c), what came since is left to this thread. */
	if (__atomic_load_n(&agent.ended, __ATOMIC_ACQUIRE)) {
		if (agent.alone)
			hand_on();
		return;
	}
	/*
	 * The program is not kept waiting for nothing: it may be ending with threads of its own that
	 * run into what is already gone.
	 */
	if (vc_copy_moment(__atomic_load_n(&agent.next_moment, __ATOMIC_ACQUIRE)))
		vc_agent_stop();
}
