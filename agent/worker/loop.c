/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * loop - the worker's main loop: passes, polling and sleep.
 *
 * Each pass gives a turn to every user who has a session with work, see
 * queue/run_queue.h. Sessions with empty rings are polled for as long as their
 * past gaps justify, and then parked one by one. A session whose next entry
 * waits for another row gets no turns until the wait is over
 * (queue/dependency.h). If no session is awake the worker blocks in its
 * io_uring.
 *
 * Where the device computes asynchronously (queue/async_exec.h), the worker
 * sleeps only after it has polled the device for some time, and slices that end
 * wake it. The loop is compiled twice, so that neither kind of device has the
 * cost of the other.
 *
 * The clock is read once in many passes. Decisions by time are made then:
 * polling budgets, the heartbeat, and the rings of sessions whose doorbell is
 * ignored.
 */

#include "agent/worker/worker.h"

#include <stdlib.h>

#include "agent/worker/collective/collective.h"
#include "agent/worker/collective/nccl_group.h"
#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/async_op.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/io/remote_copy.h"
#include "agent/worker/memory/alloc.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/async_exec.h"
#include "agent/worker/queue/heartbeat.h"
#include "agent/worker/queue/run_queue.h"
#include "agent/worker/queue/schedule.h"
#include "shm/point.h"

/* Passes without work between two readings of the clock. */
#define QUIET_PASSES 16u

/* How long to poll this idle session, in ns. */
static uint64_t budget_of(struct gm_worker *w, struct gm_worker_session *s)
{
	if (!w->may_spin)
		return 0;
	s->watched = gm_async_exec_spin(s);
	/* Poll for the device, independent of the client's CPU. */
	if (s->watched)
		return gm_spin_begin(s->watched);
	s->watched = &s->spin;
	/* Polling on the client's own CPU keeps the client from writing. */
	if (gm_get(&s->client->cpu) == w->cpu)
		return 0;
	return gm_spin_begin(s->watched);
}

/* Park an idle session or poll it further. Called when the clock is read. */
static void check_idle(struct gm_worker *w, struct gm_worker_session *s)
{
	GM_ACCESSES(&s->mapping);

	if (s->since_ns == 0) {
		s->since_ns = w->now_ns;
		s->budget_ns = budget_of(w, s);
	} else if (w->now_ns - s->since_ns >= s->budget_ns) {
		if (s->budget_ns)
			gm_spin_miss(s->watched);
		gm_run_queue_park(w, s);
		return;
	}
	if (s->budget_ns == 0 ||
	    (s->watched == &s->spin && gm_get(&s->client->cpu) == w->cpu))
		gm_run_queue_park(w, s);
}

/* Check all idle sessions. Sessions that are parked leave the lists
 * meanwhile. */
static void check_all_idle(struct gm_worker *w)
{
	struct gm_row_user *user = TAILQ_FIRST(&w->users), *next;

	for (; user; user = next) {
		struct gm_worker_session *s = TAILQ_FIRST(&user->active), *then;

		next = TAILQ_NEXT(user, entry);
		for (; s; s = then) {
			then = TAILQ_NEXT(s, turn);
			if (s->idle)
				check_idle(w, s);
		}
	}
}

static void tick(struct gm_worker *w)
{
	w->quiet = 0;
	w->busy = 0;
	w->now_ns = gm_now_ns();
	gm_beat_at(w->journal, GM_CALL_LOOP, w->now_ns);
	gm_run_queue_cpu(w);
	if (w->draining)
		gm_worker_drain_now(w);
	if (w->may_spin && gm_get(&w->group_page->spin_limit) == 0) {
		w->may_spin = false;
		gm_spin_leave(w->group_page, w->row);
	}
	check_all_idle(w);
	if (w->dev->backend->start)
		gm_async_exec_poll(w);
	if (w->waiting.n || w->wakeups.owes)
		gm_dependency_look(w);
	if (w->parts.n)
		gm_collective_look(w);
	if (!LIST_EMPTY(&w->cliqued))
		gm_nccl_group_look(w);
	if (gm_load_wants_clock(&w->loader))
		gm_load_tick(w);
	if (!TAILQ_EMPTY(&w->carried))
		gm_remote_copy_poll(w);
	if (!TAILQ_EMPTY(&w->alloc_waits))
		gm_alloc_look(w);
	if (w->n_forgets)
		gm_async_ops_look(w);
	if (w->n_muted && w->now_ns - w->looked_ns >= GM_FLOOD_LOOK_NS)
		gm_io_events_look(w);
}

