/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* turn: how much of a session's work one turn takes, and how long jobs are
 * cut. */

#include "tests/support/worker/quantum_rig.h"
#include "tests/support/tap.h"

static void long_jobs_go_in_slices(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[2];
	uint32_t turns = 0;

	hand_open(&c, 2, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	e[0] = hand_copy(&c, 32 * MIB, 0, 10 * MIB + 5);
	e[1] = hand_nop(&c);
	hand_submit(&c, e, 2);
	for (; gm_turn_due(s); turns++)
		fast_turn(s, &k);
	EQ(k.elements, 10 * MIB + 5);
	EQ(k.largest, GM_TURN_BYTES);
	OK(!k.gap);
	EQ(k.runs, 11);
	EQ(turns, 11);
	EQ(hand_n_done(&c), 2);
	stop(&c, s);
}

/* Larger than a turn without a slice, or smaller. */
static void a_device_may_say_how_long_a_slice_is(void)
{
	static const uint64_t slices[] = { 64 * KIB, 4 * MIB };

	for (uint32_t i = 0; i < 2; i++) {
		struct counting k = { .dev = { .backend = &counting_backend,
					       .slice_bytes = slices[i] } };
		struct hand_client c;
		struct gm_worker_session *s;
		struct gm_entry e;

		hand_open(&c, 2, 0, ROW, 16, 64 * MIB);
		s = serve(&c);
		e = hand_copy(&c, 32 * MIB, 0, 8 * MIB + 1);
		hand_submit(&c, &e, 1);
		while (gm_turn_due(s)) {
			s->share = slices[i];
			gm_quantum_serve(s, &k.dev);
		}
		EQ(k.elements, 8 * MIB + 1);
		EQ(k.largest, slices[i]);
		OK(!k.gap);
		EQ(k.runs, 8 * MIB / slices[i] + 1);
		/* No session is faster than the device allows. */
		EQ(gm_quantum_share(slices[i], slices[i], 1, slices[i]),
		   slices[i]);
		stop(&c, s);
	}
}

/* A session that gets all of the device's rate has not been slow. */
static void small_slices_cost_what_they_are(void)
{
	struct counting k = { .dev = { .backend = &counting_backend,
				       .slice_bytes = 64 * KIB } };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e;
	int64_t before;

	hand_open(&c, 2, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	e = hand_copy(&c, 32 * MIB, 0, MIB);
	hand_submit(&c, &e, 1);
	s->share = 64 * KIB;
	before = s->deficit.bytes;
	gm_quantum_serve(s, &k.dev);
	EQ(before - s->deficit.bytes, 64 * KIB);
	s->share = 16 * KIB;
	before = s->deficit.bytes;
	gm_quantum_serve(s, &k.dev);
	EQ(before - s->deficit.bytes, 64 * KIB); /* four times as slow */
	while (gm_turn_due(s))
		fast_turn(s, &k);
	stop(&c, s);
}

static void nobody_waits_for_the_long_job_behind(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct gm_journal_state state;
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[4];

	hand_open(&c, 3, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	e[0] = hand_nop(&c);
	e[1] = hand_copy(&c, MIB, 0, 4 * KIB);
	e[2] = hand_copy(&c, 32 * MIB, 0, 3 * MIB / 2);
	e[3] = hand_nop(&c);
	hand_submit(&c, e, 4);
	k.seen = &c;
	EQ(fast_turn(s, &k), 2);
	EQ(k.n_seen, 2); /* when the long one's first slice began */

	/* Between the turns it is owed, and the journal knows. */
	state = gm_journal_read(s->owed, c.depth);
	EQ(state.entry, 3);
	EQ(state.done, 2);
	EQ(fast_turn(s, &k), 2);
	while (gm_turn_due(s))
		fast_turn(s, &k);
	EQ(hand_n_done(&c), 4);
	stop(&c, s);
}

static void turns_have_a_budget(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[64];

	hand_open(&c, 4, 0, ROW, 64, 64 * MIB);
	s = serve(&c);
	for (uint32_t i = 0; i < 64; i++)
		e[i] = hand_copy(&c, 32 * MIB, 0, 64 * KIB);
	hand_submit(&c, e, 64);
	EQ(fast_turn(s, &k), 16);
	EQ(k.elements, GM_TURN_BYTES);
	EQ(fast_turn(s, &k), 16);
	/* Many middling ones end no more than a turn's worth of bytes. */
	for (uint32_t i = 0; i < 32; i++)
		e[i] = hand_copy(&c, 32 * MIB, 0, 100 * KIB);
	while (gm_turn_due(s))
		fast_turn(s, &k);
	c.done.pos = 64;
	hand_submit(&c, e, 32);
	k.elements = 0;
	fast_turn(s, &k);
	OK(k.elements <= GM_TURN_BYTES);
	OK(k.elements >= GM_TURN_BYTES - 64 * KIB);
	stop(&c, s);
}

/* Bytes alone do not bound time. */
static void slow_work_gets_a_smaller_share(void)
{
	uint64_t share = GM_TURN_BYTES;

	/* As fast as memory. */
	EQ(gm_quantum_share(share, MIB, GM_TURN_NS * 4 / 5, GM_TURN_BYTES),
	   GM_TURN_BYTES);
	/* Twenty times slower for its size. */
	share = gm_quantum_share(share, MIB, 20 * GM_TURN_NS, GM_TURN_BYTES);
	EQ(share, 3 * GM_TURN_LEAST); /* 1 MiB / 20 in whole pages */
	/* Never less than this, however slow. */
	EQ(gm_quantum_share(share, GM_TURN_LEAST, 10000000, GM_TURN_BYTES),
	   GM_TURN_LEAST);
	/* Fast again: it doubles. */
	share = gm_quantum_share(share, share, 1000, GM_TURN_BYTES);
	EQ(share, 6 * GM_TURN_LEAST);
	EQ(gm_quantum_share(GM_TURN_BYTES, MIB, 0, GM_TURN_BYTES),
	   GM_TURN_BYTES);
	/* A few bytes do not tell that work is slow. */
	EQ(gm_quantum_share(share, 4096, 1000000, GM_TURN_BYTES), share);
	EQ(gm_quantum_share(share, 0, 1000, GM_TURN_BYTES), share);
	/* But that it is fast again. */
	EQ(gm_quantum_share(GM_TURN_LEAST, 4096, 1000, GM_TURN_BYTES),
	   2 * GM_TURN_LEAST);
}

/* A session was slow once, since another process had the CPU.  Jobs too small
 * to be timed cost no more for it. */
static void small_jobs_cost_what_they_are(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[9];
	int64_t before;

	hand_open(&c, 2, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	for (uint32_t i = 0; i < 9; i++)
		e[i] = hand_copy(&c, 32 * MIB, 0, i < 8 ? KIB : 8 * KIB);
	hand_submit(&c, e, 9);
	s->share = GM_TURN_LEAST;
	before = s->deficit.bytes;
	EQ(gm_quantum_serve(s, &k.dev), 9);
	/* Eight for what they are, and one for what slow ones cost. */
	EQ(before - s->deficit.bytes, 8 * KIB + 64 * KIB);
	stop(&c, s);
}

/* The client cancels one that has begun, and one behind it. */
static void what_has_begun_is_not_cancelled(void)
{
	static const int32_t want[] = { 0, -ECANCELED, 0, -ECANCELED, 0, 0 };
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[6];
	uint32_t pos, right = 0;
	int32_t status;

	hand_open(&c, 2, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	e[0] = hand_copy(&c, 32 * MIB, 0, 3 * MIB);
	e[1] = hand_nop(&c);
	e[2] = hand_nop(&c);
	e[3] = hand_copy(&c, 32 * MIB, 0, MIB);
	e[3].flags = GM_ENTRY_MORE;
	e[4] = hand_second(0);
	e[5] = hand_free(&c, hand_handle(ROW, 7));
	hand_submit(&c, e, 6);
	fast_turn(s, &k);
	OK(s->work.bytes > 0);
	for (uint32_t i = 0; i < 6; i++)
		if (want[i] != 0 || i == 0 || i == 5)
			gm_entry_cancel(
				gm_ring_slot(&c.entries, i, GM_ENTRY_WORDS));
	while (gm_turn_due(s))
		fast_turn(s, &k);
	EQ(k.elements, 3 * MIB);
	/* FREE is no job: there is no such buffer. */
	for (uint32_t i = 0; i < 5; i++)
		right += hand_take(&c, &pos, &status) && pos == i &&
			 status == want[i];
	EQ(right, 5);
	OK(hand_take(&c, &pos, &status));
	EQ(status, -ESTALE);
	stop(&c, s);
}

TAP_CASE()
{
	slow_work_gets_a_smaller_share();
	turn_begin();
	long_jobs_go_in_slices();
	a_device_may_say_how_long_a_slice_is();
	small_slices_cost_what_they_are();
	small_jobs_cost_what_they_are();
	nobody_waits_for_the_long_job_behind();
	turns_have_a_budget();
	what_has_begun_is_not_cancelled();
	turn_end();
	return tap_done();
}
