/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/outside/library.h"
#include "capture/outside/locate.h"
#include "capture/outside/outside.h"
#include "capture/outside/program.h"
#include "capture/outside/setting_check.h"
#include "capture/outside/supervise.h"
#include "formats/error.h"

enum setting {
#define VC_SETTING(name, environment, option, argument, help) SETTING_##name,
#include "formats/settings.def"
#undef VC_SETTING
	SETTINGS
};

static const char *const variable[SETTINGS] = {
#define VC_SETTING(name, environment, option, argument, help) environment,
#include "formats/settings.def"
#undef VC_SETTING
};

#define KEY_SETTING 0x1000
#define KEY_PRINT_ENV 0x2000

static const struct argp_option options[] = {
#define VC_SETTING(name, environment, option, argument, help) \
	{option, KEY_SETTING + SETTING_##name, argument, 0, help, 0},
#include "formats/settings.def"
#undef VC_SETTING
	{"print-env", KEY_PRINT_ENV, NULL, 0,
	 "print the environment that does the same without `run`, and do nothing", 0},
	{0},
};

struct run {
	const char *value[SETTINGS];
	bool print_environment;
	char **program;
	char library[PATH_MAX], folder[PATH_MAX], preload[4 * PATH_MAX];
	char audit[4 * PATH_MAX];      /* "": not asked for */
	char sanitizer[4 * PATH_MAX];  /* for ASAN_OPTIONS; "": left as it is */
	char out[PATH_MAX];
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct run *run = state->input;

	if (key >= KEY_SETTING && key < KEY_SETTING + SETTINGS) {
		const char *option = options[key - KEY_SETTING].name;
		const char *complaint = argument ? vc_setting_complaint(option, argument) : NULL;

		if (complaint)
			argp_error(state, "--%s takes %s, not \"%s\"", option, complaint, argument);
		run->value[key - KEY_SETTING] = argument ? argument : "1";
	} else if (key == KEY_PRINT_ENV) {
		run->print_environment = true;
	} else if (key == ARGP_KEY_ARGS) {
		run->program = state->argv + state->next;
	} else if (key == ARGP_KEY_END) {
		if (!run->program && !run->print_environment)
			argp_error(state, "no program given");
	} else {
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp description = {
	.options = options,
	.parser = parse,
	.args_doc = "-- PROGRAM [ARGUMENT...]",
	.doc = "Runs PROGRAM with the recorder in it and in all programs it starts, and turns what the "
	       "triggers choose into snapshot files.\vThe exit status is PROGRAM's own; 2 where it "
	       "could not be started under the recorder, 126 or 127 where it could not be run.",
};

/* ---- environment ---- */

/* A value as a shell takes it, in single quotes. */
static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	putchar('\'');
}

static void print_variable(const char *name, const char *value)
{
	printf("export %s=", name);
	print_quoted(value);
	putchar('\n');
}

/* The values of LD_PRELOAD and LD_AUDIT; `folder` is for links. */
static int choose_libraries(struct run *run, const char *folder)
{
	char audit[PATH_MAX];
	int result = vc_library_preload(run->library, folder, getenv("LD_PRELOAD"), run->preload,
					sizeof(run->preload));

	if (result == 0 && (run->value[SETTING_AUDIT] || getenv("VRAMCORE_AUDIT"))) {
		result = vc_library_audit(run->library, audit, sizeof(audit));
		if (result == 0)
			result = vc_library_preload(audit, folder, getenv("LD_AUDIT"), run->audit,
						    sizeof(run->audit));
		if (result == VC_E_NOT_FOUND)
			fprintf(stderr, "vramcore: libvramcore-audit.so is not beside %s\n",
				run->library);
	}
	if (run->program &&
	    !vc_library_sanitizer(run->program[0], run->sanitizer, sizeof(run->sanitizer)))
		run->sanitizer[0] = 0;
	return result;
}

static int print_environment(struct run *run)
{
	char folder[64] = "";

	if ((!vc_library_plain(run->library) &&
	     vc_library_link_folder(run->library, folder, sizeof(folder)) != 0) ||
	    choose_libraries(run, folder) != 0) {
		fprintf(stderr, "vramcore: %s: LD_PRELOAD cannot hold this path (blanks or colons)\n",
			run->library);
		return 2;
	}
	print_variable("LD_PRELOAD", run->preload);
	if (run->audit[0])
		print_variable("LD_AUDIT", run->audit);
	if (run->sanitizer[0])
		print_variable("ASAN_OPTIONS", run->sanitizer);
	if (!getenv("NVTX_INJECTION64_PATH"))
		print_variable("NVTX_INJECTION64_PATH", run->library);
	for (size_t i = 0; i < SETTINGS; i++) {
		const char *value = run->value[i] ? run->value[i] : getenv(variable[i]);

		if (value)
			print_variable(variable[i], value);
	}
	return 0;
}

static void set_environment(const struct run *run)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (run->value[i])
			setenv(variable[i], run->value[i], 1);
	setenv("VRAMCORE_DIR", run->folder, 1);
	setenv("VRAMCORE_OUT", run->out, 1);
	setenv("LD_PRELOAD", run->preload, 1);
	if (run->audit[0])
		setenv("LD_AUDIT", run->audit, 1);
	if (run->sanitizer[0])
		setenv("ASAN_OPTIONS", run->sanitizer, 1);
	if (!getenv("NVTX_INJECTION64_PATH"))
		setenv("NVTX_INJECTION64_PATH", run->library, 1);
}

/* ---- folders ---- */

static int make_folder(struct run *run)
{
	const char *chosen = run->value[SETTING_DIRECTORY] ? run->value[SETTING_DIRECTORY] :
							     getenv("VRAMCORE_DIR");
	const char *places[] = {chosen, "/dev/shm", "/tmp"};
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = (uint64_t)getpid();
	for (size_t i = 0; i < 3; i++) {
		char absolute[PATH_MAX];

		if (!places[i] || !realpath(places[i], absolute))
			continue;
		if (snprintf(run->folder, sizeof(run->folder), "%s/" VC_RUN_FOLDER_PREFIX "%d-%08x",
			     absolute, (int)getpid(), (unsigned int)number) >=
		    (int)sizeof(run->folder))
			continue;
		if (mkdir(run->folder, 0700) == 0)
			return 0;
		if (chosen && i == 0)
			return VC_E_IO;
	}
	return VC_E_IO;
}

/* The folder for snapshots, absolute: a program may change its own, and a worker has ours. */
static void choose_out(struct run *run, pid_t program)
{
	const char *out = run->value[SETTING_OUT] ? run->value[SETTING_OUT] : getenv("VRAMCORE_OUT");
	char here[PATH_MAX], name[64];

	snprintf(name, sizeof(name), "vramcore-%d", (int)program);
	if (!out || !*out)
		out = name;
	if (out[0] == '/' || !getcwd(here, sizeof(here)))
		snprintf(run->out, sizeof(run->out), "%s", out);
	else if (snprintf(run->out, sizeof(run->out), "%s/%s", here, out) >= (int)sizeof(run->out))
		snprintf(run->out, sizeof(run->out), "/tmp/%s", name);
}

static uint64_t size_of(const char *text, uint64_t otherwise)
{
	uint64_t size;

	return text && vc_setting_bytes(text, &size) ? size : otherwise;
}

/* ---- program ---- */

/* `tell` closes with the exec; where that fails it gets a byte. */
static void start_program(struct run *run, const sigset_t *mask, int tell)
{
	int error;

	choose_out(run, getpid());
	set_environment(run);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(run->program[0], run->program);
	error = errno;
	fprintf(stderr, "vramcore: cannot run %s: %s\n", run->program[0], strerror(error));
	if (write(tell, "", 1) < 0)
		perror("vramcore");
	_exit(error == ENOENT ? 127 : 126);
}

/* Starts the program; whether it runs. */
static bool start(struct run *run, struct vc_supervisor *supervisor, const sigset_t *mask)
{
	int told[2];
	ssize_t got;
	char byte;

	if (pipe2(told, O_CLOEXEC) != 0)
		return false;
	supervisor->program = fork();
	if (supervisor->program == 0)
		start_program(run, mask, told[1]);
	close(told[1]);
	while ((got = read(told[0], &byte, 1)) < 0 && errno == EINTR)
		;
	close(told[0]);
	return supervisor->program > 0 && got == 0;
}

/*
 * The program's descriptors are its own: a pipe of it must reach its end when it closes it. Only
 * the supervisor's few stay, and standard error for its last line.
 */
static void leave_descriptors(const struct vc_supervisor *supervisor)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
	while (directory && (entry = readdir(directory))) {
		int number = atoi(entry->d_name);

		if (number > STDERR_FILENO && number != dirfd(directory) &&
		    number != supervisor->socket && number != supervisor->signals &&
		    number != supervisor->folder_descriptor)
			close(number);
	}
	if (directory)
		closedir(directory);
}

