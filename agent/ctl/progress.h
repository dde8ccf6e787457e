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
 * A thread shows it, so that a line moves while a call does not return.  The
 * rate is that of the last seconds, so that it follows a disk that becomes
 * slower.  Its samples are at least half a second apart.
 */
#ifndef GM_CTL_PROGRESS_H
#define GM_CTL_PROGRESS_H

#include "agent/ctl/clock.h"
#include "agent/ctl/ctl.h"

#define GM_PROGRESS_SAMPLES 8u
#define GM_PROGRESS_LINE    256u /* bytes; a wider terminal gets no more */

struct gm_progress_sample {
	uint64_t ns;
	uint64_t done;
};

struct gm_progress_rate {
	struct gm_progress_sample v[GM_PROGRESS_SAMPLES]; /* a ring */
	uint32_t n;                                       /* ever taken */
};

struct gm_progress_facts {
	const char *what; /* "load" */
	const char *name; /* of its object; NULL: none */
	const char *unit; /* "files"; NULL: bytes */
	const char *note; /* what it waits for; NULL: nothing */
	uint64_t done;    /* at most @total, if that is known */
	uint64_t total;   /* 0: not known */
	uint64_t elapsed_ns;
	uint64_t per_second; /* 0: not known */
	uint64_t left_ns;    /* UINT64_MAX: not known */
};

struct gm_progress {
	/* Called by the thread, to look how far it is and then
	 * gm_progress_tell().  NULL: the work tells it by itself.  The
	 * function may use nothing that the work uses. */
	void (*look)(struct gm_progress *progress);
	void *data;

	/* below: this module's */
	const struct gm_ctl *ctl;
	struct gm_clock_ticker ticker;
	pthread_mutex_t lock; /* of what follows */
	struct gm_progress_facts facts;
	struct gm_progress_rate rate;
	uint64_t begun_ns;
	bool is_line;  /* of a terminal, else an object or text each second */
	bool is_shown; /* something has been */
};

/* Begin to show @what is done to @name, of which @total of @unit are to do: see
 * struct gm_progress_facts.  Without a thread the work goes on unseen. */
void gm_progress_begin(struct gm_progress *progress, const struct gm_ctl *ctl,
		       const char *what, const char *name, const char *unit,
		       uint64_t total);

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

/* ---- progress_text.c ----------------------------------------------------- */

/* Take a sample at @now_ns.  Returns what was done per second since the oldest
 * that is kept; 0: not known. */
uint64_t gm_progress_rate(struct gm_progress_rate *rate, uint64_t now_ns,
			  uint64_t done);

/* The time for the rest at this rate; UINT64_MAX: not known. */
uint64_t gm_progress_left(uint64_t done, uint64_t total, uint64_t per_second);

/* Write a line of less than @columns columns, all of them printable ASCII: a
 * terminal that was filled to the last column would begin the next line.  Parts
 * for which there is no room are left out: first the bar, then times, rate, and
 * name.  Returns @ret_line. */
const char *gm_progress_line(const struct gm_progress_facts *facts,
			     uint32_t columns, char ret_line[GM_PROGRESS_LINE]);

#endif
