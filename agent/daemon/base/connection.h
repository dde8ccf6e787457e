/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * connection - one client: takes records, checks their form, and sends one
 * reply to each.
 *
 * Uids take turns, one each in a turn of the loop, of so many records and
 * bytes and so much time; the connections of a uid take turns within its own, a
 * record each.  So a client waits for the other uids once, however many
 * connections they have, and whatever their requests cost.
 *
 * Requests are answered in order.  A request that cannot be answered yet
 * (QUEUE_OPEN waits for a worker) stops the reading; records that the client
 * sends meanwhile stay in the socket.
 *
 * One type of request carries one descriptor, and only on the connection of a
 * session.  So each record is peeked at before it is received: a record of
 * another type that has descriptors is never received, and the connection is
 * dropped.  A flood of descriptors cannot cost the agent a single one, nor
 * time: received ones are closed by deferred_close.h, and so is the socket with
 * all that is still in it.  Where the kernel can (Linux 6.16), it refuses to
 * send any to a connection that is no session.
 *
 * In the other direction the kernel counts descriptors that the agent has sent
 * and that clients have not received, over all connections together, and
 * refuses more.  So a client that was sent descriptors has to receive them
 * before the agent reads anything else from it.  The agent looks whether it has
 * after 20 ms, and then less and less often, down to once a second.
 */
#ifndef GM_DAEMON_BASE_CONNECTION_H
#define GM_DAEMON_BASE_CONNECTION_H

#include <string.h>

#include "agent/daemon/base/server.h"

struct gm_importer;
struct gm_member;
struct gm_deferred_request;

TAILQ_HEAD(gm_importer_list, gm_importer);   /* see sharing/exports.h */
TAILQ_HEAD(gm_mask_loan_list, gm_mask_loan); /* see masks/device_replicas.h */
TAILQ_HEAD(gm_member_list, gm_member);       /* see meshes/rendezvous.h */

/* For the drain of a row, or its return; see health/drain.h.  Embedded in its
 * owner, zero but for done. */
struct gm_drain_wait {
	/* The request has ended: 0, or a negative errno with the reason.  The
	 * wait belongs to its owner again. */
	void (*done)(struct gm_drain_wait *wait, int status, const char *why);
	/* See health/drain.c. */
	TAILQ_ENTRY(gm_drain_wait) entry;
	struct gm_row_drain *drain;
};

struct gm_connection {
	TAILQ_ENTRY(gm_connection) entry;
	TAILQ_ENTRY(gm_connection) turn; /* of its user's, while is_ready */
	bool is_ready;                   /* records, or its end, are there */
	struct gm_control_server *server;
	struct gm_source source; /* fd -1: dropped */
	/* A pidfd; fd -1: its process is not watched; see
	 * gm_connection_watch() */
	struct gm_source process;
	struct gm_user *user;
	pid_t pid; /* 0: where we cannot see it */
	uid_t uid;
	uint64_t since_ns; /* accepted */
	uint64_t node_ns;  /* likewise, by gm_node_clock_now() */
	bool said_hello;
	bool is_refused;      /* gets an answer to its HELLO, and no more */
	bool waits;           /* for an answer that is not known yet */
	uint32_t busy;        /* calls that still use this struct */
	struct gm_timer rest; /* until more is read */
	uint64_t full_ns;     /* the last rest for want of room; 0: none */
	struct gm_control pending;   /* header of the request that waits */
	struct gm_session *session;  /* NULL: none */
	struct gm_change *change;    /* that it waits for; NULL: none */
	struct gm_drain_wait drain;  /* likewise */
	struct gm_admit_place *line; /* in its turn, or NULL */
	/* In the server's map_waits, while it waits for a change. */
	TAILQ_ENTRY(gm_connection) map_wait;
	bool waits_for_map;
	uint32_t seen; /* the generation that is to change */
	/* In the server's share_answers, while it waits for this share. */
	TAILQ_ENTRY(gm_connection) share_answer;
	uint64_t share; /* its id; 0: it does not wait */
	uint64_t share_mark;
	bool opens_share;
	struct gm_deferred_request
		*room; /* likewise, see account/retry_queue.h */
	int fd; /* that came with the request at hand; -1: none, or taken */
	bool was_session; /* or is one: it may have sent descriptors */
	bool lost_fd;     /* one came, and we had no descriptor for it */
	bool gave_fds;    /* that it may not have received yet */
	bool traces;      /* it has had a trace of a row */
	struct gm_importer_list imports; /* what it has descriptors of */
	struct gm_mask_loan_list loans;  /* likewise, of masks */
	struct gm_member_list members;   /* ranks that it is */
};

/* Let descriptors in, or have the kernel refuse to send them.  A socket that is
 * accepted from a listening one has its setting.  Returns 0, or a negative
 * errno: -ENOPROTOOPT before Linux 6.16. */
int gm_connection_pass_fds(int socket, bool pass);

