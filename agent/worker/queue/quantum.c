/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/quantum.h"

#include <errno.h>

#include "agent/worker/collective/collective.h"
#include "agent/worker/programs/program.h"
#include "agent/worker/queue/batch.h"
#include "agent/worker/queue/fetch.h"
#include "agent/worker/queue/heartbeat.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/tracepoint.h"

/* Bytes of a job that is large enough to time. */
#define GM_TURN_TIMED       4096u

#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* End an entry whose job was timed. */
static void end_timed(struct gm_worker_session *s, struct gm_batch *batch,
		      const struct gm_job_stamp *stamp, uint64_t now_ns,
		      int32_t status)
{
	gm_job_clock_ended(s->clock, stamp, s->id, s->uid, now_ns, status);
	gm_batch_end(batch, status);
}

/* Run up to @budget bytes of the current work.  Returns the bytes.  When the
 * work has ended, its bytes are 0 and its status is in the batch. */
static uint64_t do_slice(struct gm_worker_session *s,
			 struct gm_backend_device *dev, struct gm_batch *batch,
			 uint64_t budget)
{
	struct gm_work *work = &s->work;
	uint64_t count = work->task.n - work->next, now = gm_now_ns();
	int rc;

	if (work->next == 0)
		s->stamp = gm_job_stamp(&work->task, now, 1);
	if (work->deadline_ns && work->next > 0 && now >= work->deadline_ns) {
		work->bytes = 0;
		end_timed(s, batch, &s->stamp, now, -ETIME);
		return 0;
	}
	if (count > budget / work->each)
		count = budget / work->each;
	if (work->next + count < work->task.n && !work->taken) {
		gm_journal_take(s->owed, s->entries.mask, batch->first);
		GM_POINT("worker_taken");
		work->taken = true;
	}
	GM_TRACEPOINT(start, s->id, batch->first, work->next, count);
	gm_beat_at(s->signs, GM_CALL_DEVICE, now);
	rc = dev->backend->run(dev, &work->task, work->next, count);
	now = gm_now_ns();
	gm_beat_at(s->signs, GM_CALL_LOOP, now);
	GM_POINT("worker_sliced");
	GM_TRACEPOINT(end, s->id, batch->first, work->next, count, rc);
	work->next += count;
	if (rc < 0 || work->next == work->task.n) {
		work->bytes = 0;
		end_timed(s, batch, &s->stamp, now, rc);
	}
	return count * work->each;
}

uint64_t gm_quantum_share(uint64_t share, uint64_t bytes, uint64_t ns,
			  uint64_t most)
{
	uint64_t fits;

	fits = bytes * GM_TURN_NS / (ns > 0 ? ns : 1);
	/* So little may show that work is fast again, and not that it is
	 * slow. */
	if (bytes < GM_TURN_LEAST && fits < share)
		return share;
	if (fits > 2 * share)
		fits = 2 * share;
	if (fits < GM_TURN_LEAST)
		return GM_TURN_LEAST;
	if (fits > most)
		return most;
	return fits / GM_TURN_LEAST * GM_TURN_LEAST; /* pages stay whole */
}

/* The timed part of a turn: from its first job of at least GM_TURN_TIMED
 * bytes. */
struct timing {
	uint64_t since_ns; /* 0: not begun */
	uint64_t bytes;
	uint64_t before; /* bytes of the jobs before it */
	uint32_t weight; /* of each small job, see job_clock.h */
	uint64_t
		read_ns; /* when the entry at hand was read; 0: not yet known */
};

static void begin_timing(struct timing *timing, uint64_t bytes)
{
	if (timing->since_ns == 0 && bytes >= GM_TURN_TIMED)
		timing->since_ns = gm_now_ns();
}

/* Limit of a turn in bytes. */
static uint64_t turn_most(const struct gm_backend_device *dev)
{
	return dev->slice_bytes ? dev->slice_bytes : GM_TURN_BYTES;
}

void gm_quantum_learn(struct gm_worker_session *session,
		      const struct gm_backend_device *dev, uint64_t bytes,
		      uint64_t ns)
{
	session->share =
		gm_quantum_share(session->share, bytes, ns, turn_most(dev));
}

static void end_timing(struct gm_worker_session *s,
		       const struct gm_backend_device *dev,
		       const struct timing *timing)
{
	if (timing->since_ns)
		gm_quantum_learn(s, dev, timing->bytes,
				 gm_now_ns() - timing->since_ns);
}

