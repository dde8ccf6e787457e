/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/remote_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/async_op_private.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/queue/heartbeat.h"
#include "shm/point.h"

static void ask_for(struct gm_worker *w, struct gm_worker_session *s,
		    uint32_t piece)
{
	struct gm_wire wire =
		gm_agent_socket_about(GM_WIRE_FETCH, s->id, s->place);
	struct gm_remote_copy *c = &s->carry;
	uint64_t bytes = c->bytes - c->asked;

	if (bytes > GM_STAGE_PIECE_BYTES)
		bytes = GM_STAGE_PIECE_BYTES;
	c->piece_at[piece] = c->asked;
	c->piece_bytes[piece] = bytes;
	c->busy |= UINT32_C(1) << piece;
	c->away |= UINT32_C(1) << piece;
	wire.handle = c->what.handle;
	wire.buffer.at = c->what.at + c->asked;
	wire.buffer.bytes = bytes;
	wire.buffer.stage_at = piece * GM_STAGE_PIECE_BYTES;
	wire.buffer.borrower = w->row;
	c->asked += bytes;
	gm_io_events_say(w, &wire, -1);
	GM_POINT("worker_fetches");
}

static bool is_late(const struct gm_remote_copy *c)
{
	return c->what.deadline_ns && gm_now_ns() >= c->what.deadline_ns;
}

static void is_over(struct gm_worker *w, struct gm_remote_copy *c)
{
	c->on = false;
	TAILQ_REMOVE(&w->carried, c, entry);
}

/* Request pieces as far as the bounce buffer has room, or end the copy. */
static void go_on(struct gm_worker *w, struct gm_worker_session *s)
{
	struct gm_remote_copy *c = &s->carry;

	if (c->status == 0 && c->asked < c->bytes && is_late(c))
		c->status = -ETIME;
	for (uint32_t i = 0; i < GM_STAGE_PIECES; i++)
		if (!((c->busy | c->away) >> i & 1) && c->status == 0 &&
		    c->asked < c->bytes && !s->ended)
			ask_for(w, s, i);
	/* The source may still write all pieces for an earlier copy. */
	if (c->busy || (c->status == 0 && c->asked < c->bytes && !s->ended))
		return;
	is_over(w, c);
	gm_async_op_ended(w, s, c->status);
}

int gm_remote_copy_begin(struct gm_worker *worker,
			 struct gm_worker_session *session)
{
	struct gm_buffer_table *buffers = &session->buffers;
	struct gm_buffer_entry *stage = gm_buffers_stage(buffers, worker->row);
	const struct gm_task *task = &session->pending.task;
	struct gm_buffer_entry *slot;

	session->carry = (struct gm_remote_copy){
		.what = session->pending,
		.session = session,
		.bytes = task->n * gm_ops_dtype_bytes(task->dtype),
		.away = session->carry.away,
	};
	session->pending.handle = 0;
	slot = gm_buffers_find(buffers, session->carry.what.handle);
	if (!slot || !slot->ready || !slot->borrowed || !stage || !stage->ready)
		return -ESTALE;
	gm_async_op_stall(worker, session);
	session->carry.on = true;
	TAILQ_INSERT_TAIL(&worker->carried, &session->carry, entry);
	go_on(worker, session);
	return 0;
}

void gm_remote_copy_leave(struct gm_worker *worker,
			  struct gm_worker_session *session)
{
	if (session->carry.on)
		is_over(worker, &session->carry);
	session->carry.busy = 0;
}

/* ---- out of the bounce buffer -------------------------------------------- */

static void work_store(struct gm_blocking_job *job,
		       struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	if (e->to)
		memcpy(e->to, e->from, e->bytes);
	else
		e->rc = gm_device_store(dev, e->address, e->from, e->bytes);
}

static void ended(struct gm_worker_session *s, uint32_t piece, int status)
{
	struct gm_remote_copy *c = &s->carry;

	c->busy &= ~(UINT32_C(1) << piece);
	if (c->status == 0)
		c->status = status;
}

