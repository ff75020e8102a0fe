/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/torch_take.h"

static int wrong_type(struct vc_torch *torch, const char *record, uint64_t key, uint64_t value,
		      const char *wanted)
{
	return vc_values_wrong(&torch->values, VC_E_CORRUPT, "%s: %.60s is %s, not %s", record,
			       vc_tables_text(torch->tables, vc_value_content(key)),
			       vc_value_kind(value), wanted);
}

int vc_torch_take_number(struct vc_torch *torch, const char *record, const uint64_t *pair,
			 uint64_t *ret)
{
	if (vc_value_tag(pair[1]) == VC_VALUE_INTEGER) {
		*ret = (uint64_t)((int64_t)(pair[1] << 8) >> 8);
		return 0;
	}
	if (vc_value_tag(pair[1]) == VC_VALUE_NONE) {
		*ret = 0;
		return 0;
	}
	if (vc_values_get_number(&torch->values, pair[1], ret))
		return wrong_type(torch, record, pair[0], pair[1], "a number");
	return 0;
}

int vc_torch_take_text(struct vc_torch *torch, const char *record, const uint64_t *pair,
		       uint64_t *ret)
{
	if (vc_value_tag(pair[1]) == VC_VALUE_TEXT)
		*ret = vc_value_content(pair[1]);
	else if (vc_value_tag(pair[1]) == VC_VALUE_NONE)
		*ret = 0;
	else
		return wrong_type(torch, record, pair[0], pair[1], "a text");
	return 0;
}

int vc_torch_take_pair(struct vc_torch *torch, const char *record, const uint64_t *pair,
		       uint64_t *first, uint64_t *second)
{
	const struct vc_node *node;
	unsigned tag = vc_value_tag(pair[1]);

	if (tag == VC_VALUE_PAIR) {
		*first = vc_value_content(pair[1]) >> 28;
		*second = vc_value_content(pair[1]) & ((1u << 28) - 1);
		return 0;
	}
	if (tag == VC_VALUE_TUPLE || tag == VC_VALUE_LIST) {
		node = vc_values_node(&torch->values, pair[1]);
		if (node->count == 2 &&
		    !vc_values_get_number(&torch->values, node->items[0], first) &&
		    !vc_values_get_number(&torch->values, node->items[1], second))
			return 0;
	}
	return wrong_type(torch, record, pair[0], pair[1], "a pair of numbers");
}

int vc_torch_take_stack(struct vc_torch *torch, const char *record, const uint64_t *pair,
			uint64_t *ret)
{
	unsigned tag = vc_value_tag(pair[1]);

	if (tag == VC_TORCH_STACK)
		*ret = vc_value_content(pair[1]) + 1;
	else if (tag == VC_VALUE_NEW_LIST || tag == VC_VALUE_NONE)
		*ret = 0;
	else
		return wrong_type(torch, record, pair[0], pair[1], "a list of frames");
	return 0;
}

int vc_torch_take_run(struct vc_torch *torch, const char *record, const uint64_t *pair,
		      enum vc_torch_tag tag, uint64_t *first, uint64_t *count)
{
	unsigned kind = vc_value_tag(pair[1]);

	*first = *count = 0;
	if (kind == VC_VALUE_NEW_LIST || kind == VC_VALUE_NONE)
		return 0;
	if (kind == VC_VALUE_RUN && vc_values_node(&torch->values, pair[1])->tag == tag) {
		*first = vc_values_node(&torch->values, pair[1])->capacity;
		*count = vc_values_node(&torch->values, pair[1])->count;
		return 0;
	}
	return wrong_type(torch, record, pair[0], pair[1],
			  tag == VC_TORCH_BLOCK ? "a list of its own blocks" :
						  "a list of its own older blocks");
}
