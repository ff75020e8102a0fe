/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/native_stacks.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define REGISTER_FRAME 6
#define REGISTER_STACK 7
#else /* aarch64 */
#define REGISTER_FRAME 29
#define REGISTER_STACK 31
#endif
#define GUESSES_MAX 32u
#define GUESS_BYTES 65536u /* looked through for the next return address */

struct range {
	uint64_t low, high;
	bool executable;
};

struct native_state {
	uint64_t stack_pointer, instruction, frame_pointer; /* frame_pointer 0: unknown */
};

struct vc_native {
	Dwfl *dwfl;
	Elf *core;                  /* of a core file; NULL: a running process */
	uint64_t pid;
	const struct vc_memory *memory;
	struct native_state state;  /* where unwinding begins */
	struct range *range;        /* of the process's memory, rising */
	size_t ranges;
};

bool vc_native_available(void)
{
	return true;
}

/* ---- callbacks of libdw ---- */

/* The process whose files libdw asks for: its callback is told of the module only. */
static uint64_t looked_at;

/*
 * The file as the process has it: in a container it lies under the process's own root. The file
 * that stands at the path here might be another one.
 */
static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	char path[PATH_MAX];
	int file = -1;

	if (name[0] == '/' && snprintf(path, sizeof(path), "/proc/%" PRIu64 "/root%s", looked_at, name) <
				      (int)sizeof(path))
		file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file < 0)
		return dwfl_linux_proc_find_elf(module, userdata, name, base, file_name, elf);
	*file_name = strdup(path);
	return file;
}

/* Unwind tables are in the files themselves; nothing is looked for elsewhere, nor on the network. */
static int find_no_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			     const char *file, const char *debuglink, GElf_Word checksum, char **ret)
{
	(void)module, (void)userdata, (void)name, (void)base, (void)file, (void)debuglink;
	(void)checksum, (void)ret;
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_no_debuginfo,
};

static pid_t next_thread(Dwfl *dwfl, void *self, void **thread_argument)
{
	(void)dwfl, (void)self, (void)thread_argument;
	return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t thread, void *self, void **thread_argument)
{
	(void)dwfl, (void)thread;
	*thread_argument = self;
	return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *self)
{
	struct vc_native *native = self;
	uint64_t word;

	(void)dwfl;
	if (!vc_memory_word(native->memory, address, &word))
		return false;
	*ret = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *self)
{
	const struct native_state *state = &((struct vc_native *)self)->state;
	Dwarf_Word word = state->stack_pointer;

	if (!dwfl_thread_state_registers(thread, REGISTER_STACK, 1, &word))
		return false;
	word = state->frame_pointer;
	if (word && !dwfl_thread_state_registers(thread, REGISTER_FRAME, 1, &word))
		return false;
	dwfl_thread_state_register_pc(thread, state->instruction);
	return true;
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_word,
	.set_initial_registers = set_registers,
};

/* ---- memory map ---- */

static bool read_ranges(struct vc_native *native)
{
	char path[64], *line = NULL;
	size_t size = 0, capacity = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/maps", native->pid);
	maps = fopen(path, "re");
	if (!maps)
		return false;
	while (getline(&line, &size, maps) > 0) {
		struct range range, *grown;
		char rights[5];

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &range.low, &range.high, rights) != 3)
			continue;
		range.executable = rights[2] == 'x';
		if (native->ranges == capacity) {
			capacity = capacity ? capacity * 2 : 512;
			grown = realloc(native->range, capacity * sizeof(*grown));
			if (!grown)
				break;
			native->range = grown;
		}
		native->range[native->ranges++] = range;
	}
	free(line);
	fclose(maps);
	return native->ranges > 0;
}

