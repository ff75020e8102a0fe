/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the snapshots that the tests of the command read, into a folder. All numbers are made up
 * and are worked out by hand in the comments; the tests expect them.
 */
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/snapshot_write.h"
#include "tests/unit/analyze/builder.h"

#define MIB UINT64_C(1048576)
#define TOTAL (UINT64_C(80) << 30)

static char folder[4096];

static void write_tables(struct vc_tables *tables, const char *name)
{
	char path[4200];
	struct vc_fault fault = {0};
	int error = vc_tables_check(tables, &fault);

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	unlink(path);
	if (!error)
		error = vc_snapshot_write(path, tables, &fault);
	if (error) {
		fprintf(stderr, "%s: %s (%s)\n", path, vc_error_text(error), fault.section);
		exit(1);
	}
	vc_tables_deinit(tables);
}

static void begin(struct vc_tables *tables)
{
	if (vc_tables_init(tables))
		exit(1);
}

/* The two moments of a program with a caching allocator: what a block's stack begins with. */
enum { ALLOCATE = 0x1010, MUST = 0x1100, PUT = 0x1200, REMEMBER = 0x1300, FORWARD = 0x1400,
       PARAMETERS = 0x1500, MAIN = 0x1600 };

static uint64_t block_stack(struct vc_tables *tables, uint64_t train, uint64_t site)
{
	const struct build_frame leak[] = {
		{train, ALLOCATE}, {train, MUST}, {train, PUT}, {train, REMEMBER},
		{train, FORWARD},  {train, MAIN}, {0, 0}};
	const struct build_frame other[] = {{train, ALLOCATE}, {train, MUST}, {train, site},
					    {train, MAIN}, {0, 0}};

	return build_stack(tables, site == PUT ? leak : other);
}

/**
 * Segments of 64 MiB; parameters of 8 MiB in the first; after that a block of 51,200 bytes for each
 * step, packed. live = 8 MiB + blocks * 51,200.
 */
static void make_train(uint64_t step, const char *name, const char *moment)
{
	struct vc_tables tables;
	uint64_t train, segment_stack, parameters, leak, birth = 1, at = 0x7f0000000000 + 8 * MIB;
	uint64_t segments = (8 * MIB + step * 51200 + 64 * MIB - 1) / (64 * MIB);

	begin(&tables);
	build_process(&tables, step, moment, step * 2, 1 + segments + 1 + step);
	build_device(&tables, 0, "Test GPU", "GPU-8f1c6c7e-0000", TOTAL,
		     TOTAL - segments * 64 * MIB - 512 * MIB);
	train = build_module(&tables, "/home/me/build/train", "aaaa");
	segment_stack = build_stack(&tables, (const struct build_frame[]){
		{train, 0x1000}, {train, ALLOCATE + 4}, {train, MAIN}, {0, 0}});
	parameters = block_stack(&tables, train, PARAMETERS);
	leak = block_stack(&tables, train, PUT);
	for (uint64_t i = 0; i < segments; i++)
		build_allocation(&tables, (struct build_allocation){
			.kind = VC_KIND_LINEAR, .address = 0x7f0000000000 + i * 64 * MIB,
			.size = 64 * MIB, .stack = segment_stack, .birth = birth++,
			.device_plus_one = 1, .step = i});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_BLOCK, .address = 0x7f0000000000, .size = 8 * MIB,
		.stack = parameters, .birth = birth++, .device_plus_one = 1, .label = "weights"});
	for (uint64_t i = 1; i <= step; i++, at += 51200)
		build_allocation(&tables, (struct build_allocation){
			.kind = VC_KIND_BLOCK, .address = at, .size = 51200, .stack = leak,
			.step = i, .birth = birth++, .device_plus_one = 1, .seconds = i * 2});
	build_evidence(&tables, "allocations_seen", birth - 1);
	write_tables(&tables, name);
}