/* End the sessions whose memory was found missing. */
static void end_broken(struct gm_worker *w)
{
	gm_swap_ordered(&gm_sigbus_seen, 0); /* GROUND.seen */
	for (uint32_t i = 0; i < GM_JOURNAL_PLACES; i++) {
		struct gm_worker_session *s = w->place[i];

		if (!s || !gm_get(&s->mapping.broken))
			continue;
		s->why = GM_SESSION_BROKEN;
		gm_io_events_violated(w, s);
	}
}

static uint64_t sooner(uint64_t a_ns, uint64_t b_ns)
{
	return b_ns && (!a_ns || b_ns < a_ns) ? b_ns : a_ns;
}

/* How long the worker may sleep, 0 for no limit. */
static uint64_t nap_of(const struct gm_worker *w, uint64_t wait_ns)
{
	uint64_t ns = wait_ns;

	if (w->n_muted || (w->n_in_flight && !w->dev->backend->arm))
		ns = sooner(ns, GM_FLOOD_LOOK_NS);
	ns = sooner(ns, gm_load_nap(w));
	ns = sooner(ns, gm_remote_copy_nap(w));
	ns = sooner(ns, gm_alloc_nap(w));
	/* Other devices that delay the drain cause no wakeup when they
	 * finish. */
	if (w->draining && w->has_cliques)
		ns = sooner(ns, GM_NCCL_GROUP_HOLD_NS);
	return ns;
}

/* Does work wait for the next round, which begins with the next pass? If the
 * device has to end a slice first, that wakes the worker. */
static bool is_held(const struct gm_worker *w)
{
	return (w->loader.held || w->remote_copies.held) &&
	       !(w->dev->backend->start && gm_async_exec_is_owed(w, NULL));
}

/* No session is awake: block until a doorbell or a record. */
static void block(struct gm_worker *w)
{
	struct __kernel_timespec nap = { 0 };
	struct io_uring_cqe *cqe;
	uint64_t wait_ns, group_ns = 0;

	if (is_held(w) ||
	    (w->dev->backend->start && !gm_async_exec_may_sleep(w)))
		return;
	/* The poll of the device may have changed the result. */
	if (is_held(w))
		return;
	if (gm_dependency_is_due(w, &wait_ns)) {
		gm_dependency_look(w);
		return;
	}
	if (w->parts.n && !gm_collective_may_sleep(w, &group_ns)) {
		gm_pause();
		return;
	}
	gm_spin_leave(w->group_page, w->row);
	/* While other devices delay the drain, publish GM_CALL_LOOP: this ends
	 * by itself. */
	gm_beat(w->journal, w->draining && gm_nccl_group_holds(w)
				    ? GM_CALL_LOOP
				    : GM_CALL_IDLE);
	GM_POINT("worker_blocks");
	gm_guarded_sleeps();
	nap.tv_nsec = (long long)nap_of(w, sooner(group_ns, wait_ns));
	gm_running_clock_sleep(&w->drain_clock, (uint64_t)nap.tv_nsec);
	if (nap.tv_nsec)
		io_uring_submit_and_wait_timeout(&w->ring, &cqe, 1, &nap, NULL);
	else
		io_uring_submit_and_wait(&w->ring, 1);
	gm_guarded_wakes();
	w->may_spin = gm_spin_enter(w->group_page, w->row);
	gm_io_events_handle(w);
	tick(w);
}

