/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * rendezvous - let the processes of a group meet before they form a
 * communicator.
 *
 * A process names its rank, its group, the epoch and its version of NCCL; rank
 * 0 brings the ncclUniqueId.  When all ranks are there, all of them get the id,
 * and none before: a process that has an id knows that all others have it.  A
 * rank is one process, and all have one version.
 *
 * The meeting fails, and all that wait are told, when one of them has waited to
 * its deadline, which moves the group's epoch on, and when the epoch moves by
 * itself.  A process that ends while it waits counts as absent.  When one that
 * was told ends, or leaves and says that something broke, the epoch moves on,
 * which tells the others.  A child that the process has forked does not make
 * it live on.
 *
 * Each move of an epoch walks all meetings, so the ranks of a uid's processes
 * are limited.
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

/* The connection is being dropped, and leaves its ranks. */
void gm_rendezvous_connection_dropped(struct gm_connection *c, const char *why);

/* Epochs have moved, or a mesh is gone: look soon, for whom that ends. */
void gm_rendezvous_recheck(struct gm_daemon *d);

/* Event; see base/events.h. */
void gm_rendezvous_object_moved(struct gm_daemon *d, const struct gm_block *old,
				const struct gm_block *new_block);

/* At the end of the control server, without connections. */
void gm_rendezvous_exit(struct gm_daemon *d);

#endif
