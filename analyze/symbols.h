/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of native code: (module, offset) to function, file, line and the chain of inlined calls.
 *
 * A session is filled with every address wanted, resolved once, then asked. Answering all at once
 * is what makes it fast: addresses are grouped by module and compilation unit, and each unit that
 * holds one is read a single time. Files are found by build-id and never taken on trust: a file
 * whose build-id differs from the recorded one is not used, and the module's report says so. The
 * network is not asked unless `debuginfod` says so. A name is never that of the nearest symbol:
 * what no debug information and no sized symbol covers is named by its unwind entry, else by
 * library and offset.
 *
 * Every file read here may be damaged or hostile; reading is bounded in depth, memory and work.
 * Not thread safe; no function here may run inside a recorded process.
 */
#ifndef VC_ANALYZE_SYMBOLS_H
#define VC_ANALYZE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vc_symbols;

struct vc_symbols_options {
	const char *const *debug_dirs; /* searched in order, before /usr/lib/debug */
	size_t debug_dir_count;
	const char *sysroot; /* put before module paths and /usr/lib/debug; NULL or "": none */
	const char *cache_dir; /* absolute; keeps answers for the next run; NULL or "": none */
	uint64_t cache_bytes;  /* largest size of that folder; 0: 256 MiB */
	bool debuginfod;       /* ask debuginfod-find for what is found nowhere else */
};

struct vc_module_key {
	const char *path;     /* as the process saw it; NULL or "": unknown */
	const char *build_id; /* lower-case hexadecimal; NULL or "": unknown */
};

/** How a symbol was found, best first. */
enum vc_symbol_source {
	VC_SYMBOL_DEBUG,  /* debug information: function, and file and line where known */
	VC_SYMBOL_TABLE,  /* a sized symbol that covers the address: function only */
	VC_SYMBOL_UNWIND, /* start of its unwind entry: "libname!fn@0xSTART+0xDISTANCE" */
	VC_SYMBOL_OFFSET, /* "libname+0xOFFSET" */
	VC_SYMBOL_SOURCES
};

/** One function in the chain; strings live as long as the session. */
struct vc_source_frame {
	const char *function;	  /* demangled; NULL unknown */
	const char *linkage_name; /* as the linker knows it; NULL where it has none of its own */
	const char *file;	  /* NULL unknown; see below */
	uint32_t line;		  /* 0 unknown */
	bool inlined;		  /* into the frame that follows */
};
/*
 * `function` has namespaces, arguments and template arguments where the compiler wrote a linkage
 * name; of an inlined function that is not exported gcc writes the bare name only.
 *
 * `file` is the name in the line table joined with its directory and the unit's directory of
 * compilation, cleaned of "//", "." and "name/.." by the text alone (links are not followed). It is
 * absolute unless the program was compiled with a relative prefix map. The line of the innermost
 * frame comes from the line table; that of each outer frame is where the call was inlined. Code
 * that no function in the debug information covers (assembly) can have a line and no function.
 */

struct vc_symbol {
	const struct vc_source_frame *frames; /* innermost inlined first */
	size_t count;			      /* never 0 */
	enum vc_symbol_source source;
};

/** VC_MODULE_STATE(name, text): what became of a module, best first. */
#define VC_MODULE_STATES(VC_MODULE_STATE)                                \
	VC_MODULE_STATE(DEBUG, "debug information")                      \
	VC_MODULE_STATE(TABLE, "no debug information, symbols only")     \
	VC_MODULE_STATE(STRIPPED, "no debug information and no symbols") \
	VC_MODULE_STATE(DIFFERS, "build-id differs")                     \
	VC_MODULE_STATE(UNREADABLE, "not a readable ELF file")           \
	VC_MODULE_STATE(MISSING, "file missing")                         \
	VC_MODULE_STATE(NOT_READ, "this build of vramcore reads no symbols")

enum vc_module_state {
#define VC_MODULE_STATE(name, text) VC_MODULE_##name,
	VC_MODULE_STATES(VC_MODULE_STATE)
#undef VC_MODULE_STATE
		VC_MODULE_STATE_COUNT
};

struct vc_module_report {
	enum vc_module_state state;
	bool verified;		/* every file used has the recorded build-id */
	const char *path;	/* the module's file as opened; NULL where it is not used */
	const char *debug_path; /* where debug information came from; NULL none */
	const char *detail;	/* what kept it from being complete, one clause; "" nothing */
	uint64_t by_source[VC_SYMBOL_SOURCES]; /* addresses answered, by how */
};

/** False in a build without a reader of symbols: a session then answers nothing. */
bool vc_symbols_readable(void);

/** Text of a state; static storage; never NULL. */
const char *vc_module_state_text(enum vc_module_state state);

/**
 * Starts a session. Options (NULL: none) are copied.
 * Returns 0, VC_E_NO_MEMORY.
 */
int vc_symbols_create(const struct vc_symbols_options *options, struct vc_symbols **ret);

/** Ends the session and every string it gave out. NULL is fine. */
void vc_symbols_destroy(struct vc_symbols *symbols);

/**
 * Asks for an address. `module` is the caller's own number for the module and `key` says what it
 * is; the key of the first call for a number is kept. `offset` is the return address less the load
 * bias, that is an ELF virtual address; what is looked up is the call, at offset - 1.
 * Asking twice is free. Returns 0, VC_E_NO_MEMORY.
 */
int vc_symbols_want(struct vc_symbols *symbols, uint32_t module, const struct vc_module_key *key,
		    uint64_t offset);

/**
 * Answers everything asked since the last call. `progress` (may be NULL) is called now and then
 * with addresses done and in all. Files that cannot be used are not errors: see the reports.
 * Returns 0, VC_E_NO_MEMORY.
 */
int vc_symbols_resolve(struct vc_symbols *symbols,
		       void (*progress)(void *context, uint64_t done, uint64_t total),
		       void *context);

/** Answer for an address asked and resolved; VC_E_NOT_FOUND otherwise. */
int vc_symbols_get(const struct vc_symbols *symbols, uint32_t module, uint64_t offset,
		   struct vc_symbol *ret);

/** What was found for a module; VC_E_NOT_FOUND if it was never asked for or not yet resolved. */
int vc_symbols_module_report(const struct vc_symbols *symbols, uint32_t module,
			     struct vc_module_report *ret);

#ifdef __cplusplus
}
#endif

#endif
