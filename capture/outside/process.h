/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says of a process. Nothing here needs more rights than reading another user's
 * /proc/PID/stat.
 */
#ifndef VC_CAPTURE_OUTSIDE_PROCESS_H
#define VC_CAPTURE_OUTSIDE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vc_process {
	uint64_t pid, parent_pid;
	uint64_t start_ticks;
	char state;               /* as in /proc/PID/stat: R S D T t Z X */
};

/** False where there is no such process. */
bool vc_process_read(uint64_t pid, struct vc_process *ret);
/** Boot id of this system, 16 bytes; false where it cannot be read. */
bool vc_process_boot_id(uint8_t ret[16]);
/** Inode of this process's PID namespace; 0 unknown. */
uint64_t vc_process_namespace(void);
/**
 * The number that a process has here, of one with number `pid` in a namespace of process numbers
 * (0: unknown), which may be another one: a container's. 0 where it is not to be seen.
 */
uint64_t vc_process_here(uint64_t pid, uint64_t start_ticks, uint64_t pid_namespace);
/**
 * What a process is that made a recording: "running", "stopped", "dead", or "unknown" where the
 * recording comes from another system or PID namespace.
 */
const char *vc_process_state_text(uint64_t pid, uint64_t start_ticks, const uint8_t boot_id[16],
				  uint64_t pid_namespace);
/** Whether a process has a root of its own that may not be looked into from here. */
bool vc_process_hides(uint64_t pid);
/** The command line with blanks between the arguments; "" where it cannot be read. */
void vc_process_command(uint64_t pid, char *buffer, size_t size);

#endif
