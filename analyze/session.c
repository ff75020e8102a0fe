/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/at.h"
#include "analyze/resolver.h"
#include "analyze/text.h"
#include "analyze/views/backward.h"

static int failed(struct vc_problem *problem, int error)
{
	return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
}

static int no_memory(struct vc_problem *problem)
{
	return failed(problem, VC_E_NO_MEMORY);
}

/** Where names found are kept for the next run: by the XDG rules, which want absolute paths. */
static void find_cache(const struct vc_command *command, struct vc_text *folder)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (vc_option_given(command, VC_OPTION_NO_CACHE))
		return;
	if (base && *base == '/')
		vc_text_add(folder, "%s/vramcore", base);
	else if (home && *home == '/')
		vc_text_add(folder, "%s/.cache/vramcore", home);
}

/** Starts the search for names, with the folders of the command line. */
static int start_names(const struct vc_command *command, struct vc_session *session)
{
	struct vc_text folder = {0};
	struct vc_symbols_options options = {
		.debug_dirs = command->options[VC_OPTION_DEBUG_DIR].values,
		.debug_dir_count = command->options[VC_OPTION_DEBUG_DIR].count,
		.sysroot = vc_option_value(command, VC_OPTION_SYSROOT, NULL),
		.debuginfod = vc_option_given(command, VC_OPTION_DEBUGINFOD),
	};
	int error = 0;

	find_cache(command, &folder);
	options.cache_dir = vc_text_get(&folder);
	if (!vc_option_given(command, VC_OPTION_NO_SYMBOLS))
		error = vc_resolver_create(&options, &session->resolver);
	vc_text_deinit(&folder);
	return error ? error : vc_names_create(session->resolver, &session->names);
}

int vc_session_limits(const struct vc_command *command, struct vc_limits *ret,
		      struct vc_problem *problem)
{
	struct vc_limits limits = vc_limits_default;

	for (unsigned i = 0; i < command->options[VC_OPTION_LIMIT].count; i++) {
		const char *value = command->options[VC_OPTION_LIMIT].values[i];
		const char *sign = strchr(value, '=');
		size_t length = sign ? (size_t)(sign - value) : 0;
		unsigned limit = 0;

		while (limit < VC_LIMITS && (strlen(vc_limit_name[limit]) != length ||
					     strncmp(vc_limit_name[limit], value, length)))
			limit++;
		if (limit == VC_LIMITS || vc_text_parse_bytes(sign + 1, &limits.most[limit]))
			return vc_problem_usage(problem, NULL,
						"--limit %s: not of the form NAME=VALUE, with NAME "
						"of depth, memo, stack, objects, string, strings, "
						"records, bytes", value);
	}
	*ret = limits;
	return 0;
}

/** A file that is opened beside others: they share only what none of them changes. */
struct opening {
	const char *path;
	const struct vc_wanted_columns *wanted;
	const struct vc_limits *limits;
	struct vc_model *model;
	struct vc_problem problem;
	int error;
	pthread_t thread;
	bool apart;          /* in a thread of its own */
};

static void *open_one(void *argument)
{
	struct opening *opening = argument;

	opening->error = vc_model_open(opening->path, opening->wanted, opening->limits,
				       opening->model, &opening->problem);
	return NULL;
}

/** Opens files, a few at once. Those of no use after a failure are closed with the session. */
static int open_models(const struct opening *like, const char *const *paths, unsigned count,
		       struct vc_session *session, struct vc_problem *problem)
{
	enum { AT_ONCE = 4 };
	struct opening openings[AT_ONCE];
	int error = 0;

	for (unsigned first = 0; first < count && !error; first += AT_ONCE) {
		unsigned some = count - first < AT_ONCE ? count - first : AT_ONCE;

		for (unsigned i = some; i-- > 0;) { /* the first one here */
			openings[i] = *like;
			openings[i].path = paths[first + i];
			openings[i].model = &session->models[first + i];
			openings[i].apart = i && !pthread_create(&openings[i].thread, NULL,
								 open_one, &openings[i]);
			if (!openings[i].apart)
				open_one(&openings[i]);
		}
		for (unsigned i = 0; i < some; i++) {
			if (openings[i].apart)
				pthread_join(openings[i].thread, NULL);
			if (openings[i].error && !error) { /* of the first that failed */
				error = openings[i].error;
				*problem = openings[i].problem;
			}
		}
		session->count += some;
	}
	return error;
}

int vc_session_open(const struct vc_command *command, unsigned first, unsigned count,
		    const struct vc_wanted_columns *wanted, struct vc_session *ret,
		    struct vc_problem *problem)
{
	struct vc_session session = {0};
	struct vc_limits limits;
	struct vc_wanted_columns all;
	int error = vc_session_limits(command, &limits, problem);

	if (!error)
		error = vc_at_check(command, problem);
	if (error)
		return error;
	if (wanted && vc_option_given(command, VC_OPTION_AT)) {
		all = *wanted;
		vc_at_wants(&all);
		wanted = &all;
	}
	error = start_names(command, &session);

	session.models = calloc(count, sizeof(*session.models));
	session.accounts = calloc(count, sizeof(*session.accounts));
	if (error || !session.models || !session.accounts) {
		vc_session_close(&session);
		return no_memory(problem);
	}
	error = open_models(&(struct opening){.wanted = wanted, .limits = &limits},
			    command->operands + first, count, &session, problem);
	for (unsigned i = 0; i < count && !error; i++) {
		uint32_t file;

		error = vc_at_apply(command, &session.models[i], problem);
		if (error)
			break;
		if (vc_names_add(session.names, &session.models[i].tables, &file))
			error = no_memory(problem);
	}
	if (error)
		vc_session_close(&session);
	else
		*ret = session;
	return error;
}

