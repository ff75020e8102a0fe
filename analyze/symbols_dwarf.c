/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/demangle.h"
#include "analyze/symbols_private.h"
#include "formats/error.h"

/* A function, and where it was called if it is inlined. */
struct function {
	uint64_t offset, names; /* entries: of it, and where its names are looked for */
	uint64_t call_file, call_line;
};

/* Functions that cover one address: the concrete one first, the innermost inlined one last. */
struct chain {
	struct function *functions;
	unsigned count, capacity;
	unsigned unit; /* number of the last unit whose ranges hold the address */
};

enum { NAMES = 8192 };

/* Names that were looked up; the newest of those that share a place. */
struct names {
	Dwarf *dwarf;
	uint64_t offset;
	const char *function, *linkage;
};

/* Bytes that strings of debug information must end in. */
struct region {
	const char *start, *end;
};

struct reader {
	struct vc_dwarf_job *job;
	const struct vc_file *file;
	struct vc_debug debug;
	struct chain *chains; /* one per wanted address */
	uint64_t answered;
	unsigned unit_number;

	/* Of the unit at hand. */
	size_t *selected; /* indexes of wanted addresses in the unit, rising */
	uint64_t *addresses; /* what they are */
	struct vc_place *places;
	size_t selected_count;
	struct vc_sections sections;	   /* of the file */
	struct vc_lines lines, split_lines; /* of the unit, and files of its split part */
	struct vc_lines *files;		   /* of the two: the one whose files entries speak of */
	Dwarf *dwarf;			   /* that holds its entries */
	struct vc_entries entries;
	const char *directory; /* of compilation; NULL unknown */
	bool thorough;	       /* look into scopes that have no code of their own, too */

	struct names *names;
	struct region *regions;
	size_t region_count;
	int64_t work; /* what is left before the module is given up */
	bool no_memory;
	bool split_missing;
};

static bool spend(struct reader *reader, uint64_t amount)
{
	if (reader->work > 0)
		reader->work -= amount > (uint64_t)reader->work ? reader->work : (int64_t)amount;
	return reader->work > 0 && !reader->no_memory;
}

static uint64_t address_of(const struct reader *reader, size_t wanted)
{
	return reader->job->wanted[wanted].offset - 1;
}

/* Strings. */

static int remember_regions(struct reader *reader, Dwarf *dwarf)
{
	Elf *elf = dwarf_getelf(dwarf);
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		Elf_Data *data;
		void *grown;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS ||
		    header.sh_flags & SHF_ALLOC)
			continue;
		data = elf_getdata(section, NULL);
		if (!data || !data->d_buf || data->d_size == 0)
			continue;
		grown = reallocarray(reader->regions, reader->region_count + 1,
				     sizeof(*reader->regions));
		if (!grown)
			return VC_E_NO_MEMORY;
		reader->regions = grown;
		reader->regions[reader->region_count++] =
			(struct region){data->d_buf, (const char *)data->d_buf + data->d_size};
	}
	return 0;
}

/* The text only if it ends inside its section: libdw does not check that for every form. */
static const char *string_of(const struct reader *reader, Dwarf_Attribute *attribute)
{
	const char *text = dwarf_formstring(attribute);

	for (size_t i = reader->region_count; text && i > 0; i--) {
		const struct region *region = &reader->regions[i - 1];

		if (text >= region->start && text < region->end)
			return memchr(text, '\0', (size_t)(region->end - text)) ? text : NULL;
	}
	return NULL;
}

static const char *string_attribute(const struct reader *reader, Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(die, name, &attribute) ? string_of(reader, &attribute) : NULL;
}

