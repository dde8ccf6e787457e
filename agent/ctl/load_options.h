/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load_options - options of load that are missing, or exclude each other.
 */
#ifndef GM_CTL_LOAD_OPTIONS_H
#define GM_CTL_LOAD_OPTIONS_H

#include "agent/ctl/ctl.h"

/* Returns an exit status; an error has been printed. */
int gm_load_check(const struct gm_ctl *ctl);

/* The hash that --fingerprint gives; untouched where it is not given.  Returns
 * likewise. */
int gm_load_fingerprint(const struct gm_ctl *ctl,
			struct gpumap_fingerprint *ret_print);

#endif
