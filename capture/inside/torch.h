/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of PyTorch's CUDA allocator, by the reports it makes to its profiler.
 *
 * libc10_cuda.so calls c10::reportMemoryUsageToProfiler for every block it hands out and takes
 * back, profiler or not, through its procedure linkage table and under the lock of the device's
 * allocator: a symbol of the same name in a library that comes first gets every call, in the order
 * in which things happened. Each is passed on to PyTorch's own function, found in the loader's
 * list (the libraries of a Python extension are in no scope that RTLD_NEXT sees). Other devices'
 * reports cost a comparison. The size is that of the block, rounded; stream, pool and what was
 * asked for are not told. The back ends cudaMallocAsync, "no caching" and pluggable allocators
 * report nothing.
 *
 * Where a block lies need not be known here: no allocation goes before its blocks, so the reader
 * finds it by address.
 */
#ifndef VC_CAPTURE_INSIDE_TORCH_H
#define VC_CAPTURE_INSIDE_TORCH_H

/**
 * For the loader's audit library: what to bind to instead of `function`, PyTorch's own of that
 * name. Under the loader's lock. `function` itself where the name is none of torch.def.
 */
void *vc_torch_redirect(const char *name, void *function);

#endif
