/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `vramcore`: finds the verb, runs it, prints what went wrong. The verbs are in
 * verbs.def; those of capture/outside parse their own arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analyze/command.h"
#include "analyze/emit.h"
#include "analyze/text.h"
#ifdef VC_HAVE_OUTSIDE
#include "capture/outside/outside.h"
#endif

static int run_outside(const struct vc_verb *verb, int argc, char **argv)
{
	static int (*const outside[VC_VERBS])(int argc, char **argv) = {
#ifdef VC_HAVE_OUTSIDE
#define VC_OUTSIDE_VERB(name, operands, summary) [VC_VERB_##name] = vc_outside_##name,
#define VC_VERB(name, least, most, operands, metrics, summary)
#include "analyze/verbs.def"
#undef VC_OUTSIDE_VERB
#undef VC_VERB
#endif
	};

	if (outside[verb - vc_verbs])
		return outside[verb - vc_verbs](argc, argv);
	fprintf(stderr, "vramcore: this build has no %s\n", verb->name);
	return VC_EXIT_NOTHING;
}

static void print_text_problem(const struct vc_problem *problem)
{
	struct vc_text text = {0};

	vc_text_add(&text, "vramcore: ");
	vc_text_escaped(&text, problem->path);
	vc_text_add(&text, "%s", *problem->path ? ": " : "");
	vc_text_escaped(&text, problem->what);
	if (*problem->section)
		vc_text_add(&text, " in %s", problem->section);
	if (problem->has_offset)
		vc_text_add(&text, " at byte %llu", (unsigned long long)problem->offset);
	vc_text_add(&text, "\n");
	if (*problem->hint) {
		vc_text_add(&text, "          (");
		vc_text_escaped(&text, problem->hint);
		vc_text_add(&text, ")\n");
	}
	fputs(vc_text_get(&text), stderr);
	vc_text_deinit(&text);
}

static void print_problem(struct vc_emit *emit, const struct vc_problem *problem)
{
	if (!emit->json) {
		print_text_problem(problem);
		return;
	}
	vc_emit_begin(emit, "vramcore.error/1");
	vc_emit_object(emit, "error");
	vc_emit_string(emit, "path", *problem->path ? problem->path : NULL);
	vc_emit_string(emit, "what", problem->what);
	vc_emit_string(emit, "section", *problem->section ? problem->section : NULL);
	if (problem->has_offset)
		vc_emit_number(emit, "offset", problem->offset);
	else
		vc_emit_null(emit, "offset");
	vc_emit_string(emit, "hint", *problem->hint ? problem->hint : NULL);
	vc_emit_signed(emit, "number", problem->error);
	vc_emit_number(emit, "exit_status", problem->status);
	vc_emit_object_end(emit);
	vc_emit_finish(emit);
}

static int set_up(const struct vc_command *command, struct vc_emit *emit,
		  struct vc_problem *problem)
{
	static const char *const colors[] = {"auto", "always", "never"};
	const char *no_color = getenv("NO_COLOR");
	bool terminal = isatty(STDOUT_FILENO);
	struct winsize size = {0};
	uint64_t width = 100;
	unsigned color;
	int error;

