/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bars and curves in a terminal: block characters where it shows UTF-8, else ASCII.
 */
#ifndef VC_ANALYZE_CHART_H
#define VC_ANALYZE_CHART_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/text.h"

/** Whether LC_ALL, LC_CTYPE or LANG, the first that is set, says UTF-8. */
bool vc_chart_is_utf8(void);
/** One cell, by how much of it is used: full, most, some, a little, nothing. */
void vc_chart_fill(struct vc_text *text, bool utf8, uint64_t used, uint64_t whole);
/** What the cells mean. */
const char *vc_chart_fill_legend(bool utf8);
/**
 * One cell of a curve, `eighths` of it filled from below (8 or more: all of it); `line` where
 * another, higher curve passes through what is empty.
 */
void vc_chart_column(struct vc_text *text, bool utf8, uint64_t eighths, bool line);
const char *vc_chart_column_legend(bool utf8);

#endif
