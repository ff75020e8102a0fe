/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/settings.h"

#include <string.h>

/* environ is read, never written; unistd.h declares it only with GNU extensions. */
extern char **environ;

static const char *const names[VC_SETTINGS] = {
#define VC_SETTING(name, environment, option, argument, help) environment,
#include "formats/settings.def"
#undef VC_SETTING
};

/* Paths are the longest values; what does not fit is treated as not set. */
static char storage[VC_SETTINGS][1024];

static size_t length_of(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}

const char *vc_environment(const char *name)
{
	size_t length = length_of(name);

	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, name, length) && (*entry)[length] == '=')
			return *entry + length + 1;
	return NULL;
}

void vc_settings_read(void)
{
	for (size_t i = 0; i < VC_SETTINGS; i++) {
		const char *value = vc_environment(names[i]);
		size_t length = value ? length_of(value) : 0;

		if (length && length < sizeof(storage[i]))
			memcpy(storage[i], value, length + 1);
	}
}

const char *vc_setting(enum vc_setting setting)
{
	return storage[setting][0] ? storage[setting] : NULL;
}

bool vc_parse_number(const char *text, const char **end, uint64_t *ret)
{
	uint64_t value = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	if (at == text)
		return false;
	*end = at;
	*ret = value;
	return true;
}

bool vc_parse_bytes(const char *text, uint64_t *ret)
{
	static const struct {
		const char *unit;
		unsigned int shift;
	} units[] = {
#define VC_UNIT(text, shift) {text, shift},
#include "formats/units.def"
#undef VC_UNIT
	};
	const char *end;
	uint64_t value;

	if (!vc_parse_number(text, &end, &value))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit))
			continue;
		if (value > UINT64_MAX >> units[i].shift)
			return false;
		*ret = value << units[i].shift;
		return true;
	}
	return false;
}

bool vc_list_holds(const char *text, uint64_t number)
{
	if (!strcmp(text, "all"))
		return true;
	while (*text) {
		uint64_t item;

		if (!vc_parse_number(text, &text, &item))
			return false;
		if (item == number)
			return true;
		if (*text == ',')
			text++;
		else
			return false;
	}
	return false;
}
