/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose main thread leaves (pthread_exit) before the others.
 *
 * Such a process ends when its last thread does, and the agent would be one for ever. It cannot
 * simply leave as the last one either: the program's exit handlers run on the last thread, and the
 * agent has none of the program's descriptors. So once the main thread leaves, a second thread is
 * made that shares them. It waits until nobody else is left, ends the agent, and then leaves, so
 * that the C library ends the process as it would have. Programs whose main thread stays until the
 * end never get it, unless another thread began the recording.
 */
#ifndef VC_CAPTURE_INSIDE_KEEPER_H
#define VC_CAPTURE_INSIDE_KEEPER_H

/** The agent has been started, by the calling thread. */
void vc_keeper_start(void);

#endif
