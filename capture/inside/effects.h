/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hooked call does to the map of memory: one pair of functions for each effect of hooks.def.
 *
 * A wrapper fills a struct vc_call with what its row says, calls vc_before_EFFECT, the driver, and
 * vc_after_EFFECT with the result. Both take the guard themselves, keep errno, never touch the
 * program's arguments beyond reading what the driver wrote, and never change the result. They
 * follow the rules of store.h: callable on any thread at the same time and from signal handlers.
 */
#ifndef VC_CAPTURE_INSIDE_EFFECTS_H
#define VC_CAPTURE_INSIDE_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/cuda_abi.h"
#include "capture/inside/store.h"
#include "capture/inside/rows.h"
#include "capture/inside/stack.h"

/** Records claimed for one call: the first in place, more in memory of their own (mmap). */
struct vc_claims {
	uint32_t count, capacity; /* capacity 0: `first` is used */
	struct vc_claim *more;
	struct vc_claim first[1];
};

/** A call under way. The upper part is filled by the row, zero means none. */
struct vc_call {
	enum vc_row row;
	uint8_t kind;             /* of what is made */
	uint8_t out_bytes;
	uint8_t pitch_bytes;
	bool no_device;           /* what is made belongs to no device */
	uint32_t references;      /* of what is made */
	int device_plus_one;
	const void *out;          /* where the driver writes the address or handle */
	const void *pitch;        /* where it writes the pitch */
	uint64_t address;         /* of what is freed or changed; of what is made when out is NULL */
	uint64_t kinds;           /* VC_KINDS of what may be freed */
	uint64_t size, width, height, offset;
	uint64_t stream;
	uint64_t pool;            /* handle of the pool, graph or green context it is made in */
	uint64_t handle;          /* physical handle of a mapping */
	const struct vc_cu_location *location;
	struct vc_registers registers; /* of the caller */

	/* from here on the effects' own */
	uint32_t stack, python;
	uint32_t record;
	uint64_t module_object;
	uint64_t parent;
	bool outer;               /* entered from outside the recorder */
	bool first;               /* this call started the recording */
	bool begun;               /* there was a recording before the call: `record` is for it */
	struct vc_claims *claims; /* beside, so that filling the call costs little */
};

#define VC_HANDLE(pointer) ((uint64_t)(uintptr_t)(pointer))
/* `_ptsz` functions mean the thread's own stream by 0. */
#define VC_THREAD_STREAM(stream) ((stream) ? VC_HANDLE(stream) : VC_CU_STREAM_PER_THREAD)
#define VC_OUT(pointer) .out = (pointer), .out_bytes = sizeof(*(pointer))
#define VC_PITCH(pointer) .pitch = (pointer), .pitch_bytes = sizeof(*(pointer))

/* A node of a graph that allocates; `allocation` is NULL where it does not. */
#define VC_NODE(allocation, graph)                                                                 \
	.out = (allocation) ? &(allocation)->pointer : NULL, .out_bytes = sizeof(vc_cu_pointer),   \
	.kind = (allocation) ? VC_KIND_GRAPH_ALLOCATION : VC_KIND_UNKNOWN,                         \
	.size = (allocation) ? (allocation)->bytes : 0,                                            \
	.location = (allocation) ? &(allocation)->pool.location : NULL, .pool = VC_HANDLE(graph)

/** What cuMemFree and cuMemFreeAsync take, beside allocations of graphs: those stay. */
#define VC_KINDS_FREEABLE                                                                          \
	(VC_KINDS(VC_KIND_LINEAR) | VC_KINDS(VC_KIND_PITCHED) | VC_KINDS(VC_KIND_MANAGED) |         \
	 VC_KINDS(VC_KIND_ASYNC) | VC_KINDS(VC_KIND_IMPORT) | VC_KINDS(VC_KIND_MAPPING))
/** What cuMemMap and cuMemRelease take. */
#define VC_KINDS_HANDLES                                                                           \
	(VC_KINDS(VC_KIND_HANDLE) | VC_KINDS(VC_KIND_HOST_HANDLE) | VC_KINDS(VC_KIND_IMPORT) |      \
	 VC_KINDS(VC_KIND_MULTICAST))

#define VC_EFFECT(name)                                                                            \
	void vc_before_##name(struct vc_call *call);                                               \
	void vc_after_##name(struct vc_call *call, vc_cu_result result);