static const struct range *range_of(const struct vc_native *native, uint64_t address)
{
	size_t low = 0, high = native->ranges;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (native->range[middle].high <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < native->ranges && native->range[low].low <= address ? &native->range[low] : NULL;
}

/* ---- unwinding ---- */

struct walk {
	uint64_t *frames;
	uint32_t count, max;
	uint64_t stack_pointer; /* of the last frame that was reached; 0: unknown */
	bool first;
};

static int take_frame(Dwfl_Frame *frame, void *argument)
{
	struct walk *walk = argument;
	Dwarf_Addr address;
	Dwarf_Word word;
	bool activation;

	if (!dwfl_frame_pc(frame, &address, &activation))
		return DWARF_CB_ABORT;
	if (!address)
		return DWARF_CB_ABORT;
	walk->stack_pointer = dwfl_frame_reg(frame, REGISTER_STACK, &word) == 0 ? word : 0;
	if (walk->first) {
		walk->first = false; /* of a state taken up again: it is there already */
		return DWARF_CB_OK;
	}
	if (walk->count == walk->max)
		return DWARF_CB_ABORT;
	walk->frames[walk->count++] = address;
	return DWARF_CB_OK;
}

/* Whether an address is one that a call returns to: code, with a call right before it. */
static bool returns_here(const struct vc_native *native, uint64_t address)
{
	const struct range *range = range_of(native, address);
	uint8_t before[7];

	if (!range || !range->executable || address - range->low < sizeof(before) ||
	    !native->memory->read(native->memory->self, address - sizeof(before), before,
				  sizeof(before)))
		return false;
#if defined(__x86_64__)
	if (before[2] == 0xe8) /* call with a distance of 32 bits */
		return true;
	for (size_t length = 2; length <= sizeof(before); length++) {
		const uint8_t *at = before + sizeof(before) - length;

		if (at[0] == 0xff && (at[1] >> 3 & 7) == 2) /* call through a register or memory */
			return true;
	}
	return false;
#else
	return (before[6] & 0xfc) == 0x94 || (before[6] == 0xd6 && (before[5] & 0xc0) == 0);
#endif
}

/*
 * The next word up the stack that a call returns to. What stands right below it is the caller's
 * frame pointer where the function began as most do that have one.
 */
static bool guess(const struct vc_native *native, uint64_t from, struct native_state *ret)
{
	const struct range *stack = range_of(native, from);
	uint64_t end = stack ? stack->high : 0, below = 0, word;

	if (end > from + GUESS_BYTES)
		end = from + GUESS_BYTES;
	for (uint64_t at = from & ~UINT64_C(7); at + 8 <= end; at += 8) {
		if (!vc_memory_word(native->memory, at, &word))
			return false;
		if (returns_here(native, word)) {
			*ret = (struct native_state){
				.stack_pointer = at + 8,
				.instruction = word,
				.frame_pointer = below > at && below < stack->high ? below : 0,
			};
			return true;
		}
		below = word;
	}
	return false;
}

uint32_t vc_native_unwind(struct vc_native *native, uint64_t stack_pointer, uint64_t instruction,
			  uint64_t *frames, uint32_t max, uint32_t *ret_guessed_from)
{
	struct walk walk = {.frames = frames, .max = max};
	unsigned int guesses = 0;
	uint32_t guessed_from = UINT32_MAX;

	native->state = (struct native_state){
		.stack_pointer = stack_pointer, .instruction = instruction};
	looked_at = native->pid;
	for (;;) {
		int result;

		walk.stack_pointer = 0;
		result = dwfl_getthread_frames(native->dwfl, dwfl_pid(native->dwfl), take_frame, &walk);
		if (result == 0 || walk.count >= walk.max || guesses++ == GUESSES_MAX)
			break;
		if (!walk.count && walk.count < walk.max) /* not even the first */
			frames[walk.count++] = instruction;
		if (!walk.stack_pointer)
			walk.stack_pointer = native->state.stack_pointer;
		if (!guess(native, walk.stack_pointer, &native->state))
			break;
		if (guessed_from == UINT32_MAX)
			guessed_from = walk.count;
		if (walk.count < walk.max)
			frames[walk.count++] = native->state.instruction;
		walk.first = true;
	}
	*ret_guessed_from = guessed_from == UINT32_MAX ? walk.count : guessed_from;
	return walk.count;
}

bool vc_native_file(struct vc_native *native, uint64_t address, struct vc_mapped_file *ret)
{
	struct vc_mapped_file file = {0};
	Dwarf_Addr start, end;
	GElf_Addr bias, build_id_at;
	const unsigned char *bits;
	const char *name;
	Dwfl_Module *module;
	int length;

	looked_at = native->pid;
	module = dwfl_addrmodule(native->dwfl, address);
	name = module ? dwfl_module_info(module, NULL, &start, &end, NULL, NULL, NULL, NULL) : NULL;
	if (!name || !dwfl_module_getelf(module, &bias))
		return false;
	file.low = start;
	file.high = end;
	file.bias = bias;
	length = dwfl_module_build_id(module, &bits, &build_id_at);
	for (int i = 0; i < length && i < 32; i++)
		snprintf(file.build_id + 2 * i, 3, "%02x", bits[i]);
	file.path = strdup(name);
	if (!file.path)
		return false;
	*ret = file;
	return true;
}

struct wanted_symbol {
	const char *name;
	uint64_t address;
	bool found, first;
};

static int look_for_symbol(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr start,
			   void *argument)
{
	struct wanted_symbol *wanted = argument;
	const char *base = strrchr(name, '/');
	bool program = wanted->first;
	int count;

	(void)userdata, (void)start;
	wanted->first = false;
	if (!program && !strstr(base ? base : name, "python"))
		return DWARF_CB_OK;
	count = dwfl_module_getsymtab(module);
	for (int i = 1; i < count; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		const char *found = dwfl_module_getsym_info(module, i, &symbol, &address, NULL, NULL, NULL);

		if (found && symbol.st_shndx != SHN_UNDEF && !strcmp(found, wanted->name)) {
			wanted->address = address;
			wanted->found = true;
			return DWARF_CB_ABORT;
		}
	}
	return DWARF_CB_OK;
}

bool vc_native_symbol(struct vc_native *native, const char *name, uint64_t *ret)
{
	struct wanted_symbol wanted = {.name = name, .first = true};

	looked_at = native->pid;
	dwfl_getmodules(native->dwfl, look_for_symbol, &wanted, 0);
	if (wanted.found)
		*ret = wanted.address;
	return wanted.found;
}

struct vc_native *vc_native_open(uint64_t pid, const struct vc_memory *memory)
{
	struct vc_native *native = calloc(1, sizeof(*native));

	if (!native)
		return NULL;
	native->pid = pid;
	native->memory = memory;
	looked_at = pid;
	native->dwfl = dwfl_begin(&callbacks);
	if (native->dwfl && read_ranges(native) &&
	    dwfl_linux_proc_report(native->dwfl, (pid_t)pid) == 0 &&
	    dwfl_report_end(native->dwfl, NULL, NULL) == 0 &&
	    dwfl_attach_state(native->dwfl, NULL, (pid_t)pid, &thread_callbacks, native))
		return native;
	vc_native_close(native);
	return NULL;
}

/* ---- core files ---- */

/* By build-id: a file that was replaced since is not taken for the one that ran. */
static const Dwfl_Callbacks core_callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_no_debuginfo,
};

