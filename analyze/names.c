/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/names.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/arena.h"
#include "analyze/model.h"
#include "analyze/names_pairs.h"
#include "analyze/owner.h"
#include "analyze/packed.h"
#include "analyze/source_frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/** Where a file has the names of a module inside itself. */
struct packed {
	const struct vc_tables *tables;
	uint64_t module;             /* row of its modules plus 1 */
	const char *lacks, *detail;  /* as symbol_modules has it */
	struct packed *next;
};

/** A loaded object, the same for all files that name it. */
struct module {
	const char *path, *build_id;
	struct module *next;         /* in the list of all */
	struct module *same_hash;
	struct packed *packed;       /* in the order of files; NULL none */
	uint32_t number;
};

/* What a file may ask for: more is no program's, and would cost memory and time without end. */
enum {
	MODULE_BUCKETS = 4096,
	FRAMES_OF_STACK_MOST = 1024,
};
#define FRAMES_MOST (UINT64_C(1) << 25) /* of all chains together */

/** An address of a module and its frames. */
struct address {
	const struct module *module; /* NULL: outside every loaded object */
	uint64_t offset;
	uint32_t count;              /* 0: not named yet */
	const struct vc_frame_name *frames;
	const struct vc_tables *packed; /* a file that names it inside itself; NULL none */
	struct vc_packed_run run;       /* there */
};

struct file {
	const struct vc_tables *tables;
	struct module **modules;
	struct vc_chain **chains;    /* one a stack, then one a source stack; NULL: not asked for */
	struct vc_frame_name *sources; /* one a source frame; NULL: none was asked for */
	struct vc_pairs pairs;
};

struct vc_names {
	const struct vc_resolver *resolver;
	struct vc_arena arena;
	struct module *modules, *bucket[MODULE_BUCKETS];
	uint64_t frames;             /* of all chains so far */
	uint32_t module_count, file_count;
	struct file *files;
	struct address **index;      /* open hash table */
	size_t index_size, addresses;
	struct vc_names_count count;
};

static struct vc_chain no_chain;

int vc_names_create(const struct vc_resolver *resolver, struct vc_names **ret)
{
	struct vc_names *names = calloc(1, sizeof(*names));

	if (!names)
		return VC_E_NO_MEMORY;
	names->resolver = resolver;
	*ret = names;
	return 0;
}

void vc_names_destroy(struct vc_names *names)
{
	if (!names)
		return;
	vc_arena_deinit(&names->arena);
	free(names->files);
	free(names->index);
	free(names);
}

/** The one module for a path and build-id; a build-id alone says which it is. */
static struct module *find_module(struct vc_names *names, const char *path,
				  const char *build_id)
{
	const char *tells = *build_id ? build_id : path;
	struct module **bucket = &names->bucket[XXH3_64bits(tells, strlen(tells)) % MODULE_BUCKETS];
	struct module *module;

	for (module = *bucket; module; module = module->same_hash)
		if (!strcmp(module->build_id, build_id) &&
		    (*build_id || !strcmp(module->path, path)))
			return module;
	module = vc_arena_allocate(&names->arena, 1, sizeof(*module));
	if (!module)
		return NULL;
	/* copies: whoever adds strings to the tables moves those that are there */
	module->path = vc_arena_string(&names->arena, path);
	module->build_id = vc_arena_string(&names->arena, build_id);
	if (!module->path || !module->build_id)
		return NULL;
	module->number = names->module_count++;
	module->next = names->modules;
	names->modules = module;
	module->same_hash = *bucket;
	*bucket = module;
	return module;
}

/** Most rows of a file's modules that are one module; a hostile file may repeat one for ever. */
enum { MODULES_ALIKE = 8 };

/** Notes which modules a file has the names of. */
static int add_packed(struct vc_names *names, const struct file *file)
{
	const struct vc_tables *tables = file->tables;
	uint64_t rows = names->resolver ? tables->rows[VC_TABLE_symbol_modules] : 0;

	for (uint64_t row = 0; row < rows; row++) {
		uint64_t module = vc_value(tables, VC_COL_symbol_modules_module, row);
		struct packed *packed, **last;
		unsigned same = 0;

		if (!module || module > tables->rows[VC_TABLE_modules])
			continue;
		last = &file->modules[module - 1]->packed;
		for (; *last && same < MODULES_ALIKE; last = &(*last)->next)
			if ((*last)->tables == tables)
				same = (*last)->module == module ? MODULES_ALIKE : same + 1;
		if (same >= MODULES_ALIKE)
			continue;
		packed = vc_arena_allocate(&names->arena, 1, sizeof(*packed));
		if (!packed)
			return VC_E_NO_MEMORY;
		packed->tables = tables;
		packed->module = module;
		packed->lacks = vc_arena_string(
			&names->arena, vc_string(tables, VC_COL_symbol_modules_lacks, row));
		packed->detail = vc_arena_string(
			&names->arena, vc_string(tables, VC_COL_symbol_modules_detail, row));
		if (!packed->lacks || !packed->detail)
			return VC_E_NO_MEMORY;
		*last = packed;
	}
	return 0;
}

