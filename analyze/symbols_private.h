/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the symbol reader share; nobody else includes it.
 *
 * symbols.c keeps the session and its answers, symbols_find.c opens and verifies files,
 * symbols_table.c reads symbol tables and the index of unwind entries, symbols_debug.c opens debug
 * information, symbols_dwarf.c reads it, symbols_entries.c its entries and symbols_lines.c its line
 * tables, symbols_store.c keeps texts, symbols_cache.c keeps answers for the next run,
 * symbols_ask.c asks for debug files by build-id. One module is open at a time; only answers and
 * their strings outlive it.
 */
#ifndef VC_ANALYZE_SYMBOLS_PRIVATE_H
#define VC_ANALYZE_SYMBOLS_PRIVATE_H

#include <elfutils/libdw.h>
#include <gelf.h>

#include "analyze/symbols.h"
#include "analyze/symbols_bytes.h"

enum {
	VC_BUILD_ID_HEX = 2 * 64 + 1, /* longest build-id taken, in hexadecimal, with its end */
	VC_INLINE_LIMIT = 256,	      /* frames at one address */
	VC_DIE_DEPTH_LIMIT = 256,     /* nesting of scopes */
	VC_ORIGIN_LIMIT = 16,	      /* references followed from a function to its name */
};

/* Memory that lives as long as the session. */

struct vc_store;

struct vc_store *vc_store_create(void);
void vc_store_destroy(struct vc_store *store);
/** Aligned for any object; NULL out of memory. */
void *vc_store_allocate(struct vc_store *store, size_t bytes);
/** The one copy of a text; NULL out of memory. */
const char *vc_store_text(struct vc_store *store, const char *text);
/** Where what was made from a kept text can be remembered for a while; NULL in it: nothing is. */
const char **vc_store_memo(struct vc_store *store, const char *key);

/* Files. */

struct vc_file {
	int fd;
	Elf *elf; /* NULL: not open */
	char *path;
	char build_id[VC_BUILD_ID_HEX];
};

/** The files of one module, and what was noticed while they were looked for. */
struct vc_module_files {
	struct vc_file module;
	struct vc_file debug;	    /* a separate debug file */
	enum vc_module_state state; /* DIFFERS, UNREADABLE, MISSING, or STRIPPED: module is open */
	bool verified;
	const struct vc_file *debug_read; /* whose debug information could be opened; NULL none */
	char detail[512];
};

enum vc_file_kind {
	VC_FILE_PROGRAM,      /* a program or library, or the debug file of one */
	VC_FILE_SHARED_DEBUG, /* what dwz makes: an object file without code */
};

/**
 * Opens a regular file as an ELF file, never waiting on a device or pipe.
 * Returns 0, VC_E_NOT_FOUND, VC_E_NOT_OURS (no ELF file of that kind), VC_E_NO_MEMORY.
 */
int vc_file_open(const char *path, enum vc_file_kind kind, struct vc_file *ret);
void vc_file_close(struct vc_file *file);

/** True if there is something else than a regular file at that path. */
bool vc_path_is_special(const char *path);

/** True if the file holds .debug_info with content. */
bool vc_file_has_debug(const struct vc_file *file);

