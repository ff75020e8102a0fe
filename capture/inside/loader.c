/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/loader.h"

#include <stddef.h>
#include <sys/auxv.h>

/* ---- the dynamic section ---- */

/* The loader has made these entries absolute, save in objects it did not write to. */
static const void *pointer_entry(const struct vc_object *object, int64_t tag)
{
	for (const ElfW(Dyn) *entry = object->dynamic; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag != tag)
			continue;
		if (entry->d_un.d_ptr < object->bias)
			return (const void *)(object->bias + entry->d_un.d_ptr);
		return (const void *)entry->d_un.d_ptr;
	}
	return NULL;
}

const char *vc_object_soname(const struct vc_object *object)
{
	const char *strings = pointer_entry(object, DT_STRTAB);

	for (const ElfW(Dyn) *entry = object->dynamic; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_SONAME && strings)
			return strings + entry->d_un.d_val;
	return "";
}

bool vc_object_is_driver(const struct vc_object *object)
{
	return vc_same_text(vc_object_soname(object), "libcuda.so.1");
}

/* ---- symbols ---- */

static void *address_of(const struct vc_object *object, const ElfW(Sym) *symbol,
			unsigned char wanted)
{
	unsigned char type = symbol->st_info & 0xf, binding = symbol->st_info >> 4;

	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value || type != wanted ||
	    (binding != STB_GLOBAL && binding != STB_WEAK))
		return NULL;
	return (void *)(object->bias + symbol->st_value);
}

/* DT_GNU_HASH: header, a filter that is not needed here, buckets, and chains that end with bit 0. */
static void *by_gnu_hash(const struct vc_object *object, const uint32_t *table,
			 const ElfW(Sym) *symbols, const char *strings, const char *name,
			 unsigned char wanted)
{
	uint32_t buckets = table[0], first = table[1], hash = 5381, index;
	const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(table + 4) + table[2]);
	const uint32_t *chain = bucket + buckets;

	for (const unsigned char *at = (const unsigned char *)name; *at; at++)
		hash = hash * 33 + *at;
	index = buckets ? bucket[hash % buckets] : 0;
	if (index < first)
		return NULL;
	for (;; index++) {
		uint32_t value = chain[index - first];
		void *address;

		if ((value | 1) == (hash | 1) &&
		    vc_same_text(strings + symbols[index].st_name, name)) {
			address = address_of(object, &symbols[index], wanted);
			if (address)
				return address;
		}
		if (value & 1)
			return NULL;
	}
}

/* DT_HASH: the number of buckets and of symbols, buckets, chains that end with 0. */
static void *by_old_hash(const struct vc_object *object, const uint32_t *table,
			 const ElfW(Sym) *symbols, const char *strings, const char *name,
			 unsigned char wanted)
{
	uint32_t hash = 0, high;

	for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
		hash = (hash << 4) + *at;
		high = hash & 0xf0000000u;
		hash = (hash ^ high >> 24) & ~high;
	}
	if (!table[0])
		return NULL;
	for (uint32_t index = table[2 + hash % table[0]]; index;
	     index = table[2 + table[0] + index]) {
		void *address = address_of(object, &symbols[index], wanted);

		if (address && vc_same_text(strings + symbols[index].st_name, name))
			return address;
	}
	return NULL;
}

static void *symbol_of(const struct vc_object *object, const char *name, unsigned char wanted)
{
	const uint32_t *hash = pointer_entry(object, DT_GNU_HASH);
	const ElfW(Sym) *symbols = pointer_entry(object, DT_SYMTAB);
	const char *strings = pointer_entry(object, DT_STRTAB);

	if (!symbols || !strings)
		return NULL;
	if (hash)
		return by_gnu_hash(object, hash, symbols, strings, name, wanted);
	hash = pointer_entry(object, DT_HASH);
	return hash ? by_old_hash(object, hash, symbols, strings, name, wanted) : NULL;
}

