/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/collective/collective.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/huge_pages.h"
#include "agent/worker/collective/nccl_group.h"
#include "agent/worker/collective/staged.h"
#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/async_op_private.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/accounting.h"
#include "agent/worker/queue/dependency.h"
#include "agent/worker/queue/heartbeat.h"
#include "shm/point.h"

static struct gm_collective_member *find(const struct gm_worker_session *s,
					 uint64_t number)
{
	struct gm_collective_member *m;

	LIST_FOREACH(m, &s->members, entry)
	{
		if (m->number == number)
			break;
	}
	return m;
}

/* ---- the other ranks ----------------------------------------------------- */

static void tell(const struct gm_worker_session *s)
{
	GM_POINT("group_came_on");
	if (gm_wakeup_list_is_awaited(s->wakeups))
		gm_wakeup_list_tell(s->wakeups);
}

/* End the parts of all ranks with @status, unless the group is broken
 * already. */
static void break_up(const struct gm_collective_member *m, int status)
{
	gm_comm_break(m->comm.page, -status);
	tell(m->session);
}

/* ---- records ------------------------------------------------------------- */

static void *reach(void *arg, uint32_t rank, struct gm_comm_place place,
		   uint64_t bytes, bool writes)
{
	const struct gm_collective_member *m = arg;

	return gm_decode_memory(&m->session->decoder, place.buffer, place.at,
				bytes, writes);
}

static void answer(struct gm_worker *w, uint64_t session, uint32_t place,
		   uint64_t number, enum gm_wire_type type, int status)
{
	struct gm_wire reply = gm_agent_socket_about(type, session, place);

	reply.handle = number;
	reply.status = status;
	gm_io_events_say(w, &reply, -1);
}

/* @bytes: see struct gm_wire_joined. */
static void say_joined(struct gm_worker *w, const struct gm_worker_session *s,
		       uint64_t number, uint64_t bytes, int status)
{
	struct gm_wire reply =
		gm_agent_socket_about(GM_WIRE_JOINED, s->id, s->place);

	reply.handle = number;
	reply.joined.device_bytes = bytes;
	reply.status = status;
	if (status == -ENODEV)
		snprintf(reply.text, sizeof(reply.text),
			 "one of its rows is being given up; see gpumapctl "
			 "devices");
	gm_io_events_say(w, &reply, -1);
}

/* Populate this rank's windows, which are unwritten yet, so that their memory
 * is on this row's node, and map them for the device. */
static void work_join(struct gm_blocking_job *job,
		      struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;
	struct gm_collective_member *m = e->member;

	char *windows = gm_member_windows(m, m->comm.rank);

	e->rc = gm_async_op_populate(windows, gm_comm_windows_bytes(), true);
	if (e->rc < 0 || !dev->backend->reach)
		return;
	e->rc = dev->backend->reach(dev, windows, gm_comm_windows_bytes(), true,
				    &m->region);
	if (e->rc < 0)
		m->region = NULL;
}

static void work_let_go(struct gm_blocking_job *job,
			struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;
	struct gm_collective_member *m = e->member;

	if (m->region)
		dev->backend->unreach(dev, m->region);
	munmap(m->comm.page, m->bytes);
}

static void done_let_go(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_worker_session *s = e->session;

	if (e->member->is_awaited) {
		GM_POINT("group_windows_gone");
		answer(w, s->id, s->place, e->member->number, GM_WIRE_FORGOTTEN,
		       0);
	}
	free(e->member);
	gm_async_op_finished(w, e);
}

/* Release a member.  Remaining users are copies, which the slow thread does
 * first, and the communicator, which is left first. */
void gm_collective_give_up(struct gm_worker *w, struct gm_collective_member *m)
{
	if (!gm_nccl_group_leave(m))
		return;
	if (m->last) {
		gm_async_op_hand_over(w, m->last);
		return;
	}
	munmap(m->comm.page, m->bytes);
	free(m);
}

static void let_go(struct gm_worker *w, struct gm_collective_member *m)
{
	LIST_REMOVE(m, entry);
	gm_collective_give_up(w, m);
}

