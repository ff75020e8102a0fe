/* SPDX-License-Identifier: Apache-2.0 */
/* The table of loaded objects. */
#include "capture/inside/modules.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/error.h"

enum {
	PATHS_SIZE = 512 * 1024,
	PATH_LONGEST = 4096,
	HDR_SAMPLE = 512, /* bytes of .eh_frame_hdr that tell apart objects without a build-id */
	ATTEMPTS = 4,
};

/* Written once under the loader's lock, before its addresses are published. */
struct module {
	uintptr_t low;
	uintptr_t high;
	uintptr_t bias;
	struct vc_cfi_table cfi;
	uint64_t fingerprint;
	uint64_t seen; /* pass that last found it loaded; under the loader's lock */
	const char *path;
	uint32_t build_id_size;
	uint8_t build_id[VC_BUILD_ID_MAX];
};

/* Apart from the modules, so that looking for an address reads little. high is 0 once gone. */
struct span {
	_Atomic uintptr_t low;
	_Atomic uintptr_t high;
};

static struct module modules[VC_MODULES_MAX + 1];
static struct span spans[VC_MODULES_MAX + 1];
static _Atomic uint32_t module_count;
static _Atomic uint64_t generation;

/* Under the loader's lock. */
static unsigned long long known_adds;
static unsigned long long known_subs;
static bool known;
static uint64_t last_pass;
static char paths[PATHS_SIZE];
static uint32_t paths_used = 1; /* paths[0] is "" */
static bool main_program_seen;

/* The first unit stands for "nobody watches dlclose". */
static _Atomic uint32_t dlcloses_running = 1;
static _Atomic uint64_t dlcloses_done;

static uint32_t find(uintptr_t pc)
{
	uint32_t count = atomic_load_explicit(&module_count, memory_order_acquire);
	uint32_t i;

	for (i = 1; i <= count; i++) {
		if (pc >= atomic_load_explicit(&spans[i].low, memory_order_relaxed) &&
		    pc < atomic_load_explicit(&spans[i].high, memory_order_acquire))
			return i;
	}
	return 0;
}

/* Copies a path into the store; "" when it is full. */
static const char *keep_path(const char *directory, size_t directory_size, const char *name,
			     size_t name_size)
{
	size_t separator = directory_size > 0;
	size_t size = directory_size + separator + name_size + 1;
	char *at = paths + paths_used;

	if (size > PATHS_SIZE - paths_used)
		return paths;
	memcpy(at, directory, directory_size);
	if (separator)
		at[directory_size] = '/';
	memcpy(at + directory_size + separator, name, name_size);
	at[size - 1] = '\0';
	paths_used += (uint32_t)size;
	return at;
}

/* The main program has no name in the loader's list; others may be named relative to here. */
static const char *path_of(const char *name)
{
	static char buffer[PATH_LONGEST]; /* under the loader's lock */
	int saved_errno = errno;
	const char *path = paths;
	long size;

	if (!main_program_seen) {
		main_program_seen = true;
		size = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", buffer, sizeof(buffer));
		if (size > 0)
			path = keep_path("", 0, buffer, (size_t)size);
	} else if (name[0] != '/' && strchr(name, '/')) {
		size = syscall(SYS_getcwd, buffer, sizeof(buffer));
		if (size > 1 && buffer[0] == '/')
			path = keep_path(buffer, (size_t)size - 1, name, strlen(name));
	} else {
		path = keep_path("", 0, name, strlen(name));
	}
	errno = saved_errno;
	return path;
}

static void parse_notes(struct module *m, uintptr_t at, uintptr_t end)
{
	ElfW(Nhdr) note;

	while (end - at >= sizeof(note)) {
		size_t name_size;
		size_t size;

		memcpy(&note, (const void *)at, sizeof(note));
		at += sizeof(note);
		name_size = ((size_t)note.n_namesz + 3) & ~(size_t)3;
		size = ((size_t)note.n_descsz + 3) & ~(size_t)3;
		if (name_size > end - at || size > end - at - name_size)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp((const void *)at, "GNU", 4) == 0) {
			m->build_id_size =
				note.n_descsz < VC_BUILD_ID_MAX ? note.n_descsz : VC_BUILD_ID_MAX;
			memcpy(m->build_id, (const void *)(at + name_size), m->build_id_size);
			return;
		}
		at += name_size + size;
	}
}

