/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * answers KIND - answer the requests on standard input, one on each line, on
 * standard output.  README.md lists the kinds and their fields.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/answers/answers.h"

static const struct answers_kind *find(const char *name)
{
	const struct answers_kind *kind = answers_kinds;

	while (kind->name && strcmp(kind->name, name) != 0)
		kind++;
	return kind->name ? kind : NULL;
}

int main(int argc, char **argv)
{
	const struct answers_kind *kind = argc == 2 ? find(argv[1]) : NULL;
	char *line = NULL, *text;
	size_t room = 0;
	bool good = true;
	ssize_t n;

	if (!kind) {
		fputs("usage: answers split|spec|plan|choose|mesh|mask\n",
		      stderr);
		return 2;
	}
	while (good && (n = getline(&line, &room, stdin)) >= 0) {
		if (n > 0 && line[n - 1] == '\n')
			n--;
		text = answers_line(kind, line, (size_t)n);
		if (!text)
			errno = ENOMEM;
		/* The requester may wait for it before its next request. */
		good = text && puts(text) >= 0 && fflush(stdout) == 0;
		free(text);
	}
	if (!good || ferror(stdin))
		fprintf(stderr, "answers: %s\n", strerror(errno));
	free(line);
	return !good || ferror(stdin);
}
