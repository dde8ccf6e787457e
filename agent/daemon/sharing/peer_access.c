/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/peer_access.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/daemon.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/peer_copy.h"
#include "agent/daemon/sharing/peer_mapping.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/point.h"
#include "shm/queue.h"

/* A piece that a borrower waits for, in the list of its row's keeper. */
struct gm_fetch {
	TAILQ_ENTRY(gm_fetch) entry;
	struct gm_keeper *keeper; /* NULL: it is gone */
	struct gm_wire answer;
	bool is_answered;
	struct gm_claim claim; /* on the lender */
};

/* ---- rows that drain ----------------------------------------------------- */

static const struct gm_keeper *keeper_at(const struct gm_session *session,
					 uint32_t row)
{
	const struct gm_session_queue *queue =
		row < session->n_rows ? session->queue[row] : NULL;

	return queue ? queue->seat.keeper : NULL;
}

static bool is_finishing(const struct gm_keeper *keeper)
{
	return keeper && keeper->state == GM_KEEPER_SERVING &&
	       keeper->wants_end && !keeper->is_drained;
}

static bool awaits_worker(const struct gm_keeper *lender)
{
	const struct gm_control_server *s = lender->d->server;
	const struct gm_session *session;
	const struct gm_crossing *x;

	if (!s)
		return false;
	TAILQ_FOREACH(session, &s->sessions, entry)
	TAILQ_FOREACH(x, &session->crossings.list, entry)
	{
		if (keeper_at(session, gm_handle_row(x->handle)) == lender &&
		    is_finishing(keeper_at(session, x->row)))
			return true;
	}
	return false;
}

/* ---- REACH --------------------------------------------------------------- */

static struct gm_crossing *find(const struct gm_session *session,
				uint64_t handle, uint32_t row)
{
	struct gm_crossing *x;

	TAILQ_FOREACH(x, &session->crossings.list, entry)
	{
		if (x->handle == handle && x->row == row)
			break;
	}
	return x;
}

static int judge_row(struct gm_connection *c, uint32_t row)
{
	if (row < c->session->n_rows && c->session->queue[row])
		return 0;
	return gm_connection_bad(c, -ENODEV,
				 "row %u: this session has no queue there; "
				 "open it first",
				 row);
}

static int judge(struct gm_connection *c, const struct gm_reach *ask)
{
	int error;

	if (!c->session)
		return gm_connection_bad(c, -EINVAL,
					 "this connection is no session");
	if (gm_handle_kind(ask->handle) != GM_BUFFER_DEVICE ||
	    gm_handle_generation(ask->handle) == 0 ||
	    gm_handle_index(ask->handle) >= GM_BUFFERS_MAX ||
	    gm_handle_row(ask->handle) == ask->row || ask->reserved)
		return gm_connection_bad(c, -EINVAL,
					 "%#" PRIx64 " is no handle of another "
					 "row's memory",
					 ask->handle);
	error = judge_row(c, gm_handle_row(ask->handle));
	return error ? error : judge_row(c, ask->row);
}

static int make(struct gm_connection *c, const struct gm_reach *ask,
		struct gm_crossing **ret_crossing)
{
	struct gm_crossings *all = &c->session->crossings;
	struct gm_crossing *x;

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
	*ret_crossing = x;
	return 0;
}

int gm_reach_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_crossing *x;
	struct gm_reach ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = judge(c, &ask);
	if (error)
		return error;
	x = find(c->session, ask.handle, ask.row);
	if (x && x->state != GM_CROSSING_OPEN)
		return gm_connection_bad(c, -ESTALE,
					 "the worker of the buffer's row has "
					 "ended, and the buffer with it");
	if (x) {
		gm_connection_reply(c, &r->header, NULL, 0, NULL, 0, NULL, 0);
		return 0;
	}
	error = make(c, &ask, &x);
	if (error)
		return error;
	gm_connection_wait(c, &r->header);
	error = gm_crossing_begin(x);
	if (error) {
		c->waits = false;
		gm_crossing_free(x);
	}
	return error;
}

int gm_unreach_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_unreach *ask = (const void *)r->body;
	struct gm_crossing *x, *next;
	struct gm_crossings *all;

	if (!c->session)
		return gm_connection_bad(c, -EINVAL,
					 "this connection is no session");
	all = &c->session->crossings;
	gm_connection_wait(c, &r->header);
	all->n_forgotten = 1; /* so that the answer comes out of the end */
	for (x = TAILQ_FIRST(&all->list); x; x = next) {
		next = TAILQ_NEXT(x, entry);
		if (x->handle != ask->handle)
			continue;
		x->is_forgotten = true;
		all->n_forgotten++;
		if (x->state == GM_CROSSING_OPEN)
			gm_crossing_close(x);
	}
	if (--all->n_forgotten == 0)
		gm_connection_answer(c, 0, NULL, NULL, 0, -1);
	return 0;
}

/* ---- pieces -------------------------------------------------------------- */

