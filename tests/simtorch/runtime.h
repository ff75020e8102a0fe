/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA runtime of our own: types of its public interface, and what its parts share.
 *
 * Names, sizes and values are those of the public documentation of CUDA 12.4 and 13; a test
 * compares them with real headers where such are installed. Handles and driver types come from the
 * simulated driver's declarations. STUB_CUDA_MAJOR says which of the two interfaces is built: the
 * device properties and three signatures differ.
 *
 * Model: the driver is opened at the first call, and each of its functions asked for by name and
 * version, so that whoever stands in between sees such requests as a real runtime makes. A thread
 * has a device (0 at first); its primary context is retained, and made current, at the first call
 * that needs one. Every call leaves its failure in the thread's last error. Nothing here may be
 * called from a signal handler.
 */
#ifndef SIMTORCH_RUNTIME_H
#define SIMTORCH_RUNTIME_H

#include "sim_cuda.h"
#include "stub.h"

/* The version that the newest wheel of each line was built with. */
#define RUNTIME_VERSION (STUB_CUDA_MAJOR >= 13 ? 13020 : 12040)

typedef enum cudaError {
#define RUNTIME_ERROR(name, number, text) name = number,
#include "runtime_errors.def"
#undef RUNTIME_ERROR
} cudaError_t;

typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;
typedef CUgraph cudaGraph_t;
typedef CUgraphNode cudaGraphNode_t;
typedef CUgraphExec cudaGraphExec_t;
typedef CUmemoryPool cudaMemPool_t;
typedef CUkernel cudaKernel_t;
typedef CUlibrary cudaLibrary_t;
typedef CUhostFn cudaHostFn_t;
typedef CUgraphEdgeData cudaGraphEdgeData;

typedef struct runtime_dim3 {
	unsigned int x, y, z;
} dim3;

typedef struct cudaLaunchConfig_st {
	dim3 gridDim;
	dim3 blockDim;
	size_t dynamicSmemBytes;
	cudaStream_t stream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} cudaLaunchConfig_t;

enum cudaMemcpyKind { cudaMemcpyHostToHost = 0, cudaMemcpyDefault = 4 };

enum cudaMemoryType {
	cudaMemoryTypeUnregistered = 0,
	cudaMemoryTypeHost = 1,
	cudaMemoryTypeDevice = 2,
	cudaMemoryTypeManaged = 3
};

struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer;
	void *hostPointer;
#if STUB_CUDA_MAJOR >= 13
	long reserved[8];
#endif
};

struct cudaFuncAttributes {
	size_t sharedSizeBytes;
	size_t constSizeBytes;
	size_t localSizeBytes;
	int maxThreadsPerBlock;
	int numRegs;
	int ptxVersion;
	int binaryVersion;
	int cacheModeCA;
	int maxDynamicSharedSizeBytes;
	int preferredShmemCarveout;
	int clusterDimMustBeSet;
	int requiredClusterWidth;
	int requiredClusterHeight;
	int requiredClusterDepth;
	int clusterSchedulingPolicyPreference;
	int nonPortableClusterSizeAllowed;
	int reserved[16];
};

struct cudaDeviceProp {
	char name[256];
	CUuuid uuid;
	char luid[8];
	unsigned int luidDeviceNodeMask;
#define DEVICE_PROPERTY(type, name, count, attribute) type name[count];
#include "device_properties.def"
#undef DEVICE_PROPERTY
	int reserved[STUB_CUDA_MAJOR >= 13 ? 56 : 63];
};

/* --- the parts --- */

struct runtime_driver {
#define DRIVER_ENTRY(name, version, symbol) __typeof__(&symbol) name;
#include "driver_entries.def"
#undef DRIVER_ENTRY
};

/** The driver's functions; filled once runtime_start has succeeded. */
extern struct runtime_driver driver;

/** Opens and initialises the driver, once. */
cudaError_t runtime_start(void);
/** runtime_start, and a current context on this thread. */
cudaError_t runtime_context(void);
/** Remembers a failure as the thread's last error; returns what it is given. */
cudaError_t runtime_note(cudaError_t error);
/** The primary context of a device, retained once by this library. */
cudaError_t runtime_primary(int device, CUcontext *ret);
/** Arranges, once, that blocks which PyTorch reuses are cleared, unless unwanted. */
void runtime_clear_start(void);

/* Functions that need nothing, the driver, or a current context. */
#define RUNTIME_ALWAYS(name, parameters, expression)                                               \
	cudaError_t stub_##name parameters                                                         \
	{                                                                                          \
		return runtime_note((cudaError_t)(expression));                                    \
	}

#define RUNTIME_CALL_AFTER(start, name, parameters, expression)                                    \
	cudaError_t stub_##name parameters                                                         \
	{                                                                                          \
		cudaError_t error_ = start();                                                      \
                                                                                                   \
		if (error_ == cudaSuccess)                                                         \
			error_ = (cudaError_t)(expression);                                        \
		return runtime_note(error_);                                                       \
	}

#define RUNTIME_STARTED(name, parameters, expression)                                              \
	RUNTIME_CALL_AFTER(runtime_start, name, parameters, expression)
#define RUNTIME_CALL(name, parameters, expression)                                                 \
	RUNTIME_CALL_AFTER(runtime_context, name, parameters, expression)

#endif
