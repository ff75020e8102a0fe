/* SPDX-License-Identifier: Apache-2.0 */
/* Meaning of every function of the store, on one thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/inside/thread.h"
#include "formats/error.h"
#include "tests/unit/store/fixture.h"

static void test_file(void **state)
{
	const char *path = fixture_start(64 * MIB);
	struct vc_store_options options = {.directory = fixture_folder(), .budget = MIB};
	struct stat facts;
	struct mini mini;
	char name[256];

	(void)state;
	assert_true(vc_store_ready());
	assert_int_equal(stat(path, &facts), 0);
	assert_int_equal(facts.st_mode & 07777, 0600);
	assert_true(facts.st_size <= (off_t)MIB);
	/* storage, not a hole */
	assert_true(facts.st_blocks * 512 >= facts.st_size);
	fixture_read(&mini);
	assert_int_equal(mini.root->fixed.pid, getpid());
	assert_int_equal(mini.root->fixed.parent_pid, getppid());
	assert_int_equal(mini.root->fixed.self_address, (uintptr_t)vc_store_root());
	assert_int_equal(mini.length, mini.root->file_bytes / 17);
	assert_true(mini.root->fixed.start_ticks > 0);
	assert_true(mini.root->fixed.pid_namespace > 0);
	assert_int_equal(mini.sites, 1);
	mini_close(&mini);
	/* a name that exists, also one that is a link, is never opened */
	strcpy(name, strrchr(path, '/') + 1);
	options.name = name;
	vc_store_forget();
	assert_false(vc_store_ready());
	assert_int_equal(vc_store_start(&options, NULL), VC_E_EXISTS);
	options.name = "link";
	strcpy(name, fixture_folder());
	strcat(name, "/link");
	assert_int_equal(symlink("elsewhere", name), 0);
	assert_int_equal(vc_store_start(&options, NULL), VC_E_EXISTS);
	options.directory = "/nonexistent";
	assert_int_equal(vc_store_start(&options, NULL), VC_E_NOT_FOUND);
	assert_null(vc_store_root());
	assert_string_equal(vc_store_path(), "");
}

static void test_umask(void **state)
{
	mode_t before = umask(0777);
	struct stat facts;

	(void)state;
	fixture_start(16 * MIB);
	umask(before);
	assert_int_equal(stat(vc_store_path(), &facts), 0);
	assert_int_equal(facts.st_mode & 07777, 0600);
}

