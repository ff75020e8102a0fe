/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls made directly: errno stays as it is, nothing is a cancellation point, and no libc
 * symbol newer than the oldest supported system is needed.
 *
 * Each returns what the kernel returned: a result, or a negative errno.
 */
#ifndef VC_CAPTURE_INSIDE_SYSTEM_H
#define VC_CAPTURE_INSIDE_SYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

static inline long vc_syscall(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "unsupported processor"
#endif
}

#define VC_AT_FDCWD (-100)

static inline int vc_sys_open(const char *path, int flags, unsigned int mode)
{
	return (int)vc_syscall(SYS_openat, VC_AT_FDCWD, (long)path, flags, mode, 0, 0);
}
/** Copies from this process's own memory through the kernel; false: not all of it is there. */
static inline int vc_sys_peek(uint64_t from, void *to, size_t length)
{
	const struct iovec local = {to, length}, remote = {(void *)(uintptr_t)from, length};
	long own = vc_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	return vc_syscall(SYS_process_vm_readv, own, (long)&local, 1, (long)&remote, 1, 0) ==
	       (long)length;
}
static inline int vc_sys_close(int descriptor)
{
	return (int)vc_syscall(SYS_close, descriptor, 0, 0, 0, 0, 0);
}
static inline long vc_sys_read(int descriptor, void *buffer, size_t length)
{
	return vc_syscall(SYS_read, descriptor, (long)buffer, (long)length, 0, 0, 0);
}
static inline long vc_sys_write(int descriptor, const void *buffer, size_t length)
{
	return vc_syscall(SYS_write, descriptor, (long)buffer, (long)length, 0, 0, 0);
}
static inline long vc_sys_pwrite(int descriptor, const void *buffer, size_t length, uint64_t offset)
{
	return vc_syscall(SYS_pwrite64, descriptor, (long)buffer, (long)length, (long)offset, 0, 0);
}
static inline int vc_sys_unlink(const char *path)
{
	return (int)vc_syscall(SYS_unlinkat, VC_AT_FDCWD, (long)path, 0, 0, 0, 0);
}
static inline int vc_sys_mkdir(const char *path, unsigned int mode)
{
	return (int)vc_syscall(SYS_mkdirat, VC_AT_FDCWD, (long)path, mode, 0, 0, 0);
}
/** Gives a finished file its name; -EEXIST where the name is taken. */
static inline int vc_sys_link(const char *from, const char *to)
{
	return (int)vc_syscall(SYS_linkat, VC_AT_FDCWD, (long)from, VC_AT_FDCWD, (long)to, 0, 0);
}
/** Address, or a negative errno (as a pointer in the last page; test with vc_sys_failed). */
static inline void *vc_sys_mmap(void *address, size_t length, int protection, int flags,
				int descriptor, uint64_t offset)
{
	return (void *)vc_syscall(SYS_mmap, (long)address, (long)length, protection, flags,
				  descriptor, (long)offset);
}
static inline int vc_sys_failed(const void *address)
{
	return (unsigned long)address > -4096ul;
}
static inline int vc_sys_munmap(void *address, size_t length)
{
	return (int)vc_syscall(SYS_munmap, (long)address, (long)length, 0, 0, 0, 0);
}
static inline int vc_sys_madvise(void *address, size_t length, int advice)
{
	return (int)vc_syscall(SYS_madvise, (long)address, (long)length, advice, 0, 0, 0);
}
static inline int vc_sys_getpid(void)
{
	return (int)vc_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}
static inline int vc_sys_gettid(void)
{
	return (int)vc_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}
/** Sleeps while *word == value, at most `timeout` (NULL: for ever). */
static inline int vc_sys_futex_wait(uint32_t *word, uint32_t value, const struct timespec *timeout)
{
	return (int)vc_syscall(SYS_futex, (long)word, 128 /* wait, private */, value, (long)timeout,
			       0, 0);
}
static inline int vc_sys_futex_wake(uint32_t *word)
{
	return (int)vc_syscall(SYS_futex, (long)word, 129 /* wake, private */, 1, 0, 0, 0);
}

#endif
