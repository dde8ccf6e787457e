/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_request - requests of an attachment to its row's worker.
 *
 * They are client memory that is registered there, buffers that were exported
 * from it, exports that were imported into it; the steps of a copy from another
 * row (sharing/peer_access.h); and groups that the row is a rank of
 * (meshes/comms.h).
 *
 *	WAITING   the worker has not heard of it
 *	ASKED     it was asked
 *	HELD      it has agreed
 *	LEAVING   FORGET is to be sent
 *	LEFT      FORGET is sent, or the whole attachment is leaving
 *
 * A registration of the client's memory, or of a mask in a host's memory,
 * stays: the next worker is asked again before it begins any job of the session
 * and before its row is shown as READY, which waits up to
 * GM_WORKER_REQUESTS_WAIT_NS.
 * All others belong to the memory of one worker, and are gone with it.
 *
 * A row that drains gets no more requests but FETCH, for jobs of another row
 * that drains and must finish.
 *
 * The worker keeps nothing for EXPORT, PROVE, TRY, LEND and FETCH: such a
 * request leaves without a message, and one that stays HELD is told when that
 * worker is gone.
 *
 * When two workers die at the same registration, as their journals say, its
 * session ends.  A request that was ASKED and never HELD is refused when the
 * worker dies.
 */
#ifndef GM_DAEMON_WORKERS_WORKER_REQUEST_H
#define GM_DAEMON_WORKERS_WORKER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/wire.h"
#include "agent/common/refusal.h"

struct gm_worker_process;
struct gm_attachment;

#define GM_WORKER_REQUESTS_WAIT_NS UINT64_C(5000000000)

enum gm_worker_request_state {
	GM_WORKER_REQUEST_WAITING,
	GM_WORKER_REQUEST_ASKED,
	GM_WORKER_REQUEST_HELD,
	GM_WORKER_REQUEST_LEAVING,
	GM_WORKER_REQUEST_LEFT
};

/* Embedded in its owner, who fills the first part and keeps it as it is. */
struct gm_worker_request {
	enum gm_wire_type ask; /* GM_WIRE_REGISTER, _EXPORT, ... */
	uint64_t handle;
	union {
		struct gm_wire_buffer buffer;
		struct gm_wire_join join; /* JOIN */
	};
	const char *kernel; /* REGISTER of an image: its entry point; or NULL */
	int fd;             /* the owner's; -1 where none goes along */

	/* The worker has said yes, for the first time.  With EXPORT and LEND
	 * @bytes are the buffer's, with JOIN see struct gm_wire_joined; with
	 * EXPORT and PROVE @fd is the owner's now. */
	void (*held)(struct gm_worker_request *request, uint64_t bytes, int fd);
	/* The request has ended, and its owner may free it: it was refused,
	 * with a negative status, or it has left, with its attachment or
	 * alone. */
	void (*gone)(struct gm_worker_request *request, int status,
		     const char *why);

	/* The supervisor's own. */
	TAILQ_ENTRY(gm_worker_request) entry;
	struct gm_attachment *attachment;
	enum gm_worker_request_state state;
	uint32_t strikes;
	bool was_held;
	bool leaves; /* once it was answered */
};

TAILQ_HEAD(gm_worker_request_list, gm_worker_request);

/* How many registrations its next worker has before it begins. */
uint32_t gm_worker_requests_awaited(const struct gm_attachment *attachment);

/* Put a request on the list of its attachment, see gm_attachments_ask(). */
int gm_worker_requests_add(struct gm_attachment *attachment,
			   struct gm_worker_request *request,
			   char ret_why[GM_WHY_BYTES]);

/* Give a request up, see gm_attachments_give_back().  Returns whether there is
 * something to send to the worker; else it may be gone. */
bool gm_worker_requests_leave(struct gm_worker_request *request);

/*
 * gm_worker_requests_send - send FORGET for requests of an attachment that is
 * taken
 *
 * ret_waits	set where the row should not be READY yet
 *
 * Returns	0, or a negative errno of the socket: -EAGAIN for no room
 */
int gm_worker_requests_send(struct gm_worker_process *worker,
			    struct gm_attachment *attachment, bool *ret_waits);

/* Ask what there is a place for, see user_queue.h. Returns as
 * gm_worker_requests_send(). */
int gm_worker_requests_ask_all(struct gm_worker_process *worker);

/* The worker has answered; a descriptor that came with it is ours.  A record
 * that is no answer to a request is not known: returns false, and whose @fd is
 * does not change. */
bool gm_worker_requests_on_message(struct gm_worker_process *worker,
				   const struct gm_wire *wire, int fd);

/* The worker is gone: whom did it die of? */
void gm_worker_requests_strike(struct gm_worker_process *worker);

/* The same, for an attachment that stays.  May end its session, and so free
 * it. */
void gm_worker_requests_worker_gone(struct gm_attachment *attachment);

/* None of this attachment's memory is mapped any more. */
void gm_worker_requests_attachment_gone(struct gm_attachment *attachment);

/* Tell those who have never been HELD that it will be long. */
void gm_worker_requests_refuse_newcomers(struct gm_worker_process *worker,
					 int status, const char *why);

#endif
