/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * progress_text - how far long work is, as a line of text.
 *
 * The rate is that of the last seconds, so that it follows a disk that becomes
 * slower.  Its samples are at least half a second apart.
 */
#ifndef GM_CTL_PROGRESS_TEXT_H
#define GM_CTL_PROGRESS_TEXT_H

#include <stddef.h>
#include <stdint.h>

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
