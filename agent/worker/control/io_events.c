/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/io_events.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/worker/collective/collective.h"
#include "agent/worker/collective/nccl_group.h"
#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/async_op.h"
#include "agent/worker/control/job_trace.h"
#include "agent/worker/io/mask_upload.h"
#include "agent/worker/io/remote_copy.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/async_exec.h"
#include "agent/worker/queue/heartbeat.h"
#include "agent/worker/queue/run_queue.h"
#include "shm/point.h"

#define EVENTS_MAX 256u /* handled before the queues get their next turn */

enum {
	EVENT_PAIR = 1,
	EVENT_DOORBELL,
	EVENT_CANCELLED,
	EVENT_ROOM,
	EVENT_SLOW,  /* the slow thread has finished a job */
	EVENT_ENDED, /* the device has ended a slice */
	EVENT_TOLD,  /* another row has ended an entry */
	EVENT_READ,
	EVENT_CLOSED
};

/* A doorbell's tag has place and attachment, so the poll of a former session
 * never wakes the next one in its place. */
static uint64_t tag(unsigned event, const struct gm_worker_session *s)
{
	return (uint64_t)event << 56 | (uint64_t)s->place << 32 | s->serial;
}

/* Take the next completion out of the ring.  Returns false if there is none.
 * Enters the kernel if a flag of the ring requires it. */
static bool take_from_ring(struct gm_worker *w, struct gm_io_event *ret_event)
{
	struct io_uring_cqe *cqe;

	if (io_uring_peek_cqe(&w->ring, &cqe) != 0)
		return false;
	*ret_event = (struct gm_io_event){
		.user_data = io_uring_cqe_get_data64(cqe),
		.res = cqe->res,
		.more = (cqe->flags & IORING_CQE_F_MORE) != 0,
	};
	io_uring_cqe_seen(&w->ring, cqe);
	return true;
}

static bool take_event(struct gm_worker *w, struct gm_io_event *ret_event)
{
	struct gm_io_backlog *backlog = &w->backlog;

	if (!gm_io_backlog_waits(backlog))
		return take_from_ring(w, ret_event);
	*ret_event = backlog->event[backlog->first++];
	if (!gm_io_backlog_waits(backlog))
		backlog->first = backlog->n = 0;
	return true;
}

/* Set one completion aside.  Returns false if there is none, or no memory. */
static bool set_aside(struct gm_worker *w)
{
	struct gm_io_backlog *backlog = &w->backlog;

	if (backlog->n == backlog->size) {
		uint32_t size = backlog->size ? 2 * backlog->size : 1024;
		struct gm_io_event *more =
			realloc(backlog->event, size * sizeof(*more));

		if (!more)
			return false;
		backlog->event = more;
		backlog->size = size;
	}
	if (!take_from_ring(w, &backlog->event[backlog->n]))
		return false;
	backlog->n++;
	return true;
}

/* A kernel before 5.19 accepts no entry while completions wait for room in the
 * ring.  These cannot be handled here, inside of another event's handler, and
 * are set aside. */
static struct io_uring_sqe *next_sqe(struct gm_worker *w)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&w->ring);

	while (!sqe) {
		if (io_uring_submit(&w->ring) < 0)
			while (set_aside(w))
				;
		sqe = io_uring_get_sqe(&w->ring);
	}
	return sqe;
}

static void listen_to(struct gm_worker *w, int fd, uint64_t user_data)
{
	struct io_uring_sqe *sqe = next_sqe(w);

	io_uring_prep_poll_multishot(sqe, fd, POLLIN);
	io_uring_sqe_set_data64(sqe, user_data);
}

/* Not with POLL_REMOVE: for a poll with a pending event, as a client that rings
 * without need has, POLL_REMOVE returns -EALREADY and keeps the poll. */
static void cancel_poll(struct gm_worker *w, const struct gm_worker_session *s)
{
	struct io_uring_sqe *sqe = next_sqe(w);

	io_uring_prep_cancel64(sqe, tag(EVENT_DOORBELL, s), 0);
	io_uring_sqe_set_data64(sqe, tag(EVENT_CANCELLED, s));
}