static void test_memory_file(void **state)
{
	struct vc_store_options options = {.name = "x", .budget = 16 * MIB};
	int descriptor = -1;
	struct mini mini;

	(void)state;
	vc_store_forget();
	assert_int_equal(vc_store_start(&options, &descriptor), 0);
	assert_true(descriptor >= 0);
	assert_int_equal(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_string_equal(vc_store_path(), "");
	for (uint64_t i = 0; i < 5000; i++)
		assert_true(fixture_allocate(0x1000 * (i + 1), 1) != VC_NO_RECORD);
	assert_true(mini_read_descriptor(descriptor, &mini));
	assert_int_equal(mini.live, 5000);
	mini_close(&mini);
	close(descriptor);
}

static void test_life(void **state)
{
	struct vc_birth birth = fixture_birth(0x7f0000001000, 4096);
	struct vc_death death = {.stack = 7, .thread = 12, .step = 3, .call_name = 9};
	struct vc_claim claim, other;
	const struct vc_record *record;
	const struct vc_freed *freed;
	uint64_t number;
	struct mini mini;
	uint32_t slot;

	(void)state;
	fixture_start(64 * MIB);
	birth.requested = 4000;
	birth.parent = 77;
	birth.stream = 0x1234;
	birth.context = 0x5678;
	birth.step = 42;
	birth.offset = 1;
	birth.pool = 2;
	birth.module = 3;
	birth.phase = 4;
	birth.thread = 5;
	birth.label = 6;
	birth.call = 8;
	birth.flags = VC_FLAG_CAPTURED;
	birth.references = 10;
	slot = vc_store_begin(&birth);
	assert_int_not_equal(slot, VC_NO_RECORD);
	assert_false(vc_store_find(birth.address, LINEAR, &claim));
	fixture_read(&mini);
	assert_int_equal(mini.filling, 1);
	assert_int_equal(mini.torn, 0);
	mini_close(&mini);

	number = vc_store_commit(slot, &birth);
	assert_int_equal(number, 1);
	fixture_read(&mini);
	assert_int_equal(mini.live, 1);
	assert_int_equal(mini.filling, 0);
	record = mini_item(&mini, VC_REC_RECORDS, slot, 160);
	assert_int_equal(record->state, 17 * (1 * 4 + 2));
	assert_int_equal(record->address, 0x7f0000001000);
	assert_int_equal(record->size, 4096);
	assert_int_equal(record->requested, 4000);
	assert_int_equal(record->parent, 77);
	assert_int_equal(record->stream, 0x1234);
	assert_int_equal(record->context, 0x5678);
	assert_int_equal(record->step, 42);
	assert_int_equal(record->offset, 1);
	assert_int_equal(record->pool, 2);
	assert_int_equal(record->module, 3);
	assert_int_equal(record->phase, 4);
	assert_int_equal(record->thread, 5);
	assert_int_equal(record->label, 6);
	assert_int_equal(record->call, 8);
	assert_int_equal(record->flags, VC_FLAG_CAPTURED);
	assert_int_equal(record->references, 170);
	assert_int_equal(record->device_plus_one, 1);
	assert_int_equal(record->site, 1);
	mini_close(&mini);
	assert_int_equal(vc_store_device_live(0), 4096);

	/* the kind is part of what is looked for */
	assert_false(vc_store_find(birth.address, VC_KINDS(VC_KIND_BLOCK), &claim));
	assert_false(vc_store_find(birth.address + 1, LINEAR, &claim));
	assert_true(vc_store_find_containing(birth.address + 4095, LINEAR, &claim));
	assert_false(vc_store_find_containing(birth.address + 4096, LINEAR, &claim));
	assert_true(vc_store_find(birth.address, LINEAR | VC_KINDS(VC_KIND_BLOCK), &claim));
	assert_int_equal(claim.birth, 1);

	/* one claim only; the refused free brings it back */
	assert_true(vc_store_claim(birth.address, LINEAR, &claim));
	assert_false(vc_store_claim(birth.address, LINEAR, &other));
	other = claim;
	assert_false(vc_store_claim_found(&other));
	fixture_read(&mini);
	assert_int_equal(mini.freeing, 1);
	record = mini_item(&mini, VC_REC_RECORDS, slot, 160);
	assert_int_equal(record->death, 17 * 2);
	mini_close(&mini);
	vc_store_free_undo(&claim);
	assert_true(vc_store_claim(birth.address, LINEAR, &claim));
	assert_int_equal(claim.copy.size, 4096);
	vc_store_free_commit(&claim, &death);
	assert_false(vc_store_find(birth.address, LINEAR, &claim));
	assert_int_equal(vc_store_device_live(0), 0);

	fixture_read(&mini);
	assert_int_equal(mini.live + mini.freeing + mini.filling, 0);
	assert_int_equal(mini.freed, 1);
	freed = mini_item(&mini, VC_REC_FREED, 0, 224);
	assert_int_equal(freed->sequence, 17 * 2);
	assert_int_equal(freed->birth, 1);
	assert_int_equal(freed->death, 3);
	assert_int_equal(freed->death_stack, 7);
	assert_int_equal(freed->death_thread, 12);
	assert_int_equal(freed->death_step, 3);
	assert_int_equal(freed->death_call_name, 9);
	assert_int_equal(freed->record.address, 0x7f0000001000);
	assert_int_equal(freed->record.label, 6);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_ALLOCATIONS_SEEN), 1);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_FREES_SEEN), 1);
	mini_close(&mini);
}

