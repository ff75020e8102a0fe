/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of a recording (.vrec): the live state of one process, in memory that outlives it.
 *
 * One file. At offset 0 stands the root (struct vc_root): what never changes, the words that
 * change, and the directory of chunks. Everything else lies in chunks, runs of items of one table,
 * which never move. Little endian, 64 bit. FORMAT.md is normative.
 *
 * Two rules make a recording readable at any instant, by anybody, without a lock:
 *  - Truth is in records. A record's state word says empty, filling, live or being freed, with the
 *    number of its birth; it is stored last, with release. Its check word covers its number and all
 *    fields that do not change while it lives, so that a copy made while it changed is recognised.
 *  - Whatever changes in place is a "word": a multiple of VC_WORD_FACTOR. No power of two is one,
 *    so a single flipped bit never passes for another value.
 * Births and deaths take numbers from one counter (root.clock). A moment is such a number S: what
 * lives at S was born at or before S and died after it. A birth takes its number after the driver
 * said yes, a death takes its number before the driver is asked, so that two records at one
 * address never overlap in numbers.
 *
 * The inline functions here use no libc beyond <string.h> builtins and are safe in a hook, in a
 * signal handler and in a reader.
 */
#ifndef VC_FORMATS_RECORDING_H
#define VC_FORMATS_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#define VC_RECORDING_MAGIC "VRAMCORE-RECORD\n" /* 16 bytes, no NUL */
#define VC_RECORDING_READ_VERSION 1            /* readers that know less must refuse */
#define VC_RECORDING_WRITE_VERSION 1           /* what this code writes */
#define VC_WORD_FACTOR 17u
#define VC_ROOT_BYTES 32768u
#define VC_DEVICES_MAX 64u

/* ---- words ---- */

/** A value as a word; values above 2^59 do not fit. */
static inline uint64_t vc_word(uint64_t value)
{
	return value * VC_WORD_FACTOR;
}
static inline uint64_t vc_word_value(uint64_t word)
{
	return word / VC_WORD_FACTOR;
}
static inline int vc_word_good(uint64_t word)
{
	return word % VC_WORD_FACTOR == 0;
}

/* ---- state words ---- */

enum vc_record_state {
	VC_RECORD_EMPTY = 0,
	VC_RECORD_FILLING = 1,
	VC_RECORD_LIVE = 2,
	VC_RECORD_FREEING = 3,
};
static inline uint64_t vc_state_word(uint64_t number, enum vc_record_state state)
{
	return vc_word(number << 2 | state);
}
static inline enum vc_record_state vc_state_of(uint64_t word)
{
	return (enum vc_record_state)(vc_word_value(word) & 3);
}
static inline uint64_t vc_state_number(uint64_t word)
{
	return vc_word_value(word) >> 2;
}

/* ---- check words ---- */

/**
 * Check of `count` 64-bit words and a number: a sum of products with odd factors, so that one
 * flipped bit always shows. Never 0.
 */
static inline uint64_t vc_check_words(const uint64_t *words, size_t count, uint64_t number)
{
	uint64_t factor = 0x9e3779b97f4a7c15u, sum = (number + 1) * 0xd6e8feb86659fd93u;

	for (size_t i = 0; i < count; i++) {
		sum += (words[i] + 1) * factor;
		factor = factor * 5 + 2; /* stays odd */
	}
	return sum ? sum : 1;
}

/* ---- tables of a recording ---- */

/*
 * What a chunk can hold. Items of `stacks` and `strings`
 * are runs of 8-byte units and never cross a chunk; an id of theirs is the unit number (32 bits,
 * counted through all chunks of the table; 0: none). Ids of the others are item numbers.
 */
