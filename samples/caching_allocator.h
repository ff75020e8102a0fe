/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small caching allocator, of the kind every framework has: it asks the driver for segments,
 * hands out blocks inside them, and keeps what is freed for the next request. It tells a recorder
 * about its blocks through vramcore.h, two lines that any allocator can add.
 */
#ifndef SAMPLES_CACHING_ALLOCATOR_H
#define SAMPLES_CACHING_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "driver.h"

/** `report`: tell the recorder about blocks. */
void caching_open(const struct driver *driver, bool report);
/** A block of at least `bytes`, a multiple of 512; 0 when the device has no memory left. */
device_pointer caching_allocate(size_t bytes);
/** Gives a block back to the cache. */
void caching_free(device_pointer pointer);
/** Gives wholly free segments back to the driver. */
void caching_release_cached(void);
/** Bytes in blocks handed out, and bytes had from the driver. */
void caching_totals(size_t *allocated, size_t *reserved);

#endif
