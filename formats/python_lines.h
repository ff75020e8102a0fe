/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line of an instruction of Python, from the table that CPython keeps with each code object:
 * co_lnotab of 3.9, co_linetable of 3.10, the location table from 3.11 on. As Objects/codeobject.c
 * and its notes describe them. Every byte is untrusted.
 */
#ifndef VC_FORMATS_PYTHON_LINES_H
#define VC_FORMATS_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/**
 * Line of the instruction at `instruction` bytes from the start of the code. `version`: 0x030b is
 * 3.11. 0: it has none, or the table does not reach it.
 */
uint32_t vc_python_line(uint16_t version, uint32_t first_line, const uint8_t *table, size_t length,
			uint64_t instruction);

#endif
