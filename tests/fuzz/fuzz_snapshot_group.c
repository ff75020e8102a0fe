/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row groups behind good checksums. An input that begins like a snapshot is a seed: each of its
 * groups is decoded as it is and with changes that the rest of the input chooses. Any other input
 * is a table number and a group.
 */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "formats/snapshot_group.h"
#include "formats/snapshot_read.h"

#define GROUP_BYTES_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void read_group(unsigned table, const uint8_t *bytes, size_t length)
{
	struct vc_group_reader reader;
	struct vc_tables tables;

	if (vc_tables_init(&tables))
		abort();
	tables.rows[VC_TABLE_strings] = 0;
	tables.text_bytes = 0;
	/* Some columns are not asked for. */
	if (length & 1) {
		free(tables.column[VC_COL_allocations_stack]);
		tables.column[VC_COL_allocations_stack] = NULL;
	}
	if (vc_group_reader_init(&reader, &tables, 1 << 18, 64 << 20))
		abort();
	vc_group_read(&reader, (enum vc_table_index)(table % VC_TABLES), bytes, length, 1 << 18,
		      length & 2);
	vc_tables_repair(&tables, NULL);
	if (vc_tables_check(&tables, NULL))
		abort();
	vc_group_reader_deinit(&reader);
	vc_tables_deinit(&tables);
}

static void read_groups(const uint8_t *bytes, size_t length)
{
	struct vc_container_front front;
	const struct vc_container_section *section;
	size_t frame, used, which = 0;
	uint8_t *group;

	if (vc_container_front_parse(bytes, length, &front, NULL) || !front.sections)
		return;
	for (size_t i = 0; i < length; i++) /* the same for the same input */
		which = which * 31 + bytes[i];
	section = &front.section[which % front.sections];
	frame = section->bytes - sizeof(Elf64_Chdr);
	if (section->bytes < sizeof(Elf64_Chdr) || section->offset > length ||
	    section->bytes > length - section->offset)
		return;
	group = malloc(GROUP_BYTES_MAX);
	used = ZSTD_decompress(group, GROUP_BYTES_MAX, bytes + section->offset + sizeof(Elf64_Chdr),
			       frame);
	if (!ZSTD_isError(used) && used) {
		for (unsigned i = 0; i + 4 <= 8 && length > 8; i += 4) {
			const uint8_t *choice = bytes + (which / 64 + i * 31) % (length - 4);
			size_t at = (choice[0] | (size_t)choice[1] << 8) % used;

			group[choice[3] & 1 ? at % 600 % used : at] ^= choice[2];
		}
		for (unsigned table = 0; table < VC_TABLES; table++)
			if (!strcmp(vc_table_info[table].section, section->name))
				read_group(table, group, used);
	}
	free(group);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	if (vc_snapshot_probe(bytes, length))
		read_groups(bytes, length);
	else if (length)
		read_group(bytes[0], bytes + 1, length - 1);
	return 0;
}