/** Stacks and source stacks: a damaged file may lack either. */
static uint64_t chain_count(const struct vc_tables *tables)
{
	uint64_t sources = tables->column[VC_COL_source_stacks_first] &&
				   tables->column[VC_COL_source_stacks_count] ?
				   tables->rows[VC_TABLE_source_stacks] : 0;

	return tables->rows[VC_TABLE_stacks] + sources;
}

int vc_names_add(struct vc_names *names, const struct vc_tables *tables, uint32_t *ret)
{
	struct file *files = realloc(names->files, (names->file_count + 1) * sizeof(*files));
	uint64_t modules = tables->rows[VC_TABLE_modules];
	struct file *file;

	if (!files)
		return VC_E_NO_MEMORY;
	names->files = files;
	file = &files[names->file_count];
	file->tables = tables;
	file->modules = vc_arena_allocate(&names->arena, modules, sizeof(*file->modules));
	file->chains = vc_arena_allocate(&names->arena, chain_count(tables),
					 sizeof(*file->chains));
	file->sources = NULL;
	file->pairs = (struct vc_pairs){0};
	if (!file->modules || !file->chains)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < modules; i++) {
		const uint64_t *path = tables->column[VC_COL_modules_path];
		const uint64_t *build_id = tables->column[VC_COL_modules_build_id];

		file->modules[i] = find_module(names, vc_tables_text(tables, path[i]),
					       vc_tables_text(tables, build_id[i]));
		if (!file->modules[i])
			return VC_E_NO_MEMORY;
	}
	*ret = names->file_count++;
	return add_packed(names, file);
}

static size_t address_slot(const struct vc_names *names, const struct module *module,
			   uint64_t offset)
{
	uint64_t hash = (offset + (module ? module->number + 1 : 0) * 0x100000001b3u) *
			0x9e3779b97f4a7c15u;
	size_t slot = (hash >> 20) & (names->index_size - 1);

	while (names->index[slot] && (names->index[slot]->module != module ||
				      names->index[slot]->offset != offset))
		slot = (slot + 1) & (names->index_size - 1);
	return slot;
}

static int index_grow(struct vc_names *names)
{
	struct address **old = names->index;
	size_t old_size = names->index_size;

	names->index_size = old_size ? old_size * 2 : 1024;
	names->index = calloc(names->index_size, sizeof(*names->index));
	if (!names->index) {
		names->index = old;
		names->index_size = old_size;
		return VC_E_NO_MEMORY;
	}
	for (size_t i = 0; i < old_size; i++)
		if (old[i])
			names->index[address_slot(names, old[i]->module, old[i]->offset)] = old[i];
	free(old);
	return 0;
}

static int want_address(struct vc_names *names, const struct module *module, uint64_t offset)
{
	struct address *address;
	size_t slot;
	int error;

	if (names->addresses * 2 >= names->index_size) {
		error = index_grow(names);
		if (error)
			return error;
	}
	slot = address_slot(names, module, offset);
	if (names->index[slot])
		return 0;
	address = vc_arena_allocate(&names->arena, 1, sizeof(*address));
	if (!address)
		return VC_E_NO_MEMORY;
	address->module = module;
	address->offset = offset;
	names->index[slot] = address;
	names->addresses++;
	if (!module || !names->resolver)
		return 0;
	for (const struct packed *packed = module->packed; packed; packed = packed->next) {
		if (vc_packed_find(packed->tables, packed->module, offset, &address->run)) {
			address->packed = packed->tables;
			return 0;
		}
	}
	return names->resolver->want(names->resolver->context, module->number, module->path,
				     module->build_id, offset);
}