/* "/a/./b//../c" to "/a/c"; by the text alone. */
static void clean_path(char *path)
{
	size_t root = path[0] == '/', end = root;
	char *from = path + root;

	while (*from) {
		size_t length = strcspn(from, "/");
		size_t last = end;

		while (last > root && path[last - 1] != '/')
			last--;
		if (length == 2 && from[0] == '.' && from[1] == '.' && end > root &&
		    strncmp(path + last, "..", end - last)) {
			end = last > root ? last - 1 : root;
		} else if (length > 0 && !(length == 1 && from[0] == '.') &&
			   !(length == 2 && from[0] == '.' && from[1] == '.' && root)) {
			if (end > root)
				path[end++] = '/';
			memmove(path + end, from, length);
			end += length;
		}
		from += length + (from[length] == '/');
	}
	path[end] = '\0';
}

/* "DIRECTORY/name", or the name alone where it or nothing says where it is; to be freed. */
static char *join(const char *directory, const char *name)
{
	return !directory || !*directory || name[0] == '/' ? strdup(name) :
							      vc_path_format("%s/%s", directory, name);
}

/* A file of a line table: below its directory, below that of the compilation. */
static const char *file_path(struct reader *reader, struct vc_lines *lines, uint64_t index)
{
	struct vc_line_file *file = index < lines->file_count ? &lines->files[index] : NULL;
	const char *directory = NULL, *first = lines->directory_count ? lines->directories[0] : NULL;
	char *near, *whole;

	if (!file || !file->name || !*file->name)
		return NULL;
	if (file->path)
		return file->path;
	if (file->directory > 0 && file->directory < lines->directory_count)
		directory = lines->directories[file->directory];
	near = join(directory, file->name);
	whole = near ? join(first ? first : reader->directory, near) : NULL;
	if (whole) {
		clean_path(whole);
		file->path = vc_store_text(reader->job->store, whole);
	}
	reader->no_memory |= !file->path;
	free(near);
	free(whole);
	return file->path;
}

static const char *keep_text(struct reader *reader, const char *text)
{
	const char *kept = text ? vc_store_text(reader->job->store, text) : NULL;

	reader->no_memory |= text && !kept;
	return kept;
}

/* Answers. */

static const char *name_attribute(const struct reader *reader, Dwarf_Die *die, unsigned attribute)
{
	const char *name = string_attribute(reader, die, attribute);

	return name && *name ? name : NULL;
}

/* Names of a function, which often stand in its declaration or abstract instance alone. */
static void read_names(struct reader *reader, Dwarf_Die die, struct names *names)
{
	static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
	const char *name = NULL, *linkage = NULL;
	const char **memo = NULL;
	char *demangled;

	for (unsigned followed = 0; followed < VC_ORIGIN_LIMIT && !linkage; followed++) {
		Dwarf_Attribute attribute;
		Dwarf_Die next;
		bool found = false;

		linkage = name_attribute(reader, &die, DW_AT_linkage_name);
		if (!linkage)
			linkage = name_attribute(reader, &die, DW_AT_MIPS_linkage_name);
		if (!name)
			name = name_attribute(reader, &die, DW_AT_name);
		for (size_t i = 0; i < 2 && !found; i++)
			found = dwarf_attr(&die, links[i], &attribute) &&
				dwarf_formref_die(&attribute, &next);
		if (!found)
			break;
		die = next;
	}
	names->linkage = keep_text(reader, linkage);
	if (names->linkage) {
		memo = vc_store_memo(reader->job->store, names->linkage);
		if (*memo) {
			names->function = *memo;
			return;
		}
	}
	demangled = vc_demangle(linkage ? linkage : name);
	names->function = keep_text(reader, demangled ? demangled : name ? name : linkage);
	free(demangled);
	if (demangled && names->linkage)
		*memo = names->function;
}

static void name_function(struct reader *reader, uint64_t offset, struct vc_source_frame *frame)
{
	struct names *names = &reader->names[(offset ^ offset >> 13) % NAMES];
	Dwarf_Die die;

	if (names->dwarf != reader->dwarf || names->offset != offset) {
		*names = (struct names){.dwarf = reader->dwarf, .offset = offset};
		if (dwarf_offdie(reader->dwarf, offset, &die))
			read_names(reader, die, names);
	}
	frame->function = names->function;
	frame->linkage_name = names->linkage;
}