enum vc_recording_table {
	VC_REC_RECORDS = 1,   /* struct vc_record */
	VC_REC_FREED = 2,     /* struct vc_freed */
	VC_REC_STACKS = 3,    /* struct vc_stack_head + frames */
	VC_REC_STRINGS = 4,   /* struct vc_string_head + bytes */
	VC_REC_MODULES = 5,   /* struct vc_module_row */
	VC_REC_SITES = 6,     /* struct vc_site */
	VC_REC_THREADS = 7,   /* struct vc_thread_row */
	VC_REC_MOMENTS = 8,   /* struct vc_moment_row */
	VC_REC_FAILURES = 9,  /* struct vc_failure_row */
	VC_REC_FAILURE_SITES = 10, /* struct vc_failure_site_row */
	VC_REC_ENVIRONMENT = 11,   /* struct vc_environment_row */
	VC_REC_CODES = 12,    /* struct vc_code_row */
	VC_REC_EVALS = 13,    /* struct vc_eval_row */
	VC_REC_PATHS = 14,    /* struct vc_path_row */
	VC_REC_TABLES
};

/** One entry of the directory. Published by its check word, stored last with release. */
struct vc_chunk {
	uint64_t table;       /* enum vc_recording_table */
	uint64_t first;       /* number of its first item (unit for stacks, strings) */
	uint64_t count;       /* items it has room for */
	uint64_t offset;      /* in the file, a multiple of 4096 */
	uint64_t bytes;       /* its length in the file */
	uint64_t address;     /* where the writer had mapped it */
	uint64_t reserved;
	uint64_t check;       /* vc_check_words of the seven before, number = its index; 0: not there */
};

/** A live allocation, object or block. 160 bytes; `state` and `check` first. */
struct vc_record {
	uint64_t state;       /* word: birth number and enum vc_record_state */
	uint64_t check;       /* over fields .. end, number = birth number (filling: the number there) */
	uint64_t death;       /* word: death number while being freed, else 0 */
	uint64_t references;  /* word: of handles and primary contexts */
	/* covered by check from here on */
	uint64_t address;     /* or handle of an object without an address */
	uint64_t size;
	uint64_t requested;
	uint64_t time;        /* nanoseconds since root.start_monotonic */
	uint64_t parent;      /* birth number of pool, handle, allocation; 0: none */
	uint64_t stream;
	uint64_t context;
	uint64_t step;
	uint64_t offset;      /* of a mapping into its handle */
	uint64_t pool;        /* pool handle or framework's pool id */
	uint32_t stack;       /* id in stacks */
	uint32_t python;      /* id in stacks, of frames of vc_python_frame(); 0: none */
	uint32_t module;      /* string */
	uint32_t phase;       /* string */
	uint32_t site;        /* number in sites */
	uint32_t thread;      /* kernel thread id */
	uint32_t label;       /* string */
	uint16_t call;        /* row of hooks.def plus 1 in the recorder that wrote it, 0: none */
	uint8_t kind;         /* enum vc_kind */
	uint8_t flags;        /* enum vc_record_flag */
	uint16_t device_plus_one; /* 0: none or unknown */
	uint16_t reserved16;
	uint32_t call_name;   /* string: symbol that made it */
	uint64_t module_object; /* address of the model's innermost running module, 0: none known */
};
#define VC_RECORD_CHECKED_WORDS ((sizeof(struct vc_record) - offsetof(struct vc_record, address)) / 8)

enum vc_record_flag {
	VC_FLAG_REPORTED = 1,     /* reported by the program (vramcore.h), not seen at the driver */
	VC_FLAG_PRIMARY = 2,      /* a primary context */
	VC_FLAG_GONE = 4,         /* what held it is gone (context destroyed) */
	VC_FLAG_CAPTURED = 8,     /* made while a stream was being captured */
	VC_FLAG_PENDING_FREE = 16,/* freed by the program, returned later */
	VC_FLAG_TORCH = 32,       /* a block that PyTorch's allocator reported */
};

/**
 * A freed record, 224 bytes. The slots of all chunks of the table form a ring: entry n goes to slot
 * n mod (slots there are then). The ring may gain slots, so a reader looks at every slot and takes
 * each entry's own number.
 */
