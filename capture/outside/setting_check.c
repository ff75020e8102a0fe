/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/setting_check.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 64

/* A decimal number at *text; moves past it. */
static bool take_number(const char **text)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	strtoull(*text, &end, 10);
	*text = end;
	return errno == 0;
}

static bool one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(text, *words))
			return true;
	return false;
}

static bool number_list(const char *text, int most)
{
	for (int count = 0; count < most; count++) {
		if (!take_number(&text))
			return false;
		if (!*text)
			return true;
		if (*text++ != ',')
			return false;
	}
	return false;
}

static bool number(const char *text)
{
	return take_number(&text) && !*text;
}

bool vc_setting_bytes(const char *text, uint64_t *ret)
{
	static const struct {
		const char *text;
		unsigned int shift;
	} units[] = {
#define VC_UNIT(unit_text, shift) {unit_text, shift},
#include "formats/units.def"
#undef VC_UNIT
	};
	uint64_t value = strtoull(text, NULL, 10);

	if (!take_number(&text))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(text, units[i].text) || value > UINT64_MAX >> units[i].shift)
			continue;
		*ret = value << units[i].shift;
		return true;
	}
	return false;
}

static bool bytes(const char *text)
{
	uint64_t size;

	return vc_setting_bytes(text, &size);
}

static bool steps(const char *text)
{
	return number_list(text, STEPS_MAX);
}

static bool ranks(const char *text)
{
	return !strcmp(text, "all") || number_list(text, 4096);
}

static bool every(const char *text)
{
	static const char *const units[] = {"steps", "step", "s", "m", "h", NULL};

	return strtoull(text, NULL, 10) > 0 && take_number(&text) && one_of(text, units);
}

static bool used(const char *text)
{
	const char *end = text;

	if (take_number(&end) && !strcmp(end, "%"))
		return atoi(text) >= 1 && atoi(text) <= 100 && end - text <= 3;
	return bytes(text);
}

static bool signal_name(const char *text)
{
	static const char *const names[] = {"HUP",  "INT",  "QUIT", "USR1",  "USR2",
					    "TERM", "ALRM", "WINCH", NULL};

	if (number(text))
		return atoi(text) >= 1 && atoi(text) <= 64 && strlen(text) <= 2;
	return one_of(strncmp(text, "SIG", 3) ? text : text + 3, names);
}

static bool moment(const char *text)
{
	static const char *const moments[] = {"after-step", "before-backward", "peak", NULL};

	return one_of(text, moments);
}

static const struct {
	const char *option;
	bool (*good)(const char *text);
	const char *complaint;
} rules[] = {
	{"at-step", steps, "at most 64 step numbers with commas between them, as in 1000,50000"},
	{"every", every, "a number with its unit: steps, s, m or h, as in 1000steps or 10m"},
	{"at-used", used, "a share of the device or a size, as in 90% or 70GiB"},
	{"on-signal", signal_name, "a signal: HUP, INT, QUIT, USR1, USR2, TERM, ALRM, WINCH or a number"},
	{"when", moment, "before-backward, after-step or peak"},
	{"budget", bytes, "a size, as in 256MiB"},
	{"max-bytes", bytes, "a size, as in 2GiB"},
	{"max-files", number, "a number"},
	{"ranks", ranks, "rank numbers with commas between them, or all"},
};

const char *vc_setting_complaint(const char *option, const char *value)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (!strcmp(option, rules[i].option))
			return rules[i].good(value) ? NULL : rules[i].complaint;
	return NULL;
}
