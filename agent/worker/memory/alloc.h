/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * alloc - memory of the device, for entries.
 *
 * Who leaves has all of its memory until the device has ended what is under way
 * of it.  Who comes next, a server that is started again, would be refused for
 * that: so an ALLOC for which there is no memory waits while any that could
 * help is being given back, and then tries again.
 */
#ifndef GM_WORKER_MEMORY_ALLOC_H
#define GM_WORKER_MEMORY_ALLOC_H

#include "agent/worker/worker.h"

#define GM_ALLOC_NAP_NS UINT64_C(500000000) /* at most, where time counts */

/*
 * gm_alloc_begin - have @session->errand done, which allocates
 *
 * Returns	0: the session is stalled, and goes on by itself.  Otherwise the
 *		status of the entry:
 *		-EOPNOTSUPP	the device has no memory to allocate
 *		-EDQUOT		the session's uid has its quota
 *		-EEXIST		the handle's place is taken
 *		-ENOMEM
 */
int gm_alloc_begin(struct gm_worker *worker, struct gm_worker_session *session);

/* A session has given all back: whoever waits tries again. */
void gm_alloc_retry(struct gm_worker *worker);

/* Whose time is up waits no more. */
void gm_alloc_look(struct gm_worker *worker);

/* How long the worker may sleep, 0 for as long as nothing comes. */
uint64_t gm_alloc_nap(const struct gm_worker *worker);

/* The session is departing.  Allowed where nothing waits. */
void gm_alloc_leave(struct gm_worker *worker,
		    struct gm_worker_session *session);

#endif
