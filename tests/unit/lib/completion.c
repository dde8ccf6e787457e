/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Completions as a worker may write them, in whatever order and however false:
 * the peer holds all rows, and the test writes into its ring.
 */

#include "lib/internal.h"
#include "tests/support/peer/peer_session.h"

#define DEPTH 16u

static struct gpumap_session *session;
static struct gm_queue_pair *pair;
static uint32_t n_posted; /* not taken by the client yet, since begin() */
static uint32_t base;     /* position of the first job */

/* The row's first position becomes @first: none of its slots was used yet. */
static void begin(uint32_t first)
{
	session = open_session(DEPTH, 0);
	EQ(gm_session_pair(session, 0, &pair), 0);
	pair->out.pos = pair->in.pos = pair->oldest = base = first;
	pair->submitted = pair->taken = first;
	n_posted = 0;
}

static void finish(void)
{
	gpumap_session_close(session);
}

/* Jobs with these cookies and those that follow, of @deadline_ns each. */
static int submit_late(uint64_t cookie, uint32_t n, uint64_t deadline_ns)
{
	struct gpumap_job jobs[DEPTH];

	for (uint32_t i = 0; i < n; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_NOP,
					       .cookie = cookie + i,
					       .deadline_ns = deadline_ns };
	return gpumap_submit(session, 0, jobs, n);
}

static int submit(uint64_t cookie, uint32_t n)
{
	return submit_late(cookie, n, 0);
}

/* Complete the entry at the @nth place with @status. */
static void post(uint32_t nth, int32_t status)
{
	struct gm_ring worker = pair->in;
	uint64_t words[GM_DONE_WORDS];

	worker.pos = base + n_posted++;
	gm_done_pack(base + nth, status, words);
	gm_ring_put(&worker, GM_DONE_WORDS, 0, words);
}

/* Take them all: the cookies of those that came, as digits. */
static uint64_t take(uint32_t n)
{
	struct gpumap_done done[DEPTH];
	int got = gpumap_poll(session, done, n);
	uint64_t digits = 0;

	for (int i = 0; i < got; i++)
		digits = digits * 10 + done[i].cookie;
	return got < 0 ? (uint64_t)got : digits;
}

static bool is_at_rest(void)
{
	struct gpumap_session_counts counts = { .size = sizeof(counts) };

	EQ(gpumap_session_counts(session, &counts), 0);
	return pair->live == 0 && session->n_busy == 0 && session->jobs == 0 &&
	       counts.submitted == counts.completed;
}

/* ---- any order ----------------------------------------------------------- */

static void whoever_ends_first_is_given_first(void)
{
	begin(0);
	EQ(submit(1, 5), 0);
	for (uint32_t i = 0; i < 5; i++)
		post((const uint32_t[]){ 0, 1, 4, 2, 3 }[i], 0);
	EQ(take(DEPTH), 12534);
	OK(is_at_rest());
	EQ(submit(1, DEPTH), 0);
	EQ(submit(1, 1), -EAGAIN);
	finish();
}

/* The first in order are taken as a run, without a look at the others. */
static void a_run_is_taken_at_once(void)
{
	begin(0);
	EQ(submit(1, 6), 0);
	for (uint32_t i = 0; i < 4; i++)
		post(i, 0);
	post(5, 0);
	EQ(take(2), 12);
	EQ(pair->oldest, 2);
	EQ(take(DEPTH), 346);
	EQ(pair->oldest, 4);
	post(4, 0);
	EQ(take(DEPTH), 5);
	OK(is_at_rest());
	finish();
}

/* A free slot behind a used one does not count. */
static void credit_ends_at_the_oldest(void)
{
	begin(0);
	EQ(submit(1, 4), 0);
	post(0, 0);
	post(1, 0);
	post(3, 0);
	EQ(take(2), 12);
	EQ(take(DEPTH), 4);
	EQ(submit(1, DEPTH - 1), -EAGAIN);
	EQ(submit(5, DEPTH - 2), 0);
	EQ(submit(1, 1), -EAGAIN);
	post(2, -EIO);
	EQ(take(DEPTH), 3);
	EQ(submit(1, 3), -EAGAIN);
	EQ(submit(1, 2), 0);
	EQ(submit(1, 1), -EAGAIN);
	finish();
}

/* A caller who takes a few has the others later, in their order. */
static void as_many_as_are_asked_for(void)
{
	begin(0);
	EQ(submit(1, 6), 0);
	for (uint32_t i = 0; i < 6; i++)
		post(i, 0);
	EQ(take(1), 1);
	EQ(take(4), 2345);
	EQ(take(4), 6);
	OK(is_at_rest());
	EQ(take(4), 0);
	finish();
}

