/* SPDX-License-Identifier: Apache-2.0 */
/* Ledger, sites, where, oom, evidence: on tables made by hand. */
#include "tests/unit/analyze/cmocka.h"

#include <string.h>

#include "analyze/views/evidence.h"
#include "analyze/views/info.h"
#include "analyze/views/ledger.h"
#include "analyze/views/oom.h"
#include "analyze/views/sites.h"
#include "analyze/views/where.h"
#include "tests/unit/analyze/builder.h"

static struct vc_model model;
static struct vc_tables *tables = &model.tables;
static struct vc_account account;
static struct vc_names *names;
static struct vc_arena arena;
static uint64_t stack_a, stack_b;

static int set_up(void **state)
{
	uint64_t module;

	(void)state;
	assert_int_equal(vc_tables_init(tables), 0);
	model.path = "x.vramcore";
	module = build_module(tables, "/bin/prog", "id");
	stack_a = build_stack(tables, (const struct build_frame[]){{module, 1}, {0, 0}});
	stack_b = build_stack(tables, (const struct build_frame[]){{module, 2}, {0, 0}});
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vc_account_deinit(&account);
	vc_names_destroy(names);
	names = NULL;
	vc_arena_deinit(&arena);
	vc_tables_deinit(tables);
	memset(&model, 0, sizeof(model));
	return 0;
}

static uint64_t add(uint64_t kind, uint64_t address, uint64_t size, uint64_t stack)
{
	return build_allocation(tables, (struct build_allocation){
		.kind = kind, .address = address, .size = size, .stack = stack,
		.birth = tables->rows[VC_TABLE_allocations] + 1, .device_plus_one = 1,
		.thread = address & 1});
}

static void count(enum vc_column_index extra)
{
	uint32_t file;

	assert_int_equal(vc_account_make(tables, VC_ACCOUNT_AUTO, extra, &account), 0);
	assert_int_equal(vc_names_create(NULL, &names), 0);
	assert_int_equal(vc_names_add(names, tables, &file), 0);
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_stacks]; i++)
		assert_int_equal(vc_names_want(names, 0, i + 1), 0);
	assert_int_equal(vc_names_resolve(names), 0);
}

/* ---- ledger ---- */

static const struct vc_ledger_row *ledger_row(const struct vc_ledger *ledger, const char *key)
{
	for (unsigned i = 0; i < ledger->count; i++)
		if (!strcmp(ledger->rows[i].key, key))
			return &ledger->rows[i];
	fail_msg("no row %s", key);
	return NULL;
}

static void adds_up(const struct vc_ledger *ledger)
{
	int64_t bytes = 0, shares = 0;

	for (unsigned i = 0; i < ledger->count; i++) {
		bytes += ledger->rows[i].bytes;
		shares += ledger->rows[i].share;
	}
	assert_int_equal(bytes, ledger->total);
	assert_int_equal(shares, 1000);
}

/* 10,000 in all, 4,000 free by cuMemGetInfo; segment 3,000 with 1,200 of blocks, 700 linear, 5 in
 * doubt: cached 1,800, other = 10,000 - 4,000 - 3,000 - 700 - 5 = 2,295. */
static void test_ledger(void **state)
{
	struct vc_ledger ledger;

	(void)state;
	build_device(tables, 0, "A", "GPU-a", 10000, 4000);
	add(VC_KIND_LINEAR, 0x10000, 3000, stack_a);
	add(VC_KIND_LINEAR, 0x20000, 700, stack_b);
	add(VC_KIND_BLOCK, 0x10000, 1200, stack_b);
	build_allocation(tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .size = 5, .device_plus_one = 1,
		.state = VC_STATE_IN_DOUBT});
	count(VC_COLUMNS);
	assert_int_equal(vc_ledger_make(tables, &account, NULL, 1, &ledger), 0);
	assert_int_equal(ledger_row(&ledger, "block")->bytes, 1200);
	assert_int_equal(ledger_row(&ledger, "linear")->bytes, 700);
	assert_int_equal(ledger_row(&ledger, "cached")->bytes, 1800);
	assert_int_equal(ledger_row(&ledger, "in_doubt")->bytes, 5);
	assert_int_equal(ledger_row(&ledger, "other")->bytes, 2295);
	assert_int_equal(ledger_row(&ledger, "free")->bytes, 4000);
	assert_int_equal(ledger.total, 10000);
	adds_up(&ledger);
}

