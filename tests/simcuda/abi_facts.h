/* SPDX-License-Identifier: Apache-2.0 */
/* A list of named numbers, made once from our header and once from the real one. */
#ifndef SIM_ABI_FACTS_H
#define SIM_ABI_FACTS_H

struct sim_abi_fact {
	const char *name;
	long long value;
};

extern const struct sim_abi_fact sim_abi_facts_ours[], sim_abi_facts_real[];

#endif
