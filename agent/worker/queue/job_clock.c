/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/job_clock.h"

#include "gpumap.h"

_Static_assert(GPUMAP_JOB_TIMES == GM_JOB_TIMES, "one list of spans");

/* Gaps from 1 to 2 * GM_JOB_CLOCK_EACH - 1, all as likely.  A fixed gap would
 * time the same session in each pass over so many. */
uint32_t gm_job_clock_draw(struct gm_job_clock *clock)
{
	uint32_t dice = clock->dice;

	dice ^= dice << 13;
	dice ^= dice >> 17;
	dice ^= dice << 5;
	clock->dice = dice;
	clock->left = 1 + dice % (2 * GM_JOB_CLOCK_EACH - 1);
	return GM_JOB_CLOCK_EACH;
}

void gm_job_clock_init(struct gm_job_clock *clock, struct gm_journal *journal,
		       uint32_t seed)
{
	*clock = (struct gm_job_clock){ .journal = journal,
					.dice = seed != 0 ? seed : 1 };
	gm_job_clock_draw(clock);
}

static void add(gm_a64 *word, uint64_t n)
{
	gm_put(word, gm_get(word) + n);
}

void gm_job_clock_ended(struct gm_job_clock *clock,
			const struct gm_job_stamp *stamp, uint64_t session,
			uint32_t uid, uint64_t ended_ns, int32_t status)
{
	uint64_t ns = ended_ns - stamp->read_ns;

	if (!clock || stamp->read_ns == 0)
		return;
	add(&clock->journal->job_ns, ns * stamp->weight);
	add(&clock->journal->job_times[gpumap_job_time(ns)], stamp->weight);
	if (clock->trace)
		gm_trace_put(clock->trace,
			     &(struct gm_trace_record){
				     .session = session,
				     .read_ns = stamp->read_ns,
				     .started_ns = stamp->started_ns,
				     .ended_ns = ended_ns,
				     .n = stamp->n,
				     .uid = uid,
				     .status = status,
				     .op = stamp->op,
				     .dtype = stamp->dtype });
}