/** Formats "DIRECTORY/a/b" from its pieces; to be freed; NULL out of memory. */
char *vc_path_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Adds a clause to the detail of a module. */
void vc_detail_add(struct vc_module_files *files, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * Asks debuginfod-find for the debug file of a build-id, for two seconds at most. The path it
 * found, to be freed; NULL none, and the detail of the files says why.
 */
char *vc_ask_for_debug(struct vc_module_files *files, const char *build_id);

/** Finds the files of a module. Returns 0, VC_E_NO_MEMORY. Close them in any case. */
int vc_module_files_find(const struct vc_symbols_options *options, const struct vc_module_key *key,
			 struct vc_module_files *files);
void vc_module_files_close(struct vc_module_files *files);

/* Symbol tables and unwind entries. */

struct vc_table_entry {
	uint64_t start, end;
	uint64_t highest_end; /* of this entry and all before it */
	const char *name;     /* in the ELF file */
	unsigned rank;	      /* global before weak before local */
};

struct vc_table {
	struct vc_table_entry *entries;
	size_t count, capacity;
};

/** Adds the sized functions of a file, which must stay open. Returns 0, VC_E_NO_MEMORY. */
int vc_table_add(struct vc_table *table, const struct vc_file *file);
/** Sorts; to be called after the last vc_table_add and before the first look-up. */
void vc_table_finish(struct vc_table *table);
void vc_table_deinit(struct vc_table *table);
/** The innermost symbol that covers the address; NULL none. */
const struct vc_table_entry *vc_table_find(const struct vc_table *table, uint64_t address);

/** Start of the unwind entry that covers the address, by .eh_frame_hdr. False: none. */
bool vc_unwind_start(const struct vc_file *file, uint64_t address, uint64_t *ret);

/* Debug information. */

/** Debug information of one file, open, with what dwz moved out of it. */
struct vc_debug {
	Dwarf *dwarf; /* NULL: not open */
	Dwarf *alternate;
	struct vc_file alternate_file;
	Elf *elf; /* a copy in memory with its sections expanded; NULL: the file itself is read */
	void *image;
	size_t image_size;
};

/**
 * Opens the debug information of a file that vc_file_has_debug, and notes it as read. False: it
 * cannot be used, which the detail of the files tells.
 */
bool vc_debug_open(const struct vc_symbols_options *options, struct vc_module_files *files,
		   const struct vc_file *file, struct vc_debug *ret);
void vc_debug_close(struct vc_debug *debug);

/** Sections of one file, as libdw has them: expanded. Empty where there is none. */
struct vc_sections {
	struct vc_bytes entries, abbreviations, lines, line_texts, texts;
};

/** Those of the file itself, or those that end in ".dwo". */
void vc_sections_find(Dwarf *dwarf, bool split, struct vc_sections *ret);

/* Line tables. */

struct vc_line_file {
	const char *name;   /* in the file; NULL none */
	uint64_t directory; /* index */
	const char *path;   /* the caller's: made from both */
};

/** Files and rows of one unit; all zero at first, and made for the next unit again. */
struct vc_lines {
	const char **directories; /* the first, before version 5: NULL, that of the compilation */
	size_t directory_count, directory_capacity;
	struct vc_line_file *files;
	size_t file_count, file_capacity;
	struct vc_bytes program;
	const uint8_t *operands; /* how many each standard operation has */
	unsigned version, minimum_step, slots, line_range, first_special;
	int line_base;
};

/** The row that holds an address. */
struct vc_place {
	uint64_t row; /* its own address */
	uint64_t file;
	uint32_t line;
	bool known;
};

/**
 * Reads the lists of the table at a position of the section and finds its rows. Returns 0,
 * VC_E_NO_MEMORY, VC_E_CORRUPT: what was read up to there stays.
 */
int vc_lines_read(struct vc_lines *lines, const struct vc_sections *sections, uint64_t position);
/** Places of rising addresses; those that no row holds are left as they are. */
void vc_lines_place(const struct vc_lines *lines, const uint64_t *addresses, size_t count,
		    struct vc_place *places, int64_t *work);
void vc_lines_deinit(struct vc_lines *lines);

/* Entries of a unit. */

struct vc_entry {
	uint64_t offset;  /* in the section */
	uint64_t sibling; /* as it says; 0 nothing */
	uint64_t origin;  /* what it is an instance of, in this section; 0 unknown */
	uint64_t low, high;
	uint64_t call_file, call_line; /* 0 unknown */
	uint16_t tag;		       /* 0: the end of a list */
	bool children, named;
	bool has_code, has_high, has_ranges, high_is_size;
	bool simple; /* its code is all that lies from low to high */
};

/** Entries of one unit, read forwards; all zero at first, and opened for the next unit again. */
struct vc_entries {
	struct vc_bytes bytes, section;
	uint64_t unit; /* offset of the unit */
	unsigned version;
	uint8_t address_size, offset_size;
	struct vc_abbreviation *abbreviations; /* by rising code */
	size_t abbreviation_count, abbreviation_capacity;
	struct vc_step *steps;
	size_t step_count, step_capacity;
	const uint8_t *abbreviations_at; /* where those were read */
};

/** Begins at the first entry of a unit, `unit` itself. Returns 0, VC_E_NO_MEMORY, VC_E_CORRUPT. */
int vc_entries_open(struct vc_entries *entries, const struct vc_sections *sections,
		    Dwarf_Die *unit, int64_t *work);
/** The next entry, children after their parent. False: at the end, or damaged there. */
bool vc_entries_next(struct vc_entries *entries, struct vc_entry *ret);
/** Steps past the children of the entry that was read last, and past the end of their list. */
void vc_entries_skip(struct vc_entries *entries, const struct vc_entry *entry, int64_t *work);
void vc_entries_deinit(struct vc_entries *entries);

/** One address to answer. */
struct vc_wanted {
	uint64_t offset; /* as asked: the return address */
	uint32_t module; /* the caller's number */
	uint32_t count;
	struct vc_source_frame *frames;
	bool answered;
	uint8_t source; /* enum vc_symbol_source */
};

/* Answers kept from earlier runs. */

struct vc_cached {
	const struct vc_wanted *answers; /* by rising offset */
	size_t count;
};

/** What is kept for a build-id, in memory of the store; empty where nothing is, or no cache. */
void vc_cache_load(const struct vc_symbols_options *options, struct vc_store *store,
		   const char *build_id, struct vc_cached *ret);
/** The answer for an offset; NULL none. */
const struct vc_wanted *vc_cache_find(const struct vc_cached *cached, uint64_t offset);
/** Keeps these answers, by rising offset, beside the old ones, and the folder in its bounds. */
void vc_cache_save(const struct vc_symbols_options *options, const char *build_id,
		   const struct vc_cached *old, const struct vc_wanted *answers, size_t count);

struct vc_dwarf_job {
	const struct vc_symbols_options *options;
	struct vc_store *store;
	struct vc_module_files *files;
	struct vc_wanted *wanted; /* of one module, by rising offset, none of them 0 */
	size_t count;
	void (*progress)(void *context, uint64_t done, uint64_t total);
	void *context;
	uint64_t done_before, total;
};

/**
 * Answers what debug information can answer; the rest stays unanswered. Damage is no error: it is
 * added to the detail of the files. Returns 0, VC_E_NO_MEMORY.
 */
int vc_dwarf_answer(struct vc_dwarf_job *job);

/** The first of `count` rising addresses that is not below `low`; `count`: none is. */
static inline size_t vc_first_address(const uint64_t *addresses, size_t count, uint64_t low)
{
	size_t from = 0, to = count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (addresses[middle] < low)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

#endif
