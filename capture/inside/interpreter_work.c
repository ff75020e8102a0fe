/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/interpreter_work.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "capture/inside/events.h"
#include "capture/inside/interpreter.h"
#include "capture/inside/interpreter_allocator.h"
#include "capture/inside/interpreter_api.h"
#include "capture/inside/interpreter_cells.h"
#include "capture/inside/objects.h"
#include "capture/inside/phase.h"
#include "capture/inside/python.h"
#include "capture/inside/space.h"
#include "capture/inside/start.h"
#include "capture/inside/store.h"
#include "capture/inside/tensors.h"
#include "capture/inside/thread.h"
#include "capture/inside/triggers.h"
#include "capture/inside/walk_file.h"

#define OPTIMIZERS 4096u /* that are told apart; a power of 2 */
#define PROBES 64u
/*
 * What a walk over tensors may take, in nanoseconds of its thread's processor time: in general, for
 * the modules alone, and where an allocation failed. By the clock it may take CLOCK_TIMES as long, on a
 * machine that is busy with others: the rest of the program stands still as well then.
 */
#define WALK_TIME UINT64_C(2000000000)
#define PATHS_TIME UINT64_C(500000000)
#define FAILURE_TIME UINT64_C(4000000000)
#define CLOCK_TIMES 5
#define CALLED_WITH_ARRAY 0x80   /* METH_FASTCALL */
#define CALLED_WITH_KEYWORDS 0x2 /* METH_KEYWORDS */

/* As PyMethodDef. */
struct method {
	const char *name;
	void *function;
	int flags;
	const char *documentation;
};

struct counted {
	const struct vc_python_object *optimizer;
	uint64_t steps;
};

/*
 * What the interpreter was given, which forked children inherit: never forgotten. Written with the
 * GIL held.
 */
static struct vc_python_object *step_function, *observer_function, *end_function;
static struct vc_python_object *backward_function, *engine_function;
static bool observer_attached;

static struct {
	struct counted *counted;   /* OPTIMIZERS of them */
	uint64_t steps;            /* of the optimizer with most */
	uint32_t trainer;          /* kernel thread id; 0 unknown */
	bool trainer_known;        /* by a step */
	const char *waits;         /* trigger of a moment that waits for a backward pass; NULL */
	uint64_t waits_step;
	uint64_t taken_plus_one;   /* the last step whose moment was taken so */
} work;

void vc_work_forget(void)
{
	memset(&work, 0, sizeof(work));
}

/* ---- silence ---- */

struct silence {
	struct vc_python_object *type, *value, *traceback;
	int collected;
	bool interpreter;
};

static void silence_begin(struct silence *silence)
{
	vc_py.PyErr_Fetch(&silence->type, &silence->value, &silence->traceback);
	silence->collected = vc_py.PyGC_Disable ? vc_py.PyGC_Disable() : 0;
	silence->interpreter = vc_thread_local.interpreter;
	vc_thread_local.interpreter = true;
}

static void silence_end(const struct silence *silence)
{
	vc_thread_local.interpreter = silence->interpreter;
	if (silence->collected)
		vc_py.PyGC_Enable();
	vc_py.PyErr_Clear();
	vc_py.PyErr_Restore(silence->type, silence->value, silence->traceback);
}

/* ---- threads ---- */

void vc_work_first_thread(void)
{
	work.trainer = vc_thread_local.id;
}

bool vc_work_trains_elsewhere(void)
{
	return work.trainer_known && work.trainer != vc_thread_local.id;
}

bool vc_work_holds(void)
{
	void *own;

	if (!vc_interpreter_alive())
		return false;
	own = vc_py.PyGILState_GetThisThreadState();
	return own && own == vc_py.PyThreadState_GetUnchecked();
}

/* ---- steps ---- */

