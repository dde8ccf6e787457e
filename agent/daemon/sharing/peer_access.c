/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/peer_access.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/peer_copy.h"
#include "agent/daemon/sharing/peer_mapping.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/point.h"
#include "shm/queue.h"

/* A piece that a borrower waits for, in the list of its row's worker. */
struct gm_fetch {
	TAILQ_ENTRY(gm_fetch) entry;
	struct gm_worker_process *worker; /* NULL: it is gone */
	struct gm_wire answer;
	bool is_answered;
	struct gm_worker_request request; /* on the lender */
};

/* ---- rows that drain ----------------------------------------------------- */

static const struct gm_worker_process *
worker_at(const struct gm_session *session, uint32_t row)
{
	const struct gm_session_queue *queue =
		row < session->n_rows ? session->queue[row] : NULL;

	return queue ? queue->attachment.worker : NULL;
}

static bool is_finishing(const struct gm_worker_process *worker)
{
	return worker && worker->state == GM_PROCESS_SERVING &&
	       worker->drain_requested && !worker->is_drained;
}

static bool awaits_worker(const struct gm_worker_process *lender)
{
	const struct gm_control_server *s = lender->d->server;
	const struct gm_session *session;
	const struct gm_peer_mapping *x;

	if (!s)
		return false;
	TAILQ_FOREACH(session, &s->sessions, entry)
	TAILQ_FOREACH(x, &session->peer_mappings.list, entry)
	{
		if (worker_at(session, gm_handle_row(x->handle)) == lender &&
		    is_finishing(worker_at(session, x->row)))
			return true;
	}
	return false;
}

/* ---- REACH --------------------------------------------------------------- */

static struct gm_peer_mapping *find(const struct gm_session *session,
				    uint64_t handle, uint32_t row)
{
	struct gm_peer_mapping *x;

	TAILQ_FOREACH(x, &session->peer_mappings.list, entry)
	{
		if (x->handle == handle && x->row == row)
			break;
	}
	return x;
}

static int check(struct gm_connection *c, const struct gm_reach *ask)
{
	int error;

	if (gm_handle_kind(ask->handle) != GM_BUFFER_DEVICE ||
	    gm_handle_generation(ask->handle) == 0 ||
	    gm_handle_index(ask->handle) >= GM_BUFFERS_MAX ||
	    gm_handle_row(ask->handle) == ask->row || ask->reserved)
		return gm_connection_bad(c, -EINVAL,
					 "%#" PRIx64 " is no handle of another "
					 "row's memory",
					 ask->handle);
	error = gm_session_check_row(c, gm_handle_row(ask->handle));
	return error ? error : gm_session_check_row(c, ask->row);
}

static int make(struct gm_connection *c, const struct gm_reach *ask,
		struct gm_peer_mapping **ret_mapping)
{
	struct gm_peer_mappings *all = &c->session->peer_mappings;
	struct gm_peer_mapping *x;

	if (all->n >= GM_BUFFERS_MAX)
		return gm_connection_bad(c, -EDQUOT,
					 "the jobs of %u rows name buffers of "
					 "other rows; free some",
					 all->n);
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->session = c->session;
	x->handle = ask->handle;
	x->row = ask->row;
	x->fd = x->proof_fd = -1;
	TAILQ_INSERT_TAIL(&all->list, x, entry);
	all->n++;
	*ret_mapping = x;
	return 0;
}

int gm_peer_reach_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_peer_mapping *x;
	struct gm_reach ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = check(c, &ask);
	if (error)
		return error;
	x = find(c->session, ask.handle, ask.row);
	if (x && x->state != GM_PEER_MAPPING_OPEN)
		return gm_connection_bad(c, -ESTALE,
					 "the worker of the buffer's row has "
					 "ended, and the buffer with it");
	if (x)
		return gm_connection_reply(c, &r->header, NULL);
	error = make(c, &ask, &x);
	if (error)
		return error;
	gm_connection_wait(c, &r->header);
	error = gm_peer_mapping_begin(x);
	if (error) {
		c->waits = false;
		gm_peer_mapping_free(x);
	}
	return error;
}

int gm_peer_unreach_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_unreach *ask = (const void *)r->body;
	struct gm_peer_mapping *x, *next;
	struct gm_peer_mappings *all;

	all = &c->session->peer_mappings;
	gm_connection_wait(c, &r->header);
	all->n_forgotten = 1; /* so that the answer comes out of the end */
	for (x = TAILQ_FIRST(&all->list); x; x = next) {
		next = TAILQ_NEXT(x, entry);
		if (x->handle != ask->handle)
			continue;
		x->is_forgotten = true;
		all->n_forgotten++;
		if (x->state == GM_PEER_MAPPING_OPEN)
			gm_peer_mapping_close(x);
	}
	if (--all->n_forgotten == 0)
		gm_connection_answer(c, 0, NULL, NULL, 0, -1);
	return 0;
}

/* ---- pieces -------------------------------------------------------------- */

static void free_fetch(struct gm_fetch *fetch)
{
	if (fetch->worker)
		TAILQ_REMOVE(&fetch->worker->fetched, fetch, entry);
	free(fetch);
}