static void test_abandon(void **state)
{
	struct vc_birth birth = fixture_birth(0x1000, 1);
	uint32_t first, second;
	struct mini mini;

	(void)state;
	fixture_start(64 * MIB);
	first = vc_store_begin(&birth);
	vc_store_abandon(first);
	vc_store_abandon(VC_NO_RECORD);
	fixture_read(&mini);
	assert_int_equal(mini.filling, 0);
	assert_int_equal(mini.root->clock, 17 * 2);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_CALLS_FAILED), 2);
	assert_int_equal(mini.allocated_count, 0);
	mini_close(&mini);
	second = vc_store_begin(&birth);
	assert_int_equal(first, second);
}

/*
 * A new record at the address of one that is still being freed: both stand, the new one is found.
 */
static void test_side_by_side(void **state)
{
	static const struct vc_death death;
	struct vc_claim old, new;
	struct mini mini;

	(void)state;
	fixture_start(64 * MIB);
	fixture_allocate(0x2000, 10);
	assert_true(vc_store_claim(0x2000, LINEAR, &old));
	fixture_allocate(0x2000, 20);
	fixture_read(&mini);
	assert_int_equal(mini.freeing, 1);
	assert_int_equal(mini.live, 1);
	mini_close(&mini);
	vc_store_free_commit(&old, &death);
	assert_true(vc_store_claim(0x2000, LINEAR, &new));
	assert_int_equal(new.copy.size, 20);
	assert_true(new.birth > old.copy.death / 17);
	vc_store_free_undo(&new);
	/* two live at one address (a free was not seen): the newer one */
	fixture_allocate(0x2000, 30);
	assert_true(vc_store_find(0x2000, LINEAR, &new));
	assert_int_equal(new.copy.size, 30);
}

static bool count_visit(const struct vc_claim *claim, void *argument)
{
	uint64_t *count = argument;

	assert_int_equal(claim->copy.size, 8);
	(*count)++;
	return *count < 50;
}

static void test_visit_and_references(void **state)
{
	struct vc_birth birth = fixture_birth(0x9000, 8);
	uint64_t count = 0;

	(void)state;
	fixture_start(64 * MIB);
	for (uint64_t i = 1; i <= 30; i++)
		fixture_allocate(i << 20, 8);
	vc_store_visit(count_visit, &count);
	assert_int_equal(count, 30);
	for (uint64_t i = 31; i <= 80; i++)
		fixture_allocate(i << 20, 8);
	count = 0;
	vc_store_visit(count_visit, &count);
	assert_int_equal(count, 50);

	birth.references = 1;
	vc_store_commit(vc_store_begin(&birth), &birth);
	assert_int_equal(vc_store_reference(0x9000, LINEAR, 1), 2);
	assert_int_equal(vc_store_reference(0x9000, LINEAR, -1), 1);
	assert_int_equal(vc_store_reference(0x9000, LINEAR, -1), 0);
	assert_int_equal(vc_store_reference(0x9000, LINEAR, -1), 0);
	assert_int_equal(vc_store_reference(0x9000, LINEAR, 2), 2);
	assert_int_equal(vc_store_reference(0x9999, LINEAR, 1), 0);
}

static void test_strings(void **state)
{
	uint32_t id[3000];
	struct mini mini;
	char text[64];

	(void)state;
	fixture_start(64 * MIB);
	assert_int_equal(vc_store_string("", 0), 0);
	assert_string_equal(vc_store_text(0), "");
	for (unsigned i = 0; i < 3000; i++) {
		/* lengths 1 to 40: around every multiple of 8 */
		memset(text, 'a', sizeof(text));
		snprintf(text + 1 + i % 31, 32, "%u", i);
		id[i] = vc_store_string(text, strlen(text));
		assert_int_not_equal(id[i], 0);
	}
	for (unsigned i = 0; i < 3000; i++) {
		memset(text, 'a', sizeof(text));
		snprintf(text + 1 + i % 31, 32, "%u", i);
		assert_int_equal(vc_store_string(text, strlen(text)), id[i]);
		assert_string_equal(vc_store_text(id[i]), text);
	}
	fixture_read(&mini);
	assert_int_equal(mini.strings, 3000);
	assert_string_equal(mini_text(&mini, id[7]), vc_store_text(id[7]));
	mini_close(&mini);
}

