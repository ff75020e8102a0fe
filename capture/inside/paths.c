/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/paths.h"

#include <string.h>

#include "capture/inside/space.h"
#include "capture/inside/store.h"
#include "capture/inside/store_parts.h"

#define PLACES (1u << 16) /* a power of 2 */
#define PROBES 128u

struct place {
	uint64_t object;
	uint64_t path; /* string */
};

/* What was said last of each object; a new recording begins without. */
static struct place *places;

void vc_paths_forget(void)
{
	places = NULL;
}

static struct place *place_of(uint64_t object)
{
	uint64_t at = (object >> 4) * 0x9e3779b97f4a7c15u >> 32;

	if (!places)
		places = vc_space_private(PLACES * sizeof(*places));
	for (uint32_t probe = 0; places && probe < PROBES; probe++) {
		struct place *place = &places[(at + probe) & (PLACES - 1)];

		if (!place->object || place->object == object)
			return place;
	}
	return NULL;
}

void vc_paths_note(const void *object, const char *path, size_t length, const char *class)
{
	struct vc_path_row image = {.object = (uint64_t)(uintptr_t)object};
	struct vc_instant now;
	struct place *place;

	if (!vc_store_ready())
		return;
	place = place_of(image.object);
	image.path = vc_store_string(path, length);
	if (!place || !image.path || place->path == image.path)
		return;
	vc_store_instant(&now);
	image.number = now.number;
	image.class = vc_store_string(class, strlen(class));
	if (vc_names_row_add(VC_REC_PATHS, &image, sizeof(image)) == UINT32_MAX)
		return;
	place->object = image.object;
	place->path = image.path;
}
