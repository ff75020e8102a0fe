/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of handles.
 *
 * A handle is a number that is no valid address: a mark, the object's type, a generation and an
 * index into chunks of objects. Looking it up never reads what it might point to, and a handle of
 * a dead object never equals that of a living one.
 */
#include "sim.h"

#define MARK 0x5cull
#define CHUNK 1024u
#define CHUNKS 4096u

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct sim_object *) chunks[CHUNKS];
static struct sim_object *free_objects;
static uint32_t object_count;

/*
 * Two copies of this library in one process give out different handles, as two real ones would:
 * generations begin with a number that only the place of this one gives.
 */
static uint32_t first_generation(void)
{
	return (uint32_t)((uintptr_t)chunks >> 12) & 0xfffff;
}

static uint64_t make_handle(const struct sim_object *object)
{
	return MARK << 56 | (uint64_t)object->type << 48 |
	       (uint64_t)(object->generation & 0xfffff) << 28 | (uint64_t)object->index << 4;
}

static struct sim_object *new_object(void)
{
	uint32_t chunk = object_count / CHUNK;
	struct sim_object *objects;

	if (chunk >= CHUNKS)
		return NULL;
	objects = atomic_load(&chunks[chunk]);
	if (!objects) {
		objects = sim_pages(CHUNK * sizeof(*objects));
		if (!objects)
			return NULL;
		atomic_store(&chunks[chunk], objects);
	}
	objects += object_count % CHUNK;
	objects->index = object_count++;
	objects->generation = first_generation();
	return objects;
}

struct sim_object *sim_object_create(enum sim_object_type type)
{
	struct sim_object *object;

	pthread_mutex_lock(&registry_lock);
	object = free_objects;
	if (object)
		free_objects = object->next;
	else
		object = new_object();
	if (object) {
		struct sim_object fresh = { .index = object->index,
					    .generation = object->generation + 1,
					    .type = type,
					    .row = SIM_NO_ROW };

		*object = fresh;
		atomic_store_explicit(&object->tag, make_handle(object), memory_order_release);
	}
	pthread_mutex_unlock(&registry_lock);
	return object;
}

void sim_object_destroy(struct sim_object *object)
{
	sim_judge_remove(object->row);
	pthread_mutex_lock(&registry_lock);
	atomic_store_explicit(&object->tag, 0, memory_order_release);
	object->row = SIM_NO_ROW;
	object->next = free_objects;
	free_objects = object;
	pthread_mutex_unlock(&registry_lock);
}

struct sim_object *sim_object_find(enum sim_object_type type, uint64_t handle)
{
	uint32_t index = (uint32_t)(handle >> 4) & 0xffffff;
	struct sim_object *object;

	if (handle >> 56 != MARK || (handle >> 48 & 0xff) != type || index >= CHUNK * CHUNKS)
		return NULL;
	object = atomic_load_explicit(&chunks[index / CHUNK], memory_order_acquire);
	if (!object)
		return NULL;
	object += index % CHUNK;
	if (atomic_load_explicit(&object->tag, memory_order_acquire) != handle)
		return NULL;
	return object;
}

void sim_object_each(enum sim_object_type type, void (*visit)(struct sim_object *, void *),
		     void *argument)
{
	for (uint32_t i = 0; i < CHUNK * CHUNKS; i++) {
		struct sim_object *objects = atomic_load(&chunks[i / CHUNK]);

		if (!objects)
			break;
		if (atomic_load(&objects[i % CHUNK].tag) && objects[i % CHUNK].type == type)
			visit(&objects[i % CHUNK], argument);
	}
}
