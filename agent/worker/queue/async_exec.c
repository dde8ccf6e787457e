/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/async_exec_private.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/worker/collective/collective.h"
#include "agent/worker/control/async_op.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/memory/arena_regions.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/batch.h"
#include "agent/worker/queue/fetch.h"
#include "agent/worker/queue/heartbeat.h"
#include "agent/worker/queue/run_queue.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/tracepoint.h"

static struct gm_inflight_entry *inflight_at(const struct gm_worker_session *s,
					     uint32_t pos)
{
	return &s->flights->flown[pos & s->entries.mask];
}

int gm_async_exec_open(struct gm_worker_session *session,
		       const struct gm_backend_device *dev)
{
	uint32_t depth = session->entries.mask + 1;
	struct gm_async_execs *f = calloc(
		1, sizeof(*f) + depth * sizeof(struct gm_inflight_entry));

	if (!f || (dev->backend->reach && gm_arena_regions_open(session) < 0)) {
		free(f);
		return -ENOMEM;
	}
	f->session = session;
	f->oldest = session->entries.pos;
	session->flights = f;
	return 0;
}

uint32_t gm_async_exec_oldest(const struct gm_worker_session *session)
{
	return session->flights->oldest;
}

bool gm_async_exec_waits(const struct gm_worker_session *session)
{
	return session->flights->n_slices != 0;
}

struct gm_doorbell_spin *gm_async_exec_spin(struct gm_worker_session *session)
{
	struct gm_async_execs *f = session->flights;

	return f && f->n_slices ? &f->spin : NULL;
}

/* ---- which turns do work ----------------------------------------------- */

static bool may_read(const struct gm_worker *w,
		     const struct gm_worker_session *s)
{
	const struct gm_async_execs *f = s->flights;

	if (f->starting || f->fenced || s->wait.on ||
	    f->n_slices >= gm_async_exec_slices_max(w) ||
	    s->entries.pos - f->oldest >= s->entries.mask)
		return false;
	/* Entries that came after DRAIN are left to the next worker. */
	return !w->draining || s->second ||
	       (int32_t)(s->drain - s->entries.pos) > 0;
}

/* Retry a refused slice only after another slice has ended, or if none is in
 * flight. */
static bool may_start(const struct gm_worker *w,
		      const struct gm_worker_session *s)
{
	const struct gm_async_execs *f = s->flights;

	return f->starting && f->n_slices < gm_async_exec_slices_max(w) &&
	       (w->landed != f->refused_at || w->n_in_flight == 0);
}

bool gm_async_exec_full(const struct gm_worker *worker,
			const struct gm_worker_session *session)
{
	const struct gm_async_execs *f = session->flights;

	return (f->flying || f->fenced || session->wait.on) &&
	       !may_read(worker, session);
}

static bool has_landed(const struct gm_worker *w, struct gm_async_execs *f)
{
	return f->n_slices &&
	       w->dev->backend->ended(
		       w->dev, &gm_async_exec_oldest_slice(f)->flight) != 0;
}

static bool is_over(const struct gm_inflight_entry *e)
{
	return e->next == e->task.n && !e->n_slices && !e->is_fence;
}

/* The completion of a fence is published in the next turn. */
static bool has_ended(const struct gm_worker_session *s)
{
	uint32_t oldest = s->flights->oldest;

	return oldest != s->entries.pos && is_over(inflight_at(s, oldest));
}

bool gm_async_exec_has_ended(const struct gm_worker *worker,
			     const struct gm_worker_session *session)
{
	return has_landed(worker, session->flights) || has_ended(session);
}

bool gm_async_exec_due(struct gm_worker *worker,
		       struct gm_worker_session *session)
{
	GM_ACCESSES(&session->mapping);

	return gm_async_exec_has_ended(worker, session) ||
	       may_start(worker, session) ||
	       (may_read(worker, session) &&
		gm_ring_ready(&session->entries, GM_ENTRY_WORDS));
}

/* ---- slices ------------------------------------------------------------ */

/* Tell the device that no more slices of the entry follow. */
static void quit(struct gm_worker *w, const struct gm_inflight_entry *e)
{
	if (e->next > 0 && e->next < e->task.n && w->dev->backend->quit)
		w->dev->backend->quit(w->dev, &e->task);
}

static void fail_rest(struct gm_worker *w, struct gm_worker_session *s,
		      struct gm_inflight_entry *e, int32_t status)
{
	if (e->status == 0)
		e->status = status;
	/* After a failure no further slice of the entry starts. */
	quit(w, e);
	e->next = e->task.n;
	if (e == inflight_at(s, s->entries.pos - 1))
		s->flights->starting = false;
}

