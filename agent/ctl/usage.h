/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * usage - what gpumapctl can do: by the tables of commands and of options.
 *
 * The usage of a command is the only place that says which options and operands
 * it takes, and of which form their values are: the help prints it, and the
 * parser and the completion read it, term by term.
 */
#ifndef GM_CTL_USAGE_H
#define GM_CTL_USAGE_H

#include <stddef.h>
#include <stdio.h>

#include "agent/ctl/ctl.h"

/* The form of an option's value, a COUNT from 1 up.  Options before TEXT have
 * none. */
enum gm_ctl_value {
	GM_VALUE_NONE,
	GM_VALUE_HELP,
	GM_VALUE_VERSION,
	GM_VALUE_TEXT,
	GM_VALUE_NUMBER,
	GM_VALUE_COUNT,
	GM_VALUE_SIZE,
	GM_VALUE_ROWS,
	GM_VALUE_GROUP
};

struct gm_ctl_option {
	const char *name;
	enum gm_ctl_value value;
};

struct gm_command {
	const char *name;     /* may have a blank: "mask list" */
	const char *operands; /* and options: its usage */
	const char *what;     /* one line */
	int n_args;           /* operands it needs, or GM_ARGS_* */
	bool offline;         /* needs no agent: the map stays NULL */
};

/* Each by its index; NULL past the last. */
const struct gm_command *gm_ctl_command_at(size_t i);
const struct gm_ctl_option *gm_ctl_option_at(size_t i);

/* The option whose name these @n bytes are, or of no other the beginning; NULL:
 * none. */
const struct gm_ctl_option *gm_ctl_option_named(const char *name, size_t n);

/* The set of this one; of none for NULL. */
gm_ctl_set gm_ctl_option_of(const struct gm_ctl_option *option);

/* "--map NAME", or an operand such as "ROW", in a usage. */
struct gm_ctl_term {
	char name[64];
	char value[64]; /* how the usage calls it; "": there is none */
	const struct gm_ctl_option *option; /* NULL: an operand */
};

/* Take the next term of a usage.  Returns false after the last. */
bool gm_ctl_term_next(const char **text, struct gm_ctl_term *ret_term);

#define GM_CTL_TERMS (2 * GM_OPTIONS)

/* All terms of a command, in each form of it, and those that every command
 * takes; @command may be NULL. */
struct gm_ctl_terms {
	struct gm_ctl_term v[GM_CTL_TERMS];
	size_t n;
};

void gm_ctl_terms_of(const struct gm_command *command,
		     struct gm_ctl_terms *ret_terms);

/* Does a command take all options that were given, in one of its forms? */
bool gm_ctl_takes_options(const struct gm_command *command,
			  const struct gm_ctl *ctl);

/* Print the usage of the commands whose first word is @word; of all, where none
 * is, or @word is NULL. */
void gm_ctl_usage(FILE *to, const char *word);

/* Is this the first word of a command that is another program? */
bool gm_ctl_is_tool(const char *word);

/* Is this the name of a command that another program's words follow? */
bool gm_ctl_ends_options(const char *word);

/* Find the command @word.  If the next operand is the second word of a
 * command's name, find that command and remove the operand. */
const struct gm_command *gm_ctl_find_command(struct gm_ctl *ctl,
					     const char *word);

#endif
