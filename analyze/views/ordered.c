/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/ordered.h"

#include <stdlib.h>
#include <string.h>

#include "formats/error.h"

struct leaf {
	uint64_t address[VC_ORDERED_FAN], size[VC_ORDERED_FAN];
	uint64_t count;
};

struct vc_ordered_group {
	uint64_t first[VC_ORDERED_FAN]; /* address in each leaf */
	struct leaf *leaves[VC_ORDERED_FAN];
	uint64_t count;
};

/** A place in the set: entry `at` of a leaf, which may be one past its last. */
struct position {
	struct vc_ordered_group *group;
	struct leaf *leaf;
	uint64_t in_set, in_group, at;
};

void vc_ordered_deinit(struct vc_ordered *set)
{
	for (uint64_t i = 0; i < set->count; i++) {
		for (uint64_t j = 0; j < set->groups[i]->count; j++)
			free(set->groups[i]->leaves[j]);
		free(set->groups[i]);
	}
	free(set->groups);
	free(set->first);
	*set = (struct vc_ordered){0};
}

/** How many of the sorted numbers are at most `number`. */
static uint64_t count_up_to(const uint64_t *numbers, uint64_t count, uint64_t number)
{
	uint64_t low = 0, high = count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (numbers[middle] <= number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/** Where an address is, or where it would be added; the set is not empty. */
static struct position find(const struct vc_ordered *set, uint64_t address)
{
	struct position position = {0};

	position.in_set = count_up_to(set->first, set->count, address);
	position.in_set -= position.in_set != 0;
	position.group = set->groups[position.in_set];
	position.in_group = count_up_to(position.group->first, position.group->count, address);
	position.in_group -= position.in_group != 0;
	position.leaf = position.group->leaves[position.in_group];
	position.at = count_up_to(position.leaf->address, position.leaf->count, address);
	return position;
}

/** Moves entries of an array of 64-bit entries to make room at `at`, or to close a gap there. */
static void shift(void *array, uint64_t count, uint64_t at, bool open)
{
	uint64_t *entries = array;

	if (open)
		memmove(entries + at + 1, entries + at, (count - at) * sizeof(*entries));
	else
		memmove(entries + at, entries + at + 1, (count - at - 1) * sizeof(*entries));
}

_Static_assert(sizeof(void *) == sizeof(uint64_t), "pointers move as numbers do");

static int add_group(struct vc_ordered *set, uint64_t at, struct vc_ordered_group *group)
{
	if (set->count == set->capacity) {
		uint64_t capacity = set->capacity ? set->capacity * 2 : 16;
		void *groups = realloc(set->groups, capacity * sizeof(*set->groups)), *first;

		if (groups)
			set->groups = groups;
		first = groups ? realloc(set->first, capacity * sizeof(*set->first)) : NULL;
		if (!first)
			return VC_E_NO_MEMORY;
		set->first = first;
		set->capacity = capacity;
	}
	shift(set->groups, set->count, at, true);
	shift(set->first, set->count, at, true);
	set->groups[at] = group;
	set->first[at] = group->first[0];
	set->count++;
	return 0;
}

/** Moves leaves of a full group to a new one behind it. */
static int split_group(struct vc_ordered *set, uint64_t in_set)
{
	struct vc_ordered_group *old = set->groups[in_set];
	struct vc_ordered_group *group = calloc(1, sizeof(*group));
	uint64_t kept = VC_ORDERED_FAN / 2;
	int error;

	if (!group)
		return VC_E_NO_MEMORY;
	group->count = old->count - kept;
	memcpy(group->first, old->first + kept, group->count * sizeof(*group->first));
	memcpy(group->leaves, old->leaves + kept, group->count * sizeof(struct leaf *));
	error = add_group(set, in_set + 1, group);
	if (error)
		free(group);
	else
		old->count = kept;
	return error;
}

/** Moves entries of a full leaf to a new one behind it, in a group that has room. */
static int split_leaf(const struct vc_ordered *set, struct position *position, uint64_t address)
{
	struct vc_ordered_group *group = position->group;
	struct leaf *old = position->leaf, *leaf = calloc(1, sizeof(*leaf));
	uint64_t at = position->in_group + 1;
	/* the last one of all stays full: what rises goes on behind it */
	bool last = position->in_set + 1 == set->count && at == group->count &&
		    position->at == old->count;
	uint64_t kept = last ? VC_ORDERED_FAN : VC_ORDERED_FAN / 2;

	if (!leaf)
		return VC_E_NO_MEMORY;
	leaf->count = old->count - kept;
	memcpy(leaf->address, old->address + kept, leaf->count * sizeof(*leaf->address));
	memcpy(leaf->size, old->size + kept, leaf->count * sizeof(*leaf->size));
	old->count = kept;
	shift(group->leaves, group->count, at, true);
	shift(group->first, group->count, at, true);
	group->leaves[at] = leaf;
	group->first[at] = leaf->count ? leaf->address[0] : address;
	group->count++;
	if (position->at > kept || !leaf->count) {
		position->at -= kept;
		position->leaf = leaf;
		position->in_group = at;
	}
	return 0;
}

/** The first group, of one empty leaf. */
static int start(struct vc_ordered *set, uint64_t address)
{
	struct vc_ordered_group *group = calloc(1, sizeof(*group));
	struct leaf *leaf = calloc(1, sizeof(*leaf));
	int error = group && leaf ? 0 : VC_E_NO_MEMORY;

	if (!error) {
		group->first[0] = address;
		group->leaves[0] = leaf;
		group->count = 1;
		error = add_group(set, 0, group);
	}
	if (error) {
		free(group);
		free(leaf);
	}
	return error;
}

/** The entry before a position: its leaf and index; NULL none. Leaves are never empty. */
static const struct leaf *before(const struct vc_ordered *set, const struct position *position,
				 uint64_t *ret)
{
	const struct vc_ordered_group *group = position->group;
	const struct leaf *leaf = position->leaf;

	if (position->at) {
		*ret = position->at - 1;
		return leaf;
	}
	if (!position->in_group && !position->in_set)
		return NULL;
	if (!position->in_group)
		group = set->groups[position->in_set - 1];
	leaf = group->leaves[position->in_group ? position->in_group - 1 : group->count - 1];
	*ret = leaf->count - 1;
	return leaf;
}

static bool address_after(const struct vc_ordered *set, const struct position *position,
			  uint64_t *ret)
{
	if (position->at < position->leaf->count)
		*ret = position->leaf->address[position->at];
	else if (position->in_group + 1 < position->group->count)
		*ret = position->group->first[position->in_group + 1];
	else if (position->in_set + 1 < set->count)
		*ret = set->first[position->in_set + 1];
	else
		return false;
	return true;
}

static bool overlap(const struct vc_ordered *set, const struct position *position,
		    uint64_t address, uint64_t size)
{
	uint64_t at, after;
	const struct leaf *leaf = before(set, position, &at);

	if (!size)
		return false;
	return (address_after(set, position, &after) && after - address < size) ||
	       (leaf && address - leaf->address[at] < leaf->size[at]);
}

/** Makes room where the address belongs. */
static int make_room(struct vc_ordered *set, uint64_t address, struct position *position)
{
	int error = 0;

	if (position->leaf->count < VC_ORDERED_FAN)
		return 0;
	if (position->group->count == VC_ORDERED_FAN) {
		error = split_group(set, position->in_set);
		*position = find(set, address);
	}
	return error ? error : split_leaf(set, position, address);
}

int vc_ordered_add(struct vc_ordered *set, uint64_t address, uint64_t size, bool *overlaps)
{
	struct position position;
	struct leaf *leaf;
	int error = set->count ? 0 : start(set, address);

	if (error)
		return error;
	position = find(set, address);
	*overlaps = overlap(set, &position, address, size);
	error = make_room(set, address, &position);
	if (error)
		return error;
	leaf = position.leaf;
	shift(leaf->address, leaf->count, position.at, true);
	shift(leaf->size, leaf->count, position.at, true);
	leaf->address[position.at] = address;
	leaf->size[position.at] = size;
	leaf->count++;
	position.group->first[position.in_group] = leaf->address[0];
	set->first[position.in_set] = position.group->first[0];
	return 0;
}

static void drop_leaf(struct vc_ordered *set, const struct position *position)
{
	struct vc_ordered_group *group = position->group;

	free(position->leaf);
	shift(group->leaves, group->count, position->in_group, false);
	shift(group->first, group->count, position->in_group, false);
	group->count--;
	if (group->count) {
		set->first[position->in_set] = group->first[0];
		return;
	}
	free(group);
	shift(set->groups, set->count, position->in_set, false);
	shift(set->first, set->count, position->in_set, false);
	set->count--;
}

uint64_t vc_ordered_remove(struct vc_ordered *set, uint64_t address)
{
	struct position position;
	struct leaf *leaf;
	uint64_t size;

	if (!set->count)
		return 0;
	position = find(set, address);
	leaf = position.leaf;
	if (!position.at || leaf->address[position.at - 1] != address)
		return 0;
	size = leaf->size[--position.at];
	shift(leaf->address, leaf->count, position.at, false);
	shift(leaf->size, leaf->count, position.at, false);
	leaf->count--;
	if (!leaf->count) {
		drop_leaf(set, &position);
		return size;
	}
	position.group->first[position.in_group] = leaf->address[0];
	set->first[position.in_set] = position.group->first[0];
	return size;
}
