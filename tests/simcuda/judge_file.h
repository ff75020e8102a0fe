/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of the judge's file (SIMCUDA_MAP): what the simulated driver has given out right now.
 *
 * A header page, then rows of 64 bytes. A row is empty or allocated; its fields are written first
 * and its state last, and when it is emptied the state goes first, so a process that is killed
 * leaves at most the calls that were under way in doubt. The file is for the machine that wrote
 * it.
 */
#ifndef SIM_JUDGE_FILE_H
#define SIM_JUDGE_FILE_H

#include <stdint.h>

#define SIM_JUDGE_MAGIC 0x314547445543ull /* "CUDGE1" */
#define SIM_JUDGE_HEADER 4096u

enum sim_row_kind {
	SIM_ROW_NONE,
#define SIM_ROW(name, number, text) SIM_ROW_##name = number,
#include "rows.def"
#undef SIM_ROW
};

enum sim_row_state { SIM_ROW_EMPTY, SIM_ROW_ALLOCATED };

struct sim_judge_header {
	uint64_t magic;
	uint32_t header_size;
	uint32_t row_size;
	uint64_t capacity; /* rows */
	int32_t pid;
	uint32_t reserved;
	uint64_t lost; /* rows that found no room */
};

struct sim_judge_row {
	uint32_t state; /* enum sim_row_state, atomic */
	uint32_t kind;
	uint64_t address; /* or handle */
	uint64_t size;
	uint64_t context; /* handle, 0 if it belongs to none */
	uint64_t serial;  /* order of birth */
	int32_t device;   /* -1: none */
	uint32_t thread;  /* kernel's thread id of the caller */
	uint64_t reserved[2];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct sim_judge_row) == 64, "rows are 64 bytes");
#endif

#endif