/** Two devices, no blocks, things in doubt, lost records, hostile names, freed and failed ones. */
static void make_mixed(void)
{
	struct vc_tables tables;
	uint64_t program, blas, direct, through, row;

	begin(&tables);
	build_process(&tables, UINT64_MAX, "now", 3600, 50);
	build_text(&tables, VC_COL_process_program, 0, "/opt/evil\033[31m\n\xff/pro\tgram");
	build_device(&tables, 0, "Small \033]0;owned\007GPU", "GPU-00000000-0000", 100 * MIB,
		     UINT64_MAX);
	build_device(&tables, 1, "Large GPU", "GPU-11111111-0000", 1000 * MIB, 300 * MIB);
	program = build_module(&tables, "/opt/pro\033gram", "bb");
	blas = build_module(&tables, "/usr/lib/libcublas.so.12", "cc");
	direct = build_stack(&tables, (const struct build_frame[]){{program, 0x10}, {program, 0x20},
								   {0, 0}});
	through = build_stack(&tables, (const struct build_frame[]){
		{blas, 0x99}, {blas, 0x98}, {program, 0x30}, {0, 0}});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = 0x10000000, .size = 10 * MIB, .stack = direct,
		.birth = 1, .device_plus_one = 1});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = 0x20000000, .size = 400 * MIB, .stack = direct,
		.birth = 2, .device_plus_one = 2, .stream = 0, .thread = 7});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_ASYNC, .address = 0x40000000, .size = 100 * MIB, .stack = through,
		.birth = 3, .device_plus_one = 2, .stream = 0x55, .thread = 8});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = 0x60000000, .size = MIB, .stack = direct,
		.state = VC_STATE_IN_DOUBT, .device_plus_one = 2});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_PINNED, .address = 0x70000000, .size = 3 * MIB, .stack = direct,
		.birth = 4, .device_plus_one = 2});
	row = build_row(&tables, VC_TABLE_freed);
	build_set(&tables, VC_COL_freed_kind, row, VC_KIND_LINEAR);
	build_set(&tables, VC_COL_freed_address, row, 0x20000000 + 390 * MIB);
	build_set(&tables, VC_COL_freed_size, row, 20 * MIB);
	build_set(&tables, VC_COL_freed_birth, row, 1);
	build_set(&tables, VC_COL_freed_death, row, 20);
	build_set(&tables, VC_COL_freed_stack, row, through);
	build_set(&tables, VC_COL_freed_death_stack, row, direct);
	row = build_row(&tables, VC_TABLE_sites);
	build_set(&tables, VC_COL_sites_stack, row, direct);
	build_set(&tables, VC_COL_sites_kind, row, VC_KIND_LINEAR);
	row = build_row(&tables, VC_TABLE_failures);
	build_set(&tables, VC_COL_failures_requested, row, 700 * MIB);
	build_set(&tables, VC_COL_failures_device, row, 1);
	build_set(&tables, VC_COL_failures_result, row, 2);
	build_set(&tables, VC_COL_failures_stack, row, through);
	build_text(&tables, VC_COL_failures_call, row, "cuMemAlloc_v2");
	build_set(&tables, VC_COL_failures_free_known, row, 1);
	build_set(&tables, VC_COL_failures_free, row, 300 * MIB);
	build_set(&tables, VC_COL_failures_total, row, 1000 * MIB);
	build_set(&tables, VC_COL_failures_live, row, 500 * MIB);
	build_set(&tables, VC_COL_failures_outcome, row, VC_FAILURE_OUT_OF_MEMORY);
	row = build_row(&tables, VC_TABLE_failure_sites);
	build_set(&tables, VC_COL_failure_sites_bytes, row, 400 * MIB);
	build_set(&tables, VC_COL_failure_sites_count, row, 1);
	build_evidence(&tables, "allocations_seen", 12);
	build_evidence(&tables, "records_lost", 3);
	build_evidence(&tables, "records_lost_bytes", 30 * MIB);
	build_evidence(&tables, "stacks_cut", 2);
	write_tables(&tables, "mixed.vramcore");
}

/**
 * A program that knows no steps, on two devices, at an hour after its start: the first time 1 or 5
 * hours. Device 0: 8 MiB of linear memory more each hour. Device 1: one site shrinks from 9 MiB to
 * 2 MiB, one is gone (3 MiB), one is new (40 MiB, once).
 */
static void make_hours(uint64_t hours, const char *name)
{
	struct vc_tables tables;
	uint64_t program, stack[4];
	bool late = hours > 1;

	begin(&tables);
	build_process(&tables, UINT64_MAX, "now", hours * 3600, hours * 100);
	build_device(&tables, 0, "Test GPU", "GPU-00000000-0000", TOTAL, UINT64_MAX);
	build_device(&tables, 1, "Test GPU", "GPU-11111111-0000", TOTAL, TOTAL / 2);
	program = build_module(&tables, "/opt/server", "5e");
	for (uint64_t i = 0; i < 4; i++)
		stack[i] = build_stack(&tables, (const struct build_frame[]){
			{program, 0x100 * (i + 1)}, {program, 0x900}, {0, 0}});
	for (uint64_t i = 1; i <= hours; i++)
		build_allocation(&tables, (struct build_allocation){
			.kind = VC_KIND_LINEAR, .address = i * 16 * MIB, .size = 8 * MIB,
			.stack = stack[0], .birth = i * 100, .seconds = i * 3600,
			.device_plus_one = 1});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = 0x7000000000, .birth = late ? 300 : 5,
		.size = late ? 2 * MIB : 9 * MIB, .stack = stack[1], .device_plus_one = 2});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = 0x7100000000, .birth = late ? 301 : 6,
		.size = late ? 40 * MIB : 3 * MIB, .stack = stack[late ? 2 : 3],
		.seconds = late ? 7200 : 5, .device_plus_one = 2});
	write_tables(&tables, name);
}

/**
 * As much as possible of what costs time when it is looked at pair by pair: modules, devices, evidence,
 * stacks that share their frames.
 */
