/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Answer the requests on standard input, one on each line, on standard
 * output. */

#include "agent/ctl/batch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static int print_answer(char *text)
{
	/* Flush at once: the requester may wait for the answer before its next
	 * request. */
	bool good = text && puts(text) >= 0 && fflush(stdout) == 0;

	if (!text)
		fprintf(stderr, "gpumapctl: out of memory\n");
	else if (!good)
		fprintf(stderr, "gpumapctl: cannot write: %s\n",
			strerror(errno));
	free(text);
	return good ? GM_EXIT_OK : GM_EXIT_FAILED;
}

int gm_ctl_batch(struct gm_ctl *ctl,
		 char *(*answer)(const char *line, size_t n))
{
	int ret = GM_EXIT_OK;
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	if ((ctl->given & GM_OPT_BATCH) == 0) {
		fprintf(stderr, "gpumapctl: give --batch, and requests on "
				"standard input; see gpumapctl(1)\n");
		return GM_EXIT_USAGE;
	}
	while (ret == GM_EXIT_OK && (n = getline(&line, &room, stdin)) >= 0) {
		if (n > 0 && line[n - 1] == '\n')
			n--;
		ret = print_answer(answer(line, (size_t)n));
	}
	if (ret == GM_EXIT_OK && ferror(stdin)) {
		fprintf(stderr, "gpumapctl: cannot read: %s\n",
			strerror(errno));
		ret = GM_EXIT_FAILED;
	}
	free(line);
	return ret;
}

static char *split(const char *line, size_t n)
{
	return gm_batch_answer(GM_BATCH_SPLIT, line, n);
}

int gm_ctl_split(struct gm_ctl *ctl)
{
	return gm_ctl_batch(ctl, split);
}

static char *spec(const char *line, size_t n)
{
	return gm_batch_answer(GM_BATCH_SPEC, line, n);
}

int gm_ctl_spec(struct gm_ctl *ctl)
{
	return gm_ctl_batch(ctl, spec);
}
