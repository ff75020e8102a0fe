/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/chart.h"

#include <stdlib.h>
#include <strings.h>

bool vc_chart_is_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		if (!value || !*value)
			continue;
		for (; *value; value++)
			if (!strncasecmp(value, "utf-8", 5) || !strncasecmp(value, "utf8", 4))
				return true;
		return false;
	}
	return false;
}

void vc_chart_fill(struct vc_text *text, bool utf8, uint64_t used, uint64_t whole)
{
	static const char *const blocks[] = {"\u00b7", "\u2591", "\u2592", "\u2593", "\u2588"};
	static const char *const plain[] = {".", "-", "+", "*", "#"};
	double share = whole ? (double)used / (double)whole : 0;
	unsigned level = !used ? 0 : used >= whole ? 4 : share < 1.0 / 3 ? 1 :
						     share < 2.0 / 3 ? 2 : 3;

	vc_text_add(text, "%s", utf8 ? blocks[level] : plain[level]);
}

const char *vc_chart_fill_legend(bool utf8)
{
	return utf8 ? "\u2588 used  \u2593 \u2592 \u2591 partly  \u00b7 free" :
		      "# used  * + - partly  . free";
}

void vc_chart_column(struct vc_text *text, bool utf8, uint64_t eighths, bool line)
{
	static const char *const blocks[] = {" ", "\u2581", "\u2582", "\u2583", "\u2584",
					     "\u2585", "\u2586", "\u2587", "\u2588"};
	uint64_t level = eighths > 8 ? 8 : eighths;

	if (line && !level)
		vc_text_add(text, "%s", utf8 ? "\u2500" : "-");
	else
		vc_text_add(text, "%s", utf8 ? blocks[level] : level >= 4 ? "#" : level ? "." : " ");
}

const char *vc_chart_column_legend(bool utf8)
{
	return utf8 ? "\u2588 allocated (as asked for)  \u2500 reserved" :
		      "# allocated (as asked for)  - reserved";
}