static void done_store(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_worker_session *s = e->session;

	GM_POINT("worker_stored");
	gm_remote_copy_queue_landed(w);
	ended(s, e->part, e->rc);
	if (!s->departing)
		go_on(w, s);
	gm_async_op_finished(w, e);
}

static int store(struct gm_worker *w, struct gm_worker_session *s,
		 uint32_t piece)
{
	struct gm_buffer_entry *stage = gm_buffers_stage(&s->buffers, w->row);
	const struct gm_remote_copy *c = &s->carry;
	const struct gm_task *task = &c->what.task;
	struct gm_async_op_job *e =
		gm_async_op_new(s, GM_CALL_REMOTE_COPY, work_store, done_store);

	if (!e)
		return -ENOMEM;
	e->part = piece;
	e->stage = stage;
	e->bytes = c->piece_bytes[piece];
	e->from = stage->at + piece * GM_STAGE_PIECE_BYTES;
	if (task->dst)
		e->to = (char *)task->dst + c->piece_at[piece];
	else
		e->address = task->dst_address + c->piece_at[piece];
	gm_remote_copy_queue_give(w, e);
	return 0;
}

void gm_remote_copy_fetched(struct gm_worker *worker,
			    const struct gm_wire *wire)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	uint64_t piece = wire->buffer.stage_at / GM_STAGE_PIECE_BYTES;
	int rc = wire->status;

	if (!s || piece >= GM_STAGE_PIECES || !(s->carry.away >> piece & 1))
		return;
	s->carry.away &= ~(UINT32_C(1) << piece);
	if (!(s->carry.busy >> piece & 1)) {
		if (s->carry.on)
			go_on(worker, s);
		return;
	}
	/* The memory of a session that broke the contract is unmapped without
	 * waiting. */
	if (rc == 0 && s->ended)
		rc = -ECANCELED;
	if (rc == 0)
		rc = store(worker, s, (uint32_t)piece);
	if (rc == 0)
		return;
	ended(s, (uint32_t)piece, rc);
	go_on(worker, s);
}

/* ---- deadlines ----------------------------------------------------------- */

/* End a copy whose deadline has passed.  Pieces that wait for a round are not
 * copied, and pieces that the source may still write are not waited for.
 * Pieces at the slow thread are waited for, and may complete the copy. */
static void give_up(struct gm_worker *w, struct gm_worker_session *s)
{
	struct gm_remote_copy *c = &s->carry;
	struct gm_async_op_job *e;

	if (c->status == 0 && (c->asked < c->bytes || (c->busy & c->away)))
		c->status = -ETIME;
	while ((e = gm_remote_copy_queue_take_back(w, s, done_store)) != NULL) {
		ended(s, e->part, -ETIME);
		free(e);
	}
	c->busy &= ~c->away;
	go_on(w, s);
}

void gm_remote_copy_poll(struct gm_worker *worker)
{
	struct gm_remote_copy *c = TAILQ_FIRST(&worker->carried), *next;

	for (; c; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (is_late(c))
			give_up(worker, c->session);
	}
}

uint64_t gm_remote_copy_nap(const struct gm_worker *worker)
{
	uint64_t now_ns = 0, soonest_ns = GM_REMOTE_COPY_NAP_NS;
	const struct gm_remote_copy *c;
	bool any = false;

	TAILQ_FOREACH(c, &worker->carried, entry)
	{
		uint64_t at_ns = c->what.deadline_ns;

		/* A failed copy waits only for the slow thread. */
		if (at_ns == 0 || c->status < 0)
			continue;
		if (!any)
			now_ns = gm_now_ns();
		any = true;
		at_ns = at_ns > now_ns ? at_ns - now_ns : GM_WAIT_LOOK_NS;
		if (at_ns < soonest_ns)
			soonest_ns = at_ns;
	}
	return any ? soonest_ns : 0;
}
