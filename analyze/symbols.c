/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/symbols.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/demangle.h"
#include "analyze/symbols_private.h"
#include "formats/error.h"

struct module {
	uint32_t number; /* the caller's */
	struct vc_module_key key;
	bool resolved;
	struct vc_module_report report;
};

struct vc_symbols {
	struct vc_symbols_options options;
	struct vc_store *store;
	struct module *modules; /* by rising number */
	size_t module_count, module_capacity;
	struct vc_wanted *wanted; /* the first `resolved` of them sorted and answered */
	size_t wanted_count, wanted_capacity, resolved;
};

bool vc_symbols_readable(void)
{
	return true;
}

static bool copy_options(struct vc_symbols *symbols, const struct vc_symbols_options *options)
{
	const char **dirs;

	dirs = vc_store_allocate(symbols->store, (options->debug_dir_count + 1) * sizeof(*dirs));
	if (!dirs)
		return false;
	for (size_t i = 0; i < options->debug_dir_count; i++) {
		dirs[i] = vc_store_text(symbols->store, options->debug_dirs[i]);
		if (!dirs[i])
			return false;
	}
	symbols->options.debug_dirs = dirs;
	symbols->options.debug_dir_count = options->debug_dir_count;
	symbols->options.sysroot =
		vc_store_text(symbols->store, options->sysroot ? options->sysroot : "");
	symbols->options.cache_dir =
		vc_store_text(symbols->store, options->cache_dir ? options->cache_dir : "");
	symbols->options.cache_bytes = options->cache_bytes;
	symbols->options.debuginfod = options->debuginfod;
	return symbols->options.sysroot && symbols->options.cache_dir;
}

int vc_symbols_create(const struct vc_symbols_options *options, struct vc_symbols **ret)
{
	static const struct vc_symbols_options none;
	struct vc_symbols *symbols = calloc(1, sizeof(*symbols));

	if (!symbols)
		return VC_E_NO_MEMORY;
	symbols->store = vc_store_create();
	if (!symbols->store || !copy_options(symbols, options ? options : &none)) {
		vc_symbols_destroy(symbols);
		return VC_E_NO_MEMORY;
	}
	elf_version(EV_CURRENT);
	*ret = symbols;
	return 0;
}

void vc_symbols_destroy(struct vc_symbols *symbols)
{
	if (!symbols)
		return;
	vc_store_destroy(symbols->store);
	free(symbols->modules);
	free(symbols->wanted);
	free(symbols);
}