/* The count of an optimizer, NULL: there are too many. */
static uint64_t *count_of(const struct vc_python_object *optimizer)
{
	uint64_t at = ((uintptr_t)optimizer >> 4) * 0x9e3779b97f4a7c15u >> 40;

	for (uint32_t probe = 0; work.counted && probe < PROBES; probe++) {
		struct counted *counted = &work.counted[(at + probe) & (OPTIMIZERS - 1)];

		if (!counted->optimizer)
			counted->optimizer = optimizer;
		if (counted->optimizer == optimizer)
			return &counted->steps;
	}
	return NULL;
}

/*
 * The first step: paths of the modules, for whoever looks at this process when nothing can run in
 * it any more, or has its last blocks only. What else is seen is thrown away.
 */
static void note_paths(void)
{
	struct vc_walk_file *walk = vc_walk_begin(0);
	struct vc_tensors_wish wish = {.processor = PATHS_TIME, .clock = PATHS_TIME * CLOCK_TIMES};

	if (!walk)
		return;
	vc_tensors_walk(&wish, walk);
	vc_walk_abandon(walk);
}

static void count_step(const struct vc_python_object *optimizer)
{
	uint64_t *count = count_of(optimizer);
	struct silence silence;

	work.trainer = vc_thread_local.id;
	work.trainer_known = true;
	if (!count || ++*count <= work.steps)
		return;
	silence_begin(&silence);
	if (!work.steps)
		note_paths();
	work.steps = *count;
	vc_phase_step(VC_STEP_OPTIMIZER, work.steps);
	silence_end(&silence);
}

/* After the step of an optimizer: (optimizer, args, kwargs). A new reference is given. */
static struct vc_python_object *after_step(struct vc_python_object *self,
					   struct vc_python_object *const *arguments, long count)
{
	int saved = errno;

	(void)self;
	vc_enter();
	if (count > 0 && vc_store_ready()) {
		vc_start_thread();
		count_step(arguments[0]);
		vc_interpreter_step();
	}
	vc_leave();
	errno = saved;
	vc_py.Py_IncRef(vc_py._Py_NoneStruct);
	return vc_py._Py_NoneStruct;
}

/* ---- backward passes ---- */

void vc_work_before_backward(const char *trigger, uint64_t step)
{
	if (!backward_function || !vc_interpreter_alive())
		return;
	work.waits_step = step;
	__atomic_store_n(&work.waits, trigger, __ATOMIC_RELEASE);
}

bool vc_work_backward_taken(uint64_t step)
{
	__atomic_store_n(&work.waits, NULL, __ATOMIC_RELEASE);
	return work.taken_plus_one == step + 1;
}

static void take_waiting(void)
{
	const char *trigger = __atomic_exchange_n(&work.waits, NULL, __ATOMIC_ACQ_REL);
	struct silence silence;

	if (!trigger)
		return;
	work.taken_plus_one = work.waits_step + 1;
	silence_begin(&silence);
	vc_trigger_before_backward(trigger, work.waits_step);
	silence_end(&silence);
}

/*
 * In place of torch.autograd.graph._engine_run_backward, which it calls: a built-in function, which
 * torch.compile looks into no more than into the engine itself (one of Python would break graphs).
 */
static struct vc_python_object *before_backward(struct vc_python_object *self,
						struct vc_python_object *const *arguments,
						long count, struct vc_python_object *names)
{
	struct vc_python_object *(*call)(struct vc_python_object *callable,
					 struct vc_python_object *const *values, size_t number,
					 struct vc_python_object *keywords);
	size_t place = (size_t)vc_object_field(vc_py_type(engine_function), VC_TYPE_VECTORCALL);
	int saved = errno;

	(void)self;
	if (__builtin_expect(__atomic_load_n(&work.waits, __ATOMIC_RELAXED) != NULL, 0)) {
		vc_enter();
		if (vc_store_ready() && work.trainer == vc_thread_local.id)
			take_waiting();
		vc_leave();
		errno = saved;
	}
	*(void **)&call = vc_object_field(engine_function, place);
	return call(engine_function, arguments, (size_t)count, names);
}

