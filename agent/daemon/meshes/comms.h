/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * comms - groups of rows that do a session's collectives.
 *
 * A group is a page of the agent's memory (agent/comm/comm_shm.h), which the
 * workers of its ranks map and no client has; each worker holds it by a
 * request.  When one of them loses its request, with its worker or its
 * attachment, the others are told to forget the page, which breaks the group
 * and ends its collectives everywhere.  A broken group stays until its client
 * closes it; a renewed group is another group.
 *
 * Cards may do collectives among themselves
 * (agent/worker/collective/nccl_group.h), where their client asks for it and
 * the configuration allows it, and a row for one session at a time.
 */
#ifndef GM_DAEMON_MESHES_COMMS_H
#define GM_DAEMON_MESHES_COMMS_H

#include <stdint.h>
#include <sys/queue.h>

struct gm_connection;
struct gm_daemon;
struct gm_request;
struct gm_session;

/* The groups of one session. */
struct gm_comms {
	TAILQ_HEAD(, gm_comm_group) list;
	uint32_t n;
	uint32_t last; /* number */
};

void gm_comms_init(struct gm_comms *comms);

/* Free those of a session that is being freed. */
void gm_comms_free(struct gm_session *session);

/* A card is drained: groups of other cards that are being opened are opened
 * without NCCL, once their clients ask again (-ESTALE).  Those of @row end with
 * their attachments to it. */
void gm_comms_end_meetings(struct gm_daemon *d, uint32_t row);

/* Handlers, see sessions/dispatch.h. */
int gm_comm_handle_open(struct gm_connection *c, const struct gm_request *r);
int gm_comm_handle_close(struct gm_connection *c, const struct gm_request *r);

#endif