void vc_session_wants_account(struct vc_wanted_columns *wanted)
{
	static const enum vc_column_index needed[] = {
		VC_COL_allocations_state, VC_COL_allocations_kind, VC_COL_allocations_address,
		VC_COL_allocations_size, VC_COL_allocations_device_plus_one,
		VC_COL_allocations_stack, VC_COL_allocations_birth, VC_COL_allocations_parent,
		VC_COL_allocations_python, VC_COL_allocations_segment, VC_COL_allocations_flags,
	};

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		wanted->column[needed[i]] = true;
}

/** Where memory ran out says what the blocks of that moment are for. */
static int want_failure(struct vc_session *session, unsigned file)
{
	const struct vc_tables *tables = &session->models[file].tables;
	uint64_t row = vc_is_import(tables) ? 0 : vc_failure_of_moment(tables);

	if (!row)
		return 0;
	return vc_names_want(session->names, file,
			     vc_stack_reference(tables,
						vc_value(tables, VC_COL_failures_stack, row - 1),
						vc_value(tables, VC_COL_failures_python, row - 1)));
}

int vc_session_count(struct vc_session *session, enum vc_account_mode mode,
		     enum vc_column_index extra, struct vc_problem *problem)
{
	for (unsigned i = 0; i < session->count; i++) {
		struct vc_account *account = &session->accounts[i];
		int error = vc_account_make(&session->models[i].tables, mode, extra, account);

		for (uint64_t j = 0; !error && j < account->group_count; j++)
			error = vc_names_want(session->names, i, account->groups[j].stack);
		if (!error)
			error = want_failure(session, i);
		if (error)
			return no_memory(problem);
	}
	return 0;
}

int vc_session_want(struct vc_session *session, uint64_t stack, uint64_t kind)
{
	if (session->wanted_count == session->wanted_capacity) {
		uint64_t capacity = session->wanted_capacity ? session->wanted_capacity * 2 : 64;
		void *wanted = realloc(session->wanted, capacity * sizeof(*session->wanted));

		if (!wanted)
			return VC_E_NO_MEMORY;
		session->wanted = wanted;
		session->wanted_capacity = capacity;
	}
	session->wanted[session->wanted_count++] = (struct vc_session_wanted){stack, kind};
	return vc_names_want(session->names, 0, stack);
}

static int by_address(const void *a, const void *b)
{
	const struct vc_chain *x = *(struct vc_chain *const *)a, *y = *(struct vc_chain *const *)b;

	return x < y ? -1 : x > y;
}

/** Sorts, and drops what is there twice; how many are left. */
static uint64_t each_once(struct vc_chain **chains, uint64_t count)
{
	uint64_t left = 0;

	qsort(chains, count, sizeof(*chains), by_address);
	for (uint64_t i = 0; i < count; i++)
		if (!left || chains[left - 1] != chains[i])
			chains[left++] = chains[i];
	return left;
}

/** What the search for common functions gathers. */
struct gathered {
	struct vc_chain **chains;
	uint64_t count;
	bool blocks; /* chains of blocks, else of device memory */
};

static void gather(struct gathered *gathered, struct vc_chain *chain, uint64_t kind)
{
	bool fits = gathered->blocks ? kind == VC_KIND_BLOCK :
				       vc_kind_bytes(kind) == VC_BYTES_DEVICE;

	if (fits && chain->has_user)
		gathered->chains[gathered->count++] = chain;
}

/** Moves the sites of blocks, or of allocations, past the functions they all come through. */
static int find_common(struct vc_session *session, bool blocks)
{
	struct gathered gathered = {.blocks = blocks};
	uint64_t most = session->wanted_count;

	for (unsigned i = 0; i < session->count; i++)
		most += session->accounts[i].group_count;
	gathered.chains = calloc(most ? most : 1, sizeof(*gathered.chains));
	if (!gathered.chains)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < session->count; i++) {
		const struct vc_account *account = &session->accounts[i];

		for (uint64_t j = 0; j < account->group_count; j++)
			gather(&gathered,
			       vc_names_chain(session->names, i, account->groups[j].stack),
			       account->groups[j].kind);
	}
	for (uint64_t i = 0; i < session->wanted_count; i++)
		gather(&gathered, vc_names_chain(session->names, 0, session->wanted[i].stack),
		       session->wanted[i].kind);
	vc_names_common(gathered.chains, each_once(gathered.chains, gathered.count));
	free(gathered.chains);
	return 0;
}

int vc_session_names(struct vc_session *session, struct vc_problem *problem)
{
	int error = vc_names_resolve(session->names);

	if (!error)
		error = find_common(session, true);
	if (!error)
		error = find_common(session, false);
	return error ? failed(problem, error) : 0;
}

void vc_session_close(struct vc_session *session)
{
	for (unsigned i = 0; i < session->count; i++) {
		vc_account_deinit(&session->accounts[i]);
		vc_model_close(&session->models[i]);
	}
	free(session->models);
	free(session->accounts);
	free(session->wanted);
	vc_names_destroy(session->names);
	vc_resolver_destroy(session->resolver);
	vc_arena_deinit(&session->arena);
	*session = (struct vc_session){0};
}