/* PyTorch ran out of memory: (device, requested, total, free), before any frame is unwound. */
static struct vc_python_object *out_of_memory(struct vc_python_object *self,
					      struct vc_python_object *const *arguments,
					      long count)
{
	struct silence silence;
	int saved = errno;

	(void)self;
	(void)arguments;
	(void)count;
	vc_enter();
	if (vc_store_ready()) {
		vc_start_thread();
		silence_begin(&silence);
		vc_event_failure_observed();
		silence_end(&silence);
	}
	vc_leave();
	errno = saved;
	vc_py.Py_IncRef(vc_py._Py_NoneStruct);
	return vc_py._Py_NoneStruct;
}

bool vc_work_observes(void)
{
	return observer_attached && vc_interpreter_ready();
}

/* ---- start ---- */

/* A function object that is kept for good, so that no other one gets its address. */
static struct vc_python_object *made_once(struct vc_python_object **function, struct method *method)
{
	if (!*function)
		*function = vc_py.PyCFunction_NewEx(method, NULL, NULL);
	return *function;
}

static bool registered(struct vc_python_object *hooks)
{
	struct vc_python_object *key, *value;
	long position = 0;

	while (vc_py.PyDict_Next(hooks, &position, &key, &value))
		if (value == step_function)
			return true;
	return false;
}

static void watch_steps(void)
{
	static struct method method = {"vramcore", (void *)after_step, CALLED_WITH_ARRAY, NULL};
	struct vc_python_object *module = vc_py_module("torch.optim.optimizer");
	struct vc_python_object *hooks = vc_py_global(module, "_global_optimizer_post_hooks");
	struct vc_python_object *set = vc_py_global(module, "register_optimizer_step_post_hook");
	struct vc_python_object *handle;

	work.counted = vc_space_private(OPTIMIZERS * sizeof(*work.counted));
	if (!hooks || !set || !vc_py_is(hooks, VC_PYTHON_DICT) ||
	    !made_once(&step_function, &method) || registered(hooks))
		return;
	handle = vc_py.PyObject_CallFunctionObjArgs(set, step_function, NULL);
	if (handle)
		vc_py.Py_DecRef(handle);
	vc_py.PyErr_Clear();
}

/* The back ends without an observer raise. */
static void watch_failures(void)
{
	static struct method method = {"vramcore", (void *)out_of_memory, CALLED_WITH_ARRAY, NULL};
	struct vc_python_object *attach =
		vc_py_global(vc_py_module("torch._C"), "_cuda_attach_out_of_memory_observer");
	struct vc_python_object *nothing;

	if (observer_attached || !attach || !made_once(&observer_function, &method))
		return;
	nothing = vc_py.PyObject_CallFunctionObjArgs(attach, observer_function, NULL);
	observer_attached = nothing != NULL;
	if (nothing)
		vc_py.Py_DecRef(nothing);
	vc_py.PyErr_Clear();
}

/*
 * An exit handler: the interpreter frees what belongs to threads that go on while it ends, and these
 * must not read it. Handlers of the program that were registered later run before this one.
 */
static struct vc_python_object *ending(struct vc_python_object *self,
				       struct vc_python_object *const *arguments, long count)
{
	int saved = errno;

	(void)self;
	(void)arguments;
	(void)count;
	vc_interpreter_close();
	vc_python_stop();
	errno = saved;
	vc_py.Py_IncRef(vc_py._Py_NoneStruct);
	return vc_py._Py_NoneStruct;
}

static void watch_end(void)
{
	static struct method method = {"vramcore", (void *)ending, CALLED_WITH_ARRAY, NULL};
	struct vc_python_object *set = vc_py_global(vc_py_module("atexit"), "register"), *same;

	vc_python_resume();
	vc_interpreter_open();
	/* a forked child has inherited it */
	if (!set || end_function || !made_once(&end_function, &method))
		return;
	same = vc_py.PyObject_CallFunctionObjArgs(set, end_function, NULL);
	if (same)
		vc_py.Py_DecRef(same);
	vc_py.PyErr_Clear();
}

