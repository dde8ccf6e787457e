/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show the node as it changes, or once. */

#include "agent/ctl/ctl.h"
#include "agent/top/top.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/ctl/parse.h"

_Static_assert(GM_TOP_NAME == GM_CTL_NAME, "both have room for a name");

static const char *command_of(const void *ctl, uint32_t pid, uint32_t uid,
			      char ret_text[GM_TOP_NAME])
{
	return gm_ctl_command(ctl, pid, uid, ret_text);
}

/* $COLUMNS, or those of the terminal, or 80. */
static int columns(void)
{
	const char *text = getenv("COLUMNS");
	struct winsize size = { .ws_col = 0 };
	uint64_t n = 0;

	if (text == NULL || gm_parse_number(text, &n) != 0 || n == 0) {
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
		n = size.ws_col > 0 ? size.ws_col : 80;
	}
	return n < GM_TOP_LEAST_WIDTH ? GM_TOP_LEAST_WIDTH
	       : n > 1000             ? 1000
				      : (int)n;
}

static bool is_ascii(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

/* ---- once ---------------------------------------------------------------- */

static int print_text(const struct gm_top_facts *facts)
{
	struct gm_top_view view = { .width = columns(),
				    .is_ascii = is_ascii() };
	int ret = GM_EXIT_FAILED;

	gm_top_layout(&view, facts);
	if (!view.page.failed) {
		gm_page_write(&view.page, stdout);
		ret = GM_EXIT_OK;
	}
	gm_top_view_free(&view);
	return ret;
}

static int once(struct gm_ctl *ctl, const struct gm_top_names *names)
{
	struct gm_top_cache cache = { .n = 0 };
	struct gm_top_facts facts;
	int ret =
		gm_top_facts_read(ctl->map, GM_TOP_ALL, names, &cache, &facts);

	snprintf(facts.instance, sizeof(facts.instance), "%s", ctl->instance);
	if (ret != 0)
		ret = gm_ctl_fail(ctl, ret, "top");
	else if (ctl->json)
		ret = gm_ctl_print(gm_top_facts_json(&facts));
	else
		ret = print_text(&facts);
	gm_top_facts_free(&facts);
	gm_top_cache_free(&cache);
	return ret;
}

/* ---- on a screen --------------------------------------------------------- */

#ifdef HAVE_NCURSES
static int show(struct gm_ctl *ctl, const struct gm_top_names *names)
{
	struct gm_top_terminal terminal = {
		.map = &ctl->map,
		.instance = ctl->instance,
		.runtime_dir = ctl->runtime_dir,
		.names = *names,
		.interval_s = ctl->interval_s > 0 ? ctl->interval_s : 1,
		.is_ascii = is_ascii(),
	};
	const char *term = getenv("TERM");
	int ret;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		fprintf(stderr, "gpumapctl: top needs a terminal: --once "
				"prints the same, once\n");
		return GM_EXIT_USAGE;
	}
	ret = gm_top_screen(&terminal);
	if (ret == 0)
		return GM_EXIT_OK;
	if (ret == -ENOTTY)
		fprintf(stderr,
			"gpumapctl: TERM is \"%s\", which is not known here or "
			"cannot move its cursor: set TERM, to \"xterm\" for "
			"example, or use top --once\n",
			term != NULL ? term : "");
	else
		fprintf(stderr, "gpumapctl: top: %s\n", strerror(-ret));
	return GM_EXIT_FAILED;
}
#else
static int show(struct gm_ctl *ctl, const struct gm_top_names *names)
{
	fprintf(stderr, "gpumapctl: top --once works here, but no screen: this "
			"gpumapctl was built without ncurses\n");
	return GM_EXIT_USAGE;
}
#endif

int gm_ctl_top(struct gm_ctl *ctl)
{
	const struct gm_top_names names = { gm_ctl_user, command_of, ctl };

	setlocale(LC_CTYPE, "");
	if (ctl->json || (ctl->given & GM_OPT_ONCE) != 0)
		return once(ctl, &names);
	return show(ctl, &names);
}
