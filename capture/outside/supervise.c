/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/supervise.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/outside/locate.h"
#include "capture/outside/make_snapshot.h"
#include "capture/outside/process.h"
#include "formats/supervisor.h"
#include "formats/tables.h"

#define LOOK_EVERY 500 /* milliseconds, where no message came */
#define FAILURE_WINDOW UINT64_C(60000000000)

/* ---- prepare ---- */

static void forwarded_signals(sigset_t *set)
{
	sigfillset(set);
	/* faults of our own must end us; stops are the shell's way to stop the whole job */
	for (size_t i = 0; i < 5; i++)
		sigdelset(set, (int[]){SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}[i]);
	for (size_t i = 0; i < 3; i++)
		sigdelset(set, (int[]){SIGTSTP, SIGTTIN, SIGTTOU}[i]);
}

/* Out of the way of the standard streams, which may have been closed. */
static int high(int descriptor)
{
	int moved = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, 3);

	if (descriptor >= 0)
		close(descriptor);
	return moved;
}

int vc_supervisor_prepare(struct vc_supervisor *supervisor)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATH_MAX];
	sigset_t set;

	supervisor->supervised = calloc(VC_SUPERVISED_MAX, sizeof(*supervisor->supervised));
	if (!supervisor->supervised)
		return VC_E_NO_MEMORY;
	supervisor->folder_descriptor =
		high(open(supervisor->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	supervisor->socket = high(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (supervisor->folder_descriptor < 0 || supervisor->socket < 0)
		return VC_E_IO;
	/* by way of /proc, since the address of a socket has no room for long names */
	snprintf(address.sun_path, sizeof(address.sun_path),
		 "/proc/self/fd/%d/" VC_SUPERVISOR_SOCKET, supervisor->folder_descriptor);
	if (bind(supervisor->socket, (struct sockaddr *)&address, sizeof(address)) != 0)
		return VC_E_IO;
	snprintf(path, sizeof(path), "%s/" VC_SUPERVISOR_PROCESSES, supervisor->folder);
	close(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
	forwarded_signals(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	supervisor->signals = high(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
	return supervisor->signals < 0 ? VC_E_IO : 0;
}

/* ---- recordings ---- */

static void add(struct vc_supervisor *supervisor, int descriptor, const char *name)
{
	struct vc_supervised *new = &supervisor->supervised[supervisor->count];
	struct vc_recording_source source;
	struct vc_recording_summary summary;

	if (supervisor->count == VC_SUPERVISED_MAX ||
	    vc_recording_source_descriptor(descriptor, &source) != 0 ||
	    vc_recording_peek(&source, &summary) != 0) {
		close(descriptor);
		return;
	}
	*new = (struct vc_supervised){.descriptor = descriptor,
				      .pid = vc_process_here(summary.pid, summary.start_ticks,
							     summary.pid_namespace),
				      .start_ticks = summary.start_ticks,
				      .start_time = summary.start_time};
	/* of two recordings of one process the older is of the program before an exec */
	for (uint32_t i = 0; i < supervisor->count; i++) {
		struct vc_supervised *other = &supervisor->supervised[i];

		if (other->pid == new->pid && other->start_ticks == new->start_ticks)
			(other->start_time < new->start_time ? other : new)->replaced = true;
	}
	snprintf(new->name, sizeof(new->name), "%s", name);
	supervisor->count++;
}

static bool known(const struct vc_supervisor *supervisor, const char *name)
{
	for (uint32_t i = 0; i < supervisor->count; i++)
		if (!strcmp(supervisor->supervised[i].name, name))
			return true;
	return false;
}

/* Takes up recordings that are new in the folder. */
static void look(struct vc_supervisor *supervisor)
{
	DIR *directory = opendir(supervisor->folder);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		const char *end = strrchr(entry->d_name, '.');
		int descriptor;

		if (!end || strcmp(end, VC_RECORDING_SUFFIX) || strlen(entry->d_name) >= 128 ||
		    known(supervisor, entry->d_name))
			continue;
		descriptor = openat(supervisor->folder_descriptor, entry->d_name,
				    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (descriptor >= 0)
			add(supervisor, descriptor, entry->d_name);
	}
	if (directory)
		closedir(directory);
}

/* Drains the socket; a memfd that came along is taken up. */
static void receive(struct vc_supervisor *supervisor)
{
	for (;;) {
		struct vc_supervisor_message message;
		struct iovec piece = {&message, sizeof(message)};
		union {
			struct cmsghdr head;
			char bytes[CMSG_SPACE(sizeof(int))];
		} control;
		struct msghdr head = {.msg_iov = &piece,
				      .msg_iovlen = 1,
				      .msg_control = &control,
				      .msg_controllen = sizeof(control)};
		struct cmsghdr *extra;
		int descriptor;

		if (recvmsg(supervisor->socket, &head, MSG_CMSG_CLOEXEC) < 0)
			return;
		extra = CMSG_FIRSTHDR(&head);
		if (!extra || extra->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(&descriptor, CMSG_DATA(extra), sizeof(descriptor));
		if (message.file[0])
			close(descriptor); /* it has a name: the folder shows it */
		else
			add(supervisor, descriptor, "");
	}
}

static bool dead(const struct vc_supervised *one)
{
	struct vc_process process;

	return one->replaced || !vc_process_read(one->pid, &process) ||
	       process.start_ticks != one->start_ticks || process.state == 'Z' ||
	       process.state == 'X';
}

/* ---- snapshots ---- */

/*
 * The worker tells its parent how many mebibytes it wrote, rounded up, by its exit status; 0 means
 * that it failed.
 */
static void start_worker(struct vc_supervisor *supervisor, uint32_t index,
			 const struct vc_make_snapshot *wanted)
{
	pid_t worker = fork();

	if (worker == 0) {
		struct vc_faults faults = {0};
		struct vc_fault fault;
		char path[PATH_MAX];
		uint64_t bytes = 0, mebibytes;

		/* signals stay blocked: those to the whole job (Ctrl-C, a batch system's) end the program */
		if (vc_make_snapshot(wanted, path, &bytes, &faults, &fault) != 0)
			_exit(0);
		mebibytes = (bytes + (1u << 20) - 1) >> 20;
		_exit(mebibytes < 1 ? 1 : mebibytes > 255 ? 255 : (int)mebibytes);
	}
	if (worker < 0) {
		supervisor->failed++;
		return;
	}
	supervisor->worker = worker;
	supervisor->worker_for = index;
}

static void worker_ended(struct vc_supervisor *supervisor, int status)
{
	struct vc_supervised *one = &supervisor->supervised[supervisor->worker_for];

	supervisor->worker = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) > 0) {
		supervisor->snapshots++;
		one->files++;
		one->bytes += (uint64_t)WEXITSTATUS(status) << 20;
	} else {
		supervisor->failed++;
	}
}

struct failure_search {
	uint64_t after;              /* CLOCK_MONOTONIC minus the recording's start minus a minute */
	uint64_t row_plus_one;
};

static int newest_open_failure(void *self, enum vc_item state, uint64_t number, const void *item,
			       uint64_t offset)
{
	const struct vc_failure_row *row = item;
	struct failure_search *search = self;

	(void)offset;
	if (state == VC_ITEM_GOOD && vc_word_value(row->outcome) == VC_FAILURE_OPEN &&
	    row->time >= search->after)
		search->row_plus_one = number + 1;
	return 0;
}

/* The failed allocation that a process which has just died may have died of; 0: none. */
static uint64_t last_failure(const struct vc_supervised *one)
{
	struct vc_recording_source source;
	struct vc_recording recording;
	struct failure_search search = {0};
	struct timespec now;
	uint64_t age, since;

	if (vc_recording_source_descriptor(one->descriptor, &source) != 0 ||
	    vc_recording_open(&source, &recording, NULL, NULL) != 0)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	since = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	age = since - recording.root->fixed.start_monotonic;
	search.after = age > FAILURE_WINDOW ? age - FAILURE_WINDOW : 0;
	vc_recording_scan(&recording, VC_REC_FAILURES, newest_open_failure, &search);
	vc_recording_close(&recording);
	return search.row_plus_one;
}

/* How a process ended, as far as it can be told: by error, by signal, or well. */
enum ending { ENDED_WELL, ENDED_BY_ERROR, KILLED };

static enum ending ending_of(const struct vc_supervisor *supervisor, const struct vc_supervised *one)
{
	struct vc_recording_source source;
	struct vc_recording recording;
	uint64_t ended = 0;

	if (one->pid == (uint64_t)supervisor->program && supervisor->program_ended) {
		if (WIFSIGNALED(supervisor->program_status))
			return KILLED;
		return WEXITSTATUS(supervisor->program_status) ? ENDED_BY_ERROR : ENDED_WELL;
	}
	if (vc_recording_source_descriptor(one->descriptor, &source) == 0 &&
	    vc_recording_open(&source, &recording, NULL, NULL) == 0) {
		ended = vc_recording_value(&recording, &recording.root->ended, 0);
		vc_recording_close(&recording);
	}
	/* one that left by _exit, or was killed, said nothing; only a failed allocation counts then */
	return ended == 1 ? ENDED_WELL : ENDED_BY_ERROR;
}

static void finish(struct vc_supervisor *supervisor, struct vc_supervised *one)
{
	if (!supervisor->keep && one->name[0]) {
		unlinkat(supervisor->folder_descriptor, one->name, 0);
		vc_locate_remove_walks(supervisor->folder, one->name);
	}
	close(one->descriptor);
	one->descriptor = -1;
	one->finished = true;
}

/* The last look at a process that is gone; starts a worker where there is something to show. */
static void last_snapshot(struct vc_supervisor *supervisor, uint32_t index)
{
	struct vc_supervised *one = &supervisor->supervised[index];
	struct vc_make_snapshot wanted = {.descriptor = one->descriptor, .folder = supervisor->out};
	enum ending ending = ending_of(supervisor, one);

	one->seen_dead = true;
	if (ending == ENDED_WELL || one->replaced)
		return;
	wanted.failure_plus_one = last_failure(one);
	wanted.trigger = wanted.failure_plus_one ? "oom" : "killed";
	/* a signal that was forwarded and killed has its snapshot already */
	if (wanted.failure_plus_one ||
	    (ending == KILLED && one->shown != (uint64_t)WTERMSIG(supervisor->program_status)))
		start_worker(supervisor, index, &wanted);
}

static uint64_t moments_of(const struct vc_supervised *one)
{
	struct vc_recording_source source;
	struct vc_recording_summary summary;

	if (vc_recording_source_descriptor(one->descriptor, &source) != 0 ||
	    vc_recording_peek(&source, &summary) != 0)
		return one->moments_done;
	return summary.moments;
}

/* Who asked for a moment from outside makes the snapshot of it. */
static bool asked_from_outside(const struct vc_supervised *one, uint64_t row)
{
	struct vc_recording_moment *moments = NULL;
	struct vc_recording_source source;
	size_t count = 0;
	bool asked = false;

	if (vc_recording_source_descriptor(one->descriptor, &source) == 0)
		vc_recording_moments(&source, &moments, &count, NULL);
	for (size_t i = 0; i < count; i++)
		asked |= moments[i].row == row && !strcmp(moments[i].trigger, VC_TRIGGER_ASKED);
	free(moments);
	return asked;
}

/* Starts the next piece of work of one process; false where there is none. */
static bool work_on(struct vc_supervisor *supervisor, uint32_t index)
{
	struct vc_supervised *one = &supervisor->supervised[index];
	struct vc_make_snapshot wanted = {.descriptor = one->descriptor, .folder = supervisor->out};
	char recording[PATH_MAX];
	bool is_dead = dead(one); /* before moments are counted: none comes after */
	bool allowed = one->files < supervisor->max_files && one->bytes < supervisor->max_bytes;

	if (one->moments_done < moments_of(one)) {
		wanted.moment_plus_one = ++one->moments_done;
		if (one->name[0] && snprintf(recording, sizeof(recording), "%s/%s", supervisor->folder,
					     one->name) < (int)sizeof(recording))
			wanted.recording = recording;
		wanted.remove_walk = !supervisor->keep;
		if (allowed && !asked_from_outside(one, wanted.moment_plus_one - 1))
			start_worker(supervisor, index, &wanted);
		return true;
	}
	if (one->request && one->replaced)
		one->request = 0;
	if (one->request) { /* also of one that has died of it: its recording is as it left it */
		wanted.trigger = "signal";
		one->shown = one->request;
		one->request = 0;
		if (allowed)
			start_worker(supervisor, index, &wanted);
		return true;
	}
	if (!is_dead)
		return false;
	/* how the program itself ended is known once it has been waited for */
	if (!one->replaced && one->pid == (uint64_t)supervisor->program && !supervisor->program_ended)
		return false;
	if (!one->seen_dead) {
		last_snapshot(supervisor, index);
		return true;
	}
	finish(supervisor, one);
	return false;
}

static void work(struct vc_supervisor *supervisor)
{
	for (uint32_t i = 0; i < supervisor->count; i++)
		while (!supervisor->worker && !supervisor->supervised[i].finished)
			if (!work_on(supervisor, i))
				break;
}

/* ---- signals ---- */

static void ask_all(struct vc_supervisor *supervisor, int signal_number)
{
	look(supervisor);
	for (uint32_t i = 0; i < supervisor->count; i++)
		supervisor->supervised[i].request = (uint64_t)signal_number;
}

static void reap(struct vc_supervisor *supervisor)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (WIFSTOPPED(status)) {
			/* the terminal stopped the job: stop with it, the shell continues both */
			if (pid == supervisor->program && WSTOPSIG(status) != SIGSTOP)
				raise(SIGSTOP);
		} else if (pid == supervisor->program) {
			supervisor->program_ended = true;
			supervisor->program_status = status;
		} else if (pid == supervisor->worker) {
			worker_ended(supervisor, status);
		}
	}
}

static void handle_signals(struct vc_supervisor *supervisor)
{
	struct signalfd_siginfo info;

	while (read(supervisor->signals, &info, sizeof(info)) == sizeof(info)) {
		int number = (int)info.ssi_signo;

		if (number == SIGCHLD)
			continue;
		/* what the terminal sends has reached the program already */
		if (info.ssi_code != SI_KERNEL && !supervisor->program_ended)
			kill(supervisor->program, number);
		if (number == SIGTERM || number == SIGINT || number == SIGHUP ||
		    number == SIGUSR1 || number == SIGUSR2)
			ask_all(supervisor, number);
	}
	reap(supervisor);
}

/* Everything that can be done once the program is gone: its processes' pending work. */
static bool settled(const struct vc_supervisor *supervisor)
{
	if (!supervisor->program_ended || supervisor->worker)
		return false;
	for (uint32_t i = 0; i < supervisor->count; i++)
		if (!supervisor->supervised[i].finished && dead(&supervisor->supervised[i]))
			return false;
	return true;
}

void vc_supervisor_run(struct vc_supervisor *supervisor)
{
	while (!settled(supervisor)) {
		struct pollfd wait[] = {{.fd = supervisor->signals, .events = POLLIN},
					{.fd = supervisor->socket, .events = POLLIN}};

		poll(wait, 2, supervisor->program_ended ? 20 : LOOK_EVERY);
		handle_signals(supervisor);
		receive(supervisor);
		look(supervisor);
		work(supervisor);
	}
}

/* ---- end ---- */

uint64_t vc_supervisor_processes(const struct vc_supervisor *supervisor)
{
	struct stat status;

	return fstatat(supervisor->folder_descriptor, VC_SUPERVISOR_PROCESSES, &status, 0) == 0 ?
		       (uint64_t)status.st_size :
		       0;
}

void vc_supervisor_clean(struct vc_supervisor *supervisor)
{
	bool left = false;

	for (uint32_t i = 0; i < supervisor->count; i++)
		left |= !supervisor->supervised[i].finished;
	close(supervisor->socket);
	unlinkat(supervisor->folder_descriptor, VC_SUPERVISOR_SOCKET, 0);
	if (!left) { /* a process that outlives the program still records into the folder */
		unlinkat(supervisor->folder_descriptor, VC_SUPERVISOR_PROCESSES, 0);
		unlinkat(supervisor->folder_descriptor, "libvramcore.so", 0);
		rmdir(supervisor->folder);
	}
	close(supervisor->folder_descriptor);
	free(supervisor->supervised);
}
