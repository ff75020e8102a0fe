/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recorded process tells its supervisor: one datagram to the socket VC_SUPERVISOR_SOCKET in
 * the folder of the recordings. It is a hint only: whoever gets none finds everything in the
 * recordings themselves. A recording without a file name (memfd) travels with the first message.
 */
#ifndef VC_FORMATS_SUPERVISOR_H
#define VC_FORMATS_SUPERVISOR_H

#include <stdint.h>

#define VC_SUPERVISOR_SOCKET "supervisor"
/** File in the same folder that gets one byte for every program started under the supervisor. */
#define VC_SUPERVISOR_PROCESSES "processes"
#define VC_SUPERVISOR_MAGIC UINT64_C(0x31525645505553) /* "SUPERV1" */

enum vc_supervisor_event {
	VC_SUPERVISOR_STARTED = 1, /* a recording began */
	VC_SUPERVISOR_MOMENT = 2,  /* moments up to and including row `moment` are kept */
	VC_SUPERVISOR_ENDED = 3,   /* exit handlers ran */
};

struct vc_supervisor_message {
	uint64_t magic;
	uint64_t pid;
	uint32_t event;            /* enum vc_supervisor_event */
	uint32_t moments;          /* rows of moments there are */
	char file[128];            /* name of the recording in the folder; "" for a memfd */
};

#endif
