/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* calibrate - measure from which size of work rows are worth it. */
#ifndef GM_CTL_CALIBRATE_H
#define GM_CTL_CALIBRATE_H

#include "agent/ctl/ctl.h"

/* Time the operations of jobs on each row of --rows, or on every row that
 * serves, and on the narrowest host row, and set the rows' thresholds.
 * Returns an exit status. */
int gm_ctl_calibrate(struct gm_ctl *ctl);

#endif
