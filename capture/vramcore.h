/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program can tell the recorder: steps, phases, blocks of its own allocators, tensors.
 *
 * Include this and link nothing. Every function does nothing until the program runs under the
 * recorder (`vramcore run`, or LD_PRELOAD=libvramcore.so). All are safe on any thread, keep errno,
 * and never fail. C and C++.
 */
#ifndef VRAMCORE_H
#define VRAMCORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The recorder's functions: addresses are NULL without it. Use the functions below instead. */
#define VRAMCORE_WEAK __attribute__((weak, visibility("default")))
VRAMCORE_WEAK void vramcore_v1_step(uint64_t);
VRAMCORE_WEAK void vramcore_v1_phase(const char *);
VRAMCORE_WEAK void vramcore_v1_phase_push(const char *);
VRAMCORE_WEAK void vramcore_v1_phase_pop(void);
VRAMCORE_WEAK void vramcore_v1_block(const void *, size_t, size_t, void *, const char *);
VRAMCORE_WEAK void vramcore_v1_block_free(const void *);
VRAMCORE_WEAK void vramcore_v1_tensor(const void *, size_t, const char *, const char *);
VRAMCORE_WEAK void vramcore_v1_tensor_free(const void *);
VRAMCORE_WEAK void vramcore_v1_snapshot(void);
VRAMCORE_WEAK int vramcore_v1_start(void);
#undef VRAMCORE_WEAK

#define VRAMCORE_CALL(name, arguments)                                                             \
	do {                                                                                       \
		if (vramcore_v1_##name)                                                            \
			vramcore_v1_##name arguments;                                              \
	} while (0)

/** Step `step` (an iteration, an epoch, a request: what the program does over and over) ended. */
static inline void vramcore_step(uint64_t step)
{
	VRAMCORE_CALL(step, (step));
}

/** From here on this thread is in phase `name`, instead of any it was in. NULL or "": in none. */
static inline void vramcore_phase(const char *name)
{
	VRAMCORE_CALL(phase, (name));
}

/** A phase inside the present one ("forward > layer1"), until the matching pop. */
static inline void vramcore_phase_push(const char *name)
{
	VRAMCORE_CALL(phase_push, (name));
}
static inline void vramcore_phase_pop(void)
{
	VRAMCORE_CALL(phase_pop, ());
}

/**
 * An allocator of the program handed out [pointer, pointer + bytes), a part of memory it has from
 * the driver, for use on `stream` (a CUstream, or NULL).
 */
static inline void vramcore_block(const void *pointer, size_t bytes, void *stream)
{
	VRAMCORE_CALL(block, (pointer, bytes, bytes, stream, NULL));
}

/** The same, with what the caller asked for before rounding, and a name (or NULL). */
static inline void vramcore_block_named(const void *pointer, size_t bytes, size_t requested,
					void *stream, const char *name)
{
	VRAMCORE_CALL(block, (pointer, bytes, requested, stream, name));
}

/** The block that starts at `pointer` was given back to that allocator. */
static inline void vramcore_block_free(const void *pointer)
{
	VRAMCORE_CALL(block_free, (pointer));
}

/**
 * The bytes at `pointer` are a tensor. `role` says what for ("parameter", "gradient", "optimizer
 * state", "activation", ...), `name` which one ("layer1.weight"); both may be NULL. Telling again
 * replaces what was told before.
 */
static inline void vramcore_tensor(const void *pointer, size_t bytes, const char *role,
				   const char *name)
{
	VRAMCORE_CALL(tensor, (pointer, bytes, role, name));
}

/** There is no tensor at `pointer` any more. */
static inline void vramcore_tensor_free(const void *pointer)
{
	VRAMCORE_CALL(tensor_free, (pointer));
}

/** Take a snapshot of this moment. It and vramcore_step ask the driver: not for signal handlers. */
static inline void vramcore_snapshot(void)
{
	VRAMCORE_CALL(snapshot, ());
}

/** Begin to record now, not at the first allocation. 1: recording, 0: not. */
static inline int vramcore_start(void)
{
	return vramcore_v1_start ? vramcore_v1_start() : 0;
}

#undef VRAMCORE_CALL

#ifdef __cplusplus
}
#endif

#endif