static uint32_t line_number(uint64_t number)
{
	return number <= INT32_MAX ? (uint32_t)number : 0;
}

/* Writes down what the unit at hand says about one selected address, if it says anything. */
static void answer(struct reader *reader, size_t selected)
{
	size_t index = reader->selected[selected];
	const struct vc_place *place = &reader->places[selected];
	struct vc_wanted *wanted = &reader->job->wanted[index];
	struct chain *chain = &reader->chains[index];
	size_t count = chain->count ? chain->count : 1;
	struct vc_source_frame *frames, innermost = {0};

	if (place->known) {
		innermost.file = file_path(reader, &reader->lines, place->file);
		innermost.line = line_number(place->line);
	}
	if (chain->count == 0 && (!innermost.file || wanted->answered))
		return;
	frames = vc_store_allocate(reader->job->store, count * sizeof(*frames));
	if (!frames) {
		reader->no_memory = true;
		return;
	}
	memset(frames, 0, count * sizeof(*frames));
	frames[0] = innermost;
	for (size_t i = 0; i < chain->count; i++) {
		const struct function *function = &chain->functions[chain->count - 1 - i];

		name_function(reader, function->names, &frames[i]);
		if (i + 1 < count) {
			frames[i].inlined = true;
			frames[i + 1].file = file_path(reader, reader->files, function->call_file);
			frames[i + 1].line = line_number(function->call_line);
		}
	}
	reader->answered += !wanted->answered;
	wanted->answered = true;
	wanted->source = VC_SYMBOL_DEBUG;
	wanted->frames = frames;
	wanted->count = (uint32_t)count;
}

/* The walk over a unit's entries. */

static bool extend(struct reader *reader, size_t wanted, unsigned level, uint64_t owner,
		   const struct vc_entry *entry)
{
	struct chain *chain = &reader->chains[wanted];

	if (chain->count != level || level == VC_INLINE_LIMIT)
		return false;
	/* Only inside the function that holds it, and of two that claim an address the first. */
	if (level > 0 && chain->functions[level - 1].offset != owner)
		return false;
	if (chain->count == chain->capacity) {
		unsigned capacity = chain->capacity ? chain->capacity * 2 : 4;
		void *grown = reallocarray(chain->functions, capacity, sizeof(*chain->functions));

		if (!grown) {
			reader->no_memory = true;
			return false;
		}
		chain->functions = grown;
		chain->capacity = capacity;
	}
	chain->functions[chain->count++] = (struct function){
		.offset = entry->offset,
		/* What it is an instance of has its names, unless it has some of its own. */
		.names = entry->origin && !entry->named ? entry->origin : entry->offset,
		.call_file = entry->call_file,
		.call_line = entry->call_line,
	};
	return true;
}

/* True if a selected address lies in the range. Chains grow, but for level UINT32_MAX. */
static bool visit_range(struct reader *reader, const struct vc_entry *entry, uint64_t low,
			uint64_t high, unsigned level, uint64_t owner)
{
	bool any = false;

	for (size_t at = vc_first_address(reader->addresses, reader->selected_count, low);
	     at < reader->selected_count; at++) {
		if (reader->addresses[at] >= high || !spend(reader, 1))
			break;
		if (level == UINT32_MAX)
			return true;
		any |= extend(reader, reader->selected[at], level, owner, entry);
	}
	return any;
}

