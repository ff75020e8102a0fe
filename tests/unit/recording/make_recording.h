/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes recordings for tests, byte by byte from the layout; shares nothing with the recorder.
 *
 * A recording is built in memory with one chunk of a chosen size a table. Every function publishes
 * a whole item; what a test wants broken it breaks afterwards, through the pointers.
 */
#ifndef VC_TESTS_MAKE_RECORDING_H
#define VC_TESTS_MAKE_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#include "formats/recording.h"

struct made_recording {
	uint8_t *bytes;
	uint64_t length;
	struct vc_root *root;
	uint64_t base[VC_REC_TABLES];  /* offset of the chunk of each table */
	uint64_t items[VC_REC_TABLES]; /* room in it */
};

/** Room for items of each table, by enum vc_recording_table; 0: no chunk. */
struct made_sizes {
	uint32_t items[VC_REC_TABLES];
};

/** An empty recording of process 4242 that began at CLOCK_REALTIME 1,000,000,000,000 ns. */
void made_start(struct made_recording *made, const struct made_sizes *sizes);
void made_end(struct made_recording *made);
/** Directory entry `index`, published. */
void made_chunk(struct made_recording *made, uint32_t index, const struct vc_chunk *chunk);

uint32_t made_string(struct made_recording *made, const char *text);
uint32_t made_stack(struct made_recording *made, const uint64_t *frames, uint32_t count,
		    uint32_t end);
uint32_t made_module(struct made_recording *made, const char *path, uint64_t bias,
		     const uint8_t *build_id, uint32_t build_id_bytes);
/** A code object: the line table's bytes are kept as a stack. */
uint32_t made_code(struct made_recording *made, const char *name, uint16_t version,
		   uint32_t first_line, const void *line_table, uint32_t bytes);
uint32_t made_eval(struct made_recording *made, uint32_t module_plus_one, uint64_t low,
		   uint64_t high);
/** Totals: allocated count and bytes, freed count and bytes. */
uint32_t made_site(struct made_recording *made, uint32_t stack, uint16_t device_plus_one,
		   uint8_t kind, const uint64_t totals[4], uint64_t peak_epoch,
		   uint64_t peak_bytes);
void made_thread(struct made_recording *made, uint32_t thread, const char *name);
void made_environment(struct made_recording *made, const char *name, const char *value);
/** Publishes a row (its check is filled in); gives its number. */
uint32_t made_moment(struct made_recording *made, struct vc_moment_row row);
uint32_t made_failure(struct made_recording *made, struct vc_failure_row row, uint64_t outcome);
uint32_t made_failure_site(struct made_recording *made, uint64_t site, uint64_t bytes,
			   uint64_t count);
void made_device(struct made_recording *made, uint32_t ordinal, const char *name, uint64_t total,
		 uint64_t live, uint64_t peak, uint64_t peak_epoch);

/** Slot `slot` with the fields of `record` in this state. */
void made_record(struct made_recording *made, uint32_t slot, uint64_t number,
		 enum vc_record_state state, uint64_t death, struct vc_record record);
struct vc_record *made_record_at(struct made_recording *made, uint32_t slot);
/** Entry `entry` of the ring, in slot entry mod (room of the ring). */
void made_freed(struct made_recording *made, uint64_t entry, uint64_t birth, uint64_t death,
		struct vc_record record);
struct vc_freed *made_freed_at(struct made_recording *made, uint32_t slot);

/** A plain linear allocation on device 0; all of its fields follow from `birth`. */
struct vc_record made_linear(uint64_t birth);

/** A recording that holds every table; moments at 10 and 20, clock 30. */
void made_golden(struct made_recording *made);

#endif