/* Poll the socket for room while records wait for it. */
static void want_room(struct gm_worker *w)
{
	struct io_uring_sqe *sqe;

	if (w->outbox.is_polled || !gm_send_queue_waits(&w->outbox))
		return;
	sqe = next_sqe(w);
	io_uring_prep_poll_add(sqe, w->pair, POLLOUT);
	io_uring_sqe_set_data64(sqe, (uint64_t)EVENT_ROOM << 56);
	w->outbox.is_polled = true;
}

void gm_io_events_say(struct gm_worker *worker, const struct gm_wire *wire,
		      int fd)
{
	gm_send_queue_put(&worker->outbox, worker->pair, wire, fd);
	want_room(worker);
}

/* IOSQE_ASYNC: even the file system's attempt to read without waiting may
 * block, so the read is not tried here first. */
void gm_io_events_read(struct gm_worker *worker, int fd, void *at,
		       uint32_t bytes, uint64_t from, uint32_t piece)
{
	struct io_uring_sqe *sqe = next_sqe(worker);

	io_uring_prep_read(sqe, fd, at, bytes, from);
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data64(sqe, (uint64_t)EVENT_READ << 56 | piece);
}

void gm_io_events_cancel_read(struct gm_worker *worker, uint32_t piece)
{
	struct io_uring_sqe *sqe = next_sqe(worker);

	io_uring_prep_cancel64(sqe, (uint64_t)EVENT_READ << 56 | piece, 0);
	io_uring_sqe_set_data64(sqe, (uint64_t)EVENT_CANCELLED << 56);
}

void gm_io_events_close(struct gm_worker *worker, int fd)
{
	struct io_uring_sqe *sqe = next_sqe(worker);

	io_uring_prep_close(sqe, fd);
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data64(sqe, (uint64_t)EVENT_CLOSED << 56);
}

void gm_io_events_failed(struct gm_worker *worker)
{
	const struct gm_backend_device *dev = worker->dev;
	const char *why = "the device is of no use any more";
	struct gm_wire wire = gm_agent_socket_about(GM_WIRE_FAILED, 0, 0);

	if (dev->backend->fault)
		why = dev->backend->fault(worker->dev, &wire.code);
	wire.status = -ENOTRECOVERABLE;
	snprintf(wire.text, sizeof(wire.text), "%s", why);
	gm_send_queue_flush(&worker->outbox, worker->pair, true);
	gm_agent_socket_send(worker->pair, &wire, -1, 0);
	GM_POINT("worker_failed");
	/* Skip exit handlers: a driver's may wait for the device. */
	_exit(EXIT_FAILURE);
}

void gm_io_events_listen_to_waker(struct gm_worker *worker, int fd)
{
	listen_to(worker, fd, (uint64_t)EVENT_TOLD << 56);
}

static void stop_listening(struct gm_worker *w, struct gm_worker_session *s)
{
	if (s->flood.muted)
		w->n_muted--;
	else
		cancel_poll(w, s);
	s->flood.muted = false;
}

void gm_io_events_start(struct gm_worker *worker)
{
	listen_to(worker, worker->pair, (uint64_t)EVENT_PAIR << 56);
	listen_to(worker, worker->slow.fd, (uint64_t)EVENT_SLOW << 56);
	if (worker->dev->backend->start && worker->dev->ended_fd >= 0)
		listen_to(worker, worker->dev->ended_fd,
			  (uint64_t)EVENT_ENDED << 56);
	io_uring_submit(&worker->ring);
}

void gm_io_events_violated(struct gm_worker *worker,
			   struct gm_worker_session *session)
{
	gm_a64 *violations = &session->owed->violations;
	struct gm_wire wire;
	bool is_withheld;