/* One request, whose form has been checked. */
struct gm_request {
	struct gm_control header;
	char body[256] __attribute__((aligned(8))); /* missing bytes are 0 */
	const char *tail;
	uint32_t tail_bytes;
};

/* The tail of a request, of any alignment, from the front. */
struct gm_tail {
	const char *at;
	uint32_t left;
};

static inline bool gm_connection_take(struct gm_tail *tail, void *ret,
				      uint64_t bytes)
{
	if (bytes > tail->left)
		return false;
	memcpy(ret, tail->at, bytes);
	tail->at += bytes;
	tail->left -= (uint32_t)bytes;
	return true;
}

/* How to treat one type of request. */
struct gm_request_kind {
	uint32_t body_bytes; /* as we know it */
	bool has_tail;
	bool has_fd;     /* may carry one, of a session */
	bool of_session; /* no other connection may ask it */

	/* Returns 0 when it has answered or will (gm_connection_wait()), or a
	 * negative status to refuse with, and server->why. */
	int (*handle)(struct gm_connection *c, const struct gm_request *r);
};

/* Once for a server, before its first connection. */
void gm_connection_init_turns(struct gm_control_server *s);

/* Take a connected, non-blocking socket over.  Returns 0, -EUSERS when too many
 * wait to be refused already, or another negative errno; the socket is closed
 * then. */
int gm_connection_open(struct gm_control_server *s, int fd, bool is_refused);

/* Check one again that was to be refused: since it was accepted others may have
 * turned out to be gone.  Returns whether it is no longer, or never was. */
bool gm_connection_let_in(struct gm_connection *c);

/* Close a socket that is not taken over.  Its peer may have sent before it was
 * accepted, descriptors too.  @uid: -1 where it is not known. */
void gm_connection_turn_away(const struct gm_control_server *s, int fd,
			     uid_t uid);

/* End the connection, and its session with it.  A function that is in the
 * middle of a call for it goes on with the rest, see busy. */
void gm_connection_drop(struct gm_connection *c, enum gm_drop reason,
			const char *detail);

/*
 * gm_connection_watch - end the connection when the process that made it ends
 *
 * A child that the process has forked has the socket, too, which therefore does
 * not hang up.  Where the kernel cannot tell of the process, the hang-up must
 * do.  Further calls do nothing.
 *
 * Returns	0, -ESRCH when it has ended already, or another negative errno
 */
int gm_connection_watch(struct gm_connection *c);

/* The contents of a reply, each of which may be missing. */
struct gm_reply {
	const void *body;
	uint32_t body_bytes;
	const void *tail;
	uint32_t tail_bytes;
	const int *fds; /* the client gets copies; ours stay ours */
	uint32_t n_fds;
};

/*
 * gm_connection_reply - answer a request with success
 *
 * request	its header
 * reply	NULL: nothing but success
 *
 * A client that has no room for its reply is dropped.
 *
 * Returns	0, for a handler to return
 */
int gm_connection_reply(struct gm_connection *c,
			const struct gm_control *request,
			const struct gm_reply *reply);
int gm_connection_reply_body(struct gm_connection *c,
			     const struct gm_control *request, const void *body,
			     uint32_t bytes);

/* Answer a request with a negative status and the reason. */
void gm_connection_refuse(struct gm_connection *c,
			  const struct gm_control *request, int status,
			  const char *why);

/* The same with more than the reason: @body begins with a gm_refusal. */
void gm_connection_refuse_with(struct gm_connection *c,
			       const struct gm_control *request, int status,
			       const void *body, uint32_t bytes);

/* Does the process that connected still run?  A child of its may go on talking
 * for it, when its pid is no longer its own. */
bool gm_connection_lives(const struct gm_connection *c);

/* Is its user root, the agent's own, or the one in [cluster], as which
 * gpumap-sync runs? */
bool gm_connection_is_sync(const struct gm_connection *c);

/* Answer the request that waits, and read on.  @why counts for a refusal, the
 * rest for success; @fd may be -1. */
void gm_connection_answer(struct gm_connection *c, int status, const char *why,
			  const void *body, uint32_t bytes, int fd);

/* The answer to @request will come later; nothing is read until it has. */
void gm_connection_wait(struct gm_connection *c,
			const struct gm_control *request);
/* The answer has been sent: read on. */
void gm_connection_resume(struct gm_connection *c);

/* Read nothing more before @until_ns.  The connection waits for no answer. */
void gm_connection_rest(struct gm_connection *c, uint64_t until_ns);

/* End a use of @c that began with busy++; the last one frees it. */
void gm_connection_release(struct gm_connection *c);

/* Have a request handled.  Returns what its handler does: 0 where it has been
 * answered or will be, or what to refuse it with, and why in server->why. */
int gm_connection_handle(struct gm_connection *c, const struct gm_request *r);

/* For a handler to return on a bad request: @status, with server->why set. */
int gm_connection_bad(struct gm_connection *c, int status, const char *format,
		      ...) __attribute__((format(printf, 3, 4)));

#endif
