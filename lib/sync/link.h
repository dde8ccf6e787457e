/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * link.h - a connection to gpumap-sync, and requests on it.
 *
 * A request waits for the reply of its serial, with a deadline.  Other records
 * that come meanwhile are kept: events, for gpumap_sync_check(); the answer to
 * the cohort's wait, which is asked for without waiting.  The reply to a
 * request that was given up is dropped.
 *
 * Callers get an epoll instance that has two descriptors: the connection, and
 * an eventfd that is readable while there is something to say that is not in
 * the connection any more.
 */
#ifndef GM_SYNC_LINK_H
#define GM_SYNC_LINK_H

#include <pthread.h>

#include "lib/internal.h"
#include "shm/control_sync.h"

/* A token is hexadecimal, and names a connection. */
#define GM_SYNC_TOKEN_BYTES 32u

/* A connection's rank of a cohort. */
struct gm_cohort {
	char name[GPUMAP_NAME_MAX + 1]; /* "": it is none */
	uint64_t epoch;
	uint32_t world;
	uint32_t rank;
	bool moved;     /* the epoch has moved on */
	bool is_unsure; /* the store did not say */
	/* the wait for a change of the cohort */
	uint32_t serial; /* 0: no answer is to come */
	bool changed;    /* it has been answered, and no look was taken */
	uint64_t seen;
};

struct gpumap_sync {
	/* Protects all below but @epoll.  Held during a request. */
	pthread_mutex_t lock;
	struct gm_guard mine;
	struct gm_link link; /* open until gpumap_sync_close() */
	int epoll;
	int told; /* the eventfd */
	bool is_lost;
	bool gang_lost;
	bool lease_lost;
	uint64_t lease_ns;
	uint64_t until_ns; /* the deadline of requests */
	struct gm_cohort cohort;
	char token[GM_SYNC_TOKEN_BYTES + 1];
	char gang_why[GM_WHY];
	char lease_why[GM_WHY];
	char record[GM_SYNC_BYTES_MAX] __attribute__((aligned(8)));
};

/* Begin a call: take the lock, and give its requests a minute.  Returns 0; or
 * -EOWNERDEAD in a forked child, without the lock. */
int gm_sync_link_begin(struct gpumap_sync *sync);

/* End it.  Returns @ret. */
int gm_sync_link_end(struct gpumap_sync *sync, int ret);

/*
 * gm_sync_link_call - one request and its reply, by sync->until_ns
 *
 * Returns	0, or with the refusal stored: the status of the reply,
 *		-ETIMEDOUT, -ECONNRESET, -EPROTO, -EMSGSIZE or -ENOMEM
 */
int gm_sync_link_call(struct gpumap_sync *sync, struct gm_call *call);

/* Send a request whose reply will come later.  Returns 0, or as
 * gm_sync_link_call(). */
int gm_sync_link_ask(struct gpumap_sync *sync, struct gm_call *call,
		     uint32_t *ret_serial);

/* Take what has come.  Returns 0 or -ECONNRESET, with the refusal stored. */
int gm_sync_link_drain(struct gpumap_sync *sync);

/* Does the connection have anything to say?  Makes the eventfd so. */
void gm_sync_link_tell(struct gpumap_sync *sync);

/* A deadline in the words of a request: the time left, UINT64_MAX: none. */
uint64_t gm_sync_link_left(uint64_t deadline_ns);

#endif
