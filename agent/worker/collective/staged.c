/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/collective/staged.h"

#include <errno.h>
#include <string.h>

#include "agent/worker/control/async_op_private.h"
#include "shm/point.h"

/* States of a window, in this order. */
enum window {
	FREE = 0,
	FILLING, /* copying this rank's input */
	FULL,
	MOVING, /* the collective runs on it */
	EMPTYING
};

#define LINE_BYTES 64u

static bool is_wide(uint32_t op)
{
	return op == GM_COMM_ALL_GATHER || op == GM_COMM_REDUCE_SCATTER;
}

void *gm_staged_reach(void *member, uint32_t rank, struct gm_comm_place place,
		      uint64_t bytes, bool writes)
{
	const struct gm_collective_member *m = member;

	if (place.buffer >= GM_COMM_WINDOWS ||
	    place.at > GM_COMM_WINDOW_BYTES ||
	    bytes > GM_COMM_WINDOW_BYTES - place.at ||
	    (writes && rank != m->comm.rank))
		return NULL;
	return gm_member_windows(m, rank) +
	       place.buffer * GM_COMM_WINDOW_BYTES + place.at;
}

/* ---- the request --------------------------------------------------------- */

/* Break the group: no rank continues. */
static void fail(struct gm_worker_session *s, int status)
{
	struct gm_staged *r = &s->part.relay;

	if (r->status == 0)
		r->status = status;
	gm_comm_break(s->part.member->comm.page, -status);
	r->tells = true;
}

/* Find this rank's own memory.  Returns 0, or the error for which it cannot
 * take part. */
static int find_memory(struct gm_worker_session *s)
{
	const struct gm_comm *comm = &s->part.member->comm;
	struct gm_staged *r = &s->part.relay;
	const struct gm_comm_ask *ask = &r->ask;
	uint64_t gives = gm_comm_given(ask, comm->rank, comm->ranks) * r->each;
	uint64_t gets = gm_comm_gotten(ask, comm->rank, comm->ranks) * r->each;
	uint64_t from = 0, to = 0;

	if (gives && !gm_decode_place(&s->decoder, ask->send, gives, false,
				      &r->send, &r->send_address))
		return -EFAULT;
	if (gets && !gm_decode_place(&s->decoder, ask->recv, gets, true,
				     &r->recv, &r->recv_address))
		return -EFAULT;
	from = r->send ? (uintptr_t)r->send : r->send_address;
	to = r->recv ? (uintptr_t)r->recv : r->recv_address;
	if (!gm_comm_is_aligned(ask, from, to))
		return -EINVAL;
	/* Mapped memory and device memory cannot overlap. */
	if (gives && gets && !r->send != !r->recv)
		return 0;
	return gm_comm_lie_well(ask, comm->rank, comm->ranks, from, to)
		       ? 0
		       : -EINVAL;
}

static int check(struct gm_worker_session *s)
{
	struct gm_staged *r = &s->part.relay;

	r->each = gm_comm_each(r->ask.dtype);
	if (r->each == 0 ||
	    r->ask.n > (uint64_t)INT64_MAX / GM_COMM_RANKS / r->each)
		return -EINVAL;
	return find_memory(s);
}

static void cut_into_rounds(struct gm_worker_session *s)
{
	const struct gm_comm *comm = &s->part.member->comm;
	struct gm_staged *r = &s->part.relay;
	uint64_t bytes = GM_COMM_WINDOW_BYTES;

	r->each_round = r->ask.n;
	r->rounds = 1;
	if (r->ask.status || r->ask.op == GM_COMM_BARRIER)
		return;
	if (is_wide(r->ask.op))
		bytes = bytes / comm->ranks / LINE_BYTES * LINE_BYTES;
	r->each_round = bytes / r->each;
	if (r->ask.n)
		r->rounds = (r->ask.n + r->each_round - 1) / r->each_round;
}

void gm_staged_begin(struct gm_worker_session *session)
{
	struct gm_staged *r = &session->part.relay;

	*r = (struct gm_staged){ .ask = session->pending.ask };
	r->ask.status = check(session);
	cut_into_rounds(session);
}

