/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's settings, read from the environment when the library is loaded, or earlier
 * if the constructor of another library allocates before that.
 *
 * Values are copied into static memory, so that a host that changes its environment later changes
 * nothing here. No malloc, no locale; reading is safe in any context after vc_settings_read.
 */
#ifndef VC_CAPTURE_INSIDE_SETTINGS_H
#define VC_CAPTURE_INSIDE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vc_setting {
#define VC_SETTING(name, environment, option, argument, help) VC_SETTING_##name,
#include "formats/settings.def"
#undef VC_SETTING
	VC_SETTINGS
};

/** Reads all settings. CTX: constructor. */
void vc_settings_read(void);
/** Value of a setting; NULL where it is not set or empty. */
const char *vc_setting(enum vc_setting setting);
/** Value of another environment variable as it was at load; NULL where it was not set. */
const char *vc_environment(const char *name);

/** "256MiB", "2GiB", "4096": bytes; false where it is not a size. */
bool vc_parse_bytes(const char *text, uint64_t *ret);
/** A decimal number that ends at `*end`; false where there is none or it does not fit. */
bool vc_parse_number(const char *text, const char **end, uint64_t *ret);
/** Whether the comma-separated list `text` ("0,3", "all") holds `number`. */
bool vc_list_holds(const char *text, uint64_t number);

#endif
