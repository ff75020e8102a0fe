/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "capture/outside/doctor.h"
#include "capture/outside/json.h"
#include "capture/outside/library.h"
#include "capture/outside/outside.h"
#include "capture/outside/program.h"

#define INTERPRETERS_MAX 4 /* a script that names a script ... */

#define KEY_PROBE 0x1000

static const struct argp_option options[] = {
	{"run", 'r', NULL, 0,
	 "run PROGRAM (or, without one, a small probe of the driver) under the recorder and say what was "
	 "seen and missed; its standard output goes to standard error", 0},
	{"audit", 'a', NULL, 0, "with --run: as run --audit does", 0},
	{"json", 'j', NULL, 0, "print JSON (schema vramcore.doctor/1)", 0},
	{"probe", KEY_PROBE, NULL, OPTION_HIDDEN, NULL, 0},
	{0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct vc_doctor *doctor = state->input;

	(void)argument;
	if (key == 'j')
		doctor->json = true;
	else if (key == 'r')
		doctor->run = true;
	else if (key == 'a')
		doctor->audit = doctor->run = true;
	else if (key == KEY_PROBE)
		exit(vc_doctor_probe());
	else if (key == ARGP_KEY_ARGS)
		doctor->program = state->argv + state->next;
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

/* One finding; `advice` NULL where there is nothing to do. */
static void say(struct vc_doctor *doctor, const char *verdict, const char *what, const char *detail,
		const char *advice)
{
	if (doctor->json) {
		printf("%s\n  {\"verdict\": \"%s\", \"what\": ", doctor->said ? "," : "", verdict);
		vc_json_text(what);
		printf(", \"detail\": ");
		vc_json_text(detail);
		printf(", \"advice\": ");
		vc_json_text(advice ? advice : "");
		printf("}");
	} else {
		printf("  %-9s %s%s%s\n", verdict, what, *detail ? ": " : "", detail);
		if (advice)
			printf("            %s\n", advice);
	}
	doctor->said++;
}

void vc_doctor_good(struct vc_doctor *doctor, const char *what, const char *detail)
{
	say(doctor, "ok", what, detail, NULL);
}

void vc_doctor_problem(struct vc_doctor *doctor, const char *what, const char *detail, const char *advice)
{
	say(doctor, "PROBLEM", what, detail, advice);
	doctor->problems++;
}

void vc_doctor_note(struct vc_doctor *doctor, const char *what, const char *detail)
{
	say(doctor, "note", what, detail, NULL);
}

/* ---- this system ---- */

static void check_library(struct vc_doctor *doctor)
{
	char path[PATH_MAX];

	if (vc_library_find(path, sizeof(path)) == 0)
		vc_doctor_good(doctor, "recorder", path);
	else
		vc_doctor_problem(doctor, "recorder", "libvramcore.so not found",
			"unpack or install it beside this program or in ../lib");
}

static void check_driver(struct vc_doctor *doctor)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map;

	if (!library) {
		vc_doctor_note(doctor, "driver", "libcuda.so.1 is not on this system's library path; a program may bring its own");
		return;
	}
	if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
		vc_doctor_good(doctor, "driver", map->l_name);
	dlclose(library);
}

static void check_folder(struct vc_doctor *doctor)
{
	const char *chosen = getenv("VRAMCORE_DIR"), *folder = chosen && *chosen ? chosen : "/dev/shm";
	struct statvfs space;
	char detail[PATH_MAX + 64];
	unsigned long long mebibytes;

	if (access(folder, W_OK | X_OK) != 0 || statvfs(folder, &space) != 0) {
		vc_doctor_problem(doctor, "folder for recordings", folder,
			"it cannot be written to: choose another with --dir");
		return;
	}
	mebibytes = (unsigned long long)space.f_bavail * space.f_frsize >> 20;
	snprintf(detail, sizeof(detail), "%s, %llu MiB free, a recording takes at most an eighth", folder,
		 mebibytes);
	if (mebibytes < 64)
		vc_doctor_problem(doctor, "folder for recordings", detail,
			"that is little: allocations beyond it are counted, not listed");
	else
		vc_doctor_good(doctor, "folder for recordings", detail);
}

static void check_environment(struct vc_doctor *doctor)
{
	const char *preload = getenv("LD_PRELOAD"), *audit = getenv("LD_AUDIT");
	const char *injection = getenv("NVTX_INJECTION64_PATH");

	if (preload && *preload)
		vc_doctor_note(doctor, "LD_PRELOAD is kept behind the recorder", preload);
	if (audit && *audit)
		vc_doctor_note(doctor, "LD_AUDIT is set", audit);
	if (injection && *injection)
		vc_doctor_note(doctor, "NVTX ranges go to another tool, steps by NVTX are not seen", injection);
}

/* ---- the program ---- */

static void check_rights(struct vc_doctor *doctor, const char *path)
{
	struct stat status;

	if (stat(path, &status) == 0 &&
	    (((status.st_mode & S_ISUID) && status.st_uid != geteuid()) ||
	     ((status.st_mode & S_ISGID) && status.st_gid != getegid())))
		vc_doctor_problem(doctor, "set-user-id or set-group-id program", path,
			"the system drops LD_PRELOAD for it: run it as that user");
	if (getxattr(path, "security.capability", NULL, 0) > 0)
		vc_doctor_problem(doctor, "program with file capabilities", path,
			"the system drops LD_PRELOAD for it: run it with the rights it needs");
}

static uint16_t own_machine(void)
{
#if defined(__x86_64__)
	return EM_X86_64;
#else
	return EM_AARCH64;
#endif
}

/* The program interpreter named by an ELF file, "" where it has none (a static program). */
static bool read_interpreter(int descriptor, const Elf64_Ehdr *head, char *ret, size_t size)
{
	ret[0] = 0;
	for (int i = 0; i < head->e_phnum && i < 256; i++) {
		Elf64_Phdr part;
		ssize_t length;

		if (pread(descriptor, &part, sizeof(part),
			  (off_t)(head->e_phoff + (uint64_t)i * head->e_phentsize)) != sizeof(part))
			return false;
		if (part.p_type != PT_INTERP)
			continue;
		length = pread(descriptor, ret, part.p_filesz < size ? part.p_filesz : size - 1,
			       (off_t)part.p_offset);
		ret[length > 0 ? length : 0] = 0;
	}
	return true;
}

static void check_elf(struct vc_doctor *doctor, const char *path, int descriptor)
{
	char interpreter[PATH_MAX];
	Elf64_Ehdr head;

	if (pread(descriptor, &head, sizeof(head), 0) != sizeof(head) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != own_machine() ||
	    !read_interpreter(descriptor, &head, interpreter, sizeof(interpreter))) {
		vc_doctor_problem(doctor, "not a program for this processor", path,
			"it needs a recorder built for its own");
		return;
	}
	if (!interpreter[0])
		vc_doctor_problem(doctor, "statically linked", path,
			"LD_PRELOAD has no effect on it, and it cannot load a driver by the usual way");
	else if (strstr(interpreter, "ld-musl"))
		vc_doctor_problem(doctor, "made for another C library", interpreter,
			"the recorder needs glibc 2.28 or later");
	else
		vc_doctor_good(doctor, "dynamically linked program", path);
}

static void check_program(struct vc_doctor *doctor, const char *name)
{
	char path[PATH_MAX], first[256];

	if (!vc_program_find(name, path)) {
		vc_doctor_problem(doctor, "program", name, "it is not there, or not executable");
		return;
	}
	for (int i = 0; i < INTERPRETERS_MAX; i++) {
		int descriptor = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t length = descriptor < 0 ? -1 : read(descriptor, first, sizeof(first) - 1);
		char *word = first + 2;

		if (length < 4) {
			vc_doctor_problem(doctor, "program", path, "it cannot be read");
			if (descriptor >= 0)
				close(descriptor);
			return;
		}
		first[length] = 0;
		check_rights(doctor, path);
		if (memcmp(first, ELFMAG, SELFMAG) == 0)
			check_elf(doctor, path, descriptor);
		close(descriptor);
		if (first[0] != '#' || first[1] != '!')
			return;
		word += strspn(word, " \t");
		word[strcspn(word, " \t\n")] = 0;
		vc_doctor_note(doctor, "script, run by", word);
		snprintf(path, sizeof(path), "%s", word);
	}
}

int vc_outside_doctor(int argc, char **argv)
{
	static const struct argp description = {
		.options = options,
		.parser = parse,
		.args_doc = "[-- PROGRAM [ARGUMENT...]]",
		.doc = "Says what will and will not be seen on this system, and of PROGRAM, and why. "
		       "Without --run it runs nothing.\vThe exit status is 1 where there is a problem.",
	};
	struct vc_doctor doctor = {0};
	char library[PATH_MAX];
	char name[] = "vramcore doctor";

	argv[0] = name;
	argp_err_exit_status = 64;
	argp_parse(&description, argc, argv, ARGP_IN_ORDER, NULL, &doctor);
	if (doctor.json)
		printf("{\"schema\": \"vramcore.doctor/1\", \"findings\": [");
	else
		printf("this system\n");
	check_library(&doctor);
	check_driver(&doctor);
	check_folder(&doctor);
	check_environment(&doctor);
	if (doctor.program) {
		if (!doctor.json)
			printf("program\n");
		check_program(&doctor, doctor.program[0]);
	}
	if (doctor.run && vc_library_find(library, sizeof(library)) == 0) {
		if (!doctor.json)
			printf("trial run\n");
		vc_doctor_run(&doctor, library);
	}
	if (doctor.json)
		printf("\n], \"problems\": %d}\n", doctor.problems);
	else
		printf("%s\n", doctor.problems ? "some things will not be seen." :
		"nothing stands in the way: allocations of every library of the program will be seen.");
	return doctor.problems ? 1 : 0;
}
