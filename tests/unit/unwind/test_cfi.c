/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of .eh_frame: known rules, and damaged bytes that must not be read past. */
#include "capture/inside/cfi.h"

#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/unwind/chain.h"

enum { LARGEST = 96 * 1024 };

/* The unwind data of a loaded object, and the range of its code. */
struct object {
	struct vc_cfi_table table;
	uintptr_t code_low;
	uintptr_t code_high;
};

struct objects {
	struct object object[64];
	unsigned int count;
};

static int collect(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct objects *objects = argument;
	struct object object = { { 0, 0, 0 }, 0, 0 };
	unsigned int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_GNU_EH_FRAME)
			object.table.hdr = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
			object.code_low = info->dlpi_addr + p->p_vaddr;
			object.code_high = object.code_low + p->p_memsz;
		}
	}
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && object.table.hdr >= low &&
		    object.table.hdr < low + p->p_filesz) {
			object.table.low = low;
			object.table.high = low + p->p_filesz;
		}
	}
	if (object.table.low && objects->count < 64)
		objects->object[objects->count++] = object;
	return 0;
}

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((random_state >> 33) % below);
}

#if defined(__x86_64__)
/* A header, a CIE and one FDE written by hand after the DWARF and LSB texts. */
static _Alignas(16) const uint8_t by_hand[] = {
	1, 0x1b, 0x03, 0x3b,	/* header: version, encodings */
	16, 0, 0, 0,		/* .eh_frame is 16 bytes after this field */
	1, 0, 0, 0,		/* one function */
	0, 16, 0, 0, 44, 0, 0, 0, /* it begins 4096 bytes after the header; FDE at 44 */
	20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b,
	0x0c, 7, 8,		/* CFA = rsp + 8 */
	0x90, 1,		/* return address at CFA - 8 */
	0, 0,
	28, 0, 0, 0, 28, 0, 0, 0, /* FDE: length, distance back to the CIE */
	0xcc, 0x0f, 0, 0,	/* function: 4096 - 52 from here */
	64, 0, 0, 0,		/* bytes of code */
	0,			/* no augmentation data */
	0x41, 0x0e, 16, 0x86, 2, /* after 1 byte: CFA = rsp + 16, rbp at CFA - 16 */
	0x43, 0x0d, 6,		/* 3 bytes later: CFA = rbp + 16 */
	0x50, 0x0c, 7, 8,	/* 16 bytes later: CFA = rsp + 8 */
	0, 0, 0,
	0, 0, 0, 0,		/* end of .eh_frame */
};

/* The same frame, with the expression that linkers write for procedure linkage tables. */
static _Alignas(16) const uint8_t linkage_by_hand[] = {
	1, 0x1b, 0x03, 0x3b, 16, 0, 0, 0, 1, 0, 0, 0, 0, 16, 0, 0, 44, 0, 0, 0,
	20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b,
	0x0c, 7, 8, 0x90, 1, 0, 0,
	28, 0, 0, 0, 28, 0, 0, 0, 0xcc, 0x0f, 0, 0, 64, 0, 0, 0, 0,
	0x0f, 11,		/* CFA is the value of 11 bytes: */
	0x77, 8, 0x80, 0,	/* rsp + 8, rip */
	0x3f, 0x1a, 0x3b, 0x2a,	/* (rip & 15) >= 11 */
	0x33, 0x24, 0x22,	/* << 3, added */
	0, 0,
	0, 0, 0, 0,
};

static void test_linkage_table_by_hand(void **context)
{
	struct vc_cfi_table table = { (uintptr_t)linkage_by_hand,
				      (uintptr_t)linkage_by_hand + sizeof(linkage_by_hand),
				      (uintptr_t)linkage_by_hand };
	uintptr_t function = (uintptr_t)linkage_by_hand + 4096;
	unsigned int i;

	(void)context;
	for (i = 0; i < 64; i++) {
		struct vc_cfi_rule rule;

		assert_true(vc_cfi_rule_at(&table, function + i, &rule));
		assert_int_equal(rule.kind, VC_CFI_SP);
		assert_int_equal(rule.cfa * 8, i % 16 >= 11 ? 16 : 8);
		assert_int_equal(rule.ra * 8, -8);
	}
}

