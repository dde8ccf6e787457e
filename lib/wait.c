/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Take completions from the rings of rows that have jobs in flight, and wait
 * for them by spinning, by futex or on a descriptor.
 *
 * A job's slot and its ticket share a place, position % depth, and both are
 * free again once the ticket's job has been given to the caller.  A completion
 * that the caller did not ask for yet (a scatter waits) keeps its ticket.  So
 * the session never holds more completions for gpumap_poll() than the credit.
 */

#include "lib/internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_MAX_NS UINT64_C(50000)
#define SPIN_MIN_NS UINT64_C(2000) /* the resolution of reading the clock */
/* polls of the rings for each reading of the clock */
#define SPIN_LOOKS     16
#define SPIN_LONG_EACH 64 /* every 64th wait: notices a peer that became fast */
#define POLLS_PER_LOOK 64 /* empty polls for each check of the heartbeat */

/* ---- take --------------------------------------------------------------- */

static void give(const struct gm_ticket *t, struct gpumap_done *ret_done)
{
	*ret_done = (struct gpumap_done){ .cookie = t->cookie,
					  .row = t->row,
					  .status = t->status };
}

void gm_session_keep(struct gpumap_session *session, struct gm_ticket *ticket,
		     int32_t status)
{
	ticket->status = status;
	ticket->state = GM_TICKET_DONE;
	ticket->next = NULL;
	*session->done_last = ticket;
	session->done_last = &ticket->next;
}

/* End one entry.  Returns 1 when *ret_done was filled in. */
static int settle(struct gpumap_session *s, struct gm_queue_pair *pair,
		  struct gm_ticket *t, int32_t status,
		  struct gpumap_done *ret_done)
{
	s->completed++;
	pair->live--;
	if (t->state == GM_TICKET_PART) {
		struct gm_ending *ending = (void *)(uintptr_t)t->cookie;

		t->state = GM_TICKET_FREE;
		ending->ended(ending, status);
		return 0;
	}
	if (t->state == GM_TICKET_JOB && ret_done == NULL) {
		gm_session_keep(s, t, status);
		return 0;
	}
	if (t->state == GM_TICKET_JOB) {
		t->status = status;
		give(t, ret_done);
		s->jobs--;
	} else if (t->state == GM_TICKET_TILE) {
		s->tiles[t->cookie].status = status;
		s->tiles_left--;
		ret_done = NULL;
	} else {
		if (t->state == GM_TICKET_BUFFER)
			gm_buffers_left(s, t->cookie);
		ret_done = NULL;
	}
	t->state = GM_TICKET_FREE;
	return ret_done != NULL;
}

/* End the second slot of an entry, and with it the entry.  Returns its ticket,
 * or NULL where the first slot has not ended. */
static struct gm_ticket *settle_second(struct gm_queue_pair *pair,
				       struct gm_ticket *t)
{
	uint32_t pos = t->position - 1;
	struct gm_ticket *first = &pair->tickets[pos & pair->out.mask];

	if (first->part != GM_TICKET_HALF)
		return NULL;
	pair->live--;
	t->state = GM_TICKET_FREE;
	first->part = GM_TICKET_WHOLE;
	return first;
}

/* Take completions of one-slot jobs in order, up to the first of another kind.
 * The fast path: almost all completions take it, and it reads nothing twice. */
static uint32_t reap_run(struct gpumap_session *s, struct gm_queue_pair *pair,
			 struct gpumap_done *ret_done, uint32_t n)
{
	uint32_t first = pair->oldest, got = 0;
	uint64_t words[GM_DONE_WORDS];

	while (got < n && got < pair->live &&
	       gm_ring_peek(&pair->in, GM_DONE_WORDS, got, words)) {
		uint32_t pos = first + got;
		struct gm_ticket *t = &pair->tickets[pos & pair->out.mask];
		int32_t status = gm_done_status(words);

		if (gm_done_position(words) != pos || t->position != pos ||
		    t->state != GM_TICKET_JOB || t->part != GM_TICKET_WHOLE ||
		    status > 0)
			break;
		t->status = status;
		give(t, &ret_done[got++]);
		t->state = GM_TICKET_FREE;
	}
	pair->oldest += got;
	pair->in.pos += got;
	pair->taken += got;
	pair->live -= got;
	s->completed += got;
	s->jobs -= got;
	return got;
}

/* The worker wrote an invalid completion.  The caller still receives those
 * before it. */
