/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of recurrent weights: each parameter has a place of its own, and all are used. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cudnnCreateRNNDescriptor(void **ret);
int cudnnDestroyRNNDescriptor(void *network);
int cudnnCreateTensorDescriptor(void **ret);
int cudnnGetTensorNdDescriptor(void *shape, int wanted, int *type, int *count, int *size,
			       int *step);
int cudnnSetRNNDescriptor_v8(void *network, int algorithm, int mode, int bias, int direction,
			     int input_mode, int type, int precision, int math, int32_t input,
			     int32_t hidden, int32_t projected, int32_t layers, void *dropout,
			     uint32_t flags);
int cudnnGetRNNWeightSpaceSize(void *handle, void *network, size_t *ret);
int cudnnGetRNNWeightParams(void *handle, void *network, int32_t layer, size_t size,
			    const void *weights, int32_t which, void *matrix_shape, void **matrix,
			    void *bias_shape, void **bias);

static int wrong;

static void expect(int condition, const char *what, long value)
{
	if (condition)
		return;
	printf("%s: %ld\n", what, value);
	wrong++;
}

/* Marks the elements of one part; none may be marked already. */
static void mark(unsigned char *marks, const float *weights, void *shape, const float *part)
{
	int type, count = 0, size[8] = { 0 }, step[8];
	long elements;

	cudnnGetTensorNdDescriptor(shape, 8, &type, &count, size, step);
	expect((count == 0) == (part == NULL), "a part without sizes", count);
	if (!part)
		return;
	elements = (long)size[0] * size[1] * size[2];
	for (long i = 0; i < elements; i++)
		expect(!marks[part - weights + i]++, "twice", part - weights + i);
}

/* As worked out by hand: gates x hidden x (input + projected + 2), and the projection. */
static void check(int mode, int gates, int directions, int layers, int input, int hidden,
		  int projected, int biased)
{
	size_t bytes = 0, elements = 0;
	unsigned char *marks;
	float *weights;
	void *network, *matrix_shape, *bias_shape, *matrix, *bias;
	int out = projected ? projected : hidden;

	cudnnCreateRNNDescriptor(&network);
	cudnnCreateTensorDescriptor(&matrix_shape);
	cudnnCreateTensorDescriptor(&bias_shape);
	cudnnSetRNNDescriptor_v8(network, 0, mode, biased ? 2 : 0, directions - 1, 0, 0, 0, 0,
				 input, hidden, out, layers, NULL, 0);
	for (int i = 0; i < layers; i++)
		elements += (size_t)directions *
			    ((size_t)gates * (size_t)hidden *
				     (size_t)((i ? out * directions : input) + out +
					      (biased ? 2 : 0)) +
			     (projected ? (size_t)(projected * hidden) : 0));
	cudnnGetRNNWeightSpaceSize(NULL, network, &bytes);
	expect(bytes == 4 * elements, "bytes", (long)bytes);
	weights = malloc(bytes);
	marks = calloc(elements, 1);
	for (int layer = 0; layer < layers * directions; layer++)
		for (int part = 0; part < 2 * gates + !!projected; part++) {
			cudnnGetRNNWeightParams(NULL, network, layer, bytes, weights, part,
						matrix_shape, &matrix, bias_shape, &bias);
			mark(marks, weights, matrix_shape, matrix);
			mark(marks, weights, bias_shape, bias);
		}
	for (size_t i = 0; i < elements; i++)
		expect(marks[i] == 1, "not used", (long)i);
	free(marks);
	free(weights);
	cudnnDestroyRNNDescriptor(network);
}

int main(void)
{
	check(2, 4, 1, 2, 5, 7, 0, 1);
	check(2, 4, 2, 3, 5, 7, 3, 1);
	check(3, 3, 2, 2, 4, 6, 0, 1);
	check(0, 1, 1, 2, 3, 4, 0, 0);
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
