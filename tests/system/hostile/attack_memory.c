/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Attacks through the memory and the descriptors of a session. */

#include "tests/system/hostile/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpumap.h"

#define DEPTH 64u
#define RANGE (UINT64_C(1) << 20)

/* ---- scribbling -------------------------------------------------------- */

/* Change any word of the client's page, of the row's queue pair, or of the
 * arena. */
static gm_a64 *any_word(struct hostile *h, const struct raw *c,
			const struct raw_queue *q)
{
	switch (hostile_below(h, 4)) {
	case 0:
		return (gm_a64 *)(void *)c->page +
		       hostile_below(h, sizeof(*c->page) / 8);
	case 1:
		return (gm_a64 *)(void *)q->queue +
		       hostile_below(h, gm_queue_bytes(DEPTH) / 8);
	case 2:
		return (gm_a64 *)(void *)c->page +
		       hostile_below(h, c->queues_bytes / 8);
	default:
		return (gm_a64 *)(void *)c->memory +
		       hostile_below(h, c->arena_bytes / 8);
	}
}

/* Post an entry that the worker will read, with random contents. */
static void any_entry(struct hostile *h, struct raw_queue *q)
{
	uint32_t ahead = (uint32_t)hostile_below(h, 4);
	gm_a64 *slot = gm_ring_slot(&q->entries, q->entries.pos + ahead,
				    GM_ENTRY_WORDS);
	uint32_t what = (uint32_t)hostile_below(h, GPUMAP_OP_AXPY + 1);

	if (hostile_below(h, 16) == 0)
		what = (uint32_t)hostile_random(h);
	for (uint32_t i = 1; i < GM_ENTRY_WORDS; i++)
		gm_put(&slot[i],
		       hostile_below(h, 2) ? hostile_random(h) : i == 1);
	gm_put(&slot[0], gm_ring_first(q->entries.pos + ahead, what));
	if (ahead == 0)
		q->entries.pos++;
}

static void scribbles(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q;

	while ((q = hostile_session(h, &c, DEPTH, GPUMAP_SESSION_POLLABLE,
				    RANGE)) != NULL) {
		while (hostile_goes_on(h) && !raw_is_over(&c)) {
			for (int i = 0; i < 256; i++)
				gm_put(any_word(h, &c, q), hostile_random(h));
			any_entry(h, q);
			raw_ring(q);
			hostile_round(h);
		}
		if (raw_is_over(&c))
			h->score->ended++;
		raw_close(&c);
	}
}

/* ---- holes ------------------------------------------------------------- */

struct puncher {
	struct hostile hostile;
	const struct raw *c;
};

static void punch(void *arg)
{
	struct puncher *p = arg;
	struct hostile *h = &p->hostile;
	bool in_arena = hostile_below(h, 4) != 0;
	uint64_t size = in_arena ? p->c->arena_bytes : p->c->queues_bytes;
	uint64_t at = hostile_below(h, size);
	uint64_t bytes = 1 + hostile_below(h, size - at);

	/* Half of the holes outside the arena are the first page, which random
	 * ranges would seldom hit. */
	if (!in_arena && hostile_below(h, 2)) {
		at = 0;
		bytes = GM_PAGE;
	}
	if (fallocate(in_arena ? p->c->arena : p->c->queues,
		      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		      (off_t)bytes) != 0)
		hostile_lapse(h, "no hole could be punched");
}

static void fill_and_copy(const struct raw *c, struct raw_queue *q)
{
	struct gm_entry batch[2] = { raw_entry(q, GPUMAP_OP_FILL),
				     raw_entry(q, GPUMAP_OP_COPY) };

	for (int i = 0; i < 2; i++) {
		batch[i].incarnation =
			1; /* the shared word itself may be a hole */
		batch[i].n = c->arena_bytes / 2;
	}
	batch[1].dst = c->arena_bytes / 2;
	raw_post(q, batch, 2);
}

static void holes(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q;

	while ((q = hostile_session(h, &c, DEPTH, 0, 8 * RANGE)) != NULL) {
		struct puncher p = { *h, &c };
		struct hostile_thread *thread = hostile_beside(punch, &p);
		uint64_t next = 0;

		h->random = hostile_random(h);
		while (hostile_goes_on(h) && !raw_is_over(&c)) {
			hostile_take_all(q);
			/* Entries and completions fall into holes.  After a
			 * while neither side knows the credit. */
			if (hostile_credit(q) >= 2 && raw_now() > next) {
				fill_and_copy(&c, q);
				next = raw_now() + 500000;
			}
			raw_ring(q);
			raw_nap(20000);
			hostile_round(h);
		}
		hostile_stop(thread);
		raw_close(&c);
	}
}

/* ---- descriptors ------------------------------------------------------- */

static void must_fail(struct hostile *h, int ret, const char *what)
{
	if (ret >= 0)
		hostile_lapse(h, "%s was allowed", what);
}

/* Set these flags, such as blocking where the other side must never block, and
 * ask for a signal at every event. */
static void set_flags(int fd, int flags)
{
	if (fd < 0)
		return;
	fcntl(fd, F_SETFL, flags);
	fcntl(fd, F_SETSIG, SIGURG); /* SIGURG is ignored */
	fcntl(fd, F_SETOWN, getpid());
}