/** The frames of a stack: how many, and where they begin. Out of range: none. */
static uint64_t stack_frames(const struct vc_tables *tables, uint64_t row, uint64_t *first)
{
	uint64_t count = tables->column[VC_COL_stacks_count][row];
	uint64_t rows = tables->rows[VC_TABLE_frames];

	*first = tables->column[VC_COL_stacks_first][row];
	if (*first > rows)
		return 0;
	if (count > FRAMES_OF_STACK_MOST)
		count = FRAMES_OF_STACK_MOST;
	return count < rows - *first ? count : rows - *first;
}

static const struct module *frame_module(const struct file *file, uint64_t frame)
{
	uint64_t module = file->tables->column[VC_COL_frames_module][frame];

	return module && module <= file->tables->rows[VC_TABLE_modules] ?
		file->modules[module - 1] : NULL;
}

/** Asks for what a source stack needs beside itself: the stack of its forward pass. */
static int want_source(struct vc_names *names, struct file *file, uint64_t row)
{
	const struct vc_tables *tables = file->tables;
	uint64_t frames = tables->rows[VC_TABLE_source_frames];
	uint64_t number = tables->rows[VC_TABLE_stacks], forward;
	struct vc_chain **chain;

	if (!file->sources)
		file->sources = vc_arena_allocate(&names->arena, frames, sizeof(*file->sources));
	if (!file->sources)
		return VC_E_NO_MEMORY;
	forward = tables->column[VC_COL_source_stacks_forward] ?
			  tables->column[VC_COL_source_stacks_forward][row] : 0;
	if (!forward)
		return 0;
	/* one step only: a forward stack has no forward stack, and a damaged file no circle */
	chain = &file->chains[number + forward - 1];
	if (!*chain)
		*chain = vc_arena_allocate(&names->arena, 1, sizeof(**chain));
	return *chain ? 0 : VC_E_NO_MEMORY;
}

/** The two stacks of a pair and their chain. Such that are out of range: nothing. */
static int want_pair(struct vc_names *names, uint32_t number, uint64_t reference)
{
	const struct vc_tables *tables = names->files[number].tables;
	uint64_t native = vc_pair_native(reference);
	uint64_t python = tables->rows[VC_TABLE_stacks] + vc_pair_python(reference);
	int error;

	if (native > tables->rows[VC_TABLE_stacks] || python > chain_count(tables))
		return 0;
	error = vc_names_want(names, number, native);
	if (!error)
		error = vc_names_want(names, number, python);
	if (!error)
		error = vc_pairs_want(&names->files[number].pairs, reference, &names->arena);
	return error;
}

int vc_names_want(struct vc_names *names, uint32_t number, uint64_t stack)
{
	struct file *file = &names->files[number];
	uint64_t first, count;

	if (vc_is_pair(stack))
		return want_pair(names, number, stack);

	if (!stack || stack > chain_count(file->tables) || file->chains[stack - 1])
		return 0;
	file->chains[stack - 1] = vc_arena_allocate(&names->arena, 1, sizeof(struct vc_chain));
	if (!file->chains[stack - 1])
		return VC_E_NO_MEMORY;
	if (stack > file->tables->rows[VC_TABLE_stacks])
		return want_source(names, file, stack - file->tables->rows[VC_TABLE_stacks] - 1);
	count = stack_frames(file->tables, stack - 1, &first);
	for (uint64_t i = first; i < first + count; i++) {
		int error = want_address(names, frame_module(file, i),
					 file->tables->column[VC_COL_frames_offset][i]);

		if (error)
			return error;
	}
	return 0;
}

/* ---- naming ---- */

enum { FRAMES_AT_ONE_ADDRESS = 64 };

/** Frame of an address by its index, from the file itself or from the resolver. */
static int get_frame(const struct vc_names *names, const struct address *address, uint32_t index,
		     struct vc_frame_name *ret)
{
	if (address->packed) {
		if (index >= address->run.count)
			return VC_E_NOT_FOUND;
		vc_packed_frame(address->packed, address->run.first + index, ret);
		return 0;
	}
	if (!names->resolver || !address->module)
		return VC_E_NOT_FOUND;
	return names->resolver->get(names->resolver->context, address->module->number,
				    address->offset, index, ret);
}

