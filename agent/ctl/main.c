/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Parse the command line, and run the command; or become its program, where
 * it is written in Python. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ctl/parse.h"
#include "agent/ctl/run/run.h"
#include "agent/ctl/usage.h"
#include "lib/model/plan/number.h"

/* getopt_long()'s value of the first option; those of the others follow. */
#define OPT_FIRST 256

#define WORD      32 /* letters of a command's name, at most */

/* The functions of the commands, by their index. */
static void (*const runs[])(struct gm_ctl *ctl) = {
#define COMMAND(name, operands, what, n_args, run, offline) run,
#define TOOL(name, operands, what)                          NULL,
#include "agent/ctl/commands.h"
};

/* Report that "@what" is wrong, because @why. */
static _Noreturn void bad(const char *what, const char *why)
{
	gm_ctl_wrong("\"%s\" %s; see gpumapctl --help", what, why);
}

/* Report that "@text" cannot be the value of option @name, because @why. */
static _Noreturn void bad_value(const char *name, const char *text,
				const char *why)
{
	gm_ctl_wrong("--%s: \"%s\" %s; see gpumapctl --help", name, text, why);
}

/* Print the commands that have another word after @word, with commas, unless
 * @to is NULL.  Returns how many they are. */
static unsigned print_family(FILE *to, const char *word)
{
	size_t n = strlen(word), k;
	unsigned n_found = 0;

	for (size_t i = 0; gm_ctl_command_at(i) != NULL; i++) {
		const char *name = gm_ctl_command_at(i)->name;

		/* The first of a name stands for all. */
		for (k = 0; strcmp(gm_ctl_command_at(k)->name, name) != 0; k++)
			continue;
		if (k < i || strncmp(name, word, n) != 0 || name[n] != ' ')
			continue;
		if (to != NULL)
			fprintf(to, "%s%s", n_found > 0 ? ", " : "", name);
		n_found++;
	}
	return n_found;
}

/* The changes that make one word of another, which has @n letters: a letter
 * more, less, or another. */
static size_t distance(const char *a, const char *b, size_t n)
{
	size_t row[WORD + 1];

	if (n > WORD)
		return WORD;
	for (size_t k = 0; k <= n; k++)
		row[k] = k;
	for (size_t i = 1; *a != '\0'; a++, i++) {
		size_t before = row[0];

		row[0] = i;
		for (size_t k = 1; k <= n; k++) {
			size_t least = before + (*a != b[k - 1]);

			before = row[k];
			least = row[k] < least ? row[k] + 1 : least;
			row[k] = row[k - 1] < least ? row[k - 1] + 1 : least;
		}
	}
	return row[n];
}

/* Report that there is no command of this name. */
static _Noreturn void no_command(const struct gm_ctl *ctl, const char *word)
{
	const char *like = NULL;
	size_t least = 3;

	if (print_family(NULL, word) > 0) {
		fprintf(stderr, "gpumapctl: \"%s%s%s\" is no command: ", word,
			ctl->n_args > 0 ? " " : "",
			ctl->n_args > 0 ? ctl->args[0] : "");
		print_family(stderr, word);
		fputs("; see gpumapctl --help\n", stderr);
		gm_ctl_exit(GM_EXIT_USAGE);
	}
	for (size_t i = 0; gm_ctl_command_at(i) != NULL; i++) {
		const char *name = gm_ctl_command_at(i)->name;
		size_t length = strcspn(name, " ");
		size_t n = distance(word, name, length);

		if (n < least && n < length) {
			least = n;
			like = name;
		}
	}
	if (like == NULL)
		bad(word, "is no command");
	gm_ctl_wrong(
		"\"%s\" is no command: did you mean %.*s? See gpumapctl --help",
		word, (int)strcspn(like, " "), like);
}

/* Report that a command's form is wrong, because @why.  Prints its usage; if
 * others share its first word, theirs too. */
static _Noreturn void bad_form(const struct gm_command *command,
			       const char *why)
{
	unsigned n_shared;

	fprintf(stderr, "gpumapctl: \"%s\" %s: ", command->name, why);
	n_shared = print_family(stderr, command->name);
	fprintf(stderr, "%s%s%s%s; see gpumapctl --help\n",
		n_shared > 0 ? " or " : "", command->name,
		command->operands[0] != '\0' ? " " : "", command->operands);
	gm_ctl_exit(GM_EXIT_USAGE);
}