static void free_fetch(struct gm_fetch *fetch)
{
	if (fetch->keeper)
		TAILQ_REMOVE(&fetch->keeper->fetched, fetch, entry);
	free(fetch);
}

static void answer(struct gm_fetch *fetch, int status)
{
	if (!fetch->keeper) {
		free_fetch(fetch);
		return;
	}
	fetch->answer.status = status;
	fetch->is_answered = true;
	gm_seats_pump(fetch->keeper);
}

static void fetched(struct gm_claim *claim, uint64_t bytes, int fd)
{
	gm_claims_leave(claim);
}

static void not_fetched(struct gm_claim *claim, int status, const char *why)
{
	struct gm_fetch *fetch = gm_owner(claim, struct gm_fetch, claim);

	answer(fetch, claim->was_held ? 0 : status ? status : -ESTALE);
}

static struct gm_session *find_session(const struct gm_keeper *keeper,
				       uint64_t id)
{
	struct gm_session *session;

	if (!keeper->d->server)
		return NULL;
	TAILQ_FOREACH(session, &keeper->d->server->sessions, entry)
	{
		if (session->id == id)
			break;
	}
	return session;
}

/* Whom to fetch it from; NULL: nobody any more. */
static struct gm_seat *lender(const struct gm_keeper *keeper,
			      const struct gm_wire *wire)
{
	struct gm_session *session = find_session(keeper, wire->session);
	struct gm_session_queue *queue = NULL;
	const struct gm_crossing *x = NULL;

	if (session)
		x = find(session, wire->handle, keeper->row);
	if (x && x->stage && x->state >= GM_CROSSING_OPEN && x->has_source)
		queue = session->queue[gm_handle_row(wire->handle)];
	return queue ? &queue->seat : NULL;
}

static void fetch(struct gm_keeper *keeper, const struct gm_wire *wire)
{
	struct gm_seat *seat = lender(keeper, wire);
	struct gm_fetch *fetch = calloc(1, sizeof(*fetch));
	int error = -ESTALE;

	if (!fetch) {
		gm_keeper_kill(keeper, "there is no memory to serve it");
		return;
	}
	fetch->keeper = keeper;
	fetch->answer = (struct gm_wire){ .type = GM_WIRE_FETCHED,
					  .session = wire->session,
					  .place = wire->place,
					  .handle = wire->handle,
					  .stage_at = wire->stage_at,
					  .borrower = keeper->row };
	fetch->claim = (struct gm_claim){ .ask = GM_WIRE_FETCH,
					  .handle = wire->handle,
					  .at = wire->at,
					  .bytes = wire->bytes,
					  .stage_at = wire->stage_at,
					  .borrower = keeper->row,
					  .fd = -1,
					  .held = fetched,
					  .gone = not_fetched };
	TAILQ_INSERT_TAIL(&keeper->fetched, fetch, entry);
	GM_POINT("crossing_fetches");
	if (seat)
		error = gm_claims_ask(seat, &fetch->claim,
				      keeper->d->server->why);
	if (error)
		answer(fetch, error);
}

/* That the row's own worker asks for, or one that serves the session. */
static bool heard(struct gm_keeper *keeper, const struct gm_wire *wire, int fd)
{
	const struct gm_seat *seat;
	bool may_ask = gm_keeper_is_shown(keeper);

	if (wire->type != GM_WIRE_FETCH)
		return false;
	TAILQ_FOREACH(seat, &keeper->seats, entry)
	may_ask |= seat->session == wire->session;
	if (fd >= 0)
		close(fd);
	if (may_ask)
		fetch(keeper, wire);
	return true;
}

static int say(struct gm_keeper *keeper)
{
	struct gm_fetch *fetch = TAILQ_FIRST(&keeper->fetched), *next;

	for (; fetch && !keeper->is_undertaker; fetch = next) {
		int error;

		next = TAILQ_NEXT(fetch, entry);
		if (!fetch->is_answered)
			continue;
		error = gm_seats_say(keeper, &fetch->answer, NULL, 0);
		if (error)
			return error;
		free_fetch(fetch);
	}
	return 0;
}

/* A lender may still be writing there. */
static void give_up_stage(const struct gm_keeper *keeper, uint64_t id)
{
	struct gm_session *session = find_session(keeper, id);
	struct gm_stage *stage;

	if (!session)
		return;
	TAILQ_FOREACH(stage, &session->crossings.stages, entry)
	{
		if (stage->row == keeper->row)
			break;
	}
	if (stage)
		gm_stage_retire(session, stage);
}

static void hung_up(struct gm_keeper *keeper)
{
	struct gm_fetch *fetch;

	while ((fetch = TAILQ_FIRST(&keeper->fetched))) {
		if (fetch->is_answered) {
			free_fetch(fetch);
			continue;
		}
		TAILQ_REMOVE(&keeper->fetched, fetch, entry);
		fetch->keeper = NULL;
		give_up_stage(keeper, fetch->answer.session);
	}
}

const struct gm_worker_user gm_crossing_worker_user = {
	.awaits_worker = awaits_worker,
	.say = say,
	.heard = heard,
	.hung_up = hung_up,
};
