/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mask - functions that the commands about published masks share. */
#ifndef GM_CTL_MASK_H
#define GM_CTL_MASK_H

#include "agent/ctl/ctl.h"

/* A published mask, and the rows that have a replica. */
struct gm_ctl_mask {
	struct gpumap_mask_info info;
	uint32_t rows[GPUMAP_ROWS_MAX];
};

/* Read a mask.  Returns as gpumap_mask_read(). */
int gm_ctl_mask_read(const struct gm_ctl *ctl, const char *name,
		     struct gm_ctl_mask *ret_mask);

/* A mask's fields as JSON, a new reference; print it with
 * gm_ctl_mask_print(). */
json_t *gm_ctl_mask_json(const struct gm_ctl_mask *mask);

/* As gm_ctl_print(), with integers up to 2^64 - 1. */
int gm_ctl_mask_print(json_t *object);

/* Print the shape: "96 x 100", or "-" without a tensor. */
const char *gm_ctl_mask_shape(const struct gpumap_mask_info *info,
			      char ret_text[96]);

/* The mask's name for --kind, or "loaded". */
const char *gm_ctl_mask_name(const struct gpumap_mask_info *info);

#endif
