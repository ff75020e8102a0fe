/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-ins for NVIDIA's libraries share.
 *
 * Each library is made of one table (NAME.def, rows STUB(symbol, answer)), the trampolines that are
 * made of it and the C functions behind its WRITTEN rows. Answers: WRITTEN: a function
 * stub_<symbol> of this library. ACCEPTED: success, for calls whose outputs, if any, are
 * device memory. REFUSED: the library's own "not supported". FREE: success; the first argument is
 * an object that ends. HANDLEn, INTn, SIZEn: success, and the
 * n-th integer or pointer argument is where a new object, an int 0 or a size_t 0 goes; SIZESn: two
 * size_t, there and in the next argument.
 * Functions may be called from any thread.
 */
#ifndef SIMTORCH_STUB_H
#define SIMTORCH_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef STUB_CUDA_MAJOR /* which line of wheels the libraries are for */
#define STUB_CUDA_MAJOR 13
#endif

/** The rows of the library's table, how often each was called, and how many there are. */
extern const char *const stub_names[];
extern _Atomic uint32_t stub_counts[];
extern const uint32_t stub_count;

/** What a REFUSED row answers; the build gives it per library. */
int stub_refuse(uint32_t row);
/** What an ACCEPTED row answers: 0. */
int stub_accept(uint32_t row);

/** Behind the FREE rows. */
int stub_free(void *object);
/** Behind the rows with an output: the argument that it goes to. */
int stub_write_HANDLE(void **ret);
int stub_write_INT(int *ret);
int stub_write_SIZE(size_t *ret);
int stub_write_SIZES(size_t *ret, size_t *second);

/** A new object of that many zero bytes, or NULL: what opaque handles of the libraries point to. */
void *stub_object(size_t size);
void stub_object_free(void *object);

/**
 * Copies between any two places, device or host, through the driver that is loaded; the calling
 * thread has a context current, as it has with the real libraries. 0, or the driver's result.
 */
int stub_copy(void *to, const void *from, size_t size);
/** Device memory of the library's own; NULL when there is none. */
void *stub_device_allocate(size_t size);
void stub_device_free(void *address);

#endif
