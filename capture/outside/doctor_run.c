/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/doctor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/outside/library.h"
#include "formats/observed.h"

#define NAMES_SHOWN 12
#define PROBE "--probe"

/* ---- the folder ---- */

static bool make_folder(char *ret, size_t size)
{
	static const char *const places[] = {"/dev/shm", "/tmp"};

	for (size_t i = 0; i < 2; i++) {
		snprintf(ret, size, "%s/vramcore-doctor-XXXXXX", places[i]);
		if (mkdtemp(ret))
			return true;
	}
	return false;
}

static void remove_folder(const char *folder)
{
	DIR *list = opendir(folder);
	struct dirent *entry;
	char path[PATH_MAX];

	while (list && (entry = readdir(list)))
		if (entry->d_name[0] != '.' && snprintf(path, sizeof(path), "%s/%s", folder,
							entry->d_name) < (int)sizeof(path))
			unlink(path);
	if (list)
		closedir(list);
	rmdir(folder);
}

/* ---- the program ---- */

static void set_environment(const struct vc_doctor *doctor, const char *library, const char *folder)
{
	char preload[4 * PATH_MAX], audit[PATH_MAX];

	if (vc_library_preload(library, folder, getenv("LD_PRELOAD"), preload,
			       sizeof(preload)) == 0)
		setenv("LD_PRELOAD", preload, 1);
	if (doctor->audit && vc_library_audit(library, audit, sizeof(audit)) == 0 &&
	    vc_library_preload(audit, folder, getenv("LD_AUDIT"), preload, sizeof(preload)) == 0)
		setenv("LD_AUDIT", preload, 1);
	setenv("VRAMCORE_DIR", folder, 1);
	setenv("VRAMCORE_OUT", folder, 1);
	setenv(VC_OBSERVED_VARIABLE, folder, 1);
}

/* Its standard output goes to ours for errors: the report is the only thing on the other. */
static void start(const struct vc_doctor *doctor, const char *library, const char *folder)
{
	char itself[] = "/proc/self/exe", verb[] = "doctor", probe[] = PROBE;
	char *own[] = {itself, verb, probe, NULL};
	char **program = doctor->program ? doctor->program : own;
	char sanitizer[4096];

	set_environment(doctor, library, folder);
	if (vc_library_sanitizer(program[0], sanitizer, sizeof(sanitizer)))
		setenv("ASAN_OPTIONS", sanitizer, 1);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execvp(program[0], program);
	_exit(errno == ENOENT ? 127 : 126);
}

