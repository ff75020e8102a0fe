/* SPDX-License-Identifier: Apache-2.0 */
/* What the two interfaces of cuDNN's recurrent networks share. */
#ifndef SIMTORCH_CUDNN_RNN_H
#define SIMTORCH_CUDNN_RNN_H

#include "stub.h"

/** A descriptor of a tensor or a filter. */
struct shape {
	int type;
	int format;
	int count;
	int size[8];
	int step[8];
};

struct network {
	int mode;
	bool biased;
	int directions;
	int layers;
	int type;
	size_t input, hidden, projected; /* projected equals hidden without a projection */
};

int stub_cudnnGetRNNWeightSpaceSize(void *handle, const struct network *network, size_t *ret);
int stub_cudnnGetRNNTempSpaceSizes(void *handle, const struct network *network, int mode,
				   void *input, size_t *workspace, size_t *reserve);
int stub_cudnnGetRNNWeightParams(void *handle, const struct network *network, int32_t layer,
				 size_t size, const void *weights, int32_t which,
				 struct shape *matrix_shape, void **matrix,
				 struct shape *bias_shape, void **bias);

#endif
