/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/command.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/text.h"

const struct vc_verb vc_verbs[VC_VERBS] = {
#define VC_OUTSIDE_VERB(name, operands, summary) {#name, operands, "", summary, 0, 0, NULL},
#define VC_VERB(name, least, most, operands, metrics, summary) \
	{#name, operands, metrics, summary, least, most, vc_verb_##name},
#include "analyze/verbs.def"
#undef VC_OUTSIDE_VERB
#undef VC_VERB
};

struct option_info {
	const char *name, *argument, *help;
	char short_name;
	uint64_t verbs;
};

#define VC_ON(verb) (UINT64_C(1) << VC_VERB_##verb)
#define VC_ON_ALL UINT64_MAX
static const struct option_info option_info[VC_OPTIONS] = {
#define VC_OPTION(name, long_name, short_name, argument, verbs, help) \
	{long_name, argument, help, short_name, verbs},
#include "analyze/options.def"
#undef VC_OPTION
};

const struct vc_verb *vc_verb_find(const char *name)
{
	for (unsigned i = 0; i < VC_VERBS; i++)
		if (!strcmp(vc_verbs[i].name, name))
			return &vc_verbs[i];
	return NULL;
}

static bool belongs(const struct option_info *option, const struct vc_verb *verb)
{
	return option->verbs >> (verb - vc_verbs) & 1;
}

/* ---- parsing ---- */

struct parser {
	struct vc_command *command;
	int argc, at;
	char **argv;
	struct vc_problem *problem;
	char hint[64];
};

static int unknown_option(struct parser *parser, const char *word)
{
	const struct vc_verb *verb = parser->command->verb;
	const char *name = word + (word[1] == '-' ? 2 : 1);

	for (unsigned i = 0; i < VC_OPTIONS; i++)
		if (!strncmp(option_info[i].name, name, strcspn(name, "=")) &&
		    strlen(option_info[i].name) == strcspn(name, "=") &&
		    !belongs(&option_info[i], verb))
			return vc_problem_usage(parser->problem, parser->hint,
						"%s does not go with %s", word, verb->name);
	return vc_problem_usage(parser->problem, parser->hint, "unknown option %s", word);
}

static int take_option(struct parser *parser, unsigned option, const char *word, const char *value)
{
	struct vc_command *command = parser->command;

	if (!option_info[option].argument && value)
		return vc_problem_usage(parser->problem, parser->hint, "--%s takes no value",
					option_info[option].name);
	if (option_info[option].argument && !value) {
		if (parser->at >= parser->argc)
			return vc_problem_usage(parser->problem, parser->hint,
						"%s needs a value: %s", word,
						option_info[option].argument);
		value = parser->argv[parser->at++];
	}
	command->options[option].values[command->options[option].count++] = value;
	return 0;
}

static int parse_option(struct parser *parser, const char *word)
{
	bool is_long = word[1] == '-';
	size_t length = is_long ? strcspn(word + 2, "=") : 1;

	for (unsigned i = 0; i < VC_OPTIONS; i++) {
		const struct option_info *option = &option_info[i];
		const char *rest;

		if (!belongs(option, parser->command->verb))
			continue;
		if (is_long && (strlen(option->name) != length ||
				strncmp(option->name, word + 2, length)))
			continue;
		if (!is_long && option->short_name != word[1])
			continue;
		rest = is_long ? word + 2 + length : word + 2;
		if (is_long)
			rest = *rest ? rest + 1 : NULL;
		else if (!*rest)
			rest = NULL;
		return take_option(parser, i, word, rest);
	}
	return unknown_option(parser, word);
}

static bool is_word_of(const char *list, const char *word, size_t length)
{
	for (const char *at = list; (at = strstr(at, word)); at++)
		if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return true;
	return false;
}

/** Checks --fail-on values: NAME>BYTES with a metric of the verb. */
static int check_fail_on(struct parser *parser)
{
	const struct vc_command *command = parser->command;

	for (unsigned i = 0; i < command->options[VC_OPTION_FAIL_ON].count; i++) {
		const char *value = command->options[VC_OPTION_FAIL_ON].values[i];
		const char *sign = strchr(value, '>');
		char name[32];
		uint64_t bytes;

		snprintf(name, sizeof(name), "%.*s", sign ? (int)(sign - value) : 0, value);
		if (!sign || vc_text_parse_bytes(sign + 1, &bytes) || !*name ||
		    !is_word_of(command->verb->metrics, name, strlen(name)))
			return vc_problem_usage(parser->problem, parser->hint,
						"--fail-on %s: not of the form WHAT>BYTES, with "
						"WHAT of: %s", value, command->verb->metrics);
	}
	return 0;
}

static int check_operands(struct parser *parser)
{
	const struct vc_command *command = parser->command;
	const struct vc_verb *verb = command->verb;

	if (command->operand_count < verb->least)
		return vc_problem_usage(parser->problem, parser->hint, "%s needs %s", verb->name,
					verb->operands);
	if (command->operand_count > verb->most)
		return vc_problem_usage(parser->problem, parser->hint,
					"%s takes %s; %s is too much", verb->name, verb->operands,
					command->operands[verb->most]);
	return check_fail_on(parser);
}

int vc_command_parse(const struct vc_verb *verb, int argc, char **argv, struct vc_command *ret,
		     struct vc_problem *problem)
{
	struct vc_command command = {.verb = verb};
	struct parser parser = {&command, argc, 0, argv, problem, ""};
	bool only_operands = false;
	const char **room = calloc((VC_OPTIONS + 1) * (size_t)(argc + 1), sizeof(*room));
	int error = 0;

	if (!room)
		return vc_problem_set(problem, VC_E_NO_MEMORY, NULL, NULL, "%s",
				      vc_error_text(VC_E_NO_MEMORY));
	snprintf(parser.hint, sizeof(parser.hint), "vramcore %s --help", verb->name);
	command.memory = room;
	command.operands = room;
	for (unsigned i = 0; i < VC_OPTIONS; i++)
		command.options[i].values = room + (i + 1) * (size_t)(argc + 1);
	while (parser.at < argc && !error) {
		const char *word = argv[parser.at++];

		if (!only_operands && !strcmp(word, "--"))
			only_operands = true;
		else if (!only_operands && word[0] == '-' && word[1])
			error = parse_option(&parser, word);
		else
			command.operands[command.operand_count++] = word;
	}
	if (!error && !command.options[VC_OPTION_HELP].count)
		error = check_operands(&parser);
	if (error)
		free(room);
	else
		*ret = command;
	return error;
}

void vc_command_deinit(struct vc_command *command)
{
	free(command->memory);
	*command = (struct vc_command){0};
}

/* ---- asking ---- */

bool vc_option_given(const struct vc_command *command, enum vc_option_index option)
{
	return command->options[option].count != 0;
}

const char *vc_option_value(const struct vc_command *command, enum vc_option_index option,
			    const char *otherwise)
{
	unsigned count = command->options[option].count;

	return count ? command->options[option].values[count - 1] : otherwise;
}

int vc_option_number(const struct vc_command *command, enum vc_option_index option,
		     uint64_t otherwise, uint64_t most, uint64_t *ret, struct vc_problem *problem)
{
	const char *value = vc_option_value(command, option, NULL);
	uint64_t number;

	if (!value) {
		*ret = otherwise;
		return 0;
	}
	if (vc_text_parse_number(value, &number) || number > most)
		return vc_problem_usage(problem, NULL, "--%s %s: not a number from 0 to %llu",
					option_info[option].name, value, (unsigned long long)most);
	*ret = number;
	return 0;
}

int vc_option_word(const struct vc_command *command, enum vc_option_index option,
		   const char *const *words, unsigned count, unsigned otherwise, unsigned *ret,
		   struct vc_problem *problem)
{
	const char *value = vc_option_value(command, option, NULL);
	struct vc_text list = {0};

	if (!value) {
		*ret = otherwise;
		return 0;
	}
	for (unsigned i = 0; i < count; i++) {
		if (!strcmp(words[i], value)) {
			vc_text_deinit(&list);
			*ret = i;
			return 0;
		}
		vc_text_add(&list, "%s%s", i ? ", " : "", words[i]);
	}
	vc_problem_usage(problem, NULL, "--%s %s: not one of %s", option_info[option].name, value,
			 vc_text_get(&list));
	vc_text_deinit(&list);
	return VC_E_INVALID;
}

bool vc_command_fails_on(const struct vc_command *command, const char *metric, uint64_t value)
{
	for (unsigned i = 0; i < command->options[VC_OPTION_FAIL_ON].count; i++) {
		const char *condition = command->options[VC_OPTION_FAIL_ON].values[i];
		const char *sign = strchr(condition, '>');
		uint64_t bytes;

		if ((size_t)(sign - condition) == strlen(metric) &&
		    !strncmp(condition, metric, strlen(metric)) &&
		    !vc_text_parse_bytes(sign + 1, &bytes) && value > bytes)
			return true;
	}
	return false;
}

/* ---- help ---- */

static const char exit_statuses[] =
	"Exit status: 0 complete; 1 shown, but bytes may be missing or misattributed; 2 nothing\n"
	"shown; 3 a --fail-on was exceeded; 64 wrong usage.\n";

static void help_general(FILE *out)
{
	fprintf(out, "usage: vramcore VERB [OPTIONS] ...\n"
		     "Records who holds a CUDA program's GPU memory, and shows it afterwards.\n\n");
	for (unsigned i = 0; i < VC_VERBS; i++)
		fprintf(out, "  %-9s %s\n", vc_verbs[i].name, vc_verbs[i].summary);
	fprintf(out, "\n`vramcore VERB --help` lists the options of a verb; `vramcore --version` "
		     "says the version.\nFiles are snapshots (.vramcore), recordings (.vrec) or memory "
		     "snapshots of PyTorch,\ntold apart by content.\n%s", exit_statuses);
}

static void help_option(FILE *out, const struct option_info *option)
{
	char name[64];

	snprintf(name, sizeof(name), "--%s%s%s", option->name, option->argument ? " " : "",
		 option->argument ? option->argument : "");
	if (option->short_name)
		fprintf(out, "  -%c, %-21s %s\n", option->short_name, name, option->help);
	else
		fprintf(out, "      %-21s %s\n", name, option->help);
}

void vc_help(FILE *out, const struct vc_verb *verb)
{
	if (!verb) {
		help_general(out);
		return;
	}
	fprintf(out, "usage: vramcore %s [OPTIONS] %s\n%s.\n\n", verb->name, verb->operands,
		verb->summary);
	for (unsigned i = 0; i < VC_OPTIONS; i++)
		if (belongs(&option_info[i], verb))
			help_option(out, &option_info[i]);
	fprintf(out, "\n%s", exit_statuses);
}