struct vc_freed {
	uint64_t sequence;    /* word: 2 * (entry number + 1) when whole, odd while being written, 0 never used */
	uint64_t check;       /* over birth .. end, number = entry number */
	uint64_t birth;
	uint64_t death;
	uint64_t death_time;
	uint64_t death_step;
	uint32_t death_stack, death_python;
	uint32_t death_thread, death_call_name;
	struct vc_record record; /* as it was; its state, check, death words are not looked at */
};

/** A stack: head, then `count` frames, innermost first. Published by its check word. */
struct vc_stack_head {
	uint64_t check;       /* over the words after it (head and frames), number = unit number; 0: not there */
	uint64_t hash;        /* of the whole stack as captured */
	uint32_t count;
	uint32_t end;         /* enum vc_stack_end */
};
/** A frame: module row plus 1 in the top 16 bits (0: none), return address minus bias below. */
static inline uint64_t vc_frame(uint64_t module_plus_one, uint64_t offset)
{
	return module_plus_one << 48 | (offset & 0xffffffffffffu);
}

/*
 * A frame of Python: row of codes plus 1 in the top 32 bits (0: code that was not kept), the offset
 * of its instruction in bytes below. An entry is the outermost frame of one call of the interpreter.
 */
#define VC_PYTHON_ENTRY 0x80000000u
#define VC_PYTHON_OFFSET 0x7fffffffu
static inline uint64_t vc_python_frame(uint64_t code_plus_one, uint32_t offset, int entry)
{
	return code_plus_one << 32 | (entry ? VC_PYTHON_ENTRY : 0) | (offset & VC_PYTHON_OFFSET);
}

/*
 * The last word of a stack of Python may be no frame: a node of PyTorch's autograd graph ran, which
 * was made in the forward pass by the stack of Python with the id below. It may be the only word.
 */
#define VC_PYTHON_FORWARD 0xffffffffu
static inline uint64_t vc_python_forward(uint32_t stack)
{
	return (uint64_t)VC_PYTHON_FORWARD << 32 | stack;
}

/** A string: head, then bytes padded with NUL to a multiple of 8 (at least one NUL). */
struct vc_string_head {
	uint64_t check;       /* over length and the padded bytes, number = unit number; 0: not there */
	uint64_t length;
};

struct vc_module_row {
	uint64_t check;       /* over the words after it, number = row; 0: not there */
	uint64_t bias, low, high;
	uint32_t path;        /* string */
	uint32_t build_id_bytes;
	uint8_t build_id[32];
};

/** A code object of Python, kept when it was first seen on a stack. */
struct vc_code_row {
	uint64_t check;       /* over the words after it, number = row; 0: not there */
	uint32_t name, qualified_name; /* strings; the second 0 before 3.11 */
	uint32_t file;        /* string */
	uint32_t first_line;
	uint32_t line_table;  /* id in stacks, whose frames are its bytes; 0: none */
	uint32_t line_table_bytes; /* as kept: what did not fit is cut */
	uint16_t version;     /* 0x030b is 3.11: it says how the line table is written */
	uint16_t reserved16;
	uint32_t reserved32;
};

/** Code that runs Python: a native frame in it stands for the frames of Python up to an entry. */
struct vc_eval_row {
	uint64_t check;       /* over the words after it, number = row; 0: not there */
	uint64_t low, high;   /* first address and one past the last, minus the module's bias */
	uint32_t module;      /* row of modules plus 1 */
	uint32_t reserved32;
};

/** A module of a model: where it stands in it from a moment on. */
struct vc_path_row {
	uint64_t check;       /* over the words after it, number = row; 0: not there */
	uint64_t object;      /* address of the module object */
	uint64_t number;      /* S when it was seen there */
	uint32_t path, class; /* strings */
};