static void try_to_resize(struct hostile *h, const struct raw *c)
{
	must_fail(h, ftruncate(c->queues, 0), "shrinking the queues");
	must_fail(h, ftruncate(c->arena, GM_PAGE), "shrinking the arena");
	must_fail(h, ftruncate(c->arena, (off_t)c->arena_bytes * 2),
		  "growing the arena");
	must_fail(h, fcntl(c->queues, F_ADD_SEALS, F_SEAL_WRITE),
		  "sealing the queues");
	must_fail(h, fcntl(c->arena, F_ADD_SEALS, F_SEAL_FUTURE_WRITE),
		  "sealing the arena");
	must_fail(h, fallocate(c->arena, 0, (off_t)c->arena_bytes, GM_PAGE),
		  "allocating behind the arena");
	must_fail(h,
		  pwrite(c->arena, "", 1, (off_t)c->arena_bytes) == 1 ? 0 : -1,
		  "writing behind the arena");
}

/* Fill the eventfd to its limit for a moment, and empty it before its reader
 * notices. */
static void fill_and_drain(const struct raw_queue *q)
{
	const uint64_t most = UINT64_MAX - 1;
	uint64_t count;

	fcntl(q->doorbell, F_SETFL, O_NONBLOCK);
	while (write(q->doorbell, &most, sizeof(most)) < 0 &&
	       read(q->doorbell, &count, sizeof(count)) > 0)
		;
	while (read(q->doorbell, &count, sizeof(count)) > 0)
		;
}

static void descriptors(struct hostile *h)
{
	static const int flags[] = { 0, O_NONBLOCK, O_APPEND | O_ASYNC,
				     O_DIRECT | O_NOATIME };
	struct raw c;
	struct raw_queue *q =
		hostile_session(h, &c, DEPTH, GPUMAP_SESSION_POLLABLE, RANGE);

	while (q && hostile_goes_on(h)) {
		struct gm_entry nop = raw_entry(q, GPUMAP_OP_NOP);
		int flag = flags[hostile_below(h, 4)];
		int32_t status;

		fill_and_drain(q);
		set_flags(q->doorbell, flag);
		set_flags(c.wake, flag);
		set_flags(c.queues, flag);
		set_flags(c.arena, flag);
		fchmod(c.queues, 0);
		flock(c.arena, LOCK_EX | LOCK_NB);
		try_to_resize(h, &c);
		status = raw_do(&c, q, &nop);
		if (status != 0)
			hostile_lapse(h, "a nop ended with %d", status);
		hostile_round(h);
	}
	raw_close(&c);
}

/* ---- doorbells --------------------------------------------------------- */

static void ring_many(void *arg)
{
	for (int i = 0; i < 256; i++)
		raw_ring(arg);
}

static void keep_from_filling(void *arg)
{
	const struct raw_queue *q = arg;
	uint64_t count;

	if (read(q->doorbell, &count, sizeof(count)) < 0)
		raw_nap(1000);
}

static void bells_for_nothing(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q = hostile_session(h, &c, DEPTH, 0, RANGE);
	struct hostile_thread *thread;

	if (!q)
		return;
	thread = hostile_beside(keep_from_filling, q);
	while (hostile_goes_on(h)) {
		ring_many(q);
		hostile_round(h);
	}
	hostile_stop(thread);
	/* The worker must still serve this session. */
	{
		struct gm_entry nop = raw_entry(q, GPUMAP_OP_NOP);
		int32_t status = raw_do(&c, q, &nop);

		if (status != 0)
			hostile_lapse(h, "a nop ended with %d", status);
	}
	raw_close(&c);
}

/* Ring as often, beside work, so that no ring is for nothing. */
static void bells_and_work(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q = hostile_session(h, &c, DEPTH, 0, RANGE);
	struct hostile_thread *thread;

	if (!q)
		return;
	thread = hostile_beside(ring_many, q);
	while (hostile_goes_on(h)) {
		hostile_take_all(q);
		if (hostile_credit(q) >= 2)
			fill_and_copy(&c, q);
		raw_nap(1000);
		hostile_round(h);
	}
	hostile_stop(thread);
	raw_close(&c);
}

/* ---- wakes ------------------------------------------------------------- */

static void never_the_same_sleep(void *arg)
{
	struct raw *c = arg;

	/* The word stays odd and changes each time, so each change asks for a
	 * wakeup of its own. */
	for (int i = 0; i < 4096; i++)
		gm_put(&c->page->parked, gm_get(&c->page->parked) + 2);
}

/* A pollable client that goes to sleep at every moment and never drains its
 * socket, or fills it from its own end, or shuts it down. */
static void wakes(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q;

	while ((q = hostile_session(h, &c, DEPTH, GPUMAP_SESSION_POLLABLE,
				    RANGE)) != NULL) {
		uint64_t until = raw_now() + 20000000;
		struct hostile_thread *thread;

		gm_put(&c.page->parked, 1);
		gm_put(&c.page->by_fd, 1);
		fcntl(c.wake, F_SETFL, 0);
		if (hostile_below(h, 2))
			shutdown(c.wake, (int)hostile_below(h, 3));
		thread = hostile_beside(never_the_same_sleep, &c);
		while (hostile_goes_on(h) && raw_now() < until) {
			struct gm_entry nop = raw_entry(q, GPUMAP_OP_NOP);

			hostile_take_all(q);
			if (hostile_credit(q))
				raw_post(q, &nop, 1);
			send(c.wake, &until, sizeof(until),
			     MSG_DONTWAIT | MSG_NOSIGNAL);
			hostile_round(h);
		}
		hostile_stop(thread);
		if (raw_is_over(&c) && hostile_goes_on(h))
			hostile_lapse(h, "being woken ended the session");
		raw_close(&c);
	}
}

const struct hostile_attack hostile_memory[] = {
	{ "scribbles", scribbles, 1 },
	{ "holes", holes, 2 },
	{ "descriptors", descriptors, 1 },
	{ "bells for nothing", bells_for_nothing, 2 },
	{ "bells and work", bells_and_work, 2 },
	{ "wakes", wakes, 2 },
	{ NULL, NULL, 0 },
};
