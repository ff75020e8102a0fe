/* SPDX-License-Identifier: Apache-2.0 */
/* Children of all sorts, made while other threads churn. */
#ifndef PROOF_FORKS_H
#define PROOF_FORKS_H

/** Makes children until *stop is set, and adds them to *count. Gives how many went wrong. */
unsigned int forks_make(const unsigned int *stop, unsigned int *count);

#endif
