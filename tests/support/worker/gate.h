/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gate.h - keep a worker's blocking thread in a job while a test hands over
 * others. */
#ifndef GM_TEST_SUPPORT_WORKER_GATE_H
#define GM_TEST_SUPPORT_WORKER_GATE_H

#include <semaphore.h>

#include "agent/worker/control/blocking_thread.h"

static sem_t gate;

static void gate_wait(struct gm_blocking_job *job,
		      struct gm_backend_device *dev)
{
	(void)job;
	(void)dev;
	while (sem_wait(&gate) < 0)
		;
}

static void gate_passed(struct gm_blocking_job *job, struct gm_worker *w)
{
	(void)job;
	(void)w;
}

/* The thread is in a job until gate_open(). */
static void gate_close(struct gm_blocking_thread *thread)
{
	static struct gm_blocking_job job;

	sem_init(&gate, 0, 0);
	job = (struct gm_blocking_job){ .work = gate_wait,
					.done = gate_passed };
	gm_blocking_thread_give(thread, NULL, &job);
}

static void gate_open(void)
{
	sem_post(&gate);
}

#endif
