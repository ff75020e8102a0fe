/* SPDX-License-Identifier: Apache-2.0 */
#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include "analyze/symbols_private.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif
#define EXPANDED_MAX (UINT64_C(8) << 30)

/*
 * Compressed sections are expanded in full, so what they claim is checked first: zlib makes nothing
 * smaller than about a thousandth, and zstd this sort of data not smaller than a five hundredth.
 */
static bool is_sound(uint64_t type, uint64_t expanded, uint64_t compressed)
{
	return expanded / (type == ELFCOMPRESS_ZSTD ? 512 : 1040) <= compressed + 1;
}

/* Looks at the compressed sections; *ret_zstd: how much there is to be expanded here. */
static bool sections_are_sound(struct vc_module_files *files, const struct vc_file *file,
			       uint64_t *ret_zstd)
{
	Elf_Scn *section = NULL;
	uint64_t zstd = 0;
	size_t size = 0;

	*ret_zstd = 0;
	elf_rawfile(file->elf, &size);
	while ((section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;
		GElf_Chdr compressed;

		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_COMPRESSED))
			continue;
		if (!gelf_getchdr(section, &compressed))
			return false;
		if (compressed.ch_type != ELFCOMPRESS_ZLIB &&
		    compressed.ch_type != ELFCOMPRESS_ZSTD) {
			vc_detail_add(files, "%s: debug information compressed in an unknown way",
				      file->path);
			return false;
		}
		if (!is_sound(compressed.ch_type, compressed.ch_size, header.sh_size)) {
			vc_detail_add(files, "%s: damaged compressed section", file->path);
			return false;
		}
		if (compressed.ch_type == ELFCOMPRESS_ZSTD) {
			*ret_zstd += compressed.ch_size + 16;
			zstd += header.sh_size;
		}
	}
	/* Many sections that are one and the same would add up to anything. */
	if (zstd > size)
		vc_detail_add(files, "%s: damaged compressed sections", file->path);
	return zstd <= size;
}

/* One section into the place at `used` of the image, and its header there. */
static bool expand_section(struct vc_debug *debug, Elf64_Shdr *header, uint64_t file_size,
			   uint64_t *used)
{
	Elf64_Chdr head;
	uint8_t *image = debug->image;
	size_t done;

	if (header->sh_offset > file_size || header->sh_size > file_size - header->sh_offset ||
	    header->sh_size < sizeof(head))
		return false;
	memcpy(&head, image + header->sh_offset, sizeof(head));
	if (head.ch_type != ELFCOMPRESS_ZSTD)
		return true; /* libdw knows the other */
	if (head.ch_size > debug->image_size - *used)
		return false;
	done = ZSTD_decompress(image + *used, head.ch_size,
			       image + header->sh_offset + sizeof(head),
			       header->sh_size - sizeof(head));
	if (ZSTD_isError(done) || done != head.ch_size)
		return false;
	header->sh_offset = *used;
	header->sh_size = head.ch_size;
	header->sh_flags &= ~(uint64_t)SHF_COMPRESSED;
	header->sh_addralign = head.ch_addralign;
	*used += (head.ch_size + 15) & ~UINT64_C(15);
	return true;
}

/*
 * libdw of today's systems does not know zstd. The file is copied into private memory, and what its
 * sections expand to put behind it: an ELF file that has none of them compressed that way.
 */
