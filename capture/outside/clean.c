/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/outside/json.h"
#include "capture/outside/locate.h"
#include "capture/outside/outside.h"
#include "capture/outside/process.h"
#include "formats/supervisor.h"

struct clean {
	bool dry, json;
	uint64_t removed, bytes, failed;
};

static const struct argp_option options[] = {
	{"dry-run", 'n', NULL, 0, "say what would be removed, remove nothing", 0},
	{"json", 'j', NULL, 0, "print JSON (schema vramcore.clean/1)", 0},
	{"dir", 'd', "DIR", 0, "look into this folder alone (default: $VRAMCORE_DIR and /dev/shm)", 0},
	{0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct clean *clean = state->input;

	if (key == 'n')
		clean->dry = true;
	else if (key == 'j')
		clean->json = true;
	else if (key == 'd')
		vc_locate_only(argument);
	else if (key == ARGP_KEY_ARG)
		argp_usage(state);
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

static void remove_walks(const char *path)
{
	char folder[PATH_MAX];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (!slash)
		return;
	*slash = '\0';
	vc_locate_remove_walks(*folder ? folder : "/", slash + 1);
}

static int remove_dead(void *self, const struct vc_located *found)
{
	struct clean *clean = self;

	if (strcmp(found->state, "dead") != 0)
		return 0;
	if (!clean->json)
		printf("%s  pid %" PRIu64 "  %s\n", found->path, found->summary->pid,
		       found->summary->program);
	if (!clean->dry && unlink(found->path) != 0) {
		perror("vramcore: cannot remove it");
		clean->failed++;
		return 0;
	}
	if (!clean->dry)
		remove_walks(found->path);
	if (clean->json) {
		printf("%s\n  {\"pid\": %" PRIu64 ", \"recording\": ", clean->removed ? "," : "",
		       found->summary->pid);
		vc_json_text(found->path);
		printf(", \"bytes\": %" PRIu64 "}", found->summary->file_bytes);
	}
	clean->removed++;
	clean->bytes += found->summary->file_bytes;
	return 0;
}

/* A folder named vramcore-run-PID-RANDOM whose supervisor is gone, with no recording left in it. */
static int remove_folder(void *self, const char *path)
{
	static const char *const leftovers[] = {VC_SUPERVISOR_SOCKET, VC_SUPERVISOR_PROCESSES,
						"libvramcore.so"};
	struct clean *clean = self;
	const char *number = strstr(path, VC_RUN_FOLDER_PREFIX);
	struct vc_process process;
	DIR *directory;
	struct dirent *entry;
	bool recordings = false;

	if (clean->dry || !number ||
	    vc_process_read(strtoull(number + strlen(VC_RUN_FOLDER_PREFIX), NULL, 10), &process))
		return 0;
	directory = opendir(path);
	while (directory && (entry = readdir(directory)))
		recordings |= strstr(entry->d_name, VC_RECORDING_SUFFIX) != NULL;
	if (directory)
		closedir(directory);
	for (size_t i = 0; !recordings && i < sizeof(leftovers) / sizeof(leftovers[0]); i++) {
		char file[PATH_MAX];

		if (snprintf(file, sizeof(file), "%s/%s", path, leftovers[i]) < (int)sizeof(file))
			unlink(file);
	}
	if (!recordings)
		rmdir(path);
	return 0;
}

int vc_outside_clean(int argc, char **argv)
{
	static const struct argp description = {
		.options = options,
		.parser = parse,
		.doc = "Removes recordings of processes that are dead, and folders of supervisors that "
		       "are gone. Recordings of running processes, and those of other systems, stay.",
	};
	struct clean clean = {0};
	char name[] = "vramcore clean";

	argv[0] = name;
	argp_err_exit_status = 64;
	argp_parse(&description, argc, argv, 0, NULL, &clean);
	if (clean.json)
		printf("{\"schema\": \"vramcore.clean/1\", \"dry_run\": %s, \"recordings\": [",
		       clean.dry ? "true" : "false");
	vc_locate_all(remove_dead, &clean);
	vc_locate_run_folders(remove_folder, &clean);
	if (clean.json) {
		printf("%s], \"failed\": %" PRIu64 "}\n", clean.removed ? "\n" : "", clean.failed);
		return clean.failed ? 1 : 0;
	}
	printf("%" PRIu64 " recording%s %s, %" PRIu64 " bytes\n", clean.removed,
	       clean.removed == 1 ? "" : "s", clean.dry ? "would be removed" : "removed",
	       clean.bytes);
	return clean.failed ? 1 : 0;
}
