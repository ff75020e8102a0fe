/* SPDX-License-Identifier: Apache-2.0 */
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/symbols_private.h"
#include "formats/error.h"

static const char SYSTEM_DEBUG[] = "/usr/lib/debug";

char *vc_path_format(const char *format, ...)
{
	va_list arguments;
	char *path = NULL;
	int length;

	va_start(arguments, format);
	length = vasprintf(&path, format, arguments);
	va_end(arguments);
	return length < 0 ? NULL : path;
}

void vc_detail_add(struct vc_module_files *files, const char *format, ...)
{
	size_t used = strlen(files->detail);
	va_list arguments;

	if (used > 0 && used + 3 < sizeof(files->detail)) {
		memcpy(files->detail + used, "; ", 3);
		used += 2;
	}
	va_start(arguments, format);
	vsnprintf(files->detail + used, sizeof(files->detail) - used, format, arguments);
	va_end(arguments);
}

bool vc_path_is_special(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static void read_build_id(struct vc_file *file)
{
	const void *bytes;
	ssize_t length = dwelf_elf_gnu_build_id(file->elf, &bytes);

	file->build_id[0] = '\0';
	if (length <= 0 || (size_t)length * 2 >= sizeof(file->build_id))
		return;
	for (ssize_t i = 0; i < length; i++)
		snprintf(file->build_id + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
}

static bool is_of_kind(Elf *elf, enum vc_file_kind kind)
{
	GElf_Ehdr header;

	if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header))
		return false;
	if (kind == VC_FILE_SHARED_DEBUG)
		return header.e_type == ET_REL;
	return header.e_type == ET_EXEC || header.e_type == ET_DYN;
}

int vc_file_open(const char *path, enum vc_file_kind kind, struct vc_file *ret)
{
	struct vc_file file = {.fd = -1};
	struct stat status;

	/* Looked at before it is opened: opening a device can have effects of its own. */
	if (vc_path_is_special(path))
		return VC_E_NOT_FOUND;
	file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (file.fd < 0)
		return VC_E_NOT_FOUND;
	file.path = strdup(path);
	if (!file.path) {
		vc_file_close(&file);
		return VC_E_NO_MEMORY;
	}
	if (fstat(file.fd, &status) || !S_ISREG(status.st_mode)) {
		vc_file_close(&file);
		return VC_E_NOT_FOUND;
	}
	file.elf = elf_begin(file.fd, ELF_C_READ_MMAP, NULL);
	if (!file.elf || !is_of_kind(file.elf, kind)) {
		vc_file_close(&file);
		return VC_E_NOT_OURS;
	}
	read_build_id(&file);
	*ret = file;
	return 0;
}

void vc_file_close(struct vc_file *file)
{
	if (file->elf)
		elf_end(file->elf);
	if (file->fd >= 0)
		close(file->fd);
	free(file->path);
	*file = (struct vc_file){.fd = -1};
}

bool vc_file_has_debug(const struct vc_file *file)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (!file->elf || elf_getshdrstrndx(file->elf, &names))
		return false;
	while ((section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;
		const char *name;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS ||
		    header.sh_size == 0)
			continue;
		name = elf_strptr(file->elf, names, header.sh_name);
		if (name && (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info")))
			return true;
	}
	return false;
}

/* The checksum of .gnu_debuglink: CRC-32 as in zlib. */
static bool file_checksum(int fd, uint32_t *ret)
{
	enum { BLOCK = 65536 };
	unsigned char *block = malloc(BLOCK);
	uint32_t table[256], checksum = 0xffffffff;
	off_t at = 0;
	ssize_t got = -1;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
	}
	while (block && (got = pread(fd, block, BLOCK, at)) > 0) {
		for (ssize_t i = 0; i < got; i++)
			checksum = checksum >> 8 ^ table[(checksum ^ block[i]) & 0xff];
		at += got;
	}
	free(block);
	*ret = ~checksum;
	return got == 0;
}

struct search {
	const struct vc_symbols_options *options;
	struct vc_module_files *files;
	const char *build_id; /* of the module; "" unknown */
	const char *name;     /* last part of its path */
	char *directory;      /* the rest of it, without sysroot; "" for none */
	const char *link;     /* .gnu_debuglink, NULL none */
	uint32_t link_checksum;
};

static const char *sysroot(const struct search *search)
{
	return search->options->sysroot ? search->options->sysroot : "";
}

/*
 * Tries a path (freed here) as the debug file. By build-id where both files have one; a file that
 * .gnu_debuglink names and that has none, or whose module has none, by its checksum.
 * Returns 1 taken, 0 not, VC_E_NO_MEMORY.
 */
static int try_debug(struct search *search, char *path, bool by_link)
{
	struct vc_file file = {.fd = -1};
	uint32_t checksum;
	int error;

	if (!path)
		return VC_E_NO_MEMORY;
	error = vc_file_open(path, VC_FILE_PROGRAM, &file);
	free(path);
	if (error)
		return error == VC_E_NO_MEMORY ? error : 0;
	if (search->build_id[0] && file.build_id[0]) {
		if (strcmp(search->build_id, file.build_id)) {
			vc_detail_add(search->files, "%s not used: its build-id differs",
				      file.path);
			goto refuse;
		}
	} else if (!by_link) {
		vc_detail_add(search->files, "%s not used: no build-id to know it by", file.path);
		goto refuse;
	} else if (!file_checksum(file.fd, &checksum) || checksum != search->link_checksum) {
		vc_detail_add(search->files, "%s not used: its checksum differs", file.path);
		goto refuse;
	}
	if (!vc_file_has_debug(&file)) /* perhaps the stripped module itself */
		goto refuse;
	search->files->debug = file;
	return 1;
refuse:
	vc_file_close(&file);
	return 0;
}

