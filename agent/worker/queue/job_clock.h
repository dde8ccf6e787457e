/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * job_clock - times jobs, for the figures of the row and for a trace.
 *
 * The time of a job is from when the worker has read its entry until the job
 * has ended.  The journal counts the jobs of each span of time.
 *
 * Reading the clock takes about as long as a small job.  So a turn is timed
 * only now and then, by chance, one in GM_JOB_CLOCK_EACH; each small job of
 * that turn counts for so many.  The worker reads the clock in any case for a
 * job that is longer than a turn, that another thread or a program works on, or
 * that the device does asynchronously: each of these is timed, and counts once.
 *
 * While a trace of the row is on, each turn is timed, and each job recorded
 * (shm/trace.h).
 */
#ifndef GM_WORKER_QUEUE_JOB_CLOCK_H
#define GM_WORKER_QUEUE_JOB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/device/task.h"
#include "shm/journal.h"
#include "shm/trace.h"

#define GM_JOB_CLOCK_EACH 64u

/* One for each worker. */
struct gm_job_clock {
	struct gm_journal *journal;
	struct gm_trace *trace; /* NULL: none is on */
	uint32_t left;          /* turns until one is timed */
	uint32_t dice;          /* state of a random number generator, not 0 */
};

/* A job that is being timed. */
struct gm_job_stamp {
	uint64_t read_ns; /* 0: it is not timed */
	uint64_t started_ns;
	uint64_t n; /* elements */
	uint8_t op;
	uint8_t dtype;
	uint16_t weight; /* the number of jobs that it counts for */
};

/* Begin with nothing timed.  @seed decides which turns are. */
void gm_job_clock_init(struct gm_job_clock *clock, struct gm_journal *journal,
		       uint32_t seed);

/* A turn begins.  Returns the weight of its small jobs, or 0: they are not
 * timed. */
uint32_t gm_job_clock_draw(struct gm_job_clock *clock);

static inline uint32_t gm_job_clock_turn(struct gm_job_clock *clock)
{
	if (!clock)
		return 0;
	if (__builtin_expect(clock->trace != NULL, 0))
		return 1;
	if (__builtin_expect(--clock->left != 0, 1))
		return 0;
	return gm_job_clock_draw(clock);
}

/* Stamp the job of an entry that was read at @read_ns. */
static inline struct gm_job_stamp
gm_job_stamp(const struct gm_task *task, uint64_t read_ns, uint32_t weight)
{
	return (struct gm_job_stamp){ .read_ns = read_ns,
				      .started_ns = read_ns,
				      .n = task->n,
				      .op = (uint8_t)task->op,
				      .dtype = (uint8_t)task->dtype,
				      .weight = (uint16_t)weight };
}

/* The job has ended.  @clock: NULL does nothing. */
void gm_job_clock_ended(struct gm_job_clock *clock,
			const struct gm_job_stamp *stamp, uint64_t session,
			uint32_t uid, uint64_t ended_ns, int32_t status);

#endif