/** Totals of one site. All but the checked head are words that change. */
struct vc_site {
	uint64_t check;       /* over key, number = row; 0: not there */
	uint32_t stack, python;
	uint16_t device_plus_one;
	uint8_t kind, reserved8;
	uint32_t reserved32;
	uint64_t allocated_count, allocated_bytes;
	uint64_t freed_count, freed_bytes;
	uint64_t peak_epoch;  /* device's epoch that peak_bytes belongs to */
	uint64_t peak_bytes;  /* live when that epoch began; where it is older than the device's epoch, */
	                      /* nothing changed since: the site's live bytes now are its peak bytes */
};

struct vc_thread_row {
	uint64_t check;       /* over the words after it, number = row */
	uint32_t thread;
	uint32_t name;        /* string */
};

/** Trigger of a moment that somebody outside asked for and waits for: nobody else makes a file of it. */
#define VC_TRIGGER_ASKED "asked"

/** A trigger that fired: a moment. Published by its check word. */
struct vc_moment_row {
	uint64_t check;       /* over the words after it, number = row */
	uint64_t number;      /* S */
	uint64_t freed_next;  /* entry number the freed ring would take next, read just before S */
	uint64_t time;        /* nanoseconds since root.start_monotonic */
	uint64_t step;
	uint32_t trigger;     /* string */
	uint32_t moment;      /* string */
	uint32_t phase;       /* string */
	uint32_t thread;
	uint32_t failure_plus_one; /* row of failures it shows: then number, freed_next, time are its */
	uint32_t walk_plus_one;    /* N of the walk file that goes with it (walk.h); 0: none */
	uint64_t device_free[8];   /* cuMemGetInfo of the first 8 devices, plus 1; 0: not asked */
	/* what PyTorch said of the first 8 devices (see struct vc_device), plus 1; 0: not known */
	uint64_t torch_allocated[8], torch_reserved[8];
	/* what the driver says it keeps on one device, the current one; plus 1; 0: not known */
	uint64_t graph_used, graph_reserved; /* for graphs */
	uint64_t pool_used, pool_reserved;   /* in the default memory pool */
	uint32_t asked_plus_one;  /* that device */
	uint32_t peak_device_plus_one; /* it was at its highest of the step; 0: no such moment */
	uint64_t step_peak[8];    /* highest bytes of the first 8 devices in that step, plus 1; 0: unknown */
};

struct vc_failure_row {
	uint64_t check;       /* over fields from number on, number = row */
	uint64_t outcome;     /* word: enum vc_failure_outcome */
	uint64_t number;
	uint64_t freed_next;
	uint64_t time, step;
	uint64_t requested, live, free_plus_one, total;
	uint64_t first_site, sites; /* rows of failure_sites */
	uint32_t call_name, result;
	uint32_t phase, thread;
	uint32_t stack, python;
	uint16_t device_plus_one, reserved16;
	uint32_t reserved32;
};

struct vc_failure_site_row {
	uint64_t check;       /* over the words after it, number = row */
	uint64_t site, bytes, count;
};

struct vc_environment_row {
	uint64_t check;       /* over the words after it, number = row */
	uint32_t name, value; /* strings; secrets are *** already */
};

/** A device. The checked part is written once, when the device is first used. */
struct vc_device {
	uint64_t check;       /* over uuid .. total, number = ordinal; 0: not used */
	uint8_t uuid[16];
	uint32_t name, pci;   /* strings */
	uint32_t driver_version, reserved;
	uint64_t total;
	uint64_t live, peak, peak_epoch; /* words */
	uint64_t peak_time, peak_step;   /* words */
	/* words: PyTorch's own totals after the birth or death with this number (0: none of its */
	/* blocks yet, or one is being written) */
	uint64_t torch_number, torch_allocated, torch_reserved;
};

enum vc_counter {
#define VC_COUNTER(name, key, effect, text) VC_COUNTER_##name,
#include "formats/counters.def"
#undef VC_COUNTER
	VC_COUNTERS
};
#define VC_COUNTERS_MAX 64

/** Who counts steps, and how far the helper has come: helper.def. */
enum vc_step_source {
#define VC_STEP_SOURCE(name, number, key) VC_STEP_##name = (number),
#include "formats/helper.def"
};
enum vc_helper_state {
#define VC_HELPER_STATE(name, number, text) VC_HELPER_##name = (number),
#include "formats/helper.def"
};

