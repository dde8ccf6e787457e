/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Say how a command line of gpumapctl can go on, by the tables of usage.c, for
 * scripts of shells, which are part of the program.
 *
 * The answer's first line says what stands in the place: words, which follow,
 * each with a tab and a remark behind it; files; folders; or another program's
 * command line, which begins with the word of the number behind "command".
 */

#include <stdlib.h>
#include <string.h>

#include "agent/ctl/completion_scripts.h"
#include "agent/ctl/usage.h"

/* The line up to the word that is completed. */
struct line {
	struct gm_ctl ctl;                  /* its instance, and its operands */
	const struct gm_command *command;   /* NULL: it has none yet */
	const char *first;                  /* the command's first word */
	const struct gm_ctl_option *option; /* whose value is completed */
	const char *head; /* the word, of which this is not completed */
	size_t n_head;
	const char *word; /* and this is */
};

/* ---- words --------------------------------------------------------------- */

static bool is_plain(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

/* Print @text, and @about it, if the word can become @text.  Text that could
 * move a terminal's cursor is left out. */
static void offer(const struct line *line, const char *text, const char *about)
{
	if (strncmp(text, line->word, strlen(line->word)) == 0 &&
	    is_plain(text))
		printf("%.*s%s\t%s\n", (int)line->n_head, line->head, text,
		       is_plain(about) ? about : "");
}

/* Offer what the usage names as "a|b|c=N"; a value follows "c=". */
static void offer_words(const struct line *line, const char *words)
{
	for (size_t n; *words != '\0'; words += n + (words[n] == '|')) {
		size_t shown = strcspn(words, "=|");
		char text[64];

		n = strcspn(words, "|");
		snprintf(text, sizeof(text), "%.*s",
			 (int)(shown < n ? shown + 1 : n), words);
		offer(line, text, "");
	}
}

/* ---- names of what the map has ----------------------------------------- */

static void offer_rows(const struct line *line)
{
	struct gpumap_device device;
	uint32_t row = 0;
	char text[12];

	while (gm_ctl_next_device(line->ctl.map, &row, &device)) {
		snprintf(text, sizeof(text), "%u", device.row);
		offer(line, text, device.name);
	}
}

/* ---- values -------------------------------------------------------------- */

/* Words that are offered for a value that the usage calls so, in one command or
 * in any: those that are too long for a usage, or names that are in the map. */
static const struct source {
	const char *called;
	const char *command;
	const struct gm_ctl_choice *words;
	void (*offer)(const struct line *line);
	/* In its place: one name after the other. */
	int (*next)(const struct gpumap *map, uint32_t *cursor,
		    char ret_name[GPUMAP_NAME_MAX + 1]);
} sources[] = {
	{ "ENGINE", NULL, &gm_ctl_engines, NULL, NULL },
	{ "OP", "scatter", &gm_ctl_scatter_ops, NULL, NULL },
	{ "OP", "collective", &gm_ctl_collective_ops, NULL, NULL },
	{ "KIND", NULL, &gm_ctl_mask_rules, NULL, NULL },
	{ "MAP", NULL, NULL, NULL, gpumap_layers_next },
	{ "MESH", NULL, NULL, NULL, gpumap_mesh_next },
	{ "ROW", NULL, NULL, offer_rows, NULL },
	{ "NAME", "mask", NULL, NULL, gpumap_mask_next },
	{ "NAME", "mesh", NULL, NULL, gpumap_mesh_next },
	{ "NAME", NULL, NULL, NULL, gpumap_layers_next },
};

/* Offer names that follow the last comma of an option's value.  Offer nothing
 * where no map is, without a word of errors. */
static void offer_names(struct line *line, const struct source *source)
{
	struct gpumap_attach_opts opts = gm_ctl_where(&line->ctl);
	const char *comma = strrchr(line->word, ',');
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	if (line->option != NULL && comma != NULL) {
		line->n_head += (size_t)(comma + 1 - line->word);
		line->word = comma + 1;
	}
	if (gpumap_attach(&opts, &line->ctl.map) != 0)
		return;
	if (source->offer != NULL)
		source->offer(line);
	while (source->next != NULL &&
	       source->next(line->ctl.map, &cursor, name) == 1)
		offer(line, name, "");
	gpumap_detach(line->ctl.map);
	line->ctl.map = NULL;
}

/* Complete the value of line->option, or an operand, by what the usage calls
 * it. */
static void complete_value(struct line *line, const char *called)
{
	const struct gm_ctl_option *option = line->option;
	const struct source *end =
		sources + sizeof(sources) / sizeof(sources[0]);
	const struct source *source = sources;
	const char *word, *usage = called;

	/* A model is a folder, or a file. */
	if (strcmp(called, "FILE") == 0 ||
	    (option != NULL && strcmp(option->name, "model") == 0))
		puts("files");
	else if (strcmp(called, "DIR") == 0)
		puts("folders");
	else
		puts("words");
	if (option != NULL && option->value == GM_VALUE_ROWS)
		called = "ROW";
	/* An option's NAME is a new one, unless it is that of a map. */
	if (option != NULL && strcmp(called, "NAME") == 0)
		called = strcmp(option->name, "map") == 0 ||
					 strcmp(option->name, "commit") == 0
				 ? "MAP"
				 : "";
	while (source < end && (strcmp(source->called, called) != 0 ||
				(source->command != NULL &&
				 strcmp(source->command, line->first) != 0)))
		source++;
	if (source < end && source->words == NULL)
		offer_names(line, source);
	for (size_t i = 0; source < end && source->words != NULL &&
			   (word = gm_ctl_choice_at(source->words, i)) != NULL;
	     i++)
		offer(line, word, "");
	if (strchr(usage, '|') != NULL)
		offer_words(line, usage);
}

/* ---- places -------------------------------------------------------------- */

/* The word of a command's name at the place: the first, or the one behind
 * line->first.  NULL: it has none there. */
static const char *word_of(const struct line *line, const char *name)
{
	size_t n = line->first != NULL ? strlen(line->first) : 0;

	if (n == 0)
		return name;
	return strncmp(name, line->first, n) == 0 && name[n] == ' '
		       ? name + n + 1
		       : NULL;
}

/* Offer words of commands.  Returns whether the place has any. */
static bool complete_command(const struct line *line)
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
		offer(line, text, word[n] == '\0' ? command->what : "");
	}
	return any;
}