static uint32_t lied(struct gpumap_session *s, uint32_t got)
{
	s->broken = -EPROTO;
	return got;
}

/* Take the completions of one ring, up to an invalid one, which ends the
 * session.  Returns how many were stored. */
static uint32_t reap_pair(struct gpumap_session *s, struct gm_queue_pair *pair,
			  struct gpumap_done *ret_done, uint32_t n)
{
	uint32_t got = ret_done != NULL ? reap_run(s, pair, ret_done, n) : 0;
	uint64_t words[GM_DONE_WORDS];

	while (pair->live > 0 && (ret_done == NULL || got < n) &&
	       gm_ring_peek(&pair->in, GM_DONE_WORDS, 0, words)) {
		uint32_t pos = gm_done_position(words);
		int32_t status = gm_done_status(words);
		struct gm_ticket *t = &pair->tickets[pos & pair->out.mask];

		/* Invalid: the slot is not in flight, or has ended, or the
		 * status is none. */
		if (t->position != pos || t->state == GM_TICKET_FREE ||
		    t->state == GM_TICKET_DONE || t->part == GM_TICKET_HALF ||
		    status > 0)
			return lied(s, got);
		pair->in.pos++;
		pair->taken++;
		if (t->part == GM_TICKET_FIRST) {
			t->part = GM_TICKET_HALF;
			t->status = status;
			continue;
		}
		if (t->state == GM_TICKET_SECOND) {
			t = settle_second(pair, t);
			if (t == NULL)
				return lied(s, got);
			status = t->status;
		}
		got += (uint32_t)settle(s, pair, t, status,
					ret_done != NULL ? ret_done + got
							 : NULL);
	}
	return got;
}

static uint32_t reap_kept(struct gpumap_session *s,
			  struct gpumap_done *ret_done, uint32_t n)
{
	uint32_t got = 0;

	while (got < n && s->done_first != NULL) {
		struct gm_ticket *t = s->done_first;

		give(t, &ret_done[got++]);
		s->done_first = t->next;
		if (s->done_first == NULL)
			s->done_last = &s->done_first;
		t->state = GM_TICKET_FREE;
		s->jobs--;
	}
	return got;
}

int gm_session_reap(struct gpumap_session *session,
		    struct gpumap_done *ret_done, uint32_t n)
{
	struct gpumap_session *s = session;
	uint32_t got = ret_done != NULL ? reap_kept(s, ret_done, n) : 0;
	uint32_t visits = s->n_busy;

	while (visits-- > 0 && (ret_done == NULL || got < n)) {
		uint32_t turn = s->rotor < s->n_busy ? s->rotor : 0;
		struct gm_queue_pair *pair = s->busy[turn];

		got += reap_pair(s, pair,
				 ret_done != NULL ? ret_done + got : NULL,
				 n - got);
		if (s->broken != 0) {
			s->n_busy = 0;
			break;
		}
		if (pair->live == 0)
			s->busy[turn] = s->busy[--s->n_busy];
		else
			turn++;
		s->rotor = turn;
	}
	/* Collectives that have ended with these. */
	if (ret_done != NULL)
		got += reap_kept(s, ret_done + got, n - got);
	return got > 0 ? (int)got : s->broken;
}

/* The same, and the session's parts go on, which may end jobs themselves. */
static int reap_and_turn(struct gpumap_session *s, struct gpumap_done *ret_done,
			 uint32_t n)
{
	int ret = gm_session_reap(s, ret_done, n);

	gm_parts_turn(s);
	return ret == 0 ? (int)reap_kept(s, ret_done, n) : ret;
}

/* ---- the agent's death --------------------------------------------------- */

static void lose_pair(struct gpumap_session *s, struct gm_queue_pair *pair)
{
	/* From the oldest position that may be in flight to the newest. */
	for (uint32_t i = 0; i <= pair->out.mask; i++) {
		struct gm_ticket *t =
			&pair->tickets[(pair->out.pos + i) & pair->out.mask];

		if (t->state == GM_TICKET_SECOND) {
			pair->live--;
			t->state = GM_TICKET_FREE;
		} else if (t->state != GM_TICKET_FREE &&
			   t->state != GM_TICKET_DONE) {
			settle(s, pair, t,
			       t->part == GM_TICKET_HALF ? t->status
							 : -ECONNRESET,
			       NULL);
		}
	}
}

