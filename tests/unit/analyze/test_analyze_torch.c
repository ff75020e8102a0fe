/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's allocator in a recording: whose memory is whose, segments, advice. */
#include "tests/unit/analyze/cmocka.h"

#include "analyze/views/advice.h"
#include "analyze/views/evidence.h"
#include "analyze/views/ledger.h"
#include "analyze/views/torch.h"
#include "formats/recording.h"
#include "tests/unit/analyze/builder.h"
#include "tests/unit/analyze/fake_names.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct vc_model model;
static struct vc_tables *const tables = &model.tables;
static struct vc_account account;
static struct vc_arena arena;
static struct vc_names *names;
static uint64_t torch_segment, torch_other, library, block_a, block_b, births;

/* The runtime's frame is the same for all: only who called it tells them apart. */
static int set_up(void **state)
{
	uint64_t runtime, c10, torch, nccl, user;

	(void)state;
	births = 0;
	assert_int_equal(vc_tables_init(tables), 0);
	build_process(tables, 5, "oom", 100, 1000);
	build_device(tables, 0, "H100", "GPU-1", 8 * GIB, UINT64_MAX);
	runtime = build_module(tables, "/venv/libcudart.so.13", "aa");
	c10 = build_module(tables, "/venv/libc10_cuda.so", "bb");
	torch = build_module(tables, "/venv/libtorch_cuda.so", "cc");
	nccl = build_module(tables, "/venv/libnccl.so.2", "dd");
	user = build_module(tables, "/app/train", "ee");
	torch_segment = build_stack(tables, (const struct build_frame[]){
		{runtime, 1}, {c10, 2}, {torch, 3}, {0, 0}});
	torch_other = build_stack(tables, (const struct build_frame[]){
		{runtime, 1}, {c10, 2}, {torch, 4}, {0, 0}});
	library = build_stack(tables, (const struct build_frame[]){{runtime, 1}, {nccl, 9}, {0, 0}});
	block_a = build_stack(tables, (const struct build_frame[]){{c10, 5}, {user, 6}, {0, 0}});
	block_b = build_stack(tables, (const struct build_frame[]){{c10, 5}, {user, 7}, {0, 0}});
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vc_account_deinit(&account);
	vc_names_destroy(names);
	names = NULL;
	vc_arena_deinit(&arena);
	vc_model_close(&model);
	return 0;
}

static uint64_t add(uint64_t kind, uint64_t address, uint64_t size, uint64_t stack, uint64_t parent)
{
	uint64_t row = build_allocation(tables, (struct build_allocation){
		.kind = kind, .address = address, .size = size, .stack = stack, .birth = ++births,
		.device_plus_one = 1, .parent = parent});

	if (kind == VC_KIND_BLOCK)
		build_set(tables, VC_COL_allocations_flags, row, VC_FLAG_REPORTED | VC_FLAG_TORCH);
	return row;
}

static void say(uint64_t allocated, uint64_t reserved)
{
	build_set(tables, VC_COL_devices_torch_known, 0, 1);
	build_set(tables, VC_COL_devices_torch_allocated, 0, allocated);
	build_set(tables, VC_COL_devices_torch_reserved, 0, reserved);
}

static void make(void)
{
	static const struct fake_name none[] = {{0}};
	uint32_t file;

	assert_int_equal(vc_account_make(tables, VC_ACCOUNT_AUTO, VC_COLUMNS, &account), 0);
	assert_int_equal(vc_names_create(fake_resolver(none), &names), 0);
	assert_int_equal(vc_names_add(names, tables, &file), 0);
	for (uint64_t i = 0; i < account.group_count; i++)
		assert_int_equal(vc_names_want(names, 0, account.groups[i].stack), 0);
	assert_int_equal(vc_names_resolve(names), 0);
}

static const struct vc_ledger_row *row_of(const struct vc_ledger *ledger, const char *key)
{
	for (unsigned i = 0; i < ledger->count; i++)
		if (!strcmp(ledger->rows[i].key, key))
			return &ledger->rows[i];
	return NULL;
}

/* ---- whose memory it is ---- */

