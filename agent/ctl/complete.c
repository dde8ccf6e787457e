/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Complete command lines by the tables of commands.c, for scripts of shells,
 * which are part of the program. */

#include "agent/ctl/complete.h"

#include <string.h>

#include "agent/ctl/completion_scripts.h"
#include "agent/ctl/export.h"

/* ---- words --------------------------------------------------------------- */

/* Offer what the usage names as "a|b|c=N"; a value follows "c=". */
static void offer_words(const struct gm_ctl_line *line, const char *words,
			size_t n)
{
	for (const char *end = words + n; words < end;) {
		size_t length = strcspn(words, "| []"), shown;
		char text[64];

		shown = strcspn(words, "=| []");
		snprintf(text, sizeof(text), "%.*s",
			 (int)(shown < length ? shown + 1 : shown), words);
		gm_ctl_offer(line, text, "");
		words += length + 1;
	}
}

/* Lists that are too long for a usage. */
static const struct list {
	const char *command; /* NULL: any */
	const char *called;
	const char *(*at)(size_t i); /* NULL past the last */
} lists[] = {
	{ NULL, "ENGINE", gm_ctl_engine_name },
	{ "scatter", "OP", gm_ctl_scatter_op },
	{ "collective", "OP", gm_ctl_collective_op },
	{ NULL, "KIND", gm_ctl_mask_rule },
};

static const struct list *list_of(const struct gm_ctl_line *line,
				  const char *called, size_t n)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strncmp(lists[i].called, called, n) == 0 &&
		    lists[i].called[n] == '\0' &&
		    (lists[i].command == NULL ||
		     strcmp(lists[i].command, line->first) == 0))
			return &lists[i];
	return NULL;
}

/* ---- values -------------------------------------------------------------- */

static bool is_called(const char *text, size_t n, const char *name)
{
	return strlen(name) == n && strncmp(text, name, n) == 0;
}

/* Operands that the usage calls NAME are names of these. */
static const char *kind_of(const char *first)
{
	if (strcmp(first, "mask") == 0)
		return "MASK";
	if (strcmp(first, "mesh") == 0)
		return "MESH";
	return strcmp(first, "shares") == 0 ? "SHARE" : "MAP";
}

/* The agent's things, of which the usage says @called; NULL: others. */
static const char *names_of(const struct gm_ctl_line *line, const char *called,
			    size_t n)
{
	static const char *const kinds[] = { "MAP",  "MESH",  "GROUP", "ROW",
					     "NODE", "NODES", "MODEL" };
	const struct gm_ctl_option *option = line->option;

	if (option != NULL && option->value == GM_VALUE_ROWS)
		return "ROW";
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (is_called(called, n, kinds[i]))
			return kinds[i];
	if (!is_called(called, n, "NAME"))
		return NULL;
	if (option == NULL)
		return kind_of(line->first);
	return strcmp(option->name, "map") == 0 ||
			       strcmp(option->name, "commit") == 0
		       ? "MAP"
		       : NULL;
}

/* Complete the value of line->option, or an operand, by what the usage calls
 * it. */
static void complete_value(struct gm_ctl_line *line, const char *called,
			   size_t n)
{
	const char *names = names_of(line, called, n);
	const struct list *list = list_of(line, called, n);
	const char *word, *comma = strrchr(line->word, ',');

	/* A model is a folder, or a file. */
	if (is_called(called, n, "FILE") ||
	    (line->option != NULL && strcmp(line->option->name, "model") == 0))
		puts("files");
	else if (is_called(called, n, "DIR"))
		puts("folders");
	else
		puts("words");
	if (names != NULL && line->option != NULL && comma != NULL) {
		line->n_head += (size_t)(comma + 1 - line->word);
		line->word = comma + 1;
	}
	if (names != NULL)
		gm_ctl_offer_names(line, names);
	for (size_t i = 0; list != NULL && (word = list->at(i)) != NULL; i++)
		gm_ctl_offer(line, word, "");
	if (memchr(called, '|', n) != NULL)
		offer_words(line, called, n);
}

