/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that torch.cuda._memory_viz makes of a snapshot (trace_plot, segment_plot): a script in
 * it has the pickle as base64, in a JSON list of one {"name": ..., "base64": ...}.
 *
 * The page is searched for that key and what follows is decoded as it is read: nothing of it is
 * kept, no script is run. A page of any size costs one window. Not thread safe.
 */
#ifndef VC_ANALYZE_TORCH_HTML_H
#define VC_ANALYZE_TORCH_HTML_H

#include "analyze/stream.h"
#include "analyze/values.h"

struct vc_torch_html {
	struct vc_stream *page;
	bool ended;             /* the closing quote was read */
	bool wrong;             /* a byte that is no base64 stands at page->at */
	uint32_t bits;          /* of an unfinished group of four */
	unsigned count, padding;
};

/** Whether these first bytes are those of a page: blanks and a BOM may come before "<". */
bool vc_torch_html_is(const uint8_t *start, size_t length);

/**
 * Finds the pickle in a page and opens it as a stream of its own, which uses *html and `page`
 * until it is closed. VC_E_NOT_OURS where there is none; values->what says so.
 */
int vc_torch_html_open(struct vc_stream *page, struct vc_values *values,
		       struct vc_torch_html *html, struct vc_stream *ret);

#endif
