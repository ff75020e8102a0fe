/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/facts.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>

#include "capture/inside/settings.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"
#include "capture/inside/text.h"

#define AT_CWD (-100)
#define VALUE_MAX 4096u

extern char **environ;

/* One thread at a time begins a recording, so that one buffer does. */
static char scratch[VALUE_MAX];

static size_t read_file(const char *path, char *buffer, size_t size)
{
	int descriptor = vc_sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	size_t length = 0;

	buffer[0] = '\0';
	if (descriptor < 0)
		return 0;
	while (length < size - 1) {
		long got = vc_sys_read(descriptor, buffer + length, size - 1 - length);

		if (got <= 0)
			break;
		length += (size_t)got;
	}
	vc_sys_close(descriptor);
	buffer[length] = '\0';
	return length;
}

/* ---- the name of the file ---- */

/* Field 22 of /proc/self/stat; the second field is in parentheses and may hold anything. */
static uint64_t start_ticks(void)
{
	uint64_t ticks = 0;
	const char *at;

	read_file("/proc/self/stat", scratch, sizeof(scratch));
	at = strrchr(scratch, ')');
	if (!at)
		return 0;
	for (int field = 2; field < 22 && *at; at++)
		if (*at == ' ')
			field++;
	vc_parse_number(at, &at, &ticks);
	return ticks;
}