static bool visit_ranges(struct reader *reader, const struct vc_entry *entry, unsigned level,
			 uint64_t owner)
{
	Dwarf_Addr base = 0, low, high;
	ptrdiff_t next = 0;
	bool any = false;
	Dwarf_Die die;

	if (!entry->has_code)
		return false;
	if (entry->simple)
		return visit_range(reader, entry, entry->low, entry->high, level, owner);
	if (!dwarf_offdie(reader->dwarf, entry->offset, &die))
		return false;
	while ((next = dwarf_ranges(&die, next, &base, &low, &high)) > 0) {
		any |= visit_range(reader, entry, low, high, level, owner);
		if (!spend(reader, 1) || (any && level == UINT32_MAX))
			break;
	}
	return any;
}

static void walk(struct reader *reader, unsigned depth, unsigned level, uint64_t owner);

/* Goes through an entry's children, or past them. */
static void visit(struct reader *reader, const struct vc_entry *entry, unsigned depth,
		  unsigned level, uint64_t owner)
{
	bool enter = false;

	switch (entry->tag) {
	case DW_TAG_subprogram:
		enter = visit_ranges(reader, entry, 0, 0);
		level = enter ? 1 : 0;
		owner = entry->offset;
		enter |= reader->thorough;
		break;
	case DW_TAG_inlined_subroutine:
		enter = level > 0 && visit_ranges(reader, entry, level, owner);
		level++;
		owner = entry->offset;
		break;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		enter = reader->thorough || (!entry->has_code && level > 0) ||
			visit_ranges(reader, entry, UINT32_MAX, 0);
		break;
	case DW_TAG_namespace:
	case DW_TAG_module:
		enter = true;
		level = 0;
		break;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		enter = reader->thorough;
		level = 0;
		break;
	default:
		break;
	}
	if (!entry->children)
		return;
	if (enter && depth < VC_DIE_DEPTH_LIMIT)
		walk(reader, depth + 1, level, owner);
	else
		vc_entries_skip(&reader->entries, entry, &reader->work);
}

/* Entries up to the end of a list. They are read forwards only, so no damage makes a loop. */
static void walk(struct reader *reader, unsigned depth, unsigned level, uint64_t owner)
{
	struct vc_entry entry;

	while (spend(reader, 1) && vc_entries_next(&reader->entries, &entry) && entry.tag)
		visit(reader, &entry, depth, level, owner);
}

static bool walk_from_start(struct reader *reader, const struct vc_sections *sections,
			    Dwarf_Die *unit)
{
	int error = vc_entries_open(&reader->entries, sections, unit, &reader->work);
	struct vc_entry entry;

	reader->no_memory |= error == VC_E_NO_MEMORY;
	if (!error && vc_entries_next(&reader->entries, &entry) && entry.children)
		walk(reader, 0, 0, 0);
	return !error;
}

static void walk_unit(struct reader *reader, const struct vc_sections *sections, Dwarf_Die *unit)
{
	bool missing = false;

	reader->thorough = false;
	if (!walk_from_start(reader, sections, unit))
		return;
	for (size_t i = 0; i < reader->selected_count; i++)
		missing |= reader->chains[reader->selected[i]].count == 0;
	if (!missing)
		return;
	/* Some code stands in a class, inside another function or the abstract instance of one. */
	reader->thorough = true;
	walk_from_start(reader, sections, unit);
}

/* Units. */

