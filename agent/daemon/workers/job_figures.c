/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/job_figures.h"

#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/workers/worker_process.h"

/* Add to a row's word what the journal's has more than was @seen. */
static void add(gm_a64 *to, gm_a64 *from, uint64_t *seen)
{
	uint64_t now = gm_get(from);

	if (now == *seen)
		return;
	gm_put(to, gm_get(to) + (now - *seen));
	*seen = now;
}

static void refresh(struct gm_row *row, struct gm_worker_process *worker)
{
	struct gm_journal *journal = worker->journal;
	struct gm_jobs_seen *seen = &worker->jobs_seen;

	add(&row->jobs, &journal->completed, &seen->jobs);
	add(&row->jobs_failed, &journal->failed, &seen->failed);
	add(&row->job_ns, &journal->job_ns, &seen->ns);
	add(&row->loaded_bytes, &journal->loaded_bytes, &seen->loaded_bytes);
	for (uint32_t i = 0; i < GM_JOB_TIMES; i++)
		add(&row->job_times[i], &journal->job_times[i],
		    &seen->times[i]);
}

void gm_job_figures_refresh(struct gm_daemon *d)
{
	if (!d->supervisor)
		return;
	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_worker_process *worker =
			d->supervisor->rows.workers[row];

		if (worker && worker->journal)
			refresh(&d->segment->map.rows[row], worker);
	}
}