static void test_rules_by_hand(void **context)
{
	struct vc_cfi_table table = { (uintptr_t)by_hand, (uintptr_t)by_hand + sizeof(by_hand),
				      (uintptr_t)by_hand };
	uintptr_t function = (uintptr_t)by_hand + 4096;
	struct vc_cfi_rule rule;

	(void)context;
	assert_true(vc_cfi_rule_at(&table, function, &rule));
	assert_int_equal(rule.kind, VC_CFI_SP);
	assert_int_equal(rule.cfa * 8, 8);
	assert_int_equal(rule.ra * 8, -8);
	assert_int_equal(rule.fp_kind, VC_CFI_FP_SAME);
	assert_true(vc_cfi_rule_at(&table, function + 3, &rule));
	assert_int_equal(rule.kind, VC_CFI_SP);
	assert_int_equal(rule.cfa * 8, 16);
	assert_int_equal(rule.fp_kind, VC_CFI_FP_AT_CFA);
	assert_int_equal(rule.fp * 8, -16);
	assert_true(vc_cfi_rule_at(&table, function + 4, &rule));
	assert_int_equal(rule.kind, VC_CFI_FP);
	assert_int_equal(rule.cfa * 8, 16);
	assert_true(vc_cfi_rule_at(&table, function + 20, &rule));
	assert_int_equal(rule.kind, VC_CFI_SP);
	assert_true(vc_cfi_rule_at(&table, function + 63, &rule));
	assert_false(vc_cfi_rule_at(&table, function + 64, &rule));
	assert_int_equal(rule.kind, VC_CFI_NONE);
	assert_false(vc_cfi_rule_at(&table, function - 1, &rule));
}
#endif

/* Most of the code of real objects has a rule, or the decoder is of no use. */
static void test_coverage(void **context)
{
	struct objects objects = { .count = 0 };
	unsigned int known = 0;
	unsigned int usable = 0;
	unsigned int i;

	(void)context;
	dl_iterate_phdr(collect, &objects);
	assert_true(objects.count > 5);
	for (i = 0; i < objects.count; i++) {
		const struct object *o = &objects.object[i];
		uintptr_t pc;

		for (pc = o->code_low; pc < o->code_high; pc += 7) {
			struct vc_cfi_rule rule;

			if (vc_cfi_rule_at(&o->table, pc, &rule)) {
				known++;
				usable += rule.kind != VC_CFI_NONE;
			}
		}
	}
	print_message("%u of %u places have a rule\n", usable, known);
	assert_true(known > 10000);
	assert_true(usable >= known * 0.99);
}

static void test_damage(void **context)
{
	struct objects objects = { .count = 0 };
	uint64_t found = 0;
	unsigned int i;

	(void)context;
	dl_iterate_phdr(collect, &objects);
	/* The program itself comes first; the sanitizers forbid to copy all of its data. */
	for (i = 1; i < objects.count; i++) {
		const struct object *o = &objects.object[i];
		size_t size = o->table.high - o->table.low;
		unsigned int run;

		if (size > LARGEST)
			continue;
		for (run = 0; run < 400; run++) {
			/* Of exactly this size, so that a byte too far is seen. */
			size_t cut = run % 4 == 3 ? random_below((uint32_t)size) + 1 : size;
			uint8_t *copy = malloc(cut);
			uintptr_t moved = (uintptr_t)copy - o->table.low;
			struct vc_cfi_table table = { (uintptr_t)copy, (uintptr_t)copy + cut,
						      o->table.hdr + moved };
			unsigned int changes = random_below(40);
			unsigned int probe;

			assert_non_null(copy);
			memcpy(copy, (const void *)o->table.low, cut);
			for (; changes > 0; changes--)
				copy[random_below((uint32_t)cut)] = (uint8_t)random_below(256);
			for (probe = 0; probe < 60; probe++) {
				struct vc_cfi_rule rule;
				uintptr_t pc = o->code_low + moved +
					       random_below((uint32_t)(o->code_high - o->code_low));

				found += vc_cfi_rule_at(&table, pc, &rule);
			}
			free(copy);
		}
	}
	/* Else only the first check of the header was tried. */
	assert_true(found > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
		cmocka_unit_test(test_rules_by_hand),
		cmocka_unit_test(test_linkage_table_by_hand),
#endif
		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_damage),
	};

	/* The libraries are here for their unwind data. */
	if (!chain_o2_nodes[0] || !chain_cpp_nodes[0] || !chain_o0_nodes[0])
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
