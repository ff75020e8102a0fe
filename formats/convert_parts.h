/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the converter share: convert.c (moment, process, evidence), convert_records.c
 * (records and freed ring), convert_python.c (stacks of Python), convert_tables.c (everything else
 * they refer to). Private to them.
 */
#ifndef VC_FORMATS_CONVERT_PARTS_H
#define VC_FORMATS_CONVERT_PARTS_H

#include <stdbool.h>

#include "formats/convert.h"
#include "formats/walk_read.h"

/** Raw ids of one table to what they became, each asked for once. */
struct vc_id_map {
	uint64_t *entry; /* raw id << 32 | value, 0 empty */
	uint64_t size, used;
	uint32_t last_id, last_value;
};

/** Words of 64 bits to rows. */
struct vc_python_map {
	uint64_t *key; /* 0: empty */
	uint32_t *value;
	uint64_t size, used;
};

struct vc_numbers {
	uint64_t *number;
	uint64_t count, capacity;
};

struct vc_conversion {
	const struct vc_convert_options *options;
	struct vc_recording recording;
	struct vc_tables tables;
	struct vc_faults *faults;

	uint64_t number;           /* S */
	uint64_t highest;          /* birth or death seen */
	uint64_t freed_next;       /* at S, where known */
	bool freed_next_known;
	bool has_row;
	struct vc_moment_row row;  /* the moment, where it has one */
	uint64_t latest;           /* time of the last thing seen, since the start */

	struct vc_numbers freeing; /* births of records that were being freed, sorted */
	struct vc_numbers gone;    /* those of them that the ring says died at or before S */
	struct vc_numbers entry;   /* entry numbers of the rows of `freed` */
	uint64_t *sequence;        /* by slot of the ring */
	uint64_t slots;
	uint64_t newest_before;    /* highest entry number that died at or before S, plus 1 */
	uint64_t deaths_missing;

	struct vc_id_map strings, stacks, pythons;
	struct vc_python_map frames; /* of Python */
	uint64_t line_work;          /* bytes of line tables looked through */
	uint64_t *module_row, *site_row; /* by raw row: row plus 1, 0 none */
	uint64_t modules, sites;

	struct vc_walk walk;
	bool has_walk;
	struct vc_numbers missed;  /* births of what died after S and before the walk, sorted */

	struct vc_numbers detail_key, detail; /* rows of `strings`: "(key)" of a counter, and words */
};

#define VC_CELL(conversion, name, at) ((conversion)->tables.column[VC_COL_##name][at])

int vc_numbers_add(struct vc_numbers *numbers, uint64_t number);
void vc_numbers_sort(struct vc_numbers *numbers);
bool vc_numbers_have(const struct vc_numbers *numbers, uint64_t number);

/** CLOCK_REALTIME of a time since the start. */
static inline uint64_t vc_convert_time(const struct vc_conversion *conversion, uint64_t since_start)
{
	return conversion->recording.root->fixed.start_realtime + since_start;
}

/* convert_records.c */
int vc_convert_records(struct vc_conversion *conversion);
int vc_convert_freed(struct vc_conversion *conversion);
/** Sorts and translates `allocations` and `freed`, once all that they refer to is there. */
int vc_convert_finish_records(struct vc_conversion *conversion);

/* convert_python.c */
/** Row of `source_stacks` plus 1 for a raw id; 0 and a fault where it is not there. */
int vc_convert_python(struct vc_conversion *conversion, uint64_t id, uint64_t *ret);
/** Fills `python_code`, once the modules are there. */
int vc_convert_evals(struct vc_conversion *conversion);

/* convert_tables.c */
bool vc_id_map_find(struct vc_id_map *map, uint32_t id, uint64_t *ret);
int vc_id_map_add(struct vc_id_map *map, uint32_t id, uint64_t value);
/** What one row of the recording's modules became: its row plus 1, 0 and a fault where it is not there. */
uint64_t vc_convert_module(struct vc_conversion *conversion, uint64_t module_plus_one);
/** Row of `strings` for a raw id; 0 and a fault where it is not there. */
int vc_convert_string(struct vc_conversion *conversion, uint64_t id, uint64_t *ret);
/** Row of `stacks` plus 1 for a raw id; 0 and a fault where it is not there. */
int vc_convert_stack(struct vc_conversion *conversion, uint64_t id, uint64_t *ret);
int vc_convert_tables(struct vc_conversion *conversion);

/* convert_paths.c */
/** Modules of models, and those of `allocations`, once that is as it stays. */
int vc_convert_paths(struct vc_conversion *conversion);

/* convert_walk.c */
/** Opens the walk file, once S is known; one that is not good is a fault. */
int vc_convert_walk_open(struct vc_conversion *conversion);
/** Whether what died with this number lived at S, but not any more when the walk began. */
bool vc_convert_walk_missed(const struct vc_conversion *conversion, uint64_t death);
/** Takes the walk over, once `allocations` is as it stays. */
int vc_convert_walk(struct vc_conversion *conversion);

#endif
