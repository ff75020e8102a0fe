/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVTX: a program's ranges as phases, its marks and ranges of a chosen name as steps.
 *
 * Each library that uses NVTX asks the library named by NVTX_INJECTION64_PATH for
 * InitializeInjectionNvtx2 and hands it a table of slots for its functions; `vramcore run` sets the
 * variable. VRAMCORE_STEP_MARK is the name of steps: "step *" fits "step 17", and the number at the
 * end, where there is one, is the step. A mark is the end of a step, and so is leaving a range.
 * Only layouts that NVTX 3 fixes are used; messages are read, never kept.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "capture/inside/phase.h"
#include "capture/inside/settings.h"
#include "capture/inside/start.h"
#include "capture/inside/store.h"
#include "capture/inside/thread.h"

#define NAME_MAX_BYTES 200u

/* ---- NVTX's own layouts ---- */

enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { TABLE_CALLBACKS = 1 };
enum { TEXT_ASCII = 1, TEXT_WIDE = 2, TEXT_REGISTERED = 3 };

enum core {
	CORE_MARK_EX = 1,
	CORE_MARK_A,
	CORE_MARK_W,
	CORE_RANGE_START_EX,
	CORE_RANGE_START_A,
	CORE_RANGE_START_W,
	CORE_RANGE_END,
	CORE_RANGE_PUSH_EX,
	CORE_RANGE_PUSH_A,
	CORE_RANGE_PUSH_W,
	CORE_RANGE_POP,
};

enum core2 {
	CORE2_MARK_EX = 1,
	CORE2_RANGE_START_EX,
	CORE2_RANGE_END,
	CORE2_RANGE_PUSH_EX,
	CORE2_RANGE_POP,
	CORE2_REGISTER_STRING_A = 10,
	CORE2_REGISTER_STRING_W,
};

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	union {
		const char *text;
		const wchar_t *wide;
		const char *registered; /* our own handle: a text */
	} message;
};

struct callbacks {
	size_t size;
	int (*function_table)(int module, void ***ret_table, unsigned int *ret_size);
};

/* ---- names ---- */

struct name {
	char text[NAME_MAX_BYTES + 1];
	size_t length;
};

static void name_from_text(struct name *name, const char *text)
{
	name->length = text ? strnlen(text, NAME_MAX_BYTES) : 0;
	if (name->length)
		memcpy(name->text, text, name->length);
	name->text[name->length] = '\0';
}

/* Characters beyond ASCII are left out: no locale in here. */
static void name_from_wide(struct name *name, const wchar_t *text)
{
	name->length = 0;
	for (; text && *text && name->length < NAME_MAX_BYTES; text++)
		name->text[name->length++] = *text < 128 ? (char)*text : '?';
	name->text[name->length] = '\0';
}

static void name_from_attributes(struct name *name, const struct attributes *attributes)
{
	name->length = 0;
	name->text[0] = '\0';
	if (!attributes || attributes->size < sizeof(*attributes))
		return;
	if (attributes->message_type == TEXT_ASCII)
		name_from_text(name, attributes->message.text);
	else if (attributes->message_type == TEXT_WIDE)
		name_from_wide(name, attributes->message.wide);
	else if (attributes->message_type == TEXT_REGISTERED)
		name_from_text(name, attributes->message.registered);
}

