/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fd_store - descriptors that the service manager keeps for the next agent.
 *
 * The manager's side is systemd's file descriptor store, or that of another
 * manager with the same protocol, as contrib/fdstore is: FDSTORE=1 with a name
 * adds a descriptor, FDSTOREREMOVE=1 takes out those of a name, and the next
 * process gets all of them at its start.  $FDSTORE says how many the manager
 * keeps; systemd sets it since version 254.  Before, it is in
 * $GPUMAP_FDSTORE_MAX, which is the unit's.
 *
 * The manager reads its queue before it starts the next agent.  So what was
 * sent counts, whatever happens to this process.  Where the queue is full a
 * message waits here, and those behind it, in the order in which they came; the
 * loop sends them as there is room.  gm_fd_store_has_sent() says whether it
 * has: before, no client may be told of what a message says.
 * tests/model/share_store.pml.
 */
#ifndef GM_DAEMON_BASE_FD_STORE_H
#define GM_DAEMON_BASE_FD_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/daemon/base/loop.h"

struct gm_daemon;
struct gm_fd_store_message;

struct gm_fd_store {
	struct gm_daemon *d; /* its manager has those that are not taken yet */
	struct gm_source socket; /* fd -1: there is no store */
	struct gm_timer retry;   /* the kernel had no memory for a message */
	bool waits;              /* for room in the manager's queue */
	uint32_t n;              /* that the manager keeps, or will */
	uint64_t last_serial;    /* of a message */
	STAILQ_HEAD(, gm_fd_store_message) messages; /* not sent yet */
};

/*
 * gm_fd_store_start - have descriptors kept, where the manager does
 *
 * Returns	0, also where it does not; -ENOMEM, -EMFILE
 */
int gm_fd_store_start(struct gm_daemon *d);
void gm_fd_store_exit(struct gm_daemon *d);

/* Is there a store with room for so many? */
bool gm_fd_store_has_room(const struct gm_fd_store *store, uint32_t n);

/*
 * gm_fd_store_put - have the manager keep a descriptor by this name
 *
 * fd		stays the caller's
 *
 * Returns	0: it is sent, or will be
 *		-ENOTCONN, -ENOMEM, -EMFILE	it will not
 */
int gm_fd_store_put(struct gm_fd_store *store, const char *name, int fd);

/* Have it keep what has this name no longer.  Without memory for the message it
 * keeps that until the next agent's start. */
void gm_fd_store_remove(struct gm_fd_store *store, const char *name);

/* All that was put until now; and has that been sent?  An event tells when more
 * has, see base/events.h. */
uint64_t gm_fd_store_mark(const struct gm_fd_store *store);
bool gm_fd_store_has_sent(const struct gm_fd_store *store, uint64_t mark);

/* The descriptor of this name that an earlier agent left; -1: there is none, or
 * several are, of which none can be told to be it.  With _take() it is the
 * caller's from here on, and the manager keeps its own. */
int gm_fd_store_find(const struct gm_fd_store *store, const char *name);
int gm_fd_store_take(struct gm_fd_store *store, const char *name);

#endif
