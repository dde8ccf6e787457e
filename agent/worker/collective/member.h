/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * member - the struct of a group membership, for the files of this folder.
 */
#ifndef GM_WORKER_COLLECTIVE_MEMBER_H
#define GM_WORKER_COLLECTIVE_MEMBER_H

#include "agent/worker/worker.h"

/* Membership of this row in a group of a session, as one rank. */
struct gm_collective_member {
	LIST_ENTRY(gm_collective_member) entry;
	struct gm_worker_session *session;
	uint64_t number;
	uint64_t bytes; /* of the page, including its windows */
	/* Bytes copied so far between this rank's memory and windows, or other
	 * devices. */
	uint64_t copied;
	struct gm_comm comm;

	/* For a group that has windows: */
	char *windows; /* NULL: the group has none */
	/* Mapping of this rank's windows for the device, or NULL. */
	struct gm_region *region;
	struct gm_async_op_job *last; /* job that releases all of this */
	bool is_ready;

	/* For a group whose devices may use NCCL (nccl_group.h): */
	/* In the worker's list, while clique is set. */
	LIST_ENTRY(gm_collective_member) cliqued;
	struct gm_nccl_group_thread *thread; /* thread of this member */
	struct gm_nccl_group
		*formed; /* communicator that the thread has made */
	/* NULL: the group has no communicator, or has none any more. */
	struct gm_nccl_group *clique;
	struct gm_async_op_job *meet; /* job that connects, until handed over */
	struct gm_async_op_job *abort; /* job that leaves, until handed over */
	bool is_busy;                  /* the thread has one of the two jobs */
	bool is_gone;   /* free the member as soon as it has none */
	uint64_t taken; /* approximate device memory of the communicator */

	bool is_leaving; /* leave as soon as the part has ended */
	bool is_awaited; /* gpumapd waits for the FORGOTTEN */
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