	if (session->ended)
		return;
	gm_run_queue_drop(worker, session);
	gm_dependency_leave(worker, session);
	if (session->awaits == 0)
		stop_listening(worker, session);
	session->ended = true;
	gm_load_leave(worker, session);
	gm_remote_copy_queue_hurry(worker, session, NULL);
	gm_collective_leave(worker, session);
	gm_put(violations, gm_get(violations) + 1);
	GM_POINT("worker_violated");
	wire = gm_agent_socket_about(GM_WIRE_VIOLATION, session->id,
				     session->place);
	is_withheld = gm_get(&session->mapping.broken) == GM_MAPPING_WITHHELD;
	wire.status = is_withheld ? -EBUSY : -EPROTO;
	snprintf(wire.text, sizeof(wire.text), "%s",
		 is_withheld ? GM_SESSION_WITHHELD : session->why);
	gm_io_events_say(worker, &wire, -1);
}

/* ---- gpumapd ----------------------------------------------------------- */

/* Start to read the session's ring, and publish that to its client.  Returns 0
 * or -ENOMEM. */
static int begin(struct gm_worker *w, struct gm_worker_session *s)
{
	GM_ACCESSES(&s->mapping);

	gm_session_take_over(s, s->incarnation);
	if (w->dev->backend->start && gm_async_exec_open(s, w->dev) < 0)
		return -ENOMEM;
	s->serial = ++w->serial;
	listen_to(w, s->doorbell, tag(EVENT_DOORBELL, s));
	/* Entries that came before this rang no doorbell of this worker. */
	if (gm_ring_recheck(&s->entries, GM_ENTRY_WORDS))
		gm_run_queue_wake(w, s);
	return 0;
}

void gm_io_events_has_awaited(struct gm_worker *worker,
			      struct gm_worker_session *session)
{
	if (session->awaits == 0 || --session->awaits != 0 ||
	    session->departing || session->ended)
		return;
	if (begin(worker, session) < 0) {
		session->why = "no memory is left to serve it";
		gm_io_events_violated(worker, session);
		return;
	}
	if (worker->draining)
		session->drain =
			session->entries.pos + session->entries.mask + 1;
}

static int attach(struct gm_worker *w, const struct gm_wire *wire, int *fds)
{
	struct gm_worker_session *s;
	int rc;

	if (wire->place >= GM_JOURNAL_PLACES || w->place[wire->place])
		return -EEXIST;
	rc = gm_session_map(wire, fds, w->journal, w->node, true, &s);
	if (rc < 0)
		return rc;
	if (gm_run_queue_admit(w, s) < 0) {
		gm_session_unmap(s, &w->close_thread, free);
		return -ENOMEM;
	}
	s->incarnation = wire->attach.incarnation;
	s->awaits = wire->attach.n_awaited;
	s->decoder.row = w->row;
	s->wakeups = &w->wakeups;
	s->clock = &w->clock;
	if (s->awaits == 0 && begin(w, s) < 0) {
		gm_run_queue_dismiss(w, s);
		gm_buffers_close_budget(&s->buffers, &w->budgets);
		gm_session_unmap(s, &w->close_thread, free);
		return -ENOMEM;
	}
	w->place[s->place] = s;
	return 0;
}

static void detach(struct gm_worker *w, const struct gm_wire *wire)
{
	struct gm_worker_session *s = NULL;
	struct gm_wire reply;

	if (wire->place < GM_JOURNAL_PLACES)
		s = w->place[wire->place];
	if (!s || s->id != wire->session) {
		reply = gm_agent_socket_about(GM_WIRE_DETACHED, wire->session,
					      wire->place);
		reply.status = -ENOENT;
		gm_io_events_say(w, &reply, -1);
		return;
	}
	gm_run_queue_dismiss(w, s);
	gm_dependency_leave(w, s);
	if (!s->ended && s->awaits == 0)
		stop_listening(w, s);
	/* Cancel the poll before its descriptor is closed. */
	io_uring_submit(&w->ring);
	w->place[s->place] = NULL;
	s->buffers.shown = NULL; /* another session may soon use the place */
	gm_journal_close(s->owed);
	GM_POINT("worker_detached");
	s->pair = w->pair;
	if (s->flights)
		gm_async_exec_leave(w, s);
	gm_load_leave(w, s);
	gm_collective_leave(w, s);
	gm_async_ops_depart(w, s);
}

