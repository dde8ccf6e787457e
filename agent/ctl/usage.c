/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The tables of commands and options, and how their usage is read. */

#include "agent/ctl/usage.h"

#include <stdio.h>
#include <string.h>

/* Options that every command takes. */
static const char common_usage[] =
	"[--instance NAME] [--runtime-dir DIR] [--json] [--progress] [--help] "
	"[--version]";

/* In the usage of run: these are how plan places a model. */
#define OPTIONS_OF_PLAN "OPTIONS OF plan"

static const struct gm_command commands[] = {
#define COMMAND(name, operands, what, n_args, run, offline) \
	{ name, operands, what, n_args, offline },
#define TOOL(name, operands, what) { name, operands, what, GM_ARGS_TOOL, true },
#include "agent/ctl/commands.h"
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct gm_ctl_option options[] = {
#define OPTION(id, name, value) { name, GM_VALUE_##value },
#include "agent/ctl/options.h"
};

const struct gm_command *gm_ctl_command_at(size_t i)
{
	return i < N_COMMANDS ? &commands[i] : NULL;
}

const struct gm_ctl_option *gm_ctl_option_at(size_t i)
{
	return i < GM_OPTIONS ? &options[i] : NULL;
}

gm_ctl_set gm_ctl_option_of(const struct gm_ctl_option *option)
{
	return option != NULL ? (gm_ctl_set)1 << (option - options) : 0;
}

const struct gm_ctl_option *gm_ctl_option_named(const char *name, size_t n)
{
	const struct gm_ctl_option *found = NULL;
	size_t n_found = 0;

	for (size_t i = 0; i < GM_OPTIONS; i++) {
		if (strncmp(options[i].name, name, n) != 0)
			continue;
		found = &options[i];
		if (found->name[n] == '\0')
			return found;
		n_found++;
	}
	return n_found == 1 ? found : NULL;
}

/* ---- usage --------------------------------------------------------------- */

bool gm_ctl_term_next(const char **text, struct gm_ctl_term *ret_term)
{
	struct gm_ctl_term t;
	const char *at = *text;
	size_t n;

	/* Neither "--", nor the bar between two, nor the dots behind one. */
	do {
		at += strspn(at, " []");
		n = strlen(OPTIONS_OF_PLAN);
		if (strncmp(at, OPTIONS_OF_PLAN, n) != 0)
			n = strcspn(at, " []");
		t = (struct gm_ctl_term){ .option = NULL };
		snprintf(t.name, sizeof(t.name), "%.*s", (int)n, at);
		at += n;
	} while (n > 0 && strspn(t.name, "-|.") >= n);
	if (strncmp(t.name, "--", 2) == 0) {
		t.option = gm_ctl_option_named(t.name + 2, n - 2);
		if (at[0] == ' ' && strchr("[|-", at[1]) == NULL) {
			n = strcspn(at + 1, " []");
			snprintf(t.value, sizeof(t.value), "%.*s", (int)n,
				 at + 1);
			at += 1 + n;
		}
	}
	*text = at;
	*ret_term = t;
	return t.name[0] != '\0';
}

/* Add the terms of a usage whose option is in @set, and operands where @set has
 * none.  Returns whether the options of plan are among them. */
static bool add_terms(const char *text, gm_ctl_set set,
		      struct gm_ctl_terms *terms)
{
	struct gm_ctl_term *t = &terms->v[terms->n];
	bool of_plan = false;

	while (terms->n < GM_CTL_TERMS && gm_ctl_term_next(&text, t)) {
		if (strcmp(t->name, OPTIONS_OF_PLAN) == 0)
			of_plan = true;
		else if (set == 0 || (gm_ctl_option_of(t->option) & set) != 0)
			t = &terms->v[++terms->n];
	}
	return of_plan;
}

void gm_ctl_terms_of(const struct gm_command *command,
		     struct gm_ctl_terms *ret_terms)
{
	bool of_plan = false;

	ret_terms->n = 0;
	for (size_t i = 0; i < N_COMMANDS && command != NULL; i++)
		if (strcmp(commands[i].name, command->name) == 0)
			of_plan |=
				add_terms(commands[i].operands, 0, ret_terms);
	for (size_t i = 0; i < N_COMMANDS && of_plan; i++)
		if (strcmp(commands[i].name, "plan") == 0)
			add_terms(commands[i].operands, GM_OPTS_PLACING,
				  ret_terms);
	add_terms(common_usage, 0, ret_terms);
}

bool gm_ctl_takes_options(const struct gm_command *command,
			  const struct gm_ctl *ctl)
{
	struct gm_ctl_terms terms;
	gm_ctl_set takes = 0;

	gm_ctl_terms_of(command, &terms);
	for (size_t i = 0; i < terms.n; i++)
		takes |= gm_ctl_option_of(terms.v[i].option);
	return (ctl->given & ~takes) == 0;
}

/* Is @word the name of a command, or the first word of it? */
static bool begins(const char *name, const char *word)
{
	size_t n = strlen(word);

	return strncmp(name, word, n) == 0 &&
	       (name[n] == '\0' || name[n] == ' ');
}

void gm_ctl_usage(FILE *to, const char *word)
{
	bool known = false;

	for (size_t i = 0; i < N_COMMANDS && word != NULL; i++)
		known = known || begins(commands[i].name, word);
	fprintf(to, "usage: gpumapctl %s COMMAND ...\n\n", common_usage);
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!known || begins(commands[i].name, word))
			fprintf(to, "  %s%s%s\n        %s\n", commands[i].name,
				commands[i].operands[0] != '\0' ? " " : "",
				commands[i].operands, commands[i].what);
	fprintf(to, "\nSizes take K, M and G.  See gpumapctl(1).\n");
}

/* ---- the command of a line ----------------------------------------------- */

bool gm_ctl_is_tool(const char *word)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (commands[i].n_args == GM_ARGS_TOOL &&
		    begins(commands[i].name, word))
			return true;
	return false;
}

bool gm_ctl_ends_options(const char *word)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (commands[i].n_args == GM_ARGS_COMMAND &&
		    strcmp(commands[i].name, word) == 0)
			return true;
	return false;
}

const struct gm_command *gm_ctl_find_command(struct gm_ctl *ctl,
					     const char *word)
{
	const struct gm_command *plain = NULL;
	size_t n = strlen(word);

	for (size_t i = 0; i < N_COMMANDS; i++) {
		const char *name = commands[i].name;

		if (strncmp(name, word, n) != 0)
			continue;
		if (name[n] == '\0' && plain == NULL)
			plain = &commands[i];
		if (name[n] == ' ' && ctl->n_args > 0 &&
		    strcmp(name + n + 1, ctl->args[0]) == 0) {
			ctl->args++;
			ctl->n_args--;
			return &commands[i];
		}
	}
	return plain;
}
