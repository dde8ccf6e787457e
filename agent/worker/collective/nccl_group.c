/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/collective/nccl_group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/worker/collective/collective.h"
#include "agent/worker/collective/staged.h"
#include "agent/worker/control/async_op_private.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/queue/heartbeat.h"
#include "shm/point.h"

/* The method of a part. */
enum way { BY_WINDOWS = 0, MEETING, RUNNING };

_Static_assert((int)GM_NCCL_GROUP_ALL_REDUCE == (int)GM_COMM_ALL_REDUCE &&
		       (int)GM_NCCL_GROUP_ALL_GATHER ==
			       (int)GM_COMM_ALL_GATHER &&
		       (int)GM_NCCL_GROUP_REDUCE_SCATTER ==
			       (int)GM_COMM_REDUCE_SCATTER &&
		       (int)GM_NCCL_GROUP_BROADCAST == (int)GM_COMM_BROADCAST &&
		       (int)GM_NCCL_GROUP_SEND == (int)GM_COMM_SEND &&
		       (int)GM_NCCL_GROUP_RECV == (int)GM_COMM_RECV,
	       "the same numbers");

/* ---- connecting and leaving ---------------------------------------------- */

static void work_meet(struct gm_blocking_job *job,
		      struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	gm_nccl_group_come(e->member, dev, e->bytes);
}

/* The thread has no job any more and gets no more. */
static void give_thread_back(struct gm_collective_member *m)
{
	free(m->meet);
	free(m->abort);
	m->meet = m->abort = NULL;
	if (m->thread)
		m->thread->is_taken = false;
	m->thread = NULL;
}

static void done_meet(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_collective_member *m = e->member;

	GM_POINT("clique_met");
	m->is_busy = false;
	m->clique = m->formed;
	if (m->clique) {
		LIST_INSERT_HEAD(&w->cliqued, m, cliqued);
		gm_dependency_want_waker(w);
	} else {
		give_thread_back(m);
	}
	gm_collective_met(w, e->session, m);
	gm_async_op_finished(w, e);
}

static void work_abort(struct gm_blocking_job *job,
		       struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	dev->backend->clique_abort(dev, e->member->clique);
}

static void done_abort(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_collective_member *m = e->member;

	GM_POINT("clique_aborted");
	m->is_busy = false;
	LIST_REMOVE(m, cliqued);
	m->clique = NULL;
	if (m->is_gone)
		gm_collective_give_up(w, m);
	gm_async_op_finished(w, e);
}

/* Allocate the abort job before connecting, so that leaving needs no memory. */
void gm_nccl_group_prepare(struct gm_worker *worker,
			   struct gm_collective_member *member)
{
	struct gm_collective_member *m = member;

	if (worker->has_cliques && worker->dev->backend->clique_version)
		m->meet = gm_async_op_new(m->session, GM_CALL_MEET, work_meet,
					  done_meet);
	if (m->meet)
		m->abort = gm_async_op_new(m->session, GM_CALL_ABORT,
					   work_abort, done_abort);
	if (m->abort)
		m->thread = gm_nccl_group_thread_take(worker);
	if (m->thread) {
		m->meet->bytes = worker->clique_limit_ns;
		m->meet->member = m->abort->member = m;
		return;
	}
	give_thread_back(m);
	gm_nccl_group_cannot(m);
}

/* Break a group without a collective in progress: no rank has to wait for this
 * one. */
static void give_up(const struct gm_collective_member *m)
{
	gm_comm_break(m->comm.page, EIO);
}

void gm_nccl_init(struct gm_worker *worker, struct gm_collective_member *member)
{
	struct gm_async_op_job *e = member->meet;

	member->meet = NULL;
	member->is_busy = true;
	if (worker->draining)
		give_up(member);
	gm_async_op_hand_to_clique(e);
}

static void begin_abort(struct gm_collective_member *m)
{
	struct gm_async_op_job *e = m->abort;

	m->abort = NULL;
	m->is_busy = true;
	gm_nccl_group_call(m);
	gm_async_op_hand_to_clique(e);
}

bool gm_nccl_group_leave(struct gm_collective_member *member)
{
	struct gm_collective_member *m = member;

	if (m->clique && !m->is_busy)
		begin_abort(m);
	m->is_gone = m->is_busy;
	if (m->is_gone)
		return false;
	give_thread_back(m);
	return true;
}

/* Is another device still running a collective that this one has finished? */
static bool is_followed(const struct gm_collective_member *m)
{
	return m->clique && !gm_comm_broken_by(m->comm.page) &&
	       !gm_comm_all_parted(&m->comm);
}

void gm_nccl_group_drain(struct gm_worker *worker)
{
	struct gm_worker *w = worker;
	struct gm_collective_member *m;

	w->clique_drain_ns = gm_worker_drain_now(w) + w->clique_limit_ns;
	for (uint32_t i = 0; w->has_cliques && i < GM_JOURNAL_PLACES; i++) {
		if (!w->place[i])
			continue;
		LIST_FOREACH(m, &w->place[i]->members, entry)
		{
			if (m->is_busy && !m->is_ready)
				give_up(m);
		}
	}
}

bool gm_nccl_group_holds(struct gm_worker *worker)
{
	struct gm_worker *w = worker;

	if (!w->has_cliques || gm_worker_drain_now(w) >= w->clique_drain_ns)
		return false;
	for (uint32_t i = 0; i < GM_JOURNAL_PLACES; i++) {
		const struct gm_collective_member *m;

		if (!w->place[i])
			continue;
		LIST_FOREACH(m, &w->place[i]->members, entry)
		{
			if (is_followed(m))
				return true;
		}
	}
	return false;
}