void gm_async_exec_land(struct gm_worker *worker,
			struct gm_worker_session *session)
{
	struct gm_worker *w = worker;
	struct gm_worker_session *s = session;
	struct gm_async_execs *f = s->flights;

	while (f->n_slices) {
		struct gm_async_exec_slice *slice =
			gm_async_exec_oldest_slice(f);
		struct gm_inflight_entry *e = inflight_at(s, slice->pos);
		int rc = w->dev->backend->ended(w->dev, &slice->flight);

		if (rc == 0)
			break;
		if (rc == -ENOTRECOVERABLE)
			gm_io_events_failed(w);
		GM_TRACEPOINT(end, s->id, slice->pos, slice->first,
			      slice->count, rc < 0 ? rc : 0);
		if (rc < 0)
			fail_rest(w, s, e, rc);
		e->n_slices--;
		f->first++;
		f->n_slices--;
		w->n_in_flight--;
		w->landed++;
	}
}

/* Elements in the entry's next slice. */
static uint64_t slice_of(const struct gm_backend_device *dev,
			 const struct gm_inflight_entry *e)
{
	uint64_t bytes = gm_device_slice(dev, &e->task);
	uint64_t left = e->task.n - e->next;

	/* Only a client's kernel knows how to split its work. */
	if (!bytes || e->task.kernel || left <= bytes / e->each)
		return left;
	return bytes / e->each;
}

/* Start slices of the last entry that was read, up to the limit. */
static void start(struct gm_worker *w, struct gm_worker_session *s)
{
	const struct gm_backend *backend = w->dev->backend;
	struct gm_inflight_entry *e = inflight_at(s, s->entries.pos - 1);
	struct gm_async_execs *f = s->flights;

	while (e->next < e->task.n &&
	       f->n_slices < gm_async_exec_slices_max(w)) {
		uint32_t at = f->first + f->n_slices;
		struct gm_async_exec_slice *slice =
			&f->slice[at % GM_ASYNC_EXEC_SLICES];
		const struct gm_async_exec_slice *before =
			&f->slice[(at - 1) % GM_ASYNC_EXEC_SLICES];
		uint64_t count = slice_of(w->dev, e);
		int rc;

		slice->pos = s->entries.pos - 1;
		slice->since_ns = gm_now_ns();
		if (e->deadline_ns && slice->since_ns >= e->deadline_ns) {
			fail_rest(w, s, e, -ETIME);
			break;
		}
		slice->first = e->next;
		slice->count = count;
		if (e->next == 0)
			e->stamp.started_ns = slice->since_ns;
		GM_TRACEPOINT(start, s->id, slice->pos, e->next, count);
		gm_beat_at(w->journal, GM_CALL_DEVICE, slice->since_ns);
		rc = backend->start(w->dev, &e->task, e->next, count,
				    f->n_slices ? &before->flight : NULL,
				    &slice->flight);
		gm_beat_at(w->journal, GM_CALL_LOOP, slice->since_ns);
		GM_POINT("flight_sliced");
		if (rc == -ENOTRECOVERABLE)
			gm_io_events_failed(w);
		f->refused_at = w->landed;
		if (rc == -EAGAIN)
			break;
		if (rc < 0) {
			fail_rest(w, s, e, rc);
			break;
		}
		e->next += count;
		e->n_slices++;
		f->n_slices++;
		w->n_in_flight++;
		gm_deficit_charge(&s->deficit,
				  (int64_t)gm_device_cost(w->dev, &e->task,
							  count * e->each),
				  0);
	}
	f->starting = e->next < e->task.n;
}

/* ---- entries ----------------------------------------------------------- */

/* Publish nothing if memory was missing: the entries may have read zeroes. */
static void publish(struct gm_worker_session *s, struct gm_batch *batch)
{
	if (!gm_get(&s->mapping.broken))
		gm_batch_publish(s, batch);
}

static void end(struct gm_worker_session *s, struct gm_batch *batch,
		int32_t status, bool is_second)
{
	gm_batch_end(batch, status);
	batch->seconds += is_second;
	s->flights->oldest++;
	if (batch->n == GM_TURN_BATCH)
		publish(s, batch);
}

static void end_all(struct gm_worker_session *s, struct gm_batch *batch)
{
	struct gm_async_execs *f = s->flights;
	uint64_t now = 0;

	while (f->oldest != s->entries.pos && !gm_get(&s->mapping.broken)) {
		struct gm_inflight_entry *e = inflight_at(s, f->oldest);

		if (!is_over(e))
			break;
		if (!e->is_second) {
			/* Entries that are read after this end later. */
			now = now ? now : gm_now_ns();
			f->turn_ns = now;
			gm_job_clock_ended(s->clock, &e->stamp, s->id, s->uid,
					   now, e->status);
		}
		end(s, batch, e->status, e->is_second);
	}
}