/* 10,000 less 4,000 free less 3,000 recorded: 3,000, of which 800 graphs and 1,100 - 400 of the pool. */
static void test_ledger_kept(void **state)
{
	struct vc_ledger ledger;

	(void)state;
	build_device(tables, 0, "A", "GPU-a", 10000, 4000);
	build_set(tables, VC_COL_devices_graph_reserved, 0, 800);
	build_set(tables, VC_COL_devices_pool_used, 0, 400);
	build_set(tables, VC_COL_devices_pool_reserved, 0, 1100);
	add(VC_KIND_LINEAR, 0x10000, 3000, stack_a);
	count(VC_COLUMNS);
	assert_int_equal(vc_ledger_make(tables, &account, NULL, 1, &ledger), 0);
	assert_int_equal(ledger_row(&ledger, "graph_memory")->bytes, 800);
	assert_int_equal(ledger_row(&ledger, "pool_free")->bytes, 700);
	assert_int_equal(ledger_row(&ledger, "other")->bytes, 1500);
	assert_int_equal(ledger_row(&ledger, "free")->bytes, 4000);
	adds_up(&ledger);
	/* More than there can be is not believed. */
	build_set(tables, VC_COL_devices_graph_reserved, 0, 2301);
	assert_int_equal(vc_ledger_make(tables, &account, NULL, 1, &ledger), 0);
	assert_int_equal(ledger_row(&ledger, "other")->bytes, 3000);
	assert_int_equal(ledger.count, 3);
	adds_up(&ledger);
}

static void test_ledger_not_asked(void **state)
{
	struct vc_ledger ledger;

	(void)state;
	build_device(tables, 0, "A", "GPU-a", 10000, UINT64_MAX);
	add(VC_KIND_LINEAR, 0x10000, 3000, stack_a);
	count(VC_COLUMNS);
	assert_int_equal(vc_ledger_make(tables, &account, NULL, 1, &ledger), 0);
	assert_int_equal(ledger_row(&ledger, "free_or_not_seen")->bytes, 7000);
	adds_up(&ledger);
	assert_int_equal(vc_ledger_make(tables, &account, NULL, 7, &ledger), 0); /* a device not known */
	assert_int_equal(ledger.count, 0);
	assert_false(ledger.total_known);
}

/* The device says less is used than was recorded: the row is negative, the sum still right. */
static void test_ledger_negative(void **state)
{
	struct vc_ledger ledger;

	(void)state;
	build_device(tables, 0, "A", "GPU-a", 10000, 9000);
	add(VC_KIND_LINEAR, 0x10000, 3000, stack_a);
	count(VC_COLUMNS);
	assert_int_equal(vc_ledger_make(tables, &account, NULL, 1, &ledger), 0);
	assert_int_equal(ledger_row(&ledger, "other")->bytes, -2000);
	adds_up(&ledger);
}

/* ---- sites ---- */

static void make_sites(enum vc_by by, struct vc_sites *ret)
{
	struct vc_sites_options options = {.by = by, .device_plus_one = UINT32_MAX};

	assert_int_equal(vc_sites_make(tables, &account, names, 0, &options, &arena, ret), 0);
}

static void test_sites(void **state)
{
	struct vc_sites_rest rest;
	struct vc_sites sites;
	int64_t *shares;

	(void)state;
	add(VC_KIND_LINEAR, 0x10000, 100, stack_a);
	add(VC_KIND_ASYNC, 0x20001, 30, stack_a); /* other kind, same site; thread 1 */
	add(VC_KIND_LINEAR, 0x30001, 300, stack_b);
	count(VC_COL_allocations_thread);
	make_sites(VC_BY_SITE, &sites);
	assert_int_equal(sites.count, 2);
	assert_int_equal(sites.bytes, 430);
	assert_int_equal(sites.rows[0].bytes, 300);
	assert_int_equal(sites.rows[1].bytes, 130);
	assert_int_equal(sites.rows[1].count, 2);
	make_sites(VC_BY_THREAD, &sites);
	assert_int_equal(sites.count, 2);
	assert_int_equal(sites.rows[0].value, 1);
	assert_int_equal(sites.rows[0].bytes, 330);
	make_sites(VC_BY_KIND, &sites);
	assert_int_equal(sites.rows[0].bytes, 400);
	assert_string_equal(sites.rows[0].text, "linear");
	make_sites(VC_BY_LIBRARY, &sites);
	assert_int_equal(sites.count, 1);
	assert_string_equal(sites.rows[0].text, "prog");
	make_sites(VC_BY_SITE, &sites);
	assert_int_equal(vc_sites_shares(&sites, 1, &arena, &shares, &rest), 0);
	assert_int_equal(rest.shown, 1);
	assert_int_equal(rest.count, 1);
	assert_int_equal(rest.sum.bytes, 130);
	assert_int_equal(shares[0], 698); /* 300 / 430 = 69.77 % */
	assert_int_equal(shares[1], 302);
}

/* ---- where ---- */

