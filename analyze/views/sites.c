/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/sites.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/text.h"

const char *const vc_by_text[VC_BY_COUNT] = {
#define VC_BY(name, text, column) text,
	VC_BYS(VC_BY)
#undef VC_BY
};

const enum vc_column_index vc_by_column[VC_BY_COUNT] = {
#define VC_BY(name, text, column) column,
	VC_BYS(VC_BY)
#undef VC_BY
};

struct source {
	const struct vc_tables *tables;
	const struct vc_names *names;
	uint32_t file;
	const struct vc_sites_options *options;
};

/** The library that asked, else the file the user's code is in. */
static const char *library_of(const struct vc_chain *chain)
{
	const struct vc_frame_name *frame;
	const char *slash;

	for (uint32_t i = 0; i < chain->count && i <= chain->user; i++)
		if (chain->frames[i]->owner == VC_OWNER_LIBRARY)
			return chain->frames[i]->library;
	if (!chain->count)
		return "";
	frame = chain->frames[chain->user];
	slash = strrchr(frame->module, '/');
	return slash ? slash + 1 : frame->module;
}

static uint64_t text_key(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

/** Fills key, value, text and chain of a row from a group. */
static void describe(const struct source *source, const struct vc_account_group *group,
		     struct vc_site_row *row)
{
	row->chain = vc_names_chain(source->names, source->file, group->stack);
	switch (source->options->by) {
	case VC_BY_SITE:
		row->key = row->chain->count ? vc_chain_key(row->chain, source->options->depth) : 0;
		break;
	case VC_BY_KIND:
		row->key = row->value = group->kind;
		row->text = vc_kind_text(group->kind);
		break;
	case VC_BY_DEVICE:
		row->key = row->value = group->device_plus_one;
		break;
	case VC_BY_LIBRARY:
		row->text = library_of(row->chain);
		row->key = text_key(row->text);
		break;
	case VC_BY_PHASE:
	case VC_BY_STATE:
	case VC_BY_METADATA:
		row->text = vc_tables_text(source->tables, group->extra);
		row->key = text_key(row->text);
		break;
	default:
		row->key = row->value = group->extra;
	}
	row->bytes = group->bytes;
	row->count = group->count;
	row->cached_bytes = group->cached_bytes;
	row->cached_count = group->cached_count;
	row->doubt_bytes = group->doubt_bytes;
	row->doubt_count = group->doubt_count;
}

static int by_key(const void *a, const void *b)
{
	const struct vc_site_row *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	/* of equal keys the largest comes first: its chain is the one shown */
	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static int by_bytes(const void *a, const void *b)
{
	const struct vc_site_row *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	if (x->cached_bytes != y->cached_bytes)
		return x->cached_bytes < y->cached_bytes ? 1 : -1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static void merge(struct vc_site_row *into, const struct vc_site_row *row)
{
	into->bytes += row->bytes;
	into->count += row->count;
	into->cached_bytes += row->cached_bytes;
	into->cached_count += row->cached_count;
	into->doubt_bytes += row->doubt_bytes;
	into->doubt_count += row->doubt_count;
}

static bool is_wanted(const struct vc_sites_options *options, const struct vc_account_group *group)
{
	return options->device_plus_one == UINT32_MAX ||
	       group->device_plus_one == options->device_plus_one;
}

int vc_sites_make(const struct vc_tables *tables, const struct vc_account *account,
		  const struct vc_names *names, uint32_t file,
		  const struct vc_sites_options *options, struct vc_arena *arena,
		  struct vc_sites *ret)
{
	struct source source = {tables, names, file, options};
	struct vc_sites sites = {0};
	uint64_t count = 0;

	for (uint64_t i = 0; i < account->group_count; i++)
		count += is_wanted(options, &account->groups[i]);
	sites.rows = vc_arena_allocate(arena, count, sizeof(*sites.rows));
	if (!sites.rows)
		return VC_E_NO_MEMORY;
	count = 0;
	for (uint64_t i = 0; i < account->group_count; i++)
		if (is_wanted(options, &account->groups[i]))
			describe(&source, &account->groups[i], &sites.rows[count++]);
	qsort(sites.rows, count, sizeof(*sites.rows), by_key);
	for (uint64_t i = 0; i < count; i++) {
		sites.bytes += sites.rows[i].bytes;
		sites.blocks += sites.rows[i].count;
		if (sites.count && sites.rows[sites.count - 1].key == sites.rows[i].key)
			merge(&sites.rows[sites.count - 1], &sites.rows[i]);
		else
			sites.rows[sites.count++] = sites.rows[i];
	}
	qsort(sites.rows, sites.count, sizeof(*sites.rows), by_bytes);
	*ret = sites;
	return 0;
}

int vc_sites_shares(const struct vc_sites *sites, uint64_t most, struct vc_arena *arena,
		    int64_t **ret, struct vc_sites_rest *ret_rest)
{
	struct vc_sites_rest rest = {.shown = most && most < sites->count ? most : sites->count};
	int64_t *values = vc_arena_allocate(arena, rest.shown + 1, sizeof(*values));
	int64_t *shares = vc_arena_allocate(arena, rest.shown + 1, sizeof(*shares));
	int error;

	if (!values || !shares)
		return VC_E_NO_MEMORY;
	rest.count = sites->count - rest.shown;
	for (uint64_t i = 0; i < sites->count; i++) {
		if (i < rest.shown)
			values[i] = (int64_t)sites->rows[i].bytes;
		else
			merge(&rest.sum, &sites->rows[i]);
	}
	values[rest.shown] = (int64_t)rest.sum.bytes;
	error = vc_text_shares(values, rest.shown + 1, (int64_t)sites->bytes, shares);
	if (error)
		return error;
	*ret = shares;
	*ret_rest = rest;
	return 0;
}

bool vc_sites_have_cached(const struct vc_sites *sites)
{
	for (uint64_t i = 0; i < sites->count; i++)
		if (sites->rows[i].cached_bytes)
			return true;
	return false;
}