/* The next entry has been read and ends later.  Earlier completions that are
 * not in the journal yet are published first. */
static struct gm_inflight_entry *take(struct gm_worker_session *s,
				      const struct gm_task *task,
				      struct gm_batch *batch)
{
	struct gm_inflight_entry *e = inflight_at(s, s->entries.pos);

	publish(s, batch);
	gm_journal_take(s->owed, s->entries.mask, s->entries.pos);
	GM_POINT("flight_taken");
	s->entries.pos++;
	*e = (struct gm_inflight_entry){
		.stamp = gm_job_stamp(task, s->flights->turn_ns, 1)
	};
	return e;
}

/* The entry needs no work and ends when all entries before it have ended. */
static void read_ended(struct gm_worker_session *s, const struct gm_task *task,
		       struct gm_batch *batch, int32_t status, bool is_second)
{
	const uint64_t now = s->flights->turn_ns;
	struct gm_inflight_entry *e;
	struct gm_job_stamp stamp;

	if (s->flights->oldest != s->entries.pos) {
		e = take(s, task, batch);
		e->status = status;
		e->is_second = is_second;
		return;
	}
	stamp = gm_job_stamp(task, now, 1);
	if (!is_second)
		gm_job_clock_ended(s->clock, &stamp, s->id, s->uid, now,
				   status);
	s->entries.pos++;
	end(s, batch, status, is_second);
}

/* Returns whether the last entry has to wait until the device has its memory
 * mapped. */
static bool must_reach(struct gm_worker *w, struct gm_worker_session *s)
{
	struct gm_inflight_entry *e = inflight_at(s, s->entries.pos - 1);
	struct gm_task_sizes sizes;
	uint32_t part;
	int rc;

	if (s->n_reached == 0 || gm_task_sizes(&e->task, &sizes) < 0)
		return false;
	part = gm_arena_regions_reach(s, e->task.dst, sizes.dst);
	if (part == s->n_reached)
		part = gm_arena_regions_reach(s, e->task.src, sizes.src);
	if (part == s->n_reached)
		part = gm_arena_regions_reach(s, e->task.mask, sizes.mask);
	e->is_fence = s->flights->fenced = part < s->n_reached;
	if (part == s->n_reached)
		return false;
	rc = gm_async_ops_reach(w, s, part);
	if (rc < 0)
		gm_async_exec_reached(w, s, rc);
	return true;
}

static void read_task(struct gm_worker *w, struct gm_worker_session *s,
		      const struct gm_decoded_entry *verdict,
		      struct gm_batch *batch)
{
	struct gm_inflight_entry *e = take(s, &verdict->task, batch);

	e->task = verdict->task;
	e->deadline_ns = verdict->deadline_ns;
	e->each = verdict->each;
	if (!must_reach(w, s))
		start(w, s);
}

static void read_fence(struct gm_worker_session *s,
		       const struct gm_decoded_entry *verdict,
		       struct gm_batch *batch)
{
	struct gm_inflight_entry *e = take(s, &verdict->task, batch);

	e->stamp.n = gm_decode_elements(verdict);
	e->is_fence = true;
	s->flights->fenced = true;
	gm_session_send(s, verdict);
}

/* Read and begin the next entry.  Returns whether one was read. */
static bool read_entry(struct gm_worker *w, struct gm_worker_session *s,
		       struct gm_batch *batch)
{
	static const struct gm_task nop;
	uint64_t words[GM_ENTRY_WORDS];
	bool is_second = s->second;
	struct gm_decoded_entry verdict;
	int rc;

	if (!may_read(w, s) ||
	    !gm_ring_peek(&s->entries, GM_ENTRY_WORDS, 0, words))
		return false;
	GM_TRACEPOINT(fetch, s->id, s->entries.pos, words[0] >> 32);
	if (gm_decode_is_plain(&s->decoder, words) &&
	    !(s->second | s->cancels)) {
		read_ended(s, &nop, batch, 0, false);
		return true;
	}
	rc = gm_fetch_entry(s, words, &verdict);
	if (rc == -EPROTO || rc == -EAGAIN) {
		s->why = verdict.why;
		return false;
	}
	if (rc == 0 && verdict.bytes) {
		read_task(w, s, &verdict, batch);
	} else if (rc == 0 && verdict.buffer &&
		   verdict.task.op != GPUMAP_OP_FREE) {
		read_fence(s, &verdict, batch);
	} else {
		if (rc == 0 && verdict.buffer)
			gm_buffers_free(&s->buffers, verdict.buffer,
					s->entries.pos);
		if (gm_ops_is_collective(verdict.task.op))
			gm_collective_refused(s, &verdict, rc);
		read_ended(s, &verdict.task, batch, rc, is_second);
	}
	return true;
}

