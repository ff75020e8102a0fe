/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent networks by cuDNN's older functions, where a network does not know its input: each call
 * brings a descriptor of it, of batch, width and 1.
 */
#include "cudnn_rnn.h"

enum { SUCCESS = 0, BAD_PARAMETER = 3 };
enum { BIDIRECTIONAL = 1, TRAINING = 1 };

int stub_cudnnSetRNNDescriptor_v6(void *handle, struct network *network, int hidden, int layers,
				  void *dropout, int input_mode, int direction, int mode,
				  int algorithm, int type)
{
	(void)handle, (void)dropout, (void)input_mode, (void)algorithm;
	if (!network || hidden <= 0 || layers <= 0)
		return BAD_PARAMETER;
	*network = (struct network){ .mode = mode,
				     .biased = true,
				     .directions = direction == BIDIRECTIONAL ? 2 : 1,
				     .layers = layers,
				     .type = type,
				     .hidden = (size_t)hidden,
				     .projected = (size_t)hidden };
	return SUCCESS;
}

int stub_cudnnSetRNNProjectionLayers(void *handle, struct network *network, int projected, int out)
{
	(void)handle, (void)out;
	if (!network || projected <= 0)
		return BAD_PARAMETER;
	network->projected = (size_t)projected;
	return SUCCESS;
}

/* The network with that input, its weights of that type. */
static struct network complete(const struct network *network, const struct shape *input, int type)
{
	struct network ret = *network;

	ret.input = (size_t)input->size[1];
	ret.type = type;
	return ret;
}

int stub_cudnnGetRNNParamsSize(void *handle, const struct network *network,
			       const struct shape *input, size_t *ret, int type)
{
	struct network whole;

	if (!network || !input || !ret)
		return BAD_PARAMETER;
	whole = complete(network, input, type);
	return stub_cudnnGetRNNWeightSpaceSize(handle, &whole, ret);
}

int stub_cudnnGetRNNLinLayerMatrixParams(void *handle, const struct network *network, int layer,
					 const struct shape *input, const struct shape *all,
					 const void *weights, int which, struct shape *shape,
					 void **ret)
{
	struct network whole;

	if (!network || !input || !all || !ret)
		return BAD_PARAMETER;
	whole = complete(network, input, all->type);
	return stub_cudnnGetRNNWeightParams(handle, &whole, layer, 0, weights, which, shape, ret,
					    NULL, NULL);
}

int stub_cudnnGetRNNLinLayerBiasParams(void *handle, const struct network *network, int layer,
				       const struct shape *input, const struct shape *all,
				       const void *weights, int which, struct shape *shape,
				       void **ret)
{
	struct network whole;

	if (!network || !input || !all || !ret)
		return BAD_PARAMETER;
	whole = complete(network, input, all->type);
	return stub_cudnnGetRNNWeightParams(handle, &whole, layer, 0, weights, which, NULL, NULL,
					    shape, ret);
}

int stub_cudnnGetRNNWorkspaceSize(void *handle, const struct network *network, int length,
				  const struct shape *const *inputs, size_t *ret)
{
	(void)length, (void)inputs;
	return stub_cudnnGetRNNTempSpaceSizes(handle, network, TRAINING, NULL, ret, NULL);
}

int stub_cudnnGetRNNTrainingReserveSize(void *handle, const struct network *network, int length,
					const struct shape *const *inputs, size_t *ret)
{
	size_t workspace;

	(void)length, (void)inputs;
	return stub_cudnnGetRNNTempSpaceSizes(handle, network, TRAINING, NULL, &workspace, ret);
}
