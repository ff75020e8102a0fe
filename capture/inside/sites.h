/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Totals per site and per device, which go on when nothing else fits any more.
 *
 * A site is a stack, a Python stack, a device and a kind. At most VC_SITES_MAX have a row; what
 * comes after is added to row 0, "other". A device's highest moment begins an epoch whenever its
 * live bytes pass those at the begin of the last epoch by more than 1 %; a site notes its own live
 * bytes of that moment at its first change after it (see struct vc_site). Any thread, any signal
 * handler.
 */
#ifndef VC_CAPTURE_INSIDE_SITES_H
#define VC_CAPTURE_INSIDE_SITES_H

#include <stdint.h>

#include "formats/recording.h"

#define VC_SITES_MAX 65536u
#define VC_SITE_OTHER 0u

struct vc_site_key {
	uint32_t stack, python;
	uint16_t device_plus_one;
	uint8_t kind;
};

/** What a birth or death changes. */
struct vc_site_change {
	uint64_t bytes, step;
	uint16_t device_plus_one;
	uint8_t kind;
};

/** Maps the private hash and makes the row "other". */
void vc_sites_start(void);
/** Row of a site, made when new. */
uint32_t vc_sites_row(const struct vc_site_key *key);
void vc_sites_born(uint32_t row, const struct vc_site_change *change);
void vc_sites_died(uint32_t row, const struct vc_site_change *change);

/** Live bytes of blocks on a device. */
uint64_t vc_sites_blocks(unsigned int device);

struct vc_site_total {
	uint64_t bytes, count, row;
};
/** The sites of a device with the most live bytes, largest first; gives their number. */
unsigned vc_sites_largest(uint16_t device_plus_one, struct vc_site_total *ret, unsigned max);
/** In a forked child. */
void vc_sites_forget(void);

#endif