static void make_hostile(void)
{
	enum { MANY = 8000, STACKS = 500 };
	struct vc_tables tables;

	begin(&tables);
	build_process(&tables, 1, "now", 1, 1);
	for (uint64_t i = 0; i < MANY; i++) {
		char text[32];
		uint64_t frame;

		snprintf(text, sizeof(text), "/m/%llu", (unsigned long long)i);
		build_device(&tables, i, text, text, i, i);
		build_module(&tables, text, "");
		build_evidence(&tables, "records_lost", 1);
		frame = build_row(&tables, VC_TABLE_frames);
		build_set(&tables, VC_COL_frames_module, frame, i + 1);
	}
	for (uint64_t i = 0; i < STACKS; i++) {
		uint64_t stack = build_row(&tables, VC_TABLE_stacks);

		build_set(&tables, VC_COL_stacks_first, stack, i);
		build_set(&tables, VC_COL_stacks_count, stack, MANY - i);
	}
	for (uint64_t i = 0; i < MANY; i++)
		build_allocation(&tables, (struct build_allocation){
			.kind = i % 2 ? VC_KIND_LINEAR : VC_KIND_BLOCK, .address = i, .size = MIB,
			.stack = 1 + i % STACKS, .birth = i, .device_plus_one = i + 1,
			.parent = i, .thread = i});
	write_tables(&tables, "hostile.vramcore");
}

/* ---- stacks of this very program, to be named ---- */

static struct {
	uint64_t bias;
} self;
static char build_id_text[128];

static int find_self(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	(void)context;
	self.bias = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + segment->p_vaddr;
		const ElfW(Nhdr) *note = (const void *)at;
		size_t start;

		if (segment->p_type != PT_NOTE || note->n_type != NT_GNU_BUILD_ID)
			continue;
		start = sizeof(*note) + ((note->n_namesz + 3) & ~3u);
		for (unsigned j = 0; j < note->n_descsz && j < 60; j++)
			sprintf(build_id_text + 2 * j, "%02x",
				(unsigned char)at[start + j]);
	}
	return 1; /* the program comes first */
}

static __attribute__((noinline)) uint64_t stack_here(struct vc_tables *tables, uint64_t module)
{
	void *addresses[32];
	struct build_frame frames[4] = {0};
	int count = backtrace(addresses, 32), first = 0;

	/* from the caller of this function, whatever lies before it, to main */
	while (first < count && addresses[first] != __builtin_return_address(0))
		first++;
	for (int i = 0; i < 3 && first + i < count; i++)
		frames[i] =
			(struct build_frame){module, (uint64_t)addresses[first + i] - self.bias};
	return build_stack(tables, frames);
}

static __attribute__((noinline)) uint64_t leaking_function(struct vc_tables *tables,
							   uint64_t module)
{
	uint64_t stack = stack_here(tables, module); /* LEAK */

	__asm__ volatile("" ::: "memory");
	return stack;
}

static __attribute__((noinline)) uint64_t steady_function(struct vc_tables *tables, uint64_t module)
{
	uint64_t stack = stack_here(tables, module); /* STEADY */

	__asm__ volatile("" ::: "memory");
	return stack;
}

static __attribute__((noinline)) void make_self(const char *path, uint64_t step, const char *name)
{
	struct vc_tables tables;
	uint64_t module, leak, steady;

	begin(&tables);
	build_process(&tables, step, "after-step", step, step);
	build_device(&tables, 0, "Test GPU", "GPU-8f1c6c7e-0000", TOTAL, UINT64_MAX);
	module = build_module(&tables, path, build_id_text);
	leak = leaking_function(&tables, module);
	steady = steady_function(&tables, module);
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = 0x1000000, .size = 64 * MIB, .stack = steady,
		.birth = 1, .device_plus_one = 1});
	for (uint64_t i = 1; i <= step; i++)
		build_allocation(&tables, (struct build_allocation){
			.kind = VC_KIND_LINEAR, .address = 0x10000000 + i * MIB, .size = MIB,
			.stack = leak, .birth = 1 + i, .step = i, .device_plus_one = 1});
	write_tables(&tables, name);
}

int main(int argc, char **argv)
{
	static char path[4096];

	if (argc != 2) {
		fprintf(stderr, "usage: make_snapshots FOLDER\n");
		return 64;
	}
	snprintf(folder, sizeof(folder), "%s", argv[1]);
	make_train(1000, "step1000.vramcore", "after-step");
	make_train(25000, "step25000.vramcore", "after-step");
	make_train(50000, "step50000.vramcore", "after-step");
	make_train(50000, "backward50000.vramcore", "before-backward");
	make_mixed();
	make_hostile();
	make_hours(1, "hour1.vramcore");
	make_hours(5, "hour5.vramcore");
	dl_iterate_phdr(find_self, NULL);
	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		return 1;
	for (uint64_t step = 10; step <= 100; step += 90)
		make_self(path, step, step == 10 ? "self10.vramcore" : "self100.vramcore");
	return 0;
}