static bool expand_file(const struct vc_file *file, uint64_t expanded, struct vc_debug *debug)
{
	size_t size, count;
	const char *bytes = elf_rawfile(file->elf, &size);
	Elf64_Ehdr *header;
	Elf64_Shdr *sections;
	uint64_t used = (size + 15) & ~UINT64_C(15);
	void *image;

	if (!bytes || size < sizeof(*header) || bytes[EI_CLASS] != ELFCLASS64 ||
	    bytes[EI_DATA] != ELFDATA2LSB || expanded > EXPANDED_MAX ||
	    elf_getshdrnum(file->elf, &count))
		return false;
	image = mmap(NULL, used + expanded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (image == MAP_FAILED)
		return false;
	debug->image = image;
	debug->image_size = used + expanded;
	memcpy(image, bytes, size);
	header = image;
	if (header->e_shentsize != sizeof(*sections) || header->e_shoff % 8 ||
	    header->e_shoff > size || count > (size - header->e_shoff) / sizeof(*sections))
		return false;
	sections = (Elf64_Shdr *)((char *)image + header->e_shoff);
	for (size_t i = 0; i < count; i++)
		if (sections[i].sh_flags & SHF_COMPRESSED && sections[i].sh_type != SHT_NOBITS &&
		    !expand_section(debug, &sections[i], size, &used))
			return false;
	debug->elf = elf_memory(image, debug->image_size);
	return debug->elf != NULL;
}

struct search {
	const struct vc_symbols_options *options;
	struct vc_module_files *files;
	const struct vc_file *file;
	char build_id[VC_BUILD_ID_HEX]; /* of the shared file */
	bool special; /* something else than a file stands where libdw would look */
};

/* Takes the file at that path (freed here) if it has the build-id. */
static bool try_shared(struct search *search, char *path, struct vc_file *ret)
{
	struct vc_file file = {.fd = -1};
	uint64_t zstd = 0;
	int error;

	if (!path)
		return false;
	search->special |= vc_path_is_special(path);
	error = vc_file_open(path, VC_FILE_SHARED_DEBUG, &file);
	free(path);
	if (error)
		return false;
	if (strcmp(file.build_id, search->build_id) ||
	    !sections_are_sound(search->files, &file, &zstd) || zstd) {
		if (zstd)
			vc_detail_add(search->files, "%s: compressed by zstd, not read", file.path);
		vc_file_close(&file);
		return false;
	}
	*ret = file;
	return true;
}

static bool find_shared(struct search *search, const char *name, struct vc_file *ret)
{
	const struct vc_symbols_options *options = search->options;
	const char *path = search->file->path, *slash = strrchr(path, '/');
	const char *root = options->sysroot ? options->sysroot : "", *id = search->build_id;
	int directory = name[0] != '/' && slash ? (int)(slash - path) + 1 : 0;

	for (size_t i = 0; i < options->debug_dir_count; i++)
		if (try_shared(search,
			       vc_path_format("%s/.build-id/%.2s/%s.debug", options->debug_dirs[i],
					      id, id + 2),
			       ret))
			return true;
	if (try_shared(search,
		       vc_path_format("%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, id, id + 2),
		       ret))
		return true;
	return try_shared(search, vc_path_format("%.*s%s", directory, path, name), ret);
}

/*
 * The file that dwz moved common parts to (.gnu_debugaltlink). libdw would look for it by itself
 * and open whatever is there, so it is found first, here. False: leave this file alone.
 */
static bool open_shared(struct search *search, struct vc_debug *debug)
{
	const char *name = NULL;
	const void *bytes;
	ssize_t length = dwelf_dwarf_gnu_debugaltlink(debug->dwarf, &name, &bytes);

	if (length == 0)
		return true;
	if (length < 2 || (size_t)length * 2 >= sizeof(search->build_id))
		return false;
	for (ssize_t i = 0; i < length; i++)
		snprintf(search->build_id + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
	if (find_shared(search, name, &debug->alternate_file))
		debug->alternate = dwarf_begin_elf(debug->alternate_file.elf, DWARF_C_READ, NULL);
	if (debug->alternate)
		dwarf_setalt(debug->dwarf, debug->alternate);
	else
		vc_detail_add(search->files, "%s: the shared debug file %s is missing",
			      search->file->path, name);
	return debug->alternate || !search->special;
}

bool vc_debug_open(const struct vc_symbols_options *options, struct vc_module_files *files,
		   const struct vc_file *file, struct vc_debug *ret)
{
	struct search search = {.options = options, .files = files, .file = file};
	struct vc_debug debug = {.alternate_file.fd = -1};
	uint64_t zstd;

	if (!sections_are_sound(files, file, &zstd))
		return false;
	if (!zstd || expand_file(file, zstd, &debug))
		debug.dwarf = dwarf_begin_elf(zstd ? debug.elf : file->elf, DWARF_C_READ, NULL);
	if (!debug.dwarf) {
		vc_debug_close(&debug);
		vc_detail_add(files, "%s: debug information damaged", file->path);
		return false;
	}
	if (!open_shared(&search, &debug)) {
		vc_debug_close(&debug);
		return false;
	}
	files->debug_read = file;
	*ret = debug;
	return true;
}

void vc_debug_close(struct vc_debug *debug)
{
	if (debug->dwarf)
		dwarf_end(debug->dwarf);
	if (debug->alternate)
		dwarf_end(debug->alternate);
	if (debug->elf)
		elf_end(debug->elf);
	if (debug->image)
		munmap(debug->image, debug->image_size);
	vc_file_close(&debug->alternate_file);
	*debug = (struct vc_debug){.alternate_file.fd = -1};
}

void vc_sections_find(Dwarf *dwarf, bool split, struct vc_sections *ret)
{
	struct vc_sections sections = {0};
	const struct {
		const char *name;
		struct vc_bytes *bytes;
	} wanted[] = {
		{"info", &sections.entries},	    {"abbrev", &sections.abbreviations},
		{"line", &sections.lines},	    {"str", &sections.texts},
		{"line_str", &sections.line_texts},
	};
	Elf *elf = dwarf_getelf(dwarf);
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name;
		Elf_Data *data;
		size_t length;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, header.sh_name);
		if (!name || (strncmp(name, ".debug_", 7) && strncmp(name, ".zdebug_", 8)))
			continue;
		name += name[1] == 'z' ? 8 : 7;
		length = strlen(name);
		if (length > 4 && !strcmp(name + length - 4, ".dwo")) {
			length -= 4;
			if (!split)
				continue;
		} else if (split) {
			continue;
		}
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (strlen(wanted[i].name) != length ||
			    strncmp(wanted[i].name, name, length) || wanted[i].bytes->at)
				continue;
			data = elf_getdata(section, NULL);
			if (data && data->d_buf)
				*wanted[i].bytes = (struct vc_bytes){
					.at = data->d_buf,
					.end = (const uint8_t *)data->d_buf + data->d_size};
		}
	}
	*ret = sections;
}
