/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ini - configuration files of sections and keys, and their drop-ins.
 *
 * The main file is read first, then FILE.d/NAME.conf in the order of their
 * names; a later value replaces an earlier one.  A line that means nothing is
 * an error, never skipped.  Each key is a line of a table (ini_value.h); a
 * program may have sections of two words besides, as [map NAME].
 */
#ifndef GM_COMMON_INI_H
#define GM_COMMON_INI_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/common/ini_value.h"

#define GM_INI_WHY_BYTES 1024
#define GM_INI_BLANKS    " \t\r\n"

struct gm_ini;

/* Sections of two words.  Each function returns 0, or a negative errno with
 * the reason by gm_ini_wrong(). */
struct gm_ini_named {
	const char *names; /* for people: "map NAME and model NAME" */
	/* Returns 1 where @text names a section of this kind. */
	int (*open)(struct gm_ini *ini, char *text);
	int (*set)(struct gm_ini *ini, const char *name, const char *value);
	/* The section has ended. */
	int (*end)(struct gm_ini *ini);
};

/* Set the first four before gm_ini_read(); the others say where it is. */
struct gm_ini {
	const struct gm_ini_key *keys;
	size_t n_keys;
	const struct gm_ini_named *named; /* NULL: there are none */
	void *config;                     /* that the keys are of */
	const char *path;
	int line;
	int n_files; /* that were read */
	char section[32];
	bool is_named; /* in a section of two words */
	char *why;
};

/*
 * gm_ini_read - read a file and its drop-ins
 *
 * must_exist	a missing main file is an error; missing drop-ins never are
 * ret_why	"file:line: what is wrong, and what would be right"
 *
 * Returns	how many files were read, 0 where there is none
 *		-EINVAL		a line means nothing
 *		-ENOMEM, and what open and read return, with ret_why set
 */
int gm_ini_read(struct gm_ini *ini, const char *path, bool must_exist,
		char ret_why[GM_INI_WHY_BYTES]);

/* Say what is wrong with the line at hand.  Returns -EINVAL. */
int gm_ini_wrong(const struct gm_ini *ini, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The text without blanks at its ends, in place. */
char *gm_ini_strip(char *text);

#endif
