/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static pid_t folder_owner;

static void folder_remove(void)
{
	struct dirent *entry;
	char path[512];
	DIR *dir;

	if (getpid() != folder_owner)
		return;
	dir = opendir(folder);
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	rmdir(folder);
}

const char *fixture_folder(void)
{
	if (!folder[0]) {
		strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/test-store-XXXXXX"
							     : "/tmp/test-store-XXXXXX");
		if (!mkdtemp(folder))
			abort();
		folder_owner = getpid();
		atexit(folder_remove);
	}
	return folder;
}

int fixture_start_in(const char *where, uint64_t budget)
{
	static unsigned number;
	struct vc_store_options options = {.directory = where, .budget = budget};
	char name[64];

	vc_store_forget();
	snprintf(name, sizeof(name), "%d-%u.vrec", (int)getpid(), number++);
	options.name = name;
	return vc_store_start(&options, NULL);
}

const char *fixture_start(uint64_t budget)
{
	assert_int_equal(fixture_start_in(fixture_folder(), budget), 0);
	return vc_store_path();
}

struct vc_birth fixture_birth(uint64_t address, uint64_t size)
{
	struct vc_birth birth = {
		.address = address,
		.size = size,
		.requested = size,
		.device_plus_one = 1,
		.kind = VC_KIND_LINEAR,
	};

	return birth;
}

uint32_t fixture_allocate(uint64_t address, uint64_t size)
{
	struct vc_birth birth = fixture_birth(address, size);
	uint32_t record = vc_store_begin(&birth);

	vc_store_commit(record, &birth);
	return record;
}

bool fixture_free(uint64_t address)
{
	static const struct vc_death death;
	struct vc_claim claim;

	if (!vc_store_claim(address, LINEAR, &claim))
		return false;
	vc_store_free_commit(&claim, &death);
	return true;
}

void fixture_read(struct mini *ret)
{
	if (!mini_read(vc_store_path(), ret) || !mini_units(ret))
		fail_msg("%s", ret->bad);
}