static void test_stacks(void **state)
{
	const struct vc_stack_head *head;
	uint64_t frames[500];
	struct mini mini;
	uint32_t id, same_hash;

	(void)state;
	fixture_start(64 * MIB);
	for (unsigned i = 0; i < 500; i++)
		frames[i] = vc_frame(i % 3, 0x1000 + i);
	assert_int_equal(vc_store_stack_known(0xabcdef, 43), 0);
	id = vc_store_stack_add(0xabcdef, frames, 43, VC_STACK_COMPLETE);
	assert_int_not_equal(id, 0);
	assert_int_equal(vc_store_stack_known(0xabcdef, 43), id);
	assert_int_equal(vc_store_stack_known(0xabcdef, 44), 0);
	assert_int_equal(vc_store_stack_add(0xabcdef, frames, 43, VC_STACK_COMPLETE), id);
	/* same hash, other frames: compared, kept apart */
	same_hash = vc_store_stack_add(0xabcdef, frames + 1, 43, VC_STACK_COMPLETE);
	assert_int_not_equal(same_hash, id);
	assert_int_equal(vc_store_stack_add(0xabcdef, frames + 1, 43, VC_STACK_COMPLETE),
			 same_hash);
	for (unsigned i = 0; i < 2000; i++)
		assert_int_not_equal(
			vc_store_stack_add(i * 0x9e3779b97f4a7c15u + 1, frames, 1 + i % 500,
					   VC_STACK_LIMIT), 0);
	fixture_read(&mini);
	assert_int_equal(mini.stacks, 2002);
	head = mini_item(&mini, VC_REC_STACKS, id, 8);
	assert_int_equal(head->hash, 0xabcdef);
	assert_int_equal(head->count, 43);
	assert_memory_equal(head + 1, frames, 43 * 8);
	mini_close(&mini);
}

static void test_rows(void **state)
{
	static const uint8_t build_id[20] = {1, 2, 3, 4};
	struct vc_device_facts facts = {
		.uuid = {9, 8, 7}, .name = "GPU", .pci = "0000:65:00.0", .driver_version = 13000,
		.total = 80 << 20,
	};
	const struct vc_module_row *module;
	const struct vc_environment_row *variable;
	const struct vc_thread_row *thread;
	struct mini mini;

	(void)state;
	fixture_start(64 * MIB);
	assert_int_equal(vc_store_module_add("/lib/a.so", 0x1000, 0x2000, 0x3000, build_id, 20), 0);
	assert_int_equal(vc_store_module_add("/lib/b.so", 0, 1, 2, NULL, 0), 1);
	vc_store_thread_add(4711, "worker");
	vc_store_environment_add("CUDA_VISIBLE_DEVICES", "0");
	vc_store_device_add(2, &facts);
	facts.total = 1;
	vc_store_device_add(2, &facts);
	fixture_read(&mini);
	assert_int_equal(mini.modules, 2);
	module = mini_item(&mini, VC_REC_MODULES, 0, 72);
	assert_string_equal(mini_text(&mini, module->path), "/lib/a.so");
	assert_int_equal(module->bias, 0x1000);
	assert_int_equal(module->high, 0x3000);
	assert_int_equal(module->build_id_bytes, 20);
	assert_memory_equal(module->build_id, build_id, 20);
	thread = mini_item(&mini, VC_REC_THREADS, 0, 16);
	assert_int_equal(thread->thread, 4711);
	assert_string_equal(mini_text(&mini, thread->name), "worker");
	variable = mini_item(&mini, VC_REC_ENVIRONMENT, 0, 16);
	assert_string_equal(mini_text(&mini, variable->name), "CUDA_VISIBLE_DEVICES");
	assert_string_equal(mini_text(&mini, variable->value), "0");
	assert_true(mini.root->device[2].check);
	assert_int_equal(mini.root->device[2].total, 80 << 20);
	assert_string_equal(mini_text(&mini, mini.root->device[2].pci), "0000:65:00.0");
	assert_int_equal(mini.root->device[0].check, 0);
	mini_close(&mini);
}