/* Has the command, or another of its forms, so many operands? */
static void check_operands(const struct gm_command *command, int n)
{
	const struct gm_command *form;
	char why[64];

	for (size_t i = 0; (form = gm_ctl_command_at(i)) != NULL; i++)
		if (strcmp(form->name, command->name) == 0 &&
		    (form->n_args == n ||
		     (form->n_args == GM_ARGS_COMMAND && n > 0)))
			return;
	if (command->n_args == GM_ARGS_COMMAND)
		bad_form(command, "needs a command to run");
	snprintf(why, sizeof(why), "takes %d operand%s, not %d",
		 command->n_args, command->n_args == 1 ? "" : "s", n);
	bad_form(command, why);
}

/* Become the program of the command argv[@at], GPUMAP_EXEC_PATH/gpumapctl-NAME,
 * which finds this gpumapctl in GPUMAP_CTL_PATH, whatever the PATH has. */
static _Noreturn void become_tool(char **argv, int at)
{
	const char *name = argv[at], *folder = getenv("GPUMAP_EXEC_PATH");
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = '\0';
	if (n > 0)
		setenv("GPUMAP_CTL_PATH", path, 1);
	else
		unsetenv("GPUMAP_CTL_PATH");
	if (folder == NULL)
		folder = GM_PKGLIBEXECDIR;
	if ((size_t)snprintf(path, sizeof(path), "%s/gpumapctl-%s", folder,
			     name) >= sizeof(path))
		gm_ctl_wrong("GPUMAP_EXEC_PATH is too long");
	/* Also those that stand for closed ones. */
	for (int fd = 0; fd < 3; fd++)
		fcntl(fd, F_SETFD, 0);
	/* The options before the name stay, in front of those behind it. */
	for (int i = at; i > 1; i--)
		argv[i] = argv[i - 1];
	argv[1] = path;
	execv(path, argv + 1);
	if (errno != ENOENT)
		gm_ctl_failed("cannot run %s: %s", path, strerror(errno));
	if (access(path, F_OK) == 0)
		gm_ctl_failed("%s needs the Python that the first line of %s "
			      "names: install it (Debian, Fedora: python3)",
			      name, path);
	gm_ctl_failed("%s is a program in Python, and there is no %s: install "
		      "the package python3-gpumap, or build gpumap where "
		      "Python 3.11 and its headers are",
		      name, path);
}

/* Take an option, behind @word if the line has one. */
static void take(struct gm_ctl *ctl, const struct gm_ctl_option *own,
		 const char *text, const char *word)
{
	size_t id = (size_t)(own - gm_ctl_option_at(0));
	uint64_t *number = &ctl->value[id].number;

	ctl->given |= gm_ctl_option_of(own);
	switch (own->value) {
	case GM_VALUE_HELP:
		gm_ctl_usage(stdout, word);
		gm_ctl_exit(GM_EXIT_OK);
	case GM_VALUE_VERSION:
		puts("gpumapctl " PACKAGE_VERSION);
		gm_ctl_exit(GM_EXIT_OK);
	case GM_VALUE_NONE:
		break;
	case GM_VALUE_TEXT:
		ctl->value[id].text = text;
		break;
	case GM_VALUE_NUMBER:
	case GM_VALUE_COUNT:
		if (gm_parse_number(text, number) != 0)
			bad_value(own->name, text, "is not a number that fits");
		if (own->value == GM_VALUE_COUNT && *number == 0)
			bad_value(own->name, text, "is less than one");
		break;
	case GM_VALUE_SIZE:
		if (gm_number_size(text, number) != 0)
			bad_value(own->name, text, GM_NUMBER_NO_SIZE);
		break;
	case GM_VALUE_ROWS:
		if (gm_parse_rows(text, ctl->rows, &ctl->n_rows) != 0)
			bad(text, "is no list of rows: give each once, such as "
				  "0,2 or 0-3");
		break;
	case GM_VALUE_GROUP:
		if (ctl->n_groups == GM_CTL_GROUPS)
			bad(text, "is one group too many");
		ctl->groups[ctl->n_groups++] = text;
		break;
	}
	if (GM_TEXT(ctl, INSTANCE) != NULL)
		ctl->instance = GM_TEXT(ctl, INSTANCE);
	if (GM_TEXT(ctl, RUNTIME_DIR) != NULL)
		ctl->runtime_dir = GM_TEXT(ctl, RUNTIME_DIR);
	ctl->json = GM_GIVEN(ctl, JSON);
	ctl->progress = GM_GIVEN(ctl, PROGRESS);
}