void vc_facts_name(char *buffer, size_t size)
{
	struct vc_text text = vc_text_in(buffer, size);
	uint32_t random = 0;
	struct timespec now;
	char boot[40];

	vc_text_add(&text, "vramcore-");
	read_file("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	boot[8] = '\0';
	vc_text_add(&text, boot[0] ? boot : "00000000");
	vc_text_character(&text, '-');
	vc_text_number(&text, (uint64_t)vc_sys_getpid());
	vc_text_character(&text, '-');
	vc_text_number(&text, start_ticks());
	vc_text_character(&text, '-');
	if (vc_syscall(SYS_getrandom, (long)&random, sizeof(random), 1 /* do not wait */, 0, 0,
		       0) != sizeof(random)) {
		vc_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
		random = (uint32_t)now.tv_nsec;
	}
	vc_text_hexadecimal(&text, random, 8);
	vc_text_add(&text, ".vrec");
}

/* ---- the environment ---- */

/*
 * The host may change its environment on another thread: its memory is read through the kernel,
 * which answers with an error where a plain load would fault.
 */
/* Copies a string, page by page; false where it is not readable or too long. */
static bool peek_text(const char *from, char *to, size_t size)
{
	size_t length = 0;

	while (length < size) {
		size_t piece = 4096 - ((uintptr_t)(from + length) & 4095);

		if (piece > size - length)
			piece = size - length;
		if (!vc_sys_peek((uint64_t)(uintptr_t)(from + length), to + length, piece))
			return false;
		if (memchr(to + length, '\0', piece))
			return true;
		length += piece;
	}
	return false;
}

static const char *const rank_names[] = {
#define VC_RANK_NAME(rank, world) rank,
#include "formats/rank_names.def"
#undef VC_RANK_NAME
};
static const char *const world_names[] = {
#define VC_RANK_NAME(rank, world) world,
#include "formats/rank_names.def"
#undef VC_RANK_NAME
};
static const char *const job_names[] = {"SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID"};
static const char *const other_names[] = {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
					  "SLURM_LOCALID", "SLURM_NODEID",
					  "OMPI_COMM_WORLD_LOCAL_RANK"};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool among(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool allowed(const char *name)
{
	static const char suffix[] = "ALLOC_CONF";
	size_t length = strlen(name);

	if (!strncmp(name, "CUDA_", 5) || !strncmp(name, "NCCL_", 5))
		return true;
	if (!strncmp(name, "PYTORCH_", 8) && length >= sizeof(suffix) - 1 &&
	    !strcmp(name + length - (sizeof(suffix) - 1), suffix))
		return true;
	if (!strcmp(name, "PYTORCH_NO_CUDA_MEMORY_CACHING"))
		return true;
	return among(name, rank_names, COUNT(rank_names)) ||
	       among(name, world_names, COUNT(world_names)) ||
	       among(name, job_names, COUNT(job_names)) ||
	       among(name, other_names, COUNT(other_names));
}

static bool contains(const char *name, const char *word)
{
	for (; *name; name++) {
		size_t i = 0;

		while (word[i] && (name[i] == word[i] || (name[i] | 32) == word[i]))
			i++;
		if (!word[i])
			return true;
	}
	return false;
}

static bool secret(const char *name)
{
	return contains(name, "token") || contains(name, "key") || contains(name, "secret") ||
	       contains(name, "password");
}

/* Calls `visit` with every variable of the host as it is now. */
static void each_variable(void (*visit)(const char *name, const char *value, void *argument),
			  void *argument)
{
	char *const *list = environ;
	char *entry;

	for (; list && vc_sys_peek((uint64_t)(uintptr_t)list, &entry, sizeof(entry)) && entry; list++) {
		char *equals;

		if (!peek_text(entry, scratch, sizeof(scratch)))
			continue;
		equals = strchr(scratch, '=');
		if (!equals)
			continue;
		*equals = '\0';
		visit(scratch, equals + 1, argument);
	}
}

struct ranks {
	uint64_t value[2][4]; /* plus 1 */
};

static void keep_rank(const char *name, const char *value, void *argument)
{
	struct ranks *ranks = argument;
	const char *end;
	uint64_t number;

	for (size_t i = 0; i < 4; i++)
		for (int which = 0; which < 2; which++)
			if (!strcmp(name, which ? world_names[i] : rank_names[i]) &&
			    vc_parse_number(value, &end, &number) && !*end && number < UINT32_MAX)
				ranks->value[which][i] = number + 1;
}

void vc_facts_rank(uint32_t *ret_rank_plus_one, uint32_t *ret_world_size)
{
	struct ranks ranks = {{{0}}};

	each_variable(keep_rank, &ranks);
	*ret_rank_plus_one = *ret_world_size = 0;
	for (size_t i = 4; i-- > 0;) { /* the first of the list wins */
		if (ranks.value[0][i])
			*ret_rank_plus_one = (uint32_t)ranks.value[0][i];
		if (ranks.value[1][i])
			*ret_world_size = (uint32_t)(ranks.value[1][i] - 1);
	}
}

static void keep_variable(const char *name, const char *value, void *argument)
{
	struct vc_root *root = argument;

	if (!allowed(name))
		return;
	vc_store_environment_add(name, secret(name) ? "***" : value);
	if (among(name, job_names, COUNT(job_names)) && !root->job)
		__atomic_store_n(&root->job, vc_word(vc_store_string(value, strlen(value))),
				 __ATOMIC_RELEASE);
}

/* ---- the process ---- */

static void keep(uint64_t *word, const char *text, size_t length)
{
	uint32_t id = length ? vc_store_string(text, length) : 0;

	__atomic_store_n(word, vc_word(id), __ATOMIC_RELEASE);
}

void vc_facts_write(void)
{
	struct vc_root *root = vc_store_root();
	struct utsname names;
	size_t length;
	long got;

	got = vc_syscall(SYS_readlinkat, AT_CWD, (long)"/proc/self/exe", (long)scratch,
			 sizeof(scratch), 0, 0);
	if (got > 0)
		keep(&root->program, scratch, (size_t)got);
	length = read_file("/proc/self/cmdline", scratch, sizeof(scratch));
	while (length && !scratch[length - 1])
		length--;
	for (size_t i = 0; i < length; i++)
		if (!scratch[i])
			scratch[i] = ' ';
	keep(&root->command, scratch, length);
	if (vc_syscall(SYS_uname, (long)&names, 0, 0, 0, 0, 0) == 0)
		keep(&root->host, names.nodename, strlen(names.nodename));
	keep(&root->recorder_version, VRAMCORE_VERSION, strlen(VRAMCORE_VERSION));
	each_variable(keep_variable, root);
}
