/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/observe.h"

#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "capture/inside/loader.h"
#include "capture/inside/settings.h"
#include "capture/inside/system.h"
#include "capture/inside/text.h"

struct vc_observed *vc_observed;

static void copy(char *to, size_t size, const char *from)
{
	size_t i = 0;

	for (; from[i] && i + 1 < size; i++)
		to[i] = from[i];
	to[i] = 0;
}

/* Before all other constructors: they reach for the driver. */
static __attribute__((constructor(101))) void start(void)
{
	const char *folder = vc_environment(VC_OBSERVED_VARIABLE);
	struct vc_observed *observed;
	char path[1100];
	struct vc_text text = vc_text_in(path, sizeof(path));
	int descriptor;
	long length;

	if (!folder || !*folder)
		return;
	vc_text_add(&text, folder);
	vc_text_add(&text, "/" VC_OBSERVED_PREFIX);
	vc_text_number(&text, (uint64_t)vc_sys_getpid());
	if (text.cut)
		return;
	/* A program that runs another in its place goes on in the same file. */
	descriptor = vc_sys_open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (descriptor < 0)
		return;
	observed = NULL;
	if (vc_syscall(SYS_ftruncate, descriptor, sizeof(*observed), 0, 0, 0, 0) == 0)
		observed = vc_sys_mmap(NULL, sizeof(*observed), PROT_READ | PROT_WRITE, MAP_SHARED,
				       descriptor, 0);
	vc_sys_close(descriptor);
	if (!observed || vc_sys_failed(observed))
		return;
	observed->pid = (uint32_t)vc_sys_getpid();
	length = vc_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe",
			    (long)observed->program, sizeof(observed->program) - 1, 0, 0);
	observed->program[length > 0 ? length : 0] = 0;
	observed->magic = VC_OBSERVED_MAGIC;
	vc_observed = observed;
}

void vc_observe_driver(const char *path)
{
	uint32_t number;

	if (!vc_observed)
		return;
	number = __atomic_fetch_add(&vc_observed->drivers, 1, __ATOMIC_RELAXED);
	if (number < 4)
		copy(vc_observed->driver[number], sizeof(vc_observed->driver[0]), path);
}

void vc_observe_unrecorded(const char *name)
{
	uint32_t count, number;

	if (!vc_observed || !name)
		return;
	count = __atomic_load_n(&vc_observed->unrecorded_count, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < count && i < VC_OBSERVED_NAMES; i++)
		if (!strncmp(vc_observed->unrecorded[i], name,
			     sizeof(vc_observed->unrecorded[0]) - 1))
			return;
	number = __atomic_fetch_add(&vc_observed->unrecorded_count, 1, __ATOMIC_RELAXED);
	if (number < VC_OBSERVED_NAMES)
		copy(vc_observed->unrecorded[number], sizeof(vc_observed->unrecorded[0]), name);
}

/* ---- the end ---- */

struct scan {
	void *const *functions;
	unsigned int count;
};

static const void *entry_of(const ElfW(Dyn) *dynamic, int64_t tag, uintptr_t bias, uint64_t *value)
{
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag != tag)
			continue;
		if (value)
			*value = dynamic->d_un.d_val;
		return (const void *)(dynamic->d_un.d_ptr < bias ? dynamic->d_un.d_ptr + bias :
								   dynamic->d_un.d_ptr);
	}
	return NULL;
}

static bool holds_function(const struct scan *scan, const ElfW(Rela) *relocation, uint64_t bytes,
			   uintptr_t bias)
{
	for (uint64_t i = 0; relocation && i < bytes / sizeof(*relocation); i++) {
		unsigned int type = ELF64_R_TYPE(relocation[i].r_info);
		void *value;

#if defined(__x86_64__)
		if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64)
			continue;
#else
		if (type != R_AARCH64_JUMP_SLOT && type != R_AARCH64_GLOB_DAT &&
		    type != R_AARCH64_ABS64)
			continue;
#endif
		if (!ELF64_R_SYM(relocation[i].r_info))
			continue;
		memcpy(&value, (const void *)(bias + relocation[i].r_offset), sizeof(value));
		for (unsigned int k = 0; k < scan->count; k++)
			if (value && scan->functions[k] == value)
				return true;
	}
	return false;
}

/* An object whose slots for the driver's functions hold the driver's own addresses. */
static int scan_object(struct dl_phdr_info *info, size_t size, void *argument)
{
	const struct scan *scan = argument;
	const ElfW(Dyn) *dynamic = NULL;
	uint64_t plt_bytes = 0, bytes = 0;
	const ElfW(Rela) *plt, *data;
	struct vc_object object;

	(void)size;
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	object = (struct vc_object){info->dlpi_addr, dynamic, info->dlpi_name};
	if (!dynamic || vc_object_is_driver(&object) ||
	    vc_same_text(vc_object_soname(&object), "libvramcore.so"))
		return 0;
	entry_of(dynamic, DT_PLTRELSZ, 0, &plt_bytes);
	entry_of(dynamic, DT_RELASZ, 0, &bytes);
	if (vc_same_text(vc_object_soname(&object), "libc10_cuda.so"))
		vc_observed->torch = 1;
	plt = entry_of(dynamic, DT_JMPREL, info->dlpi_addr, NULL);
	data = entry_of(dynamic, DT_RELA, info->dlpi_addr, NULL);
	if ((holds_function(scan, plt, plt_bytes, info->dlpi_addr) ||
	     holds_function(scan, data, bytes, info->dlpi_addr)) &&
	    vc_observed->bypass_count < VC_OBSERVED_OBJECTS)
		copy(vc_observed->bypass[vc_observed->bypass_count++],
		     sizeof(vc_observed->bypass[0]),
		     *info->dlpi_name ? info->dlpi_name : vc_observed->program);
	return 0;
}

static void note_elsewhere(const struct vc_object *object)
{
	if (vc_object_is_driver(object) && vc_observed->elsewhere_count < VC_OBSERVED_OBJECTS)
		copy(vc_observed->elsewhere[vc_observed->elsewhere_count++],
		     sizeof(vc_observed->elsewhere[0]), object->name);
}

void vc_observe_end(void *const *functions, unsigned int count)
{
	struct scan scan = {functions, count};

	if (!vc_observed)
		return;
	vc_observed->bypass_count = vc_observed->elsewhere_count = 0;
	if (count)
		dl_iterate_phdr(scan_object, &scan);
	vc_objects_elsewhere(note_elsewhere);
	vc_observed->ended = 1;
}