static int name_address(struct vc_names *names, struct address *address)
{
	struct vc_frame_name found[FRAMES_AT_ONE_ADDRESS] = {0}, *frames;
	uint32_t count = 0;

	if (address->count)
		return 0;
	while (count < FRAMES_AT_ONE_ADDRESS && !get_frame(names, address, count, &found[count]))
		count++;
	names->count.frames++;
	names->count.named += count && found[0].function;
	if (!count)
		count = 1;
	frames = vc_arena_allocate(&names->arena, count, sizeof(*frames));
	if (!frames)
		return VC_E_NO_MEMORY;
	for (uint32_t i = 0; i < count; i++) {
		frames[i] = found[i];
		frames[i].module = address->module ? address->module->path : "";
		frames[i].build_id = address->module ? address->module->build_id : "";
		frames[i].offset = address->offset;
		vc_owner_find(&frames[i]);
	}
	address->frames = frames;
	address->count = count;
	return 0;
}

/** Where the user's code begins; see struct vc_chain. */
static void find_user(struct vc_chain *chain)
{
	uint32_t library = chain->count;

	for (uint32_t i = 0; i < chain->count; i++) {
		if (chain->frames[i]->owner == VC_OWNER_USER) {
			chain->user = chain->shown = i;
			chain->has_user = true;
			return;
		}
		if (chain->frames[i]->owner == VC_OWNER_LIBRARY &&
		    (library == chain->count || vc_owner_tells(chain->frames[i])))
			library = i;
	}
	chain->user = chain->shown = library < chain->count ? library : 0;
}

static int make_chain(struct vc_names *names, const struct file *file, uint64_t row)
{
	struct vc_chain *chain = file->chains[row];
	const struct vc_frame_name **frames;
	uint64_t first, count = stack_frames(file->tables, row, &first), total = 0;

	if (chain->count)
		return 0;
	for (uint64_t i = first; i < first + count; i++) {
		struct address *address = names->index[address_slot(
			names, frame_module(file, i),
			file->tables->column[VC_COL_frames_offset][i])];
		int error = name_address(names, address);

		if (error)
			return error;
		total += address->count;
	}
	names->frames += total;
	if (names->frames > FRAMES_MOST)
		return VC_E_LIMIT;
	frames = vc_arena_allocate(&names->arena, total, sizeof(*frames));
	if (!frames)
		return VC_E_NO_MEMORY;
	chain->frames = frames;
	for (uint64_t i = first; i < first + count; i++) {
		const struct address *address = names->index[address_slot(
			names, frame_module(file, i),
			file->tables->column[VC_COL_frames_offset][i])];

		for (uint32_t j = 0; j < address->count; j++)
			frames[chain->count++] = &address->frames[j];
	}
	chain->end = file->tables->column[VC_COL_stacks_end][row];
	find_user(chain);
	return 0;
}

/** The frame of a dump, named as far as it can be. */
static int name_source(struct vc_names *names, struct file *file, uint64_t row,
		       const struct vc_frame_name **ret)
{
	struct vc_frame_name *frame = &file->sources[row];
	int error;

	if (!frame->module) { /* not named yet */
		error = vc_source_frame(file->tables, row, &names->arena, frame);
		if (error)
			return error;
		names->count.frames++;
		names->count.named++;
	}
	*ret = frame;
	return 0;
}

static int make_source_chain(struct vc_names *names, struct file *file, uint64_t row)
{
	const struct vc_tables *tables = file->tables;
	uint64_t number = tables->rows[VC_TABLE_stacks];
	struct vc_chain *chain = file->chains[number + row];
	uint64_t first = tables->column[VC_COL_source_stacks_first][row];
	uint64_t count = tables->column[VC_COL_source_stacks_count][row];
	uint64_t rows = tables->rows[VC_TABLE_source_lists], forward;
	const struct vc_frame_name **frames;

	if (!tables->column[VC_COL_source_lists_frame] || first > rows || count > rows - first)
		count = 0;
	if (count > FRAMES_OF_STACK_MOST)
		count = FRAMES_OF_STACK_MOST;
	names->frames += count;
	if (names->frames > FRAMES_MOST)
		return VC_E_LIMIT;
	frames = vc_arena_allocate(&names->arena, count, sizeof(*frames));
	if (!frames)
		return VC_E_NO_MEMORY;
	chain->frames = frames;
	chain->count = 0;
	for (uint64_t i = first; i < first + count; i++) {
		uint64_t frame = tables->column[VC_COL_source_lists_frame][i];
		int error = frame && frame <= tables->rows[VC_TABLE_source_frames] ?
				    name_source(names, file, frame - 1, &frames[chain->count]) : 0;

		if (error)
			return error;
		chain->count += frame != 0;
	}
	find_user(chain);
	forward = tables->column[VC_COL_source_stacks_forward] ?
			  tables->column[VC_COL_source_stacks_forward][row] : 0;
	if (forward)
		chain->forward = file->chains[number + forward - 1];
	return 0;
}

