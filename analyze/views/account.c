/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/account.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/names.h"
#include "analyze/owner.h"
#include "formats/recording.h"

/** What a row of allocations is to the account. */
enum part {
	PART_NOTHING,      /* not device memory, or left out by the mode */
	PART_LIVE,         /* a block, or an allocation without blocks */
	PART_SEGMENT,      /* an allocation that blocks are taken from: what they leave is cached */
	PART_TORCH_SEGMENT,/* the same, of PyTorch's allocator */
	PART_DOUBT,
};

/** Whose allocator's memory it is. */
enum segment_of { SEGMENT_OF_ANY = 1, SEGMENT_OF_TORCH = 2 };
enum module_is { MODULE_IS_DRIVER = 1, MODULE_IS_TORCH = 2 };

/** A run of addresses backed by an allocation. */
struct extent {
	uint64_t address, end;
	uint64_t row;      /* of the allocation or physical handle */
	uint64_t own;      /* of the allocation or mapping */
};

struct work {
	const struct vc_tables *tables;
	enum vc_account_mode mode;
	enum vc_column_index extra;
	uint64_t rows;
	const uint64_t *state, *kind, *address, *size, *device, *stack, *python, *segment, *flags;
	struct extent *extents;
	uint64_t extent_count;
	uint64_t *covered;        /* bytes of blocks in an allocation, by row; NULL: no blocks */
	uint8_t *segment_stack;   /* enum segment_of, by row plus 1 of stacks */
	uint8_t *module_is;       /* enum module_is, by row plus 1 */
	uint64_t group_capacity, *index, index_size;
	struct vc_account *account;
};

static bool is_live(const struct work *work, uint64_t row)
{
	return work->state[row] == VC_STATE_LIVE;
}

