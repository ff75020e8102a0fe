/* SPDX-License-Identifier: Apache-2.0 */
/* What stacks of a backward pass say of the blocks that were made there. */
#include "tests/unit/analyze/cmocka.h"

#include <string.h>

#include "analyze/views/backward.h"
#include "tests/unit/analyze/builder.h"

/* Frames of PyTorch as they are named, innermost first; those of Python begin with '>'. */
static enum vc_backward of(const char *const *functions)
{
	struct vc_frame_name names[16];
	const struct vc_frame_name *frames[16];
	struct vc_chain chain = {.frames = frames};

	memset(names, 0, sizeof(names));
	for (; functions[chain.count]; chain.count++) {
		const char *function = functions[chain.count];

		names[chain.count].function = *function == '?' ? NULL : function + (*function == '>');
		names[chain.count].verbatim = *function == '>';
		frames[chain.count] = &names[chain.count];
	}
	return vc_backward_of(&chain);
}

#define OF(...) of((const char *const[]){__VA_ARGS__, NULL})
#define NODE "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"
#define MODULE ">Module._wrapped_call_impl"
#define PYTHON_NODE "torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)"

static void nodes_make_gradients(void **state)
{
	(void)state;
	assert_int_equal(OF("at::detail::empty_cuda(c10::TensorOptions const&)", "?", NODE,
			    "torch::autograd::Engine::thread_main"), VC_BACKWARD_GRADIENT);
	assert_int_equal(OF("torch::autograd::InputBuffer::accumulate(...)",
			    "torch::autograd::Engine::evaluate_function"), VC_BACKWARD_GRADIENT);
	assert_int_equal(OF("torch::autograd::AccumulateGrad::apply(...)"),
			 VC_BACKWARD_GRADIENT);
	/* a function of the program's own, which runs no module */
	assert_int_equal(OF("at::empty", ">Scale.backward", ">BackwardCFunction.apply",
			    PYTHON_NODE), VC_BACKWARD_GRADIENT);
	/* the module that runs is one outside of the node */
	assert_int_equal(OF("at::empty", NODE, MODULE),
			 VC_BACKWARD_GRADIENT);
}

static void what_runs_again_makes_none(void **state)
{
	(void)state;
	assert_int_equal(OF("at::native::relu", ">Part.forward", MODULE, ">recompute_fn",
			    "torch::autograd::PySavedVariableHooks::call_unpack_hook()",
			    "torch::autograd::SavedVariable::unpack", NODE), VC_BACKWARD_AGAIN);
	assert_int_equal(OF("at::native::_to_copy", ">unpack_from_cpu",
			    "torch::autograd::PySavedVariableHooks::call_unpack_hook()", NODE),
			 VC_BACKWARD_AGAIN);
	assert_int_equal(OF("at::native::relu", ">Part.forward", MODULE, ">CheckpointFunction.backward",
			    PYTHON_NODE), VC_BACKWARD_AGAIN);
	/* no module, and a checkpoint of a plain function */
	assert_int_equal(OF("at::native::relu", ">part", ">CheckpointFunction.backward",
			    PYTHON_NODE), VC_BACKWARD_AGAIN);
	/* another library's, which runs modules */
	assert_int_equal(OF("at::native::relu", ">Part.forward", MODULE, ">Recompute.backward",
			    PYTHON_NODE), VC_BACKWARD_AGAIN);
	/* the inner pass of what ran again */
	assert_int_equal(OF("at::empty", NODE, "torch::autograd::Engine::thread_main",
			    ">CheckpointFunction.backward", PYTHON_NODE), VC_BACKWARD_GRADIENT);
}

static void forward_is_none(void **state)
{
	(void)state;
	assert_int_equal(OF("at::native::relu",
			    "torch::autograd::VariableType::(anonymous namespace)::relu",
			    ">Part.forward", ">Module._call_impl"), VC_BACKWARD_NONE);
	assert_int_equal(OF("torch::autograd::generated::details::mm_mat1_backward"),
			 VC_BACKWARD_NONE);
	assert_int_equal(OF("?"), VC_BACKWARD_NONE);
	assert_int_equal(OF("my::torch::autograd::generated::X::apply"), VC_BACKWARD_NONE);
}

/* The newest failure with the moment's number, of a moment that shows one. */
static void failure_of_the_moment(void **state)
{
	struct vc_tables tables;
	uint64_t row;

	(void)state;
	vc_tables_init(&tables);
	build_process(&tables, 3, "oom", 10, 70);
	for (uint64_t number = 60; number <= 80; number += 10) {
		row = build_row(&tables, VC_TABLE_failures);
		build_set(&tables, VC_COL_failures_number, row, number);
	}
	assert_int_equal(vc_failure_of_moment(&tables), 2);
	build_text(&tables, VC_COL_process_moment, 0, "now");
	assert_int_equal(vc_failure_of_moment(&tables), 0);
	vc_tables_deinit(&tables);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_make_gradients),
		cmocka_unit_test(what_runs_again_makes_none),
		cmocka_unit_test(forward_is_none),
		cmocka_unit_test(failure_of_the_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