/** What is written once, before the magic. */
struct vc_root_fixed {
	uint32_t read_version, write_version;
	uint32_t root_bytes, record_bytes;
	uint64_t self_address;    /* where the writer has mapped the root */
	uint64_t pid, parent_pid, user;
	uint64_t start_ticks;     /* of the process, field 22 of /proc/PID/stat */
	uint64_t start_realtime;  /* nanoseconds */
	uint64_t start_monotonic; /* nanoseconds */
	uint64_t pid_namespace;   /* inode of /proc/self/ns/pid */
	uint64_t rank_plus_one, world_size;
	uint8_t boot_id[16];
	uint64_t reserved[8];
};

/** The start of a recording. */
struct vc_root {
	uint8_t magic[16];        /* stored last when the recording is ready */
	uint64_t fixed_check;     /* over fixed, number 0 */
	struct vc_root_fixed fixed;
	/* strings that are known a little later; words: string ids */
	uint64_t host, program, command, job, recorder_version;
	/* words that change */
	uint64_t clock;           /* last number given out */
	uint64_t freed_next;      /* entry number the freed ring takes next */
	uint64_t freed_slots;     /* slots of the ring at present */
	uint64_t used[16];        /* by enum vc_recording_table: items (units) in use or reserved */
	uint64_t chunks;          /* entries of the directory in use or reserved */
	uint64_t file_bytes;      /* length of the file */
	uint64_t step;            /* last step reported, plus 1; 0: none */
	uint64_t phase;           /* string: last phase reported by any thread */
	uint64_t last_event_time; /* nanoseconds since start_monotonic, of the last step or trigger */
	uint64_t ended;           /* 0, or 1 + exit status once exit handlers ran */
	uint64_t copied_moment;   /* 0, or 1 + row of moments this file is a copy for: its S is the file's */
	uint64_t counter[VC_COUNTERS_MAX];
	uint64_t last_step_time;  /* nanoseconds since start_monotonic, of the last step; 0: none */
	uint64_t longest_step;    /* longest time between two steps, in nanoseconds; 0: fewer than two */
	uint64_t step_source;     /* enum vc_step_source: who counts the steps */
	uint64_t helper;          /* enum vc_helper_state */
	uint64_t asked;           /* moments asked for from outside so far: the one word that */
	                          /* whoever asks writes, not the recorder */
	uint64_t reserved[26];
	struct vc_device device[VC_DEVICES_MAX];
	struct vc_chunk chunk[];  /* VC_ROOT_CHUNKS entries fill the rest of the root */
};

/**
 * What a core file is searched for: exported by the recorder as `vramcore_anchor`, in a page of
 * its own. `root` is where the recording is mapped (its contents may not be in the core: then
 * `path` names the file).
 */
#define VC_ANCHOR_MAGIC "VRAMCORE-ANCHOR\n"
struct vc_anchor {
	uint8_t magic[16];
	uint32_t read_version, write_version;
	uint64_t self_address;
	uint64_t pid;
	uint8_t boot_id[16];
	uint64_t root;            /* address; 0: no recording yet */
	uint64_t root_bytes;
	uint64_t check;           /* over read_version .. root_bytes, number 0 */
	char path[1024];          /* of the recording; "" for a memfd */
};

#define VC_ROOT_CHUNKS ((VC_ROOT_BYTES - sizeof(struct vc_root)) / sizeof(struct vc_chunk))

#ifndef __cplusplus
_Static_assert(sizeof(struct vc_record) == 160, "size of a record is part of the format");
_Static_assert(sizeof(struct vc_freed) == 224, "size of a freed entry is part of the format");
_Static_assert(sizeof(struct vc_chunk) == 64, "size of a directory entry is part of the format");
_Static_assert(VC_COUNTERS <= VC_COUNTERS_MAX, "no room for more counters");
#endif

#endif