void gm_collective_met(struct gm_worker *w, struct gm_worker_session *s,
		       struct gm_collective_member *m)
{
	/* The member was released while it connected. */
	if (m->is_gone) {
		say_joined(w, s, m->number, 0, 0);
		gm_collective_give_up(w, m);
		return;
	}
	if (gm_comm_broken_by(m->comm.page)) {
		say_joined(w, s, m->number, 0, -ENODEV);
		let_go(w, m);
		return;
	}
	m->is_ready = true;
	say_joined(w, s, m->number, m->clique ? 1 + m->taken : 0, 0);
}

static void done_join(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_worker_session *s = e->session;
	struct gm_collective_member *m = find(s, e->handle);

	GM_POINT("group_windows_made");
	/* Skip if the session has left. */
	if (m && e->rc < 0)
		let_go(w, m);
	else if (m && m->meet)
		gm_nccl_init(w, m);
	else if (m)
		m->is_ready = true;
	if (!m || e->rc < 0 || m->is_ready)
		say_joined(w, s, e->handle, 0, e->rc);
	gm_async_op_finished(w, e);
}

/* Allocate the job that releases the member first, because releasing must not
 * need memory. */
static int use_windows(struct gm_worker *w, struct gm_collective_member *m,
		       uint32_t flags)
{
	struct gm_worker_session *s = m->session;
	struct gm_async_op_job *e =
		gm_async_op_new(s, GM_CALL_REGISTER, work_join, done_join);

	if (e)
		m->last = gm_async_op_new(s, GM_CALL_FORGET, work_let_go,
					  done_let_go);
	if (!m->last) {
		free(e);
		return -ENOMEM;
	}
	m->last->member = m;
	if (flags & GM_JOIN_CLIQUE)
		gm_nccl_group_prepare(w, m);
	m->windows = (char *)m->comm.page + gm_comm_windows_at(m->comm.ranks);
	m->comm.reach = gm_staged_reach;
	m->is_ready = false;
	e->member = m;
	e->handle = m->number;
	gm_async_op_hand_over(w, e);
	return 0;
}

static int check_join(const struct gm_worker_session *s,
		      const struct gm_wire *wire, int fd)
{
	if (!s)
		return -ENOENT;
	if (wire->join.n_ranks == 0 || wire->join.n_ranks > GM_COMM_RANKS ||
	    wire->join.rank >= wire->join.n_ranks || wire->handle == 0 ||
	    gm_handle_generation(wire->handle) != 0)
		return -EINVAL;
	if (find(s, wire->handle))
		return -EEXIST;
	return fd < 0 ? -EMFILE : 0;
}

static int join(struct gm_worker *w, struct gm_worker_session *s,
		const struct gm_wire *wire, int fd)
{
	struct gm_collective_member *m = calloc(1, sizeof(*m));
	int rc = 0;
	void *page;

	if (!m)
		return -ENOMEM;
	m->bytes = gm_comm_bytes(wire->join.n_ranks,
				 wire->join.flags & GM_JOIN_STAGED);
	page = gm_huge_pages_map(m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
				 fd, 0);
	if (page == MAP_FAILED) {
		free(m);
		return -ENOMEM;
	}
	gm_comm_init(&m->comm, page, wire->join.rank, wire->join.n_ranks);
	m->comm.reach = reach;
	m->comm.arg = m;
	m->session = s;
	m->number = wire->handle;
	m->is_ready = true;
	LIST_INSERT_HEAD(&s->members, m, entry);
	if (wire->join.flags & GM_JOIN_STAGED)
		rc = use_windows(w, m, wire->join.flags);
	if (rc == 0)
		return 0;
	let_go(w, m);
	return rc;
}

void gm_collective_join(struct gm_worker *worker, const struct gm_wire *wire,
			int fd)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	int rc = check_join(s, wire, fd);

	if (rc == 0)
		rc = join(worker, s, wire, fd);
	if (fd >= 0)
		close(fd);
	/* JOINED follows later if the windows are not ready yet. */
	if (rc == 0 && !find(s, wire->handle)->is_ready)
		return;
	GM_POINT("group_joined");
	answer(worker, wire->session, wire->place, wire->handle, GM_WIRE_JOINED,
	       rc);
}

