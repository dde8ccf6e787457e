/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * control_comm.h - the messages between a client and gpumapd about groups of
 * rows that do collectives, see control.h.
 */
#ifndef GM_CONTROL_COMM_H
#define GM_CONTROL_COMM_H

#include <stdint.h>

/*
 * COMM_OPEN: make rows, on which the session has queues, the ranks of a group.
 * Tail: n_ranks uint32_t, the row of each, none twice.  Answered when the
 * workers of all of them have joined.  The group lasts until COMM_CLOSE, or
 * until the worker of one of the rows ends: collectives under way then end with
 * -EIO, later ones with -ESTALE.
 */
struct gm_comm_open {
	uint32_t n_ranks; /* 1 to GM_COMM_RANKS_MAX */
	/* GM_COMM_MAY_NCCL; an agent refuses flags that it does not know */
	uint32_t flags;
};

/* Cards may do collectives among themselves, by NCCL, with the rounding of its
 * results. */
#define GM_COMM_MAY_NCCL  UINT32_C(1)

#define GM_COMM_RANKS_MAX 64u

struct gm_comm_reply {
	/* the number by which entries name it, never used again */
	uint32_t comm;
	uint32_t flags; /* GM_COMM_STAGED, _NCCL; ignore unknown bits */
};

/* Not all rows are host rows.  Only its own row reads a rank's memory, so the
 * rows of the others need not know it. */
#define GM_COMM_STAGED UINT32_C(1)

/* All rows are cards that have formed an NCCL communicator: data in their own
 * memory goes from card to card. */
#define GM_COMM_NCCL UINT32_C(2)

/* COMM_CLOSE: end a group; answered when no worker has anything of it.  No
 * reply body. */
struct gm_comm_close {
	uint32_t comm;
	uint32_t reserved;
};

_Static_assert(sizeof(struct gm_comm_open) == 8, "wire");
_Static_assert(sizeof(struct gm_comm_reply) == 8, "wire");
_Static_assert(sizeof(struct gm_comm_close) == 8, "wire");

#endif
