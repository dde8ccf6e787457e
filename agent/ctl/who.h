/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * who - the holders of reservations, and the requests that wait for them.
 *
 *	who.c		gpumapctl who
 *	who_line.c	holders, the line, and for whom each in it waits
 */
#ifndef GM_CTL_WHO_H
#define GM_CTL_WHO_H

#include "agent/ctl/ctl.h"

/* A reservation, and what it takes of each row. */
struct gm_who {
	struct gpumap_holder holder;
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	uint32_t n;
};

/* Returns 1, 0 after the last, or a negative errno. */
int gm_who_next(const struct gm_ctl *ctl, uint32_t *cursor,
		struct gm_who *ret_who);

uint64_t gm_who_charged(const struct gpumap_charge *charge);

/* The requests that wait, the first in the line first. */
struct gm_who_line {
	struct gpumap_wait_info *v;
	int n; /* negative: it is not known */
};

/* How many before place @i wait for a row that it may take? */
uint32_t gm_who_line_before(const struct gm_who_line *waits, int i);

#define GM_WHO_REASON 256 /* bytes; a longer one is cut */

/* For whom @i waits: the one that has most of its rows, or is in its start
 * window there, and how many wait before.  "": for none. */
const char *gm_who_line_reason(const struct gm_ctl *ctl,
			       const struct gm_who_line *waits, int i,
			       char ret_text[GM_WHO_REASON]);

/* Its rows, "0,2-5". */
#define GM_WHO_ROWS 64 /* bytes; a longer list is cut */
const char *gm_who_line_rows(const struct gpumap_wait_info *wait,
			     char ret_text[GM_WHO_ROWS]);

/* Show them: a table, or "waits" of @all. */
void gm_who_line_show(const struct gm_ctl *ctl, json_t *all);

#endif