	emit->json = vc_option_given(command, VC_OPTION_JSON);
	emit->exact = vc_option_given(command, VC_OPTION_EXACT) ? VC_TEXT_EXACT : VC_TEXT_ROUNDED;
	error = vc_option_word(command, VC_OPTION_COLOR, colors, 3, 0, &color, problem);
	if (error)
		return error;
	emit->color = color == 1 || (color == 0 && terminal && (!no_color || !*no_color));
	if (terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		width = size.ws_col;
	error = vc_option_number(command, VC_OPTION_WIDTH, width, 10000, &width, problem);
	emit->width = (unsigned)width;
	return error;
}

/* ---- running processes instead of files ---- */

/** Snapshots made for one run of a verb, in a folder of their own. */
struct looks {
	char folder[64];
	char (*path)[96];      /* by operand; "" it is a file */
	const char **shown;    /* operands as they were given */
};

#ifdef VC_HAVE_OUTSIDE
static bool make_folder(struct looks *looks)
{
	const char *temporary = getenv("TMPDIR");

	if (snprintf(looks->folder, sizeof(looks->folder), "%s/vramcore-look-XXXXXX",
		     temporary && *temporary ? temporary : "/tmp") < (int)sizeof(looks->folder) &&
	    mkdtemp(looks->folder))
		return true;
	looks->folder[0] = 0;
	fprintf(stderr, "vramcore: no folder for snapshots can be made in $TMPDIR\n");
	return false;
}

static int look(struct looks *looks, struct vc_command *command, unsigned operand)
{
	char *end, *path = looks->path[operand];
	unsigned long long pid = strtoull(command->operands[operand], &end, 10);

	if (*end || end == command->operands[operand])
		return 0;
	if (!looks->folder[0] && !make_folder(looks))
		return VC_EXIT_NOTHING;
	snprintf(path, sizeof(*looks->path), "%s/%llu.%u", looks->folder, pid, operand);
	command->operands[operand] = path;
	return vc_outside_look(pid, path);
}
#endif

/** Puts a snapshot of the process in the place of each number of one. 0 or an exit status. */
static int look_at_processes(struct looks *looks, struct vc_command *command)
{
	int status = 0;

	looks->path = calloc(command->operand_count, sizeof(*looks->path));
	looks->shown = calloc(command->operand_count, sizeof(*looks->shown));
	if (!looks->path || !looks->shown) {
		fprintf(stderr, "vramcore: %s\n", vc_error_text(VC_E_NO_MEMORY));
		return VC_EXIT_NOTHING;
	}
	memcpy(looks->shown, command->operands, command->operand_count * sizeof(*looks->shown));
	command->shown = looks->shown;
#ifdef VC_HAVE_OUTSIDE
	for (unsigned i = 0; !status && i < command->operand_count; i++)
		status = look(looks, command, i);
#endif
	return status;
}

static void forget_looks(struct looks *looks, const struct vc_command *command)
{
	for (unsigned i = 0; looks->path && i < command->operand_count; i++)
		if (looks->path[i][0])
			unlink(looks->path[i]);
	if (looks->folder[0])
		rmdir(looks->folder);
	free(looks->path);
	free(looks->shown);
}

static int run_verb(const struct vc_verb *verb, int argc, char **argv)
{
	struct looks looks = {0};
	struct vc_emit emit = {.out = stdout};
	struct vc_problem problem = {.status = VC_EXIT_NOTHING};
	struct vc_command command = {0};
	int status;

	for (int i = 0; i < argc; i++) /* known before the parser says that something is wrong */
		emit.json |= !strcmp(argv[i], "--json");
	status = vc_command_parse(verb, argc, argv, &command, &problem);
	if (!status && vc_option_given(&command, VC_OPTION_HELP)) {
		vc_help(stdout, verb);
		vc_command_deinit(&command);
		return VC_EXIT_COMPLETE;
	}
	if (!status)
		status = set_up(&command, &emit, &problem);
	if (!status && verb == &vc_verbs[VC_VERB_hang]) {
		status = look_at_processes(&looks, &command);
		if (status) { /* it has said what is wrong */
			forget_looks(&looks, &command);
			vc_command_deinit(&command);
			return status;
		}
	}
	if (!status)
		status = verb->function(&command, &emit, &problem);
	forget_looks(&looks, &command);
	if (status < 0) {
		print_problem(&emit, &problem);
		status = problem.status;
	}
	vc_emit_deinit(&emit);
	vc_command_deinit(&command);
	return status;
}

int main(int argc, char **argv)
{
	const struct vc_verb *verb;
	const char *word = argc > 1 ? argv[1] : "";

	if (!strcmp(word, "--version")) {
		printf("vramcore %s\n", VC_VERSION);
		return VC_EXIT_COMPLETE;
	}
	if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h")) {
		verb = argc > 2 ? vc_verb_find(argv[2]) : NULL;
		if (verb && !verb->function) {
			char *help[] = {argv[2], (char[]){"--help"}, NULL};

			return run_outside(verb, 2, help);
		}
		vc_help(stdout, verb);
		return VC_EXIT_COMPLETE;
	}
	verb = vc_verb_find(word);
	if (!verb) {
		struct vc_problem problem = {.status = VC_EXIT_USAGE};

		vc_problem_usage(&problem, "vramcore --help lists the verbs", "%s%s",
				 *word ? "unknown verb " : "no verb given", word);
		print_text_problem(&problem);
		return VC_EXIT_USAGE;
	}
	return verb->function ? run_verb(verb, argc - 2, argv + 2) :
				run_outside(verb, argc - 1, argv + 1);
}