static void test_account(void **state)
{
	const struct vc_account_device *device;
	struct vc_torch_recorded recorded;
	struct vc_ledger ledger;

	(void)state;
	add(VC_KIND_LINEAR, 16 * MIB, 20 * MIB, torch_segment, 0);
	add(VC_KIND_LINEAR, 64 * MIB, 2 * MIB, torch_other, 0); /* holds nothing any more */
	add(VC_KIND_LINEAR, 128 * MIB, 32 * MIB, library, 0);
	add(VC_KIND_BLOCK, 16 * MIB, 3 * MIB, block_a, 0);
	add(VC_KIND_BLOCK, 20 * MIB, MIB, block_b, 0);
	say(4 * MIB, 22 * MIB);
	make();
	assert_true(account.has_torch);
	device = vc_account_find_device(&account, 1);
	assert_int_equal(device->torch_reserved, 22 * MIB);
	assert_int_equal(device->torch_segments, 2);
	assert_int_equal(device->torch_cached, 18 * MIB);
	assert_int_equal(device->torch_allocated, 4 * MIB);
	assert_int_equal(device->reserved_bytes, 54 * MIB);
	assert_int_equal(device->kind_bytes[VC_KIND_LINEAR], 32 * MIB);
	assert_int_equal(vc_ledger_make(tables, &account, NULL, 1, &ledger), 0);
	assert_int_equal(row_of(&ledger, "torch_block")->bytes, 4 * MIB);
	assert_int_equal(row_of(&ledger, "torch_block")->count, 2);
	assert_int_equal(row_of(&ledger, "torch_cached")->bytes, 18 * MIB);
	assert_int_equal(row_of(&ledger, "linear")->bytes, 32 * MIB);
	assert_null(row_of(&ledger, "cached"));
	assert_null(row_of(&ledger, "block"));
	assert_true(vc_torch_recorded(tables, &account, 1, &recorded));
	assert_int_equal(recorded.reserved, 22 * MIB);
	assert_int_equal(recorded.blocks, 2);
	assert_true(recorded.said);
	assert_false(vc_torch_recorded(tables, &account, 2, &recorded));
}

/* All tensors are gone, the cache is not. */
static void test_nothing_live(void **state)
{
	const struct vc_account_device *device;

	(void)state;
	add(VC_KIND_LINEAR, 16 * MIB, 20 * MIB, torch_segment, 0);
	add(VC_KIND_LINEAR, 128 * MIB, 32 * MIB, library, 0);
	say(0, 20 * MIB);
	make();
	device = vc_account_find_device(&account, 1);
	assert_int_equal(device->torch_reserved, 20 * MIB);
	assert_int_equal(device->torch_cached, 20 * MIB);
	assert_int_equal(device->live_bytes, 32 * MIB);
}

/* Beside a pool of the program's own, which told of its blocks through vramcore.h. */
static void test_beside_another(void **state)
{
	struct vc_ledger ledger;
	uint64_t row;

	(void)state;
	add(VC_KIND_LINEAR, 16 * MIB, 20 * MIB, torch_segment, 0);
	add(VC_KIND_LINEAR, 128 * MIB, 32 * MIB, library, 0);
	add(VC_KIND_BLOCK, 16 * MIB, 3 * MIB, block_a, 0);
	row = add(VC_KIND_BLOCK, 128 * MIB, 5 * MIB, block_b, 0);
	build_set(tables, VC_COL_allocations_flags, row, VC_FLAG_REPORTED);
	make();
	assert_int_equal(vc_ledger_make(tables, &account, NULL, 1, &ledger), 0);
	assert_int_equal(row_of(&ledger, "torch_block")->bytes, 3 * MIB);
	assert_int_equal(row_of(&ledger, "block")->bytes, 5 * MIB);
	assert_int_equal(row_of(&ledger, "torch_cached")->bytes, 17 * MIB);
	assert_int_equal(row_of(&ledger, "cached")->bytes, 27 * MIB);
}

/* Without a word of PyTorch's allocator its allocations are the driver's. */
static void test_silent(void **state)
{
	(void)state;
	add(VC_KIND_LINEAR, 16 * MIB, 20 * MIB, torch_segment, 0);
	make();
	assert_false(account.has_torch);
	assert_int_equal(vc_account_find_device(&account, 1)->live_bytes, 20 * MIB);
	assert_int_equal(vc_account_find_device(&account, 1)->torch_reserved, 0);
}

static bool differs(void)
{
	struct vc_evidence evidence;

	assert_int_equal(vc_evidence_make(&model, &account, 1, &arena, &evidence), 0);
	for (unsigned i = 0; i < evidence.count; i++)
		if (!strcmp(evidence.items[i].key, "torch_differs")) {
			assert_int_equal(evidence.items[i].value, 512);
			assert_false(evidence.complete);
			return true;
		}
	return false;
}

static void test_evidence(void **state)
{
	(void)state;
	add(VC_KIND_LINEAR, 16 * MIB, 20 * MIB, torch_segment, 0);
	add(VC_KIND_BLOCK, 16 * MIB, 3 * MIB, block_a, 0);
	say(3 * MIB, 20 * MIB);
	make();
	assert_false(differs());
	say(3 * MIB + 512, 20 * MIB);
	assert_true(differs());
	say(3 * MIB - 512, 20 * MIB);
	assert_true(differs());
	build_set(tables, VC_COL_devices_torch_known, 0, 0);
	assert_false(differs());
}

/* ---- segments ---- */

