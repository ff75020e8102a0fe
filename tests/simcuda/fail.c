/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failure injection: SIMCUDA_FAIL="cuMemAlloc_v2:5=2,cuMemCreate:1-3=2,cuMemFree_v2:4-=700".
 *
 * Symbol, colon, which of its calls in this process (one number, a range, or N- for all from N on),
 * equals sign, the result. The call returns the result and does nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

#define MAX_RULES 2048

struct rule {
	int symbol;
	uint64_t first, last;
	CUresult result;
};

bool sim_fail_active;
static struct rule rules[MAX_RULES];
static unsigned int rule_count;
static _Atomic uint64_t calls[SIM_ID_COUNT];
static bool watched[SIM_ID_COUNT];

CUresult sim_fail(enum sim_symbol_id id)
{
	uint64_t call;

	if (!watched[id])
		return CUDA_SUCCESS;
	call = atomic_fetch_add_explicit(&calls[id], 1, memory_order_relaxed) + 1;
	for (unsigned int i = 0; i < rule_count; i++)
		if (rules[i].symbol == (int)id && call >= rules[i].first && call <= rules[i].last)
			return rules[i].result;
	return CUDA_SUCCESS;
}

/* Reads one rule; the text behind it, or NULL if it makes no sense. */
static const char *read_rule(const char *text, struct rule *ret)
{
	size_t length = strcspn(text, ":,");
	char *end;

	if (text[length] != ':')
		return NULL;
	ret->symbol = sim_symbol_find(text, length);
	ret->first = strtoull(text + length + 1, &end, 10);
	ret->last = ret->first;
	if (*end == '-') {
		const char *last = end + 1;

		ret->last = strtoull(last, &end, 10);
		if (end == last)
			ret->last = UINT64_MAX;
	}
	if (*end != '=' || ret->symbol < 0 || !ret->first)
		return NULL;
	ret->result = (CUresult)strtoul(end + 1, &end, 10);
	return *end == ',' || !*end ? end : NULL;
}

/* A mistake in the variable must not let a test pass that injects nothing: stop the program. */
static void refuse(const char *text)
{
	static const char message[] = "simcuda: SIMCUDA_FAIL is not understood: ";

	if (write(2, message, sizeof(message) - 1) < 0 || write(2, text, strlen(text)) < 0 ||
	    write(2, "\n", 1) < 0)
		_exit(70);
	_exit(70);
}

__attribute__((constructor)) void sim_fail_start(void)
{
	const char *text = getenv("SIMCUDA_FAIL");

	while (text && *text) {
		struct rule *rule = &rules[rule_count];
		const char *rest = rule_count < MAX_RULES ? read_rule(text, rule) : NULL;

		if (!rest)
			refuse(text);
		watched[rule->symbol] = true;
		rule_count++;
		text = *rest ? rest + 1 : rest;
	}
	sim_fail_active = rule_count > 0;
}
