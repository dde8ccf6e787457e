/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/point.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS (100L * 1000 * 1000)

/* Times that this process reached the point that GM_POINT names. */
static _Atomic unsigned long reached;

/* Returns what follows "@name:" in @spec, NULL if @spec names another point. */
static const char *action_for(const char *spec, const char *name)
{
	size_t n = strlen(name);

	if (!spec || strncmp(spec, name, n) != 0 || spec[n] != ':')
		return NULL;
	return spec + n + 1;
}

static int is_word(const char *s, const char *word)
{
	size_t n = strlen(word);

	return strncmp(s, word, n) == 0 && (s[n] == '\0' || s[n] == ':');
}

static void sleep_a_while(void)
{
	struct timespec left = { .tv_nsec = PAUSE_NS };

	while (nanosleep(&left, &left) != 0)
		;
}

void gm_point_reach(const char *name)
{
	const char *action = action_for(getenv("GM_POINT"), name);
	const char *ticket = getenv("GM_POINT_TICKET");
	const char *nth;
	unsigned long want, now;

	if (!action)
		return;
	nth = strchr(action, ':');
	want = nth ? strtoul(nth + 1, NULL, 10) : 1;
	now = ++reached;

	if (is_word(action, "pause") && now >= want) {
		sleep_a_while();
		return;
	}
	/* With a ticket and without a number, the first visit that finds the
	 * ticket acts. */
	if ((nth || !ticket) && now != want)
		return;
	if (ticket && unlink(ticket) != 0)
		return;
	if (is_word(action, "kill"))
		kill(getpid(), SIGKILL);
	else if (is_word(action, "stop"))
		kill(getpid(), SIGSTOP);
	else
		abort(); /* an unknown action: a test would prove nothing */
}
