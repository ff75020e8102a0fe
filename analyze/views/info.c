/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/info.h"

#include <string.h>

#include "analyze/model.h"
#include "analyze/views/oom.h"
#include "analyze/views/roles.h"
#include "analyze/views/torch.h"
#include "formats/walk_tensors.h"

bool vc_info_is_beside(unsigned kind)
{
	enum vc_kind_bytes bytes = vc_kind_bytes(kind);

	return kind != VC_KIND_BLOCK && kind != VC_KIND_UNKNOWN && bytes != VC_BYTES_DEVICE;
}

bool vc_info_has_device(const struct vc_info *info, uint32_t device_plus_one)
{
	for (uint32_t i = 0; i < info->device_count; i++)
		if (info->devices[i] == device_plus_one)
			return true;
	return false;
}

static int list_devices(const struct vc_tables *tables, const struct vc_account *account,
			struct vc_arena *arena, struct vc_info *info)
{
	uint64_t rows = tables->rows[VC_TABLE_devices];
	uint32_t count, *order = vc_account_order(account, arena, &count);

	info->devices = vc_arena_allocate(arena, rows + account->device_count,
					  sizeof(*info->devices));
	if (!order || !info->devices)
		return VC_E_NO_MEMORY;
	for (uint32_t i = 0; i < count; i++)
		info->devices[info->device_count++] = account->devices[order[i]].device_plus_one;
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t ordinal = vc_value(tables, VC_COL_devices_device, i);
		uint32_t device = (uint32_t)ordinal + 1;

		if (ordinal < VC_MODEL_DEVICES_MOST && !vc_info_has_device(info, device))
			info->devices[info->device_count++] = device;
	}
	return 0;
}

static const char *walk_not_known(const struct vc_tables *tables)
{
	uint64_t flags = vc_value(tables, VC_COL_walks_flags, 0);

	if (flags & VC_WALKED_CUT)
		return "not known: some tensors (the time for the walk over them was up)";
	if (flags & VC_WALKED_HOLDERS_CUT)
		return "not known: what keeps some tensors alive (the time for that was up)";
	if (flags & VC_WALKED_NO_MEMORY)
		return "not known: some tensors (the memory for the walk over them was used up)";
	if (flags & VC_WALKED_BESIDE)
		return "not known: gradients and saved tensors (another thread was in PyTorch at that moment)";
	if (!(flags & VC_WALKED_FULL))
		return "not known: gradients and saved tensors (the moment was not taken on the thread "
		       "that trains)";
	if (flags & VC_WALKED_APART && vc_value(tables, VC_COL_process_peak_device_plus_one, 0))
		return "not known: some tensors (" VC_ROLES_APART ")";
	return "";
}

/* Whether a moment was taken without the interpreter, which did not answer. */
static bool missed(const struct vc_tables *tables)
{
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_evidence]; i++)
		if (!strcmp(vc_string(tables, VC_COL_evidence_key, i), "interpreter_missed"))
			return vc_value(tables, VC_COL_evidence_value, i) != 0;
	return false;
}

const char *vc_info_not_known(const struct vc_tables *tables)
{
	if (vc_is_import(tables))
		return vc_torch_not_known;
	if (tables->rows[VC_TABLE_walks] && !*vc_string(tables, VC_COL_walks_why, 0))
		return walk_not_known(tables);
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_modules]; i++) {
		const char *path = vc_string(tables, VC_COL_modules_path, i);

		if (strstr(path, "/libtorch") || strstr(path, "/libc10"))
			return missed(tables) ?
				"not known: tensors, roles (the Python interpreter did not answer in time: "
				"see the evidence)" :
				"not known: tensors, roles (PyTorch was not asked at this moment)";
	}
	return "not known: tensors, roles (no PyTorch in this process)";
}

