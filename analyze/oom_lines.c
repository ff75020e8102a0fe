/* SPDX-License-Identifier: Apache-2.0 */
/* The lines around a message: what loggers and launchers put before them, and frames. */
#include <stdio.h>
#include <string.h>

#include "analyze/oom_pattern.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/** The number at `at`, and how many digits it has; at most nine. */
static size_t read_digits(const char *line, size_t length, size_t at, uint64_t *ret)
{
	size_t count = 0;

	*ret = 0;
	for (; at + count < length && count < 9 && is_digit(line[at + count]); count++)
		*ret = *ret * 10 + (uint64_t)(line[at + count] - '0');
	return count;
}

static bool starts(const char *line, size_t length, size_t at, const char *word)
{
	size_t word_length = strlen(word);

	return at <= length && word_length <= length - at &&
	       !memcmp(line + at, word, word_length);
}

static const char *find(const char *line, size_t length, const char *word)
{
	return length ? memmem(line, length, word, strlen(word)) : NULL;
}

/* ---- prefixes: each function gives the length of what it took at `at`, 0 nothing ---- */

struct prefix_scan {
	const char *line;
	size_t length, at;
	struct vc_oom_prefix *prefix;
};

static void add_label(struct prefix_scan *scan, size_t length)
{
	struct vc_oom_prefix *prefix = scan->prefix;
	size_t have = strlen(prefix->label);

	vc_oom_copy(prefix->label + have, sizeof(prefix->label) - have, scan->line + scan->at,
		    length);
}

/** "[rank3]:", "[default3]:", "[1,3]<stderr>:" */
static size_t take_bracket(struct prefix_scan *scan)
{
	const char *line = scan->line, *close;
	size_t length = scan->length, at = scan->at, end, digits;
	uint64_t number;

	if (!starts(line, length, at, "["))
		return 0;
	close = memchr(line + at, ']', length - at < 40 ? length - at : 40);
	if (!close)
		return 0;
	end = (size_t)(close - line) + 1;
	if (starts(line, length, at, "[rank")) {
		size_t skip = at + 5 + (line[at + 5] == ' ');

		digits = read_digits(line, length, skip, &number);
		if (!digits || skip + digits + 1 != end)
			return 0;
		scan->prefix->rank = (int64_t)number;
	} else if (starts(line, length, at, "[default")) {
		if (!read_digits(line, length, at + 8, &number))
			return 0;
	} else {
		digits = read_digits(line, length, at + 1, &number);
		if (!digits || !starts(line, length, at + 1 + digits, ",") ||
		    !starts(line, length, end, "<std"))
			return 0;
		if (!read_digits(line, length, at + 2 + digits, &number))
			return 0;
		scan->prefix->rank = (int64_t)number;
		while (end < length && line[end] != '>')
			end++;
		end += end < length;
	}
	add_label(scan, end - at);
	return end - at + starts(line, length, end, ":");
}

/** "(Worker rank=3 pid=1090)" */
static size_t take_parenthesis(struct prefix_scan *scan)
{
	const char *line = scan->line + scan->at, *close, *rank;
	size_t length = scan->length - scan->at, inside;
	uint64_t number;

	if (!length || *line != '(')
		return 0;
	close = memchr(line, ')', length < 100 ? length : 100);
	inside = close ? (size_t)(close - line) + 1 : 0;
	if (!find(line, inside, "pid="))
		return 0;
	rank = find(line, inside, "rank=");
	if (rank && read_digits(line, inside, (size_t)(rank - line) + 5, &number))
		scan->prefix->rank = (int64_t)number;
	add_label(scan, inside);
	return inside;
}

/** "3: " of `srun --label`, "service-1  | " of compose; at the start of the line only. */
static size_t take_start(struct prefix_scan *scan)
{
	const char *line = scan->line;
	size_t length = scan->length, digits, end = 0;
	uint64_t number;

	if (scan->at)
		return 0;
	digits = read_digits(line, length, 0, &number);
	if (digits && digits < 6 && starts(line, length, digits, ": ")) {
		scan->prefix->rank = (int64_t)number;
		add_label(scan, digits);
		return digits + 1;
	}
	while (end < length && end < 60 && line[end] > ' ' && line[end] < 0x7f && line[end] != '|')
		end++;
	digits = end;
	while (digits < length && line[digits] == ' ')
		digits++;
	if (!end || digits == end || !starts(line, length, digits, "| "))
		return 0;
	add_label(scan, end);
	return digits + 1;
}

/** Dates, times, levels, "[file.py:470]". */
static size_t take_stamp(struct prefix_scan *scan)
{
	static const char *const levels[] = {"INFO", "ERROR", "WARNING", "DEBUG", "CRITICAL"};
	const char *line = scan->line + scan->at;
	size_t length = scan->length - scan->at, end = 0, digits = 0, marks = 0;
	bool other = false;

	while (end < length && end < 60 && line[end] != ' ') {
		digits += is_digit(line[end]);
		marks += line[end] == ':' || line[end] == '-';
		other |= !is_digit(line[end]) && !strchr("-:.,TZ+/[]", line[end]);
		end++;
	}
	if (!other && digits >= 4 && marks)
		return end;
	if (end > 6 && line[0] == '[' && line[end - 1] == ']' && find(line, end, ".py:"))
		return end;
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (end == strlen(levels[i]) && starts(line, length, 0, levels[i]))
			return end;
	return 0;
}

