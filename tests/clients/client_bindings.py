# SPDX-License-Identifier: Apache-2.0
"""cuda-bindings: linear, managed, pitched, host memory, pools, virtual memory, arrays, graphs, IPC handles."""
import mmap

from cuda.bindings import driver as cu

from clients import compare, end

MIB = 1 << 20
GRANULE = 2 * MIB


def ok(result):
    assert result[0] == cu.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]


def linear():
    pointers = [ok(cu.cuMemAlloc(size)) for size in (1000, MIB, 37 * MIB)]
    pointers.append(ok(cu.cuMemAllocManaged(5 * MIB, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)))
    pointers.append(ok(cu.cuMemAllocPitch(1000, 10, 4))[0])
    compare("linear", 6)
    ok(cu.cuMemsetD8(pointers[0], 1, 1000))
    for pointer in pointers[::2]:
        ok(cu.cuMemFree(pointer))
    compare("linear: some freed", 3)
    for pointer in pointers[1::2]:
        ok(cu.cuMemFree(pointer))
    compare("linear: gone")


def host():
    first, second = ok(cu.cuMemAllocHost(MIB)), ok(cu.cuMemHostAlloc(3 * MIB, 0))
    area = mmap.mmap(-1, MIB)
    import ctypes
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    ok(cu.cuMemHostRegister(address, MIB, 0))
    compare("host", 4)
    ok(cu.cuMemFreeHost(first))
    ok(cu.cuMemFreeHost(second))
    ok(cu.cuMemHostUnregister(address))
    compare("host: gone")


def pools(device):
    stream = ok(cu.cuStreamCreate(0))
    properties = cu.CUmemPoolProps()
    properties.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = int(device)
    pool = ok(cu.cuMemPoolCreate(properties))
    pointers = [ok(cu.cuMemAllocAsync(size, stream)) for size in (100, 40 * MIB)]
    pointers += [ok(cu.cuMemAllocFromPoolAsync(size, pool, stream)) for size in (200, 8 * MIB)]
    compare("pools", 6)
    for pointer in pointers[:3]:
        ok(cu.cuMemFreeAsync(pointer, stream))
    ok(cu.cuMemFree(pointers[3]))
    ok(cu.cuStreamSynchronize(stream))
    ok(cu.cuMemPoolTrimTo(pool, 0))
    ok(cu.cuMemPoolDestroy(pool))
    compare("pools: gone")
    ok(cu.cuStreamDestroy(stream))


def virtual(device):
    properties = cu.CUmemAllocationProp()
    properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = int(device)
    properties.requestedHandleTypes = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    base = ok(cu.cuMemAddressReserve(8 * GRANULE, 0, 0, 0))
    handles = [ok(cu.cuMemCreate(n * GRANULE, properties, 0)) for n in (1, 2)]
    ok(cu.cuMemMap(base, GRANULE, 0, handles[0], 0))
    ok(cu.cuMemMap(int(base) + GRANULE, 2 * GRANULE, 0, handles[1], 0))
    access = cu.CUmemAccessDesc()
    access.location = properties.location
    access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    ok(cu.cuMemSetAccess(base, 3 * GRANULE, [access], 1))
    compare("virtual memory", 6)
    descriptor = ok(cu.cuMemExportToShareableHandle(handles[0], properties.requestedHandleTypes, 0))
    imported = ok(cu.cuMemImportFromShareableHandle(int(descriptor), properties.requestedHandleTypes))
    ok(cu.cuMemMap(int(base) + 4 * GRANULE, GRANULE, 0, imported, 0))
    compare("virtual memory: imported", 7)
    ok(cu.cuMemUnmap(int(base) + 4 * GRANULE, GRANULE))
    ok(cu.cuMemRelease(imported))
    ok(cu.cuMemRelease(handles[0]))
    compare("virtual memory: released, mapped", 5)
    ok(cu.cuMemUnmap(base, GRANULE))
    ok(cu.cuMemUnmap(int(base) + GRANULE, 2 * GRANULE))
    ok(cu.cuMemRelease(handles[1]))
    ok(cu.cuMemAddressFree(base, 8 * GRANULE))
    compare("virtual memory: gone")


def arrays():
    flat = cu.CUDA_ARRAY_DESCRIPTOR()
    flat.Width, flat.Height, flat.NumChannels = 640, 480, 4
    flat.Format = cu.CUarray_format.CU_AD_FORMAT_FLOAT
    deep = cu.CUDA_ARRAY3D_DESCRIPTOR()
    deep.Width, deep.Height, deep.Depth, deep.NumChannels = 64, 64, 8, 2
    deep.Format = cu.CUarray_format.CU_AD_FORMAT_HALF
    made = [ok(cu.cuArrayCreate(flat)), ok(cu.cuArray3DCreate(deep))]
    mipmap = ok(cu.cuMipmappedArrayCreate(deep, 3))
    compare("arrays", 4)
    for array in made:
        ok(cu.cuArrayDestroy(array))
    ok(cu.cuMipmappedArrayDestroy(mipmap))
    compare("arrays: gone")


def graphs():
    stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    ok(cu.cuMemAllocAsync(3 * MIB, stream))
    graph = ok(cu.cuStreamEndCapture(stream))
    compare("graph: captured", 2)
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    compare("graph: launched", 2)
    ok(cu.cuStreamDestroy(stream))


def ipc():
    pointer = ok(cu.cuMemAlloc(4 * MIB))
    ok(cu.cuIpcGetMemHandle(pointer))
    compare("ipc: handle given out", 2)
    ok(cu.cuMemFree(pointer))
    compare("ipc: gone")


def main():
    ok(cu.cuInit(0))
    device = ok(cu.cuDeviceGet(1))
    context = ok(cu.cuDevicePrimaryCtxRetain(device))
    ok(cu.cuCtxSetCurrent(context))
    compare("context")
    linear()
    host()
    pools(device)
    virtual(device)
    arrays()
    ipc()
    graphs()
    end(17)


main()
