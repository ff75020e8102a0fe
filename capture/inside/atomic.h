/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic access to plain fields of the recording and of private memory.
 *
 * The layout structs are shared with readers that know no atomics, so their fields are plain; the
 * writer goes through these, which never lock. Usable in a hook and in a signal handler.
 */
#ifndef VC_CAPTURE_INSIDE_ATOMIC_H
#define VC_CAPTURE_INSIDE_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t vc_get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline uint64_t vc_get_acquire(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static inline void vc_put(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}
static inline void vc_put_release(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}
/** Adds and gives the value before. */
static inline uint64_t vc_add(uint64_t *word, uint64_t by)
{
	return __atomic_fetch_add(word, by, __ATOMIC_SEQ_CST);
}
/** Replaces *expected by `value`; on failure *expected is what is there. */
static inline bool vc_swap_if(uint64_t *word, uint64_t *expected, uint64_t value)
{
	return __atomic_compare_exchange_n(word, expected, value, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_ACQUIRE);
}
/** Copies 64-bit words one by one, so that each is whole. */
static inline void vc_put_words(uint64_t *to, const uint64_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		vc_put(&to[i], from[i]);
}
/** The same for bytes: the rest of the last word is zero. */
static inline void vc_put_bytes(uint64_t *to, const void *bytes, size_t length)
{
	for (size_t at = 0; at < length; at += 8) {
		uint64_t word = 0;

		memcpy(&word, (const char *)bytes + at, length - at < 8 ? length - at : 8);
		vc_put(to++, word);
	}
}
static inline void vc_get_words(uint64_t *to, const uint64_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] = vc_get(&from[i]);
}
/** Well mixed hash of one word. */
static inline uint64_t vc_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

#endif
