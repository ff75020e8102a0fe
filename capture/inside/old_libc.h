/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the C library under their oldest names, so that a library built on a new system
 * loads on an old one.
 *
 * Before glibc 2.34 they live in libdl and libpthread, which are loaded only if the program needs
 * them: they are weak here, and NULL there. Include it after the system's headers, in the file that
 * calls them.
 */
#ifndef VC_CAPTURE_INSIDE_OLD_LIBC_H
#define VC_CAPTURE_INSIDE_OLD_LIBC_H

#include <features.h>

#if !__GLIBC_PREREQ(2, 34) /* built for an old system: the only name is the oldest one */
#define VC_OLD_NAME(name)
#elif defined(__x86_64__)
#define VC_OLD_NAME(name) __asm__(".weak " #name "\n.symver " #name ", " #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define VC_OLD_NAME(name) __asm__(".weak " #name "\n.symver " #name ", " #name "@GLIBC_2.17")
#else
#error "unsupported processor"
#endif

#define VC_OLD_LIBC(name)                                                                          \
	VC_OLD_NAME(name);                                                                         \
	extern __typeof__(name) name __attribute__((weak))

#endif
