/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/interpreter_allocator.h"

#include <string.h>

#include "capture/inside/interpreter_api.h"
#include "capture/inside/text.h"

/* Blocks whose list is asked for; 5 to 8 us each, measured with PyTorch 2.15. */
#define BLOCKS_MAX 10000u
#define BLOCKS_MAX_FAILURE 200000u
#define DEVICES_MAX 64u

#define TORCH "torch"

static struct vc_python_object *torch_c(const char *name)
{
	return vc_py_global(vc_py_module("torch._C"), name);
}

/* A new reference; NULL: there is no such function, or it raised. */
static struct vc_python_object *call(const char *name, struct vc_python_object *argument)
{
	struct vc_python_object *function = torch_c(name), *result;

	if (!function)
		return NULL;
	result = vc_py.PyObject_CallFunctionObjArgs(function, argument, NULL);
	if (!result)
		vc_py.PyErr_Clear();
	return result;
}

static void fact(struct vc_walk_file *walk, const char *key, struct vc_python_object *value)
{
	struct vc_python_object *text = value ? vc_py.PyObject_Str(value) : NULL;
	const char *characters = vc_py_text(text);

	if (characters)
		vc_walk_fact(walk, key, characters, TORCH);
	if (text)
		vc_py.Py_DecRef(text);
	vc_py.PyErr_Clear();
}

static void fact_of_call(struct vc_walk_file *walk, const char *key, const char *function,
			 struct vc_python_object *argument)
{
	struct vc_python_object *value = call(function, argument);

	fact(walk, key, value);
	if (value)
		vc_py.Py_DecRef(value);
}

/* ---- totals of a device ---- */

static void key_of_device(char *key, size_t size, const char *name, uint64_t device)
{
	struct vc_text text = vc_text_in(key, size);

	vc_text_add(&text, name);
	vc_text_add(&text, ".");
	vc_text_number(&text, device);
}

/* The current value of one of PyTorch's statistics. */
static uint64_t statistic(struct vc_python_object *statistics, const char *name)
{
	struct vc_python_object *all = vc_py_item(vc_py_item(statistics, name), "all");

	return vc_py_number(vc_py_item(all, "current"), UINT64_MAX);
}

/*
 * PyTorch 2.6 makes the device that is asked for the current one, and its context where there is
 * none: so only of a device that is used, and the current one comes back.
 */
static void memory_fraction(struct vc_walk_file *walk, uint64_t device,
			    struct vc_python_object *number)
{
	struct vc_python_object *current = call("_cuda_getDevice", NULL), *other = NULL;
	char key[64];

	key_of_device(key, sizeof(key), "memory_fraction", device);
	if (current && torch_c("_cuda_maybeExchangeDevice")) {
		fact_of_call(walk, key, "_cuda_getMemoryFraction", number);
		other = call("_cuda_maybeExchangeDevice", current);
	}
	if (other)
		vc_py.Py_DecRef(other);
	if (current)
		vc_py.Py_DecRef(current);
}

/* Gives the blocks of the device, free ones too. */
static uint64_t device_facts(struct vc_walk_file *walk, uint64_t device)
{
	static const char *const names[][2] = {{"allocated_bytes", "memory_allocated"},
					       {"reserved_bytes", "memory_reserved"},
					       {"requested_bytes", "memory_requested"}};
	struct vc_python_object *number = vc_py.PyLong_FromUnsignedLongLong(device);
	struct vc_python_object *statistics = number ? call("_cuda_memoryStats", number) : NULL;
	uint64_t active, inactive, value, retries, failures, reserved;
	char key[64];

	for (size_t i = 0; statistics && i < sizeof(names) / sizeof(names[0]); i++) {
		value = statistic(statistics, names[i][0]);
		key_of_device(key, sizeof(key), names[i][1], device);
		if (value != UINT64_MAX)
			vc_walk_fact_number(walk, key, value, TORCH);
	}
	retries = vc_py_number(vc_py_item(statistics, "num_alloc_retries"), 0);
	failures = vc_py_number(vc_py_item(statistics, "num_ooms"), 0);
	key_of_device(key, sizeof(key), "allocation_retries", device);
	if (retries)
		vc_walk_fact_number(walk, key, retries, TORCH);
	key_of_device(key, sizeof(key), "out_of_memory_errors", device);
	if (failures)
		vc_walk_fact_number(walk, key, failures, TORCH);
	active = statistics ? statistic(statistics, "active") : 0;
	inactive = statistics ? statistic(statistics, "inactive_split") : 0;
	reserved = statistics ? statistic(statistics, "reserved_bytes") : 0;
	if (reserved && reserved != UINT64_MAX)
		memory_fraction(walk, device, number);
	if (number)
		vc_py.Py_DecRef(number);
	if (statistics)
		vc_py.Py_DecRef(statistics);
	vc_py.PyErr_Clear();
	return active + inactive;
}

/* ---- segments and blocks ---- */

static uint32_t text_id(struct vc_walk_file *walk, struct vc_python_object *text)
{
	const char *characters = vc_py_text(text);

	return characters ? vc_walk_string(walk, characters, strlen(characters)) : 0;
}