/* Positions and values of time go past 32 bits. */
static void positions_go_round(void)
{
	uint64_t wrong = 0;

	begin(UINT32_MAX - 20);
	for (uint32_t round = 0; round < 12; round++) {
		bool backwards = round % 2;

		wrong += submit(1, 4) != 0;
		for (uint32_t i = 0; i < 4; i++)
			post(4 * round + (backwards ? 3 - i : i), 0);
		wrong += take(DEPTH) != (backwards ? 4321 : 1234);
	}
	EQ(wrong, 0);
	EQ(pair->out.pos, 27);
	EQ(pair->submitted, (UINT64_C(1) << 32) + 27);
	OK(is_at_rest());
	EQ(submit(1, DEPTH), 0);
	finish();
}

/* ---- kept ---------------------------------------------------------------- */

/* Taken by one who did not want them, twice. */
static void what_is_kept_is_given_later(void)
{
	begin(0);
	for (uint32_t round = 0; round < 3; round++) {
		EQ(submit(1, 3), 0);
		post(3 * round + 1, 0);
		EQ(gm_session_reap(session, NULL, 0), 0);
		post(3 * round, 0);
		post(3 * round + 2, 0);
		EQ(gm_session_reap(session, NULL, 0), 0);
		EQ(submit(1, DEPTH - 2), -EAGAIN);
		EQ(take(DEPTH), 213);
		OK(is_at_rest());
	}
	finish();
}

static void a_lost_session_gives_what_was_kept(void)
{
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	struct gpumap_done done[DEPTH];

	begin(0);
	EQ(submit(1, 3), 0);
	post(0, 0);
	EQ(gm_session_reap(session, NULL, 0), 0);
	gm_session_lose(session);
	EQ(gpumap_poll(session, done, DEPTH), 3);
	EQ(done[0].cookie, 1);
	EQ(done[0].status, 0);
	EQ(done[1].status, -ECONNRESET);
	EQ(done[2].status, -ECONNRESET);
	EQ(gpumap_session_counts(session, &counts), 0);
	EQ(counts.completed, 3);
	EQ(take(DEPTH), (uint64_t)-ECONNRESET);
	finish();
}

/* ---- two slots ----------------------------------------------------------- */

static void both_slots_are_free_again(void)
{
	begin(0);
	EQ(submit_late(1, 3, 1), 0);
	EQ(submit(4, 1), 0);
	post(6, 0); /* the one behind them */
	post(2, -ETIME);
	EQ(take(DEPTH), 4);
	EQ(pair->live, 6); /* a half keeps its slot */
	post(3, 0);
	post(0, 0);
	post(4, 0);
	post(1, -EIO); /* which counts for nothing */
	EQ(take(DEPTH), 21);
	post(5, 0);
	EQ(take(DEPTH), 3);
	OK(is_at_rest());
	EQ(submit(1, DEPTH), 0);
	finish();
}

/* ---- cancelled ----------------------------------------------------------- */

/* A mark is gone once all that it was for has been taken, and not before. */
static void a_mark_goes_with_the_last(void)
{
	begin(0);
	EQ(submit(1, 2), 0);
	EQ(gpumap_cancel(session, 0), 0);
	EQ(gm_get(&pair->timeline->cancel), gm_cancel_make(2));
	post(0, -ECANCELED);
	EQ(take(DEPTH), 1);
	EQ(submit(3, 1), 0);
	EQ(gm_get(&pair->timeline->cancel), gm_cancel_make(2));
	post(1, -ECANCELED);
	EQ(take(DEPTH), 2);
	EQ(submit(4, 1), 0);
	EQ(gm_get(&pair->timeline->cancel), 0);
	post(2, 0);
	post(3, 0);
	EQ(take(DEPTH), 34);
	/* Without jobs there is no completion. */
	EQ(gpumap_cancel(session, 0), 0);
	EQ(gm_get(&pair->timeline->cancel), 0);
	finish();
}

static bool is_marked(uint32_t pos)
{
	gm_a64 *slot = gm_ring_slot(&pair->out, pos, GM_ENTRY_WORDS);

	return gm_entry_is_cancelled(gm_get(slot));
}

/* Those in flight that have the cookie are marked, and nothing else of them has
 * changed. */
