/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * member - what collective.c, staged.c and nccl_group.c share, and nobody else
 * looks into.
 */
#ifndef GM_WORKER_COLLECTIVE_MEMBER_H
#define GM_WORKER_COLLECTIVE_MEMBER_H

#include "agent/worker/worker.h"

/* A group of a session's, of which this row is a rank. */
struct gm_collective_member {
	LIST_ENTRY(gm_collective_member) entry;
	struct gm_worker_session *session;
	uint64_t number;
	uint64_t bytes;  /* of the page, with its windows */
	uint64_t copied; /* so far: between this rank's memory and windows, or
			  * other devices */
	struct gm_comm comm;

	/* Of a group that has windows: */
	char *windows;                /* NULL: it has none */
	struct gm_region *region;     /* the device reaches ours; or NULL */
	struct gm_async_op_job *last; /* that gives it all back */
	bool is_ready;

	/* Of one whose devices may form a clique (nccl_group.h): */
	LIST_ENTRY(gm_collective_member)
	cliqued; /* of the worker's, while it has one */
	struct gm_nccl_group_thread *thread; /* its own */
	struct gm_nccl_group *formed;        /* what the thread has met with */
	struct gm_nccl_group
		*clique; /* NULL: no rank is in one, or this is no more */
	struct gm_async_op_job *meet;  /* to be handed over, */
	struct gm_async_op_job *abort; /* and to be left with */
	bool is_busy;                  /* a thread has one of them */
	bool is_gone;                  /* as soon as none has */
	uint64_t taken;                /* of the device's memory by it, about */

	bool is_leaving; /* as soon as its part has ended */
	bool is_awaited; /* gpumapd waits for that */
};

static inline uint32_t gm_member_row(const struct gm_collective_member *m,
				     uint32_t rank)
{
	return gm_get(&m->comm.page->row[rank]) % GM_ROWS;
}

static inline char *gm_member_windows(const struct gm_collective_member *m,
				      uint32_t rank)
{
	return m->windows + rank * gm_comm_windows_bytes();
}

#endif
