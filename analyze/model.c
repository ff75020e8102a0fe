/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/model.h"

#include <string.h>

void vc_wanted_table(struct vc_wanted_columns *wanted, enum vc_table_index table)
{
	const struct vc_table_info *info = &vc_table_info[table];

	for (unsigned i = 0; i < info->columns; i++)
		wanted->column[info->first + i] = true;
}

void vc_wanted_small(struct vc_wanted_columns *wanted)
{
	for (unsigned table = 0; table < VC_TABLES; table++)
		if (table != VC_TABLE_allocations && table != VC_TABLE_freed &&
		    table != VC_TABLE_trace)
			vc_wanted_table(wanted, (enum vc_table_index)table);
}

void vc_model_close(struct vc_model *model)
{
	vc_tables_deinit(&model->tables);
	*model = (struct vc_model){0};
}

bool vc_same_process(const struct vc_tables *a, const struct vc_tables *b)
{
	static const enum vc_column_index number[] = {VC_COL_process_pid,
						      VC_COL_process_start_time};
	const char *boot = vc_string(a, VC_COL_process_boot_id, 0);

	for (unsigned i = 0; i < sizeof(number) / sizeof(*number); i++)
		if (!vc_value(a, number[i], 0) ||
		    vc_value(a, number[i], 0) != vc_value(b, number[i], 0))
			return false;
	return !strcmp(boot, vc_string(b, VC_COL_process_boot_id, 0)) &&
	       !strcmp(vc_string(a, VC_COL_process_host, 0), vc_string(b, VC_COL_process_host, 0));
}

int vc_device_row(const struct vc_tables *tables, uint64_t device, uint64_t *ret)
{
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_devices]; i++) {
		if (vc_value(tables, VC_COL_devices_device, i) == device) {
			*ret = i;
			return 0;
		}
	}
	return VC_E_NOT_FOUND;
}