/* Whether `text` fits `pattern`, in which * is anything. */
static bool fits(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			resume = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool is_step(const struct name *name)
{
	const char *pattern = vc_setting(VC_SETTING_STEP_MARK);

	return pattern && name->length && fits(pattern, name->text);
}

/* The number at the end of a name is taken off it. */
static bool take_number(struct name *name, uint64_t *ret)
{
	size_t at = name->length;
	const char *end;

	while (at && name->text[at - 1] >= '0' && name->text[at - 1] <= '9')
		at--;
	if (at == name->length || !vc_parse_number(name->text + at, &end, ret))
		return false;
	while (at && name->text[at - 1] == ' ')
		at--;
	name->length = at;
	name->text[at] = '\0';
	return true;
}

/* ---- steps and phases ---- */

/*
 * A thread is in at most one range that is a step: its depth and number are kept for the pop. One
 * such thread at a time is served, which is how programs that train do it.
 */
static struct {
	uint32_t thread;
	uint32_t depth;
	uint64_t step;
} open_step;

static uint64_t next_step(void)
{
	const struct vc_root *root = vc_store_root();

	return vc_word_value(__atomic_load_n(&root->step, __ATOMIC_RELAXED));
}

static void mark(struct name *name)
{
	uint64_t step;

	vc_enter();
	if (vc_store_ready() && is_step(name)) {
		vc_start_thread();
		if (!take_number(name, &step))
			step = next_step();
		vc_phase_step(VC_STEP_NVTX, step);
	}
	vc_leave();
}

static int push(struct name *name)
{
	int depth = vc_thread_local.phase_depth;
	uint64_t step;

	vc_enter();
	if (vc_store_ready()) {
		vc_start_thread();
		if (is_step(name)) {
			if (!take_number(name, &step))
				step = next_step();
			open_step.step = step;
			open_step.depth = (uint32_t)depth + 1;
			open_step.thread = vc_thread_local.id;
		}
		vc_phase_push(name->text, name->length);
	}
	vc_leave();
	return depth;
}

static int pop(void)
{
	int depth = vc_thread_local.phase_depth;

	vc_enter();
	if (vc_store_ready()) {
		vc_start_thread();
		if (open_step.depth && open_step.depth == (uint32_t)depth &&
		    open_step.thread == vc_thread_local.id) {
			open_step.depth = 0;
			vc_phase_step(VC_STEP_NVTX, open_step.step);
		}
		vc_phase_pop();
	}
	vc_leave();
	return depth - 1;
}

/* Ranges that start and end anywhere are no thread's phase; they may be steps. */
#define RANGES 64u
static struct {
	uint64_t id, step;
} started[RANGES];
static uint64_t last_range;

static uint64_t range_start(struct name *name)
{
	uint64_t id = __atomic_add_fetch(&last_range, 1, __ATOMIC_RELAXED), step;

	vc_enter();
	if (vc_store_ready() && is_step(name)) {
		if (!take_number(name, &step))
			step = next_step();
		started[id % RANGES].step = step;
		__atomic_store_n(&started[id % RANGES].id, id, __ATOMIC_RELEASE);
	}
	vc_leave();
	return id;
}

static void range_end(uint64_t id)
{
	uint64_t expected = id;

	if (!id || __atomic_load_n(&started[id % RANGES].id, __ATOMIC_ACQUIRE) != id)
		return;
	vc_enter();
	if (vc_store_ready()) {
		uint64_t step = started[id % RANGES].step;

		vc_start_thread();
		if (__atomic_compare_exchange_n(&started[id % RANGES].id, &expected, 0, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			vc_phase_step(VC_STEP_NVTX, step);
	}
	vc_leave();
}

/* ---- the functions in the slots ---- */

static void mark_text(const char *text)
{
	struct name name;

	name_from_text(&name, text);
	mark(&name);
}

static void mark_wide(const wchar_t *text)
{
	struct name name;

	name_from_wide(&name, text);
	mark(&name);
}

static void mark_attributes(const struct attributes *attributes)
{
	struct name name;

	name_from_attributes(&name, attributes);
	mark(&name);
}

static void domain_mark(void *domain, const struct attributes *attributes)
{
	(void)domain;
	mark_attributes(attributes);
}

static int push_text(const char *text)
{
	struct name name;

	name_from_text(&name, text);
	return push(&name);
}

static int push_wide(const wchar_t *text)
{
	struct name name;

	name_from_wide(&name, text);
	return push(&name);
}

static int push_attributes(const struct attributes *attributes)
{
	struct name name;

	name_from_attributes(&name, attributes);
	return push(&name);
}

static int domain_push(void *domain, const struct attributes *attributes)
{
	(void)domain;
	return push_attributes(attributes);
}

static int domain_pop(void *domain)
{
	(void)domain;
	return pop();
}

static uint64_t start_text(const char *text)
{
	struct name name;

	name_from_text(&name, text);
	return range_start(&name);
}

static uint64_t start_wide(const wchar_t *text)
{
	struct name name;

	name_from_wide(&name, text);
	return range_start(&name);
}

static uint64_t start_attributes(const struct attributes *attributes)
{
	struct name name;

	name_from_attributes(&name, attributes);
	return range_start(&name);
}

static uint64_t domain_start(void *domain, const struct attributes *attributes)
{
	(void)domain;
	return start_attributes(attributes);
}

static void domain_end(void *domain, uint64_t id)
{
	(void)domain;
	range_end(id);
}

/* Registered strings: copies in a fixed room, the handle is the copy's address. */
static char registered[32768];
static uint32_t registered_bytes;

static const char *register_name(const struct name *name)
{
	uint32_t bytes = (uint32_t)name->length + 1;
	uint32_t at = __atomic_fetch_add(&registered_bytes, bytes, __ATOMIC_RELAXED);

	if (at > sizeof(registered) - bytes) {
		__atomic_fetch_sub(&registered_bytes, bytes, __ATOMIC_RELAXED);
		return NULL;
	}
	memcpy(registered + at, name->text, bytes);
	return registered + at;
}

static const char *register_text(void *domain, const char *text)
{
	struct name name;

	(void)domain;
	name_from_text(&name, text);
	return register_name(&name);
}

static const char *register_wide(void *domain, const wchar_t *text)
{
	struct name name;

	(void)domain;
	name_from_wide(&name, text);
	return register_name(&name);
}

/* ---- the injection ---- */

struct slot {
	unsigned int number;
	void *function;
};

static const struct slot core_slots[] = {
	{CORE_MARK_EX, (void *)mark_attributes},
	{CORE_MARK_A, (void *)mark_text},
	{CORE_MARK_W, (void *)mark_wide},
	{CORE_RANGE_START_EX, (void *)start_attributes},
	{CORE_RANGE_START_A, (void *)start_text},
	{CORE_RANGE_START_W, (void *)start_wide},
	{CORE_RANGE_END, (void *)range_end},
	{CORE_RANGE_PUSH_EX, (void *)push_attributes},
	{CORE_RANGE_PUSH_A, (void *)push_text},
	{CORE_RANGE_PUSH_W, (void *)push_wide},
	{CORE_RANGE_POP, (void *)pop},
};

static const struct slot core2_slots[] = {
	{CORE2_MARK_EX, (void *)domain_mark},
	{CORE2_RANGE_START_EX, (void *)domain_start},
	{CORE2_RANGE_END, (void *)domain_end},
	{CORE2_RANGE_PUSH_EX, (void *)domain_push},
	{CORE2_RANGE_POP, (void *)domain_pop},
	{CORE2_REGISTER_STRING_A, (void *)register_text},
	{CORE2_REGISTER_STRING_W, (void *)register_wide},
};

static void fill(const struct callbacks *callbacks, int module, const struct slot *slots,
		 size_t count)
{
	void ***table = NULL; /* an array of pointers to the functions' variables */
	unsigned int size = 0;

	if (!callbacks->function_table(module, (void ***)&table, &size) || !table)
		return;
	for (size_t i = 0; i < count; i++)
		if (slots[i].number < size && table[slots[i].number])
			*table[slots[i].number] = slots[i].function;
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
	__attribute__((visibility("default")));
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
	const struct callbacks *callbacks = export_table ? export_table(TABLE_CALLBACKS) : NULL;

	if (!callbacks || callbacks->size < sizeof(*callbacks))
		return 0;
	fill(callbacks, MODULE_CORE, core_slots, sizeof(core_slots) / sizeof(core_slots[0]));
	fill(callbacks, MODULE_CORE2, core2_slots, sizeof(core2_slots) / sizeof(core2_slots[0]));
	return 1;
}
