/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* batch - answer requests from standard input on standard output. */
#ifndef GM_CTL_BATCH_H
#define GM_CTL_BATCH_H

#include "agent/ctl/ctl.h"
#include "agent/plan/batch.h"

/* Answer each line until standard input ends; requires --batch.  @answer makes
 * the answer to a line of @n bytes, to free(); NULL if out of memory.  Returns
 * an exit status. */
int gm_ctl_batch(struct gm_ctl *ctl,
		 char *(*answer)(const char *line, size_t n));

#endif
