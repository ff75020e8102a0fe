/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/space_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "capture/inside/space.h"
#include "capture/inside/system.h"
#include "capture/inside/thread.h"
#include "formats/error.h"

#define VC_PAGE 4096u
/* Descriptors the host is not likely to hand out next or to look at. */
#define VC_HIGH_DESCRIPTOR 1000

static struct {
	int held;                     /* descriptor of a memfd, else -1 */
	int kept;                     /* of the agent, in a table of its own, else -1 */
	uint64_t device, inode;
	char path[sizeof(((struct vc_anchor *)0)->path)];
} file = {.held = -1, .kept = -1};

/* ---- making it ---- */

static int path_make(const struct vc_store_options *options)
{
	const char *part[4] = {options->directory, "/", options->name, NULL};
	size_t length = 0;

	file.path[0] = '\0';
	if (options->directory[0] != '/') {
		/* The host may change its folder, and the name is needed again. */
		long got = vc_syscall(SYS_getcwd, (long)file.path, sizeof(file.path), 0, 0, 0, 0);

		if (got <= 0 || file.path[0] != '/')
			return VC_E_NOT_FOUND;
		length = (size_t)got - 1;
		if (length + 1 >= sizeof(file.path))
			return VC_E_LIMIT;
		file.path[length++] = '/';
	}
	for (int i = 0; part[i]; i++) {
		size_t add = strlen(part[i]);

		if (length + add + 1 > sizeof(file.path))
			return VC_E_LIMIT;
		memcpy(file.path + length, part[i], add);
		length += add;
	}
	file.path[length] = '\0';
	return 0;
}

int vc_space_file_error(long result)
{
	switch (-result) {
	case EEXIST:
		return VC_E_EXISTS;
	case ENOENT:
	case ENOTDIR:
		return VC_E_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return VC_E_PERMISSION;
	case ENOMEM:
	case ENOSPC:
		return VC_E_NO_MEMORY;
	case EFBIG:
		return VC_E_LIMIT;
	default:
		return VC_E_IO;
	}
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static int memory_file(const char *name)
{
	const char *label = name && name[0] ? name : "vramcore";
	long descriptor, high;

	descriptor = vc_syscall(SYS_memfd_create, (long)label, MFD_CLOEXEC | MFD_NOEXEC_SEAL, 0, 0,
				0, 0);
	if (descriptor == -EINVAL)
		descriptor = vc_syscall(SYS_memfd_create, (long)label, MFD_CLOEXEC, 0, 0, 0, 0);
	if (descriptor < 0)
		return (int)descriptor;
	high = vc_syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, VC_HIGH_DESCRIPTOR, 0, 0, 0);
	if (high < 0)
		high = vc_syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, 100, 0, 0, 0);
	if (high < 0)
		high = vc_syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
	if (high < 0) {
		vc_sys_close((int)descriptor);
		return (int)high;
	}
	file.held = (int)high;
	return (int)descriptor;
}

int vc_space_file_make(const struct vc_store_options *options, int *ret_descriptor)
{
	struct stat facts;
	int descriptor, error;

	if (options->directory && !options->in_core) {
		error = path_make(options);
		if (error < 0)
			return error;
		descriptor = vc_sys_open(file.path,
					 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (descriptor < 0) {
			file.path[0] = '\0';
			return vc_space_file_error(descriptor);
		}
		/* The mode above is less the host's umask. */
		vc_syscall(SYS_fchmod, descriptor, 0600, 0, 0, 0, 0);
	} else {
		descriptor = memory_file(options->name);
		if (descriptor < 0)
			return vc_space_file_error(descriptor);
	}
	if (vc_syscall(SYS_fstat, descriptor, (long)&facts, 0, 0, 0, 0) < 0) {
		vc_sys_close(descriptor);
		return VC_E_IO;
	}
	file.device = facts.st_dev;
	file.inode = facts.st_ino;
	*ret_descriptor = descriptor;
	return 0;
}

/* ---- using it ---- */

static bool within_file_limit(uint64_t end)
{
	struct rlimit limit;

	if (vc_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0) < 0)
		return true;
	return limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur;
}

static bool is_our_file(int descriptor)
{
	struct stat facts;

	return vc_syscall(SYS_fstat, descriptor, (long)&facts, 0, 0, 0, 0) == 0 &&
	       facts.st_dev == file.device && facts.st_ino == file.inode;
}

int vc_space_file_open(void)
{
	int descriptor = vc_thread_local.keeps ? file.kept : file.held;

	if (vc_thread_local.keeps && descriptor >= 0 && is_our_file(descriptor))
		return descriptor;
	if (descriptor < 0 && file.path[0])
		descriptor = vc_sys_open(file.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
	if (descriptor < 0)
		return descriptor;
	if (is_our_file(descriptor))
		return descriptor;
	if (descriptor != file.held)
		vc_sys_close(descriptor);
	return -EBADF;
}

void vc_space_file_close(int descriptor)
{
	if (descriptor != (vc_thread_local.keeps ? file.kept : file.held))
		vc_sys_close(descriptor);
}

int vc_space_open(void)
{
	int descriptor = vc_space_file_open();

	if (descriptor >= 0 && descriptor == file.held)
		return (int)vc_syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
	return descriptor;
}

bool vc_space_keep(int descriptor)
{
	/* The agent came too late: the number may stand for something of the program's by now. */
	if (descriptor < 0 || !is_our_file(descriptor))
		return false;
	file.kept = descriptor;
	vc_thread_local.keeps = true;
	return true;
}

void vc_space_let_go(void)
{
	if (file.held >= 0 && file.kept >= 0 && is_our_file(file.held)) {
		vc_sys_close(file.held);
		file.held = -1;
	}
}

/* For file systems without fallocate. */
static int write_zeroes(int descriptor, uint64_t offset, uint64_t bytes)
{
	static const char zeroes[VC_PAGE];

	for (uint64_t done = 0; done < bytes;) {
		long wrote = vc_sys_pwrite(descriptor, zeroes, VC_PAGE, offset + done);

		if (wrote == -EINTR)
			continue;
		if (wrote != VC_PAGE)
			return wrote < 0 ? (int)wrote : -ENOSPC;
		done += VC_PAGE;
	}
	return 0;
}

int vc_space_file_store(int descriptor, uint64_t offset, uint64_t bytes)
{
	long result;
	int tries = 0;

	if (!within_file_limit(offset + bytes))
		return -EFBIG;
	do {
		result = vc_syscall(SYS_fallocate, descriptor, 0, (long)offset, (long)bytes, 0, 0);
	} while (result == -EINTR && ++tries < 100);
	if (result == -EOPNOTSUPP)
		result = write_zeroes(descriptor, offset, bytes);
	if (result == -EFBIG) {
		/* The limit was lowered just now: the signal it raised is not for the host. */
		static const struct timespec now;
		uint64_t set = UINT64_C(1) << (SIGXFSZ - 1);

		vc_syscall(SYS_rt_sigtimedwait, (long)&set, 0, (long)&now, sizeof(set), 0, 0);
	}
	return (int)result;
}

const char *vc_space_path(void)
{
	return file.path;
}

void vc_space_unlink(void)
{
	if (file.path[0])
		vc_sys_unlink(file.path);
}

void vc_space_file_forget(void)
{
	/* Of a memfd: a descriptor that the host put there since is not ours to close. */
	if (file.held >= 0 && is_our_file(file.held))
		vc_sys_close(file.held);
	memset(&file, 0, sizeof(file));
	file.held = file.kept = -1;
}