static int compare_extents(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* ---- where blocks lie ---- */

/** A live handle, found by its birth number. */
struct birth {
	uint64_t birth, row;
};

static int compare_births(const void *a, const void *b)
{
	const struct birth *x = a, *y = b;

	return x->birth < y->birth ? -1 : x->birth > y->birth;
}

static int list_handles(const struct work *work, struct birth **ret, uint64_t *ret_count)
{
	const uint64_t *birth = work->tables->column[VC_COL_allocations_birth];
	struct birth *list;
	uint64_t count = 0;

	for (uint64_t row = 0; birth && row < work->rows; row++)
		count += work->kind[row] == VC_KIND_HANDLE;
	list = calloc(count ? count : 1, sizeof(*list));
	if (!list)
		return VC_E_NO_MEMORY;
	count = 0;
	for (uint64_t row = 0; birth && row < work->rows; row++)
		if (work->kind[row] == VC_KIND_HANDLE && is_live(work, row))
			list[count++] = (struct birth){birth[row], row};
	qsort(list, count, sizeof(*list), compare_births);
	*ret = list;
	*ret_count = count;
	return 0;
}

/** True for allocations that have an address of their own. */
static bool has_address(uint64_t kind)
{
	return vc_kind_bytes(kind) == VC_BYTES_DEVICE && kind != VC_KIND_HANDLE &&
	       kind != VC_KIND_ARRAY && kind != VC_KIND_MIPMAPPED_ARRAY;
}

static void add_extent(struct work *work, uint64_t row, uint64_t backed_by)
{
	uint64_t end;

	if (__builtin_add_overflow(work->address[row], work->size[row], &end))
		end = UINT64_MAX;
	work->extents[work->extent_count++] =
		(struct extent){work->address[row], end, backed_by, row};
}

static int list_extents(struct work *work)
{
	const uint64_t *parent = work->tables->column[VC_COL_allocations_parent];
	struct birth *handles;
	uint64_t handle_count, count = 0;
	int error = list_handles(work, &handles, &handle_count);

	if (error)
		return error;
	for (uint64_t row = 0; row < work->rows; row++)
		count += has_address(work->kind[row]) || work->kind[row] == VC_KIND_MAPPING;
	work->extents = calloc(count ? count : 1, sizeof(*work->extents));
	for (uint64_t row = 0; work->extents && row < work->rows; row++) {
		if (!is_live(work, row))
			continue;
		if (has_address(work->kind[row])) {
			add_extent(work, row, row);
		} else if (work->kind[row] == VC_KIND_MAPPING && parent && handle_count) {
			struct birth key = {parent[row], 0}, *found;

			found = bsearch(&key, handles, handle_count, sizeof(key), compare_births);
			if (found)
				add_extent(work, row, found->row);
		}
	}
	free(handles);
	if (!work->extents)
		return VC_E_NO_MEMORY;
	qsort(work->extents, work->extent_count, sizeof(*work->extents), compare_extents);
	return 0;
}

/** First extent that ends after the address. Extents do not overlap in a sound file. */
static uint64_t first_extent(const struct work *work, uint64_t address)
{
	uint64_t low = 0, high = work->extent_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (work->extents[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/**
 * Charges a block to the allocations under it, each up to its size; the row of the first one, or
 * `rows`: none. What was charged is what the block counts for.
 */
static uint64_t charge_block(struct work *work, uint64_t row)
{
	uint64_t at = work->address[row], end, first = work->rows;

	if (__builtin_add_overflow(at, work->size[row], &end))
		end = UINT64_MAX;
	for (uint64_t i = first_extent(work, at); i < work->extent_count && at < end; i++) {
		const struct extent *extent = &work->extents[i];
		uint64_t stop = extent->end < end ? extent->end : end, room;

		if (extent->address >= end)
			break;
		if (extent->address > at) {
			work->account->outside_bytes += extent->address - at;
			at = extent->address;
		}
		if (stop <= at)
			continue;
		room = work->size[extent->row] - work->covered[extent->row];
		if (stop - at > room)
			work->account->overlap_bytes += stop - at - room;
		else
			room = stop - at;
		work->covered[extent->row] += room;
		work->account->block_bytes[row] += room;
		at = stop;
		if (first == work->rows)
			first = extent->row;
	}
	work->account->outside_bytes += end - at;
	return first;
}

/** Where a stack called the driver: its innermost frame outside the runtime library. */
struct call_place {
	uint64_t module, offset;
	uint8_t segment;          /* enum segment_of */
};

static int compare_places(const void *a, const void *b)
{
	const struct call_place *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int look_at_modules(struct work *work)
{
	uint64_t modules = work->tables->rows[VC_TABLE_modules];

	work->module_is = calloc(modules + 1, sizeof(*work->module_is));
	for (uint64_t i = 0; work->module_is && i < modules; i++) {
		const char *path = vc_string(work->tables, VC_COL_modules_path, i);
		const char *slash = strrchr(path, '/');

		if (vc_owner_is_driver(path))
			work->module_is[i + 1] = MODULE_IS_DRIVER;
		else if (!strncmp(slash ? slash + 1 : path, "libc10_cuda", 11))
			work->module_is[i + 1] = MODULE_IS_TORCH;
	}
	return work->module_is ? 0 : VC_E_NO_MEMORY;
}

/** The place a stack (row plus 1) calls the driver from; false where it has no frame. */
static bool place_of(const struct work *work, uint64_t stack, struct call_place *ret)
{
	const struct vc_tables *tables = work->tables;
	uint64_t first = vc_value(tables, VC_COL_stacks_first, stack - 1);
	uint64_t count = vc_value(tables, VC_COL_stacks_count, stack - 1);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t module = vc_value(tables, VC_COL_frames_module, first + i);

		if (module > tables->rows[VC_TABLE_modules])
			return false;
		if (work->module_is[module] == MODULE_IS_DRIVER && i + 1 < count)
			continue;
		*ret = (struct call_place){
			module, vc_value(tables, VC_COL_frames_offset, first + i), 0};
		return true;
	}
	return false;
}

/**
 * Marks every stack that calls the driver from the same place as one that is marked, and those of
 * PyTorch's allocator, which may have nothing but free segments.
 */
static int mark_same_places(struct work *work)
{
	uint64_t stacks = work->tables->rows[VC_TABLE_stacks], known = 0;
	struct call_place *places = malloc((stacks ? stacks : 1) * sizeof(*places)), place, *same;

	if (!places)
		return VC_E_NO_MEMORY;
	for (uint64_t stack = 1; stack <= stacks; stack++) {
		if (!work->segment_stack[stack] || !place_of(work, stack, &places[known]))
			continue;
		places[known++].segment = work->segment_stack[stack];
	}
	qsort(places, known, sizeof(*places), compare_places);
	for (uint64_t stack = 1; stack <= stacks; stack++) {
		if (!place_of(work, stack, &place))
			continue;
		same = bsearch(&place, places, known, sizeof(*places), compare_places);
		if (same)
			work->segment_stack[stack] |= same->segment;
		if (work->account->has_torch && work->module_is[place.module] == MODULE_IS_TORCH)
			work->segment_stack[stack] |= SEGMENT_OF_ANY | SEGMENT_OF_TORCH;
	}
	free(places);
	return 0;
}

static bool is_torch_block(const struct work *work, uint64_t row)
{
	return work->kind[row] == VC_KIND_BLOCK && work->flags &&
	       work->flags[row] & VC_FLAG_TORCH;
}

/** Places all live blocks; each takes the device of the allocation under it. */
static int place_blocks(struct work *work, uint32_t *block_device)
{
	uint64_t stacks = work->tables->rows[VC_TABLE_stacks] + 1;
	int error = list_extents(work);

	if (!error)
		error = look_at_modules(work);
	if (error)
		return error;
	work->covered = calloc(work->rows ? work->rows : 1, sizeof(*work->covered));
	work->segment_stack = calloc(stacks, sizeof(*work->segment_stack));
	if (!work->covered || !work->segment_stack)
		return VC_E_NO_MEMORY;
	for (uint64_t row = 0; row < work->rows; row++) {
		uint64_t under;

		if (work->kind[row] != VC_KIND_BLOCK || !is_live(work, row))
			continue;
		under = charge_block(work, row);
		if (under == work->rows)
			continue;
		block_device[row] = (uint32_t)work->device[under];
		if (work->stack[under] < stacks && work->stack[under])
			work->segment_stack[work->stack[under]] |= SEGMENT_OF_ANY |
				(is_torch_block(work, row) ? SEGMENT_OF_TORCH : 0);
	}
	return mark_same_places(work);
}

/* ---- groups ---- */

static uint64_t group_hash(uint64_t stack, uint64_t extra, uint32_t kind, uint32_t device)
{
	uint64_t hash = (stack * 0x9e3779b97f4a7c15u ^ extra * 0xff51afd7ed558ccdu) + kind * 131 +
			device;

	return hash ^ hash >> 29;
}

static int index_grow(struct work *work)
{
	struct vc_account *account = work->account;
	uint64_t size = work->index_size ? work->index_size * 2 : 1024, *index;

	index = calloc(size, sizeof(*index));
	if (!index)
		return VC_E_NO_MEMORY;
	free(work->index);
	work->index = index;
	work->index_size = size;
	for (uint64_t i = 0; i < account->group_count; i++) {
		const struct vc_account_group *group = &account->groups[i];
		uint64_t slot = group_hash(group->stack, group->extra, group->kind,
					   group->device_plus_one) & (size - 1);

		while (index[slot])
			slot = (slot + 1) & (size - 1);
		index[slot] = i + 1;
	}
	return 0;
}

static int find_group(struct work *work, uint64_t row, uint32_t device, uint32_t *ret)
{
	struct vc_account *account = work->account;
	uint64_t extra = work->extra < VC_COLUMNS ? vc_value(work->tables, work->extra, row) : 0;
	uint64_t stack = vc_stack_reference(work->tables, work->stack[row],
					    work->python ? work->python[row] : 0);
	uint32_t kind = (uint32_t)work->kind[row];
	uint64_t slot;
	int error;

	if (account->group_count * 2 >= work->index_size) {
		error = index_grow(work);
		if (error)
			return error;
	}
	slot = group_hash(stack, extra, kind, device) & (work->index_size - 1);
	for (; work->index[slot]; slot = (slot + 1) & (work->index_size - 1)) {
		const struct vc_account_group *group = &account->groups[work->index[slot] - 1];

		if (group->stack == stack && group->extra == extra && group->kind == kind &&
		    group->device_plus_one == device) {
			*ret = (uint32_t)(work->index[slot] - 1);
			return 0;
		}
	}
	if (account->group_count == work->group_capacity) {
		uint64_t capacity = work->group_capacity ? work->group_capacity * 2 : 256;
		void *groups = realloc(account->groups, capacity * sizeof(*account->groups));

		if (!groups || capacity > UINT32_MAX)
			return VC_E_NO_MEMORY;
		account->groups = groups;
		work->group_capacity = capacity;
	}
	account->groups[account->group_count] = (struct vc_account_group){
		.stack = stack, .extra = extra, .kind = kind, .device_plus_one = device};
	work->index[slot] = ++account->group_count;
	*ret = (uint32_t)(account->group_count - 1);
	return 0;
}

static struct vc_account_device *find_device(struct vc_account *account, uint32_t device)
{
	struct vc_account_device *devices;

	for (uint32_t i = 0; i < account->device_count; i++)
		if (account->devices[i].device_plus_one == device)
			return &account->devices[i];
	devices = realloc(account->devices, (account->device_count + 1) * sizeof(*devices));
	if (!devices)
		return NULL;
	account->devices = devices;
	devices[account->device_count] = (struct vc_account_device){.device_plus_one = device};
	return &devices[account->device_count++];
}

/** What a row is to the account, by mode. */
static enum part part_of(const struct work *work, uint64_t row)
{
	enum vc_kind_bytes class = vc_kind_bytes(work->kind[row]);
	bool block = work->kind[row] == VC_KIND_BLOCK;

	if (class != VC_BYTES_DEVICE && !block)
		return PART_NOTHING;
	if (block && work->mode == VC_ACCOUNT_ALLOCATIONS)
		return PART_NOTHING;
	if (!is_live(work, row))
		return block ? PART_NOTHING : PART_DOUBT;
	if (block)
		return PART_LIVE;
	if (work->mode != VC_ACCOUNT_ALLOCATIONS && work->segment && work->segment[row])
		return PART_SEGMENT; /* the dump says so */
	if (work->covered && work->stack[row] &&
	    work->segment_stack[work->stack[row]] & SEGMENT_OF_TORCH)
		return PART_TORCH_SEGMENT;
	if (work->covered && (work->covered[row] ||
			      (work->stack[row] && work->segment_stack[work->stack[row]])))
		return PART_SEGMENT;
	return work->mode == VC_ACCOUNT_BLOCKS ? PART_NOTHING : PART_LIVE;
}

static void count_segment(struct work *work, struct vc_account_group *group,
			  struct vc_account_device *device, uint64_t row)
{
	uint64_t left = work->size[row] - (work->covered ? work->covered[row] : 0);

	group->cached_bytes += left;
	group->cached_count++;
	device->cached_bytes += left;
	device->cached_allocations++;
}

static void count_live(const struct work *work, struct vc_account_group *group,
		       struct vc_account_device *device, uint64_t row)
{
	uint64_t size = vc_account_row_bytes(work->account, work->tables, row);
	uint32_t kind = (uint32_t)work->kind[row] % VC_KINDS;

	group->bytes += size;
	group->count++;
	device->live_bytes += size;
	device->live_count++;
	device->kind_bytes[kind] += size;
	device->kind_count[kind]++;
	if (kind == VC_KIND_BLOCK) {
		device->block_bytes += size;
		device->block_count++;
	}
}

static void count_torch(const struct work *work, enum part part, struct vc_account_device *device,
			uint64_t row)
{
	if (part == PART_TORCH_SEGMENT) {
		device->torch_reserved += work->size[row];
		device->torch_segments++;
		device->torch_cached += work->size[row] - work->covered[row];
	} else if (part == PART_LIVE && is_torch_block(work, row)) {
		device->torch_blocks++;
		device->torch_bytes += vc_account_row_bytes(work->account, work->tables, row);
		device->torch_allocated += work->size[row];
	}
}

static int count_row(struct work *work, uint64_t row, uint32_t device_plus_one)
{
	struct vc_account *account = work->account;
	enum part part = part_of(work, row);
	struct vc_account_device *device = find_device(account, device_plus_one);
	struct vc_account_group *group;
	uint32_t number;
	int error;

	account->group_of_row[row] = UINT32_MAX;
	account->row_part[row] = (uint8_t)part;
	if (!device)
		return VC_E_NO_MEMORY;
	if (part == PART_NOTHING) {
		if (is_live(work, row) && vc_kind_bytes(work->kind[row]) != VC_BYTES_DEVICE) {
			device->kind_bytes[work->kind[row] % VC_KINDS] += work->size[row];
			device->kind_count[work->kind[row] % VC_KINDS]++;
		}
		return 0;
	}
	error = find_group(work, row, device_plus_one, &number);
	if (error)
		return error;
	account->group_of_row[row] = number;
	group = &account->groups[number];
	if (part == PART_DOUBT) {
		group->doubt_bytes += work->size[row];
		group->doubt_count++;
		device->doubt_bytes += work->size[row];
		device->doubt_count++;
		return 0;
	}
	if (work->kind[row] != VC_KIND_BLOCK) {
		device->reserved_bytes += work->size[row];
		device->reserved_count++;
	}
	count_torch(work, part, device, row);
	if (part == PART_SEGMENT || part == PART_TORCH_SEGMENT)
		count_segment(work, group, device, row);
	else
		count_live(work, group, device, row);
	return 0;
}

static int compare_devices(const void *a, const void *b)
{
	const struct vc_account_device *x = a, *y = b;

	return x->device_plus_one < y->device_plus_one ? -1 :
						       x->device_plus_one > y->device_plus_one;
}

/** Whether PyTorch's allocator told of a block that is live, or of its totals. */
static bool torch_told(const struct work *work)
{
	for (uint64_t i = 0; i < work->tables->rows[VC_TABLE_devices]; i++)
		if (vc_value(work->tables, VC_COL_devices_torch_known, i))
			return true;
	for (uint64_t row = 0; row < work->rows; row++)
		if (is_torch_block(work, row))
			return true;
	return false;
}

static int count_all(struct work *work)
{
	struct vc_account *account = work->account;
	uint32_t *block_device = NULL;
	int error = 0;

	for (uint64_t row = 0; row < work->rows && !account->has_blocks; row++)
		account->has_blocks = work->mode != VC_ACCOUNT_ALLOCATIONS &&
				      work->kind[row] == VC_KIND_BLOCK && is_live(work, row);
	account->has_torch = work->mode != VC_ACCOUNT_ALLOCATIONS && torch_told(work);
	if (account->has_blocks || account->has_torch) {
		block_device = calloc(work->rows + 1, sizeof(*block_device));
		account->block_bytes = calloc(work->rows + 1, sizeof(*account->block_bytes));
		error = block_device && account->block_bytes ? place_blocks(work, block_device) :
							       VC_E_NO_MEMORY;
	}
	for (uint64_t row = 0; row < work->rows && !error; row++) {
		uint32_t device = (uint32_t)work->device[row];

		if (block_device && block_device[row])
			device = block_device[row];
		if (work->device[row] > VC_MODEL_DEVICES_MOST)
			device = 0;
		error = count_row(work, row, device);
	}
	for (uint64_t i = 0; !error && i < work->extent_count; i++) {
		const struct extent *extent = &work->extents[i];

		if (extent->own != extent->row && vc_account_row_is_segment(account, extent->row))
			account->row_part[extent->own] = account->row_part[extent->row];
	}
	free(block_device);
	if (!error && account->device_count)
		qsort(account->devices, account->device_count, sizeof(*account->devices),
		      compare_devices);
	return error;
}

int vc_account_make(const struct vc_tables *tables, enum vc_account_mode mode,
		    enum vc_column_index extra, struct vc_account *ret)
{
	struct vc_account account = {0};
	struct work work = {
		.tables = tables, .mode = mode, .extra = extra, .account = &account,
		.rows = tables->rows[VC_TABLE_allocations],
		.state = tables->column[VC_COL_allocations_state],
		.kind = tables->column[VC_COL_allocations_kind],
		.address = tables->column[VC_COL_allocations_address],
		.size = tables->column[VC_COL_allocations_size],
		.device = tables->column[VC_COL_allocations_device_plus_one],
		.stack = tables->column[VC_COL_allocations_stack],
		.python = tables->column[VC_COL_allocations_python],
		.segment = tables->column[VC_COL_allocations_segment],
		.flags = tables->column[VC_COL_allocations_flags],
	};
	uint64_t room = work.rows ? work.rows : 1;
	int error;

	if (!work.state || !work.kind || !work.address || !work.size || !work.device || !work.stack)
		work.rows = 0; /* the table is damaged: the evidence says so */
	account.group_of_row = malloc(room * sizeof(*account.group_of_row));
	account.row_part = calloc(room, sizeof(*account.row_part));
	account.rows = work.rows;
	error = account.group_of_row && account.row_part ? count_all(&work) : VC_E_NO_MEMORY;
	free(work.extents);
	free(work.covered);
	free(work.segment_stack);
	free(work.module_is);
	free(work.index);
	if (error)
		vc_account_deinit(&account);
	else
		*ret = account;
	return error;
}

void vc_account_deinit(struct vc_account *account)
{
	free(account->groups);
	free(account->group_of_row);
	free(account->devices);
	free(account->row_part);
	free(account->block_bytes);
	*account = (struct vc_account){0};
}

uint64_t vc_account_row_bytes(const struct vc_account *account, const struct vc_tables *tables,
			      uint64_t row)
{
	if (account->row_part[row] != PART_LIVE)
		return 0;
	if (account->block_bytes && tables->column[VC_COL_allocations_kind][row] == VC_KIND_BLOCK)
		return account->block_bytes[row];
	return tables->column[VC_COL_allocations_size][row];
}

bool vc_account_row_is_torch(const struct vc_account *account, uint64_t row)
{
	return row < account->rows && account->row_part[row] == PART_TORCH_SEGMENT;
}

bool vc_account_row_is_segment(const struct vc_account *account, uint64_t row)
{
	return row < account->rows && (account->row_part[row] == PART_SEGMENT ||
				       account->row_part[row] == PART_TORCH_SEGMENT);
}

const struct vc_account_device *vc_account_find_device(const struct vc_account *account,
						       uint32_t device_plus_one)
{
	for (uint32_t i = 0; i < account->device_count; i++)
		if (account->devices[i].device_plus_one == device_plus_one)
			return &account->devices[i];
	return NULL;
}

uint32_t *vc_account_order(const struct vc_account *account, struct vc_arena *arena,
			   uint32_t *ret_count)
{
	uint32_t *order = vc_arena_allocate(arena, account->device_count, sizeof(*order)),
		 count = 0;

	for (uint32_t i = 0; order && i < account->device_count; i++) {
		const struct vc_account_device *device = &account->devices[i];
		uint32_t at = count;

		if (!device->live_count && !device->reserved_count && !device->doubt_count)
			continue;
		while (at && account->devices[order[at - 1]].live_bytes < device->live_bytes) {
			order[at] = order[at - 1];
			at--;
		}
		order[at] = i;
		count++;
	}
	*ret_count = count;
	return order;
}

uint64_t vc_account_most_live(const struct vc_account *account)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < account->device_count; i++)
		if (account->devices[i].live_bytes > most)
			most = account->devices[i].live_bytes;
	return most;
}

const char *vc_account_unit(const struct vc_account_device *device)
{
	bool one = device->live_count == 1;

	if (!device->block_count)
		return one ? "allocation" : "allocations";
	if (device->block_count == device->live_count)
		return one ? "block" : "blocks";
	return "blocks and allocations";
}