/* Its status as waitpid gives it; -1: it could not be started. */
static int run(const struct vc_doctor *doctor, const char *library, const char *folder)
{
	pid_t pid, found;
	int status = -1;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		start(doctor, library, folder);
	if (pid < 0)
		return -1;
	signal(SIGINT, SIG_IGN); /* who interrupts the program still wants to read of it */
	signal(SIGQUIT, SIG_IGN);
	while ((found = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	return found == pid ? status : -1;
}

int vc_doctor_probe(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*init)(unsigned int), (*retain)(void **, int), (*set)(void *), (*release)(int);
	int (*allocate)(unsigned long long *, size_t), (*give_back)(unsigned long long);
	unsigned long long pointer;
	void *context;

	if (!driver)
		return 0;
	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&set = dlsym(driver, "cuCtxSetCurrent");
	*(void **)&release = dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
	*(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
	*(void **)&give_back = dlsym(driver, "cuMemFree_v2");
	if (!init || !retain || !set || !release || !allocate || !give_back)
		return 1;
	if (init(0) || retain(&context, 0))
		return 0;
	if (!set(context) && !allocate(&pointer, 1 << 20))
		give_back(pointer);
	release(0);
	return 0;
}

/* ---- what was seen ---- */

static void close_texts(struct vc_observed *seen)
{
	seen->program[sizeof(seen->program) - 1] = 0;
	for (size_t i = 0; i < 4; i++)
		seen->driver[i][sizeof(seen->driver[i]) - 1] = 0;
	for (size_t i = 0; i < VC_OBSERVED_OBJECTS; i++) {
		seen->bypass[i][sizeof(seen->bypass[i]) - 1] = 0;
		seen->elsewhere[i][sizeof(seen->elsewhere[i]) - 1] = 0;
	}
	for (size_t i = 0; i < VC_OBSERVED_NAMES; i++)
		seen->unrecorded[i][sizeof(seen->unrecorded[i]) - 1] = 0;
}

static void say_init(struct vc_doctor *doctor, const struct vc_observed *seen)
{
	char detail[160];

	snprintf(detail, sizeof(detail), "%d%s", seen->init_result,
		 seen->init_result == 0   ? " (success)" :
		 seen->init_result == 100 ? " (the driver finds no device)" :
		 seen->init_result == 803 ? " (the driver does not fit the kernel's part of it)" :
		 seen->init_result == 999 ? " (the driver does not say why)" :
					    "");
	if (!seen->init_calls)
		vc_doctor_note(doctor, "cuInit", "the program never called it");
	else if (seen->init_result == 0)
		vc_doctor_good(doctor, "cuInit", detail);
	else
		vc_doctor_problem(doctor, "cuInit", detail,
				  "the program fails at it with and without the recorder");
}

static void say_handed_out(struct vc_doctor *doctor, const struct vc_observed *seen)
{
	char detail[VC_OBSERVED_NAMES * 66], part[80];
	uint32_t count = seen->unrecorded_count < VC_OBSERVED_NAMES ? seen->unrecorded_count :
								       VC_OBSERVED_NAMES;
	uint32_t shown = count < NAMES_SHOWN || doctor->json ? count : NAMES_SHOWN;

	snprintf(detail, sizeof(detail),
		 "%u by dlsym, %u of %u by cuGetProcAddress%s, %u by way of LD_AUDIT", seen->by_name,
		 seen->translated, seen->asked, seen->asked ? "" : " (never asked)", seen->audit);
	if (seen->by_name || seen->translated || seen->audit)
		vc_doctor_good(doctor, "functions handed out recorded", detail);
	else
		vc_doctor_note(doctor, "functions handed out recorded",
			       "none: they are bound by the loader, or never reached for");
	if (!count)
		return;
	snprintf(detail, sizeof(detail), "%u: ", seen->unrecorded_count);
	for (uint32_t i = 0; i < shown; i++) {
		snprintf(part, sizeof(part), "%s%s", i ? ", " : "", seen->unrecorded[i]);
		strcat(detail, part);
	}
	if (shown < count)
		strcat(detail, ", ... (--json has all)");
	vc_doctor_note(doctor, "functions handed out that are not recorded", detail);
}

static void say_past(struct vc_doctor *doctor, const struct vc_observed *seen)
{
	for (uint32_t i = 0; i < seen->bypass_count && i < VC_OBSERVED_OBJECTS; i++)
		vc_doctor_problem(doctor, "calls the driver past the recorder", seen->bypass[i],
				  "it was opened with RTLD_DEEPBIND, or bound before the recorder "
				  "was there: run with --audit");
	for (uint32_t i = 0; i < seen->elsewhere_count && i < VC_OBSERVED_OBJECTS; i++) {
		if (seen->audit)
			vc_doctor_good(doctor, "driver in a namespace of its own",
				       seen->elsewhere[i]);
		else
			vc_doctor_problem(doctor, "driver in a namespace of its own",
					  seen->elsewhere[i],
					  "it was opened with dlmopen: run with --audit");
	}
	if (!seen->ended)
		vc_doctor_note(doctor, "end of the process",
			       "it was ended from outside or by _exit: who calls the driver past "
			       "the recorder was not looked at");
}

static void say_torch(struct vc_doctor *doctor, const struct vc_observed *seen)
{
	char detail[64];

	if (seen->torch_blocks) {
		snprintf(detail, sizeof(detail), "%u reports", seen->torch_blocks);
		vc_doctor_good(doctor, "PyTorch's allocator tells of its blocks", detail);
	} else if (seen->torch) {
		vc_doctor_note(doctor, "PyTorch's allocator told of no block",
			       "no tensor was made, or its back end reports none (cudaMallocAsync, "
			       "no caching, a pluggable one): then the driver's allocations are "
			       "what is seen");
	}
}

static void say_process(struct vc_doctor *doctor, const struct vc_observed *seen)
{
	char detail[600];

	snprintf(detail, sizeof(detail), "process %u, %s", seen->pid, seen->program);
	vc_doctor_good(doctor, "recorder loaded", detail);
	if (!seen->drivers) {
		say_past(doctor, seen);
		vc_doctor_note(doctor, "driver", "the process never reached for one");
		return;
	}
	for (uint32_t i = 0; i < seen->drivers && i < 4; i++)
		vc_doctor_good(doctor, "driver in use", seen->driver[i]);
	if (seen->drivers > 4)
		vc_doctor_problem(doctor, "drivers", "more than four in one process",
				  "what the others do is not recorded");
	say_init(doctor, seen);
	say_handed_out(doctor, seen);
	say_past(doctor, seen);
	if (seen->recording)
		vc_doctor_good(doctor, "recording", "begun at the first context or allocation");
	else
		vc_doctor_note(doctor, "recording", "not begun: no context and no allocation seen");
	say_torch(doctor, seen);
	if (seen->agent == 1)
		vc_doctor_good(doctor, "agent", "started");
	else if (seen->agent)
		vc_doctor_problem(doctor, "agent", "its thread could not be made",
				  "allocations are recorded, triggers do not work: check limits on "
				  "threads and memory");
}

/* Every file of the folder: how many there were. */
static int say_all(struct vc_doctor *doctor, const char *folder)
{
	struct vc_observed *seen = malloc(sizeof(*seen));
	DIR *list = opendir(folder);
	struct dirent *entry;
	int count = 0, quiet = 0;

	while (seen && list && (entry = readdir(list))) {
		int descriptor;

		if (strncmp(entry->d_name, VC_OBSERVED_PREFIX, strlen(VC_OBSERVED_PREFIX)) != 0)
			continue;
		descriptor = openat(dirfd(list), entry->d_name,
				    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (descriptor < 0)
			continue;
		if (pread(descriptor, seen, sizeof(*seen), 0) == sizeof(*seen) &&
		    seen->magic == VC_OBSERVED_MAGIC) {
			close_texts(seen);
			count++;
			if (count == 1 || seen->drivers || seen->elsewhere_count)
				say_process(doctor, seen);
			else
				quiet++;
		}
		close(descriptor);
	}
	if (quiet) {
		char detail[64];

		snprintf(detail, sizeof(detail), "%d", quiet);
		vc_doctor_note(doctor, "further processes that never reached for a driver", detail);
	}
	if (list)
		closedir(list);
	free(seen);
	return count;
}

static void say_status(struct vc_doctor *doctor, int status)
{
	char detail[64];

	if (WIFSIGNALED(status))
		snprintf(detail, sizeof(detail), "ended by signal %d", WTERMSIG(status));
	else
		snprintf(detail, sizeof(detail), "exit status %d", WEXITSTATUS(status));
	vc_doctor_note(doctor, doctor->program ? "the program ran" : "the probe ran", detail);
}

void vc_doctor_run(struct vc_doctor *doctor, const char *library)
{
	char folder[64];
	int status;

	if (!make_folder(folder, sizeof(folder))) {
		vc_doctor_problem(doctor, "trial run", strerror(errno),
				  "neither /dev/shm nor /tmp can be written to");
		return;
	}
	status = run(doctor, library, folder);
	if (status == -1)
		vc_doctor_problem(doctor, "trial run", "it could not be started", "");
	else
		say_status(doctor, status);
	if (say_all(doctor, folder) == 0 && status != -1)
		vc_doctor_problem(doctor, "recorder", "it was not loaded into any process",
				  "the program is static, for another C library, or gives up "
				  "LD_PRELOAD");
	remove_folder(folder);
}