/** Marks of quoting: "> ", "# ", "// ", and "E   " of pytest. */
static size_t take_quote(struct prefix_scan *scan)
{
	static const char *const marks[] = {"> ", "# ", "// ", "E   "};

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		if (starts(scan->line, scan->length, scan->at, marks[i]))
			return strlen(marks[i]) - 1;
	return 0;
}

void vc_oom_prefix_parse(const char *line, size_t length, struct vc_oom_prefix *ret)
{
	struct prefix_scan scan = {line, length, 0, ret};

	*ret = (struct vc_oom_prefix){.rank = -1};
	for (unsigned i = 0; i < 8 && scan.at < length && line[scan.at] != ' '; i++) {
		size_t taken = take_bracket(&scan);

		taken = taken ? taken : take_parenthesis(&scan);
		taken = taken ? taken : take_start(&scan);
		taken = taken ? taken : take_stamp(&scan);
		taken = taken ? taken : take_quote(&scan);
		if (!taken)
			break;
		scan.at += taken;
		scan.at += starts(line, length, scan.at, " ");
	}
	ret->length = scan.at < length ? scan.at : length;
}

/* ---- frames ---- */

bool vc_oom_is_library(const char *file)
{
	static const char *const parts[] = {
		"site-packages", "dist-packages", "/lib/python3.", "\\lib\\", "<frozen", "/torch/_",
		"/torch/nn/", "/torch/utils/", "/torch/autograd/", "/torch/optim/", "/torch/cuda/",
		"/torch/distributed/", "/torch/functional", "/torch/tensor", "/torch/fx/",
		"/torch/amp/", "torchinductor_", "/jax/_src/", "/tensorflow/python/",
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strstr(file, parts[i]))
			return true;
	return *file == '<' && strncmp(file, "<ipython-input", 14) != 0;
}

static size_t name_length(const char *s, size_t length)
{
	size_t count = 0;

	while (count < length && s[count] > ' ' && s[count] != '(' && s[count] != ',')
		count++;
	return count;
}

/** ", line 92, in name" or ", in name(...)" from `at`; the line is needed unless it is known. */
static bool read_rest(const char *line, size_t length, size_t at, struct vc_oom_place *place)
{
	size_t digits;

	if (starts(line, length, at, ", line ")) {
		at += 7;
		digits = read_digits(line, length, at, &place->line);
		at += digits;
		if (!digits)
			return false;
	}
	if (starts(line, length, at, ", in ") || starts(line, length, at, ": in "))
		vc_oom_copy(place->function, sizeof(place->function), line + at + 5,
			    name_length(line + at + 5, length - at - 5));
	return place->line != 0;
}

/** `File "train.py", line 3, in f`, `File ~/train.py:92, in f(x)`, `Cell In[3], line 9` */
static bool parse_file(const char *line, size_t length, struct vc_oom_place *place)
{
	size_t start = starts(line, length, 0, "File ") ? 5 : 0, end, colon;

	if (starts(line, length, 0, "Cell In[")) {
		const char *comma = memchr(line, ',', length);

		end = comma ? (size_t)(comma - line) : 0;
		vc_oom_copy(place->file, sizeof(place->file), line, end);
		return end && read_rest(line, length, end, place);
	}
	if (start && starts(line, length, 5, "\"")) {
		const char *quote = memchr(line + 6, '"', length - 6);

		end = quote ? (size_t)(quote - line) : 0;
		if (end)
			vc_oom_copy(place->file, sizeof(place->file), line + 6, end - 6);
		return end && read_rest(line, length, end + 1, place);
	}
	colon = start;
	while (colon < length && colon < 300 &&
	       !(line[colon] == ':' && colon + 1 < length && is_digit(line[colon + 1])))
		colon++;
	if (!starts(line, length, colon, ":") || colon < start + 3 ||
	    memcmp(line + colon - 3, ".py", 3) != 0)
		return false;
	end = colon + 1 + read_digits(line, length, colon + 1, &place->line);
	vc_oom_copy(place->file, sizeof(place->file), line + start, colon - start);
	return (start || starts(line, length, end, ": in ")) &&
	       read_rest(line, length, end, place);
}

/** `/x/adam.py in step(self)`, `<ipython-input-13-ad> in <module>`: their line comes below. */
static bool parse_old_ipython(const char *line, size_t length, struct vc_oom_place *place)
{
	const char *in = find(line, length < 300 ? length : 300, " in ");
	size_t end = in ? (size_t)(in - line) : 0;

	if (end < 4 || memchr(line, ' ', end))
		return false;
	if (memcmp(line + end - 3, ".py", 3) != 0 && !starts(line, length, 0, "<ipython-input"))
		return false;
	vc_oom_copy(place->file, sizeof(place->file), line, end);
	vc_oom_copy(place->function, sizeof(place->function), line + end + 4,
		    name_length(line + end + 4, length - end - 4));
	return true;
}

bool vc_oom_frame_parse(const char *line, size_t length, struct vc_oom_place *ret)
{
	struct vc_oom_place place = {0};

	while (length && (*line == ' ' || *line == '\t')) {
		line++;
		length--;
	}
	if (!parse_file(line, length, &place)) {
		place = (struct vc_oom_place){0};
		if (!parse_old_ipython(line, length, &place))
			return false;
	}
	*ret = place;
	return true;
}