/* The loaded segment that holds size bytes at an address of the file, or NULL. */
static const ElfW(Phdr) *segment_of(const struct dl_phdr_info *info, ElfW(Addr) at, size_t size)
{
	unsigned int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && at >= p->p_vaddr &&
		    at - p->p_vaddr <= p->p_filesz && size <= p->p_filesz - (at - p->p_vaddr))
			return p;
	}
	return NULL;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	size_t i;

	for (i = 0; i < size; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* Fills *m, but for path and seen, from what the loader says. */
static void describe(const struct dl_phdr_info *info, struct module *m)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	unsigned int i;

	memset(m, 0, sizeof(*m));
	m->bias = info->dlpi_addr;
	m->low = UINTPTR_MAX;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const ElfW(Phdr) *segment;
		uintptr_t at = m->bias + p->p_vaddr;

		if (p->p_type == PT_LOAD) {
			m->low = at < m->low ? at : m->low;
			m->high = at + p->p_memsz > m->high ? at + p->p_memsz : m->high;
		} else if (p->p_type == PT_NOTE && !m->build_id_size) {
			if (segment_of(info, p->p_vaddr, p->p_memsz))
				parse_notes(m, at, at + p->p_memsz);
		} else if (p->p_type == PT_GNU_EH_FRAME) {
			segment = segment_of(info, p->p_vaddr, p->p_memsz);
			if (segment) {
				m->cfi.hdr = at;
				m->cfi.low = m->bias + segment->p_vaddr;
				m->cfi.high = m->cfi.low + segment->p_filesz;
			}
		}
	}
	hash = mix(hash, info->dlpi_name, strlen(info->dlpi_name) + 1);
	hash = mix(hash, m->build_id, m->build_id_size);
	hash = mix(hash, &m->bias, sizeof(m->bias));
	hash = mix(hash, &m->high, sizeof(m->high));
	if (!m->build_id_size && m->cfi.hdr) {
		size_t size = m->cfi.high - m->cfi.hdr;

		hash = mix(hash, (const void *)m->cfi.hdr, size < HDR_SAMPLE ? size : HDR_SAMPLE);
	}
	m->fingerprint = hash;
}

/* One dl_iterate_phdr, and what is asked of it. */
struct pass {
	bool started;
	bool current;	/* the table was up to date; the question below is answered */
	uint64_t number;	/* of this walk, once it changes the table */
	uint64_t complete;	/* an earlier walk that reached the end of the list */
	unsigned long long adds;	/* the loader's counts during that one */
	unsigned long long subs;
	uint32_t hint;
	/* the question */
	uintptr_t pc;
	struct vc_cfi_rule rule;
	uint32_t module;
	bool found;
	bool function;	/* where it begins and ends is asked for, not the rule */
	uintptr_t low;
	uintptr_t high;
};

static __attribute__((noinline)) void add_or_keep(struct pass *pass,
						  const struct dl_phdr_info *info)
{
	uint32_t count = atomic_load_explicit(&module_count, memory_order_relaxed);
	struct module m;
	uint32_t tried;

	describe(info, &m);
	if (m.low >= m.high)
		return;
	/* The loader's order rarely changes, so the next one in the table is most likely it. */
	for (tried = 0; tried < count; tried++) {
		uint32_t i = (pass->hint + tried) % count + 1;

		if (modules[i].low != m.low || modules[i].fingerprint != m.fingerprint)
			continue;
		/* Gone and loaded again as it was; without a build-id nobody can tell. */
		if (!atomic_load_explicit(&spans[i].high, memory_order_relaxed)) {
			if (!m.build_id_size)
				continue;
			atomic_store_explicit(&spans[i].high, m.high, memory_order_release);
		}
		modules[i].seen = pass->number;
		pass->hint = i;
		return;
	}
	if (count == VC_MODULES_MAX)
		return;
	m.seen = pass->number;
	m.path = path_of(info->dlpi_name);
	modules[count + 1] = m;
	pass->hint = count + 1;
	atomic_store_explicit(&spans[count + 1].low, m.low, memory_order_relaxed);
	atomic_store_explicit(&spans[count + 1].high, m.high, memory_order_release);
	atomic_store_explicit(&module_count, count + 1, memory_order_release);
}