/*
 * Peak by hand: 100 at A, 50 at B (peak 150), A freed, 20 at C: live 70, peak stays 150 = 100 +
 * 50.
 */
static void test_sites(void **state)
{
	struct vc_birth a = fixture_birth(0x10, 100), b = fixture_birth(0x20, 50);
	struct vc_birth c = fixture_birth(0x30, 20), block = fixture_birth(0x20, 40);
	const struct vc_site *site[5];
	const struct vc_device *device;
	struct mini mini;

	(void)state;
	fixture_start(64 * MIB);
	a.stack = 1;
	b.stack = 2;
	block.stack = 3;
	c.stack = 4;
	block.kind = VC_KIND_BLOCK;
	vc_store_commit(vc_store_begin(&a), &a);
	vc_store_commit(vc_store_begin(&b), &b);
	vc_store_commit(vc_store_begin(&block), &block);
	assert_true(fixture_free(0x10));
	vc_store_commit(vc_store_begin(&c), &c);
	assert_int_equal(vc_store_device_live(0), 70);
	fixture_read(&mini);
	assert_int_equal(mini.sites, 5);
	device = &mini.root->device[0];
	assert_int_equal(device->live, 17 * 70);
	assert_int_equal(device->peak, 17 * 150);
	for (unsigned i = 0; i < 5; i++) {
		site[i] = mini_item(&mini, VC_REC_SITES, i, 72);
		assert_int_equal(site[i]->stack, i);
	}
	assert_int_equal(site[1]->allocated_bytes, 17 * 100);
	assert_int_equal(site[1]->freed_bytes, 17 * 100);
	assert_int_equal(site[1]->peak_epoch, device->peak_epoch);
	assert_int_equal(site[1]->peak_bytes, 17 * 100);
	/* B has not changed since the epoch began: what lives is what counts */
	assert_true(site[2]->peak_epoch < device->peak_epoch);
	assert_int_equal(site[2]->allocated_bytes, 17 * 50);
	assert_int_equal(site[3]->kind, VC_KIND_BLOCK);
	assert_int_equal(site[4]->peak_epoch, device->peak_epoch);
	assert_int_equal(site[4]->peak_bytes, 0);
	mini_close(&mini);
}

static void test_sites_other(void **state)
{
	struct vc_birth birth = fixture_birth(0x10, 1);
	const struct vc_site *other;
	struct mini mini;

	(void)state;
	fixture_start(256 * MIB);
	for (uint32_t i = 1; i <= 66000; i++) {
		birth.stack = i;
		vc_store_commit(VC_NO_RECORD, &birth);
	}
	fixture_read(&mini);
	assert_int_equal(mini.sites, 65536);
	other = mini_item(&mini, VC_REC_SITES, 0, 72);
	assert_int_equal(other->allocated_count, 17 * (66000 - 65535));
	assert_int_equal(mini_counter(&mini, VC_COUNTER_SITES_OTHER), 66000 - 65535);
	assert_int_equal(mini.allocated_count, 66000);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_RECORDS_LOST), 66000);
	assert_int_equal(vc_store_device_live(0), 66000);
	mini_close(&mini);
}

