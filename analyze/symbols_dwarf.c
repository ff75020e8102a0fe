/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/demangle.h"
#include "analyze/symbols_private.h"
#include "formats/error.h"

/* Functions that cover one address: the concrete one first, the innermost inlined one last. */
struct chain {
	Dwarf_Die *functions;
	unsigned count, capacity;
	unsigned unit; /* number of the last unit whose ranges hold the address */
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
	size_t selected_count;
	Dwarf_Lines *lines;
	size_t line_count;
	Dwarf_Files *files;
	const char *directory; /* of compilation; NULL unknown */
	Dwarf_Off cursor; /* furthest entry visited: only ever rises, so no damage makes a loop */
	bool thorough;	  /* look into scopes that have no code of their own, too */

	struct region *regions;
	size_t region_count;
	int64_t work; /* what is left before the module is given up */
	bool no_memory;
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

static const char *keep_path(struct reader *reader, const char *path)
{
	const char *directory = reader->directory, *kept;
	char *copy;

	if (!path || !*path || !strcmp(path, "???"))
		return NULL;
	/* libdw joins some names with the directory and leaves others. */
	if (!directory || path[0] == '/' ||
	    (!strncmp(path, directory, strlen(directory)) && path[strlen(directory)] == '/'))
		copy = strdup(path);
	else
		copy = vc_path_format("%s/%s", directory, path);
	if (!copy) {
		reader->no_memory = true;
		return NULL;
	}
	clean_path(copy);
	kept = vc_store_text(reader->job->store, copy);
	free(copy);
	reader->no_memory |= !kept;
	return kept;
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

/* A function's names, which stand in its declaration or abstract instance more often than in it. */
static void name_function(struct reader *reader, Dwarf_Die *function, struct vc_source_frame *frame)
{
	static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
	const char *name = NULL, *linkage = NULL;
	Dwarf_Die die = *function;
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
	frame->linkage_name = keep_text(reader, linkage);
	if (frame->linkage_name) {
		memo = vc_store_memo(reader->job->store, frame->linkage_name);
		if (*memo) {
			frame->function = *memo;
			return;
		}
	}
	demangled = vc_demangle(linkage ? linkage : name);
	frame->function = keep_text(reader, demangled ? demangled : name ? name : linkage);
	free(demangled);
	if (demangled && frame->linkage_name)
		*memo = frame->function;
}

/* The row that holds the address: the last at or before it, unless that ends a sequence. */
static void find_line(struct reader *reader, uint64_t address, struct vc_source_frame *frame)
{
	size_t low = 0, high = reader->line_count;
	Dwarf_Line *line;
	bool ends = true;
	int number;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		Dwarf_Addr at = UINT64_MAX;

		dwarf_lineaddr(dwarf_onesrcline(reader->lines, middle), &at);
		if (at <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return;
	line = dwarf_onesrcline(reader->lines, low - 1);
	if (!line || dwarf_lineendsequence(line, &ends) || ends)
		return;
	frame->file = keep_path(reader, dwarf_linesrc(line, NULL, NULL));
	if (!dwarf_lineno(line, &number) && number > 0)
		frame->line = (uint32_t)number;
}

/* Where the call of an inlined function stands. */
static void find_call(struct reader *reader, Dwarf_Die *inlined, struct vc_source_frame *frame)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &value) &&
	    reader->files)
		frame->file = keep_path(reader, dwarf_filesrc(reader->files, value, NULL, NULL));
	if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &value) &&
	    value <= INT32_MAX)
		frame->line = (uint32_t)value;
}

/* Writes down what the unit at hand says about one address, if it says anything. */
static void answer(struct reader *reader, size_t index)
{
	struct vc_wanted *wanted = &reader->job->wanted[index];
	struct chain *chain = &reader->chains[index];
	size_t count = chain->count ? chain->count : 1;
	struct vc_source_frame *frames, innermost = {0};

	find_line(reader, address_of(reader, index), &innermost);
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
		Dwarf_Die *function = &chain->functions[chain->count - 1 - i];

		name_function(reader, function, &frames[i]);
		if (i + 1 < count) {
			frames[i].inlined = true;
			find_call(reader, function, &frames[i + 1]);
		}
	}
	reader->answered += !wanted->answered;
	wanted->answered = true;
	wanted->source = VC_SYMBOL_DEBUG;
	wanted->frames = frames;
	wanted->count = (uint32_t)count;
}

/* The walk over a unit's entries. */

/* First of the selected addresses at or after `low`. */
static size_t first_selected(const struct reader *reader, uint64_t low)
{
	size_t from = 0, to = reader->selected_count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (address_of(reader, reader->selected[middle]) < low)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static bool extend(struct reader *reader, size_t wanted, unsigned level, Dwarf_Off owner,
		   Dwarf_Die *function)
{
	struct chain *chain = &reader->chains[wanted];

	if (chain->count != level || level == VC_INLINE_LIMIT)
		return false;
	/* Only inside the function that holds it, and of two that claim an address the first. */
	if (level > 0 && dwarf_dieoffset(&chain->functions[level - 1]) != owner)
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
	chain->functions[chain->count++] = *function;
	return true;
}

/* True if a selected address lies in the entry. Chains grow, but for level UINT32_MAX. */
static bool visit_ranges(struct reader *reader, Dwarf_Die *die, unsigned level, Dwarf_Off owner)
{
	Dwarf_Addr base = 0, low, high;
	ptrdiff_t next = 0;
	bool any = false;

	while ((next = dwarf_ranges(die, next, &base, &low, &high)) > 0) {
		size_t at = first_selected(reader, low);

		for (; at < reader->selected_count; at++) {
			size_t wanted = reader->selected[at];

			if (address_of(reader, wanted) >= high || !spend(reader, 1))
				break;
			if (level == UINT32_MAX)
				return true;
			any |= extend(reader, wanted, level, owner, die);
		}
		if (!spend(reader, 1))
			return false;
	}
	return any;
}

static bool has_code(Dwarf_Die *die)
{
	return dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges);
}

