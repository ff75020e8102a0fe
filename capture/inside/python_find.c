/* SPDX-License-Identifier: Apache-2.0 */
/* Which interpreter this process has, whether it is laid out as known, and whether it may be read. */
#include <link.h>
#include <string.h>
#include <time.h>

#include "capture/inside/loader.h"
#include "capture/inside/modules.h"
#include "capture/inside/python.h"
#include "capture/inside/python_parts.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"
#include "capture/inside/text.h"
#include "capture/inside/thread.h"

#define FOUND_MAX 8        /* interpreters in the life of a process */
#define STOP_TRIES 1000    /* of 100 microseconds */
#define ENTRY "PyGILState_GetThisThreadState"

static struct vc_python_interpreter found[FOUND_MAX];
static uint32_t found_count;
static const struct vc_python_interpreter *current;
static uint32_t stopped;
uint32_t vc_python_recording;
static uint32_t busy;      /* one thread looks at a time, others go without */
static char refused[80];   /* why the one there is cannot be read; "" it can, or there is none */

/* ---- is it as known ---- */

static void refuse(uint32_t version, const char *why)
{
	struct vc_text text = vc_text_in(refused, sizeof(refused));

	vc_text_add(&text, "CPython ");
	if (version) {
		vc_text_number(&text, version >> 8 & 0xff);
		vc_text_character(&text, '.');
		vc_text_number(&text, version & 0xff);
		vc_text_character(&text, ' ');
	}
	vc_text_add(&text, why);
	vc_store_count(VC_COUNTER_PYTHON_UNREADABLE);
	vc_store_detail_add("python_unreadable", refused);
}

/* Before 3.11 no variable tells: functions that came with a version do. */
static uint16_t version_of(const struct vc_object *object)
{
	const unsigned long *version = vc_object_data(object, "Py_Version");

	if (version)
		return (uint16_t)(*version >> 16);
	if (vc_object_symbol(object, "Py_Is"))
		return 0x030a;
	return vc_object_symbol(object, "PyFrame_GetBack") ? 0x0309 : 0;
}

static bool type_has_size(const struct vc_object *object, const char *type, int16_t size)
{
	const char *at = vc_object_data(object, type);

	return at && *(const int64_t *)(at + VC_PYTHON_TYPE_SIZE) == size;
}

static bool is_as_known(const struct vc_object *object, const struct vc_python_layout *layout)
{
	const uint64_t *runtime = vc_object_data(object, "_PyRuntime");

	if (layout->version >= 0x030d) {
		if (!runtime)
			return false;
		if (!memcmp(runtime, VC_PYTHON_DEBUG_MAGIC, 8) &&
		    runtime[VC_PYTHON_DEBUG_FREE_THREADED]) {
			refuse(layout->version, "without a global interpreter lock");
			return false;
		}
		if (!vc_python_debug_agrees(layout, runtime))
			return false;
	}
	return type_has_size(object, "PyCode_Type", layout->code_size) &&
	       type_has_size(object, "PyFrame_Type", layout->frame_size) &&
	       type_has_size(object, "PyUnicode_Type", layout->unicode_size);
}

/* Takes an object that has an interpreter, or says why not. */
static void take(const struct vc_object *object)
{
	struct vc_python_interpreter *slot;
	uint16_t version = version_of(object);

	if (found_count == FOUND_MAX)
		return;
	slot = &found[found_count];
	slot->layout = vc_python_layout(version);
	if (!slot->layout) {
		refuse(version, version ? "is not known" : "before 3.9");
		return;
	}
	*(void **)&slot->thread_state = vc_object_symbol(object, ENTRY);
	*(void **)&slot->finalizing = vc_object_symbol(object, "Py_IsFinalizing");
	if (!slot->finalizing)
		*(void **)&slot->finalizing = vc_object_symbol(object, "_Py_IsFinalizing");
	slot->eval = (uintptr_t)vc_object_symbol(object, "_PyEval_EvalFrameDefault");
	slot->runtime = (uintptr_t)vc_object_data(object, "_PyRuntime");
	slot->generation = vc_modules_generation();
	if (!is_as_known(object, slot->layout) || !slot->finalizing) {
		if (!*refused)
			refuse(version, "is not laid out as known");
		return;
	}
	found_count++;
	__atomic_store_n(&current, slot, __ATOMIC_RELEASE);
}

/* ---- finding it ---- */

static bool begin_search(void)
{
	uint32_t free = 0;

	return !*refused && __atomic_compare_exchange_n(&busy, &free, 1, false, __ATOMIC_ACQUIRE,
							__ATOMIC_RELAXED);
}

static void end_search(void)
{
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct vc_object object = {.bias = info->dlpi_addr, .name = info->dlpi_name};

	(void)size;
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object.dynamic = (const ElfW(Dyn) *)(info->dlpi_addr +
							     info->dlpi_phdr[i].p_vaddr);
	if (!object.dynamic || !vc_object_symbol(&object, ENTRY))
		return 0;
	*(struct vc_object *)argument = object;
	return 1;
}

static void search(void)
{
	struct vc_object object;

	if (!begin_search())
		return;
	if (dl_iterate_phdr(visit, &object))
		take(&object);
	end_search();
}

void vc_python_begin(void)
{
	__atomic_fetch_add(&vc_python_recording, 1, __ATOMIC_RELAXED);
	if (*refused) { /* in the evidence of every recording */
		vc_store_count(VC_COUNTER_PYTHON_UNREADABLE);
		vc_store_detail_add("python_unreadable", refused);
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELAXED); /* a fork may have left it */
	vc_modules_check();
	if (!vc_python_interpreter())
		search();
}

void vc_python_object(uint64_t address)
{
	struct vc_object object;

	if (__atomic_load_n(&current, __ATOMIC_ACQUIRE) || !begin_search())
		return;
	if (vc_object_of((const void *)(uintptr_t)address, &object) &&
	    vc_object_symbol(&object, ENTRY))
		take(&object);
	end_search();
}

const struct vc_python_interpreter *vc_python_interpreter(void)
{
	const struct vc_python_interpreter *now = __atomic_load_n(&current, __ATOMIC_ACQUIRE);

	if (__builtin_expect(now && now->generation != vc_modules_generation(), 0)) {
		__atomic_store_n(&current, NULL, __ATOMIC_RELEASE);
		search();
		now = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
	}
	return now;
}

/* ---- may it be read ---- */

/*
 * Who sets `stopped` then looks at all blocks; who reads sets its block's mark and then looks at
 * `stopped`: one of the two sees the other.
 */
uintptr_t vc_python_enter(const struct vc_python_interpreter *interpreter)
{
	struct vc_thread *block = vc_thread_block();

	if (!block)
		return 0;
	__atomic_store_n(&block->reads_python, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&stopped, __ATOMIC_SEQ_CST) || interpreter->finalizing())
		return 0;
	return (uintptr_t)interpreter->thread_state();
}

bool vc_python_leave(const struct vc_python_interpreter *interpreter)
{
	struct vc_thread *block = vc_thread_block();
	bool good = !interpreter->finalizing();

	if (block)
		__atomic_store_n(&block->reads_python, 0, __ATOMIC_RELEASE);
	return good;
}

void vc_python_stop(void)
{
	const struct timespec moment = {0, 100000};

	__atomic_store_n(&stopped, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < STOP_TRIES && vc_threads_read_python(); i++)
		vc_syscall(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
}

void vc_python_resume(void)
{
	__atomic_store_n(&stopped, 0, __ATOMIC_SEQ_CST);
}
