/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in memory, for tests. */
#ifndef VC_TESTS_FILE_BYTES_H
#define VC_TESTS_FILE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/** The bytes of a file, to be freed, with a NUL behind them; ends the test program on failure. */
uint8_t *file_bytes(const char *path, size_t *length);

#endif