static void begin_work(struct gm_worker_session *s,
		       const struct gm_decoded_entry *verdict)
{
	struct gm_work *work = &s->work;

	work->task = verdict->task;
	work->task.so_far = &work->so_far;
	work->bytes = verdict->bytes;
	work->next = 0;
	work->deadline_ns = verdict->deadline_ns;
	work->each = verdict->each;
	work->taken = false;
}

/* A program runs its whole tile at once, because only the program knows how to
 * split it.  Completions before it are published first, so that they do not
 * wait for it. */
static void serve_program(struct gm_worker_session *s,
			  const struct gm_decoded_entry *v,
			  struct gm_batch *batch)
{
	struct gm_job_stamp stamp;
	uint64_t now;
	int rc;

	gm_batch_publish(s, batch);
	gm_journal_take(s->owed, s->entries.mask, s->entries.pos);
	GM_POINT("worker_runs");
	now = gm_now_ns();
	stamp = gm_job_stamp(&v->task, now, 1);
	GM_TRACEPOINT(start, s->id, s->entries.pos, 0, v->task.n);
	gm_beat_at(s->signs, GM_CALL_PROGRAM, now);
	rc = gm_program_run(v->program, &v->task, s->decoder.row);
	now = gm_now_ns();
	gm_beat_at(s->signs, GM_CALL_LOOP, now);
	GM_POINT("worker_ran");
	GM_TRACEPOINT(end, s->id, s->entries.pos, 0, v->task.n, rc);
	end_timed(s, batch, &stamp, now, rc);
}

/* The next entry is read when this one has ended. */
static __attribute__((noinline, cold)) void
time_small(struct gm_worker_session *s, const struct gm_task *task,
	   struct timing *timing, int32_t status)
{
	struct gm_job_stamp stamp =
		gm_job_stamp(task, timing->read_ns, timing->weight);

	timing->read_ns = gm_now_ns();
	gm_job_clock_ended(s->clock, &stamp, s->id, s->uid, timing->read_ns,
			   status);
}

/* End an entry that took no turn of its own, and whose job is timed if the turn
 * is. */
static void end_small(struct gm_worker_session *s, struct gm_batch *batch,
		      const struct gm_task *task, struct timing *timing,
		      int32_t status)
{
	if (unlikely(timing->weight))
		time_small(s, task, timing, status);
	gm_batch_end(batch, status);
}

/* ALLOC, LOAD and a COPY from borrowed memory wait for other threads or rows,
 * so no entry behind them is read until they end.  No later entry of this turn
 * uses a buffer that FREE gives up. */
static void serve_buffer(struct gm_worker_session *s,
			 const struct gm_decoded_entry *verdict,
			 struct gm_batch *batch, struct timing *timing)
{
	s->halted = true;
	if (verdict->task.op == GPUMAP_OP_FREE) {
		gm_buffers_free(&s->buffers, verdict->buffer, s->entries.pos);
		end_small(s, batch, &verdict->task, timing, 0);
		return;
	}
	gm_batch_publish(s, batch);
	gm_journal_take(s->owed, s->entries.mask, s->entries.pos);
	GM_POINT("worker_sent");
	s->stamp = gm_job_stamp(&verdict->task, gm_now_ns(), 1);
	s->stamp.n = gm_decode_elements(verdict);
	GM_TRACEPOINT(start, s->id, s->entries.pos, 0, s->stamp.n);
	gm_session_send(s, verdict);
}

/* Serve an entry other than a plain NOP.  Returns the bytes that it used of the
 * turn.  s->work has the rest of it, s->why its violation of the contract. */
static uint64_t serve_entry(struct gm_worker_session *s,
			    struct gm_backend_device *dev,
			    const uint64_t *words, struct gm_batch *batch,
			    uint64_t budget, struct timing *timing)
{
	bool is_second = s->second;
	struct gm_decoded_entry verdict;
	int rc = gm_fetch_entry(s, words, &verdict);

	if (rc == -EPROTO || rc == -EAGAIN) {
		s->why = verdict.why;
		s->halted = true;
		return 0;
	}
	if (rc == 0 && verdict.program) {
		serve_program(s, &verdict, batch);
		timing->since_ns = 0; /* its time does not predict other work */
		timing->read_ns = 0;
		return budget;
	}
	if (rc < 0 || verdict.bytes == 0) {
		if (rc == 0 && verdict.buffer) {
			serve_buffer(s, &verdict, batch, timing);
			return 0;
		}
		if (gm_ops_is_collective(verdict.task.op))
			gm_collective_refused(s, &verdict, rc);
		if (is_second)
			gm_batch_end(batch, rc);
		else
			end_small(s, batch, &verdict.task, timing, rc);
		batch->seconds += is_second;
		return 0;
	}
	begin_timing(timing, verdict.bytes);
	if (verdict.bytes <= GM_TURN_SMALL && verdict.bytes <= budget) {
		GM_TRACEPOINT(start, s->id, s->entries.pos, 0, verdict.task.n);
		rc = dev->backend->run(dev, &verdict.task, 0, verdict.task.n);
		GM_TRACEPOINT(end, s->id, s->entries.pos, 0, verdict.task.n,
			      rc);
		if (timing->since_ns == 0)
			timing->before += verdict.bytes;
		end_small(s, batch, &verdict.task, timing, rc);
		return verdict.bytes;
	}
	timing->read_ns = 0; /* the next entry is read after this work */
	gm_batch_publish(s, batch);
	begin_work(s, &verdict);
	return do_slice(s, dev, batch, budget);
}