/* The code whose frames have a module of a model as their first local; the program may replace it. */
static void watch_modules(void)
{
	struct vc_python_object *class = vc_py_global(vc_py_module("torch.nn.modules.module"), "Module");
	struct vc_python_object *name, *function = NULL;
	uint64_t code = 0;

	name = class ? vc_py.PyUnicode_InternFromString("_wrapped_call_impl") : NULL;
	if (name) {
		function = vc_py._PyType_Lookup(class, name);
		vc_py.Py_DecRef(name);
	}
	if (function && vc_py_type(function) == vc_py.PyFunction_Type)
		code = (uint64_t)(uintptr_t)vc_py.PyFunction_GetCode(function);
	vc_python_module_code(code);
	vc_py.PyErr_Clear();
}

/* Both modules that have it under this name; the program's own references to it stay as they are. */
static void watch_backward(void)
{
	static struct method method = {"_engine_run_backward", (void *)before_backward,
				       CALLED_WITH_ARRAY | CALLED_WITH_KEYWORDS, NULL};
	static const char *const modules[] = {"torch.autograd.graph", "torch.autograd"};
	struct vc_python_object *engine =
		vc_py_global(vc_py_module(modules[0]), "_engine_run_backward");

	if (!engine || engine == backward_function || vc_py_type(engine) != vc_py.PyFunction_Type ||
	    !vc_objects_good())
		return;
	if (!engine_function) {
		vc_py.Py_IncRef(engine);
		engine_function = engine;
	}
	if (engine != engine_function || !made_once(&backward_function, &method))
		return;
	for (size_t i = 0; i < 2; i++) {
		struct vc_python_object *module = vc_py_module(modules[i]);

		if (vc_py_global(module, "_engine_run_backward") == engine_function)
			vc_py.PyDict_SetItemString(vc_py.PyModule_GetDict(module),
						   "_engine_run_backward", backward_function);
	}
	vc_py.PyErr_Clear();
}

static bool being_imported(struct vc_python_object *torch)
{
	struct vc_python_object *spec = vc_py_global(torch, "__spec__"), *initializing;
	bool result;

	if (!spec || spec == vc_py._Py_NoneStruct)
		return false;
	initializing = vc_py.PyObject_GetAttrString(spec, "_initializing");
	result = initializing == vc_py._Py_TrueStruct;
	if (initializing)
		vc_py.Py_DecRef(initializing);
	vc_py.PyErr_Clear();
	return result;
}

bool vc_work_start(enum vc_helper_state *ret)
{
	struct vc_python_object *torch;
	struct silence silence;
	bool later;

	silence_begin(&silence);
	torch = vc_py_module("torch");
	later = torch && being_imported(torch);
	if (torch && !later) {
		vc_enter();
		watch_steps();
		watch_failures();
		watch_modules();
		if (vc_trigger_wants_backward())
			watch_backward();
		vc_trigger_first_backward();
		watch_end();
		vc_leave();
	}
	*ret = torch ? VC_HELPER_RUNS : VC_HELPER_NO_TORCH;
	silence_end(&silence);
	return !later;
}

/* ---- moments ---- */

uint32_t vc_work_walk(uint64_t number, bool failure)
{
	struct vc_walk_file *walk = vc_walk_begin(number);
	struct vc_tensors_wish wish = {.holders = true};
	struct silence silence;

	if (!walk) {
		vc_store_count(VC_COUNTER_WALKS_LOST);
		return 0;
	}
	silence_begin(&silence);
	watch_modules();
	vc_allocator_walk(walk, failure);
	vc_cells_walk(walk);
	wish.full = work.trainer == vc_thread_local.id;
	wish.processor = failure ? FAILURE_TIME : WALK_TIME;
	wish.clock = wish.processor * CLOCK_TIMES;
	vc_tensors_walk(&wish, walk);
	silence_end(&silence);
	if (vc_walk_full(walk))
		vc_store_count(VC_COUNTER_WALKS_LOST);
	return vc_walk_finish(walk);
}

void vc_work_moment(const char *trigger, const char *moment, uint64_t step,
		    const struct vc_instant *at)
{
	struct silence silence;

	vc_enter();
	vc_start_thread();
	silence_begin(&silence);
	vc_trigger_at(trigger, moment, step, at);
	silence_end(&silence);
	vc_leave();
}
