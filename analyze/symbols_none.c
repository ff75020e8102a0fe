/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of the reader of symbols, in a build without elfutils: it answers nothing and says so.
 * Names that are inside a packed snapshot are shown all the same.
 */
#include <stdlib.h>

#include "analyze/symbols.h"
#include "formats/error.h"

struct vc_symbols {
	char nothing;
};

bool vc_symbols_readable(void)
{
	return false;
}

int vc_symbols_create(const struct vc_symbols_options *options, struct vc_symbols **ret)
{
	struct vc_symbols *symbols = calloc(1, sizeof(*symbols));

	(void)options;
	if (!symbols)
		return VC_E_NO_MEMORY;
	*ret = symbols;
	return 0;
}

void vc_symbols_destroy(struct vc_symbols *symbols)
{
	free(symbols);
}

int vc_symbols_want(struct vc_symbols *symbols, uint32_t module, const struct vc_module_key *key,
		    uint64_t offset)
{
	(void)symbols;
	(void)module;
	(void)key;
	(void)offset;
	return 0;
}

int vc_symbols_resolve(struct vc_symbols *symbols,
		       void (*progress)(void *context, uint64_t done, uint64_t total),
		       void *context)
{
	(void)symbols;
	(void)progress;
	(void)context;
	return 0;
}

int vc_symbols_get(const struct vc_symbols *symbols, uint32_t module, uint64_t offset,
		   struct vc_symbol *ret)
{
	(void)symbols;
	(void)module;
	(void)offset;
	(void)ret;
	return VC_E_NOT_FOUND;
}

int vc_symbols_module_report(const struct vc_symbols *symbols, uint32_t module,
			     struct vc_module_report *ret)
{
	(void)symbols;
	(void)module;
	*ret = (struct vc_module_report){.state = VC_MODULE_NOT_READ, .detail = ""};
	return 0;
}
