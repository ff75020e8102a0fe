/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/cell.h"

#include <stdio.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/source_frame.h"
#include "formats/walk.h"

/** The kernel's own number of the cell, from the walk; NULL. */
static const char *number_of(const struct vc_tables *tables, const char *file)
{
	const size_t length = sizeof(VC_FACT_CELL) - 1;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_framework]; row++) {
		const char *key = vc_string(tables, VC_COL_framework_key, row);

		if (!strncmp(key, VC_FACT_CELL, length) && !strcmp(key + length, file))
			return vc_string(tables, VC_COL_framework_value, row);
	}
	return NULL;
}

bool vc_cell_name(const struct vc_tables *tables, const char *file, char ret[VC_CELL_BYTES])
{
	static const char input[] = "<ipython-input-";
	const char *number = NULL, *name;
	int length;

	if (!strncmp(file, input, sizeof(input) - 1)) {
		number = file + sizeof(input) - 1;
		length = (int)strspn(number, "0123456789");
		snprintf(ret, VC_CELL_BYTES, "cell In[%.*s]", length < 20 ? length : 20, number);
		return length > 0;
	}
	number = number_of(tables, file);
	if (number) {
		snprintf(ret, VC_CELL_BYTES, "cell In[%.20s]", number);
		return true;
	}
	if (!strstr(file, "/ipykernel_") && !strstr(file, "\\ipykernel_"))
		return false;
	name = vc_path_name(file);
	length = (int)strcspn(name, ".");
	snprintf(ret, VC_CELL_BYTES, "cell %.*s", length < 40 ? length : 40, name);
	return length > 0;
}
