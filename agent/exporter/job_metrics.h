/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* job_metrics - how many jobs each row has done, and in which time. */
#ifndef GM_JOB_METRICS_H
#define GM_JOB_METRICS_H

#include <stdbool.h>

#include "agent/exporter/exposition.h"
#include "gpumap.h"

/* A row as it was at one moment, and its labels. */
struct gm_metrics_row {
	struct gpumap_device device;
	struct gm_labels labels;
	bool is_there;
};

/* Write the metrics of rows 0 to @n_rows - 1.  No system call. */
void gm_job_metrics_write(struct gm_exposition *e, const struct gpumap *map,
			  const struct gm_metrics_row *rows, uint32_t n_rows);

#endif