static void test_moments_and_failures(void **state)
{
	struct vc_moment moment = {.trigger = "step", .moment = "now", .step = 5};
	struct vc_failure failure = {.requested = 1 << 30, .device_plus_one = 1, .result = 2};
	const struct vc_failure_row *row;
	const struct vc_moment_row *kept;
	uint64_t last = UINT64_MAX;
	struct mini mini;

	(void)state;
	fixture_start(64 * MIB);
	moment.memory = (struct vc_device_memory){33, 34, 35, 36, 37, 2};
	for (uint32_t i = 1; i <= 100; i++) {
		struct vc_birth birth = fixture_birth(0x100 * i, i);

		birth.stack = i;
		birth.device_plus_one = i % 10 ? 1 : 2;
		vc_store_commit(vc_store_begin(&birth), &birth);
	}
	assert_true(fixture_free(0x100 * 99));
	assert_int_equal(vc_store_moment(&moment), 0);
	assert_int_equal(vc_store_moment(&moment), 1);
	assert_int_equal(vc_store_failure(&failure), 0);
	vc_store_failure_outcome(0, VC_FAILURE_RETRIED);
	fixture_read(&mini);
	assert_int_equal(mini.moments, 2);
	kept = mini_item(&mini, VC_REC_MOMENTS, 0, 128);
	assert_int_equal(kept->number, 101);
	assert_int_equal(kept->freed_next, 1);
	assert_int_equal(kept->step, 5);
	assert_int_equal(kept->device_free[1], 33);
	assert_int_equal(kept->device_free[0], 0);
	assert_int_equal(kept->graph_used, 34);
	assert_int_equal(kept->graph_reserved, 35);
	assert_int_equal(kept->pool_used, 36);
	assert_int_equal(kept->pool_reserved, 37);
	assert_int_equal(kept->asked_plus_one, 2);
	assert_string_equal(mini_text(&mini, kept->trigger), "step");
	assert_string_equal(mini_text(&mini, kept->moment), "now");
	assert_int_equal(mini.failures, 1);
	row = mini_item(&mini, VC_REC_FAILURES, 0, 128);
	assert_int_equal(row->outcome, 17 * VC_FAILURE_RETRIED);
	assert_int_equal(row->number, 101);
	assert_int_equal(row->sites, 64);
	/* 1 + ... + 100 less 10 + 20 + ... + 100 of the other device and the one freed */
	assert_int_equal(row->live, 5050 - 550 - 99);
	for (uint64_t i = 0; i < 64; i++) {
		const struct vc_failure_site_row *site =
			mini_item(&mini, VC_REC_FAILURE_SITES, row->first_site + i, 32);
		const struct vc_site *of = mini_item(&mini, VC_REC_SITES, site->site, 72);

		assert_true(site->bytes < last);
		assert_int_equal(site->bytes, of->stack);
		assert_int_equal(site->count, 1);
		assert_int_equal(of->device_plus_one, 1);
		last = site->bytes;
	}
	/* 98, 97, ... without multiples of 10: the 64th is 28 */
	assert_int_equal(last, 28);
	mini_close(&mini);
}

static void test_counters(void **state)
{
	struct mini mini;

	(void)state;
	vc_store_forget();
	vc_store_count(VC_COUNTER_REENTERED);
	vc_store_count_by(VC_COUNTER_REENTERED, 4);
	assert_int_equal(fixture_start_in("/nonexistent", MIB), VC_E_NOT_FOUND);
	vc_store_count_by(VC_COUNTER_REENTERED, 2);
	{
		struct vc_store_options options = {
			.directory = fixture_folder(), .name = "counters", .budget = MIB};

		assert_int_equal(vc_store_start(&options, NULL), 0);
	}
	vc_store_count(VC_COUNTER_REENTERED);
	fixture_read(&mini);
	/* fixture_start_in forgets, as a child does: 5 are gone */
	assert_int_equal(mini_counter(&mini, VC_COUNTER_REENTERED), 3);
	mini_close(&mini);
}

