/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN's recurrent networks. Weights are one flat block, laid out truly, since PyTorch takes the
 * address of every parameter from it: pseudo-layer by pseudo-layer (a layer's directions one after
 * the other); in each the matrices of the input, then the recurrent ones, then the projection, then
 * the biases in the same order.
 */
#include "cudnn_rnn.h"

enum { SUCCESS = 0, BAD_PARAMETER = STUB_REFUSAL > 1000 ? 2000 : 3 };
enum { TYPE_FLOAT = 0, TYPE_DOUBLE = 1, TYPE_HALF = 2, TYPE_BFLOAT16 = 9 };
enum { MODE_LSTM = 2, MODE_GRU = 3, NO_BIAS = 0, BIDIRECTIONAL = 1, TRAINING = 1 };

int stub_cudnnSetRNNDescriptor_v8(struct network *network, int algorithm, int mode, int bias,
				  int direction, int input_mode, int type, int precision,
				  int math, int32_t input, int32_t hidden, int32_t projected,
				  int32_t layers, void *dropout, uint32_t flags)
{
	(void)algorithm, (void)input_mode, (void)precision, (void)math, (void)dropout, (void)flags;
	if (!network || input <= 0 || hidden <= 0 || layers <= 0)
		return BAD_PARAMETER;
	network->mode = mode;
	network->biased = bias != NO_BIAS;
	network->directions = direction == BIDIRECTIONAL ? 2 : 1;
	network->layers = layers;
	network->type = type;
	network->input = (size_t)input;
	network->hidden = (size_t)hidden;
	network->projected = projected > 0 ? (size_t)projected : (size_t)hidden;
	return SUCCESS;
}

static size_t element_size(const struct network *network)
{
	if (network->type == TYPE_DOUBLE)
		return 8;
	return network->type == TYPE_HALF || network->type == TYPE_BFLOAT16 ? 2 : 4;
}

static size_t gates(const struct network *network)
{
	return network->mode == MODE_LSTM ? 4 : network->mode == MODE_GRU ? 3 : 1;
}

/* Columns of the input matrices: the first layer takes the network's input, others that below. */
static size_t input_columns(const struct network *network, int32_t layer)
{
	return layer < network->directions ? network->input :
					     network->projected * (size_t)network->directions;
}

static bool projects(const struct network *network)
{
	return network->projected != network->hidden;
}

/* Elements of a pseudo-layer's matrices, and of all of it. */
static size_t matrices(const struct network *network, int32_t layer)
{
	size_t columns = input_columns(network, layer) + network->projected;
	size_t projection = projects(network) ? network->projected * network->hidden : 0;

	return gates(network) * network->hidden * columns + projection;
}

static size_t elements(const struct network *network, int32_t layer)
{
	size_t biases = network->biased ? 2 * gates(network) * network->hidden : 0;

	return matrices(network, layer) + biases;
}

int stub_cudnnGetRNNWeightSpaceSize(void *handle, const struct network *network, size_t *ret)
{
	size_t total = 0;

	(void)handle;
	if (!network || !ret)
		return BAD_PARAMETER;
	for (int32_t i = 0; i < network->layers * network->directions; i++)
		total += elements(network, i);
	*ret = total * element_size(network);
	return SUCCESS;
}

/* How large they really are is not documented; the sizes here are small and not 0. */
int stub_cudnnGetRNNTempSpaceSizes(void *handle, const struct network *network, int mode,
				   void *input, size_t *workspace, size_t *reserve)
{
	(void)handle, (void)input;
	if (!network || !workspace)
		return BAD_PARAMETER;
	*workspace = 65536;
	if (reserve)
		*reserve = mode == TRAINING ? 65536 : 0;
	return SUCCESS;
}

/* A matrix is one of one, rows, columns; nothing there has no dimensions. */
static void describe(struct shape *shape, int type, size_t rows, size_t columns)
{
	if (!shape)
		return;
	*shape = (struct shape){ .type = type,
				 .count = rows ? 3 : 0,
				 .size = { 1, (int)rows, (int)columns },
				 .step = { (int)(rows * columns), (int)columns, 1 } };
}

int stub_cudnnGetRNNWeightParams(void *handle, const struct network *network, int32_t layer,
				 size_t size, const void *weights, int32_t which,
				 struct shape *matrix_shape, void **matrix,
				 struct shape *bias_shape, void **bias)
{
	size_t first = 0, input, recurrent, element, gate;
	void *unwanted;

	(void)handle, (void)size;
	matrix = matrix ? matrix : &unwanted;
	bias = bias ? bias : &unwanted;
	if (!network || layer < 0 || which < 0 ||
	    layer >= network->layers * network->directions)
		return BAD_PARAMETER;
	for (int32_t i = 0; i < layer; i++)
		first += elements(network, i);
	element = element_size(network);
	input = network->hidden * input_columns(network, layer);
	recurrent = network->hidden * network->projected;
	gate = (size_t)which;
	*matrix = *bias = NULL;
	describe(matrix_shape, network->type, 0, 0);
	describe(bias_shape, network->type, 0, 0);
	if (gate >= 2 * gates(network)) {
		if (!projects(network))
			return SUCCESS;
		describe(matrix_shape, network->type, network->projected, network->hidden);
		*matrix = (char *)weights +
			  (first + gates(network) * (input + recurrent)) * element;
		return SUCCESS;
	}
	if (gate < gates(network)) {
		describe(matrix_shape, network->type, network->hidden, input / network->hidden);
		*matrix = (char *)weights + (first + gate * input) * element;
	} else {
		describe(matrix_shape, network->type, network->hidden, network->projected);
		*matrix = (char *)weights + (first + gates(network) * input +
					     (gate - gates(network)) * recurrent) * element;
	}
	if (network->biased) {
		describe(bias_shape, network->type, network->hidden, 1);
		*bias = (char *)weights +
			(first + matrices(network, layer) + gate * network->hidden) * element;
	}
	return SUCCESS;
}
