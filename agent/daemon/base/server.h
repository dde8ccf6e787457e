/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * server - the control socket and what hangs on it: connections, sessions, and
 * what sessions share.
 */
#ifndef GM_DAEMON_BASE_SERVER_H
#define GM_DAEMON_BASE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/close_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/common/refusal.h"
#include "agent/daemon/base/user.h"
#include "shm/control.h"

/* A worker that has not let go after so long is stuck. */
#define GM_ROOM_NS UINT64_C(5000000000)

struct gm_connection;
struct gm_daemon;
struct gm_export;
struct gm_rendezvous;
struct gm_request;
struct gm_request_kind;
struct gm_deferred_request;
struct gm_session;
struct gm_shared;

/* Why connections end, and how often they did. */
enum gm_drop {
	GM_DROP_HUNG_UP, /* as it should be */
	GM_DROP_SESSION, /* its session had to end */
	GM_DROP_AGENT,   /* ours */
	GM_DROP_REFUSED, /* one connection too many */
	GM_DROP_RECORD,  /* a record that is none */
	GM_DROP_FDS,     /* descriptors that no request asked for */
	GM_DROP_SILENT,  /* no HELLO in time */
	GM_DROP_FULL,    /* replies are not read */
	GM_DROP_BROKEN,  /* an error of the socket */
	GM_DROPS
};

TAILQ_HEAD(gm_export_list, gm_export);
TAILQ_HEAD(gm_rendezvous_list, gm_rendezvous);
TAILQ_HEAD(gm_retry_queue_wait_list, gm_deferred_request);
TAILQ_HEAD(gm_session_list, gm_session);
TAILQ_HEAD(gm_share_claim_list, gm_share_claimed);
TAILQ_HEAD(gm_shared_list, gm_shared);
TAILQ_HEAD(gm_user_list, gm_user);

struct gm_control_server {
	struct gm_daemon *d;
	char path[108];
	struct gm_source listener;
	bool is_managers;   /* the listener, and its path, outlive us */
	bool keeps_fds_out; /* the kernel does, of all but sessions */
	int reserve;        /* closed to accept and refuse a new connection */
	bool paused;        /* no descriptor at all: wait a little */
	struct gm_timer pause; /* until we listen again */
	struct gm_timer hello; /* when the oldest silent one is dropped */
	struct gm_connection_list silent; /* no HELLO yet, oldest first */
	struct gm_connection_list known;
	uint32_t n_connections;
	uint32_t n_refused; /* of them: only there to be told why */
	struct gm_user_list users;
	struct gm_user_list
		ready;        /* with records to take, the next one first */
	struct gm_timer turn; /* of these */
	/* Oldest first, see sessions/map_waits.h. */
	struct gm_connection_list map_waits;
	uint32_t map_told;         /* the generation that they have heard of */
	struct gm_timer map_tells; /* the next ones of them */
	uint64_t drops[GM_DROPS];

	struct gm_session_list sessions; /* by id */
	uint32_t n_sessions;
	uint32_t n_releases; /* sessions that are gone, but for their memory */
	bool is_ending;      /* clients keep what they have of sessions */
	uint64_t last_session;
	struct gm_export_list exports; /* oldest first, see sharing/exports.h */
	uint64_t last_export;
	struct gm_shared_list shares; /* by id, see sharing/share_request.h */
	uint64_t last_share;
	struct gm_share_claim_list share_claims; /* names to come */
	/* Oldest first, see sharing/share_answer.h. */
	struct gm_connection_list share_answers;
	struct gm_rendezvous_list rendezvous;
	struct gm_timer moved; /* look at them soon */
	struct gm_retry_queue_wait_list
		room_waits;   /* oldest first, see account/retry_queue.h */
	struct gm_timer room; /* look at them soon */
	uint64_t last_ticket;
	struct gm_close_thread close_thread;

	/* From sessions/dispatch.c: how to treat a type, NULL for an unknown
	 * one; and whether a refused request waits for room. */
	const struct gm_request_kind *(*kind_of)(uint16_t type);
	bool (*waits_for_room)(struct gm_connection *c,
			       const struct gm_request *r, int status,
			       uint64_t limit_ns);

	int share; /* the segment for other namespaces, -1: not made yet */
	bool draining;
	char why[GM_WHY_BYTES];            /* of the refusal at hand */
	enum gm_memory_limit memory_limit; /* that the request at hand met */
	char record[GM_CONTROL_BYTES_MAX] __attribute__((aligned(8)));
};

#endif