/* Elements of one round. */
static uint64_t count_of(const struct gm_staged *r, uint64_t round)
{
	uint64_t left = r->ask.n - round * r->each_round;

	return left < r->each_round ? left : r->each_round;
}

static struct gm_comm_ask ask_of(const struct gm_worker_session *s,
				 uint64_t round)
{
	const struct gm_staged *r = &s->part.relay;
	struct gm_comm_ask ask = r->ask;
	uint64_t part;

	ask.n = count_of(r, round);
	ask.whole = r->ask.n;
	part = s->part.member->comm.rank * ask.n * r->each;
	ask.send.buffer = ask.recv.buffer = round % GM_COMM_WINDOWS;
	ask.send.at = ask.op == GM_COMM_ALL_GATHER ? part : 0;
	ask.recv.at = ask.op == GM_COMM_REDUCE_SCATTER ? part : 0;
	return ask;
}

/* ---- copies -------------------------------------------------------------- */

static void copy_mapped(const struct gm_pieces_copy *c)
{
	for (uint32_t i = 0; i < c->n_pieces; i++) {
		char *window = c->window + i * c->window_step;
		char *memory = c->memory + i * c->memory_step;

		if (c->is_store)
			memcpy(memory, window, c->bytes);
		else
			memcpy(window, memory, c->bytes);
	}
}

static int copy_pieces(struct gm_backend_device *dev,
		       const struct gm_pieces_copy *c)
{
	const struct gm_strides pieces = { .address = c->address,
					   .at = c->window,
					   .bytes = c->bytes,
					   .n = c->n_pieces,
					   .address_step = c->memory_step,
					   .step = c->window_step };

	if (c->memory) {
		copy_mapped(c);
		return 0;
	}
	return c->is_store ? dev->backend->store(dev, &pieces)
			   : dev->backend->fetch(dev, &pieces);
}

static uint64_t copy_bytes(const struct gm_pieces_copy *c)
{
	return c->n_pieces * c->bytes;
}

/* Account for a copy that filled or emptied a window, or failed. */
static void copied(struct gm_worker_session *s, const struct gm_pieces_copy *c,
		   int rc)
{
	struct gm_staged *r = &s->part.relay;

	/* If memory was missing, the copy read zeroes. */
	if (rc == 0 && gm_get(&s->mapping.broken))
		rc = -EFAULT;
	r->window[c->index] = c->is_store ? FREE : FULL;
	if (rc < 0)
		fail(s, rc);
}

static void work_copy(struct gm_blocking_job *job,
		      struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	e->rc = copy_pieces(dev, &e->copy);
}

static void done_copy(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_worker_session *s = e->session;

	if (e->copy.is_store)
		GM_POINT("relay_stored");
	else
		GM_POINT("relay_fetched");
	/* Skip if the session has left. */
	if (s->part.member) {
		s->part.relay.n_copies--;
		copied(s, &e->copy, e->rc);
	}
	gm_async_op_finished(w, e);
}

static void copy(struct gm_worker *w, struct gm_worker_session *s,
		 const struct gm_pieces_copy *c)
{
	struct gm_staged *r = &s->part.relay;
	struct gm_async_op_job *e;

	if (c->memory && copy_bytes(c) <= GM_STAGED_SMALL) {
		copied(s, c, copy_pieces(w->dev, c));
		return;
	}
	e = gm_async_op_new(s, GM_CALL_REMOTE_COPY, work_copy, done_copy);
	if (!e) {
		copied(s, c, -ENOMEM);
		return;
	}
	e->copy = *c;
	r->window[c->index] = c->is_store ? EMPTYING : FILLING;
	r->n_copies++;
	gm_async_op_hand_over(w, e);
}

/* Copy between the window of a round and this rank's memory.  The memory begins
 * at the round's element, and its @pieces are as far apart as the whole input
 * or output of one rank. */