/* Index of the first module whose number is not below `number`. */
static size_t module_index(const struct vc_symbols *symbols, uint32_t number)
{
	size_t low = 0, high = symbols->module_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (symbols->modules[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct module *find_module(const struct vc_symbols *symbols, uint32_t number)
{
	size_t index = module_index(symbols, number);

	if (index == symbols->module_count || symbols->modules[index].number != number)
		return NULL;
	return &symbols->modules[index];
}

/* Makes room for one more element. */
static bool reserve(void *array, size_t count, size_t *capacity, size_t size)
{
	void **place = array;
	size_t larger = *capacity ? *capacity * 2 : 64;
	void *grown;

	if (count < *capacity)
		return true;
	grown = reallocarray(*place, larger, size);
	if (!grown)
		return false;
	*place = grown;
	*capacity = larger;
	return true;
}

static int add_module(struct vc_symbols *symbols, uint32_t number, const struct vc_module_key *key)
{
	size_t index = module_index(symbols, number);
	struct module module = {.number = number};

	module.key.path = vc_store_text(symbols->store, key && key->path ? key->path : "");
	module.key.build_id =
		vc_store_text(symbols->store, key && key->build_id ? key->build_id : "");
	if (!module.key.path || !module.key.build_id ||
	    !reserve(&symbols->modules, symbols->module_count, &symbols->module_capacity,
		     sizeof(module)))
		return VC_E_NO_MEMORY;
	memmove(&symbols->modules[index + 1], &symbols->modules[index],
		(symbols->module_count - index) * sizeof(module));
	symbols->modules[index] = module;
	symbols->module_count++;
	return 0;
}

int vc_symbols_want(struct vc_symbols *symbols, uint32_t module, const struct vc_module_key *key,
		    uint64_t offset)
{
	if (!find_module(symbols, module)) {
		int error = add_module(symbols, module, key);

		if (error)
			return error;
	}
	if (!reserve(&symbols->wanted, symbols->wanted_count, &symbols->wanted_capacity,
		     sizeof(*symbols->wanted)))
		return VC_E_NO_MEMORY;
	symbols->wanted[symbols->wanted_count++] =
		(struct vc_wanted){.module = module, .offset = offset};
	return 0;
}

/* By module and offset; of two for one address the answered one first. */
static int compare_wanted(const void *left, const void *right)
{
	const struct vc_wanted *a = left, *b = right;

	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return b->answered - a->answered;
}

static void sort_wanted(struct vc_symbols *symbols)
{
	struct vc_wanted *wanted = symbols->wanted;
	size_t kept = 0;

	if (symbols->wanted_count == 0)
		return;
	qsort(wanted, symbols->wanted_count, sizeof(*wanted), compare_wanted);
	for (size_t i = 0; i < symbols->wanted_count; i++) {
		if (kept > 0 && wanted[kept - 1].module == wanted[i].module &&
		    wanted[kept - 1].offset == wanted[i].offset)
			continue;
		wanted[kept++] = wanted[i];
	}
	symbols->wanted_count = kept;
}

static const char *library_name(const struct module *module)
{
	const char *slash = strrchr(module->key.path, '/');

	if (slash && slash[1])
		return slash + 1;
	return module->key.path[0] ? module->key.path : "unknown";
}

/* An answer that names a function, or a place for want of one, and no line. */
static int answer_plain(struct vc_symbols *symbols, struct vc_wanted *wanted, const char *function,
			const char *linkage, enum vc_symbol_source source)
{
	struct vc_source_frame *frame = vc_store_allocate(symbols->store, sizeof(*frame));

	if (!frame)
		return VC_E_NO_MEMORY;
	*frame = (struct vc_source_frame){
		.function = vc_store_text(symbols->store, function),
		.linkage_name = linkage ? vc_store_text(symbols->store, linkage) : NULL,
	};
	if (!frame->function || (linkage && !frame->linkage_name))
		return VC_E_NO_MEMORY;
	wanted->frames = frame;
	wanted->count = 1;
	wanted->source = (uint8_t)source;
	wanted->answered = true;
	return 0;
}

static int answer_by_table(struct vc_symbols *symbols, struct vc_wanted *wanted,
			   const struct vc_table_entry *entry)
{
	char *demangled = vc_demangle(entry->name);
	int error = answer_plain(symbols, wanted, demangled ? demangled : entry->name, entry->name,
				 VC_SYMBOL_TABLE);

	free(demangled);
	return error;
}

static int answer_by_place(struct vc_symbols *symbols, struct vc_wanted *wanted,
			   const struct module *module, const struct vc_module_files *files)
{
	enum vc_symbol_source source = VC_SYMBOL_OFFSET;
	const char *library = library_name(module);
	uint64_t start;
	char *name;
	int error;

	if (wanted->offset > 0 && vc_unwind_start(&files->module, wanted->offset - 1, &start)) {
		source = VC_SYMBOL_UNWIND;
		name = vc_path_format("%s!fn@0x%" PRIx64 "+0x%" PRIx64, library, start,
				      wanted->offset - start);
	} else {
		name = vc_path_format("%s+0x%" PRIx64, library, wanted->offset);
	}
	error = name ? answer_plain(symbols, wanted, name, NULL, source) : VC_E_NO_MEMORY;
	free(name);
	return error;
}

/*
 * Some compilers give a C++ function that is not exported no linkage name in its debug information,
 * so it would be shown without its namespace and arguments; the symbol has them.
 */
static int complete_name(struct vc_symbols *symbols, struct vc_wanted *wanted,
			 const struct vc_table_entry *entry)
{
	struct vc_source_frame *frame = &wanted->frames[wanted->count - 1];
	size_t length = strcspn(entry->name, "."); /* not ".cold", ".part.0" */
	char *plain, *demangled;
	bool same;
	int error = 0;

	if (frame->linkage_name || (frame->function && strncmp(entry->name, "_Z", 2)))
		return 0;
	plain = strndup(entry->name, length);
	demangled = plain ? vc_demangle(plain) : NULL;
	/* The two write template arguments differently. */
	same = demangled && frame->function &&
	       memmem(demangled, strlen(demangled), frame->function,
		      strcspn(frame->function, "<("));
	if (!frame->function || same) {
		frame->function =
			vc_store_text(symbols->store, demangled ? demangled : entry->name);
		frame->linkage_name = vc_store_text(symbols->store, plain ? plain : entry->name);
		if (!plain || !frame->function || !frame->linkage_name)
			error = VC_E_NO_MEMORY;
	}
	free(demangled);
	free(plain);
	return error;
}

/* What debug information left open, for the addresses of one module. */
static int answer_rest(struct vc_symbols *symbols, struct module *module,
		       struct vc_module_files *files, struct vc_wanted *wanted, size_t count)
{
	struct vc_table table = {0};
	int error = vc_table_add(&table, &files->module);

	if (!error)
		error = vc_table_add(&table, &files->debug);
	vc_table_finish(&table);
	for (size_t i = 0; i < count && !error; i++) {
		const struct vc_table_entry *entry = NULL;

		if (wanted[i].offset > 0)
			entry = vc_table_find(&table, wanted[i].offset - 1);
		if (wanted[i].answered && entry)
			error = complete_name(symbols, &wanted[i], entry);
		else if (!wanted[i].answered && entry)
			error = answer_by_table(symbols, &wanted[i], entry);
		else if (!wanted[i].answered)
			error = answer_by_place(symbols, &wanted[i], module, files);
		if (!error)
			module->report.by_source[wanted[i].source]++;
	}
	if (files->state == VC_MODULE_STRIPPED && table.count > 0)
		files->state = VC_MODULE_TABLE;
	vc_table_deinit(&table);
	return error;
}

static int keep_report(struct vc_symbols *symbols, struct module *module,
		       const struct vc_module_files *files)
{
	struct vc_module_report *report = &module->report;
	const struct vc_file *debug = files->debug_read;

	report->state = debug ? VC_MODULE_DEBUG : files->state;
	report->verified = files->verified;
	report->detail = vc_store_text(symbols->store, files->detail);
	report->path = files->module.elf ? vc_store_text(symbols->store, files->module.path) : NULL;
	report->debug_path = debug ? vc_store_text(symbols->store, debug->path) : NULL;
	if (!report->detail || (files->module.elf && !report->path) ||
	    (debug && !report->debug_path))
		return VC_E_NO_MEMORY;
	module->resolved = true;
	return 0;
}

/* Fills in what earlier runs found; returns whether anything is left to be found. */
static bool answer_cached(struct module *module, const struct vc_cached *cached,
			  struct vc_wanted *wanted, size_t count)
{
	bool open = false;

	for (size_t i = 0; i < count; i++) {
		const struct vc_wanted *found;

		if (wanted[i].answered)
			continue;
		found = vc_cache_find(cached, wanted[i].offset);
		if (!found) {
			open = true;
			continue;
		}
		wanted[i].frames = found->frames;
		wanted[i].count = found->count;
		wanted[i].source = found->source;
		wanted[i].answered = true;
		module->report.by_source[found->source]++;
	}
	return open;
}

/* Nothing had to be opened: what is kept was read from complete debug information. */
static int keep_cached_report(struct module *module)
{
	module->report.state = VC_MODULE_DEBUG;
	module->report.verified = true;
	module->report.detail = "";
	module->resolved = true;
	return 0;
}

/* Answers may be kept where nothing is in doubt and nothing was missing. */
static bool may_be_kept(const struct module *module)
{
	const struct vc_module_report *report = &module->report;

	return report->state == VC_MODULE_DEBUG && report->verified && !report->detail[0] &&
	       module->key.build_id[0];
}

/* The files of the module are opened for those that are not answered. */
static int resolve_open(struct vc_symbols *symbols, struct module *module,
			struct vc_dwarf_job *job)
{
	struct vc_wanted *wanted = job->wanted, *open = calloc(job->count, sizeof(*open));
	struct vc_module_files files;
	size_t open_count = 0, none, count = job->count;
	int error;

	if (!open)
		return VC_E_NO_MEMORY;
	for (size_t i = 0; i < count; i++)
		if (!wanted[i].answered)
			open[open_count++] = wanted[i];
	error = vc_module_files_find(&symbols->options, &module->key, &files);
	/* Nothing returns to 0, and the call before it would be at the far end. */
	none = open_count > 0 && open[0].offset == 0;
	job->files = &files;
	job->wanted = open + none;
	job->count = open_count - none;
	if (!error)
		error = vc_dwarf_answer(job);
	if (!error)
		error = answer_rest(symbols, module, &files, open, open_count);
	if (!error)
		error = keep_report(symbols, module, &files);
	vc_module_files_close(&files);
	for (size_t i = count; !error && i > 0 && open_count > 0; i--)
		if (!wanted[i - 1].answered)
			wanted[i - 1] = open[--open_count];
	free(open);
	return error;
}

/* Sorted addresses of one module, those answered in an earlier round among them. */
static int resolve_module(struct vc_symbols *symbols, struct module *module,
			  struct vc_dwarf_job *job)
{
	struct vc_wanted *wanted = job->wanted;
	size_t count = job->count;
	struct vc_cached cached;
	int error;

	vc_cache_load(&symbols->options, symbols->store, module->key.build_id, &cached);
	if (!answer_cached(module, &cached, wanted, count))
		return keep_cached_report(module);
	error = resolve_open(symbols, module, job);
	if (!error && may_be_kept(module))
		vc_cache_save(&symbols->options, module->key.build_id, &cached, wanted, count);
	return error;
}

int vc_symbols_resolve(struct vc_symbols *symbols,
		       void (*progress)(void *context, uint64_t done, uint64_t total),
		       void *context)
{
	sort_wanted(symbols);
	for (size_t i = 0, next; i < symbols->wanted_count; i = next) {
		struct vc_wanted *first = &symbols->wanted[i];
		bool open = false;
		struct vc_dwarf_job job;
		int error;

		for (next = i;
		     next < symbols->wanted_count && symbols->wanted[next].module == first->module;
		     next++)
			open |= !symbols->wanted[next].answered;
		if (!open)
			continue;
		job = (struct vc_dwarf_job){
			.options = &symbols->options,
			.store = symbols->store,
			.wanted = first,
			.count = next - i,
			.progress = progress,
			.context = context,
			.done_before = i,
			.total = symbols->wanted_count,
		};
		error = resolve_module(symbols, find_module(symbols, first->module), &job);
		if (error)
			return error;
		if (progress)
			progress(context, next, symbols->wanted_count);
	}
	symbols->resolved = symbols->wanted_count;
	return 0;
}

int vc_symbols_get(const struct vc_symbols *symbols, uint32_t module, uint64_t offset,
		   struct vc_symbol *ret)
{
	struct vc_wanted key = {.module = module, .offset = offset, .answered = true};
	const struct vc_wanted *found = NULL;

	if (symbols->resolved)
		found = bsearch(&key, symbols->wanted, symbols->resolved, sizeof(key),
				compare_wanted);
	if (!found)
		return VC_E_NOT_FOUND;
	*ret = (struct vc_symbol){
		.frames = found->frames, .count = found->count, .source = found->source};
	return 0;
}

int vc_symbols_module_report(const struct vc_symbols *symbols, uint32_t module,
			     struct vc_module_report *ret)
{
	const struct module *found = find_module(symbols, module);

	if (!found || !found->resolved)
		return VC_E_NOT_FOUND;
	*ret = found->report;
	return 0;
}