static void complete_option(const struct line *line)
{
	bool offered[GM_OPTIONS] = { false };
	struct gm_ctl_terms terms;

	gm_ctl_terms_of(line->command, &terms);
	for (size_t i = 0; i < terms.n; i++) {
		const struct gm_ctl_term *t = &terms.v[i];
		bool *done =
			t->option == NULL
				? NULL
				: &offered[t->option - gm_ctl_option_at(0)];
		char text[64];

		if (done == NULL || *done)
			continue;
		*done = true;
		snprintf(text, sizeof(text), "--%s", t->option->name);
		offer(line, text, t->value);
	}
}

/* Complete the value of line->option. */
static void complete_option_value(struct line *line)
{
	struct gm_ctl_terms terms;
	size_t i = 0;

	gm_ctl_terms_of(line->command, &terms);
	while (i < terms.n && terms.v[i].option != line->option)
		i++;
	if (i < terms.n && terms.v[i].value[0] != '\0')
		complete_value(line, terms.v[i].value);
	else
		puts("words");
}

/* @second: of a command, whose name may have a second word. */
static void complete_operand(struct line *line, bool second)
{
	const char *text = line->command != NULL ? line->command->operands : "";
	struct gm_ctl_term term;
	int n = line->ctl.n_args;

	while (gm_ctl_term_next(&text, &term))
		if (term.option == NULL && n-- == 0) {
			complete_value(line, term.name);
			return;
		}
	puts("words");
	if (!second || !complete_command(line))
		complete_option(line);
}

/* ---- the line ------------------------------------------------------------ */

static void set_value(struct line *line, const char *value)
{
	if (strcmp(line->option->name, "instance") == 0)
		line->ctl.instance = value;
	if (strcmp(line->option->name, "runtime-dir") == 0)
		line->ctl.runtime_dir = value;
	line->option = NULL;
}

/* Take "--name" or "--name=value".  Returns where the value begins; NULL: it is
 * the next word, or the option has none. */
static const char *take_option(struct line *line, const char *word)
{
	size_t n = strcspn(word, "=");

	line->option = gm_ctl_option_named(word + 2, n - 2);
	if (line->option != NULL && line->option->value < GM_VALUE_TEXT)
		line->option = NULL;
	return word[n] == '=' ? word + n + 1 : NULL;
}

/* Do another program's words follow the operands that were read? */
static bool ends_options(const struct line *line)
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
static int read_words(struct line *line, char **words, int n)
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

void gm_ctl_complete(struct gm_ctl *ctl)
{
	const char *word = ctl->args[ctl->n_args - 1];
	struct line line = { .ctl = { .instance = ctl->instance,
				      .runtime_dir = ctl->runtime_dir },
			     .head = word,
			     .word = word };
	bool second;
	int other;

	if (ctl->n_args < 2)
		return;
	other = read_words(&line, ctl->args, ctl->n_args);
	if (other > 0) {
		printf("command %d\n", other);
		return;
	}
	second = line.ctl.n_args == 0;
	if (line.first != NULL)
		line.command = gm_ctl_find_command(&line.ctl, line.first);
	if (line.option != NULL) {
		complete_option_value(&line);
	} else if (strncmp(word, "--", 2) == 0 && strchr(word, '=') != NULL) {
		line.word = take_option(&line, word);
		line.n_head = (size_t)(line.word - word);
		if (line.option != NULL)
			complete_option_value(&line);
	} else if (*word == '-') {
		puts("words");
		complete_option(&line);
	} else if (line.first == NULL) {
		puts("words");
		complete_command(&line);
	} else {
		complete_operand(&line, second);
	}
}

void gm_ctl_completion(struct gm_ctl *ctl)
{
	static const struct {
		const char *shell;
		const char *script;
	} scripts[] = {
		{ "bash", completion_bash },
		{ "zsh", completion_zsh },
		{ "fish", completion_fish },
	};
	static const struct gm_ctl_choice choice =
		GM_CHOICE("completion", scripts);

	fputs(scripts[gm_ctl_choose_word(&choice, ctl->args[0])].script,
	      stdout);
}