/* `out` as a person typed or would type it: below the working folder without the folder. */
static const char *short_path(const char *path)
{
	char here[PATH_MAX];
	size_t length;

	if (!getcwd(here, sizeof(here)))
		return path;
	length = strlen(here);
	return strncmp(path, here, length) == 0 && path[length] == '/' ? path + length + 1 : path;
}

static const char *plural(uint64_t number)
{
	return number == 1 ? "" : "s";
}

static void last_line(const struct run *run, const struct vc_supervisor *supervisor)
{
	uint64_t processes = vc_supervisor_processes(supervisor);

	if (processes < supervisor->count)
		processes = supervisor->count;
	if (supervisor->count == 0 && processes == 0) {
		fprintf(stderr,
			"vramcore: nothing recorded: the recorder was not loaded into %s (vramcore "
			"doctor -- %s says more)\n",
			run->program[0], run->program[0]);
		return;
	}
	if (supervisor->count == 0) {
		fprintf(stderr,
			"vramcore: nothing recorded: the program never created a context (vramcore "
			"doctor -- %s says more)\n",
			run->program[0]);
		return;
	}
	if (supervisor->snapshots)
		fprintf(stderr, "vramcore: %" PRIu64 " snapshot%s in %s/, ", supervisor->snapshots,
			plural(supervisor->snapshots), short_path(run->out));
	else
		fprintf(stderr, "vramcore: no snapshot (no trigger fired), ");
	fprintf(stderr, "%u of %" PRIu64 " process%s used the device and %s recorded\n",
		supervisor->count, processes, processes == 1 ? "" : "es",
		supervisor->count == 1 ? "was" : "were");
	if (supervisor->failed)
		fprintf(stderr, "vramcore: %" PRIu64 " snapshot%s could not be written\n",
			supervisor->failed, plural(supervisor->failed));
}

