/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * rendezvous - where the processes of a group meet before they form a
 * communicator of their own.
 *
 * A process says which rank of which group it is, in which epoch and with which
 * version of NCCL; rank 0 brings the ncclUniqueId.  When all ranks are there
 * all of them are told the id, and nobody before: who has an id has all others
 * with him.  One process is a rank's; all have one version.
 *
 * It comes to nothing, and all who wait are told, when one who is there has
 * waited as long as it would, which moves the group's epoch on, and when that
 * moves by itself.  A process that ends while it waits has not been there.
 * When one that was told ends, or leaves and says that something broke, the
 * epoch moves on: by that the others know.
 *
 * Whenever an epoch moves all of them are looked at, so a uid's processes are
 * so many ranks at most.
 */
#ifndef GM_DAEMON_MESHES_RENDEZVOUS_H
#define GM_DAEMON_MESHES_RENDEZVOUS_H

#include <stdint.h>
#include <sys/queue.h>

#include "agent/daemon/base/connection.h"

struct gm_block;
struct gm_daemon;

/* One rank of one, which a connection is. */
struct gm_member {
	TAILQ_ENTRY(gm_member) entry; /* of its connection */
	struct gm_rendezvous *at;
	struct gm_connection *connection;
	uint64_t ticket; /* never used again */
	uint64_t due_ns; /* that it would wait for */
	uint32_t rank;
};

/* JOIN and LEAVE; as every handler of sessions/dispatch.c. */
int gm_rendezvous_join(struct gm_connection *c, const struct gm_request *r);
int gm_rendezvous_leave(struct gm_connection *c, const struct gm_request *r);

/* The connection is being dropped: its ranks are nobody's. */
void gm_rendezvous_connection_dropped(struct gm_connection *c, const char *why);

/* Epochs have moved, or a mesh is gone: look soon, for whom that ends. */
void gm_rendezvous_recheck(struct gm_daemon *d);

/* Event; see base/events.h. */
void gm_rendezvous_object_moved(struct gm_daemon *d, const struct gm_block *old,
				const struct gm_block *new_block);

/* At the end of the control server, without connections. */
void gm_rendezvous_exit(struct gm_daemon *d);

#endif
