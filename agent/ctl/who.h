/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * who - gpumapctl who; and for the request of a command that waits itself, what
 * it waits for.
 */
#ifndef GM_CTL_WHO_H
#define GM_CTL_WHO_H

#include "agent/ctl/ctl.h"

/* The requests that wait, the first in the line first. */
struct gm_who_line {
	struct gpumap_wait_info *v;
	int n; /* negative: it is not known */
};

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

#endif