/* From now on each queue gets the entries that are in its ring at this moment,
 * and no more. */
static void drain(struct gm_worker *w)
{
	w->draining = true;
	w->waiting.drain_ns = gm_worker_drain_now(w) + GM_WAIT_DRAIN_NS;
	gm_nccl_group_drain(w);
	for (uint32_t i = 0; i < GM_JOURNAL_PLACES; i++) {
		struct gm_worker_session *s = w->place[i];

		if (!s || s->awaits)
			continue;
		GM_ACCESSES(&s->mapping);
		s->drain = s->entries.pos + s->entries.mask + 1;
		if (gm_ring_ready(&s->entries, GM_ENTRY_WORDS))
			gm_run_queue_wake(w, s);
	}
}

static int take_fd(int *fds)
{
	int fd = fds[0];

	fds[0] = -1;
	return fd;
}

static void answer_attach(struct gm_worker *w, const struct gm_wire *wire,
			  int *fds)
{
	struct gm_wire reply = gm_agent_socket_about(
		GM_WIRE_ATTACHED, wire->session, wire->place);

	reply.status = attach(w, wire, fds);
	gm_io_events_say(w, &reply, -1);
}

static void obey(struct gm_worker *w, const struct gm_wire *wire, int *fds)
{
	switch (wire->type) {
	case GM_WIRE_ATTACH:
		answer_attach(w, wire, fds);
		break;
	case GM_WIRE_DETACH:
		detach(w, wire);
		break;
	case GM_WIRE_DRAIN:
		drain(w);
		break;
	case GM_WIRE_LEAVE:
		w->dismissed = true;
		break;
	case GM_WIRE_REGISTER:
		gm_async_ops_register(w, wire, take_fd(fds));
		break;
	case GM_WIRE_FORGET:
		gm_async_ops_forget(w, wire);
		break;
	case GM_WIRE_EXPORT:
		gm_async_ops_export(w, wire);
		break;
	case GM_WIRE_IMPORT:
		gm_async_ops_import(w, wire, take_fd(fds));
		break;
	case GM_WIRE_WAKER:
		gm_dependency_waker(w, wire->place, take_fd(fds));
		break;
	case GM_WIRE_PROVE:
		gm_remote_copy_prove(w, wire);
		break;
	case GM_WIRE_TRY:
		gm_remote_copy_try(w, wire, take_fd(fds));
		break;
	case GM_WIRE_LEND:
		gm_remote_copy_lend(w, wire, take_fd(fds));
		break;
	case GM_WIRE_BORROW:
		gm_remote_copy_borrow(w, wire, take_fd(fds));
		break;
	case GM_WIRE_FETCH:
		gm_remote_copy_fetch(w, wire);
		break;
	case GM_WIRE_FETCHED:
		gm_remote_copy_fetched(w, wire);
		break;
	case GM_WIRE_JOIN:
		gm_collective_join(w, wire, take_fd(fds));
		break;
	case GM_WIRE_TRACE:
	case GM_WIRE_TRACE_END:
		gm_job_trace_set(&w->clock, take_fd(fds));
		break;
	case GM_WIRE_MASK:
		gm_mask_upload(w, wire, take_fd(fds), take_fd(fds + 1));
		break;
	default:
		/* An error of gpumapd, which expects no answer. */
		break;
	}
	gm_agent_socket_close_fds(fds);
}

static void read_pair(struct gm_worker *w)
{
	int fds[GM_SESSION_FDS];
	struct gm_wire wire;
	int rc = 1;

	while (rc == 1) {
		rc = gm_agent_socket_receive(w->pair, MSG_DONTWAIT, &wire, fds);
		if (rc == 1)
			obey(w, &wire, fds);
		if (io_uring_sq_ready(&w->ring))
			io_uring_submit(&w->ring);
	}
	if (rc != -EAGAIN)
		w->leaving = true;
}

/* ---- doorbells --------------------------------------------------------- */

/* Does the session wait for anything other than a doorbell?  Then it is not
 * parked, and its client need not ring. */
