/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that symbols.h finds, behind the interface of names.h; and the line of progress.
 */
#ifndef VC_ANALYZE_RESOLVER_H
#define VC_ANALYZE_RESOLVER_H

#include "analyze/names.h"
#include "analyze/symbols.h"

/** Starts a session of symbols. Options are copied. 0, VC_E_NO_MEMORY. */
int vc_resolver_create(const struct vc_symbols_options *options, struct vc_resolver **ret);
void vc_resolver_destroy(struct vc_resolver *resolver);

#endif
