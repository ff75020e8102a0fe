/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols_private.h"
#include "formats/error.h"

/* Symbol tables. */

/* How many entries that start before an address are looked at; real nesting is one or two. */
enum { NESTING_LIMIT = 1024 };

static unsigned rank_of(unsigned binding)
{
	return binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0;
}

static int append(struct vc_table *table, const GElf_Sym *symbol, const char *name)
{
	if (table->count == table->capacity) {
		size_t capacity = table->capacity ? table->capacity * 2 : 256;
		void *grown = reallocarray(table->entries, capacity, sizeof(*table->entries));

		if (!grown)
			return VC_E_NO_MEMORY;
		table->entries = grown;
		table->capacity = capacity;
	}
	table->entries[table->count++] = (struct vc_table_entry){
		.start = symbol->st_value,
		.end = symbol->st_value + symbol->st_size,
		.name = name,
		.rank = rank_of(GELF_ST_BIND(symbol->st_info)),
	};
	return 0;
}

static bool is_sized_function(const GElf_Sym *symbol)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_size > 0 && symbol->st_value + symbol->st_size > symbol->st_value;
}

static int add_section(struct vc_table *table, Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count;

	if (!data || !data->d_buf || header->sh_entsize == 0)
		return 0;
	count = data->d_size / gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
	for (size_t i = 0; i < count && i <= INT32_MAX; i++) {
		GElf_Sym symbol;
		const char *name;
		int error;

		if (!gelf_getsym(data, (int)i, &symbol) || !is_sized_function(&symbol))
			continue;
		name = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (!name || !*name)
			continue;
		error = append(table, &symbol, name);
		if (error)
			return error;
	}
	return 0;
}

