/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* cohort.h - see lib/sync/cohort.c. */
#ifndef GM_COHORT_H
#define GM_COHORT_H

#include "lib/sync/link.h"

/* Has the cohort moved on?  Stores it in sync->cohort.  Returns 0, or
 * -ECONNRESET. */
int gm_cohort_look(struct gpumap_sync *sync);

#endif