static void one_cookie_is_marked(void)
{
	uint64_t before[GM_ENTRY_WORDS], after[GM_ENTRY_WORDS];
	struct gm_ring worker;

	begin(0);
	EQ(gpumap_cancel_job(session, 0, 1), 0);
	EQ(submit(1, 3), 0);
	EQ(submit_late(4, 1, 1), 0);
	EQ(submit(2, 1), 0);
	post(0, 0);
	EQ(take(DEPTH), 1);
	worker = pair->out;
	worker.pos = 1;
	EQ(gm_ring_peek(&worker, GM_ENTRY_WORDS, 0, before), 1);
	EQ(gpumap_cancel_job(session, 0, 1), 0); /* it has been taken */
	EQ(gpumap_cancel_job(session, 0, 2), 2);
	EQ(gm_ring_peek(&worker, GM_ENTRY_WORDS, 0, after), 1);
	OK(!is_marked(0) && is_marked(1) && !is_marked(2) && !is_marked(3) &&
	   !is_marked(4) && is_marked(5));
	EQ(after[0] - before[0], (uint64_t)GM_ENTRY_CANCELLED << 40);
	EQ(memcmp(before + 1, after + 1, sizeof(before) - sizeof(*before)), 0);
	/* Half of it has ended: its first slot is over. */
	post(3, 0);
	EQ(take(DEPTH), 0);
	EQ(gpumap_cancel_job(session, 0, 4), 0);
	OK(!is_marked(3) && !is_marked(4));
	EQ(gm_get(&pair->timeline->cancel), 0);
	EQ(gpumap_cancel_job(session, 99, 1), -ENODEV);
	/* One that has ended waits to be taken. */
	post(2, 0);
	gm_session_reap(session, NULL, 0);
	EQ(gpumap_cancel_job(session, 0, 3), 0);
	/* The next in its place is another. */
	post(4, 0);
	post(1, -ECANCELED);
	post(5, -ECANCELED);
	EQ(take(DEPTH), 3422);
	EQ(submit(1, DEPTH), 0);
	OK(!is_marked(DEPTH + 1));
	finish();
}

/* ---- waited for ---------------------------------------------------------- */

/* How many waits a worker of row 1 is told of. */
static uint32_t waits_of(const struct gpumap_job *job)
{
	uint64_t words[GM_ENTRY_WORDS] = { 0 };
	struct gm_ring worker;
	struct gm_more more;

	EQ(gpumap_submit(session, 1, job, 1), 0);
	worker = session->pairs[1]->out;
	worker.pos--;
	EQ(gm_ring_peek(&worker, GM_ENTRY_WORDS, 0, words), 1);
	gm_more_unpack(words, &more);
	return more.n_waits;
}

/* Nor where what was submitted before is in flight. */
static void what_was_taken_is_not_waited_for(void)
{
	struct gpumap_time time;
	struct gpumap_job job = { .op = GPUMAP_OP_NOP,
				  .waits = &time,
				  .n_waits = 1 };

	begin(0);
	EQ(submit(1, 2), 0);
	EQ(gpumap_submitted(session, 0, &time), 0);
	EQ(waits_of(&job), 1);
	post(1, 0);
	EQ(take(DEPTH), 2);
	EQ(waits_of(&job), 0);
	finish();
}

/* ---- lies ---------------------------------------------------------------- */

static void is_a_lie(uint64_t before)
{
	EQ(take(DEPTH), before != 0 ? before : (uint64_t)-EPROTO);
	EQ(take(DEPTH), (uint64_t)-EPROTO);
	EQ(submit(1, 1), -EPROTO);
	finish();
}

static void lies_end_the_session(void)
{
	begin(0);
	EQ(submit(1, 2), 0);
	post(0, 0);
	post(0, 0); /* again */
	is_a_lie(1);

	begin(0);
	EQ(submit(1, 2), 0);
	post(DEPTH, 0); /* of that place, once round */
	is_a_lie(0);

	begin(0);
	EQ(submit(1, 2), 0);
	post(1, 0);
	post(DEPTH, 0);
	is_a_lie(2);

	begin(0);
	EQ(submit(1, 3), 0);
	post(1, 1);
	is_a_lie(0);

	begin(0);
	EQ(submit_late(1, 2, 1), 0);
	post(0, 0);
	post(0, 0); /* the first half, instead of the second */
	is_a_lie(0);

	begin(0);
	EQ(submit_late(1, 2, 1), 0);
	post(3, 0); /* the second half without the first */
	is_a_lie(0);

	/* Once more what has been kept. */
	begin(0);
	EQ(submit(1, 2), 0);
	post(0, 0);
	EQ(gm_session_reap(session, NULL, 0), 0);
	post(0, -EIO);
	EQ(gm_session_reap(session, NULL, 0), -EPROTO);
	is_a_lie(1);
}

TAP_CASE()
{
	if (!client_begin("reap"))
		return tap_done();
	gm_put(&peer.hold, UINT32_MAX);
	whoever_ends_first_is_given_first();
	a_run_is_taken_at_once();
	credit_ends_at_the_oldest();
	as_many_as_are_asked_for();
	positions_go_round();
	what_is_kept_is_given_later();
	a_lost_session_gives_what_was_kept();
	both_slots_are_free_again();
	a_mark_goes_with_the_last();
	one_cookie_is_marked();
	what_was_taken_is_not_waited_for();
	lies_end_the_session();
	return client_end();
}
