/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedded LIBRARY [bench]: the reader of Python stacks inside a program that embeds an interpreter.
 *
 * LIBRARY is a libpython, which is opened at run time. The script calls back into this program, where
 * the reader is asked: for the innermost module's object, for nothing while it is stopped, for a
 * thread without Python, after the end of the interpreter and after it began anew. `bench` prints
 * nanoseconds for stacks of 7, 10 and 40 frames instead.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/inside/python.h"
#include "capture/inside/python_lock.h"
#include "capture/inside/stack.h"
#include "capture/inside/thread.h"
#include "tests/unit/store/fixture.h"

static struct {
	void (*initialize)(int);
	int (*finalize)(void);
	int (*run)(const char *);
	const char *(*version)(void);
} py;

static uint32_t last_stack, calls;
static uint64_t last_object;

/* Called by the script through ctypes, with and without the lock. */
static uint64_t take(void)
{
	calls++;
	last_stack = vc_python_stack(0, &last_object);
	return last_object;
}

static uint64_t take_stack(void)
{
	take();
	return last_stack;
}

static void give_code(uint64_t code)
{
	vc_python_module_code(code);
}

static const char modules[] =
	"import ctypes, threading\n"
	"class Whatever:\n"
	"    def _wrapped_call_impl(self, *arguments):\n"
	"        return self.forward(*arguments)\n"
	"class Leaf(Whatever):\n"
	"    def forward(self):\n"
	"        return take()\n"
	"class Root(Whatever):\n"
	"    def __init__(self):\n"
	"        self.leaf = Leaf()\n"
	"    def forward(self):\n"
	"        first = self.leaf._wrapped_call_impl()\n"
	"        return first, take(), [self.leaf._wrapped_call_impl() for _ in range(2)]\n"
	"class GraphModule(Whatever):\n"
	"    def __init__(self, inner):\n"
	"        self.inner = inner\n"
	"    def forward(self):\n"
	"        return self.inner()\n"
	"class GraphModules(GraphModule):\n"
	"    pass\n"
	"give(id(Whatever._wrapped_call_impl.__code__))\n"
	"for take in (take_held, take_released):\n"
	"    root = Root()\n"
	"    assert take() == 0, 'outside every module'\n"
	"    first, middle, last = root._wrapped_call_impl()\n"
	"    assert first == id(root.leaf), 'the innermost counts'\n"
	"    assert middle == id(root), 'after the inner one has returned'\n"
	"    assert last == [id(root.leaf)] * 2\n"
	"    written = GraphModule(lambda: take())\n"
	"    assert written._wrapped_call_impl() == id(written), 'there is no other'\n"
	"    through = GraphModules(GraphModule(written._wrapped_call_impl)._wrapped_call_impl)\n"
	"    assert through._wrapped_call_impl() == id(through), 'the one that was not generated'\n"
	"    assert GraphModule(root.leaf._wrapped_call_impl)._wrapped_call_impl() == id(root.leaf)\n"
	"    said = []\n"
	"    thread = threading.Thread(target=lambda: said.append(root._wrapped_call_impl()))\n"
	"    thread.start(); thread.join()\n"
	"    assert said[0][0] == id(root.leaf), 'in another thread'\n"
	"    class Replaced:\n"
	"        def other(self):\n"
	"            return take()\n"
	"    thing = Replaced()\n"
	"    give(id(Replaced.other.__code__))\n"
	"    assert thing.other() == id(thing), 'the code was replaced'\n"
	"    give(0)\n"
	"    assert thing.other() == 0\n"
	"    give(id(Whatever._wrapped_call_impl.__code__))\n"
	"done = True\n";

static void script(const char *text)
{
	static char all[8192];

	snprintf(all, sizeof(all),
		 "import ctypes\n"
		 "take_held = ctypes.PYFUNCTYPE(ctypes.c_uint64)(%llu)\n"
		 "take_released = ctypes.CFUNCTYPE(ctypes.c_uint64)(%llu)\n"
		 "stack = ctypes.CFUNCTYPE(ctypes.c_uint64)(%llu)\n"
		 "give = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(%llu)\n%s",
		 (unsigned long long)(uintptr_t)take, (unsigned long long)(uintptr_t)take,
		 (unsigned long long)(uintptr_t)take_stack, (unsigned long long)(uintptr_t)give_code,
		 text);
	assert_int_equal(py.run(all), 0);
}

static void *without_python(void *argument)
{
	(void)argument;
	take();
	return NULL;
}

static void test_modules(void **state)
{
	(void)state;
	calls = 0;
	script(modules);
	assert_true(calls > 20);
}

