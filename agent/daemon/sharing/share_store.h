/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_store - has shares outlive this agent, where the service manager keeps
 * descriptors.
 *
 * The manager has, for a share with the id N,
 *
 *	share-N			its record (share_record.h)
 *	share-N-about		what is said about it, where something is
 *	share-N-0, -1, ...	each buffer
 *
 * and the next agent makes the share anew from these, before it takes requests.
 * Whatever is not a whole share then, it has the manager remove: the agent may
 * have been killed while it sent them, or while it removed them.
 *
 *	step				counts from the instant at which
 *	---------------------------	-----------------------------------
 *	the share is there		the last of its descriptors is sent:
 *					its client is answered then
 *	a process holds it, or not	its place in the record is stored
 *	the share has ended		@ended of the record is stored
 *
 * A process that held it through an earlier agent holds it by its pidfd, until
 * it ends, or opens the share again.  A client whose pid the agent cannot see
 * is not in the record.
 *
 * The manager keeps no share of a card whose memory ends with its worker, and
 * none that it has no room for: the log says so, and such a share ends with
 * this agent.  Model: tests/model/share_store.pml.
 *
 * share_store.c has shares kept, and share_restore.c makes them anew.
 */
#ifndef GM_DAEMON_SHARING_SHARE_STORE_H
#define GM_DAEMON_SHARING_SHARE_STORE_H

#include "agent/daemon/base/connection.h"

struct gm_daemon;
struct gm_share_holder;
struct gm_shared;

/* Have the manager keep a share that is complete. */
void gm_share_store_put(struct gm_shared *shared);

/* The share ends; unless the agent does, also for the manager. */
void gm_share_store_end(struct gm_shared *shared);

/* A session holds it from here on, or no longer.  The first returns 0, or
 * -ENOMEM, -EMFILE or -ENFILE; it does nothing before gm_share_store_put(). */
int gm_share_store_hold(struct gm_share_holder *holder);
void gm_share_store_let_go(struct gm_share_holder *holder);

/* The holder has made the share. */
void gm_share_store_set_first(const struct gm_share_holder *holder);

/* How many processes hold shares through an earlier agent: one that holds two
 * counts twice, because it takes two descriptors. */
uint32_t gm_share_store_processes(const struct gm_daemon *d);

/* Is a descriptor enough to keep memory of this row? */
bool gm_share_store_row_stays(const struct gm_daemon *d, uint32_t row);

/*
 * gm_share_store_restore - the shares of an earlier agent
 *
 * To be called before the first request.  Those that cannot be taken back, for
 * want of descriptors for instance, end, and the log says so.
 *
 * Returns	0; -ENOMEM: nothing has been removed
 */
int gm_share_store_restore(struct gm_daemon *d);

#endif
