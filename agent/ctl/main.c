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

#include "agent/ctl/load_user.h"
#include "agent/ctl/parse.h"
#include "agent/ctl/run/run.h"
#include "agent/ctl/usage.h"
#include "lib/model/plan/number.h"

/* getopt_long()'s value of the first option; those of the others follow. */
#define OPT_FIRST 256

#define WORD      32 /* letters of a command's name, at most */

/* The functions of the commands, by their index. */
static int (*const runs[])(struct gm_ctl *ctl) = {
#define COMMAND(name, operands, what, n_args, run, offline) run,
#include "agent/ctl/commands.h"
};

/* Report that "@what" is wrong, because @why. */
static int bad(const char *what, const char *why)
{
	return gm_ctl_wrong("\"%s\" %s; see gpumapctl --help", what, why);
}

/* Report that "@text" cannot be the value of option @name, because @why. */
static int bad_value(const char *name, const char *text, const char *why)
{
	return gm_ctl_wrong("--%s: \"%s\" %s; see gpumapctl --help", name, text,
			    why);
}

/* Report the error for which getopt_long() returned @c. */
static int bad_option(int c, char **argv)
{
	const char letter[] = { '-', (char)optopt, '\0' };

	if (c == ':')
		return bad(argv[optind - 1], "wants a value");
	if (optopt >= OPT_FIRST)
		return bad(argv[optind - 1], "takes no value");
	if (optopt != 0)
		return bad(letter, "is no option");
	return bad(argv[optind - 1],
		   "is no option, or the beginning of several");
}

/* Does an earlier command have the same name? */
static bool is_again(size_t i)
{
	const char *name = gm_ctl_command_at(i)->name;

	for (size_t k = 0; k < i; k++)
		if (strcmp(gm_ctl_command_at(k)->name, name) == 0)
			return true;
	return false;
}

/* Print the commands that have another word after @word, with commas, unless
 * @to is NULL.  Returns how many they are. */