static void walk(struct reader *reader, Dwarf_Die *parent, unsigned depth, unsigned level,
		 Dwarf_Off owner);

static void visit(struct reader *reader, Dwarf_Die *die, unsigned depth, unsigned level,
		  Dwarf_Off owner)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
		if (has_code(die) && visit_ranges(reader, die, 0, 0))
			walk(reader, die, depth + 1, 1, dwarf_dieoffset(die));
		else if (reader->thorough)
			walk(reader, die, depth + 1, 0, 0);
		break;
	case DW_TAG_inlined_subroutine:
		if (level > 0 && visit_ranges(reader, die, level, owner))
			walk(reader, die, depth + 1, level + 1, dwarf_dieoffset(die));
		break;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		if (reader->thorough || (!has_code(die) && level > 0) ||
		    visit_ranges(reader, die, UINT32_MAX, 0))
			walk(reader, die, depth + 1, level, owner);
		break;
	case DW_TAG_namespace:
	case DW_TAG_module:
		walk(reader, die, depth + 1, 0, 0);
		break;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		if (reader->thorough)
			walk(reader, die, depth + 1, 0, 0);
		break;
	default:
		break;
	}
}

static void walk(struct reader *reader, Dwarf_Die *parent, unsigned depth, unsigned level,
		 Dwarf_Off owner)
{
	Dwarf_Die die;

	if (depth == VC_DIE_DEPTH_LIMIT || dwarf_child(parent, &die))
		return;
	for (;;) {
		Dwarf_Off offset = dwarf_dieoffset(&die);
		Dwarf_Die next;

		/* A sibling reference may point anywhere in a damaged file. */
		if (offset <= reader->cursor || !spend(reader, 1))
			return;
		reader->cursor = offset;
		visit(reader, &die, depth, level, owner);
		if (dwarf_siblingof(&die, &next))
			return;
		/* Without that reference libdw reads all that lies between. */
		if (!spend(reader, (dwarf_dieoffset(&next) - offset) / 16))
			return;
		die = next;
	}
}

static void walk_unit(struct reader *reader, Dwarf_Die *unit)
{
	bool missing = false;

	reader->cursor = dwarf_dieoffset(unit);
	reader->thorough = false;
	walk(reader, unit, 0, 0, 0);
	for (size_t i = 0; i < reader->selected_count; i++)
		missing |= reader->chains[reader->selected[i]].count == 0;
	if (!missing)
		return;
	/* Some code stands in a class, inside another function or the abstract instance of one. */
	reader->cursor = dwarf_dieoffset(unit);
	reader->thorough = true;
	walk(reader, unit, 0, 0, 0);
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
}

/* False for a text that libdw would read past its section. One it cannot find does no harm. */
static bool ends_well(const struct reader *reader, Dwarf_Die *unit, unsigned name)
{
	Dwarf_Attribute attribute;

	return !dwarf_attr(unit, name, &attribute) || !dwarf_formstring(&attribute) ||
	       string_of(reader, &attribute);
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
	if (special || dwarf_cu_info(cu, NULL, NULL, NULL, ret, NULL, NULL, NULL) || !ret->addr)
		return false;
	return remember_regions(reader, dwarf_cu_getdwarf(ret->cu)) == 0;
}

static void read_unit(struct reader *reader, Dwarf_CU *cu, Dwarf_Die *unit, uint8_t type)
{
	Dwarf_Die split, *entries = unit;
	size_t file_count;

	select_addresses(reader, unit);
	if (reader->selected_count == 0)
		return;
	reader->directory = string_attribute(reader, unit, DW_AT_comp_dir);
	reader->lines = NULL;
	reader->line_count = 0;
	reader->files = NULL;
	if (!ends_well(reader, unit, DW_AT_comp_dir) || !ends_well(reader, unit, DW_AT_name))
		return;
	if (dwarf_getsrclines(unit, &reader->lines, &reader->line_count))
		reader->line_count = 0;
	if (type == DW_UT_skeleton || dwarf_hasattr(unit, DW_AT_GNU_dwo_name)) {
		if (split_unit(reader, cu, unit, &split))
			entries = &split;
	}
	if (dwarf_getsrcfiles(entries, &reader->files, &file_count))
		reader->files = NULL;
	walk_unit(reader, entries);
	for (size_t i = 0; i < reader->selected_count && !reader->no_memory; i++)
		answer(reader, reader->selected[i]);
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
	free(reader->regions);
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
	if (!reader.chains || !reader.selected) {
		error = VC_E_NO_MEMORY;
	} else if (vc_debug_open(job->options, job->files, file, &reader.debug)) {
		error = remember_regions(&reader, reader.debug.dwarf);
		if (!error && reader.debug.alternate)
			error = remember_regions(&reader, reader.debug.alternate);
		if (!error)
			read_units(&reader);
	}
	reader_deinit(&reader);
	return reader.no_memory ? VC_E_NO_MEMORY : error;
}