int vc_table_add(struct vc_table *table, const struct vc_file *file)
{
	Elf_Scn *section = NULL;
	int error = 0;

	if (!file->elf)
		return 0;
	while (!error && (section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) &&
		    (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
			error = add_section(table, file->elf, section, &header);
	}
	return error;
}

/* By start; among those of one start the best name comes last, where vc_table_find looks first. */
static int compare_entries(const void *left, const void *right)
{
	const struct vc_table_entry *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return strcmp(b->name, a->name);
}

void vc_table_finish(struct vc_table *table)
{
	uint64_t highest = 0;

	if (table->count)
		qsort(table->entries, table->count, sizeof(*table->entries), compare_entries);
	for (size_t i = 0; i < table->count; i++) {
		if (table->entries[i].end > highest)
			highest = table->entries[i].end;
		table->entries[i].highest_end = highest;
	}
}

void vc_table_deinit(struct vc_table *table)
{
	free(table->entries);
	*table = (struct vc_table){0};
}

const struct vc_table_entry *vc_table_find(const struct vc_table *table, uint64_t address)
{
	size_t low = 0, high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->entries[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t looked = 0; low > 0 && looked < NESTING_LIMIT; looked++) {
		const struct vc_table_entry *entry = &table->entries[--low];

		if (entry->highest_end <= address)
			return NULL;
		if (address < entry->end)
			return entry;
	}
	return NULL;
}

/* Unwind entries. */

/* The bytes of a file, addressed as the program would address them. */
struct image {
	Elf *elf;
	const unsigned char *bytes;
	size_t size;
};

/* Pointer to `length` bytes at a virtual address; NULL if the file does not hold all of them. */
static const unsigned char *image_at(const struct image *image, uint64_t address, size_t length)
{
	size_t count;

	if (elf_getphdrnum(image->elf, &count))
		return NULL;
	for (size_t i = 0; i < count && i <= INT32_MAX; i++) {
		GElf_Phdr header;
		uint64_t within;

		if (!gelf_getphdr(image->elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    address < header.p_vaddr)
			continue;
		within = address - header.p_vaddr;
		if (within >= header.p_filesz || length > header.p_filesz - within)
			continue;
		if (header.p_offset > image->size || within > image->size - header.p_offset ||
		    length > image->size - header.p_offset - within)
			return NULL;
		return image->bytes + header.p_offset + within;
	}
	return NULL;
}

static bool read_u32(const struct image *image, uint64_t address, uint32_t *ret)
{
	const unsigned char *bytes = image_at(image, address, sizeof(*ret));

	if (bytes)
		memcpy(ret, bytes, sizeof(*ret));
	return bytes != NULL;
}

/* Reads a value of an encoding that compilers use for code addresses. */
static bool read_encoded(const struct image *image, uint8_t encoding, uint64_t address,
			 uint64_t *ret, unsigned *width)
{
	const unsigned char *bytes;
	uint64_t value = 0;
	bool is_signed = false;

	switch (encoding & 0x0f) {
	case DW_EH_PE_sdata4:
		is_signed = true; /* fall through */
	case DW_EH_PE_udata4:
		*width = 4;
		break;
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		*width = 8;
		break;
	default:
		return false;
	}
	bytes = image_at(image, address, *width);
	if (!bytes)
		return false;
	memcpy(&value, bytes, *width);
	if (is_signed)
		value = (uint64_t)(int64_t)(int32_t)(uint32_t)value;
	if ((encoding & 0x70) == DW_EH_PE_pcrel)
		value += address;
	else if ((encoding & 0x70) != DW_EH_PE_absptr)
		return false;
	*ret = value;
	return true;
}

/* The encoding of code addresses that a CIE states ("zR" and the like), or absptr. */
static bool cie_encoding(const struct image *image, uint64_t address, uint8_t *ret)
{
	const unsigned char *cie = image_at(image, address, 32), *end = cie + 32, *at;
	const unsigned char *letters;

	if (!cie)
		return false;
	letters = cie + 9;
	at = memchr(letters, '\0', (size_t)(end - letters));
	*ret = DW_EH_PE_absptr;
	if (!at || *letters != 'z')
		return at != NULL;
	at++;
	/* Code and data alignment, the return address register, and the length of what follows. */
	for (int numbers = 0; numbers < 4; numbers++) {
		while (at < end && *at & 0x80)
			at++;
		at++;
	}
	for (letters++; *letters && at < end; letters++) {
		if (*letters == 'R') {
			*ret = *at;
			return true;
		}
		if (*letters == 'L')
			at++;
		else if (*letters == 'P') /* the personality routine: encoding, then pointer */
			at += (*at & 0x07) == DW_EH_PE_udata4 ? 1 + 4 : 1 + 8;
		else if (*letters != 'S' && *letters != 'B')
			return false;
	}
	return true;
}

static bool fde_covers(const struct image *image, uint64_t fde, uint64_t address, uint64_t *start)
{
	uint32_t length, distance;
	uint64_t begin, range;
	uint8_t encoding;
	unsigned width;

	if (!read_u32(image, fde, &length) || length == 0 || length == UINT32_MAX ||
	    !read_u32(image, fde + 4, &distance) || distance == 0 ||
	    !cie_encoding(image, fde + 4 - distance, &encoding) ||
	    !read_encoded(image, encoding, fde + 8, &begin, &width) ||
	    !read_encoded(image, encoding & 0x0f, fde + 8 + width, &range, &width))
		return false;
	*start = begin;
	return address >= begin && address - begin < range;
}

static bool find_header(const struct image *image, uint64_t *address)
{
	size_t count;

	if (elf_getphdrnum(image->elf, &count))
		return false;
	for (size_t i = 0; i < count && i <= INT32_MAX; i++) {
		GElf_Phdr header;

		if (gelf_getphdr(image->elf, (int)i, &header) && header.p_type == PT_GNU_EH_FRAME) {
			*address = header.p_vaddr;
			return true;
		}
	}
	return false;
}

bool vc_unwind_start(const struct vc_file *file, uint64_t address, uint64_t *ret)
{
	struct image image = {.elf = file->elf};
	const unsigned char *header, *table;
	uint64_t at;
	uint32_t low = 0, high, count;
	int32_t entry[2];

	if (!file->elf || gelf_getclass(file->elf) != ELFCLASS64)
		return false;
	image.bytes = (const unsigned char *)elf_rawfile(file->elf, &image.size);
	if (!image.bytes || !find_header(&image, &at))
		return false;
	/* The one form linkers write: a sorted table of two 32-bit distances from the header. */
	header = image_at(&image, at, 12);
	if (!header || header[0] != 1 || (header[1] & 0x0f) != DW_EH_PE_sdata4 ||
	    header[2] != DW_EH_PE_udata4 || header[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return false;
	memcpy(&count, header + 8, sizeof(count));
	table = image_at(&image, at + 12, (size_t)count * sizeof(entry));
	if (!table)
		return false;
	for (high = count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		memcpy(entry, table + (size_t)middle * sizeof(entry), sizeof(entry));
		if (at + (uint64_t)(int64_t)entry[0] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	memcpy(entry, table + (size_t)(low - 1) * sizeof(entry), sizeof(entry));
	return fde_covers(&image, at + (uint64_t)(int64_t)entry[1], address, ret);
}