/* 20,000 entries through a ring of budget / 16: the newest are all there, whole. */
static void test_ring(void **state)
{
	uint64_t slots, total = 20000;
	struct mini mini;

	(void)state;
	fixture_start(16 * MIB);
	for (uint64_t i = 0; i < total; i++) {
		fixture_allocate(0x1000, i);
		assert_true(fixture_free(0x1000));
		if (i % 100 == 0)
			vc_store_grow();
	}
	fixture_read(&mini);
	slots = mini.root->freed_slots / 17;
	assert_true(slots > 128 && slots * 224 <= MIB);
	assert_int_equal(mini.root->freed_next / 17, total);
	assert_int_equal(mini.freed, slots);
	assert_int_equal(mini.freed_highest, total);
	assert_int_equal(mini.freed_lowest, total - slots + 1);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_DEATHS_OVERWRITTEN), total - slots);
	mini_close(&mini);
}

/* Many live at once, with and without the agent's help; every one is found and freed. */
static void many_live(bool agent)
{
	uint64_t count = 100000;
	struct vc_claim claim;
	struct mini mini;

	fixture_start(128 * MIB);
	for (uint64_t i = 0; i < count; i++) {
		assert_int_not_equal(fixture_allocate((i + 1) * 512, i + 1), VC_NO_RECORD);
		if (agent && i % 64 == 0)
			vc_store_grow();
	}
	fixture_read(&mini);
	assert_int_equal(mini.live, count);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_UNINDEXED), 0);
	mini_close(&mini);
	for (uint64_t i = 0; i < count; i++) {
		assert_true(vc_store_find((i + 1) * 512, LINEAR, &claim));
		assert_int_equal(claim.copy.size, i + 1);
	}
	for (uint64_t i = 0; i < count; i++)
		assert_true(fixture_free((i + 1) * 512));
	fixture_read(&mini);
	assert_int_equal(mini.live, 0);
	assert_int_equal(mini.allocated_bytes, mini.freed_bytes);
	mini_close(&mini);
}

static void test_many_live(void **state)
{
	(void)state;
	many_live(true);
	many_live(false);
}

/* One address a thousand times over (frees that are never seen): found by a scan in the end. */
static void test_one_address(void **state)
{
	struct vc_claim claim;

	(void)state;
	fixture_start(64 * MIB);
	for (uint64_t i = 1; i <= 1000; i++)
		fixture_allocate(0x7000, i);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_true(vc_store_claim(0x7000, LINEAR, &claim));
		vc_store_free_commit(&claim, &(struct vc_death){0});
	}
	assert_false(vc_store_claim(0x7000, LINEAR, &claim));
}

static void test_errno_and_thread(void **state)
{
	struct vc_thread *block;
	const char *bytes;

	(void)state;
	errno = 4711;
	fixture_start(16 * MIB);
	for (uint64_t i = 1; i < 3000; i++)
		fixture_allocate(i, 1);
	block = vc_thread_block();
	vc_store_grow();
	assert_int_equal(errno, 4711);
	assert_non_null(block);
	assert_ptr_equal(vc_thread_block(), block);
	bytes = vc_thread_unwind(block);
	assert_int_equal((uintptr_t)bytes % 4096, 0);
	for (size_t i = 0; i < VC_THREAD_UNWIND_BYTES; i++)
		assert_int_equal(bytes[i], 0);
}

static void test_unlink(void **state)
{
	char path[512];

	(void)state;
	strcpy(path, fixture_start(16 * MIB));
	vc_store_unlink();
	assert_int_equal(access(path, F_OK), -1);
	/* it goes on in what it has, and never opens another file of that name */
	for (uint64_t i = 1; i < 3000; i++)
		fixture_allocate(i, 1);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(vc_store_device_live(0), 2999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_umask),
		cmocka_unit_test(test_memory_file),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_abandon),
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_visit_and_references),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_sites),
		cmocka_unit_test(test_sites_other),
		cmocka_unit_test(test_moments_and_failures),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_many_live),
		cmocka_unit_test(test_one_address),
		cmocka_unit_test(test_errno_and_thread),
		cmocka_unit_test(test_unlink),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