/* Has the draining worker finished all work that it has to wait for?
 * Completions that are not published yet are found by a pass. */
static bool is_drained(struct gm_worker *w)
{
	return w->draining && !w->slow.n && !gm_nccl_group_is_busy(w) &&
	       !w->loader.n_asked && TAILQ_EMPTY(&w->carried) &&
	       !w->remote_copies.n && TAILQ_EMPTY(&w->alloc_waits) &&
	       !w->parts.n && TAILQ_EMPTY(&w->flying) &&
	       !gm_dependency_holds(w) && !gm_nccl_group_holds(w);
}

/* The worker may have finished: a further pass decides. */
static bool looks_again(struct gm_worker *w)
{
	return is_drained(w) && (!w->drained || w->dismissed);
}

/* Send DRAINED. From now on the worker begins no entry, and other rows may copy
 * from its memory until gpumapd has it leave. */
static void say_drained(struct gm_worker *w)
{
	struct gm_wire wire = gm_agent_socket_about(GM_WIRE_DRAINED, 0, 0);

	for (uint32_t i = 0; i < GM_JOURNAL_PLACES; i++)
		if (w->place[i])
			w->place[i]->drain = w->place[i]->entries.pos;
	w->drained = true;
	gm_io_events_say(w, &wire, -1);
}

/* No work is left, and none has arrived since. Returns whether the worker
 * ends. */
static bool may_end(struct gm_worker *w)
{
	if (!gm_nccl_group_disband(w))
		return false;
	if (!w->drained)
		say_drained(w);
	return w->dismissed;
}

GM_TWICE void run(struct gm_worker *w, const bool flies)
{
	while (!w->leaving) {
		/* Work that arrives after the pass takes another pass. */
		bool over = is_drained(w);
		bool worked = gm_pass(w, flies);

		/* One turn of all loads per pass. */
		if (gm_unlikely(w->loader.n_loads))
			worked |= gm_load_pass(w);
		if (gm_unlikely(w->remote_copies.held))
			worked |= gm_remote_copy_queue_go(w);
		if (gm_unlikely(w->parts.n))
			worked |= gm_collective_pass(w);
		if (gm_events_due(w))
			gm_io_events_handle(w);
		if (gm_get(&gm_sigbus_seen))
			end_broken(w);
		if (worked) {
			if (w->busy >= GM_BUSY_TURNS)
				tick(w);
			continue;
		}
		/* A job may have been handed over since. */
		if (w->leaving || (over && is_drained(w) && may_end(w)))
			break;
		if (looks_again(w) || gm_load_due(&w->loader))
			continue;
		if (w->n_active == 0) {
			block(w);
			continue;
		}
		gm_pause();
		if (++w->quiet >= QUIET_PASSES)
			tick(w);
	}
}

int gm_worker_run(struct gm_worker *worker)
{
	struct gm_worker *w = worker;

	TAILQ_INIT(&w->users);
	TAILQ_INIT(&w->flying);
	TAILQ_INIT(&w->carried);
	TAILQ_INIT(&w->alloc_waits);
	gm_send_queue_init(&w->outbox);
	gm_dependency_init(w);
	gm_job_clock_init(&w->clock, w->journal, (uint32_t)gm_now_ns());
	gm_remote_copy_queue_init(&w->remote_copies);
	gm_collective_init(w);
	gm_io_events_start(w);
	if (w->dev->backend->start)
		run(w, true);
	else
		run(w, false);
	gm_spin_leave(w->group_page, w->row);
	/* No client waits for this worker any more. If gpumapd has closed its
	 * end, the flush fails at once. */
	gm_send_queue_flush(&w->outbox, w->pair, true);
	return EXIT_SUCCESS;
}