/* ---- places -------------------------------------------------------------- */

/* The word of a command's name at the place: the first, or the one behind
 * line->first.  NULL: it has none there. */
static const char *word_of(const struct gm_ctl_line *line, const char *name)
{
	size_t n = line->first != NULL ? strlen(line->first) : 0;

	if (n == 0)
		return name;
	return strncmp(name, line->first, n) == 0 && name[n] == ' '
		       ? name + n + 1
		       : NULL;
}

/* Offer words of commands.  Returns whether the place has any. */
static bool complete_command(const struct gm_ctl_line *line)
{
	const struct gm_command *command, *before;
	bool any = false;

	for (size_t i = 0; (command = gm_ctl_command_at(i)) != NULL; i++) {
		const char *word = word_of(line, command->name), *other = NULL;
		size_t n = word != NULL ? strcspn(word, " ") : 0;
		bool again = word == NULL;
		char text[32];

		for (size_t k = 0; k < i && !again; k++) {
			before = gm_ctl_command_at(k);
			other = word_of(line, before->name);
			again = other != NULL && strcspn(other, " ") == n &&
				strncmp(other, word, n) == 0;
		}
		if (again)
			continue;
		any = true;
		snprintf(text, sizeof(text), "%.*s", (int)n, word);
		gm_ctl_offer(line, text, word[n] == '\0' ? command->what : "");
	}
	return any;
}

static void offer_option(const struct gm_ctl_line *line,
			 const struct gm_ctl_term *term)
{
	char text[64], about[64] = "";

	if (term->value != NULL)
		snprintf(about, sizeof(about), "%.*s", (int)term->n_value,
			 term->value);
	snprintf(text, sizeof(text), "--%s", term->option->name);
	gm_ctl_offer(line, text, about);
}

static void complete_option(const struct gm_ctl_line *line)
{
	const char *common = gm_ctl_common_usage;
	bool offered[GM_OPTIONS] = { false };
	struct gm_ctl_terms terms;
	struct gm_ctl_term term;

	if (line->command != NULL) {
		terms = gm_ctl_terms_of(line->command);
		while (gm_ctl_terms_next(&terms, &term)) {
			bool *done = term.option == NULL
					     ? NULL
					     : &offered[term.option -
							gm_ctl_option_at(0)];

			if (done != NULL && !*done)
				offer_option(line, &term);
			if (done != NULL)
				*done = true;
		}
	}
	while (gm_ctl_term_next(&common, &term))
		offer_option(line, &term);
}

/* Complete the value of line->option. */
static void complete_option_value(struct gm_ctl_line *line)
{
	const char *common = gm_ctl_common_usage;
	struct gm_ctl_terms terms;
	struct gm_ctl_term term;
	bool found = false;

	if (line->command != NULL) {
		terms = gm_ctl_terms_of(line->command);
		while (!found && gm_ctl_terms_next(&terms, &term))
			found = term.option == line->option;
	}
	while (!found && gm_ctl_term_next(&common, &term))
		found = term.option == line->option;
	if (found && term.value != NULL)
		complete_value(line, term.value, term.n_value);
	else
		puts("words");
}

/* @second: of a command, whose name may have a second word. */
static void complete_operand(struct gm_ctl_line *line, bool second)
{
	const char *text = line->command != NULL ? line->command->operands : "";
	struct gm_ctl_term term;
	int n = line->ctl.n_args;

	while (gm_ctl_term_next(&text, &term))
		if (term.option == NULL && n-- == 0) {
			complete_value(line, term.name, term.n_name);
			return;
		}
	puts("words");
	if (!second || !complete_command(line))
		complete_option(line);
}

/* ---- the line ------------------------------------------------------------ */

static void set_value(struct gm_ctl_line *line, const char *value)
{
	if (strcmp(line->option->name, "instance") == 0)
		line->ctl.instance = value;
	if (strcmp(line->option->name, "runtime-dir") == 0)
		line->ctl.runtime_dir = value;
	line->option = NULL;
}

