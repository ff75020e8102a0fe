/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loader knows, without asking the loader: objects and the symbols they define.
 *
 * dlsym and dlvsym are ours, and whatever the recorder asks of them goes through whoever else
 * stands in front of them. Where the function of one certain object is wanted its symbol table is
 * read instead. No allocation, no lock but the one of dl_iterate_phdr (vc_object_of), errno is kept.
 */
#ifndef VC_CAPTURE_INSIDE_LOADER_H
#define VC_CAPTURE_INSIDE_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * Compares without the C library: other libraries stand in front of its strcmp, and may not be ready
 * when the loader is asked for the first time.
 */
static inline bool vc_same_text(const char *left, const char *right)
{
	while (*left && *left == *right) {
		left++;
		right++;
	}
	return *left == *right;
}

/** A loaded object. `name` is the loader's own text and lives as long as the object. */
struct vc_object {
	uintptr_t bias;
	const ElfW(Dyn) *dynamic;
	const char *name;
};

/** The object that holds an address. CTX: anything but a signal handler. */
bool vc_object_of(const void *address, struct vc_object *ret);

/**
 * An object of the program's own namespace by its SONAME, from the list that the loader keeps for
 * debuggers. Takes no lock: for objects that are loaded at the start and stay.
 */
bool vc_object_named(const char *soname, struct vc_object *ret);

/** Whether the loader has `first` in front of `second` in the program's own namespace. */
bool vc_object_before(const struct vc_object *first, const struct vc_object *second);

/** Visits the objects of all other namespaces (dlmopen), where the C library tells of them (2.35). */
void vc_objects_elsewhere(void (*visit)(const struct vc_object *object));

/** Its SONAME, "" where it has none. */
const char *vc_object_soname(const struct vc_object *object);

/** Address of the function that it defines under this name, of whatever version; NULL: none. */
void *vc_object_symbol(const struct vc_object *object, const char *name);
/** The same for what is no function. */
void *vc_object_data(const struct vc_object *object, const char *name);

/**
 * The function that the objects behind the one that holds `own` define under this name, the nearest
 * first; where none does, that of the last one before it. NULL: none. CTX: as vc_object_of.
 */
void *vc_object_next_symbol(const void *own, const char *name);

/** Whether it is a driver: by its SONAME, wherever the file lies. */
bool vc_object_is_driver(const struct vc_object *object);

#endif
