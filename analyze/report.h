/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reports have in common: who and when, the device, stacks in JSON, the evidence line.
 */
#ifndef VC_ANALYZE_REPORT_H
#define VC_ANALYZE_REPORT_H

#include "analyze/emit.h"
#include "analyze/session.h"
#include "analyze/views/evidence.h"

/** "step 50,000, after step"; "now" where no steps are known. */
void vc_report_moment(struct vc_text *text, const struct vc_tables *tables);
/** A moment without the word "step" before its number: what follows "step 1,000 -> ". */
void vc_report_moment_after(struct vc_text *text, const struct vc_tables *tables);
/** "GPU 0 NVIDIA H100 80GB HBM3 (GPU-8f1c6c7e)"; "unknown device" for 0. */
void vc_report_device(struct vc_text *text, const struct vc_tables *tables,
		      uint32_t device_plus_one);
/** The same to JSON: ordinal, name, uuid, total, free, ... */
void vc_report_device_json(struct vc_emit *emit, const char *key, const struct vc_tables *tables,
			   uint32_t device_plus_one);
/** File, process, step, moment, time: an object. */
void vc_report_file_json(struct vc_emit *emit, const char *key, const struct vc_model *model);
/** All frames of a stack: a list "stack". */
void vc_report_stack_json(struct vc_emit *emit, const char *key, const struct vc_chain *chain);
/** Text of a chain, kept in the session's arena; "" when memory runs out. */
const char *vc_report_site(struct vc_session *session, const struct vc_chain *chain,
			   const struct vc_path_prefix *prefix);
/**
 * The next part of a way ("a -> b -> c") that fits into so many columns (0: all of it), kept in the
 * arena; *from moves on, NULL: that was the last.
 */
const char *vc_report_part(struct vc_session *session, const char **from, size_t columns);
/** A text, kept in the arena; the buffer is emptied. */
const char *vc_report_keep(struct vc_session *session, struct vc_text *text);

/**
 * The evidence, as the last line; with numbers of allocations and of named frames when `numbers`.
 * VC_EXIT_COMPLETE, VC_EXIT_INCOMPLETE, or a negative VC_E_*.
 */
int vc_report_evidence(struct vc_emit *emit, struct vc_session *session, bool numbers,
		       struct vc_problem *problem);
/** Ends the report: evidence, end of the document, write errors; the exit status as above. */
int vc_report_end(struct vc_emit *emit, struct vc_session *session, bool numbers,
		  struct vc_problem *problem);

#endif
