/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls every row of hooks.def, by the way given, and compares the recording with the simulated
 * driver's own list at every step. A row that was not called fails the test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"
#include "functions.h"
#include "formats/tables.h"

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* The call must succeed, and errno must stay. */
#define GOOD(symbol, ...)                                                                          \
	do {                                                                                       \
		vc_cu_result result_;                                                              \
                                                                                                   \
		errno = 4711;                                                                      \
		result_ = CALL(symbol, __VA_ARGS__);                                               \
		if (result_ || errno != 4711) {                                                    \
			fprintf(stderr, "%s:%d: %s gives %d, errno %d\n", __FILE__, __LINE__,      \
				#symbol, result_, errno);                                          \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* The call must give this error. */
#define BAD(error, symbol, ...)                                                                    \
	do {                                                                                       \
		vc_cu_result result_ = CALL(symbol, __VA_ARGS__);                                  \
                                                                                                   \
		if (result_ != (error)) {                                                          \
			fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #symbol,       \
				result_);                                                          \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* Whatever the simulated driver says of it. */
#define ANY(symbol, ...) ((void)CALL(symbol, __VA_ARGS__))

static void compare(const char *where)
{
	failures += test_compare(where) != 0;
}

static uint64_t counter(enum vc_counter which)
{
	struct test_recording recording;
	uint64_t count;

	if (test_recording_open(getpid(), &recording))
		return UINT64_MAX;
	count = test_counter(&recording, which);
	test_recording_close(&recording);
	return count;
}

#define INVALID_VALUE 1

static void linear(void)
{
	vc_cu_pointer wide[3], managed, pitched;
	vc_cu_pointer32 narrow, narrow_pitched;
	uint32_t narrow_pitch;
	size_t pitch;

	GOOD(cuMemAlloc_v2, &wide[0], 1000);
	GOOD(cuMemAlloc_v2, &wide[1], 3 << 20);
	GOOD(cuMemAllocManaged, &managed, 5 << 20, 1);
	GOOD(cuMemAllocPitch_v2, &pitched, &pitch, 1000, 10, 4);
	ANY(cuMemAlloc, &narrow, 4096);
	ANY(cuMemAllocPitch, &narrow_pitched, &narrow_pitch, 100, 7, 4);
	compare("linear: born");
	BAD(INVALID_VALUE, cuMemFree_v2, wide[0] + 8);
	compare("linear: inner pointer refused");
	BAD(INVALID_VALUE, cuMemAlloc_v2, NULL, 1000);
	BAD(INVALID_VALUE, cuMemAlloc_v2, &wide[2], 0);
	ANY(cuMemFree_v2, 0);
	compare("linear: nothing changed");
	GOOD(cuMemFree_v2, wide[0]);
	GOOD(cuMemFree_v2, managed);
	GOOD(cuMemFree_v2, pitched);
	BAD(INVALID_VALUE, cuMemFree_v2, wide[0]);
	ANY(cuMemFree, narrow);
	ANY(cuMemFree, narrow_pitched);
	compare("linear: some freed");
	GOOD(cuMemFree_v2, wide[1]);
	compare("linear: all freed");
}

static void pools(void)
{
	struct vc_cu_pool_properties properties = {.allocation_type = 1, .location = {1, 0}};
	vc_cu_pointer pointer[5], imported;
	vc_cu_stream stream;
	vc_cu_pool pool, other;
	struct vc_cu_pool_export export = {{0}};

	GOOD(cuStreamCreate, &stream, 0);
	GOOD(cuMemPoolCreate, &pool, &properties);
	GOOD(cuMemAllocAsync, &pointer[0], 1000, stream);
	GOOD(cuMemAllocAsync_ptsz, &pointer[1], 2 << 20, stream);
	GOOD(cuMemAllocFromPoolAsync, &pointer[2], 3000, pool, stream);
	GOOD(cuMemAllocFromPoolAsync_ptsz, &pointer[3], 4 << 20, pool, stream);
	GOOD(cuMemAllocAsync, &pointer[4], 5000, stream);
	compare("pools: born");
	GOOD(cuMemPoolTrimTo, pool, 0);
	GOOD(cuMemFreeAsync, pointer[0], stream);
	GOOD(cuMemFreeAsync_ptsz, pointer[1], stream);
	GOOD(cuMemFree_v2, pointer[4]);
	compare("pools: some freed");
	GOOD(cuMemFreeAsync, pointer[2], stream);
	GOOD(cuMemFreeAsync, pointer[3], stream);
	GOOD(cuMemPoolDestroy, pool);
	ANY(cuMemPoolImportFromShareableHandle, &other, NULL, 1, 0);
	ANY(cuMemPoolImportPointer, &imported, NULL, &export);
	compare("pools: gone");
	CHECK(!cu.cuStreamDestroy_v2(stream));
}

static void memory_map(void)
{
	const size_t granule = 2 << 20;
	struct vc_cu_allocation_properties properties = {.type = 1, .location = {1, 0}};
	vc_cu_memory_handle handle[3], again, imported;
	vc_cu_pointer range;

	GOOD(cuMemAddressReserve, &range, 8 * granule, 0, 0, 0);
	GOOD(cuMemCreate, &handle[0], 2 * granule, &properties, 0);
	GOOD(cuMemCreate, &handle[1], granule, &properties, 0);
	properties.location.type = 2; /* host memory: not of a device */
	ANY(cuMemCreate, &handle[2], granule, &properties, 0);
	BAD(INVALID_VALUE, cuMemCreate, &handle[2], granule, NULL, 0);
	compare("map: handles");
	GOOD(cuMemMap, range, 2 * granule, 0, handle[0], 0);
	GOOD(cuMemMap, range + 2 * granule, granule, 0, handle[1], 0);
	GOOD(cuMemMap, range + 3 * granule, granule, 0, handle[1], 0);
	CHECK(CALL(cuMemMap, range, granule, 0, handle[1], 0) != 0);
	compare("map: mapped");
	/* The handle goes, its memory stays while it is mapped. */
	GOOD(cuMemRelease, handle[1]);
	compare("map: released");
	GOOD(cuMemUnmap, range + 2 * granule, granule);
	compare("map: one of two unmapped");
	GOOD(cuMemUnmap, range + 3 * granule, granule);
	compare("map: both unmapped");
	GOOD(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)(range + granule));
	GOOD(cuMemRelease, handle[0]);
	GOOD(cuMemUnmap, range, 2 * granule);
	compare("map: held by a second reference");
	GOOD(cuMemRelease, again);
	compare("map: no handle left");
	CHECK(CALL(cuMemRelease, again) != 0);
	CHECK(CALL(cuMemUnmap, range, granule) != 0);
	ANY(cuMemImportFromShareableHandle, &imported, NULL, 1);
	GOOD(cuMemAddressFree, range, 8 * granule);
	compare("map: range freed");
}

/* A handle of another process's memory, or of our own by way of a descriptor. */
static void import(void)
{
	const size_t granule = 2 << 20;
	struct vc_cu_allocation_properties properties = {
		.type = 1, .requested_handle_types = 1, .location = {1, 0}};
	vc_cu_memory_handle handle, imported;
	vc_cu_pointer range;
	int descriptor = -1;

	GOOD(cuMemCreate, &handle, granule, &properties, 0);
	GOOD(cuMemExportToShareableHandle, &descriptor, handle, 1, 0);
	GOOD(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)descriptor, 1);
	GOOD(cuMemAddressReserve, &range, granule, 0, 0, 0);
	GOOD(cuMemMap, range, granule, 0, imported, 0);
	compare("import: mapped");
	GOOD(cuMemRelease, imported);
	GOOD(cuMemUnmap, range, granule);
	GOOD(cuMemAddressFree, range, granule);
	GOOD(cuMemRelease, handle);
	compare("import: gone");
	close(descriptor);
}

static void host(void)
{
	static char own[1 << 16] __attribute__((aligned(4096)));
	void *pinned[3];

	GOOD(cuMemAllocHost_v2, &pinned[0], 1 << 20);
	GOOD(cuMemAllocHost, &pinned[1], 1 << 12);
	GOOD(cuMemHostAlloc, &pinned[2], 1 << 16, 0);
	GOOD(cuMemHostRegister_v2, own, 1 << 15, 0);
	GOOD(cuMemHostRegister, own + (1 << 15), 1 << 15, 0);
	compare("host: born");
	for (int i = 0; i < 3; i++)
		GOOD(cuMemFreeHost, pinned[i]);
	GOOD(cuMemHostUnregister, own);
	GOOD(cuMemHostUnregister, own + (1 << 15));
	compare("host: gone");
}

static void arrays(void)
{
	const struct vc_cu_array_shape32 flat32 = {64, 32, 0x20, 4};
	const struct vc_cu_array_shape flat = {1000, 0, 0x10, 2};
	const struct vc_cu_array3d_shape32 deep32 = {16, 16, 16, 0x01, 1, 0};
	const struct vc_cu_array3d_shape deep = {64, 64, 4, 0x20, 1, 0};
	static const uint64_t bytes[] = {64 * 32 * 4 * 4, 1000 * 2 * 2, 16 * 16 * 16, 64 * 64 * 4 * 4};
	struct test_recording recording;
	vc_cu_array array[4], mipmap;

	GOOD(cuArrayCreate, &array[0], &flat32);
	GOOD(cuArrayCreate_v2, &array[1], &flat);
	GOOD(cuArray3DCreate, &array[2], &deep32);
	GOOD(cuArray3DCreate_v2, &array[3], &deep);
	GOOD(cuMipmappedArrayCreate, &mipmap, &deep, 3);
	compare("arrays: born");
	if (!test_recording_open(getpid(), &recording)) {
		const struct vc_record *record;

		for (int i = 0; i < 4; i++) {
			record = test_record(&recording, VC_KIND_ARRAY, (uintptr_t)array[i]);
			CHECK(record && record->size == bytes[i]);
		}
		record = test_record(&recording, VC_KIND_MIPMAPPED_ARRAY, (uintptr_t)mipmap);
		CHECK(record && record->size == (64 * 64 * 4 + 32 * 32 * 2 + 16 * 16) * 4);
		test_recording_close(&recording);
	}
	CHECK(CALL(cuArrayCreate_v2, &array[0], NULL) != 0);
	for (int i = 0; i < 4; i++)
		GOOD(cuArrayDestroy, array[i]);
	GOOD(cuMipmappedArrayDestroy, mipmap);
	compare("arrays: gone");
}

/* Memory of other processes: a child exports, and holds it until its standard input ends. */
#define EXPORTED (3 << 20)

static int exporter(void)
{
	struct vc_cu_ipc_handle handle;
	vc_cu_context context;
	vc_cu_pointer pointer;
	char end;

	if (cu.cuInit(0) || cu.cuCtxCreate_v2(&context, 0, 0) ||
	    cu.cuMemAlloc_v2(&pointer, EXPORTED) || cu.cuIpcGetMemHandle(&handle, pointer))
		return 1;
	if (write(1, &handle, sizeof(handle)) != sizeof(handle) || read(0, &end, 1) < 0)
		return 1;
	return 0;
}

/* This program once more as it was started, whoever may be its host, with one argument more. */
static void start_exporter(void)
{
	static char line[8192], *arguments[64];
	int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), count = 0;
	ssize_t length = read(file, line, sizeof(line) - 1);

	for (char *at = line; at < line + length && count < 62; at += strlen(at) + 1)
		arguments[count++] = at;
	arguments[count] = (char *)"export";
	execv("/proc/self/exe", arguments);
	_exit(9);
}

static struct vc_cu_ipc_handle exported_by_child(int *ret_hold, pid_t *ret_pid)
{
	struct vc_cu_ipc_handle handle = {{0}};
	int in[2], out[2];

	CHECK(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	*ret_pid = fork();
	if (!*ret_pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		/* A file of its own for the judge: this one's is this process's. */
		setenv("SIMCUDA_MAP", "", 1);
		start_exporter();
	}
	close(in[0]);
	close(out[1]);
	CHECK(read(out[0], &handle, sizeof(handle)) == sizeof(handle));
	close(out[0]);
	*ret_hold = in[1];
	return handle;
}

static void other_process(void)
{
	struct vc_cu_ipc_handle handle;
	struct test_recording recording;
	const struct vc_record *record;
	vc_cu_pointer first, second;
	int hold, status;
	pid_t pid;

	handle = exported_by_child(&hold, &pid);
	GOOD(cuIpcOpenMemHandle, &first, handle, 1);
	GOOD(cuIpcOpenMemHandle_v2, &second, handle, 1);
	compare("other process: opened");
	if (!test_recording_open(getpid(), &recording)) {
		record = test_record(&recording, VC_KIND_IMPORT, first);
		CHECK(record && record->size == EXPORTED && record->device_plus_one == 1);
		test_recording_close(&recording);
	}
	GOOD(cuIpcCloseMemHandle, first);
	BAD(INVALID_VALUE, cuIpcCloseMemHandle, first);
	GOOD(cuIpcCloseMemHandle, second);
	compare("other process: closed");
	close(hold);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

/* Handles for others: counted, and the map stays. */
static void exports(void)
{
	struct vc_cu_pool_properties properties = {
		.allocation_type = 1, .handle_types = 1, .location = {1, 0}};
	struct vc_cu_pool_export data = {{0}};
	struct vc_cu_ipc_handle handle;
	vc_cu_pointer pointer, imported, linear;
	uint64_t before = counter(VC_COUNTER_EXPORTS);
	vc_cu_pool pool, other;
	int descriptor = -1;

	GOOD(cuMemPoolCreate, &pool, &properties);
	GOOD(cuMemAllocFromPoolAsync, &pointer, 1 << 20, pool, NULL);
	GOOD(cuMemAlloc_v2, &linear, 4096);
	GOOD(cuMemPoolExportToShareableHandle, &descriptor, pool, 1, 0);
	GOOD(cuMemPoolExportPointer, &data, pointer);
	GOOD(cuIpcGetMemHandle, &handle, linear);
	ANY(cuMemGetHandleForAddressRange, &descriptor, linear, 4096, 1, 0);
	CHECK(counter(VC_COUNTER_EXPORTS) == before + 3);
	compare("exports: made");
	GOOD(cuMemPoolImportFromShareableHandle, &other, (void *)(intptr_t)descriptor, 1, 0);
	GOOD(cuMemPoolImportPointer, &imported, other, &data);
	compare("exports: come back");
	GOOD(cuMemFreeAsync, imported, NULL);
	GOOD(cuMemPoolDestroy, other);
	GOOD(cuMemFree_v2, linear);
	GOOD(cuMemFreeAsync, pointer, NULL);
	GOOD(cuMemPoolDestroy, pool);
	compare("exports: gone");
	close(descriptor);
}

/* What is bound to a multicast object keeps the memory; the object's end ends that. */
static void bindings(void)
{
	struct vc_cu_multicast_properties multicast = {.devices = 2, .size = 4 << 20};
	struct vc_cu_allocation_properties properties = {
		.type = 1, .location = {.type = VC_CU_LOCATION_DEVICE}};
	vc_cu_memory_handle object, first, second;
	vc_cu_pointer range;

	GOOD(cuMulticastCreate, &object, &multicast);
	GOOD(cuMemCreate, &first, 2 << 20, &properties, 0);
	GOOD(cuMemCreate, &second, 2 << 20, &properties, 0);
	GOOD(cuMemAddressReserve, &range, 2 << 20, 0, 0, 0);
	GOOD(cuMemMap, range, 2 << 20, 0, second, 0);
	GOOD(cuMulticastBindMem, object, 0, first, 0, 2 << 20, 0);
	GOOD(cuMulticastBindAddr, object, 2 << 20, range, 2 << 20, 0);
	compare("bindings: two");
	GOOD(cuMemRelease, first);
	GOOD(cuMemUnmap, range, 2 << 20);
	GOOD(cuMemRelease, second);
	compare("bindings: all that keeps the memory");
	BAD(INVALID_VALUE, cuMulticastBindMem, object, 0, first, 0, 2 << 20, 1);
	compare("bindings: one that failed");
	GOOD(cuMulticastUnbind, object, 0, 0, 2 << 20);
	compare("bindings: one is undone, its memory gone");
	GOOD(cuMemRelease, object);
	compare("bindings: the object is gone, and with it the other");
	GOOD(cuMemAddressFree, range, 2 << 20);
}

/* Memory of other interfaces, and objects that lead to memory of several devices. */
static void foreign(void)
{
	struct vc_cu_multicast_properties multicast = {.devices = 2, .size = 4 << 20};
	struct vc_cu_external_memory external = {.type = 1, .size = 3 << 20};
	struct vc_cu_external_buffer buffer = {.offset = 1 << 20, .size = 1 << 20};
	vc_cu_memory_handle object;
	vc_cu_pointer pointer, range;
	vc_cu_object memory;
	vc_cu_array array;

	GOOD(cuMulticastCreate, &object, &multicast);
	GOOD(cuMemAddressReserve, &range, 4 << 20, 0, 0, 0);
	GOOD(cuMemMap, range, 4 << 20, 0, object, 0);
	compare("foreign: a multicast object, mapped");
	GOOD(cuMemRelease, object);
	compare("foreign: held by its mapping");
	GOOD(cuMemUnmap, range, 4 << 20);
	GOOD(cuMemAddressFree, range, 4 << 20);
	compare("foreign: it is gone");
	bindings();
	GOOD(cuImportExternalMemory, &memory, &external);
	GOOD(cuExternalMemoryGetMappedBuffer, &pointer, memory, &buffer);
	compare("foreign: external memory");
	ANY(cuExternalMemoryGetMappedMipmappedArray, &array, memory, NULL);
	GOOD(cuMemFree_v2, pointer);
	GOOD(cuDestroyExternalMemory, memory);
	compare("foreign: external memory is gone");
}

/* An allocation of the graph, of one device and without bytes of its own. */
static void check_allocation(vc_cu_pointer pointer, uint64_t size, vc_cu_graph graph)
{
	struct test_recording recording;
	const struct vc_record *record, *parent;

	if (test_recording_open(getpid(), &recording)) {
		CHECK(!"a recording");
		return;
	}
	record = test_record(&recording, VC_KIND_GRAPH_ALLOCATION, pointer);
	parent = test_record(&recording, VC_KIND_GRAPH, (uintptr_t)graph);
	CHECK(record && record->size == size && record->device_plus_one == 1);
	CHECK(record && parent && record->parent == vc_state_number(parent->state));
	test_recording_close(&recording);
}

static void capture(void)
{
	vc_cu_pointer captured, beside, other;
	vc_cu_stream stream, second;
	vc_cu_object executable;
	vc_cu_graph graph = NULL;
	uint64_t unknown;

	GOOD(cuStreamCreate, &stream, 0);
	GOOD(cuStreamCreateWithPriority, &second, 1, -1);
	GOOD(cuStreamBeginCapture, stream);
	GOOD(cuMemAllocAsync, &captured, 3 << 20, stream);
	GOOD(cuMemAllocAsync, &beside, 1 << 20, NULL);
	GOOD(cuMemAllocAsync, &other, 1 << 20, second);
	compare("capture: one in the graph, two beside");
	GOOD(cuMemFreeAsync, captured, stream); /* a node, too */
	CHECK(CALL(cuStreamEndCapture, second, &graph) != 0); /* this one is not captured */
	GOOD(cuStreamEndCapture, stream, &graph);
	GOOD(cuMemFree_v2, beside);
	GOOD(cuMemFreeAsync, other, stream);
	compare("capture: ended");
	check_allocation(captured, 3 << 20, graph);
	GOOD(cuGraphInstantiate, &executable, graph, NULL, NULL, 0);
	compare("capture: instantiated");
	CHECK(!cu.cuGraphLaunch(executable, stream));
	unknown = counter(VC_COUNTER_FREES_UNKNOWN);
	GOOD(cuMemFreeAsync, captured, stream); /* until the next launch */
	compare("capture: freed, but not gone");
	CHECK(!cu.cuGraphLaunch(executable, stream));
	GOOD(cuMemFree_v2, captured);
	CHECK(counter(VC_COUNTER_FREES_UNKNOWN) == unknown);
	GOOD(cuGraphDestroy, graph);
	compare("capture: held by the executable");
	GOOD(cuGraphExecDestroy, executable);
	compare("capture: gone");
	GOOD(cuStreamBeginCapture_v2, stream, 0);
	GOOD(cuMemAllocAsync_ptsz, &captured, 1 << 20, stream);
	GOOD(cuStreamEndCapture, stream, &graph);
	compare("capture: again");
	GOOD(cuGraphDestroy, graph);
	compare("capture: the graph is gone");
	GOOD(cuStreamBeginCapture_ptsz, stream);
	GOOD(cuStreamEndCapture_ptsz, stream, &graph);
	GOOD(cuGraphDestroy, graph);
	GOOD(cuStreamBeginCapture_v2_ptsz, stream, 0);
	GOOD(cuStreamEndCapture, stream, &graph);
	GOOD(cuGraphDestroy, graph);
	GOOD(cuStreamDestroy_v2, stream);
	GOOD(cuStreamDestroy, second);
	compare("capture: streams are gone");
}

static void graphs(void)
{
	struct vc_cu_node_allocation allocation = {
		.pool = {.allocation_type = 1, .location = {1, 0}}, .bytes = 5 << 20};
	struct vc_cu_node_parameters any = {.type = VC_CU_NODE_ALLOCATE, .allocation = allocation};
	struct vc_cu_node_parameters empty = {.type = 5};
	vc_cu_object node, executable, second;
	vc_cu_graph graph, copy, captured;
	vc_cu_stream stream;
	vc_cu_pointer pointer;
	int parameters[16] = {0};

	GOOD(cuStreamCreate, &stream, 0);
	GOOD(cuGraphCreate, &graph, 0);
	GOOD(cuGraphAddNode, &node, graph, NULL, 0, &empty);
	GOOD(cuGraphClone, &copy, graph);
	compare("graphs: two without memory");
	GOOD(cuGraphInstantiate_v2, &executable, copy, NULL, NULL, 0);
	GOOD(cuGraphInstantiateWithFlags, &second, copy, 0);
	compare("graphs: two executables");
	GOOD(cuGraphExecDestroy, executable);
	GOOD(cuGraphExecDestroy, second);
	BAD(400, cuGraphExecDestroy, second);
	GOOD(cuGraphDestroy, copy);
	GOOD(cuGraphAddMemAllocNode, &node, graph, NULL, 0, &allocation);
	check_allocation(allocation.pointer, 5 << 20, graph);
	any.allocation.bytes = 6 << 20;
	GOOD(cuGraphAddNode, &node, graph, NULL, 0, &any);
	check_allocation(any.allocation.pointer, 6 << 20, graph);
	any.allocation.bytes = 7 << 20;
	GOOD(cuGraphAddNode_v2, &node, graph, NULL, NULL, 0, &any);
	check_allocation(any.allocation.pointer, 7 << 20, graph);
	any.allocation.bytes = 0;
	BAD(INVALID_VALUE, cuGraphAddNode_v2, &node, graph, NULL, NULL, 0, &any);
	BAD(INVALID_VALUE, cuGraphAddNode, &node, graph, NULL, 0, NULL);
	BAD(INVALID_VALUE, cuGraphAddMemAllocNode, &node, graph, NULL, 0, NULL);
	compare("graphs: nodes");
	GOOD(cuStreamBeginCaptureToGraph, stream, graph, NULL, NULL, 0, 0);
	GOOD(cuMemAllocAsync, &pointer, 8 << 20, stream);
	compare("graphs: captured into one that there is");
	GOOD(cuStreamEndCapture, stream, &captured);
	CHECK(captured == graph);
	check_allocation(pointer, 8 << 20, graph);
	GOOD(cuStreamBeginCaptureToGraph_ptsz, stream, graph, NULL, NULL, 0, 0);
	GOOD(cuStreamEndCapture_ptsz, stream, &captured);
	GOOD(cuGraphInstantiateWithParams, &executable, graph, parameters);
	CHECK(CALL(cuGraphInstantiateWithParams_ptsz, &second, graph, parameters) != 0);
	compare("graphs: one executable of memory");
	GOOD(cuGraphExecDestroy, executable);
	compare("graphs: held by the graph");
	GOOD(cuGraphInstantiateWithParams_ptsz, &executable, graph, parameters);
	GOOD(cuGraphDestroy, graph);
	compare("graphs: held by the executable");
	GOOD(cuGraphExecDestroy, executable);
	compare("graphs: gone");
	GOOD(cuStreamDestroy_v2, stream);
}

static void code(const char *file)
{
	vc_cu_object module[4], library[2];

	GOOD(cuModuleLoad, &module[0], file);
	GOOD(cuModuleLoadData, &module[1], "code");
	GOOD(cuModuleLoadDataEx, &module[2], "code", 0, NULL, NULL);
	GOOD(cuModuleLoadFatBinary, &module[3], "code");
	GOOD(cuLibraryLoadData, &library[0], "code", NULL, NULL, 0, NULL, NULL, 0);
	GOOD(cuLibraryLoadFromFile, &library[1], file, NULL, NULL, 0, NULL, NULL, 0);
	compare("code: loaded");
	CHECK(CALL(cuModuleLoad, &module[0], "/no/such/file") != 0);
	CHECK(CALL(cuLibraryLoadData, &library[0], NULL, NULL, NULL, 0, NULL, NULL, 0) != 0);
	for (int i = 0; i < 3; i++)
		GOOD(cuModuleUnload, module[i]);
	GOOD(cuLibraryUnload, library[0]);
	BAD(400, cuLibraryUnload, library[0]);
	compare("code: some unloaded");
	GOOD(cuModuleUnload, module[3]);
	GOOD(cuLibraryUnload, library[1]);
	compare("code: gone");
}

/* Every argument of a call that is only looked at must arrive: each of them in turn is wrong. */
static void work(void)
{
	static const char text[] = "what is copied there comes back";
	unsigned int size[6] = {1, 1, 1, 32, 1, 1};
	char back[sizeof(text)] = "";
	vc_cu_object module, function;
	vc_cu_pointer pointer, twin;

	GOOD(cuModuleLoadData, &module, "code");
	GOOD(cuModuleGetFunction, &function, module, "kernel");
#define LAUNCH(stream)                                                                             \
	function, size[0], size[1], size[2], size[3], size[4], size[5], 0, stream, NULL, NULL
	GOOD(cuLaunchKernel, LAUNCH(NULL));
	for (int i = 0; i < 6; i++) {
		size[i] = 0;
		BAD(INVALID_VALUE, cuLaunchKernel, LAUNCH(NULL));
		size[i] = i == 3 ? 32 : 1;
	}
	BAD(400, cuLaunchKernel, LAUNCH(module));
#undef LAUNCH
	GOOD(cuMemAlloc_v2, &pointer, 4096);
	GOOD(cuMemAlloc_v2, &twin, 4096);
	GOOD(cuMemsetD8_v2, pointer, 'x', 4096);
	GOOD(cuMemcpyHtoD_v2, pointer + 100, text, sizeof(text));
	GOOD(cuMemcpyDtoDAsync_v2, twin, pointer + 99, sizeof(text) + 1, NULL);
	GOOD(cuMemcpyDtoH_v2, back, twin + 1, sizeof(back));
	CHECK(!memcmp(back, text, sizeof(text)));
	GOOD(cuMemcpyDtoHAsync_v2, back, twin, 1, NULL);
	CHECK(back[0] == 'x');
	BAD(INVALID_VALUE, cuMemcpyDtoH_v2, back, twin + 4000, 97);
	GOOD(cuStreamSynchronize, NULL);
	GOOD(cuCtxSynchronize);
	compare("work");
	GOOD(cuMemFree_v2, pointer);
	GOOD(cuMemFree_v2, twin);
	GOOD(cuModuleUnload, module);
}

/* Device 1: its own context is made by the first green one, and goes with the last reference. */
static void green(void)
{
	vc_cu_object description, first, second;
	vc_cu_context context;
	vc_cu_stream stream;

	CHECK(!cu.cuDevResourceGenerateDesc(&description, &description, 1));
	GOOD(cuDevicePrimaryCtxRetain, &context, 1);
	GOOD(cuGreenCtxCreate, &first, description, 1, 1);
	GOOD(cuGreenCtxCreate, &second, description, 1, 1);
	BAD(INVALID_VALUE, cuGreenCtxCreate, &second, description, 1, 0);
	GOOD(cuGreenCtxStreamCreate, &stream, first, 1, 0);
	compare("green: two and a stream");
	GOOD(cuDevicePrimaryCtxRelease_v2, 1);
	GOOD(cuGreenCtxDestroy, first);
	BAD(400, cuGreenCtxDestroy, first);
	compare("green: the device's own context is held by one");
	GOOD(cuStreamDestroy_v2, stream);
	GOOD(cuGreenCtxDestroy, second);
	compare("green: gone");
	/* The other way round: the device's own context is found when the program asks for it. */
	GOOD(cuGreenCtxCreate, &first, description, 1, 1);
	GOOD(cuDevicePrimaryCtxRetain, &context, 1);
	compare("green: before the device's own");
	GOOD(cuGreenCtxDestroy, first);
	compare("green: the device's own stays");
	GOOD(cuDevicePrimaryCtxRelease_v2, 1);
	compare("green: none");
}

static void contexts(void)
{
	vc_cu_context made[4], attached, popped;
	vc_cu_pointer pointer;

	GOOD(cuCtxCreate, &made[0], 0, 0);
	GOOD(cuMemAlloc_v2, &pointer, 1 << 20);
	GOOD(cuCtxCreate_v2, &made[1], 0, 1);
	GOOD(cuMemAlloc_v2, &pointer, 2 << 20);
	GOOD(cuCtxCreate_v3, &made[2], NULL, 0, 0, 1);
	GOOD(cuMemAlloc_v2, &pointer, 3 << 20);
	GOOD(cuCtxCreate_v4, &made[3], NULL, 0, 0);
	GOOD(cuMemAlloc_v2, &pointer, 4 << 20);
	compare("contexts: four, with memory");
	GOOD(cuCtxPopCurrent_v2, &popped);
	GOOD(cuMemAlloc_v2, &pointer, 5 << 20); /* in the third, on device 1 */
	compare("contexts: one below");
	GOOD(cuCtxPushCurrent_v2, made[0]);
	GOOD(cuMemAllocAsync, &pointer, 6 << 20, NULL);
	GOOD(cuCtxPopCurrent, &popped);
	GOOD(cuCtxPushCurrent, made[0]);
	GOOD(cuCtxSetCurrent, made[1]);
	GOOD(cuMemAlloc_v2, &pointer, 7 << 20); /* on device 1 again */
	compare("contexts: set");
	GOOD(cuCtxAttach, &attached, 0);
	GOOD(cuCtxDetach, attached);
	compare("contexts: attached and detached");
	GOOD(cuCtxDestroy_v2, made[1]);
	compare("contexts: one destroyed");
	GOOD(cuCtxDetach, made[3]);
	compare("contexts: last reference detached");
	CHECK(CALL(cuCtxDestroy_v2, NULL) != 0);
	GOOD(cuCtxDestroy, made[0]);
	GOOD(cuCtxDestroy, made[2]);
	compare("contexts: all destroyed");
}

static void primary(void)
{
	vc_cu_context first, second, other;
	vc_cu_pointer pointer;

	GOOD(cuDevicePrimaryCtxRetain, &first, 0);
	GOOD(cuDevicePrimaryCtxRetain, &second, 0);
	CHECK(first == second);
	GOOD(cuDevicePrimaryCtxRetain, &other, 1);
	GOOD(cuCtxSetCurrent, other);
	GOOD(cuMemAlloc_v2, &pointer, 1 << 20);
	GOOD(cuCtxSetCurrent, first);
	GOOD(cuMemAlloc_v2, &pointer, 2 << 20);
	compare("primary: two, with memory");
	GOOD(cuDevicePrimaryCtxRelease_v2, 0);
	compare("primary: one reference less");
	GOOD(cuDevicePrimaryCtxRelease, 0);
	compare("primary: last reference");
	GOOD(cuDevicePrimaryCtxReset_v2, 1);
	compare("primary: reset");
	ANY(cuDevicePrimaryCtxReset, 0);
	CHECK(CALL(cuDevicePrimaryCtxRelease, 0) != 0);
	compare("primary: nothing to reset or release");
	GOOD(cuDevicePrimaryCtxRetain, &first, 0);
	GOOD(cuCtxSetCurrent, first);
	compare("primary: again");
}

/* What was recorded of one allocation, beyond what the judge knows. */
static void details(void)
{
	struct test_recording recording;
	const struct vc_record *record;
	const struct vc_stack_head *stack;
	vc_cu_pointer pointer;

	GOOD(cuMemAlloc_v2, &pointer, 12345);
	if (test_recording_open(getpid(), &recording)) {
		CHECK(!"a recording");
		return;
	}
	record = test_record(&recording, VC_KIND_LINEAR, pointer);
	CHECK(record);
	if (record) {
		CHECK(record->requested == 12345);
		CHECK(record->thread == (uint32_t)getpid());
		CHECK(!strcmp(test_string(&recording, record->call_name), "cuMemAlloc_v2"));
		stack = test_stack(&recording, record->stack);
		CHECK(stack && stack->count >= 3);
		CHECK(record->check == vc_check_words(&record->address, VC_RECORD_CHECKED_WORDS,
						      vc_state_number(record->state)));
	}
	CHECK(strstr(test_string(&recording, vc_word_value(recording.root->program)), "/capture_"));
	CHECK(recording.root->device[0].check);
	CHECK(recording.root->device[0].total > 0);
	test_recording_close(&recording);
	GOOD(cuMemFree_v2, pointer);
}

#ifdef TEST_LIBRARY /* main is renamed */
int main(int argc, char **argv);
#endif

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "link";
	void *function = NULL;
	int status;

	if (!test_functions_get(way))
		return 1;
	if (argc > 2)
		_exit(exporter()); /* what is preloaded beside the recorder has no say here */
	CHECK(CALL(cuInit, 0) == 0);
	CHECK(test_recordings() == 0);
	ANY(cuGetProcAddress, "cuMemAlloc", &function, 12000, 0);
	ANY(cuGetProcAddress_v2, "cuMemAlloc", &function, 12000, 0, &status);
	CHECK(test_recordings() == 0);
	contexts();
	primary();
	linear();
	pools();
	memory_map();
	import();
	host();
	arrays();
	exports();
	other_process();
	foreign();
	capture();
	graphs();
	code(argv[0]);
	green();
	work();
	details();
	CHECK(counter(VC_COUNTER_DEVICE_UNKNOWN) == 0);
	CHECK(counter(VC_COUNTER_STACKS_SKIPPED) == 0);
	CHECK(counter(VC_COUNTER_REENTERED) == 0);
	for (int i = 0; i < TEST_ROWS; i++) {
		if (test_row_called[i] || test_row_of_results[i])
			continue;
		fprintf(stderr, "%s is not called by this test\n", test_row_name[i]);
		failures++;
	}
	return failures != 0;
}
