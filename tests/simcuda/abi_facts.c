/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled twice: with SIM_REAL_CUDA_HEADER it lists the real header's numbers, else ours. */
#include <stddef.h>

#include "abi_facts.h"
#include "sim_cuda.h"

#ifdef SIM_REAL_CUDA_HEADER
#define FACTS sim_abi_facts_real
#else
#define FACTS sim_abi_facts_ours
#endif

const struct sim_abi_fact FACTS[] = {
#define SIM_SIZE(type) { "sizeof " #type, (long long)sizeof(type) },
#define SIM_OFFSET(type, member) { #type "." #member, (long long)offsetof(type, member) },
#define SIM_NUMBER(constant) { #constant, (long long)constant },
#include "abi_facts.def"
#define SIM_RESULT(name, number, text) { #name, (long long)name },
#include "results.def"
	{ NULL, 0 },
};
