/* SPDX-License-Identifier: Apache-2.0 */
#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols_private.h"

/*
 * Compressed sections are expanded by libdw in full, so what they claim is checked first: zlib
 * makes nothing smaller than about a thousandth.
 */
static bool sections_are_sound(struct vc_module_files *files, const struct vc_file *file)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;
		GElf_Chdr compressed;

		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_COMPRESSED))
			continue;
		if (!gelf_getchdr(section, &compressed))
			return false;
		if (compressed.ch_type != ELFCOMPRESS_ZLIB) {
			vc_detail_add(files, "%s: debug information not compressed by zlib",
				      file->path);
			return false;
		}
		if (compressed.ch_size / 1040 > header.sh_size + 1) {
			vc_detail_add(files, "%s: damaged compressed section", file->path);
			return false;
		}
	}
	return true;
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
	int error;

	if (!path)
		return false;
	search->special |= vc_path_is_special(path);
	error = vc_file_open(path, VC_FILE_SHARED_DEBUG, &file);
	free(path);
	if (error)
		return false;
	if (strcmp(file.build_id, search->build_id) || !sections_are_sound(search->files, &file)) {
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

	if (!sections_are_sound(files, file))
		return false;
	debug.dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (!debug.dwarf) {
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