static void test_thread_without_python(void **state)
{
	pthread_t thread;

	(void)state;
	last_stack = 77;
	assert_int_equal(pthread_create(&thread, NULL, without_python, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(last_stack, 0);
	take(); /* no Python runs here now */
	assert_int_equal(last_stack, 0);
}

static void test_stop(void **state)
{
	(void)state;
	script("assert stack() != 0\n");
	vc_python_stop();
	script("assert stack() == 0, 'stopped'\n");
	vc_python_resume();
	script("assert stack() != 0\n");
	/* a thread that is reading is waited for, so long and no longer */
	vc_thread_block()->reads_python = 1;
	assert_true(vc_threads_read_python());
	vc_python_stop();
	vc_thread_block()->reads_python = 0;
	vc_python_resume();
}

static void test_equal_stacks_are_one(void **state)
{
	(void)state;
	script("def f():\n    return stack()\n"
	       "a, b = [f() for _ in range(2)]\nassert a == b != 0\n"
	       "assert f() != a, 'another line'\n");
}

/* ---- who has the lock ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int asked, answered; /* times */
	bool held;
	char who[400];
} ask = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* A thread that knows nothing of the interpreter, as the recorder's own. */
static void *asker(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&ask.lock);
	for (int i = 1; i <= 2; i++) {
		while (ask.asked < i)
			pthread_cond_wait(&ask.changed, &ask.lock);
		ask.held = vc_python_lock_holder(ask.who, sizeof(ask.who));
		ask.answered = i;
		pthread_cond_signal(&ask.changed);
	}
	pthread_mutex_unlock(&ask.lock);
	return NULL;
}

/* Called by the script: has it asked, and comes back with the answer. */
static uint64_t who_holds(void)
{
	int turn;

	pthread_mutex_lock(&ask.lock);
	turn = ++ask.asked;
	pthread_cond_broadcast(&ask.changed);
	while (ask.answered < turn)
		pthread_cond_wait(&ask.changed, &ask.lock);
	pthread_mutex_unlock(&ask.lock);
	return ask.held;
}

static void test_holder(void **state)
{
	pthread_t thread;
	char wanted[200], text[512], name[16] = "";

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, asker, NULL), 0);
	snprintf(text, sizeof(text),
		 "held = ctypes.PYFUNCTYPE(ctypes.c_uint64)(%llu)\n"
		 "released = ctypes.CFUNCTYPE(ctypes.c_uint64)(%llu)\n"
		 "def in_library():\n"
		 "    a = 1\n"
		 "    return held()\n"
		 "assert released() == 0, 'nobody has it'\n"
		 "assert in_library() == 1\n",
		 (unsigned long long)(uintptr_t)who_holds, (unsigned long long)(uintptr_t)who_holds);
	script(text);
	pthread_join(thread, NULL);
	prctl(PR_GET_NAME, name);
	/* script() puts five lines before it */
	snprintf(wanted, sizeof(wanted), "thread %d (%s) in in_library of <string>:%d",
		 (int)syscall(SYS_gettid), name, 5 + 5);
	assert_string_equal(ask.who, wanted);
}

static void test_ends_and_begins(void **state)
{
	(void)state;
	if (!strncmp(py.version(), "3.12.", 5)) {
		print_message("SKIPPED: 3.12 itself does not survive ctypes twice\n");
		skip();
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(py.finalize(), 0);
		take();
		assert_int_equal(last_stack, 0);
		py.initialize(0);
		script("assert stack() != 0\n");
	}
}

/* ---- bench ---- */

static double nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static uint64_t measure(void)
{
	enum { TURNS = 500, ROUNDS = 400 }; /* each round shorter than a time slice */
	double best = 1e9;

	for (int round = 0; round < ROUNDS; round++) {
		double start = nanoseconds();

		for (int i = 0; i < TURNS; i++)
			take();
		start = (nanoseconds() - start) / TURNS;
		best = start < best ? start : best;
	}
	return (uint64_t)(best * 10);
}

static void bench(void)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "import sys\n"
		 "measure = ctypes.CFUNCTYPE(ctypes.c_uint64)(%llu)\n"
		 "def f(depth):\n"
		 "    return f(depth - 1) if depth else measure()\n"
		 "print('Python', '.'.join(map(str, sys.version_info[:2])), *('%%d frames %%.1f ns' %% (n, "
		 "f(n - 2) / 10) for n in (7, 10, 40)), sep='  ', flush=True)\n",
		 (unsigned long long)(uintptr_t)measure);
	script(text);
}

static void *symbol(void *library, const char *name)
{
	void *address = dlsym(library, name);

	if (!address) {
		fprintf(stderr, "no %s\n", name);
		exit(2);
	}
	return address;
}

int main(int count, char **argument)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_thread_without_python),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_equal_stacks_are_one),
		cmocka_unit_test(test_holder),
		cmocka_unit_test(test_ends_and_begins),
	};
	void *library = count > 1 ? dlopen(argument[1], RTLD_NOW | RTLD_GLOBAL) : NULL;

	if (!library) {
		fprintf(stderr, "embedded: %s\n", count > 1 ? dlerror() : "which libpython?");
		return 2;
	}
	*(void **)&py.initialize = symbol(library, "Py_InitializeEx");
	*(void **)&py.finalize = symbol(library, "Py_FinalizeEx");
	*(void **)&py.run = symbol(library, "PyRun_SimpleString");
	*(void **)&py.version = symbol(library, "Py_GetVersion");
	fixture_start(64 * MIB);
	vc_python_begin();
	py.initialize(0);
	if (count > 2) {
		bench();
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
