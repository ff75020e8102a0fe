/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recorder under observation notes of itself, for `vramcore doctor --run`.
 *
 * Where VRAMCORE_OBSERVED names a folder, each process maps a file "observed-PID" there and writes
 * as things happen, so that it tells also of processes that are killed. It never leaves the machine
 * and is removed by the doctor: there is no compatibility to keep. A forked child that runs no other
 * program notes into its parent's file. Readers must expect any content.
 */
#ifndef VC_FORMATS_OBSERVED_H
#define VC_FORMATS_OBSERVED_H

#include <stdint.h>

#define VC_OBSERVED_VARIABLE "VRAMCORE_OBSERVED"
#define VC_OBSERVED_PREFIX "observed-"
#define VC_OBSERVED_MAGIC UINT64_C(0x3144565245534256)
#define VC_OBSERVED_NAMES 512u
#define VC_OBSERVED_OBJECTS 16u

struct vc_observed {
	uint64_t magic;
	uint32_t pid;
	uint32_t ended;           /* the program ended by itself: `bypass` is known */
	uint32_t init_calls;      /* of cuInit */
	int32_t init_result;      /* of the last one */
	uint32_t recording;       /* 1: begun */
	uint32_t agent;           /* 1: started, 2: it could not be */
	uint32_t drivers;         /* how many of `driver` are set */
	uint32_t audit;           /* answers by way of LD_AUDIT */
	uint32_t by_name;         /* functions handed out by dlsym and dlvsym as wrappers */
	uint32_t asked;           /* functions that cuGetProcAddress gave */
	uint32_t translated;      /* as wrappers, of these */
	uint32_t unrecorded_count;/* different ones that were handed out as they are */
	uint32_t bypass_count;    /* objects that call the driver past the recorder */
	uint32_t elsewhere_count; /* drivers in namespaces of their own */
	uint32_t torch_blocks;    /* blocks that PyTorch reported, born or freed */
	uint32_t torch;           /* 1: PyTorch's CUDA allocator was loaded at the end */
	uint64_t reserved[7];
	char driver[4][512];
	char program[512];
	char bypass[VC_OBSERVED_OBJECTS][512];
	char elsewhere[VC_OBSERVED_OBJECTS][512];
	char unrecorded[VC_OBSERVED_NAMES][64];
};

#endif