static void test_where(void **state)
{
	struct vc_where where;
	uint64_t segment, block, next, row;

	(void)state;
	segment = add(VC_KIND_LINEAR, 0x10000, 0x1000, stack_a);
	block = add(VC_KIND_BLOCK, 0x10100, 0x100, stack_b);
	next = add(VC_KIND_BLOCK, 0x10280, 0x100, stack_b);
	add(VC_KIND_HANDLE, 0x10100, 0x100000, stack_b); /* a handle is no address */
	add(VC_KIND_LINEAR, 0xf000, 0x1000, stack_a);
	for (unsigned i = 0; i < 2; i++) {
		row = build_row(tables, VC_TABLE_freed);
		build_set(tables, VC_COL_freed_kind, row, VC_KIND_BLOCK);
		build_set(tables, VC_COL_freed_address, row, 0x10180);
		build_set(tables, VC_COL_freed_size, row, 0x80);
		build_set(tables, VC_COL_freed_death, row, 5 + i);
	}
	vc_where_find(tables, 0x101ff, &where);
	assert_int_equal(where.holder_count, 2);
	assert_int_equal(where.holders[0], block);
	assert_int_equal(where.holders[1], segment);
	assert_false(where.before_known); /* no block lies before */
	assert_true(where.after_known);
	assert_int_equal(where.after, next);
	assert_int_equal(where.after_gap, 0x80);
	assert_int_equal(where.freed_count, 2);
	assert_int_equal(where.freed[0], 1); /* the last to die comes first */
	vc_where_find(tables, 0x10200, &where); /* one past the block */
	assert_int_equal(where.holder_count, 1);
	assert_int_equal(where.holders[0], segment);
	assert_true(where.hole); /* its neighbours are blocks of the same segment */
	assert_true(where.before_known);
	assert_int_equal(where.before, block);
	assert_int_equal(where.before_gap, 0);
	assert_int_equal(where.after, next);
	assert_int_equal(where.after_gap, 0x80);
	assert_int_equal(where.freed_count, 0);
	vc_where_find(tables, 0x10880, &where);
	assert_int_equal(where.before, next);
	assert_int_equal(where.before_gap, 0x500);
	assert_false(where.after_known);
	vc_where_find(tables, 0xf010, &where); /* no hole: its neighbours are allocations */
	assert_false(where.hole);
	assert_int_equal(where.after, segment);
	vc_where_find(tables, 0x500000, &where);
	assert_int_equal(where.holder_count, 0);
	assert_int_equal(where.before, segment);
	assert_int_equal(where.before_gap, 0x500000 - 0x11000);
	assert_false(where.after_known);
}

/* ---- oom ---- */

static void test_oom(void **state)
{
	static const uint64_t outcome[] = {VC_FAILURE_OUT_OF_MEMORY, VC_FAILURE_OPEN,
					   VC_FAILURE_RETRIED};
	static const struct {
		uint64_t failure, site, bytes;
	} then[] = {{1, 0, 10}, {1, 1, 300}, {0, 0, 999}, {1, 2, 7}};
	struct vc_oom oom;
	uint64_t row;

	(void)state;
	assert_int_equal(vc_oom_pick(tables, &row), VC_E_NOT_FOUND);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t site = build_row(tables, VC_TABLE_sites);

		build_set(tables, VC_COL_sites_stack, site, i == 1 ? stack_b : stack_a);
		build_set(tables, VC_COL_sites_kind, site, VC_KIND_LINEAR);
		build_set(tables, VC_COL_failures_outcome, build_row(tables, VC_TABLE_failures),
			  outcome[i]);
	}
	build_set(tables, VC_COL_failures_live, 1, 400);
	for (unsigned i = 0; i < 4; i++) {
		row = build_row(tables, VC_TABLE_failure_sites);
		build_set(tables, VC_COL_failure_sites_failure, row, then[i].failure);
		build_set(tables, VC_COL_failure_sites_site, row, then[i].site);
		build_set(tables, VC_COL_failure_sites_bytes, row, then[i].bytes);
	}
	count(VC_COLUMNS);
	assert_int_equal(vc_oom_pick(tables, &row), 0);
	assert_int_equal(row, 1); /* the last that was not retried */
	assert_int_equal(vc_oom_make(tables, &account, names, row, &arena, &oom), 0);
	assert_int_equal(oom.total_failures, 3);
	assert_int_equal(oom.retried, 1);
	assert_int_equal(oom.count, 2); /* sites 0 and 2 have one stack */
	assert_int_equal(oom.rows[0].bytes, 300);
	assert_int_equal(oom.rows[1].bytes, 17);
	assert_int_equal(oom.unlisted, 83);
}

