/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Masks by rule, for whoever wants to compare his own. */

#include "agent/ctl/batch.h"
#include "agent/mask/mask_batch.h"

int gm_ctl_mask(struct gm_ctl *ctl)
{
	return gm_ctl_batch(ctl, gm_mask_batch);
}