void *vc_object_symbol(const struct vc_object *object, const char *name)
{
	return symbol_of(object, name, STT_FUNC);
}

void *vc_object_data(const struct vc_object *object, const char *name)
{
	return symbol_of(object, name, STT_OBJECT);
}

/* ---- objects ---- */

struct search {
	uintptr_t address;
	struct vc_object *found;
	bool holds;
};

/* What an object is, and whether it holds an address. */
static bool object_holds(const struct dl_phdr_info *info, uintptr_t address, struct vc_object *ret)
{
	bool found = false;

	*ret = (struct vc_object){info->dlpi_addr, NULL, info->dlpi_name};
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_DYNAMIC)
			ret->dynamic = (const ElfW(Dyn) *)start;
		if (part->p_type == PT_LOAD && address >= start &&
		    address - start < part->p_memsz)
			found = true;
	}
	return found;
}

static int holds(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct search *search = argument;
	struct vc_object object;

	(void)size;
	search->holds = object_holds(info, search->address, &object);
	if (search->holds)
		*search->found = object;
	return search->holds;
}

bool vc_object_of(const void *address, struct vc_object *ret)
{
	struct search search = {.address = (uintptr_t)address, .found = ret};

	dl_iterate_phdr(holds, &search);
	return search.holds && ret->dynamic;
}

struct next_search {
	uintptr_t own;
	const char *name;
	void *found;
	bool behind;
};

static int define(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct next_search *search = argument;
	struct vc_object object;
	void *function;

	(void)size;
	if (object_holds(info, search->own, &object)) {
		search->behind = true;
		return 0;
	}
	function = object.dynamic ? vc_object_symbol(&object, search->name) : NULL;
	if (!function)
		return 0;
	search->found = function;
	return search->behind;
}

void *vc_object_next_symbol(const void *own, const char *name)
{
	struct next_search search = {.own = (uintptr_t)own, .name = name};

	dl_iterate_phdr(define, &search);
	return search.found;
}

/* The loader writes the address of its list into the program's own dynamic section. */
static const struct r_debug *loader_list(void)
{
	const ElfW(Phdr) *part = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	unsigned long count = getauxval(AT_PHNUM);
	const ElfW(Dyn) *dynamic = NULL;
	uintptr_t bias = 0;

	for (unsigned long i = 0; part && i < count; i++)
		if (part[i].p_type == PT_PHDR)
			bias = (uintptr_t)part - part[i].p_vaddr;
	for (unsigned long i = 0; part && i < count; i++)
		if (part[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(bias + part[i].p_vaddr);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_DEBUG && dynamic->d_un.d_ptr)
			return (const struct r_debug *)dynamic->d_un.d_ptr;
	return NULL;
}

static const struct link_map *first_object(void)
{
	const struct r_debug *list = loader_list();

	return list ? list->r_map : NULL;
}

bool vc_object_named(const char *soname, struct vc_object *ret)
{
	for (const struct link_map *map = first_object(); map; map = map->l_next) {
		struct vc_object object = {map->l_addr, map->l_ld, map->l_name};

		if (vc_same_text(vc_object_soname(&object), soname)) {
			*ret = object;
			return true;
		}
	}
	return false;
}

bool vc_object_before(const struct vc_object *first, const struct vc_object *second)
{
	for (const struct link_map *map = first_object(); map; map = map->l_next) {
		if (map->l_ld == second->dynamic)
			return false;
		if (map->l_ld == first->dynamic)
			return true;
	}
	return false;
}

/* From version 2 on each list is followed by the address of the next namespace's. */
void vc_objects_elsewhere(void (*visit)(const struct vc_object *object))
{
	const struct r_debug *list = loader_list();

	while (list && list->r_version >= 2) {
		list = *(const struct r_debug *const *)(list + 1);
		for (const struct link_map *map = list ? list->r_map : NULL; map;
		     map = map->l_next) {
			struct vc_object object = {map->l_addr, map->l_ld, map->l_name};

			visit(&object);
		}
	}
}