/* Segments of 1,000 at stack a, blocks of 600 in them at stack b: 400 are cached, 50 not listed. */
static void test_oom_blocks(void **state)
{
	static const struct {
		uint64_t kind, bytes;
	} then[] = {{VC_KIND_LINEAR, 1000}, {VC_KIND_BLOCK, 600}, {VC_KIND_PINNED, 77}};
	struct vc_oom oom;

	(void)state;
	add(VC_KIND_LINEAR, 0x10000, 1000, stack_a);
	add(VC_KIND_BLOCK, 0x10000, 500, stack_b);
	build_set(tables, VC_COL_failures_live, build_row(tables, VC_TABLE_failures), 1050);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t site = build_row(tables, VC_TABLE_sites);
		uint64_t row = build_row(tables, VC_TABLE_failure_sites);

		build_set(tables, VC_COL_sites_stack, site, i == 0 ? stack_a : stack_b);
		build_set(tables, VC_COL_sites_kind, site, then[i].kind);
		build_set(tables, VC_COL_failure_sites_site, row, site);
		build_set(tables, VC_COL_failure_sites_bytes, row, then[i].bytes);
	}
	count(VC_COLUMNS);
	assert_int_equal(vc_oom_make(tables, &account, names, 0, &arena, &oom), 0);
	assert_int_equal(oom.count, 1);
	assert_int_equal(oom.rows[0].bytes, 600);
	assert_int_equal(oom.cached, 400);
	assert_int_equal(oom.unlisted, 50);
}

/* ---- evidence ---- */

static void test_evidence(void **state)
{
	struct vc_evidence evidence;

	(void)state;
	build_process(tables, 1, "now", 1, 1);
	build_evidence(tables, "allocations_seen", 1000);
	build_evidence(tables, "stacks_cut", 3);
	build_evidence(tables, "records_lost", 0);
	assert_int_equal(vc_evidence_make(&model, NULL, 1, &arena, &evidence), 0);
	assert_true(evidence.complete);
	assert_int_equal(evidence.seen, 1000);
	assert_int_equal(evidence.count, 2);
	assert_string_equal(evidence.items[1].text,
			    "3 stacks that end before their outermost frame");
	build_set(tables, VC_COL_evidence_value, 2, 1204);
	build_evidence(tables, "records_lost_bytes", UINT64_C(3328599654));
	assert_int_equal(vc_evidence_make(&model, NULL, 1, &arena, &evidence), 0);
	assert_false(evidence.complete);
	assert_int_equal(evidence.lost, 1204);
	assert_string_equal(
		evidence.items[2].text,
		"1,204 allocations (3.10 GiB at most) came after the recording was full "
		"(--budget raises the limit)");
}

static void test_evidence_faults(void **state)
{
	struct vc_fault fault = {
		.error = VC_E_CHECKSUM, .section = ".vramcore.sites", .offset = 4096};
	struct vc_evidence evidence;

	(void)state;
	build_process(tables, 1, "now", 1, 1);
	vc_faults_add(&model.faults, &fault);
	assert_int_equal(vc_evidence_make(&model, NULL, 1, &arena, &evidence), 0);
	assert_false(evidence.complete);
	assert_string_equal(evidence.items[0].text,
			    ".vramcore.sites is damaged at byte 4,096 (checksum differs)");
	model.faults.count = 0;
	build_set(tables, VC_COL_process_deaths_missing, 0, 2);
	assert_int_equal(vc_evidence_make(&model, NULL, 1, &arena, &evidence), 0);
	assert_false(evidence.complete);
	build_set(tables, VC_COL_process_deaths_missing, 0, 0);
	build_evidence(tables, "of_the_future", 1); /* not known: taken as the worst */
	assert_int_equal(vc_evidence_make(&model, NULL, 1, &arena, &evidence), 0);
	assert_false(evidence.complete);
}

static void test_info(void **state)
{
	struct vc_info info;

	(void)state;
	build_process(tables, 1, "now", 90, 1);
	build_device(tables, 3, "idle", "GPU-c", 100, UINT64_MAX);
	build_device(tables, 0, "busy", "GPU-a", 100, UINT64_MAX);
	add(VC_KIND_LINEAR, 0x1000, 42, stack_a);
	count(VC_COLUMNS);
	assert_int_equal(vc_info_make(tables, &account, &arena, &info), 0);
	assert_int_equal(info.device_count, 2);
	assert_int_equal(info.devices[0], 1);
	assert_int_equal(info.devices[1], 4);
	assert_int_equal(info.recorded, UINT64_C(90000000000));
	assert_int_equal(info.most_reserved, 42);
	assert_true(vc_info_is_beside(VC_KIND_PINNED));
	assert_false(vc_info_is_beside(VC_KIND_LINEAR));
	assert_false(vc_info_is_beside(VC_KIND_BLOCK));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ledger, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ledger_not_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ledger_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ledger_negative, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sites, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_where, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_oom, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_oom_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_evidence, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_evidence_faults, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_info, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
