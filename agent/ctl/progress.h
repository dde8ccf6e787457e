/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * progress - show how far long work is, while another function does it.
 *
 *	on a terminal	one line on stderr, drawn ten times a second
 *	--progress	elsewhere a line on stderr each second; with --json a
 *			JSON object on stdout, before the result's
 *	otherwise	nothing
 *
 * Work that ends within half a second shows nothing.  The last
 * object of other work that ends well says that all is done.  A signal that
 * ends the process clears the line first.
 *
 * A thread shows it, so that a line moves while a call does not return.
 */
#ifndef GM_CTL_PROGRESS_H
#define GM_CTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/ctl.h"
#include "agent/ctl/progress_text.h"

struct gm_progress {
	const struct gm_ctl *ctl;
	const char *what; /* "load" */
	const char *name; /* of its object; NULL: none */
	const char *unit; /* "files"; NULL: bytes */

	/* Called by the thread, to look how far it is and then
	 * gm_progress_tell().  NULL: the work tells it by itself.  The
	 * function may use nothing that the work uses. */
	void (*look)(struct gm_progress *progress);
	void *data;

	/* below: this module's */
	struct gm_clock_ticker ticker;
	pthread_mutex_t lock; /* of what follows */
	uint64_t done;
	uint64_t total;
	const char *note;
	uint64_t begun_ns;
	bool is_line;  /* of a terminal, else an object or text each second */
	bool is_shown; /* something has been */
	struct gm_progress_rate rate;
};

/* Begin to show it.  Without a thread the work goes on unseen. */
void gm_progress_begin(struct gm_progress *progress, uint64_t total);

/* So much is done, of @total or 0 for one that is not known.  @done only
 * grows.  Threads: any, while it is begun. */
void gm_progress_tell(struct gm_progress *progress, uint64_t done,
		      uint64_t total);

/* The work waits for something, as this text says, which stays; NULL: no
 * longer. */
void gm_progress_note(struct gm_progress *progress, const char *note);

/* The work has ended: clear the line, before anything else is printed.  Allowed
 * for one that is not begun, or has ended. */
void gm_progress_end(struct gm_progress *progress, bool is_done);

#endif
