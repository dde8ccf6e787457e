/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * comms - groups of rows that do a session's collectives.
 *
 * A group is a page of ours (agent/comm/comm_shm.h), which the workers of its
 * ranks map and no client has; each holds it by a claim. When one of them loses
 * its claim, with its worker or its seat, the others are told to forget the
 * page: that breaks it, and ends what is under way in it everywhere. A broken
 * group stays until its client closes it; another life of it is another group.
 *
 * Cards may be told to do it among themselves
 * (agent/worker/collective/nccl_group.h): where their client asks for it and
 * the configuration allows it, and a row for one session at a time.
 */
#ifndef GM_DAEMON_MESHES_COMMS_H
#define GM_DAEMON_MESHES_COMMS_H

#include <stdint.h>
#include <sys/queue.h>

struct gm_connection;
struct gm_request;
struct gm_session;

/* Of one session. */
struct gm_comms {
	TAILQ_HEAD(, gm_comm_group) list;
	uint32_t n;
	uint32_t last; /* number */
};

void gm_comms_init(struct gm_comms *comms);

/* Of a session that is being freed. */
void gm_comms_free(struct gm_session *session);

/* Handlers, see sessions/dispatch.h. */
int gm_comm_handle_open(struct gm_connection *c, const struct gm_request *r);
int gm_comm_handle_close(struct gm_connection *c, const struct gm_request *r);

#endif
