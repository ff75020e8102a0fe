/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recording says about its process: name of the file, rank, program, host, environment.
 *
 * Called once for a recording, by the thread that begins it. System calls, no allocation; a fact
 * that cannot be had is left out.
 */
#ifndef VC_CAPTURE_INSIDE_FACTS_H
#define VC_CAPTURE_INSIDE_FACTS_H

#include <stddef.h>
#include <stdint.h>

/** vramcore-BOOT-PID-START-RANDOM.vrec */
void vc_facts_name(char *buffer, size_t size);
/** Rank plus 1 and number of ranks; 0 where they are not known. */
void vc_facts_rank(uint32_t *ret_rank_plus_one, uint32_t *ret_world_size);
/** Writes program, command, host, job and the variables of the allow list into the recording. */
void vc_facts_write(void);

#endif
