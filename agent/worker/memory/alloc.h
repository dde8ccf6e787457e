/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * alloc - executes ALLOC: device memory for entries.
 *
 * The memory of a session that leaves is freed only after its work in flight
 * has ended.  A session that follows, such as a restarted server's, would be
 * refused for lack of this memory.  So an ALLOC without enough memory waits
 * while memory that could help is being freed, and then tries again.
 */
#ifndef GM_WORKER_MEMORY_ALLOC_H
#define GM_WORKER_MEMORY_ALLOC_H

#include "agent/worker/worker.h"

/* Longest sleep while an ALLOC has a deadline. */
#define GM_ALLOC_NAP_NS UINT64_C(500000000)

/*
 * gm_alloc_begin - begin the session's request, an ALLOC
 *
 * Returns	0: the session is stalled, and goes on by itself.  Otherwise the
 *		status of the entry:
 *		-EOPNOTSUPP	the device has no memory to allocate
 *		-EDQUOT		the session's uid has used up its quota
 *		-EEXIST		the handle's place is taken
 *		-ENOMEM
 */
int gm_alloc_begin(struct gm_worker *worker, struct gm_worker_session *session);

/* A session has freed all its memory: retry the waiting ALLOCs. */
void gm_alloc_retry(struct gm_worker *worker);

/* End the waiting ALLOCs whose deadline has passed. */
void gm_alloc_look(struct gm_worker *worker);

/* How long the worker may sleep until the next ALLOC deadline, 0 for no
 * limit. */
uint64_t gm_alloc_nap(const struct gm_worker *worker);

/* The session is departing: drop its waiting ALLOC, if there is one. */
void gm_alloc_leave(struct gm_worker *worker,
		    struct gm_worker_session *session);

#endif