void gm_session_lose(struct gpumap_session *session)
{
	if (session->broken != 0)
		return;
	/* First take what has ended: it keeps its status. */
	gm_session_reap(session, NULL, 0);
	if (session->broken != 0)
		return;
	for (uint32_t i = 0; i < session->n_busy; i++)
		lose_pair(session, session->busy[i]);
	session->n_busy = 0;
	session->broken = -ECONNRESET;
}

void gm_session_look(struct gpumap_session *session)
{
	session->looked_ns = gm_now_ns();
	if (session->link.fd < 0 || gm_link_lost(&session->link))
		gm_session_lose(session);
}

/* A caller that only polls never sleeps, and so would never check the socket.
 * The map shows without a system call whether a check is needed. */
static void look_at_map(struct gpumap_session *s)
{
	const struct gpumap *map = s->map;

	if (gm_get(&map->map.header->epoch) != s->epoch ||
	    gm_get(&map->map.header->state) == GM_STATE_RETIRED ||
	    gm_health_map_age(map) >= GM_STALE_NS)
		gm_session_look(s);
}

/* ---- wait --------------------------------------------------------------- */

void gm_session_tell_cpu(struct gpumap_session *session)
{
	uint32_t cpu = (uint32_t)sched_getcpu() + 1;

	if (cpu != session->cpu) {
		session->cpu = cpu;
		gm_put(&session->client->cpu, cpu);
	}
}

/* End what gpumap_session_arm() began: no worker writes to the descriptor.  For
 * calls that take completions or sleep.  Others leave the session armed, so
 * that the caller may make them before it sleeps. */
static void disarm(struct gpumap_session *s)
{
	if (!s->armed)
		return;
	s->armed = false;
	gm_ring_unpark(&s->client->parked, &s->parked);
	gm_put(&s->client->by_fd, 0);
}

static bool any_ready(const struct gpumap_session *s)
{
	for (uint32_t i = 0; i < s->n_busy; i++)
		if (gm_ring_ready(&s->busy[i]->in, GM_DONE_WORDS))
			return true;
	return false;
}

/* Recheck, before sleeping, every ring that may wake this thread. */
static bool any_ready_parked(const struct gpumap_session *s)
{
	for (uint32_t i = 0; i < s->n_busy; i++)
		if (gm_ring_recheck(&s->busy[i]->in, GM_DONE_WORDS))
			return true;
	return false;
}

/* Does any of the awaited workers run on another CPU than this thread?  The
 * number of CPUs that this process may use does not matter: one is enough to
 * watch another. */
static bool worth_spinning(const struct gpumap_session *s)
{
	for (uint32_t i = 0; i < s->n_busy; i++)
		if (gm_get(&s->busy[i]->queue->cpu) != s->cpu)
			return true;
	return false;
}

static uint64_t spin_budget(struct gpumap_session *s)
{
	uint64_t budget = 2 * s->gap_ns;

	if (s->waits++ % SPIN_LONG_EACH == 0 || budget > SPIN_MAX_NS)
		return SPIN_MAX_NS;
	return budget > SPIN_MIN_NS ? budget : SPIN_MIN_NS;
}

/* Returns whether a ring became ready.  The gap is known, and counted, only
 * then: an average fed with the budget's own length would never shrink. */
static bool spin(struct gpumap_session *s, uint64_t deadline_ns)
{
	uint64_t start, now, limit;

	if (!worth_spinning(s))
		return false;
	start = now = gm_now_ns();
	limit = start + spin_budget(s);
	if (deadline_ns < limit)
		limit = deadline_ns;
	for (uint32_t turn = 1;; turn++) {
		if (any_ready(s)) {
			s->gap_ns += (now - start) / 8;
			s->gap_ns -= s->gap_ns / 8;
			return true;
		}
		if (turn % SPIN_LOOKS == 0) {
			now = gm_now_ns();
			if (now >= limit)
				return false;
		}
		gm_pause();
	}
}

