/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARTS_MAX 256
#define ENTRIES_MAX 4096
#define NAME_BYTES 64

bool vc_program_find(const char *name, char *path)
{
	const char *places = getenv("PATH");
	char *list, *place, *rest;
	bool found = false;

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && access(path, X_OK) == 0;
	list = strdup(places ? places : "/usr/bin:/bin");
	for (place = list; !found && place; place = rest) {
		rest = strchr(place, ':');
		if (rest)
			*rest++ = 0;
		found = snprintf(path, PATH_MAX, "%s/%s", *place ? place : ".", name) < PATH_MAX &&
			access(path, X_OK) == 0;
	}
	free(list);
	return found;
}

/* ---- what it is linked with ---- */

struct image {
	int descriptor;
	Elf64_Ehdr head;
	Elf64_Phdr part[PARTS_MAX];
	int parts;
};

static bool read_at(int descriptor, void *ret, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && pread(descriptor, ret, size, (off_t)offset) == (ssize_t)size;
}

static bool read_parts(struct image *image)
{
	if (!read_at(image->descriptor, &image->head, sizeof(image->head), 0) ||
	    memcmp(image->head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    image->head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    image->head.e_phentsize != sizeof(Elf64_Phdr) || image->head.e_phnum > PARTS_MAX)
		return false;
	image->parts = image->head.e_phnum;
	return read_at(image->descriptor, image->part, (size_t)image->parts * sizeof(Elf64_Phdr),
		       image->head.e_phoff);
}

/* Where in the file an address of the program is; UINT64_MAX: nowhere. */
static uint64_t offset_of(const struct image *image, uint64_t address)
{
	for (int i = 0; i < image->parts; i++) {
		const Elf64_Phdr *part = &image->part[i];

		if (part->p_type == PT_LOAD && address >= part->p_vaddr &&
		    address - part->p_vaddr < part->p_filesz)
			return part->p_offset + (address - part->p_vaddr);
	}
	return UINT64_MAX;
}

static bool needs(const struct image *image, const Elf64_Phdr *dynamic, const char *library)
{
	uint64_t count = dynamic->p_filesz / sizeof(Elf64_Dyn), strings = UINT64_MAX;
	Elf64_Dyn entry;

	if (count > ENTRIES_MAX)
		return false;
	for (int pass = 0; pass < 2; pass++)
		for (uint64_t i = 0; i < count; i++) {
			char name[NAME_BYTES] = "";

			if (!read_at(image->descriptor, &entry, sizeof(entry),
				     dynamic->p_offset + i * sizeof(entry)))
				return false;
			if (entry.d_tag == DT_STRTAB)
				strings = offset_of(image, entry.d_un.d_ptr);
			if (pass == 0 || entry.d_tag != DT_NEEDED || strings > INT64_MAX ||
			    entry.d_un.d_val > UINT32_MAX ||
			    pread(image->descriptor, name, sizeof(name) - 1,
				  (off_t)(strings + entry.d_un.d_val)) <= 0)
				continue;
			if (strncmp(name, library, strlen(library)) == 0)
				return true;
		}
	return false;
}

bool vc_program_needs(const char *path, const char *library)
{
	struct image *image = calloc(1, sizeof(*image));
	bool found = false;

	if (!image)
		return false;
	image->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (image->descriptor >= 0 && read_parts(image))
		for (int i = 0; i < image->parts && !found; i++)
			if (image->part[i].p_type == PT_DYNAMIC)
				found = needs(image, &image->part[i], library);
	if (image->descriptor >= 0)
		close(image->descriptor);
	free(image);
	return found;
}