/* Ends the way the program ended. */
static int end_like(int status)
{
	if (WIFSIGNALED(status)) {
		struct rlimit none = {0, 0};
		sigset_t set;

		setrlimit(RLIMIT_CORE, &none); /* the program's core, if any, is there already */
		signal(WTERMSIG(status), SIG_DFL);
		sigemptyset(&set);
		sigaddset(&set, WTERMSIG(status));
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		raise(WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	return WEXITSTATUS(status);
}

static int supervise(struct run *run)
{
	const char *files = run->value[SETTING_MAX_FILES] ? run->value[SETTING_MAX_FILES] :
							    getenv("VRAMCORE_MAX_FILES");
	const char *bytes = run->value[SETTING_MAX_BYTES] ? run->value[SETTING_MAX_BYTES] :
							    getenv("VRAMCORE_MAX_BYTES");
	struct vc_supervisor supervisor = {
		.folder = run->folder,
		.out = run->out,
		.max_files = size_of(files, 20),
		.max_bytes = size_of(bytes, UINT64_C(2) << 30),
		.keep = run->value[SETTING_KEEP] || getenv("VRAMCORE_KEEP"),
	};
	bool quiet = run->value[SETTING_QUIET] || getenv("VRAMCORE_QUIET"), runs;
	sigset_t mask;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	if (vc_supervisor_prepare(&supervisor) != 0) {
		fprintf(stderr, "vramcore: cannot supervise in %s: %s\n", run->folder,
			strerror(errno));
		return 2;
	}
	runs = start(run, &supervisor, &mask);
	if (supervisor.program <= 0) {
		fprintf(stderr, "vramcore: cannot start a process: %s\n", strerror(errno));
		vc_supervisor_clean(&supervisor);
		return 2;
	}
	choose_out(run, supervisor.program);
	leave_descriptors(&supervisor);
	vc_supervisor_run(&supervisor);
	if (!quiet && runs)
		last_line(run, &supervisor);
	vc_supervisor_clean(&supervisor);
	return end_like(supervisor.program_status);
}

static int run_program(struct run *run)
{

	if (vc_library_find(run->library, sizeof(run->library)) != 0) {
		fprintf(stderr, "vramcore: libvramcore.so is not beside this program, nor in ../lib: "
				"unpack or install both together\n");
		return 2;
	}
	if (run->print_environment)
		return print_environment(run);
	if (make_folder(run) != 0) {
		fprintf(stderr, "vramcore: no folder for recordings: %s: %s (choose one with --dir)\n",
			run->value[SETTING_DIRECTORY] ? run->value[SETTING_DIRECTORY] : "/dev/shm",
			strerror(errno));
		return 2;
	}
	if (choose_libraries(run, run->folder) != 0) {
		fprintf(stderr, "vramcore: %s: LD_PRELOAD cannot hold this path\n", run->library);
		rmdir(run->folder);
		return 2;
	}
	return supervise(run);
}

int vc_outside_run(int argc, char **argv)
{
	struct run *run = calloc(1, sizeof(*run));
	char name[] = "vramcore run";
	int status;

	if (!run)
		return 2;
	argv[0] = name;
	argp_err_exit_status = 64;
	argp_parse(&description, argc, argv, ARGP_IN_ORDER, NULL, run);
	status = run_program(run);
	free(run);
	return status;
}