int gm_session_idle(struct gpumap_session *session, uint64_t deadline_ns,
		    bool first)
{
	struct gm_client *client = session->client;
	struct timespec timeout = { .tv_sec = 0 };
	uint64_t now, nap = GM_NAP_NS;
	uint32_t seen;

	disarm(session);
	if (first && spin(session, deadline_ns))
		return 0;
	now = gm_now_ns();
	if (now >= deadline_ns)
		return -ETIME;
	if (now - session->looked_ns >= GM_NAP_NS) {
		gm_session_look(session);
		return 0;
	}
	if (deadline_ns - now < nap)
		nap = deadline_ns - now;
	seen = gm_get(&client->wake);
	gm_ring_park(&client->parked, &session->parked);
	if (!any_ready_parked(session)) {
		session->parks++;
		timeout.tv_nsec = (long)nap;
		/* Woken, timed out, raced, interrupted: the caller polls
		 * again. */
		syscall(SYS_futex, &client->wake, FUTEX_WAIT, seen, &timeout,
			NULL, 0);
	}
	gm_ring_unpark(&client->parked, &session->parked);
	return 0;
}

static int refuse_room(const struct gpumap_session *s)
{
	return gm_refuse(s->map, -EINVAL,
			 "there is no room for completions: n is at least 1");
}

/* The result of taking completions: an error has no reason but itself. */
static int ended(const struct gpumap_session *s, int ret)
{
	return ret < 0 ? gm_refuse_plain(s->map, ret) : ret;
}

int gpumap_poll(struct gpumap_session *session, struct gpumap_done *ret_done,
		uint32_t n)
{
	int ret;

	if (!gm_guard_mine(&session->mine))
		return gm_refuse_plain(session->map, -EOWNERDEAD);
	if (n == 0)
		return refuse_room(session);
	gm_session_tell_cpu(session);
	disarm(session);
	ret = reap_and_turn(session, ret_done, n);
	if (ret != 0)
		return ended(session, ret);
	if (session->n_busy > 0 &&
	    ++session->idle_polls % POLLS_PER_LOOK == 0) {
		look_at_map(session);
		ret = gm_session_reap(session, ret_done, n);
	}
	return ended(session, ret);
}

int gpumap_wait(struct gpumap_session *session, struct gpumap_done *ret_done,
		uint32_t n, uint64_t deadline_ns)
{
	bool first = true;
	int ret;

	if (!gm_guard_mine(&session->mine))
		return gm_refuse_plain(session->map, -EOWNERDEAD);
	if (n == 0)
		return refuse_room(session);
	gm_session_tell_cpu(session);
	disarm(session);
	for (;;) {
		ret = reap_and_turn(session, ret_done, n);
		if (ret != 0)
			return ended(session, ret);
		if (session->jobs == 0)
			return ended(session, -ENODATA);
		ret = gm_session_idle(session, deadline_ns, first);
		if (ret != 0)
			return ended(session, ret);
		first = false;
	}
}

int gm_tiles_wait(struct gpumap_session *session, uint64_t deadline_ns)
{
	bool first = true;

	while (session->tiles_left > 0) {
		int ret;

		gm_session_reap(session, NULL, 0);
		if (session->tiles_left == 0)
			break;
		if (session->broken != 0)
			return session->broken;
		ret = gm_session_idle(session, deadline_ns, first);
		if (ret != 0)
			return ret;
		first = false;
	}
	return 0;
}

bool gm_tiles_abandon(struct gm_queue_pair *pair)
{
	bool any = false;

	for (uint32_t i = 0; i <= pair->out.mask; i++) {
		struct gm_ticket *t = &pair->tickets[i];

		if (t->state != GM_TICKET_TILE)
			continue;
		t->state = GM_TICKET_STRAY;
		any = true;
	}
	return any;
}

/* ---- a descriptor to sleep on ------------------------------------------- */

int gpumap_session_arm(struct gpumap_session *session)
{
	struct gpumap_session *s = session;
	char bytes[64];
	ssize_t got;
	bool ready;

	if (!gm_guard_mine(&s->mine))
		return gm_refuse_plain(s->map, -EOWNERDEAD);
	if (s->wake_fd < 0)
		return gm_refuse(s->map, -ENOTSUP,
				 "the session has no descriptor: open it with "
				 "GPUMAP_SESSION_POLLABLE");
	gm_session_tell_cpu(s);
	disarm(s);
	/* Drain the bytes of earlier wakeups.  The workers and the agent hold
	 * the other end. */
	do
		got = recv(s->wake_fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	while (got > 0 || (got < 0 && errno == EINTR));
	gm_session_look(s);
	if (s->done_first != NULL)
		return 1;
	if (s->broken != 0)
		return ended(s, s->broken);
	gm_put(&s->client->by_fd, 1);
	gm_ring_park(&s->client->parked, &s->parked);
	s->armed = true;
	ready = any_ready_parked(s);
	if (ready)
		disarm(s);
	return ready;
}