/** Whether an allocating call of a live row came through a library with this in its path. */
static bool allocates(const struct vc_tables *tables, const char *library)
{
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_allocations]; row++) {
		uint64_t stack = vc_value(tables, VC_COL_allocations_stack, row), first, count;

		if (!stack || vc_kind_bytes(vc_value(tables, VC_COL_allocations_kind, row)) !=
				      VC_BYTES_DEVICE)
			continue;
		first = vc_value(tables, VC_COL_stacks_first, stack - 1);
		count = vc_value(tables, VC_COL_stacks_count, stack - 1);
		for (uint64_t i = 0; i < count; i++) {
			uint64_t module = vc_value(tables, VC_COL_frames_module, first + i);

			if (module && strstr(vc_string(tables, VC_COL_modules_path, module - 1),
					     library))
				return true;
		}
	}
	return false;
}

static const char *environment_value(const struct vc_tables *tables, const char *name)
{
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_environment]; i++)
		if (!strcmp(vc_string(tables, VC_COL_environment_name, i), name))
			return vc_string(tables, VC_COL_environment_value, i);
	return "";
}

const char *vc_info_silent_torch(const struct vc_tables *tables, const struct vc_account *account)
{
	if (account->has_torch || vc_is_import(tables) ||
	    !(allocates(tables, "/libtorch") || allocates(tables, "/libc10_cuda")))
		return NULL;
	if (strstr(environment_value(tables, "PYTORCH_CUDA_ALLOC_CONF"), "cudaMallocAsync") ||
	    strstr(environment_value(tables, "PYTORCH_ALLOC_CONF"), "cudaMallocAsync"))
		return "PyTorch's allocator reported no blocks (backend cudaMallocAsync does not): "
		       "each of its tensors is an allocation of the driver's";
	if (*environment_value(tables, "PYTORCH_NO_CUDA_MEMORY_CACHING"))
		return "PyTorch's allocator reported no blocks (PYTORCH_NO_CUDA_MEMORY_CACHING): "
		       "each of its tensors is an allocation of the driver's";
	return "PyTorch's allocator reported no blocks (a pluggable allocator, another back end, or "
	       "none allocated yet): what the driver gave it is all that is seen";
}

int vc_info_make(const struct vc_tables *tables, const struct vc_account *account,
		 struct vc_arena *arena, struct vc_info *ret)
{
	struct vc_info info = {
		.counts = {
			{"allocations", "allocation, object or block",
			 "allocations, objects and blocks", tables->rows[VC_TABLE_allocations]},
			{"freed", "freed entry", "freed entries", tables->rows[VC_TABLE_freed]},
			{"sites", "site", "sites", tables->rows[VC_TABLE_sites]},
			{"stacks", "stack", "stacks", tables->rows[VC_TABLE_stacks]},
			{"modules", "module", "modules", tables->rows[VC_TABLE_modules]},
			{"threads", "thread", "threads", tables->rows[VC_TABLE_threads]},
			{"failures", "failed allocation", "failed allocations",
			 vc_oom_count(tables)},
			{"segments", "segment", "segments", tables->rows[VC_TABLE_segments]},
			{"blocks", "block in all", "blocks in all", tables->rows[VC_TABLE_blocks]},
			{"events", "event of the trace", "events of the trace",
			 vc_value(tables, VC_COL_origin_events, 0)},
			{"annotations", "annotation", "annotations",
			 tables->rows[VC_TABLE_annotations]},
		},
	};
	uint64_t start = vc_value(tables, VC_COL_process_start_time, 0);
	uint64_t end = vc_value(tables, VC_COL_process_snapshot_time, 0);
	int error = list_devices(tables, account, arena, &info);

	if (error)
		return error;
	info.recorded = start && end > start ? end - start : 0;
	for (uint32_t i = 0; i < account->device_count; i++)
		if (account->devices[i].reserved_bytes > info.most_reserved)
			info.most_reserved = account->devices[i].reserved_bytes;
	*ret = info;
	return 0;
}