/* ---- parts --------------------------------------------------------------- */

static void take_off(struct gm_worker *w, struct gm_worker_session *s)
{
	if (gm_nccl_group_runs(s))
		gm_nccl_group_over(w);
	TAILQ_REMOVE(&w->parts.list, s, part.entry);
	w->parts.n--;
	s->part.member = NULL;
}

static void end(struct gm_worker *w, struct gm_worker_session *s, int status)
{
	struct gm_collective_member *m = s->part.member;

	GM_POINT("group_ending");
	take_off(w, s);
	if (status < 0)
		gm_nccl_group_call(m);
	/* Publish nothing if memory was missing: the part may have read
	 * zeroes. */
	if (!gm_get(&s->mapping.broken))
		gm_async_op_ended(w, s, status);
	if (m->is_leaving)
		let_go(w, m);
}

/* A rank made progress: record the length of the wait. */
static void end_of_gap(struct gm_parts *all)
{
	if (all->since_ns && all->budget_ns)
		gm_spin_hit(&all->spin, gm_now_ns() - all->since_ns);
	all->since_ns = 0;
	all->told = false;
}

/* Charge the work done since @since_ns, or since an unknown time if 0.  Copies
 * run in the slow thread and take no time of the loop, so that the session's
 * share tells nothing of them. */
static void pay(const struct gm_worker *w, struct gm_worker_session *s,
		uint64_t read, uint64_t copied, uint64_t since_ns)
{
	if (read + copied)
		gm_charge(w, s,
			  gm_quantum_price(w->dev, s->share, read) +
				  (int64_t)copied);
	if (read && since_ns)
		gm_quantum_learn(s, w->dev, read, gm_now_ns() - since_ns);
}

/* Returns whether anything was done. */
static bool go_on(struct gm_worker *w, struct gm_worker_session *s,
		  uint64_t budget)
{
	struct gm_part *part = &s->part;
	bool is_told, was_waiting = part->waits;
	const struct gm_collective_member *m = part->member;
	uint64_t read = m->comm.read, copied = m->copied;
	uint64_t since_ns = was_waiting ? 0 : gm_now_ns();
	int rc;
	GM_ACCESSES(&s->mapping);

	if (!was_waiting)
		gm_beat_at(w->journal, GM_CALL_DEVICE, since_ns);
	rc = part->member->windows
		     ? gm_nccl_group_step(w, s, budget, &is_told)
		     : gm_comm_step(&part->member->comm, &part->call, budget,
				    &is_told);
	if (!was_waiting)
		gm_beat(w->journal, GM_CALL_LOOP);
	pay(w, s, m->comm.read - read, m->copied - copied, since_ns);
	part->waits = rc == -EAGAIN;
	if (is_told)
		tell(s);
	if (part->waits)
		return !was_waiting;
	end_of_gap(&w->parts);
	if (rc != 0)
		end(w, s, rc > 0 ? 0 : rc);
	return true;
}

int gm_collective_begin(struct gm_worker *worker,
			struct gm_worker_session *session)
{
	struct gm_worker_session *s = session;
	struct gm_collective_member *m = find(s, s->pending.handle);

	s->pending.handle = 0;
	if (!m || !m->is_ready || m->is_leaving ||
	    gm_comm_broken_by(m->comm.page))
		return -ESTALE;
	gm_async_op_stall(worker, s);
	s->part.member = m;
	s->part.waits = false;
	s->part.deadline_ns = s->pending.deadline_ns;
	TAILQ_INSERT_TAIL(&worker->parts.list, s, part.entry);
	worker->parts.n++;
	gm_group_look_anew(worker);
	if (m->windows) {
		gm_nccl_group_begin(s);
	} else {
		gm_comm_begin(&m->comm, &s->pending.ask, &s->part.call);
		tell(s);
	}
	go_on(worker, s, GM_GROUP_SLICE);
	return 0;
}