/* The walk `complete` saw all that is loaded: what it did not see is gone. */
static void settle(const struct pass *pass, const struct dl_phdr_info *info)
{
	uint32_t count = atomic_load_explicit(&module_count, memory_order_relaxed);
	bool gone = known && known_subs != info->dlpi_subs;
	uint32_t i;

	for (i = 1; i <= count; i++) {
		if (modules[i].seen < pass->complete &&
		    atomic_load_explicit(&spans[i].high, memory_order_relaxed)) {
			atomic_store_explicit(&spans[i].high, 0, memory_order_release);
			gone = true;
		}
	}
	if (gone)
		atomic_fetch_add_explicit(&generation, 1, memory_order_release);
	known_adds = info->dlpi_adds;
	known_subs = info->dlpi_subs;
	known = true;
}

static void answer(struct pass *pass, const struct vc_cfi_table *table)
{
	if (pass->function)
		pass->found = vc_cfi_function_at(table, pass->pc, &pass->low, &pass->high);
	else
		pass->found = vc_cfi_rule_at(table, pass->pc, &pass->rule);
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct pass *pass = argument;

	(void)size;
	if (!pass->started) {
		pass->started = true;
		if (pass->complete && pass->adds == info->dlpi_adds &&
		    pass->subs == info->dlpi_subs)
			settle(pass, info);
		if (known && known_adds == info->dlpi_adds && known_subs == info->dlpi_subs) {
			pass->current = true;
			pass->module = pass->pc ? find(pass->pc) : 0;
			if (pass->module)
				answer(pass, &modules[pass->module].cfi);
			return 1;
		}
		pass->number = ++last_pass;
		pass->adds = info->dlpi_adds;
		pass->subs = info->dlpi_subs;
		pass->hint = 0;
	}
	add_or_keep(pass, info);
	return 0;
}

/*
 * A callback does not know that it is the last, so a walk that changes the table is settled by the
 * first callback of the next one, if nothing was loaded or unloaded between the two.
 */
static void ask(struct pass *pass)
{
	unsigned int attempt;

	for (attempt = 0; attempt < ATTEMPTS; attempt++) {
		pass->started = false;
		dl_iterate_phdr(visit, pass);
		if (pass->current)
			return;
		pass->complete = pass->number;
	}
}

void vc_modules_check(void)
{
	struct pass pass = { 0 };

	ask(&pass);
}

bool vc_module_rule(uintptr_t pc, struct vc_cfi_rule *rule, uint32_t *module)
{
	struct pass pass = { .pc = pc };

	ask(&pass);
	*rule = pass.rule;
	*module = pass.module;
	return pass.found;
}

bool vc_module_function(uintptr_t pc, uintptr_t *ret_low, uintptr_t *ret_high)
{
	struct pass pass = { .pc = pc, .function = true };

	ask(&pass);
	*ret_low = pass.low;
	*ret_high = pass.high;
	return pass.found;
}

uint32_t vc_modules_count(void)
{
	return atomic_load_explicit(&module_count, memory_order_acquire);
}

uint64_t vc_modules_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_acquire);
}

int vc_module_at(uint32_t index, struct vc_module_view *ret)
{
	const struct module *m = &modules[index <= VC_MODULES_MAX ? index : 0];

	if (index == 0 || index > vc_modules_count())
		return VC_E_NOT_FOUND;
	ret->index = index;
	ret->build_id_size = m->build_id_size;
	ret->bias = m->bias;
	ret->low = m->low;
	ret->high = m->high;
	ret->build_id = m->build_id;
	ret->path = m->path;
	return 0;
}

int vc_module_of(uint64_t pc, struct vc_module_view *ret)
{
	struct pass pass = { 0 };
	uint32_t index = find(pc);

	if (!index) {
		ask(&pass);
		index = find(pc);
	}
	return vc_module_at(index, ret);
}

void vc_modules_watch_dlclose(void)
{
	static atomic_flag watched = ATOMIC_FLAG_INIT;

	/* As at the end of a call: what went unwatched before is looked for once more. */
	if (!atomic_flag_test_and_set(&watched))
		vc_modules_dlclose_end();
}

void vc_modules_dlclose_begin(void)
{
	atomic_fetch_add(&dlcloses_running, 1);
}

void vc_modules_dlclose_end(void)
{
	/* In this order: a capture that sees no call running sees that one has ended. */
	atomic_fetch_add(&dlcloses_done, 1);
	atomic_fetch_sub(&dlcloses_running, 1);
}

bool vc_modules_may_have_changed(uint64_t *mark)
{
	bool running = atomic_load_explicit(&dlcloses_running, memory_order_acquire) != 0;
	uint64_t done = atomic_load_explicit(&dlcloses_done, memory_order_acquire);
	bool changed = running || done != *mark;

	*mark = done;
	return changed;
}
