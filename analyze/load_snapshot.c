/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a file as a model: a snapshot, a recording that is converted at its present moment, or a
 * snapshot of PyTorch. What it is, its first bytes say.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/load_torch.h"
#include "analyze/model.h"
#ifdef VC_HAVE_CONVERT
#include "formats/convert.h"
#endif
#include "formats/recording.h"
#include "formats/snapshot_read.h"
#include "formats/walk_read.h"

enum { PROBE_BYTES = 64 };

/** Opens a regular file without waiting for a device or pipe. */
static int open_regular(const char *path, int *ret, struct vc_problem *problem)
{
	struct stat status;
	struct vc_fault fault = {.error = VC_E_IO};
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (descriptor < 0) {
		fault.error = errno == ENOENT || errno == ENOTDIR ? VC_E_NOT_FOUND :
			      errno == EACCES || errno == EPERM ? VC_E_PERMISSION : VC_E_IO;
		fault.system_error = fault.error == VC_E_NOT_FOUND ? 0 : errno;
		return vc_problem_fault(problem, path, &fault);
	}
	if (!fstat(descriptor, &status) && S_ISREG(status.st_mode)) {
		*ret = descriptor;
		return 0;
	}
	close(descriptor);
	return vc_problem_set(problem, VC_E_NOT_OURS, path,
			      "give a snapshot (.vramcore), a recording (.vrec) or a PyTorch snapshot",
			      "not a regular file");
}

static int load_snapshot(int descriptor, const struct vc_wanted_columns *wanted,
			 struct vc_model *model)
{
	struct vc_snapshot_options options = {0};

	for (unsigned i = 0; wanted && i < VC_COLUMNS; i++)
		if (wanted->column[i])
			vc_snapshot_want(&options, (enum vc_column_index)i);
	return vc_snapshot_read_descriptor(descriptor, &options, &model->tables, &model->faults);
}

static int load_recording(int descriptor, const char *path, struct vc_model *model)
{
#ifdef VC_HAVE_CONVERT
	struct vc_convert_options options = {0};
	struct vc_recording_source source, walk;
	int error = vc_recording_source_descriptor(descriptor, &source), walk_descriptor;
	char walk_path[PATH_MAX];

	model->from_recording = true;
	if (error)
		return error;
	walk_descriptor = vc_walk_find(path, vc_recording_walk(&source, 0), walk_path,
				       sizeof(walk_path));
	if (walk_descriptor >= 0 && vc_recording_source_descriptor(walk_descriptor, &walk) == 0)
		options.walk = &walk;
	error = vc_convert(&source, &options, &model->tables, &model->faults);
	if (walk_descriptor >= 0)
		close(walk_descriptor);
	return error;
#else
	(void)path;
	(void)descriptor;
	(void)model;
	return VC_E_NOT_OURS;
#endif
}

int vc_model_open(const char *path, const struct vc_wanted_columns *wanted,
		  const struct vc_limits *limits, struct vc_model *ret,
		  struct vc_problem *problem)
{
	struct vc_model model = {.path = path};
	unsigned char start[PROBE_BYTES] = {0};
	ssize_t length;
	int descriptor = -1, error;

	error = open_regular(path, &descriptor, problem);
	if (error)
		return error;
	length = pread(descriptor, start, sizeof(start), 0);
	if (length > 0 && vc_torch_is(start, (size_t)length)) {
		model.imported = true;
		error = vc_torch_load(descriptor, path, wanted, limits, &model.tables, problem);
		close(descriptor);
		if (!error)
			*ret = model;
		return error;
	}
	if (length >= 16 && !memcmp(start, VC_RECORDING_MAGIC, 16))
		error = load_recording(descriptor, path, &model);
	else
		error = load_snapshot(descriptor, wanted, &model);
	close(descriptor);
	if (!error) {
		*ret = model;
		return 0;
	}
	if (model.faults.count) {
		uint64_t last = model.faults.count < VC_FAULTS_KEPT ? model.faults.count :
								     VC_FAULTS_KEPT;
		struct vc_fault fault = model.faults.kept[last - 1];

		return vc_problem_fault(problem, path, &fault);
	}
	return vc_problem_fault(problem, path, &(struct vc_fault){.error = error});
}
