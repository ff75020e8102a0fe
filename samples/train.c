/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses device memory the way training does, without computing anything: parameters,
 * gradients and optimizer state that stay, activations that forward saves and backward frees.
 *
 *   train [--steps N] [--leak cache|losses|none] [--vary] [--oom] [--no-reports] [--nvtx]
 *
 *   --leak cache    a cache of activations that nobody clears: 51,200 bytes a step (the default)
 *   --leak losses   a list of losses, each keeping its 1,024 bytes
 *   --leak none     healthy
 *   --vary          sequences of varying length: the segments become fragmented
 *   --oom           the batch doubles every 100 steps until the device has no memory left
 *   --no-reports    the allocator does not tell a recorder about its blocks
 *   --nvtx          steps are told by NVTX marks instead of vramcore.h (where NVTX's header is found)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caching_allocator.h"
#include "capture/vramcore.h"
#include "driver.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif

#define LAYERS 12
#define WEIGHT_BYTES ((size_t)40 << 20)     /* parameters of a layer */
#define ACTIVATION_BYTES ((size_t)640 << 10) /* what a layer saves for backward, each of two */
#define CACHED_BYTES ((size_t)51200)
#define LOSS_BYTES ((size_t)1024)

struct options {
	unsigned long steps;
	enum { LEAK_NONE, LEAK_CACHE, LEAK_LOSSES } leak;
	bool vary, oom, reports, nvtx;
};

struct layer {
	device_pointer weight, gradient, momentum, variance;
	device_pointer saved_input, saved_output;
};

struct model {
	struct layer layer[LAYERS];
};

/* What the program holds on to: a growing list of device pointers. */
struct list {
	device_pointer *item;
	size_t used, room;
};

static struct list cache, losses;
static unsigned long remembered;

static device_pointer must_allocate(size_t bytes)
{
	device_pointer pointer = caching_allocate(bytes);

	if (!pointer) {
		size_t allocated, reserved;

		caching_totals(&allocated, &reserved);
		fprintf(stderr, "train: out of memory: asked for %zu bytes; %zu allocated, %zu reserved\n",
			bytes, allocated, reserved);
		exit(1);
	}
	return pointer;
}

static void list_add(struct list *list, device_pointer pointer)
{
	if (list->used == list->room) {
		list->room = list->room ? list->room * 2 : 1024;
		list->item = realloc(list->item, list->room * sizeof(*list->item));
		if (!list->item)
			exit(2);
	}
	list->item[list->used++] = pointer;
}

static void model_open(struct model *model)
{
	for (int i = 0; i < LAYERS; i++) {
		struct layer *layer = &model->layer[i];

		layer->weight = must_allocate(WEIGHT_BYTES);
		layer->gradient = must_allocate(WEIGHT_BYTES);
		layer->momentum = must_allocate(WEIGHT_BYTES);
		layer->variance = must_allocate(WEIGHT_BYTES);
	}
}

/* Keeps a copy of what a step saw. Nothing ever takes it out again: this is the leak. */
static __attribute__((noinline)) void cache_put(void)
{
	device_pointer copy = must_allocate(CACHED_BYTES); /* LEAK: cache_put */

	list_add(&cache, copy);
}

static __attribute__((noinline)) void remember(const struct options *options)
{
	if (options->leak != LEAK_CACHE)
		return;
	cache_put();
	remembered++; /* and no jump to cache_put: this function shall be seen in its stack */
}

static __attribute__((noinline)) void keep_loss(const struct options *options)
{
	device_pointer loss = must_allocate(LOSS_BYTES); /* LEAK: keep_loss */

	if (options->leak == LEAK_LOSSES)
		list_add(&losses, loss);
	else
		caching_free(loss);
}

static size_t batch_factor(const struct options *options, unsigned long step)
{
	return options->oom ? (size_t)1 << (step / 100 < 40 ? step / 100 : 40) : 1;
}

static size_t activation_bytes(const struct options *options, unsigned long step)
{
	size_t bytes = ACTIVATION_BYTES;

	if (options->vary) /* a sequence length that looks random and is the same in every run */
		bytes = bytes / 8 + step * 2654435761u % 64 * (bytes / 16);
	return bytes * batch_factor(options, step);
}

static __attribute__((noinline)) void forward(struct model *model, const struct options *options,
					      unsigned long step)
{
	size_t bytes = activation_bytes(options, step);

	vramcore_phase("forward");
	for (int i = 0; i < LAYERS; i++) {
		model->layer[i].saved_input = must_allocate(bytes);
		model->layer[i].saved_output = must_allocate(bytes);
	}
	remember(options);
	keep_loss(options);
}

static __attribute__((noinline)) void backward(struct model *model)
{
	vramcore_phase("backward");
	for (int i = LAYERS - 1; i >= 0; i--) {
		device_pointer scratch = must_allocate(ACTIVATION_BYTES / 2);

		caching_free(model->layer[i].saved_output);
		caching_free(model->layer[i].saved_input);
		caching_free(scratch);
	}
}

static void report_step(const struct options *options, unsigned long step)
{
#ifdef HAVE_NVTX
	if (options->nvtx) {
		char name[32];

		snprintf(name, sizeof(name), "step %lu", step);
		nvtxMarkA(name);
		return;
	}
#else
	(void)options;
#endif
	vramcore_step(step);
}

static void usage(void)
{
	fprintf(stderr, "usage: train [--steps N] [--leak cache|losses|none] [--vary] [--oom]"
			" [--no-reports] [--nvtx]\n");
	exit(64);
}

static void parse(struct options *options, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--steps")) {
			options->steps = strtoul(value, NULL, 10);
			i++;
		} else if (!strcmp(argv[i], "--leak")) {
			if (strcmp(value, "cache") && strcmp(value, "losses") && strcmp(value, "none"))
				usage();
			options->leak = value[0] == 'c' ? LEAK_CACHE :
					value[0] == 'l' ? LEAK_LOSSES : LEAK_NONE;
			i++;
		} else if (!strcmp(argv[i], "--vary")) {
			options->vary = true;
		} else if (!strcmp(argv[i], "--oom")) {
			options->oom = true;
		} else if (!strcmp(argv[i], "--no-reports")) {
			options->reports = false;
		} else if (!strcmp(argv[i], "--nvtx")) {
			options->nvtx = true;
		} else {
			usage();
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = {.steps = 50000, .leak = LEAK_CACHE, .reports = true};
	struct driver driver;
	struct model model;
	size_t allocated, reserved;

	parse(&options, argc, argv);
	driver_open(&driver);
	caching_open(&driver, options.reports);
	model_open(&model);
	for (unsigned long step = 1; step <= options.steps; step++) {
		forward(&model, &options, step);
		backward(&model);
		report_step(&options, step);
	}
	caching_totals(&allocated, &reserved);
	printf("train: %lu steps, %lu remembered, %zu bytes allocated, %zu bytes reserved\n",
	       options.steps, remembered, allocated, reserved);
	return 0;
}
