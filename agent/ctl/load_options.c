/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/load_options.h"

#include <stdio.h>

#include "agent/ctl/parse.h"

static int wrong(const char *why)
{
	return gm_ctl_wrong("load %s", why);
}

/* Options that contradict another one. */
static const struct {
	gm_ctl_set is, not_with;
	const char *why;
} contradictions[] = {
	{ GM_OPT(AS_FILE), GM_OPT(MODEL),
	  "--as-file loads a file: leave out --model" },
	{ GM_OPT(AS_FILE), GM_OPT(WRITABLE),
	  "--as-file shares a file that does not change: leave out "
	  "--writable" },
	{ GM_OPT(AS_FILE), GM_OPT(MAP),
	  "--as-file loads a file to one row: leave out --map" },
	{ GM_OPT(ANY_USER), GM_OPT(USERS),
	  "--any-user shares it with every user: leave out --users" },
	{ GM_OPT(ONCE), GM_OPT(LINK),
	  "--once keeps no file that a link could name: leave out --link, or "
	  "--once" },
	{ GM_OPT(ONCE), GM_OPT(WRITABLE),
	  "--once shares nothing that others could write: leave out "
	  "--writable, or --once" },
	{ GM_OPT(ONCE), GM_OPT(ANY_USER),
	  "--once shares nothing with any user: leave out --any-user, or "
	  "--once" },
	{ GM_OPT(ONCE), GM_OPT(USERS),
	  "--once shares nothing with other users: leave out --users, or "
	  "--once" },
	{ GM_OPT(ONCE), GM_OPT(ANY_FILES),
	  "--once takes nothing that is shared: leave out --any-files, or "
	  "--once" },
	{ GM_OPT(ONCE), GM_OPT(FINGERPRINT),
	  "--once makes nothing that has a fingerprint: leave out "
	  "--fingerprint, or --once" },
	{ GM_OPT(ONCE), GM_OPT(DETACH),
	  "--once frees the memory when it ends, and --detach keeps it: leave "
	  "out one of them" },
	{ GM_OPT(DETACH), GM_OPT(LINK),
	  "--link leads to a descriptor of this process, which ends with "
	  "--detach: leave out one of them" },
};

#define N_CONTRADICTIONS (sizeof(contradictions) / sizeof(contradictions[0]))

int gm_load_check(const struct gm_ctl *ctl)
{
	if ((ctl->given & (GM_OPT(MODEL) | GM_OPT(AS_FILE))) == 0)
		return wrong("needs --model DIR, the directory of a "
			     "checkpoint, or a GGUF file; or --as-file FILE");
	if (GM_GIVEN(ctl, LINK) && !GM_GIVEN(ctl, AS_FILE))
		return wrong("--link makes a link to a file: give --as-file");
	for (size_t i = 0; i < N_CONTRADICTIONS; i++)
		if ((ctl->given & contradictions[i].is) != 0 &&
		    (ctl->given & contradictions[i].not_with) != 0)
			return wrong(contradictions[i].why);
	return GM_EXIT_OK;
}

int gm_load_fingerprint(const struct gm_ctl *ctl,
			struct gpumap_fingerprint *ret_print)
{
	struct gpumap_fingerprint print = { .size = sizeof(print) };

	if (GM_TEXT(ctl, FINGERPRINT) == NULL)
		return GM_EXIT_OK;
	if (gm_parse_hash(GM_TEXT(ctl, FINGERPRINT), print.hash) != 0)
		return wrong("--fingerprint needs 64 hexadecimal digits, not "
			     "all 0");
	*ret_print = print;
	return GM_EXIT_OK;
}