static unsigned print_family(FILE *to, const char *word)
{
	size_t n = strlen(word);
	unsigned n_found = 0;

	for (size_t i = 0; gm_ctl_command_at(i) != NULL; i++) {
		const char *name = gm_ctl_command_at(i)->name;

		if (strncmp(name, word, n) != 0 || name[n] != ' ' ||
		    is_again(i))
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

/* Report that no command begins with this word. */
static int no_word(const char *word)
{
	const char *like = NULL;
	size_t least = 3;

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
		return bad(word, "is no command");
	return gm_ctl_wrong(
		"\"%s\" is no command: did you mean %.*s? See gpumapctl --help",
		word, (int)strcspn(like, " "), like);
}

/* Report that there is no command of this name. */
static int no_command(const struct gm_ctl *ctl, const char *word)
{
	if (print_family(NULL, word) == 0)
		return no_word(word);
	fprintf(stderr, "gpumapctl: \"%s%s%s\" is no command: ", word,
		ctl->n_args > 0 ? " " : "",
		ctl->n_args > 0 ? ctl->args[0] : "");
	print_family(stderr, word);
	fputs("; see gpumapctl --help\n", stderr);
	return GM_EXIT_USAGE;
}

/* Report that a command's form is wrong, because @why.  Prints its usage; if
 * others share its first word, theirs too. */
static int bad_form(const struct gm_command *command, const char *why)
{
	unsigned n_shared;

	fprintf(stderr, "gpumapctl: \"%s\" %s: ", command->name, why);
	n_shared = print_family(stderr, command->name);
	fprintf(stderr, "%s%s%s%s; see gpumapctl --help\n",
		n_shared > 0 ? " or " : "", command->name,
		command->operands[0] != '\0' ? " " : "", command->operands);
	return GM_EXIT_USAGE;
}

/* Has the command, or another of its forms, so many operands? */
static bool takes(const struct gm_command *command, int n)
{
	const struct gm_command *form;

	for (size_t i = 0; (form = gm_ctl_command_at(i)) != NULL; i++)
		if (strcmp(form->name, command->name) == 0 &&
		    (form->n_args == n ||
		     (form->n_args == GM_ARGS_COMMAND && n > 0)))
			return true;
	return false;
}

static int bad_operands(const struct gm_command *command, int n)
{
	char why[64];

	if (command->n_args == GM_ARGS_COMMAND)
		return bad_form(command, "needs a command to run");
	snprintf(why, sizeof(why), "takes %d operand%s, not %d",
		 command->n_args, command->n_args == 1 ? "" : "s", n);
	return bad_form(command, why);
}

/* Returns @status, or an error if the output could not be written. */
static int printed(int status)
{
	bool lost = ferror(stdout) != 0;

	errno = lost ? EIO : 0;
	if (fflush(stdout) == 0 && !lost)
		return status;
	gm_ctl_say("cannot write: %s", strerror(errno));
	return status == GM_EXIT_OK ? GM_EXIT_FAILED : status;
}

/* Let the program call this gpumapctl, whatever the PATH has. */
static void export_own_path(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0) {
		unsetenv("GPUMAP_CTL_PATH");
		return;
	}
	path[n] = '\0';
	setenv("GPUMAP_CTL_PATH", path, 1);
}

/* Become the program of the command argv[@at], GPUMAP_EXEC_PATH/gpumapctl-NAME.
 * Returns only where it cannot: an exit status. */
static int become_tool(char **argv, int at)
{
	const char *name = argv[at], *folder = getenv("GPUMAP_EXEC_PATH");
	char path[PATH_MAX];
	int error;

	if (folder == NULL)
		folder = GM_PKGLIBEXECDIR;
	if ((size_t)snprintf(path, sizeof(path), "%s/gpumapctl-%s", folder,
			     name) >= sizeof(path))
		return gm_ctl_wrong("GPUMAP_EXEC_PATH is too long");
	export_own_path();
	/* Also those that stand for closed ones. */
	for (int fd = 0; fd < 3; fd++)
		fcntl(fd, F_SETFD, 0);
	/* The options before the name stay, in front of those behind it. */
	for (int i = at; i > 1; i--)
		argv[i] = argv[i - 1];
	argv[1] = path;
	execv(path, argv + 1);
	error = errno;
	if (error == ENOENT && access(path, F_OK) == 0)
		gm_ctl_say("%s needs the Python that the first line of %s "
			   "names: install it (Debian, Fedora: python3)",
			   name, path);
	else if (error == ENOENT)
		gm_ctl_say("%s is a program in Python, and there is no %s: "
			   "install the package python3-gpumap, or build "
			   "gpumap where Python 3.11 and its headers are",
			   name, path);
	else
		gm_ctl_say("cannot run %s: %s", path, strerror(error));
	return GM_EXIT_FAILED;
}

/* Take an option, behind @word if the line has one; returns GM_EXIT_OK or
 * GM_EXIT_USAGE. */
static int take(struct gm_ctl *ctl, const struct gm_ctl_option *own,
		const char *text, const char *word)
{
	size_t id = (size_t)(own - gm_ctl_option_at(0));
	uint64_t *number = &ctl->value[id].number;
	int ret = 0;

	ctl->given |= gm_ctl_option_of(own);
	switch (own->value) {
	case GM_VALUE_HELP:
		gm_ctl_usage(stdout, word);
		exit(printed(GM_EXIT_OK));
	case GM_VALUE_VERSION:
		puts("gpumapctl " PACKAGE_VERSION);
		exit(printed(GM_EXIT_OK));
	case GM_VALUE_NONE:
		break;
	case GM_VALUE_TEXT:
		ctl->value[id].text = text;
		break;
	case GM_VALUE_NUMBER:
		ret = gm_parse_number(text, number);
		break;
	case GM_VALUE_COUNT:
		ret = gm_parse_number(text, number);
		if (ret == 0 && *number == 0)
			return bad_value(own->name, text, "is less than one");
		break;
	case GM_VALUE_SIZE:
		if (gm_number_size(text, number) == 0)
			break;
		return bad_value(own->name, text, GM_NUMBER_NO_SIZE);
	case GM_VALUE_ROWS:
		if (gm_parse_rows(text, ctl->rows, &ctl->n_rows) == 0)
			break;
		return bad(text, "is no list of rows: give each once, such as "
				 "0,2 or 0-3");
	case GM_VALUE_GROUP:
		if (ctl->n_groups == GM_CTL_GROUPS)
			return bad(text, "is one group too many");
		ctl->groups[ctl->n_groups++] = text;
		break;
	}
	if (ret != 0)
		return bad_value(own->name, text, "is not a number that fits");
	if (GM_TEXT(ctl, INSTANCE) != NULL)
		ctl->instance = GM_TEXT(ctl, INSTANCE);
	if (GM_TEXT(ctl, RUNTIME_DIR) != NULL)
		ctl->runtime_dir = GM_TEXT(ctl, RUNTIME_DIR);
	ctl->json = GM_GIVEN(ctl, JSON);
	ctl->progress = GM_GIVEN(ctl, PROGRESS);
	return GM_EXIT_OK;
}

/* Take the options of @argv, from its second word on, as getopt_long() finds
 * them by @form; @word is the command's, if it was found.  Leaves the rest of
 * @argv at optind. */
static int take_options(int argc, char **argv, const char *form,
			const char *word, struct gm_ctl *ctl)
{
	struct option options[GM_OPTIONS + 1] = { 0 };
	const struct gm_ctl_option *own;
	int c, ret = GM_EXIT_OK;

	for (int i = 0; (own = gm_ctl_option_at((size_t)i)) != NULL; i++)
		options[i] = (struct option){ own->name,
					      own->value < GM_VALUE_TEXT
						      ? no_argument
						      : required_argument,
					      NULL, OPT_FIRST + i };
	opterr = 0;
	optind = 0; /* begin anew */
	while (ret == GM_EXIT_OK &&
	       (c = getopt_long(argc, argv, form, options, NULL)) != -1) {
		own = c == 'h'   ? gm_ctl_option_named("help", 4)
		      : c == 'q' ? gm_ctl_option_named("quiet", 5)
				 : gm_ctl_option_at((size_t)(c - OPT_FIRST));
		ret = c == '?' || c == ':' ? bad_option(c, argv)
					   : take(ctl, own, optarg, word);
	}
	return ret;
}

/* Options stand before and after the words of a command, also between its
 * operands; but those behind the COMMAND of run are COMMAND's own. */
static int parse(int argc, char **argv, struct gm_ctl *ctl,
		 const char **ret_word)
{
	int ret = take_options(argc, argv, "+:hq", NULL, ctl);

	*ret_word = optind < argc ? argv[optind] : NULL;
	if (ret != GM_EXIT_OK || *ret_word == NULL)
		return ret;
	if (gm_ctl_is_tool(*ret_word))
		return become_tool(argv, optind);
	argc -= optind;
	argv += optind;
	ret = take_options(argc, argv,
			   gm_ctl_ends_options(*ret_word) ? "+:hq" : ":hq",
			   *ret_word, ctl);
	ctl->args = argv + optind;
	ctl->n_args = argc - optind;
	return ret;
}

/* Are the operands names, and the rows those of the agent? */
static int validate(const struct gm_ctl *ctl, const struct gm_command *command)
{
	for (int i = 0; i < ctl->n_args; i++) {
		size_t n = strlen(ctl->args[i]);

		if (strncmp(command->operands, "ROW", 3) != 0 &&
		    command->n_args != GM_ARGS_COMMAND &&
		    (n == 0 || n > GPUMAP_NAME_MAX))
			return bad(ctl->args[i],
				   "is no name, which has 1 to 63 bytes");
	}
	for (uint32_t i = 0; i < ctl->n_rows && ctl->map != NULL; i++) {
		if (ctl->rows[i] >= gpumap_device_count(ctl->map))
			return gm_ctl_no_row(ctl->rows[i]);
	}
	return GM_EXIT_OK;
}

int main(int argc, char **argv)
{
	struct gm_ctl ctl = { .instance = "node",
			      .runtime_dir = "/run/gpumap" };
	struct gpumap_health health = { .size = sizeof(health) };
	const struct gm_command *command;
	const char *word;
	int ret;

	gm_ctl_guard_streams();
	ret = parse(argc, argv, &ctl, &word);
	if (ret != GM_EXIT_OK)
		return ret;
	if (word == NULL) {
		gm_ctl_usage(stderr, NULL);
		return GM_EXIT_USAGE;
	}
	command = gm_ctl_find_command(&ctl, word);
	if (command == NULL)
		return no_command(&ctl, word);
	if (!takes(command, ctl.n_args))
		return bad_operands(command, ctl.n_args);
	if (!gm_ctl_takes_options(command, &ctl))
		return bad_form(command, "does not take one of these options");
	if (GM_TEXT(&ctl, RUN_AS) != NULL)
		ret = gm_load_user_become(GM_TEXT(&ctl, RUN_AS));
	if (ret == GM_EXIT_OK && !command->offline)
		ret = gm_ctl_attach(&ctl);
	if (ret == GM_EXIT_OK)
		ret = validate(&ctl, command);
	if (ret == GM_EXIT_OK)
		ret = runs[command - gm_ctl_command_at(0)](&ctl);
	if (ret == GM_EXIT_OK && ctl.map != NULL &&
	    gpumap_health(ctl.map, &health) == 0 && health.stale)
		gm_ctl_say("the agent has not been seen for %.1f s: this is "
			   "what it said last; is gpumapd running?",
			   (double)health.age_ns / 1e9);
	gpumap_detach(ctl.map);
	return printed(ret);
}
