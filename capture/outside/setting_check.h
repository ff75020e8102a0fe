/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the recorder will understand a setting's value: said before the program starts. */
#ifndef VC_CAPTURE_OUTSIDE_SETTING_CHECK_H
#define VC_CAPTURE_OUTSIDE_SETTING_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/**
 * What a value of a setting (its option's name, as in settings.def) should look like, where `value`
 * does not; NULL where it is fine. Static text.
 */
const char *vc_setting_complaint(const char *option, const char *value);

/** A size such as "2GiB" (formats/units.def). False: it is none, and *ret is untouched. */
bool vc_setting_bytes(const char *text, uint64_t *ret);

#endif
