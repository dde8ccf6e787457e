/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/load_hold.h"
#include "agent/ctl/clock.h"
#include "agent/reader/list.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gpumap.h"

#define SLACK_NS UINT64_C(1000000000) /* of ages, which the agent rounds */

/* ---- signals ------------------------------------------------------------ */

static volatile sig_atomic_t told;
static sigset_t ends; /* blocked except while the command sleeps */

static void tell(int signal)
{
	told = signal;
}

/* The handlers restart interrupted calls.  The program checks @told between
 * calls of the library, so a signal interrupts nothing. */
void gm_load_mind_signals(void)
{
	struct sigaction action = { .sa_handler = tell,
				    .sa_flags = SA_RESTART };

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

bool gm_load_is_told(void)
{
	return told != 0;
}

/* ---- workers ------------------------------------------------------------ */

struct gpumap_device gm_load_device(const struct gm_ctl *ctl, uint32_t row)
{
	struct gpumap_device device = { .size = sizeof(device) };

	while (gpumap_device_read(ctl->map, row, &device) == -EAGAIN)
		;
	return device;
}

static void note_restarts(struct gm_load_held *held)
{
	for (uint32_t i = 0; i < held->n_buffers; i++)
		held->restarts[i] =
			gm_load_device(held->ctl, held->buffers[i].row)
				.restarts;
}

/* Report restarted workers: the memory still exists, but imports of it are
 * lost. */
static void tell_of_restarts(struct gm_load_held *held)
{
	uint32_t told_row = UINT32_MAX;

	for (uint32_t i = 0; i < held->n_buffers; i++) {
		uint32_t row = held->buffers[i].row;
		uint32_t now = gm_load_device(held->ctl, row).restarts;

		if (now != held->restarts[i] && row != told_row) {
			fprintf(stderr,
				"gpumapctl: the worker of row %u died; \"%s\" "
				"is still there, and its other holders open "
				"it again\n",
				row, held->name);
			told_row = row;
		}
		held->restarts[i] = now;
	}
}

/* ---- the share ----------------------------------------------------------- */

/* Does the share still exist?  Where no manager keeps shares the numbers begin
 * anew with each agent, and another process may have taken the name: that share
 * is younger.  Returns 1, 0 or a negative errno. */
static int is_shared(const struct gm_load_held *held)
{
	uint64_t held_ns = gm_clock_ns() - held->since_ns;
	struct gpumap_share_info *all;
	int n = gm_list_share(held->ctl->map, &all), found = 0;

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		found |= all[i].share == held->share &&
			 all[i].age_ns + SLACK_NS >= held_ns;
	free(all);
	/* More shares may exist by now, behind this one. */
	return found;
}

/* The share has ended: was it released, or lost? */
static int ended(const struct gm_load_held *held)
{
	for (uint32_t i = 0; i < held->n_buffers; i++) {
		uint32_t row = held->buffers[i].row;
		struct gpumap_device device = gm_load_device(held->ctl, row);

		if (device.restarts == held->restarts[i] &&
		    device.state == GPUMAP_DEVICE_READY)
			continue;
		fprintf(stderr,
			"gpumapctl: \"%s\" is lost: the worker of row %u died "
			"or has left service, and what it had; load it again\n",
			held->name, row);
		return GM_EXIT_FAILED;
	}
	fprintf(stderr, "gpumapctl: \"%s\" has been released\n", held->name);
	return GM_EXIT_OK;
}

/* ---- another agent ------------------------------------------------------- */

static void lose(struct gm_load_held *held)
{
	fprintf(stderr,
		"gpumapctl: the agent is gone; waiting for the next one\n");
	gpumap_session_close(*held->session);
	*held->session = NULL;
}

/* Open the share by a session with the next agent, if there is one by now.
 * Returns an exit status, or -1 to go on. */
static int find_again(struct gm_load_held *held)
{
	struct gpumap_attach_opts where = { .size = sizeof(where),
					    .instance = held->ctl->instance,
					    .runtime_dir =
						    held->ctl->runtime_dir };
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_POLLABLE,
					    .arena_bytes = 4096 };
	struct gpumap *map;
	uint64_t share;
	int ret;

	/* The next agent's map may be another one. */
	if (gpumap_attach(&where, &map) != 0)
		return -1;
	if (gpumap_session_open(map, &opts, held->session) != 0) {
		gpumap_detach(map);
		return -1;
	}
	gpumap_detach(held->ctl->map);
	held->ctl->map = map;
	ret = gpumap_share_open(*held->session, held->name,
				GPUMAP_SHARE_READ_ONLY, NULL, &share);
	if (ret == -ECONNRESET || ret == -ECONNREFUSED || ret == -EPROTO ||
	    ret == -EOWNERDEAD) {
		/* The next agent is gone as well. */
		gpumap_session_close(*held->session);
		*held->session = NULL;
		return -1;
	}
	if (ret != 0 && ret != -ENOENT)
		return gm_ctl_fail(held->ctl, ret, "open \"%s\" again",
				   held->name);
	if (ret != 0 || share != held->share || is_shared(held) == 0) {
		fprintf(stderr,
			"gpumapctl: \"%s\" is lost: the agent went away, and "
			"its service manager has not kept it; load it again\n",
			held->name);
		return GM_EXIT_NO_AGENT;
	}
	fprintf(stderr, "gpumapctl: another agent has \"%s\"; holding it\n",
		held->name);
	note_restarts(held);
	return -1;
}

/* ---- hold it ------------------------------------------------------------- */

/* Check the share.  Returns an exit status, or -1 to go on holding it. */
static int look(struct gm_load_held *held)
{
	int ret;

	if (*held->session == NULL)
		return find_again(held);
	ret = gpumap_session_arm(*held->session);
	if (ret >= 0)
		ret = is_shared(held);
	if (ret < 0) {
		lose(held);
		return -1;
	}
	if (ret == 0)
		return ended(held);
	tell_of_restarts(held);
	return -1;
}

static int hold(struct gm_load_held *held)
{
	const struct timespec second = { .tv_sec = 1 };
	sigset_t before;
	int ret;

	if (!held->ctl->json) {
		printf("shared as \"%s\"; holding it; end with Ctrl-C\n",
		       held->name);
		fflush(stdout);
	}
	sigprocmask(SIG_BLOCK, &ends, &before);
	while ((ret = look(held)) < 0 && !told) {
		struct pollfd wake = { .fd = -1, .events = POLLIN };

		if (*held->session != NULL)
			wake.fd = gpumap_session_fd(*held->session);
		ppoll(&wake, 1, &second, &before);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret < 0 ? GM_EXIT_OK : ret;
}

int gm_load_hold(struct gm_load_held *held)
{
	int ret;

	held->restarts = calloc(held->n_buffers, sizeof(*held->restarts));
	if (held->restarts == NULL)
		return gm_ctl_fail(held->ctl, -ENOMEM, "load");
	held->since_ns = gm_clock_ns();
	note_restarts(held);
	ret = hold(held);
	free(held->restarts);
	return ret;
}
