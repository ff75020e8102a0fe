/* SPDX-License-Identifier: Apache-2.0 */
/* A program's file: where it is, and what it is linked with. Every byte of it is untrusted. */
#ifndef VC_CAPTURE_OUTSIDE_PROGRAM_H
#define VC_CAPTURE_OUTSIDE_PROGRAM_H

#include <stdbool.h>

/** Finds it as a shell does; `path` has room for PATH_MAX bytes. */
bool vc_program_find(const char *name, char *path);

/** Whether it is an ELF file that needs a library whose name begins so ("libasan.so"). */
bool vc_program_needs(const char *path, const char *library);

#endif
