/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/python_lines.h"

#include <stdbool.h>

#define LINE_MAX 0x7fffffff

static uint32_t line_in_range(int64_t line)
{
	return line > 0 && line <= LINE_MAX ? (uint32_t)line : 0;
}

/* Pairs: bytes of code, then the change of line that follows them. */
static uint32_t line_of_changes(uint32_t first_line, const uint8_t *table, size_t length,
				uint64_t instruction)
{
	int64_t line = first_line;
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < length; i += 2) {
		at += table[i];
		if (at > instruction)
			break;
		line += (int8_t)table[i + 1];
	}
	return line_in_range(line);
}

/* Pairs: bytes of code, and the change of line that holds for them; -128: they have none. */
static uint32_t line_of_ranges(uint32_t first_line, const uint8_t *table, size_t length,
			       uint64_t instruction)
{
	int64_t line = first_line;
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < length; i += 2) {
		bool none = (int8_t)table[i + 1] == -128;

		end += table[i];
		if (!none)
			line += (int8_t)table[i + 1];
		if (instruction < end)
			return none ? 0 : line_in_range(line);
	}
	return 0;
}

/* Six bits a byte, lowest first; bit 6 says that more follow. */
static bool read_number(const uint8_t *table, size_t length, size_t *at, uint64_t *ret)
{
	uint64_t number = 0;

	for (unsigned int shift = 0; *at < length && shift < 36; shift += 6) {
		uint8_t byte = table[(*at)++];

		number |= (uint64_t)(byte & 63) << shift;
		if (!(byte & 64)) {
			*ret = number;
			return true;
		}
	}
	return false;
}

/* What an entry of the location table changes the line by; its other parts are passed over. */
static bool read_change(const uint8_t *table, size_t length, size_t *at, unsigned int kind,
			int64_t *ret)
{
	uint64_t number;

	if (kind < 13) { /* columns only, or up to two lines further and columns */
		*at += kind < 10 ? 1 : 2;
		*ret = kind < 10 ? 0 : (int64_t)kind - 10;
		return *at <= length;
	}
	*ret = 0;
	if (kind == 15)
		return true;
	if (!read_number(table, length, at, &number))
		return false;
	*ret = number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
	for (unsigned int i = 0; kind == 14 && i < 3; i++)
		if (!read_number(table, length, at, &number))
			return false;
	return true;
}

static uint32_t line_of_locations(uint32_t first_line, const uint8_t *table, size_t length,
				  uint64_t instruction)
{
	int64_t line = first_line, change;
	uint64_t end = 0;
	size_t at = 0;

	while (at < length) {
		uint8_t byte = table[at++];
		unsigned int kind = byte >> 3 & 15;

		if (!(byte & 0x80) || !read_change(table, length, &at, kind, &change))
			return 0;
		line += change;
		end += ((uint64_t)(byte & 7) + 1) * 2;
		if (instruction < end)
			return kind == 15 ? 0 : line_in_range(line);
	}
	return 0;
}

uint32_t vc_python_line(uint16_t version, uint32_t first_line, const uint8_t *table, size_t length,
			uint64_t instruction)
{
	if (version < 0x030a)
		return line_of_changes(first_line, table, length, instruction);
	if (version == 0x030a)
		return line_of_ranges(first_line, table, length, instruction);
	return line_of_locations(first_line, table, length, instruction);
}