static void answer(struct gm_fetch *fetch, int status)
{
	if (!fetch->worker) {
		free_fetch(fetch);
		return;
	}
	fetch->answer.status = status;
	fetch->is_answered = true;
	gm_attachments_flush(fetch->worker);
}

static void fetched(struct gm_worker_request *request, uint64_t bytes, int fd)
{
	gm_attachments_give_back(request);
}

static void not_fetched(struct gm_worker_request *request, int status,
			const char *why)
{
	struct gm_fetch *fetch = gm_owner(request, struct gm_fetch, request);

	answer(fetch, request->was_held ? 0 : status ? status : -ESTALE);
}

static struct gm_session *find_session(const struct gm_worker_process *worker,
				       uint64_t id)
{
	struct gm_session *session;

	if (!worker->d->server)
		return NULL;
	TAILQ_FOREACH(session, &worker->d->server->sessions, entry)
	{
		if (session->id == id)
			break;
	}
	return session;
}

/* The lender; NULL: none any more. */
static struct gm_attachment *lender(const struct gm_worker_process *worker,
				    const struct gm_wire *wire)
{
	struct gm_session *session = find_session(worker, wire->session);
	struct gm_session_queue *queue = NULL;
	const struct gm_peer_mapping *x = NULL;

	if (session)
		x = find(session, wire->handle, worker->row);
	if (x && x->stage && x->state >= GM_PEER_MAPPING_OPEN && x->has_source)
		queue = session->queue[gm_handle_row(wire->handle)];
	return queue ? &queue->attachment : NULL;
}

static void fetch(struct gm_worker_process *worker, const struct gm_wire *wire)
{
	struct gm_attachment *attachment = lender(worker, wire);
	struct gm_fetch *fetch = calloc(1, sizeof(*fetch));
	int error = -ESTALE;

	if (!fetch) {
		gm_worker_child_kill(worker, "there is no memory to serve it");
		return;
	}
	fetch->worker = worker;
	/* The rest of the union is zeroed, with all of it. */
	fetch->answer.type = GM_WIRE_FETCHED;
	fetch->answer.session = wire->session;
	fetch->answer.place = wire->place;
	fetch->answer.handle = wire->handle;
	fetch->answer.buffer.stage_at = wire->buffer.stage_at;
	fetch->answer.buffer.borrower = worker->row;
	fetch->request =
		(struct gm_worker_request){ .ask = GM_WIRE_FETCH,
					    .handle = wire->handle,
					    .buffer.at = wire->buffer.at,
					    .buffer.bytes = wire->buffer.bytes,
					    .buffer.stage_at =
						    wire->buffer.stage_at,
					    .buffer.borrower = worker->row,
					    .fd = -1,
					    .held = fetched,
					    .gone = not_fetched };
	TAILQ_INSERT_TAIL(&worker->fetched, fetch, entry);
	GM_POINT("peer_fetch_begun");
	if (attachment)
		error = gm_attachments_ask(attachment, &fetch->request,
					   worker->d->server->why);
	if (error)
		answer(fetch, error);
}

/* May the worker ask for it: the row's own, or one that serves the session? */
static bool on_message(struct gm_worker_process *worker,
		       const struct gm_wire *wire, int fd)
{
	const struct gm_attachment *attachment;
	bool may_ask = gm_worker_process_is_shown(worker);

	if (wire->type != GM_WIRE_FETCH)
		return false;
	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	may_ask |= attachment->session == wire->session;
	if (fd >= 0)
		close(fd);
	if (may_ask)
		fetch(worker, wire);
	return true;
}

static int say(struct gm_worker_process *worker)
{
	struct gm_fetch *fetch = TAILQ_FIRST(&worker->fetched), *next;

	for (; fetch && !worker->is_recovery; fetch = next) {
		int error;

		next = TAILQ_NEXT(fetch, entry);
		if (!fetch->is_answered)
			continue;
		error = gm_worker_child_send(worker, &fetch->answer, NULL, 0);
		if (error)
			return error;
		free_fetch(fetch);
	}
	return 0;
}

/* A lender may still be writing there. */
static void give_up_stage(const struct gm_worker_process *worker, uint64_t id)
{
	struct gm_session *session = find_session(worker, id);
	struct gm_bounce_buffer *stage;

	if (!session)
		return;
	TAILQ_FOREACH(stage, &session->peer_mappings.stages, entry)
	{
		if (stage->row == worker->row)
			break;
	}
	if (stage)
		gm_bounce_buffer_retire(session, stage);
}

static void hung_up(struct gm_worker_process *worker)
{
	struct gm_fetch *fetch;

	while ((fetch = TAILQ_FIRST(&worker->fetched))) {
		if (fetch->is_answered) {
			free_fetch(fetch);
			continue;
		}
		TAILQ_REMOVE(&worker->fetched, fetch, entry);
		fetch->worker = NULL;
		give_up_stage(worker, fetch->answer.session);
	}
}

const struct gm_worker_user gm_peer_worker_user = {
	.awaits_worker = awaits_worker,
	.say = say,
	.on_message = on_message,
	.hung_up = hung_up,
};