static int compare_indexes(const void *left, const void *right)
{
	const size_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static size_t first_wanted(const struct reader *reader, uint64_t low)
{
	size_t from = 0, to = reader->job->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (address_of(reader, middle) < low)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Selects the addresses in the unit's ranges that no unit before has named. */
static void select_addresses(struct reader *reader, Dwarf_Die *unit)
{
	Dwarf_Addr base = 0, low, high;
	ptrdiff_t next = 0;

	reader->unit_number++;
	reader->selected_count = 0;
	while ((next = dwarf_ranges(unit, next, &base, &low, &high)) > 0) {
		if (!spend(reader, 1))
			return;
		/* Ranges of code that the linker dropped start at 0. */
		if (low == 0)
			continue;
		for (size_t i = first_wanted(reader, low); i < reader->job->count; i++) {
			struct chain *chain = &reader->chains[i];

			if (address_of(reader, i) >= high || !spend(reader, 1))
				break;
			if (chain->unit == reader->unit_number || chain->count > 0)
				continue;
			chain->unit = reader->unit_number;
			reader->selected[reader->selected_count++] = i;
		}
	}
	qsort(reader->selected, reader->selected_count, sizeof(*reader->selected), compare_indexes);
	for (size_t i = 0; i < reader->selected_count; i++)
		reader->addresses[i] = address_of(reader, reader->selected[i]);
	memset(reader->places, 0, reader->selected_count * sizeof(*reader->places));
}

/* Once a module: its lines are known all the same, its inlined functions are not. */
static void note_missing_split(struct reader *reader, const char *name)
{
	char *package = vc_path_format("%s.dwp", reader->job->files->module.path ?
							 reader->job->files->module.path :
							 reader->file->path);

	if (!reader->split_missing && package && access(package, F_OK) == 0)
		vc_detail_add(reader->job->files, "%s: split debug information in a package is not read",
			      package);
	else if (!reader->split_missing)
		vc_detail_add(reader->job->files, "%s: split debug information, not found", name);
	reader->split_missing = true;
	free(package);
}

/*
 * The entries of a unit compiled with -gsplit-dwarf stand in a file of their own, which libdw opens
 * by itself; so what it would open is looked at first. False: none, or not one to open.
 */
static bool split_unit(struct reader *reader, Dwarf_CU *cu, Dwarf_Die *unit, Dwarf_Die *ret)
{
	const char *name = string_attribute(reader, unit, DW_AT_dwo_name);
	const char *directory = string_attribute(reader, unit, DW_AT_comp_dir);
	const char *path = reader->file->path, *slash = strrchr(path, '/');
	char *candidates[2];
	bool special = false;

	if (!name)
		name = string_attribute(reader, unit, DW_AT_GNU_dwo_name);
	if (!name)
		return false;
	if (name[0] == '/') /* joined with nothing */
		directory = path = slash = "";
	candidates[0] = vc_path_format("%s/%s", directory ? directory : ".", name);
	candidates[1] = vc_path_format("%.*s/%s", slash ? (int)(slash - path) : 1,
				       slash ? path : ".", name);
	for (size_t i = 0; i < 2; i++) {
		special |= !candidates[i] || vc_path_is_special(candidates[i]);
		free(candidates[i]);
	}
	if (special || dwarf_cu_info(cu, NULL, NULL, NULL, ret, NULL, NULL, NULL) || !ret->addr) {
		note_missing_split(reader, name);
		return false;
	}
	return remember_regions(reader, dwarf_cu_getdwarf(ret->cu)) == 0;
}

/* Rows of the unit for the addresses that are selected. */
static void read_lines(struct reader *reader, Dwarf_Die *unit)
{
	Dwarf_Attribute attribute;
	Dwarf_Word position;
	int error;

	reader->lines.file_count = 0;
	if (dwarf_formudata(dwarf_attr(unit, DW_AT_stmt_list, &attribute), &position))
		return;
	error = vc_lines_read(&reader->lines, &reader->sections, position);
	reader->no_memory |= error == VC_E_NO_MEMORY;
	spend(reader, reader->lines.file_count);
	if (!error)
		vc_lines_place(&reader->lines, reader->addresses, reader->selected_count,
			       reader->places, &reader->work);
}

/* The entries of the unit stand in a file of its own, which may have a list of files, too. */
static void read_split(struct reader *reader, Dwarf_Die *split)
{
	struct vc_sections sections;

	reader->dwarf = dwarf_cu_getdwarf(split->cu);
	vc_sections_find(reader->dwarf, true, &sections);
	if (vc_bytes_left(&sections.lines)) {
		reader->files = &reader->split_lines;
		if (vc_lines_read(reader->files, &sections, 0) == VC_E_NO_MEMORY)
			reader->no_memory = true;
	}
	walk_unit(reader, &sections, split);
}

static void read_unit(struct reader *reader, Dwarf_CU *cu, Dwarf_Die *unit, uint8_t type)
{
	Dwarf_Die split;

	select_addresses(reader, unit);
	if (reader->selected_count == 0)
		return;
	reader->directory = string_attribute(reader, unit, DW_AT_comp_dir);
	reader->files = &reader->lines;
	reader->dwarf = reader->debug.dwarf;
	read_lines(reader, unit);
	if ((type == DW_UT_skeleton || dwarf_hasattr(unit, DW_AT_GNU_dwo_name)) &&
	    split_unit(reader, cu, unit, &split))
		read_split(reader, &split);
	else
		walk_unit(reader, &reader->sections, unit);
	for (size_t i = 0; i < reader->selected_count && !reader->no_memory; i++)
		answer(reader, i);
}

static void read_units(struct reader *reader)
{
	const struct vc_dwarf_job *job = reader->job;
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	uint8_t type;

	while (reader->answered < job->count &&
	       dwarf_get_units(reader->debug.dwarf, cu, &cu, NULL, &type, &unit, NULL) == 0) {
		uint64_t before = reader->answered;

		if (!spend(reader, 1))
			break;
		if (dwarf_tag(&unit) == DW_TAG_compile_unit ||
		    dwarf_tag(&unit) == DW_TAG_skeleton_unit)
			read_unit(reader, cu, &unit, type);
		if (job->progress && reader->answered != before)
			job->progress(job->context, job->done_before + reader->answered,
				      job->total);
	}
	if (reader->work <= 0)
		vc_detail_add(job->files, "debug information given up: it takes too long to read");
}

/* The whole. */

static void reader_deinit(struct reader *reader)
{
	for (size_t i = 0; reader->chains && i < reader->job->count; i++)
		free(reader->chains[i].functions);
	free(reader->chains);
	free(reader->selected);
	free(reader->addresses);
	free(reader->places);
	free(reader->names);
	free(reader->regions);
	vc_lines_deinit(&reader->lines);
	vc_lines_deinit(&reader->split_lines);
	vc_entries_deinit(&reader->entries);
	vc_debug_close(&reader->debug);
}

int vc_dwarf_answer(struct vc_dwarf_job *job)
{
	const struct vc_file *file =
		vc_file_has_debug(&job->files->debug) ? &job->files->debug : &job->files->module;
	struct reader reader = {.job = job, .file = file, .debug.alternate_file.fd = -1};
	size_t size = 0;
	int error = 0;

	if (!vc_file_has_debug(file) || job->count == 0)
		return 0;
	elf_rawfile(file->elf, &size);
	/* Real files take a small fraction of this; a made-up one stops within seconds. */
	reader.work = (int64_t)1 << 24;
	reader.work += (int64_t)size * 4 + (int64_t)job->count * 1024;
	reader.chains = calloc(job->count, sizeof(*reader.chains));
	reader.selected = calloc(job->count, sizeof(*reader.selected));
	reader.addresses = calloc(job->count, sizeof(*reader.addresses));
	reader.places = calloc(job->count, sizeof(*reader.places));
	reader.names = calloc(NAMES, sizeof(*reader.names));
	if (!reader.chains || !reader.selected || !reader.addresses || !reader.places ||
	    !reader.names) {
		error = VC_E_NO_MEMORY;
	} else if (vc_debug_open(job->options, job->files, file, &reader.debug)) {
		error = remember_regions(&reader, reader.debug.dwarf);
		if (!error && reader.debug.alternate)
			error = remember_regions(&reader, reader.debug.alternate);
		vc_sections_find(reader.debug.dwarf, false, &reader.sections);
		if (!error)
			read_units(&reader);
	}
	reader_deinit(&reader);
	return reader.no_memory ? VC_E_NO_MEMORY : error;
}
