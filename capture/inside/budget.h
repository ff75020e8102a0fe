/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the recording may become, and the small system files this is read from.
 *
 * System calls only, no allocation. vc_budget is called by one thread at a time.
 * CTX: first hook of a process.
 */
#ifndef VC_CAPTURE_INSIDE_BUDGET_H
#define VC_CAPTURE_INSIDE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The smallest of `wanted`, 1/8 of what is free where `descriptor` lies, 1/8 of free memory, and
 * 1/8 of every memory limit of the process's control groups.
 */
uint64_t vc_budget(int descriptor, uint64_t wanted);

/**
 * Whether a mapping of this size leaves the program its address space: where that is limited, no
 * more than 1/32 of what is left of it. Any thread.
 */
bool vc_budget_addresses(uint64_t bytes);

/** Reads a small file whole; gives the bytes, NUL-terminated, or a negative errno. */
long vc_read_small(const char *path, char *buffer, size_t size);
/** A decimal number at *text, which moves past it; UINT64_MAX where there is none. */
uint64_t vc_budget_number(const char **text);

#endif