/** Chains of the source stacks of a file that were asked for. */
static int make_source_chains(struct vc_names *names, struct file *file)
{
	uint64_t number = file->tables->rows[VC_TABLE_stacks];
	int error = 0;

	if (!file->sources)
		return 0;
	for (uint64_t i = number; !error && i < chain_count(file->tables); i++)
		if (file->chains[i])
			error = make_source_chain(names, file, i - number);
	return error;
}

/** Chains of the pairs of a file, once those of both stacks are there. */
static int make_pairs(struct vc_names *names, struct file *file)
{
	uint64_t number = file->tables->rows[VC_TABLE_stacks];

	for (size_t i = 0; i < file->pairs.size; i++) {
		struct vc_pair *pair = file->pairs.slot[i];
		const struct vc_chain *native, *python;

		if (!pair || pair->chain.frames)
			continue;
		native = file->chains[vc_pair_native(pair->reference) - 1];
		python = file->chains[number + vc_pair_python(pair->reference) - 1];
		names->frames += native->count + python->count;
		if (names->frames > FRAMES_MOST)
			return VC_E_LIMIT;
		if (vc_pair_merge(file->tables, &names->arena, native, python, pair))
			return VC_E_NO_MEMORY;
	}
	return 0;
}

int vc_names_resolve(struct vc_names *names)
{
	int error = names->resolver ? names->resolver->resolve(names->resolver->context) : 0;

	for (uint32_t i = 0; !error && i < names->file_count; i++)
		for (uint64_t row = 0;
		     !error && row < names->files[i].tables->rows[VC_TABLE_stacks]; row++)
			if (names->files[i].chains[row])
				error = make_chain(names, &names->files[i], row);
	for (uint32_t i = 0; !error && i < names->file_count; i++)
		error = make_source_chains(names, &names->files[i]);
	for (uint32_t i = 0; !error && i < names->file_count; i++)
		error = make_pairs(names, &names->files[i]);
	return error;
}

struct vc_chain *vc_names_chain(const struct vc_names *names, uint32_t file, uint64_t stack)
{
	const struct vc_tables *tables = names->files[file].tables;
	struct vc_pair *pair;

	if (vc_is_pair(stack)) {
		pair = vc_pairs_find(&names->files[file].pairs, stack);
		return pair ? &pair->chain : &no_chain;
	}
	if (!stack || stack > chain_count(tables) ||
	    !names->files[file].chains[stack - 1])
		return &no_chain;
	return names->files[file].chains[stack - 1];
}

uint64_t vc_names_place(const struct vc_names *names, uint32_t file, uint64_t stack)
{
	uint64_t chains = chain_count(names->files[file].tables);
	const struct vc_pair *pair;

	if (!vc_is_pair(stack))
		return stack <= chains ? stack : 0;
	pair = vc_pairs_find(&names->files[file].pairs, stack);
	return pair ? chains + 1 + pair->number : 0;
}

uint64_t vc_names_places(const struct vc_names *names, uint32_t file)
{
	return chain_count(names->files[file].tables) + names->files[file].pairs.count + 1;
}

/** Why a module has no lines; NULL it has, or nobody asked. What the file itself says counts. */
static const char *module_lacks(const struct vc_names *names, const struct module *module,
				const char **ret_detail)
{
	if (module->packed) {
		*ret_detail = module->packed->detail;
		return *module->packed->lacks ? module->packed->lacks : NULL;
	}
	if (!names->resolver || !names->resolver->lacks)
		return NULL;
	return names->resolver->lacks(names->resolver->context, module->number, ret_detail);
}

unsigned vc_names_lacks(const struct vc_names *names, struct vc_names_lack *ret, unsigned most)
{
	unsigned count = 0;

	for (const struct module *module = names->modules; module; module = module->next) {
		struct vc_frame_name frame = {.module = module->path};
		const char *detail = "", *why;

		vc_owner_find(&frame);
		if (frame.owner != VC_OWNER_USER)
			continue;
		why = module_lacks(names, module, &detail);
		if (!why)
			continue;
		if (count < most)
			ret[count] = (struct vc_names_lack){module->path, why, detail};
		count++;
	}
	return count;
}

struct vc_names_count vc_names_count(const struct vc_names *names)
{
	return names->count;
}