/* An expandable segment is what is mapped side by side in one reservation. */
static void test_mappings(void **state)
{
	const uint64_t base = 1024 * MIB;
	struct vc_map map;

	(void)state;
	add(VC_KIND_RESERVATION, base, 64 * MIB, torch_segment, 0);
	add(VC_KIND_RESERVATION, base + 64 * MIB, 64 * MIB, torch_segment, 0);
	for (unsigned i = 0; i < 5; i++) {
		/* 0, 1, 2 and, after a gap, 4 of the first; the first page of the next one */
		static const uint64_t at[] = {0, 1, 2, 31, 32};
		uint64_t handle = births + 1;

		add(VC_KIND_HANDLE, 0x100 + i, 2 * MIB, torch_segment, 0);
		add(VC_KIND_MAPPING, base + at[i] * 2 * MIB, 2 * MIB, torch_segment, handle);
	}
	add(VC_KIND_BLOCK, base, MIB, block_a, 0);
	add(VC_KIND_BLOCK, base + 62 * MIB, 512, block_a, 0);
	make();
	assert_int_equal(vc_account_find_device(&account, 1)->torch_reserved, 10 * MIB);
	assert_int_equal(vc_map_make(tables, &account, &arena, &map), 0);
	assert_int_equal(map.segment_count, 3);
	assert_int_equal(map.segments[0].size, 6 * MIB);
	assert_int_equal(map.segments[0].largest_hole, 5 * MIB);
	assert_int_equal(map.segments[0].holes, 1);
	assert_true(map.segments[0].torch);
	assert_int_equal(map.segments[1].address, base + 62 * MIB);
	assert_int_equal(map.segments[1].size, 2 * MIB);
	assert_int_equal(map.segments[2].size, 2 * MIB); /* of the other reservation, empty */
	assert_int_equal(map.segments[2].blocks, 0);
	assert_int_equal(map.devices[0].free, 10 * MIB - MIB - 512);
}

/* ---- advice ---- */

static void advise(uint64_t requested, uint64_t left, struct vc_advice *ret)
{
	struct vc_map map;

	make();
	assert_int_equal(vc_map_make(tables, &account, &arena, &map), 0);
	assert_int_equal(map.device_count, 1);
	assert_int_equal(vc_advice_make(tables, &map, &map.devices[0], names, requested, left,
					8 * GIB, &arena, ret),
			 0);
}

/* Three segments of 64 MiB: one pinned by A, one by A and B, one in use. */
static void build_segments(void)
{
	for (uint64_t i = 0; i < 3; i++)
		add(VC_KIND_LINEAR, (i + 1) * 128 * MIB, 64 * MIB, torch_segment, 0);
	add(VC_KIND_BLOCK, 128 * MIB + MIB, 512, block_a, 0);
	add(VC_KIND_BLOCK, 256 * MIB, MIB, block_a, 0);
	add(VC_KIND_BLOCK, 256 * MIB + 32 * MIB, 2 * MIB, block_b, 0);
	add(VC_KIND_BLOCK, 384 * MIB, 60 * MIB, block_b, 0);
}

static void test_fragmented(void **state)
{
	struct vc_advice advice;

	(void)state;
	build_segments();
	advise(65 * MIB, 3 * MIB, &advice);
	assert_int_equal(advice.why, VC_WHY_FRAGMENTED);
	assert_int_equal(advice.free, 192 * MIB - 63 * MIB - 512);
	assert_int_equal(advice.hole, 63 * MIB - 512);
	assert_int_equal(advice.pin_count, 2);
	assert_int_equal(advice.pins[0].bytes, MIB + 512);
	assert_int_equal(advice.pins[0].segments, 2);
	assert_int_equal(advice.pins[0].kept, 64 * MIB - 512 + 61 * MIB);
	assert_int_equal(advice.pins[0].alone, 64 * MIB);
	assert_int_equal(advice.pins[1].bytes, 2 * MIB);
	assert_int_equal(advice.pins[1].alone, 0);
	assert_int_equal(advice.count, 2);
	/* pages: all but the one with 512 bytes (31); 1 of 32 begun, 1 taken (30); 2 */
	assert_string_equal(advice.rows[0].key, "expandable_segments");
	assert_int_equal(advice.rows[0].bytes, (31 + 30 + 2) * 2 * MIB);
	assert_true(advice.rows[0].at_most && advice.rows[0].enough);
	assert_string_equal(advice.rows[1].key, "free_blocks");
	assert_int_equal(advice.rows[1].bytes, 64 * MIB);
	assert_true(advice.rows[1].enough); /* 67 MiB, 66 needed */
	assert_ptr_equal(advice.rows[1].chain, advice.pins[0].chain);
}

static void test_why(void **state)
{
	static const struct {
		uint64_t requested, left;
		enum vc_advice_why why;
	} cases[] = {
		{200 * MIB, 3 * MIB, VC_WHY_FULL},
		{65 * MIB, 65 * MIB, VC_WHY_FRAGMENTED}, /* 66 are needed */
		{65 * MIB, 66 * MIB, VC_WHY_LIMIT},
		{9 * GIB, 66 * MIB, VC_WHY_BEYOND},
		{UINT64_MAX, UINT64_MAX - 1, VC_WHY_BEYOND},
	};

	(void)state;
	build_segments();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct vc_advice advice;

		advise(cases[i].requested, cases[i].left, &advice);
		assert_int_equal(advice.why, cases[i].why);
		assert_true(advice.count == 0 || advice.why <= VC_WHY_FRAGMENTED);
		vc_account_deinit(&account);
		vc_names_destroy(names);
		names = NULL;
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_account),  TEST(test_nothing_live), TEST(test_beside_another),
		TEST(test_silent),   TEST(test_evidence),     TEST(test_mappings),
		TEST(test_fragmented), TEST(test_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