/* Take "--name" or "--name=value".  Returns where the value begins; NULL: it is
 * the next word, or the option has none. */
static const char *take_option(struct gm_ctl_line *line, const char *word)
{
	size_t n = strcspn(word, "=");

	line->option = gm_ctl_option_named(word + 2, n - 2);
	if (line->option != NULL && line->option->value < GM_VALUE_TEXT)
		line->option = NULL;
	return word[n] == '=' ? word + n + 1 : NULL;
}

/* Do another program's words follow the operands that were read? */
static bool ends_options(const struct gm_ctl_line *line)
{
	const struct gm_command *command = NULL;
	struct gm_ctl ctl = line->ctl;

	if (line->first != NULL)
		command = gm_ctl_find_command(&ctl, line->first);
	return command != NULL &&
	       (command->n_args == GM_ARGS_COMMAND ||
		strstr(command->operands, "] COMMAND...") != NULL);
}

/* Read the words before the last, of @n; those that are operands become
 * line->ctl.args.  Returns the index of the word with which another program's
 * command line begins, or 0. */
static int read_words(struct gm_ctl_line *line, char **words, int n)
{
	bool ended = false;

	line->ctl.args = words + 1;
	for (int i = 1; i < n - 1; i++) {
		char *word = words[i];
		const char *value;

		if (line->option != NULL) {
			set_value(line, word);
		} else if (!ended && strcmp(word, "--") == 0) {
			ended = line->first != NULL;
		} else if (!ended && strncmp(word, "--", 2) == 0) {
			value = take_option(line, word);
			if (line->option != NULL && value != NULL)
				set_value(line, value);
		} else if (line->first == NULL) {
			line->first = word;
		} else if (ends_options(line)) {
			return i;
		} else {
			line->ctl.args[line->ctl.n_args++] = word;
		}
	}
	if (line->option != NULL || !ends_options(line))
		return 0;
	return ended || *words[n - 1] != '-' ? n - 1 : 0;
}

static void complete(struct gm_ctl_line *line)
{
	bool second = line->ctl.n_args == 0;
	const char *value;

	if (line->first != NULL)
		line->command = gm_ctl_find_command(&line->ctl, line->first);
	if (line->option != NULL) {
		complete_option_value(line);
	} else if (strncmp(line->word, "--", 2) == 0 &&
		   strchr(line->word, '=') != NULL) {
		value = take_option(line, line->word);
		line->n_head = (size_t)(value - line->word);
		line->word = value;
		if (line->option != NULL)
			complete_option_value(line);
	} else if (*line->word == '-') {
		puts("words");
		complete_option(line);
	} else if (line->first == NULL) {
		puts("words");
		complete_command(line);
	} else {
		complete_operand(line, second);
	}
}

int gm_ctl_complete(struct gm_ctl *ctl)
{
	const char *word = ctl->args[ctl->n_args - 1];
	struct gm_ctl_line line = { .ctl = { .instance = ctl->instance,
					     .runtime_dir = ctl->runtime_dir },
				    .head = word,
				    .word = word };
	int other;

	if (ctl->n_args < 2)
		return GM_EXIT_OK;
	other = read_words(&line, ctl->args, ctl->n_args);
	if (other > 0)
		printf("command %d\n", other);
	else
		complete(&line);
	return GM_EXIT_OK;
}

int gm_ctl_completion(struct gm_ctl *ctl)
{
	static const struct {
		const char *shell;
		const char *script;
	} scripts[] = {
		{ "bash", completion_bash },
		{ "zsh", completion_zsh },
		{ "fish", completion_fish },
	};
	int i = gm_ctl_find_word("completion", ctl->args[0], scripts,
				 sizeof(scripts[0]),
				 sizeof(scripts) / sizeof(scripts[0]));

	if (i < 0)
		return GM_EXIT_USAGE;
	fputs(scripts[i].script, stdout);
	return GM_EXIT_OK;
}