static bool is_busy(const struct gm_worker *w,
		    const struct gm_worker_session *s)
{
	return s->stalled || (s->flights && gm_async_exec_full(w, s));
}

static void rung(struct gm_worker *w, struct gm_worker_session *s)
{
	gm_a64 *doorbells = &w->journal->doorbells;
	bool busy = is_busy(w, s);
	GM_ACCESSES(&s->mapping);

	gm_put(doorbells, gm_get(doorbells) + 1);
	if (s->wait.on && gm_dependency_rung(w, s))
		return;
	busy = busy || s->wait.on;
	if (!busy && gm_ring_ready(&s->entries, GM_ENTRY_WORDS)) {
		gm_run_queue_wake(w, s);
		return;
	}
	if (!busy)
		gm_run_queue_park_anew(w, s);
	if (!gm_flood_count(&s->flood, w->now_ns))
		return;
	cancel_poll(w, s);
	w->n_muted++;
}

void gm_io_events_look(struct gm_worker *worker)
{
	uint32_t left = worker->n_muted;

	worker->looked_ns = worker->now_ns;
	for (uint32_t i = 0; left && i < GM_JOURNAL_PLACES; i++) {
		struct gm_worker_session *s = worker->place[i];

		if (!s || !s->flood.muted)
			continue;
		GM_ACCESSES(&s->mapping);
		left--;
		if (gm_flood_over(&s->flood, worker->now_ns)) {
			worker->n_muted--;
			listen_to(worker, s->doorbell, tag(EVENT_DOORBELL, s));
		}
		if (!is_busy(worker, s) &&
		    gm_ring_ready(&s->entries, GM_ENTRY_WORDS))
			gm_run_queue_wake(worker, s);
	}
}

static void handle(struct gm_worker *w, const struct gm_io_event *e)
{
	const uint64_t user_data = e->user_data;
	const bool more = e->more;
	unsigned event = (unsigned)(user_data >> 56);
	uint32_t place = (uint32_t)(user_data >> 32) & 0xffffff;
	struct gm_worker_session *s;

	if (event == EVENT_PAIR) {
		if (!more)
			listen_to(w, w->pair, user_data);
		read_pair(w);
		return;
	}
	if (event == EVENT_SLOW) {
		if (!more)
			listen_to(w, w->slow.fd, user_data);
		gm_async_ops_done(w);
		return;
	}
	if (event == EVENT_ENDED) {
		if (!more)
			listen_to(w, w->dev->ended_fd, user_data);
		gm_async_exec_notified(w);
		return;
	}
	if (event == EVENT_TOLD) {
		if (!more)
			listen_to(w, w->waiting.own, user_data);
		gm_dependency_told(w);
		gm_collective_notified(w);
		return;
	}
	if (event == EVENT_READ) {
		gm_load_read_ended(w, (uint32_t)user_data, e->res);
		return;
	}
	if (event == EVENT_ROOM) {
		w->outbox.is_polled = false;
		gm_send_queue_flush(&w->outbox, w->pair, false);
		want_room(w);
		return;
	}
	if (event != EVENT_DOORBELL || place >= GM_JOURNAL_PLACES)
		return;
	s = w->place[place];
	if (!s || tag(EVENT_DOORBELL, s) != user_data || s->ended ||
	    s->flood.muted)
		return;
	/* A poll ends when the completion queue was full, or when this worker
	 * cancelled it.  Entries whose doorbell was missed are found in the
	 * ring. */
	if (!more && e->res != -ECANCELED)
		listen_to(w, s->doorbell, user_data);
	rung(w, s);
}

void gm_io_events_handle(struct gm_worker *worker)
{
	struct gm_io_event event;

	worker->now_ns = gm_now_ns();
	gm_beat_at(worker->journal, GM_CALL_LOOP, worker->now_ns);
	for (uint32_t i = 0; i < EVENTS_MAX && take_event(worker, &event); i++)
		handle(worker, &event);
	if (io_uring_sq_ready(&worker->ring))
		io_uring_submit(&worker->ring);
}