/* Take the options of @argv, from its second word on, as getopt_long() finds
 * them by @form; @word is the command's, if it was found.  Leaves the rest of
 * @argv at optind. */
static void take_options(int argc, char **argv, const char *form,
			 const char *word, struct gm_ctl *ctl)
{
	struct option options[GM_OPTIONS + 1] = { 0 };
	const struct gm_ctl_option *own;
	int c;

	for (int i = 0; (own = gm_ctl_option_at((size_t)i)) != NULL; i++)
		options[i] = (struct option){ own->name,
					      own->value < GM_VALUE_TEXT
						      ? no_argument
						      : required_argument,
					      NULL, OPT_FIRST + i };
	opterr = 0;
	optind = 0; /* begin anew */
	while ((c = getopt_long(argc, argv, form, options, NULL)) != -1) {
		const char letter[] = { '-', (char)optopt, '\0' };

		if (c == ':')
			bad(argv[optind - 1], "wants a value");
		if (c == '?' && optopt >= OPT_FIRST)
			bad(argv[optind - 1], "takes no value");
		if (c == '?' && optopt != 0)
			bad(letter, "is no option");
		if (c == '?')
			bad(argv[optind - 1],
			    "is no option, or the beginning of several");
		own = c == 'h'   ? gm_ctl_option_named("help", 4)
		      : c == 'q' ? gm_ctl_option_named("quiet", 5)
				 : gm_ctl_option_at((size_t)(c - OPT_FIRST));
		take(ctl, own, optarg, word);
	}
}

/* Options stand before and after the words of a command, also between its
 * operands; but those behind the COMMAND of run are COMMAND's own.  Returns the
 * command's first word. */
static const char *parse(int argc, char **argv, struct gm_ctl *ctl)
{
	const char *word;

	take_options(argc, argv, "+:hq", NULL, ctl);
	word = argv[optind];
	if (word == NULL) {
		gm_ctl_usage(stderr, NULL);
		gm_ctl_exit(GM_EXIT_USAGE);
	}
	if (gm_ctl_is_tool(word))
		become_tool(argv, optind);
	argc -= optind;
	argv += optind;
	take_options(argc, argv, gm_ctl_ends_options(word) ? "+:hq" : ":hq",
		     word, ctl);
	ctl->args = argv + optind;
	ctl->n_args = argc - optind;
	return word;
}

int main(int argc, char **argv)
{
	struct gm_ctl ctl = { .instance = "node",
			      .runtime_dir = "/run/gpumap" };
	struct gpumap_health health = { .size = sizeof(health) };
	const struct gm_command *command;
	const char *word;

	gm_ctl_guard_streams();
	word = parse(argc, argv, &ctl);
	command = gm_ctl_find_command(&ctl, word);
	if (command == NULL)
		no_command(&ctl, word);
	check_operands(command, ctl.n_args);
	if (!gm_ctl_takes_options(command, &ctl))
		bad_form(command, "does not take one of these options");
	if (GM_TEXT(&ctl, RUN_AS) != NULL)
		gm_ctl_become(GM_TEXT(&ctl, RUN_AS));
	if (!command->offline)
		gm_ctl_attach(&ctl);
	for (int i = 0; i < ctl.n_args; i++) {
		size_t n = strlen(ctl.args[i]);

		if (strncmp(command->operands, "ROW", 3) != 0 &&
		    command->n_args != GM_ARGS_COMMAND &&
		    (n == 0 || n > GPUMAP_NAME_MAX))
			bad(ctl.args[i], "is no name, which has 1 to 63 bytes");
	}
	if (ctl.map != NULL)
		gm_ctl_check_rows(&ctl);
	runs[command - gm_ctl_command_at(0)](&ctl);
	if (ctl.map != NULL && gpumap_health(ctl.map, &health) == 0 &&
	    health.stale)
		gm_ctl_say("the agent has not been seen for %.1f s: this is "
			   "what it said last; is gpumapd running?",
			   (double)health.age_ns / 1e9);
	gpumap_detach(ctl.map);
	gm_ctl_exit(GM_EXIT_OK);
}
