/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instead of capture/inside/old_libc.h, where the recorder is part of a program that the thread
 * sanitizer watches: threads that are made by way of the oldest names pass it by.
 */
#ifndef VC_CAPTURE_INSIDE_OLD_LIBC_H
#define VC_CAPTURE_INSIDE_OLD_LIBC_H

#define VC_OLD_LIBC(name) extern __typeof__(name) name __attribute__((weak))

#endif