VC_EFFECT(ALLOCATE)         /* a record is born at *out, or at address */
VC_EFFECT(FREE)             /* the record at address dies */
VC_EFFECT(HANDLE_RELEASE)   /* a handle loses a reference */
VC_EFFECT(HANDLE_RETAIN)    /* a handle gains a reference */
VC_EFFECT(MAP)              /* a mapping is born, its handle gains a reference */
VC_EFFECT(UNMAP)            /* the mappings of a range die, their handles lose references */
VC_EFFECT(BIND)             /* a binding is born, the handle of its memory gains a reference */
VC_EFFECT(UNBIND)           /* bindings of a range die, their handles lose references */
VC_EFFECT(EXPORT)           /* another process may hold what is ours from now on */
VC_EFFECT(CAPTURE_BEGIN)    /* a stream is captured: a graph is born, if it is not `address` */
VC_EFFECT(CAPTURE_END)      /* the graph is the program's, or dies with what it was given */
VC_EFFECT(GRAPH_NODE)       /* a node, which may be an allocation */
VC_EFFECT(GRAPH_DESTROY)    /* a graph or an executable dies, with the last the allocations */
VC_EFFECT(GREEN_CREATE)     /* a green context is born, and the device's own gains a reference */
VC_EFFECT(GREEN_DESTROY)    /* both lose it */
VC_EFFECT(CONTEXT_CREATE)   /* a context is born and current */
VC_EFFECT(CONTEXT_DESTROY)  /* it dies with all it holds */
VC_EFFECT(CONTEXT_ATTACH)   /* it gains a reference */
VC_EFFECT(CONTEXT_DETACH)   /* it loses one, and dies with the last */
VC_EFFECT(CONTEXT_CURRENT)  /* it is current to this thread */
VC_EFFECT(CONTEXT_POP)      /* what is current to this thread is not known any more */
VC_EFFECT(PRIMARY_RETAIN)   /* a device's own context is born or gains a reference */
VC_EFFECT(PRIMARY_RELEASE)  /* it loses one, and dies with the last */
VC_EFFECT(PRIMARY_RESET)    /* it dies */
#undef VC_EFFECT

/** A new recording begins: nothing is known of contexts made before. */
void vc_context_forget(void);
void vc_graph_forget(void);

/* ---- shared by the effects (effects.c) ---- */

/** Enters the guard; starts the recording if need be and takes the stack. False: not recording. */
bool vc_call_enter(struct vc_call *call, bool start);
/** Takes the stacks into call->stack and call->python if that is not done yet. */
void vc_call_stack(struct vc_call *call);
/**
 * Enters after a call that allocates. The recording starts here with the first one that worked or
 * failed for want of memory, and with no other: a child that the driver refuses leaves nothing.
 */
bool vc_call_enter_after(struct vc_call *call, vc_cu_result result);
void vc_call_leave(struct vc_call *call);
/** Fills what is known of a birth before the driver is asked. */
void vc_call_birth(const struct vc_call *call, struct vc_birth *ret);
/** Of an allocation on a stream that is captured: it is a node of a graph. */
/** Whether any stream is captured, as far as is known. */
bool vc_graph_captures(void);
void vc_graph_captured(const struct vc_call *call, struct vc_birth *birth);
/** What is common to the deaths of one call. */
void vc_call_death(const struct vc_call *call, struct vc_death *ret);
/** What the driver wrote at `out` (4 or 8 bytes); 0 where there is nothing. */
uint64_t vc_call_out(const void *out, unsigned int bytes);
/** After an allocating call went well. */
void vc_call_succeeded(void);
/** After it did not: its record (or none) is given up; see vc_failure_note. */
void vc_call_failed(struct vc_call *call, vc_cu_result result, uint64_t requested, int device);
/** After a call that gives memory back did not go well. */
void vc_call_refused(struct vc_call *call, vc_cu_result result);

/** Claims `claim` (found before) and keeps it for commit or undo; false: gone, or no memory. */
bool vc_claims_add(struct vc_claims *claims, struct vc_claim *claim);
void vc_claims_commit(struct vc_claims *claims, const struct vc_death *death);
void vc_claims_undo(struct vc_claims *claims);
struct vc_claim *vc_claims_at(struct vc_claims *claims, uint32_t number);

#endif
