/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose code is on the stack of allocations, and that is unloaded after them. */
int plugin_churn(int (*churn)(int), int rounds);

int plugin_churn(int (*churn)(int), int rounds)
{
	return churn(rounds) * 2;
}