void gm_collective_refused(struct gm_worker_session *session,
			   const struct gm_decoded_entry *verdict, int status)
{
	const struct gm_collective_member *m = find(session, verdict->buffer);

	if (!m)
		return;
	break_up(m, status);
	gm_nccl_group_call(m);
}

/* A slice is as long as a turn, and longer if no session is awake. */
static uint64_t slice_of(const struct gm_worker *w,
			 const struct gm_worker_session *s)
{
	if (w->n_active == 0)
		return GM_GROUP_ALONE;
	return s->share < GM_GROUP_SLICE ? s->share : GM_GROUP_SLICE;
}

bool gm_collective_pass(struct gm_worker *worker)
{
	struct gm_parts *all = &worker->parts;
	uint32_t n = all->n, looks = GM_GROUP_LOOKS;
	bool worked = false;

	while (n-- > 0 && looks > 0 && !worked) {
		struct gm_worker_session *s = TAILQ_FIRST(&all->list);

		TAILQ_REMOVE(&all->list, s, part.entry);
		TAILQ_INSERT_TAIL(&all->list, s, part.entry);
		all->n_seen++;
		if (!gm_charge_left(worker, s)) {
			all->held = true;
			continue;
		}
		looks--;
		worked =
			go_on(worker, s,
			      slice_of(worker, s) / s->part.member->comm.ranks);
	}
	if (worked)
		gm_group_look_anew(worker);
	worker->busy += worked;
	return worked;
}

/* Returns the error that ends a part: deadline, cancellation or drain.  0:
 * none. */
static int why_over(struct gm_worker *w, const struct gm_worker_session *s,
		    uint64_t now_ns)
{
	if (s->part.deadline_ns && now_ns >= s->part.deadline_ns)
		return -ETIME;
	if (gm_cancel_reaches(gm_get(&s->timeline->cancel), s->entries.pos - 1,
			      s->entries.mask + 1))
		return -ECANCELED;
	/* A draining worker waits for other ranks only until the drain
	 * limit. */
	if (w->draining && gm_worker_drain_now(w) >= w->waiting.drain_ns)
		return -EIO;
	return 0;
}

void gm_collective_look(struct gm_worker *worker)
{
	struct gm_worker_session *s = TAILQ_FIRST(&worker->parts.list), *next;
	uint64_t now_ns = gm_now_ns();

	for (; s; s = next) {
		GM_ACCESSES(&s->mapping);
		int why = why_over(worker, s, now_ns);

		next = TAILQ_NEXT(s, part.entry);
		if (why == 0)
			continue;
		break_up(s->part.member, why);
		go_on(worker, s, 0);
	}
}

/* ---- leaving ------------------------------------------------------------- */

void gm_collective_init(struct gm_worker *worker)
{
	TAILQ_INIT(&worker->parts.list);
	LIST_INIT(&worker->cliqued);
}

void gm_collective_forget(struct gm_worker *worker, const struct gm_wire *wire)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	struct gm_collective_member *m = s ? find(s, wire->handle) : NULL;
	bool has_windows;

	if (!m) {
		answer(worker, wire->session, wire->place, wire->handle,
		       GM_WIRE_FORGOTTEN, -ESTALE);
		return;
	}
	break_up(m, -EIO);
	has_windows = m->windows;
	m->is_awaited = m->is_leaving = true;
	if (s->part.member == m)
		go_on(worker, s, 0); /* releases the member, now or later */
	else
		let_go(worker, m);
	if (has_windows)
		return;
	GM_POINT("group_forgotten");
	answer(worker, wire->session, wire->place, wire->handle,
	       GM_WIRE_FORGOTTEN, 0);
}

void gm_collective_leave(struct gm_worker *worker,
			 struct gm_worker_session *session)
{
	struct gm_collective_member *m;

	if (session->part.member)
		take_off(worker, session);
	while ((m = LIST_FIRST(&session->members))) {
		break_up(m, -EIO);
		let_go(worker, m);
	}
}