static void copy_round(struct gm_worker *w, struct gm_worker_session *s,
		       uint64_t round, bool is_store, uint32_t pieces,
		       uint64_t window_at)
{
	struct gm_collective_member *m = s->part.member;
	const struct gm_staged *r = &s->part.relay;
	uint64_t at = round * r->each_round * r->each;
	struct gm_pieces_copy c = {
		.address = (is_store ? r->recv_address : r->send_address) + at,
		.bytes = count_of(r, round) * r->each,
		.n_pieces = pieces,
		.memory_step = r->ask.n * r->each,
		.index = round % GM_COMM_WINDOWS,
		.is_store = is_store,
	};

	c.memory = is_store ? r->recv : r->send;
	if (c.memory)
		c.memory += at;
	c.window = gm_member_windows(m, m->comm.rank) +
		   c.index * GM_COMM_WINDOW_BYTES + window_at;
	c.window_step = c.bytes;
	m->copied += copy_bytes(&c);
	copy(w, s, &c);
}

/* ---- rounds -------------------------------------------------------------- */

static void fill(struct gm_worker *w, struct gm_worker_session *s)
{
	const struct gm_comm *comm = &s->part.member->comm;
	struct gm_staged *r = &s->part.relay;
	uint64_t round = r->next++;
	struct gm_comm_ask ask = ask_of(s, round);

	r->window[round % GM_COMM_WINDOWS] = FULL;
	if (r->ask.status || gm_comm_given(&ask, comm->rank, comm->ranks) == 0)
		return;
	copy_round(w, s, round, false,
		   ask.op == GM_COMM_REDUCE_SCATTER ? comm->ranks : 1,
		   ask.send.at);
}

static void empty(struct gm_worker *w, struct gm_worker_session *s)
{
	const struct gm_comm *comm = &s->part.member->comm;
	struct gm_staged *r = &s->part.relay;
	uint64_t round = r->at++;
	struct gm_comm_ask ask = ask_of(s, round);

	r->window[round % GM_COMM_WINDOWS] = FREE;
	if (gm_comm_gotten(&ask, comm->rank, comm->ranks) == 0)
		return;
	copy_round(w, s, round, true,
		   ask.op == GM_COMM_ALL_GATHER ? comm->ranks : 1, ask.recv.at);
}

/* Fill the free windows.  Returns whether there were any. */
static bool fill_all(struct gm_worker *w, struct gm_worker_session *s)
{
	struct gm_staged *r = &s->part.relay;
	bool worked = false;

	while (r->next < r->rounds && r->status == 0 &&
	       r->window[r->next % GM_COMM_WINDOWS] == FREE) {
		fill(w, s);
		worked = true;
	}
	return worked;
}

/* Run the collective on the next window.  Returns whether it made progress. */
static bool move(struct gm_worker *w, struct gm_worker_session *s,
		 uint64_t budget)
{
	struct gm_part *part = &s->part;
	struct gm_staged *r = &part->relay;
	uint8_t *window = &r->window[r->at % GM_COMM_WINDOWS];
	bool is_new = *window == FULL, is_told;
	int rc;

	if (r->at == r->rounds || r->status ||
	    (*window != FULL && *window != MOVING))
		return false;
	if (is_new) {
		const struct gm_comm_ask ask = ask_of(s, r->at);

		gm_comm_begin(&part->member->comm, &ask, &part->call);
		*window = MOVING;
		r->tells = true;
	}
	rc = gm_comm_step(&part->member->comm, &part->call, budget, &is_told);
	r->tells |= is_told;
	if (rc == 1)
		empty(w, s);
	else if (rc < 0 && rc != -EAGAIN)
		r->status = rc;
	return is_new || rc != -EAGAIN;
}

static bool is_over(const struct gm_staged *r)
{
	if (r->n_copies)
		return false;
	return r->status || r->at == r->rounds;
}

int gm_staged_step(struct gm_worker *worker, struct gm_worker_session *session,
		   uint64_t budget, bool *ret_told)
{
	struct gm_staged *r = &session->part.relay;
	bool worked;

	if (r->status == 0)
		r->status = gm_comm_broken_by(session->part.member->comm.page);
	worked = fill_all(worker, session);
	worked |= move(worker, session, budget);
	*ret_told = r->tells;
	r->tells = false;
	if (is_over(r))
		return r->status ? r->status : 1;
	return worked ? 0 : -EAGAIN;
}
