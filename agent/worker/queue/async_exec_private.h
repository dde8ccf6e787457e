/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_exec_private - structs shared by async_exec.c and async_exec_poll.c
 * only.
 */
#ifndef GM_WORKER_QUEUE_ASYNC_EXEC_PRIVATE_H
#define GM_WORKER_QUEUE_ASYNC_EXEC_PRIVATE_H

#include "agent/worker/queue/async_exec.h"

/* An entry that has been read and has not ended. */
struct gm_inflight_entry {
	struct gm_task task;
	uint64_t next;        /* element of the next slice to start */
	uint64_t deadline_ns; /* no slice starts after it; 0: no limit */
	uint32_t each;        /* bytes accounted per element */
	uint32_t n_slices;    /* slices in flight */
	int32_t status;
	bool is_fence;
	bool is_second; /* a second slot, which is no job */
	struct gm_job_stamp stamp;
};

struct gm_async_exec_slice {
	struct gm_async_exec flight;
	uint32_t pos; /* of its entry */
	uint64_t since_ns;
	uint64_t first; /* its elements, for the tracepoints */
	uint64_t count;
};

struct gm_async_execs {
	TAILQ_ENTRY(gm_async_execs)
	entry; /* in the worker's list, while flying */
	struct gm_worker_session *session;
	uint32_t oldest; /* position of the entry that ends next */
	bool flying;     /* in that list */
	bool starting;   /* the last entry read has slices to start */
	bool fenced;     /* the last entry read is a fence */
	bool held; /* parked although it has work, see gm_async_exec_hold() */
	bool reaching;       /* the fence waits for its memory to be mapped */
	uint64_t refused_at; /* worker->landed at the last start attempt */
	uint64_t turn_ns;    /* when the turn began, or its last job ended */
	struct gm_doorbell_spin spin;
	uint32_t first; /* slice[first % GM_ASYNC_EXEC_SLICES] is the oldest */
	uint32_t n_slices;
	struct gm_async_exec_slice slice[GM_ASYNC_EXEC_SLICES];
	struct gm_inflight_entry flown[]; /* one per slot of the ring */
};

static inline struct gm_async_exec_slice *
gm_async_exec_oldest_slice(struct gm_async_execs *f)
{
	return &f->slice[f->first % GM_ASYNC_EXEC_SLICES];
}

static inline uint32_t gm_async_exec_slices_max(const struct gm_worker *w)
{
	uint32_t n = w->dev->slices;

	if (n == 0)
		return 1;
	return n < GM_ASYNC_EXEC_SLICES ? n : GM_ASYNC_EXEC_SLICES;
}

/* Account for the slices that the device has ended. */
void gm_async_exec_land(struct gm_worker *worker,
			struct gm_worker_session *session);

/* Put the flights on the worker's list or take them off, as their state
 * requires. */
void gm_async_exec_set_flying(struct gm_worker *worker,
			      struct gm_async_execs *flights);

#endif