static void add_block(struct vc_walk_file *walk, struct vc_python_object *block, uint64_t segment,
		      uint64_t *next_address)
{
	struct vc_walk_block *row = vc_walk_row(walk, VC_WALK_BLOCKS, sizeof(*row), NULL);
	struct vc_python_object *address = vc_py_item(block, "address");

	if (!row)
		return;
	row->segment = (uint32_t)segment;
	row->size = vc_py_number(vc_py_item(block, "size"), 0);
	/* versions before 2.1 tell no addresses: blocks follow each other */
	row->address = address ? vc_py_number(address, 0) : *next_address;
	row->requested = vc_py_number(vc_py_item(block, "requested_size"), 0);
	row->state = text_id(walk, vc_py_item(block, "state"));
	*next_address = row->address + row->size;
}

static void add_segment(struct vc_walk_file *walk, struct vc_python_object *segment)
{
	struct vc_python_object *pool = vc_py_item(segment, "segment_pool_id");
	struct vc_python_object *blocks = vc_py_item(segment, "blocks");
	struct vc_walk_segment *row;
	uint64_t number, address;

	row = vc_walk_row(walk, VC_WALK_SEGMENTS, sizeof(*row), &number);
	if (!row)
		return;
	row->address = address = vc_py_number(vc_py_item(segment, "address"), 0);
	row->size = vc_py_number(vc_py_item(segment, "total_size"), 0);
	row->stream = vc_py_number(vc_py_item(segment, "stream"), 0);
	row->allocated = vc_py_number(vc_py_item(segment, "allocated_size"), 0);
	row->active = vc_py_number(vc_py_item(segment, "active_size"), 0);
	row->requested = vc_py_number(vc_py_item(segment, "requested_size"), 0);
	row->device = (uint32_t)vc_py_number(vc_py_item(segment, "device"), UINT32_MAX);
	row->expandable = vc_py_item(segment, "is_expandable") == vc_py._Py_TrueStruct;
	if (pool && vc_py_is(pool, VC_PYTHON_TUPLE) && vc_py.PyTuple_Size(pool) == 2) {
		row->pool_first = vc_py_number(vc_py.PyTuple_GetItem(pool, 0), 0);
		row->pool_second = vc_py_number(vc_py.PyTuple_GetItem(pool, 1), 0);
	}
	row->type = text_id(walk, vc_py_item(segment, "segment_type"));
	if (!blocks || !vc_py_is(blocks, VC_PYTHON_LIST))
		return;
	for (long i = 0; i < vc_py.PyList_Size(blocks); i++)
		add_block(walk, vc_py.PyList_GetItem(blocks, i), number, &address);
}

/* Settings of the allocator; those in a dict of their own get a name with a dot. */
static void add_settings(struct vc_walk_file *walk, struct vc_python_object *settings,
			 const char *prefix)
{
	struct vc_python_object *key, *value;
	long position = 0;

	while (settings && vc_py_is(settings, VC_PYTHON_DICT) &&
	       vc_py.PyDict_Next(settings, &position, &key, &value)) {
		const char *name = vc_py_text(key);
		char full[128];
		struct vc_text text = vc_text_in(full, sizeof(full));

		if (!name)
			continue;
		vc_text_add(&text, prefix);
		vc_text_add(&text, ".");
		vc_text_add(&text, name);
		if (!vc_py_is(value, VC_PYTHON_DICT))
			fact(walk, full, value);
		else if (strlen(prefix) < 16) /* one level down is all there is */
			add_settings(walk, value, full);
	}
}

static void add_snapshot(struct vc_walk_file *walk)
{
	struct vc_python_object *snapshot = call("_cuda_memorySnapshot", vc_py._Py_NoneStruct);
	struct vc_python_object *segments;

	if (!snapshot) /* before 2.1 it takes nothing */
		snapshot = call("_cuda_memorySnapshot", NULL);
	segments = vc_py_item(snapshot, "segments");
	for (long i = 0; segments && vc_py_is(segments, VC_PYTHON_LIST) &&
			 i < vc_py.PyList_Size(segments); i++)
		add_segment(walk, vc_py.PyList_GetItem(segments, i));
	add_settings(walk, vc_py_item(snapshot, "allocator_settings"), "allocator");
	vc_walk_fact(walk, "segments", segments ? "listed" : "not to be had", TORCH);
	if (snapshot)
		vc_py.Py_DecRef(snapshot);
	vc_py.PyErr_Clear();
}

static bool records_history(void)
{
	struct vc_python_object *enabled = call("_cuda_isHistoryEnabled", NULL);
	bool result = enabled == vc_py._Py_TrueStruct;

	if (enabled)
		vc_py.Py_DecRef(enabled);
	return result;
}

static uint64_t devices(void)
{
	struct vc_python_object *number = call("_cuda_getDeviceCount", NULL);
	uint64_t count = vc_py_number(number, 0);

	if (number)
		vc_py.Py_DecRef(number);
	return count < DEVICES_MAX ? count : DEVICES_MAX;
}

void vc_allocator_walk(struct vc_walk_file *walk, bool failure)
{
	uint64_t blocks = 0, count = devices();
	struct vc_python_object *cuda = vc_py_module("torch.version");

	fact(walk, "torch", vc_py_global(vc_py_module("torch"), "__version__"));
	fact(walk, "torch.cuda", vc_py_global(cuda, "cuda"));
	fact_of_call(walk, "backend", "_cuda_getAllocatorBackend", NULL);
	for (uint64_t device = 0; device < count; device++)
		blocks += device_facts(walk, device);
	if (records_history())
		vc_walk_fact(walk, "segments", "not asked for: PyTorch records its history", TORCH);
	else if (blocks > (failure ? BLOCKS_MAX_FAILURE : BLOCKS_MAX))
		vc_walk_fact(walk, "segments", "not asked for: too many blocks", TORCH);
	else
		add_snapshot(walk);
}