/* Begin the fence's request, or the mapping that it needs first.  Returns 0 or
 * the status of the entry. */
static int begin_pending(struct gm_worker *w, struct gm_worker_session *s)
{
	const struct gm_async_op *pending = &s->pending;
	uint32_t part = s->n_reached;
	int rc;

	if (pending->op == GPUMAP_OP_LOAD && s->n_reached)
		part = gm_arena_regions_reach(s, pending->task.dst,
					      pending->task.n);
	s->flights->reaching = part < s->n_reached;
	rc = s->flights->reaching ? gm_async_ops_reach(w, s, part)
				  : gm_async_ops_begin(w, s);
	if (rc < 0) {
		s->flights->reaching = false;
		s->pending.handle = 0;
		gm_async_exec_finish(s, rc);
	}
	return rc;
}

/* Begin a fence when all entries before it have ended. */
static void fence(struct gm_worker *w, struct gm_worker_session *s,
		  struct gm_batch *batch)
{
	if (!s->pending.handle || s->flights->reaching ||
	    s->flights->oldest != s->entries.pos - 1)
		return;
	struct gm_job_stamp *stamp = &inflight_at(s, s->flights->oldest)->stamp;

	publish(s, batch);
	gm_async_ops_give_back(w, s);
	stamp->started_ns = gm_now_ns();
	GM_TRACEPOINT(start, s->id, s->flights->oldest, 0, stamp->n);
	if (begin_pending(w, s) < 0)
		end_all(s, batch);
}

/* Continue a LOAD whose destination was mapped, or end it in the next turn. */
static void reached_for_pending(struct gm_worker *w,
				struct gm_worker_session *s, int32_t status)
{
	s->flights->reaching = false;
	if (status == 0) {
		begin_pending(w, s);
		return;
	}
	s->pending.handle = 0;
	gm_async_exec_finish(s, status);
}

void gm_async_exec_reached(struct gm_worker *worker,
			   struct gm_worker_session *session, int32_t status)
{
	struct gm_async_execs *f = session->flights;
	struct gm_inflight_entry *e =
		inflight_at(session, session->entries.pos - 1);

	if (f->reaching) {
		reached_for_pending(worker, session, status);
		return;
	}
	e->is_fence = false;
	f->fenced = false;
	if (status < 0)
		fail_rest(worker, session, e, status);
	else if (!must_reach(worker, session))
		f->starting = true;
	f->refused_at = worker->landed - 1;
}

void gm_async_exec_finish(struct gm_worker_session *session, int32_t status)
{
	struct gm_inflight_entry *e =
		inflight_at(session, session->entries.pos - 1);

	GM_TRACEPOINT(end, session->id, session->entries.pos - 1, 0, e->stamp.n,
		      status);
	e->status = status;
	e->is_fence = false;
	session->flights->fenced = false;
}

/* ---- turns ------------------------------------------------------------- */

void gm_async_exec_set_flying(struct gm_worker *worker,
			      struct gm_async_execs *flights)
{
	struct gm_worker *w = worker;
	struct gm_async_execs *f = flights;
	bool flies = f->n_slices || f->starting || f->held;

	if (flies == f->flying)
		return;
	f->flying = flies;
	if (flies)
		TAILQ_INSERT_TAIL(&w->flying, f, entry);
	else
		TAILQ_REMOVE(&w->flying, f, entry);
}

void gm_async_exec_leave(struct gm_worker *worker,
			 struct gm_worker_session *session)
{
	struct gm_async_execs *f = session->flights;

	if (f->starting)
		quit(worker, inflight_at(session, session->entries.pos - 1));
	f->starting = false;
	f->held = false;
	gm_async_exec_set_flying(worker, f);
}

void gm_async_exec_serve(struct gm_worker *worker,
			 struct gm_worker_session *session)
{
	struct gm_worker_session *s = session;
	struct gm_batch batch = { .first = s->flights->oldest };
	uint32_t n = 0; /* entries read */

	s->flights->held = false;
	s->flights->turn_ns = gm_now_ns();
	gm_intake_turn(s);
	gm_async_exec_land(worker, s);
	end_all(s, &batch);
	publish(s, &batch);
	if (s->flights->starting && !s->spent)
		start(worker, s);
	while (n < GM_TURN_ENTRIES && !s->spent &&
	       !gm_get(&s->mapping.broken) && read_entry(worker, s, &batch))
		n++;
	gm_deficit_charge(&s->deficit, 0, n);
	end_all(s, &batch);
	fence(worker, s, &batch);
	publish(s, &batch);
	gm_async_ops_give_back(worker, s);
	gm_async_exec_set_flying(worker, s->flights);
	if (gm_get(&s->mapping.broken))
		s->why = GM_SESSION_BROKEN;
	s->halted = s->why || s->wait.on;
}