struct vc_native *vc_native_open_core(int descriptor, const struct vc_memory *memory)
{
	struct vc_native *native = calloc(1, sizeof(*native));

	if (!native)
		return NULL;
	native->memory = memory;
	elf_version(EV_CURRENT);
	native->core = elf_begin(descriptor, ELF_C_READ_MMAP, NULL);
	native->dwfl = dwfl_begin(&core_callbacks);
	if (native->core && native->dwfl &&
	    dwfl_core_file_report(native->dwfl, native->core, NULL) > 0 &&
	    dwfl_report_end(native->dwfl, NULL, NULL) == 0 &&
	    dwfl_core_file_attach(native->dwfl, native->core) >= 0)
		return native;
	vc_native_close(native);
	return NULL;
}

static int take_thread(Dwfl_Thread *thread, void *argument)
{
	struct vc_thread_stacks *stacks = argument;
	uint64_t frames[VC_NATIVE_FRAMES_MAX];
	struct walk walk = {.frames = frames, .max = VC_NATIVE_FRAMES_MAX};
	struct vc_thread_stack *to = &stacks->thread[stacks->threads];

	if (stacks->threads == VC_THREADS_MAX)
		return DWARF_CB_ABORT;
	to->thread = (uint32_t)dwfl_thread_tid(thread);
	dwfl_thread_getframes(thread, take_frame, &walk);
	to->native = malloc((walk.count + 1) * sizeof(*frames));
	if (!to->native)
		return DWARF_CB_ABORT;
	memcpy(to->native, frames, walk.count * sizeof(*frames));
	to->natives = to->guessed_from = walk.count;
	stacks->threads++;
	return DWARF_CB_OK;
}

void vc_native_core_threads(struct vc_native *native, struct vc_thread_stacks *stacks)
{
	stacks->thread = calloc(VC_THREADS_MAX, sizeof(*stacks->thread));
	if (stacks->thread)
		dwfl_getthreads(native->dwfl, take_thread, stacks);
}

void vc_native_close(struct vc_native *native)
{
	if (!native)
		return;
	if (native->dwfl)
		dwfl_end(native->dwfl);
	if (native->core)
		elf_end(native->core);
	free(native->range);
	free(native);
}
