/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/job_metrics.h"

#define NS 1e9

/* Has the row jobs to count?  They have to be of the device of the labels. */
static bool read_jobs(const struct gpumap *map,
		      const struct gm_metrics_row *row,
		      struct gpumap_device_jobs *ret_jobs)
{
	*ret_jobs = (struct gpumap_device_jobs){ .size = sizeof(*ret_jobs) };
	return row->is_there && row->device.kind != GPUMAP_DEVICE_DUMMY &&
	       gpumap_device_jobs_read(map, row->device.row, ret_jobs) == 0 &&
	       ret_jobs->generation == row->device.generation;
}

static void write_times(struct gm_exposition *e, const struct gm_labels *labels,
			const struct gpumap_device_jobs *jobs)
{
	double most[GPUMAP_JOB_TIMES];
	struct gm_buckets buckets = { .n = GPUMAP_JOB_TIMES,
				      .most = most,
				      .counts = jobs->times,
				      .sum = (double)jobs->ns / NS };

	for (uint32_t i = 0; i < GPUMAP_JOB_TIMES; i++)
		most[i] = (double)gpumap_job_time_end(i) / NS;
	gm_exposition_histogram(e, labels, &buckets);
}

void gm_job_metrics_write(struct gm_exposition *e, const struct gpumap *map,
			  const struct gm_metrics_row *rows, uint32_t n_rows)
{
	static const struct gm_family families[] = {
		{ "gpumap_jobs",
		  "Jobs of the row that have ended; those of clients' programs "
		  "are not counted.",
		  NULL, GM_FAMILY_COUNTER },
		{ "gpumap_jobs_failed", "Jobs of the row that failed.", NULL,
		  GM_FAMILY_COUNTER },
		{ "gpumap_job_duration_seconds",
		  "Time of the row's jobs from when its worker has read them; "
		  "how many of the small ones took how long is estimated from "
		  "samples.",
		  "seconds", GM_FAMILY_HISTOGRAM },
		{ "gpumap_model_load_bytes",
		  "Bytes of files that the row's worker has stored for models "
		  "and other loads, also for those under way.",
		  "bytes", GM_FAMILY_COUNTER },
	};
	struct gpumap_device_jobs jobs;

	for (int k = 0; k < 4; k++) {
		gm_exposition_family(e, &families[k]);
		for (uint32_t i = 0; i < n_rows; i++) {
			const struct gm_labels *labels = &rows[i].labels;

			if (!read_jobs(map, &rows[i], &jobs))
				continue;
			if (k == 0)
				gm_exposition_sample(e, labels,
						     (double)jobs.ended);
			else if (k == 1)
				gm_exposition_sample(e, labels,
						     (double)jobs.failed);
			else if (k == 3)
				gm_exposition_sample(e, labels,
						     (double)jobs.loaded_bytes);
			else
				write_times(e, labels, &jobs);
		}
	}
}