bool gm_nccl_group_disband(struct gm_worker *worker)
{
	struct gm_collective_member *m;

	LIST_FOREACH(m, &worker->cliqued, cliqued)
	{
		if (m->is_busy)
			continue;
		give_up(m);
		begin_abort(m);
	}
	return LIST_EMPTY(&worker->cliqued);
}

void gm_nccl_group_call(const struct gm_collective_member *member)
{
	const struct gm_collective_member *m = member;

	if (!m->clique || gm_comm_broken_by(m->comm.page) == 0)
		return;
	for (uint32_t i = 0; i < m->comm.ranks; i++)
		if (i != m->comm.rank)
			gm_wakeup_list_call(m->session->wakeups,
					    gm_member_row(m, i));
}

void gm_nccl_group_look(struct gm_worker *worker)
{
	struct gm_collective_member *m;

	LIST_FOREACH(m, &worker->cliqued, cliqued)
	{
		if (m->is_busy || gm_comm_broken_by(m->comm.page) == 0)
			continue;
		GM_POINT("clique_follows");
		begin_abort(m);
	}
}

/* ---- parts --------------------------------------------------------------- */

/* Is all memory that this rank reads and writes the device's own? */
static bool is_direct(const struct gm_staged *r)
{
	return r->ask.status == 0 && r->ask.n > 0 && !r->send && !r->recv;
}

void gm_nccl_group_begin(struct gm_worker_session *session)
{
	struct gm_part *part = &session->part;
	struct gm_comm_ask ask;

	gm_staged_begin(session);
	part->way = BY_WINDOWS;
	ask = part->relay.ask;
	if (!part->member->clique || ask.op == GM_COMM_BARRIER)
		return;
	ask.meets = true;
	ask.is_direct = is_direct(&part->relay);
	gm_comm_begin(&part->member->comm, &ask, &part->call);
	part->relay.tells = true;
	part->way = MEETING;
}

/* All ranks of the collective have arrived, and none has failed. */
static int start(struct gm_worker *w, struct gm_worker_session *s)
{
	struct gm_part *part = &s->part;
	struct gm_collective_member *m = part->member;
	const struct gm_staged *r = &part->relay;
	const struct gm_nccl_group_task task = { .op = r->ask.op,
						 .dtype = r->ask.dtype,
						 .reduce = r->ask.reduce,
						 .peer = r->ask.peer,
						 .n = r->ask.n,
						 .send = r->send_address,
						 .recv = r->recv_address };

	GM_POINT("clique_starts");
	part->way = RUNNING;
	gm_put(&w->journal->joint, gm_now_ns());
	m->copied += r->each *
		     (gm_comm_given(&r->ask, m->comm.rank, m->comm.ranks) +
		      gm_comm_gotten(&r->ask, m->comm.rank, m->comm.ranks));
	return w->dev->backend->clique_start(w->dev, m->clique, &task);
}

static int step_meeting(struct gm_worker *w, struct gm_worker_session *s,
			uint64_t budget, bool *ret_told)
{
	struct gm_part *part = &s->part;
	struct gm_collective_member *m = part->member;
	int rc = gm_comm_step(&m->comm, &part->call, budget, ret_told);

	*ret_told |= part->relay.tells;
	part->relay.tells = false;
	if (rc != 1)
		return rc;
	if (!part->call.all_direct) {
		part->way = BY_WINDOWS;
		return 0;
	}
	if (start(w, s) < 0) {
		gm_comm_break(m->comm.page, EIO);
		*ret_told = true;
	}
	return 0;
}

void gm_nccl_group_over(struct gm_worker *worker)
{
	gm_put(&worker->journal->joint, 0);
}

/* The part ends with success, or after its abort. */
static int step_running(struct gm_worker *w, struct gm_worker_session *s,
			bool *ret_told)
{
	struct gm_collective_member *m = s->part.member;
	int status = gm_comm_broken_by(m->comm.page), rc = 0;

	if (status == 0)
		rc = w->dev->backend->clique_ended(w->dev, m->clique);
	if (rc == -ENOTRECOVERABLE)
		gm_io_events_failed(w);
	if (rc == 1) {
		gm_comm_part(&m->comm, &s->part.call);
		GM_POINT("clique_parted");
		return 1;
	}
	if (rc < 0) {
		gm_comm_break(m->comm.page, EIO);
		*ret_told = true;
		status = gm_comm_broken_by(m->comm.page);
	}
	if (status == 0)
		return -EAGAIN;
	gm_nccl_group_over(w);
	if (m->is_busy)
		return -EAGAIN;
	if (!m->clique)
		return status;
	GM_POINT("clique_aborts");
	begin_abort(m);
	return -EAGAIN;
}

int gm_nccl_group_step(struct gm_worker *worker,
		       struct gm_worker_session *session, uint64_t budget,
		       bool *ret_told)
{
	*ret_told = false;
	switch ((enum way)session->part.way) {
	case MEETING:
		return step_meeting(worker, session, budget, ret_told);
	case RUNNING:
		return step_running(worker, session, ret_told);
	default:
		return gm_staged_step(worker, session, budget, ret_told);
	}
}

bool gm_nccl_group_runs(const struct gm_worker_session *session)
{
	const struct gm_part *part = &session->part;

	return part->member && part->member->windows && part->way == RUNNING;
}
