/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Choose devices; answer requests with --batch. */

#include "agent/ctl/batch.h"

static char *answer(const char *line, size_t n)
{
	return gm_batch_answer(GM_BATCH_CHOOSE, line, n);
}

int gm_ctl_choose(struct gm_ctl *ctl)
{
	return gm_ctl_batch(ctl, answer);
}
