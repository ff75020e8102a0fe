/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/unrecorded.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX 12u

/* Names seen, each once, in the order in which they came. */
struct names {
	char name[LIST_MAX][64];
	unsigned int count, more;
};

static void keep(struct names *names, const char *name)
{
	for (unsigned int i = 0; i < names->count; i++)
		if (!strncmp(names->name[i], name, sizeof(names->name[i]) - 1))
			return;
	if (names->count == LIST_MAX)
		names->more++;
	else
		snprintf(names->name[names->count++], sizeof(names->name[0]), "%.63s", name);
}

static void print_names(const struct names *names, const char *what, FILE *to)
{
	if (!names->count)
		return;
	fprintf(to, "  %s:", what);
	for (unsigned int i = 0; i < names->count; i++)
		fprintf(to, "%s %s", i ? "," : "", names->name[i]);
	if (names->more)
		fprintf(to, ", and %u more", names->more);
	fputc('\n', to);
}

/* Libraries that say what the program does with a device. */
static bool telling(const char *base)
{
	static const char *const starts[] = {"libcuda.", "libcudart", "libnccl", "libcublas", "libcudnn",
					     "libc10", "libtorch", "libtensorflow", "libjax",
					     "libonnxruntime", "libnvidia", "libpython"};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (!strncmp(base, starts[i], strlen(starts[i])))
			return true;
	return false;
}

static void print_libraries(uint64_t pid, FILE *to)
{
	struct names names = {0};
	char path[64], *line = NULL;
	size_t size = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/maps", pid);
	maps = fopen(path, "re");
	if (!maps) {
		fprintf(to, "  its map: %s (another user's process: run this as that user or as root)\n",
			strerror(errno));
		return;
	}
	while (getline(&line, &size, maps) > 0) {
		char *base = strrchr(line, '/');

		line[strcspn(line, "\n")] = 0;
		if (base && telling(base + 1))
			keep(&names, base + 1);
	}
	free(line);
	fclose(maps);
	if (names.count)
		print_names(&names, "libraries", to);
	else
		fprintf(to, "  no library of CUDA or of a framework is mapped: it may not use a device\n");
}

static void print_driver_files(uint64_t pid, FILE *to)
{
	struct names names = {0};
	struct dirent *entry;
	char folder[64];
	DIR *list;

	snprintf(folder, sizeof(folder), "/proc/%" PRIu64 "/fd", pid);
	list = opendir(folder);
	while (list && (entry = readdir(list))) {
		char path[384], target[256];
		ssize_t length;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		if (length <= 0)
			continue;
		target[length] = 0;
		if (!strncmp(target, "/dev/nvidia", 11) || !strncmp(target, "/dev/dxg", 8))
			keep(&names, target);
	}
	if (list)
		closedir(list);
	print_names(&names, "driver files open", to);
}

static void print_memory(uint64_t pid, FILE *to)
{
	char path[64], line[256];
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/status", pid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status)) {
		unsigned long long kilobytes;

		if (sscanf(line, "VmRSS: %llu", &kilobytes) == 1)
			fprintf(to, "  memory on the host: %.1f MiB\n", (double)kilobytes / 1024);
	}
	if (status)
		fclose(status);
}

/* Counts of threads by the letter of /proc/PID/task/TID/stat. */
static void print_threads(uint64_t pid, FILE *to)
{
	unsigned int running = 0, sleeping = 0, stuck = 0, stopped = 0;
	struct dirent *entry;
	char folder[64];
	DIR *list;

	snprintf(folder, sizeof(folder), "/proc/%" PRIu64 "/task", pid);
	list = opendir(folder);
	while (list && (entry = readdir(list))) {
		char path[384], text[512], *at;
		FILE *stat;

		snprintf(path, sizeof(path), "%s/%s/stat", folder, entry->d_name);
		stat = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!stat)
			continue;
		at = fgets(text, sizeof(text), stat) ? strrchr(text, ')') : NULL;
		fclose(stat);
		if (!at || !at[1] || !at[2])
			continue;
		running += at[2] == 'R';
		sleeping += at[2] == 'S';
		stuck += at[2] == 'D';
		stopped += at[2] == 'T' || at[2] == 't';
	}
	if (list)
		closedir(list);
	fprintf(to, "  threads: %u running, %u waiting, %u in an uninterruptible wait, %u stopped\n", running,
		sleeping, stuck, stopped);
}

void vc_unrecorded(uint64_t pid, FILE *to)
{
	fprintf(to, "what can still be had of %" PRIu64 ":\n", pid);
	print_libraries(pid, to);
	print_driver_files(pid, to);
	print_memory(pid, to);
	print_threads(pid, to);
	fprintf(to, "  where its threads are: vramcore hang %" PRIu64 "\n", pid);
	fprintf(to, "  bytes of the device in use: nvidia-smi --query-compute-apps=pid,used_memory "
		    "--format=csv\n");
	fprintf(to, "  next time: vramcore run --at-exit -- PROGRAM, or the variables that "
		    "vramcore run --print-env prints\n");
}