int64_t gm_quantum_price(const struct gm_backend_device *dev, uint64_t share,
			 uint64_t bytes)
{
	uint64_t most = turn_most(dev);
	uint64_t fast = most < GM_TURN_FAST ? most : GM_TURN_FAST;

	if (share >= fast || bytes == 0)
		return (int64_t)bytes;
	return (int64_t)(bytes * fast / share);
}

/* Short turns help the other sessions, and cost a fast copy a tenth of its
 * speed.  Slow work loses nothing by short turns, and a session that wakes
 * meanwhile waits less. */
static uint64_t allowance(const struct gm_worker_session *s,
			  const struct gm_backend_device *dev)
{
	uint64_t bytes = s->share, most = turn_most(dev);

	if (s->alone && bytes >= GM_TURN_FAST)
		bytes *= GM_TURN_ALONE;

	return bytes < most ? bytes : most;
}

uint32_t gm_quantum_serve(struct gm_worker_session *session,
			  struct gm_backend_device *dev)
{
	static const struct gm_task nop;
	struct gm_worker_session *s = session;
	struct gm_batch batch = { .first = s->entries.pos };
	uint64_t words[GM_ENTRY_WORDS], left = allowance(s, dev), used;
	const uint64_t share = s->share, all = left;
	struct timing timing = { .weight = gm_job_clock_turn(s->clock) };

	gm_intake_turn(s);
	if (s->work.bytes) {
		batch.first--; /* the entry in progress is consumed already */
		begin_timing(&timing, s->work.bytes);
		used = do_slice(s, dev, &batch, left);
		timing.bytes += used;
		left -= used;
	}
	while (batch.ended < GM_TURN_ENTRIES && left >= GM_TURN_TIMED &&
	       !s->work.bytes &&
	       gm_ring_peek(&s->entries, GM_ENTRY_WORDS, 0, words)) {
		GM_TRACEPOINT(fetch, s->id, s->entries.pos, words[0] >> 32);
		if (unlikely(timing.weight) && timing.read_ns == 0)
			timing.read_ns = gm_now_ns();
		if (gm_decode_is_plain(&s->decoder, words) &&
		    !(s->second | s->cancels)) {
			end_small(s, &batch, &nop, &timing, 0);
		} else {
			used = serve_entry(s, dev, words, &batch, left,
					   &timing);
			if (unlikely(s->halted)) {
				s->entries.pos += !s->why && !s->wait.on;
				break;
			}
			if (timing.since_ns)
				timing.bytes += used;
			left -= used;
		}
		s->entries.pos++;
		if (batch.n == GM_TURN_BATCH && !gm_get(&s->mapping.broken))
			gm_batch_publish(s, &batch);
	}
	/* The share tells nothing of jobs that are not timed.  A request ends
	 * later, but counts as an entry of this turn. */
	gm_deficit_charge(&s->deficit,
			  (int64_t)timing.before +
				  gm_quantum_price(dev, share,
						   all - left - timing.before),
			  batch.ended + (s->pending.handle != 0));
	end_timing(s, dev, &timing);
	if (unlikely(gm_get(&s->mapping.broken))) {
		/* Entries of this turn may have read zeroes in place of
		 * data. */
		s->why = GM_SESSION_BROKEN;
		s->halted = true;
		return 0;
	}
	gm_batch_publish(s, &batch);
	return batch.ended;
}

void gm_quantum_finish(struct gm_worker_session *session, int32_t status)
{
	struct gm_batch batch = { .first = session->entries.pos - 1 };

	/* The entry may have read zeroes.  The next turn ends the session. */
	if (gm_get(&session->mapping.broken))
		return;
	GM_TRACEPOINT(end, session->id, batch.first, 0, session->stamp.n,
		      status);
	end_timed(session, &batch, &session->stamp, gm_now_ns(), status);
	gm_batch_publish(session, &batch);
}
