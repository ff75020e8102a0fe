/* SPDX-License-Identifier: Apache-2.0 */
/* Our header against the real one; the argument types are compared by the compiler, see CMake. */
#include "sim_test.h"

#include "abi_facts.h"

static void numbers_agree(void **state)
{
	size_t count = 0;

	(void)state;
	for (; sim_abi_facts_ours[count].name; count++) {
		assert_string_equal(sim_abi_facts_ours[count].name, sim_abi_facts_real[count].name);
		if (sim_abi_facts_ours[count].value != sim_abi_facts_real[count].value)
			fail_msg("%s is %lld here, %lld there", sim_abi_facts_ours[count].name,
				 sim_abi_facts_ours[count].value, sim_abi_facts_real[count].value);
	}
	assert_true(count > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_agree) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
