/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * control_comm.h - what a client and gpumapd say about groups of rows that do
 * collectives, see control.h.
 */
#ifndef GM_CONTROL_COMM_H
#define GM_CONTROL_COMM_H

#include <stdint.h>

/*
 * COMM_OPEN: make rows, on which the session has queues, the ranks of a group.
 * Tail: n_ranks uint32_t, the row of each, none twice.  Answered when the
 * workers of all of them have joined.  It lasts until COMM_CLOSE, or until the
 * worker of one of the rows ends: what is under way in it then ends with -EIO,
 * and what comes later with -ESTALE.
 */
struct gm_comm_open {
	uint32_t n_ranks; /* 1 to GM_COMM_RANKS_MAX */
	uint32_t flags;   /* GM_COMM_MAY_NCCL; an agent that does not know one
			   * refuses it */
};

/* Cards may do it among themselves, by NCCL, for what that is worth. */
#define GM_COMM_MAY_NCCL  UINT32_C(1)

#define GM_COMM_RANKS_MAX 64u

struct gm_comm_reply {
	uint32_t comm;  /* what entries name it by, never used again */
	uint32_t flags; /* GM_COMM_STAGED, _NCCL; unknown bits say nothing */
};

/* Not all of them are host rows.  Each rank's memory is looked at by its own
 * row alone, so the rows of the others need not know it. */
#define GM_COMM_STAGED UINT32_C(1)

/* All of them are cards that have met: what their own memory has goes from card
 * to card. */
#define GM_COMM_NCCL UINT32_C(2)

/* COMM_CLOSE: answered when no worker has anything of it.  No reply body. */
struct gm_comm_close {
	uint32_t comm;
	uint32_t reserved;
};

_Static_assert(sizeof(struct gm_comm_open) == 8, "wire");
_Static_assert(sizeof(struct gm_comm_reply) == 8, "wire");
_Static_assert(sizeof(struct gm_comm_close) == 8, "wire");

#endif
