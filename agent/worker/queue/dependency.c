/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/dependency.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/async_exec.h"
#include "agent/worker/queue/heartbeat.h"
#include "agent/worker/queue/run_queue.h"
#include "agent/worker/worker.h"
#include "shm/point.h"

/* ---- timelines --------------------------------------------------------- */

void gm_time_begin(struct gm_worker_session *session, uint32_t incarnation)
{
	struct gm_worker_session *s = session;
	uint64_t then = gm_get(&s->timeline->ended);

	s->now = gm_time_make(0, gm_time_incarnation(incarnation),
			      gm_time_widen(then, s->done.pos));
	gm_put_ordered(&s->timeline->ended, s->now); /* QUEUE.born WAIT.tell */
}

void gm_time_end(struct gm_worker_session *session)
{
	gm_a64 *ended = &session->timeline->ended;

	gm_put_ordered(ended, gm_time_make(0, GM_TIME_DEAD,
					   gm_get(ended))); /* WAIT.tell */
}

/* ---- eventfds ---------------------------------------------------------- */

static void wake(struct gm_wakeup_list *h, uint32_t row)
{
	static const uint64_t one = 1;

	h->owed[row / 64] &= ~(UINT64_C(1) << row % 64);
	/* A full eventfd is readable already, so the write may fail. */
	while (write(h->waker[row], &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void owe(struct gm_wakeup_list *h, uint32_t row)
{
	h->owed[row / 64] |= UINT64_C(1) << row % 64;
	h->owes = true;
}

void gm_wakeup_list_call(struct gm_wakeup_list *wakeups, uint32_t row)
{
	if (wakeups->waker[row] >= 0)
		wake(wakeups, row);
	else
		owe(wakeups, row);
}

void gm_wakeup_list_tell(struct gm_wakeup_list *wakeups)
{
	for (uint32_t i = 0; i < GM_ROWS / 64; i++) {
		gm_a64 *by = &wakeups->line->by[i];
		uint64_t rows = 0;

		if (gm_get(by))
			rows = gm_swap_ordered(by, 0); /* WAIT.tell */
		for (; rows; rows &= rows - 1)
			gm_wakeup_list_call(
				wakeups,
				i * 64 + (uint32_t)__builtin_ctzll(rows));
	}
	GM_POINT("worker_told");
}

/* Do other workers have to wake this one while it has no eventfd yet? */
static bool lacks_own(const struct gm_worker *w)
{
	return w->waiting.own < 0 &&
	       (w->waiting.n || w->parts.n || !LIST_EMPTY(&w->cliqued));
}

/* Ask once a second, because gpumapd may have had no room for the request. */
static void ask_for_waker(struct gm_worker *w, uint32_t row)
{
	uint64_t *asked = &w->waiting.asked[row / 64];
	uint64_t bit = UINT64_C(1) << row % 64;
	struct gm_wire wire;

	if (*asked & bit)
		return;
	*asked |= bit;
	wire = gm_agent_socket_about(GM_WIRE_WAKER, 0, row);
	gm_io_events_say(w, &wire, -1);
}

static void see_to_wakers(struct gm_worker *w, uint64_t now_ns)
{
	struct gm_waiting *all = &w->waiting;
	struct gm_wakeup_list *h = &w->wakeups;

	if (now_ns - all->asked_ns >= GM_WAIT_ASK_NS) {
		memset(all->asked, 0, sizeof(all->asked));
		all->asked_ns = now_ns;
	}
	if (lacks_own(w))
		ask_for_waker(w, w->row);
	if (!h->owes)
		return;
	for (uint32_t row = 0; row < GM_ROWS; row++)
		if (h->owed[row / 64] >> row % 64 & 1)
			ask_for_waker(w, row);
}

void gm_dependency_want_waker(struct gm_worker *worker)
{
	if (worker->waiting.own < 0)
		see_to_wakers(worker, gm_now_ns());
}

void gm_dependency_waker(struct gm_worker *worker, uint32_t row, int fd)
{
	struct gm_wakeup_list *h = &worker->wakeups;
	int *place = row == worker->row ? &worker->waiting.own
					: &h->waker[row < GM_ROWS ? row : 0];
	bool owes = false;

	if (fd < 0 || row >= GM_ROWS || *place >= 0) {
		if (fd >= 0)
			close(fd);
		return;
	}
	*place = fd;
	if (row == worker->row) {
		gm_io_events_listen_to_waker(worker, fd);
		return;
	}
	if (h->owed[row / 64] >> row % 64 & 1)
		wake(h, row);
	for (uint32_t i = 0; i < GM_ROWS / 64; i++)
		owes |= h->owed[i] != 0;
	h->owes = owes;
}

/* ---- one head ---------------------------------------------------------- */

/* Returns 0, -EAGAIN, -EIO or -EINVAL, as gm_dependency_begin(). */
static int look(const struct gm_worker_session *s, uint64_t until)
{
	uint32_t row = gm_time_row(until), depth = s->entries.mask + 1;
	struct gm_queue *queue;
	uint64_t now = s->now;

	if (row == s->decoder.row) {
		/* Entries read before this one end before it. */
		if (gm_time_of_incarnation(now) !=
		    gm_time_of_incarnation(until))
			return -EIO;
		now = gm_time_widen(now, s->entries.pos);
		return gm_time_reached(now, until) ? 0 : -EINVAL;
	}
	if (row >= s->n_rows)
		return -EINVAL;
	queue = (void *)(s->queues + gm_queue_at(row, depth));
	now = gm_get_ordered(&gm_queue_timeline(queue, depth)
				      ->ended); /* WAIT.done WAIT.tell */
	if (gm_time_of_incarnation(now) != gm_time_of_incarnation(until))
		return -EIO;
	return gm_time_reached(now, until) ? 0 : -EAGAIN;
}

/* Report an error of one position before the others are reached. */
static int look_at_all(const struct gm_worker_session *s, const uint64_t *until,
		       uint32_t n)
{
	int all = 0;

	for (uint32_t i = 0; i < n; i++) {
		int rc = look(s, until[i]);

		if (rc < 0 && rc != -EAGAIN)
			return rc;
		if (rc < 0)
			all = rc;
	}
	return all;
}

int gm_dependency_begin(struct gm_worker_session *session,
			const struct gm_decoded_entry *verdict)
{
	struct gm_wait *wait = &session->wait;
	int rc = look_at_all(session, verdict->wait, verdict->n_waits);

	if (rc != -EAGAIN)
		return rc;
	wait->on = true;
	wait->n = (uint8_t)verdict->n_waits;
	wait->deadline_ns = verdict->deadline_ns;
	memcpy(wait->until, verdict->wait, sizeof(wait->until));
	return -EAGAIN;
}

static bool is_over(const struct gm_worker_session *s, uint64_t now_ns)
{
	const gm_a64 *head =
		gm_ring_slot(&s->entries, s->entries.pos, GM_ENTRY_WORDS);
	const struct gm_wait *wait = &s->wait;

	return (wait->deadline_ns && now_ns >= wait->deadline_ns) ||
	       gm_entry_is_cancelled(gm_get(head)) ||
	       gm_cancel_reaches(gm_get(&s->timeline->cancel), s->entries.pos,
				 s->entries.mask + 1) ||
	       look_at_all(s, wait->until, wait->n) != -EAGAIN;
}

/* Returns whether a bit was set: then the timelines need a recheck.  A bit that
 * was set before is answered by a wakeup later. */
static bool arm(struct gm_worker *w, const struct gm_worker_session *s)
{
	uint64_t bit = UINT64_C(1) << w->row % 64;
	bool is_new = false;

	for (uint32_t i = 0; i < s->wait.n; i++) {
		uint32_t row = gm_time_row(s->wait.until[i]);
		gm_a64 *by = &w->group_page->awaited[row].by[w->row / 64];

		if (row == w->row || (gm_get(by) & bit) ||
		    look(s, s->wait.until[i]) == 0)
			continue;
		gm_or_ordered(by, bit); /* WAIT.tell */
		is_new = true;
	}
	GM_POINT("worker_waits");
	return is_new;
}

static void at_the_latest(struct gm_waiting *all, uint64_t ns)
{
	if (ns && ns < all->next_ns)
		all->next_ns = ns;
}

/* Recheck one head.  Returns whether its session goes on. */
static bool try(struct gm_worker *w, struct gm_worker_session *s,
		uint64_t now_ns)
{
	struct gm_waiting *all = &w->waiting;
	GM_ACCESSES(&s->mapping);
	bool over = is_over(s, now_ns);

	if (!over && now_ns >= all->arm_ns && arm(w, s))
		over = is_over(s, now_ns);
	if (!over) {
		at_the_latest(all, s->wait.deadline_ns);
		at_the_latest(all, now_ns < all->arm_ns ? all->arm_ns : 0);
		return false;
	}
	gm_dependency_leave(w, s);
	gm_run_queue_wake(w, s);
	return true;
}

/* ---- all heads of a worker --------------------------------------------- */

void gm_dependency_init(struct gm_worker *worker)
{
	struct gm_wakeup_list *h = &worker->wakeups;

	TAILQ_INIT(&worker->waiting.heads);
	worker->waiting.own = -1;
	h->line = &worker->group_page->awaited[worker->row];
	for (uint32_t row = 0; row < GM_ROWS; row++)
		h->waker[row] = -1;
}

void gm_dependency_enter(struct gm_worker *worker,
			 struct gm_worker_session *session)
{
	struct gm_waiting *all = &worker->waiting;
	struct gm_worker_session *s = session;
	uint64_t now_ns = gm_now_ns();

	if (s->wait.listed)
		return;
	if (all->n == 0)
		all->next_ns = now_ns + GM_WAIT_LOOK_NS;
	s->wait.listed = true;
	TAILQ_INSERT_TAIL(&all->heads, s, waiting);
	all->n++;
	if (try(worker, s, now_ns))
		return;
	see_to_wakers(worker, now_ns);
	if (!s->flights || !gm_async_exec_waits(s))
		gm_run_queue_drop(worker, s);
}

void gm_dependency_leave(struct gm_worker *worker,
			 struct gm_worker_session *session)
{
	session->wait.on = false;
	if (!session->wait.listed)
		return;
	session->wait.listed = false;
	TAILQ_REMOVE(&worker->waiting.heads, session, waiting);
	worker->waiting.n--;
}

bool gm_dependency_rung(struct gm_worker *worker,
			struct gm_worker_session *session)
{
	return try(worker, session, gm_now_ns());
}

void gm_dependency_told(struct gm_worker *worker)
{
	struct gm_waiting *all = &worker->waiting;

	all->looks = all->n;
	all->told = true;
}

/* A wakeup caused a recheck of all heads, and none went on. */
static void slow_down(struct gm_waiting *all, uint64_t now_ns)
{
	all->told = false;
	all->arm_ns = now_ns + GM_WAIT_PACE_NS;
	at_the_latest(all, all->arm_ns);
}

void gm_dependency_look(struct gm_worker *worker)
{
	struct gm_waiting *all = &worker->waiting;
	uint64_t now_ns = gm_now_ns();

	see_to_wakers(worker, now_ns);
	if (all->looks == 0 && now_ns >= all->next_ns) {
		all->looks = all->n;
		all->next_ns = now_ns + GM_WAIT_LOOK_NS;
	}
	for (uint32_t i = 0; i < GM_WAIT_LOOKS && all->looks; i++) {
		struct gm_worker_session *s = TAILQ_FIRST(&all->heads);

		all->looks--;
		if (!s)
			break;
		TAILQ_REMOVE(&all->heads, s, waiting);
		TAILQ_INSERT_TAIL(&all->heads, s, waiting);
		if (try(worker, s, now_ns))
			all->told = false;
	}
	if (all->looks == 0 && all->told)
		slow_down(all, now_ns);
}

/* An eventfd that was requested may never arrive, and the worker may get no
 * other event.  Returns the time until the next request, under a second, or 0
 * if none is missing. */
static uint64_t until_asked(const struct gm_worker *w, uint64_t now_ns)
{
	uint64_t ns = w->waiting.asked_ns + GM_WAIT_ASK_NS - now_ns;

	if (!w->wakeups.owes && !lacks_own(w))
		return 0;
	return ns < GM_WAIT_ASK_NS ? ns : GM_WAIT_ASK_NS - 1;
}

bool gm_dependency_is_due(struct gm_worker *worker, uint64_t *ret_ns)
{
	struct gm_waiting *all = &worker->waiting;
	uint64_t now_ns;

	*ret_ns = 0;
	if (!all->n && !worker->wakeups.owes && !lacks_own(worker))
		return false;
	now_ns = gm_now_ns();
	see_to_wakers(worker, now_ns);
	if (!all->n) {
		*ret_ns = until_asked(worker, now_ns);
		return false;
	}
	if (all->looks || now_ns >= all->next_ns)
		return true;
	*ret_ns = all->next_ns - now_ns;
	return false;
}

bool gm_dependency_holds(struct gm_worker *worker)
{
	const struct gm_waiting *all = &worker->waiting;

	return all->n && gm_worker_drain_now(worker) < all->drain_ns;
}
