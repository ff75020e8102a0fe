/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of threads into the tables of a snapshot. */
#include <string.h>

#include "capture/outside/thread_stacks.h"
#include "formats/recording.h"

#define CELL(tables, name, row) ((tables)->column[VC_COL_##name][row])

/* ---- native ---- */

static bool same_text(const struct vc_tables *tables, uint64_t string, const char *text)
{
	return !strcmp(vc_tables_text(tables, string), text);
}

/* Row of modules of a file, one the recording knows already where there is one. */
static int module_row(struct vc_tables *tables, const struct vc_mapped_file *file, uint64_t *ret)
{
	uint64_t row;
	int error;

	for (row = 0; row < tables->rows[VC_TABLE_modules]; row++)
		if (CELL(tables, modules_bias, row) == file->bias &&
		    same_text(tables, CELL(tables, modules_path, row), file->path)) {
			*ret = row;
			return 0;
		}
	error = vc_tables_append(tables, VC_TABLE_modules, &row);
	if (error)
		return error;
	CELL(tables, modules_bias, row) = file->bias;
	CELL(tables, modules_low, row) = file->low;
	CELL(tables, modules_high, row) = file->high;
	*ret = row;
	error = vc_tables_put_text(tables, VC_COL_modules_path, row, file->path);
	return error ? error : vc_tables_put_text(tables, VC_COL_modules_build_id, row, file->build_id);
}

static int add_frame(struct vc_tables *tables, const struct vc_thread_stacks *stacks,
		     uint64_t address, bool innermost)
{
	uint64_t row, module, inside = address - (innermost ? 0 : 1);
	int error = vc_tables_append(tables, VC_TABLE_frames, &row);

	if (error)
		return error;
	CELL(tables, frames_offset, row) = address;
	for (uint32_t i = 0; i < stacks->files; i++) {
		const struct vc_mapped_file *file = &stacks->file[i];

		if (inside < file->low || inside >= file->high)
			continue;
		error = module_row(tables, file, &module);
		if (error)
			return error;
		CELL(tables, frames_module, row) = module + 1;
		CELL(tables, frames_offset, row) = address - file->bias;
		break;
	}
	return 0;
}

static int add_native(struct vc_tables *tables, const struct vc_thread_stacks *stacks,
		      const struct vc_thread_stack *thread, uint64_t *ret_stack_plus_one)
{
	uint64_t row, first = tables->rows[VC_TABLE_frames];
	int error = 0;

	if (!thread->natives)
		return 0;
	for (uint32_t i = 0; !error && i < thread->natives; i++)
		error = add_frame(tables, stacks, thread->native[i], i == 0);
	if (!error)
		error = vc_tables_append(tables, VC_TABLE_stacks, &row);
	if (error)
		return error;
	CELL(tables, stacks_first, row) = first;
	CELL(tables, stacks_count, row) = thread->natives;
	CELL(tables, stacks_end, row) = thread->natives == VC_NATIVE_FRAMES_MAX ? VC_STACK_LIMIT
										: VC_STACK_COMPLETE;
	*ret_stack_plus_one = row + 1;
	return 0;
}

/* ---- Python ---- */

static int source_frame(struct vc_tables *tables, const struct vc_python_frame *frame, uint64_t *ret)
{
	uint64_t row, function, file;
	int error = vc_tables_string(tables, frame->function, strlen(frame->function), &function);

	if (!error)
		error = vc_tables_string(tables, frame->file, strlen(frame->file), &file);
	for (row = 0; !error && row < tables->rows[VC_TABLE_source_frames]; row++)
		if (CELL(tables, source_frames_function, row) == function &&
		    CELL(tables, source_frames_file, row) == file &&
		    CELL(tables, source_frames_line, row) == frame->line) {
			*ret = row;
			return 0;
		}
	if (!error)
		error = vc_tables_append(tables, VC_TABLE_source_frames, &row);
	if (error)
		return error;
	CELL(tables, source_frames_function, row) = function;
	CELL(tables, source_frames_file, row) = file;
	CELL(tables, source_frames_line, row) = frame->line;
	*ret = row;
	return 0;
}

static int add_python(struct vc_tables *tables, const struct vc_thread_stack *thread,
		      uint64_t *ret_stack_plus_one)
{
	uint64_t row, frame, first = tables->rows[VC_TABLE_source_lists];
	int error = 0;

	if (!thread->pythons)
		return 0;
	for (uint32_t i = 0; !error && i < thread->pythons; i++) {
		error = source_frame(tables, &thread->python[i], &frame);
		if (!error)
			error = vc_tables_append(tables, VC_TABLE_source_lists, &row);
		if (!error)
			CELL(tables, source_lists_frame, row) = frame + 1;
	}
	if (!error)
		error = vc_tables_append(tables, VC_TABLE_source_stacks, &row);
	if (error)
		return error;
	CELL(tables, source_stacks_first, row) = first;
	CELL(tables, source_stacks_count, row) = thread->pythons;
	*ret_stack_plus_one = row + 1;
	return 0;
}

/* ---- all ---- */

static int add_thread(struct vc_tables *tables, const struct vc_thread_stacks *stacks,
		      const struct vc_thread_stack *thread)
{
	uint64_t row, native = 0, python = 0;
	int error = add_native(tables, stacks, thread, &native);

	if (!error)
		error = add_python(tables, thread, &python);
	if (!error)
		error = vc_tables_append(tables, VC_TABLE_thread_stacks, &row);
	if (error)
		return error;
	CELL(tables, thread_stacks_thread, row) = thread->thread;
	CELL(tables, thread_stacks_stack, row) = native;
	CELL(tables, thread_stacks_python, row) = python;
	CELL(tables, thread_stacks_certain, row) = thread->guessed_from;
	CELL(tables, thread_stacks_module_object, row) = thread->module_object;
	error = vc_tables_put_text(tables, VC_COL_thread_stacks_name, row, thread->name);
	if (!error)
		error = vc_tables_put_text(tables, VC_COL_thread_stacks_state, row, thread->state);
	return error ? error : vc_tables_put_text(tables, VC_COL_thread_stacks_wait, row, thread->wait);
}

int vc_thread_stacks_add(const struct vc_thread_stacks *stacks, struct vc_tables *tables)
{
	uint64_t row;
	int error = 0;

	for (uint32_t i = 0; !error && i < stacks->threads; i++)
		error = add_thread(tables, stacks, &stacks->thread[i]);
	if (error || !stacks->missing[0])
		return error;
	error = vc_tables_append(tables, VC_TABLE_evidence, &row);
	if (error)
		return error;
	CELL(tables, evidence_value, row) = 1;
	error = vc_tables_put_text(tables, VC_COL_evidence_key, row, "threads_unseen");
	return error ? error : vc_tables_put_text(tables, VC_COL_evidence_detail, row, stacks->missing);
}
