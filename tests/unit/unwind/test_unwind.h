/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the unwinder by the file they stand in; each is a cmocka test function. */
#ifndef VC_TESTS_UNIT_UNWIND_TEST_UNWIND_H
#define VC_TESTS_UNIT_UNWIND_TEST_UNWIND_H

/* test_unwind_stacks.c: the places a stack can be */
void test_alternate_stack(void **context);
void test_signal_in_leaf(void **context);
void test_fibers(void **context);
void test_small_thread(void **context);
void test_limit(void **context);
void test_jit_frame(void **context);
void test_state_passed_on(void **context);
void test_stack_that_grew(void **context);
void test_stack_used(void **context);

/* test_unwind_modules.c: objects that come, go, lack or damage their unwind data */
void test_module_table(void **context);
void test_no_unwind_data(void **context);
void test_swapped_objects(void **context);
void test_damaged_unwind_data(void **context);
void test_objects_come_and_go(void **context);

#endif