static int try_build_id(struct search *search, const char *root, const char *directory)
{
	return try_debug(search,
			 vc_path_format("%s%s/.build-id/%.2s/%s.debug", root, directory,
					search->build_id, search->build_id + 2),
			 false);
}

/* By build-id in every debug directory, then by name there, then where the system keeps them. */
static int find_by_build_id(struct search *search)
{
	const struct vc_symbols_options *options = search->options;
	int taken = 0;

	if (strlen(search->build_id) < 4)
		return 0;
	for (size_t i = 0; !taken && i < options->debug_dir_count; i++)
		taken = try_build_id(search, options->debug_dirs[i], "");
	for (size_t i = 0; !taken && i < options->debug_dir_count && search->name[0]; i++) {
		taken = try_debug(
			search, vc_path_format("%s/%s.debug", options->debug_dirs[i], search->name),
			false);
		if (!taken)
			taken = try_debug(
				search,
				vc_path_format("%s/%s", options->debug_dirs[i], search->name),
				false);
	}
	return taken ? taken : try_build_id(search, sysroot(search), SYSTEM_DEBUG);
}

/* A link with a slash would lead out of the directories that are searched. */
static void read_link(struct search *search)
{
	GElf_Word checksum;

	if (!search->files->module.elf)
		return;
	search->link = dwelf_elf_gnu_debuglink(search->files->module.elf, &checksum);
	search->link_checksum = checksum;
	if (search->link &&
	    (!search->link[0] || strchr(search->link, '/') || strlen(search->link) > NAME_MAX))
		search->link = NULL;
}

static int find_by_link(struct search *search)
{
	const struct vc_symbols_options *options = search->options;
	const char *root = sysroot(search), *directory = search->directory;
	int taken;

	read_link(search);
	if (!search->link)
		return 0;
	taken = 0;
	if (strcmp(search->link, search->name)) /* else it names itself */
		taken = try_debug(search, vc_path_format("%s%s%s", root, directory, search->link),
				  true);
	if (!taken)
		taken = try_debug(search,
				  vc_path_format("%s%s.debug/%s", root, directory, search->link),
				  true);
	for (size_t i = 0; !taken && i < options->debug_dir_count; i++) {
		taken = try_debug(search,
				  vc_path_format("%s/%s", options->debug_dirs[i], search->link),
				  true);
		if (!taken)
			taken = try_debug(search,
					  vc_path_format("%s/%s%s", options->debug_dirs[i],
							 directory, search->link),
					  true);
	}
	if (!taken)
		taken = try_debug(
			search,
			vc_path_format("%s%s/%s%s", root, SYSTEM_DEBUG, directory, search->link),
			true);
	return taken;
}

static int find_by_asking(struct search *search)
{
	char *path;

	if (!search->options->debuginfod || strlen(search->build_id) < 4)
		return 0;
	path = vc_ask_for_debug(search->files, search->build_id);
	return path ? try_debug(search, path, false) : 0;
}

static void open_module(struct search *search, const struct vc_module_key *key, int *error)
{
	struct vc_module_files *files = search->files;
	char *path = vc_path_format("%s%s", sysroot(search), key->path);

	*error = path ? vc_file_open(path, VC_FILE_PROGRAM, &files->module) : VC_E_NO_MEMORY;
	if (*error == 0 && key->build_id[0] && strcmp(key->build_id, files->module.build_id)) {
		files->state = VC_MODULE_DIFFERS;
		if (files->module.build_id[0])
			vc_detail_add(files, "%s not used: its build-id is %.12s..., not %.12s...",
				      path, files->module.build_id, key->build_id);
		else
			vc_detail_add(files, "%s not used: it has no build-id", path);
		vc_file_close(&files->module);
	} else if (*error == 0) {
		files->state = VC_MODULE_STRIPPED;
		files->verified = key->build_id[0] != '\0';
		if (!files->verified)
			vc_detail_add(files, "the recorded build-id is not known");
	} else if (*error == VC_E_NOT_OURS) {
		files->state = VC_MODULE_UNREADABLE;
	}
	free(path);
	if (*error != VC_E_NO_MEMORY)
		*error = 0;
}

static bool is_hexadecimal(const char *text)
{
	return text[strspn(text, "0123456789abcdef")] == '\0';
}

int vc_module_files_find(const struct vc_symbols_options *options, const struct vc_module_key *key,
			 struct vc_module_files *files)
{
	struct search search = {.options = options, .files = files, .name = key->path};
	const char *slash = strrchr(key->path, '/');
	int error = 0, taken;

	*files = (struct vc_module_files){
		.module.fd = -1, .debug.fd = -1, .state = VC_MODULE_MISSING};
	if (slash)
		search.name = slash + 1;
	search.directory = strndup(key->path, (size_t)(search.name - key->path));
	if (!search.directory)
		return VC_E_NO_MEMORY;
	if (key->path[0])
		open_module(&search, key, &error);
	search.build_id = key->build_id[0] ? key->build_id : files->module.build_id;
	if (!is_hexadecimal(search.build_id))
		search.build_id = "";
	if (error || vc_file_has_debug(&files->module))
		goto out;
	taken = find_by_build_id(&search);
	if (taken == 0)
		taken = find_by_link(&search);
	if (taken == 0)
		taken = find_by_asking(&search);
	if (taken < 0)
		error = taken;
	else if (taken && files->state != VC_MODULE_STRIPPED)
		files->verified = true; /* the module itself is not used */
out:
	free(search.directory);
	return error;
}

void vc_module_files_close(struct vc_module_files *files)
{
	vc_file_close(&files->debug);
	vc_file_close(&files->module);
}
