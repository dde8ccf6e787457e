/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* flight: turns of a queue whose device computes when it likes. */

#include <sys/wait.h>

#include "tests/support/worker/async_rig.h"

static struct rig r;

static void entries_end_in_their_order(void)
{
	static const int good[5] = { 0 };
	struct gm_journal_state state;
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[5];

	s = rig_begin(&r, &c, 64 * KIB, 4, MIB);
	memset(c.memory, 7, 64 * KIB);
	e[0] = hand_copy_between(&c, 0, 512 * KIB, 0, 0, 1000);
	e[1] = hand_nop(&c);
	e[2] = hand_copy_between(&c, 0, 600 * KIB, 0, 512 * KIB, 1000);
	e[3] = hand_nop(&c);
	e[4] = hand_copy_between(&c, 0, 700 * KIB, 0, 600 * KIB, 1000);
	rig_submit(&r, &c, s, e, 5);
	/* All three are under way, none has ended, so neither have the rest. */
	EQ(r.late.n_started, 3);
	EQ(hand_n_done(&c), 0);
	EQ(r.late.slice[1].after, 0);
	EQ(r.late.slice[2].after, 1);
	EQ(r.late.slice[3].after, 2);
	state = gm_journal_read(s->owed, c.depth);
	EQ(state.entry, 5);
	EQ(state.done, 0);

	rig_land(&r, s, 1);
	EQ(hand_n_done(&c), 2);
	rig_land(&r, s, 3);
	rig_expect(&c, 0, good, 5);
	EQ(memcmp(c.memory, c.memory + 700 * KIB, 1000), 0);
	EQ(r.w.n_in_flight, 0);
	rig_end(&r, &c, s);
	EQ(r.late.n_unreached, r.late.n_reached);
	rig_close(&r);
}

/* Records are in the order in which the jobs ended, also where a turn finds
 * that one has ended and reads others that need no work. */
static void records_are_in_order(void)
{
	struct gm_trace *ring = aligned_alloc(4096, GM_TRACE_BYTES);
	struct gm_trace_record records[8];
	uint64_t pos = 0, lost, last = 0;
	struct gm_job_clock clock;
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[4];

	if (ring == NULL)
		exit(99);
	memset((void *)ring, 0, GM_TRACE_BYTES);
	s = rig_begin(&r, &c, 64 * KIB, 4, MIB);
	gm_job_clock_init(&clock, r.journal, 1);
	clock.trace = ring;
	s->clock = &clock;
	e[0] = hand_copy_between(&c, 0, 512 * KIB, 0, 0, 1000);
	e[1] = hand_nop(&c);
	e[1].flags = GM_ENTRY_MORE;
	e[2] = hand_second(UINT64_MAX);                /* which is no job */
	e[3] = hand_copy(&c, 0, 0, UINT64_C(1) << 40); /* refused */
	rig_submit(&r, &c, s, e, 1);
	late_land(&r.late, 1);
	rig_submit(&r, &c, s, e + 1, 3);
	EQ(gm_trace_get(ring, &pos, records, 8, &lost), 3);
	for (int i = 0; i < 3; i++) {
		OK(records[i].read_ns <= records[i].started_ns);
		OK(records[i].started_ns <= records[i].ended_ns);
		OK(records[i].ended_ns >= last);
		last = records[i].ended_ns;
	}
	rig_finish(&r, &c, s);
	free(ring);
}

static void long_ones_go_in_slices(void)
{
	static const int good[2] = { 0 };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[2];
	int wrong = 0;

	s = rig_begin(&r, &c, 64 * KIB, 3, 4 * MIB);
	for (uint64_t i = 0; i < MIB; i++)
		c.memory[i] = (char)(i * 7 + (i >> 9));
	e[0] = hand_copy_between(&c, 0, 2 * MIB, 0, 0, MIB + 4);
	e[1] = hand_copy_between(&c, 0, 0, 0, 2 * MIB, 16);
	rig_submit(&r, &c, s, e, 2);
	EQ(r.late.n_started, 3); /* of a session, that is all */
	EQ(r.w.n_in_flight, 3);
	for (uint64_t v = 1; v <= r.late.n_started; v++) {
		wrong += r.late.slice[v].after != v - 1 && v <= 3;
		wrong += r.late.slice[v].count > 64 * KIB;
		rig_land(&r, s, v);
	}
	EQ(wrong, 0);
	EQ(r.late.most, 3);
	EQ(r.late.n_started, 17 + 1);
	rig_expect(&c, 0, good, 2);
	EQ(memcmp(c.memory, c.memory + 2 * MIB, MIB), 0);
	rig_finish(&r, &c, s);
}

/* No more than the journal can hold, and each of these is recovered once. */
static void a_depth_is_in_flight_at_most(void)
{
	struct gm_journal_state state;
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[16];
	struct gm_ring done;
	uint32_t seen = 0;

	s = rig_begin(&r, &c, MIB, 2, MIB);
	e[0] = hand_copy_between(&c, 0, 512 * KIB, 0, 0, 16);
	for (int i = 1; i < 16; i++)
		e[i] = hand_nop(&c);
	rig_submit(&r, &c, s, e, 16);
	EQ(hand_n_done(&c), 0);
	EQ(s->entries.pos, 15);
	state = gm_journal_read(s->owed, c.depth);
	EQ(state.entry, 15);
	EQ(state.done, 0);

	/* Its worker is dead. */
	done = c.done;
	EQ(gm_journal_recover(s->owed, &c.entries, &done, 0), 16);
	for (uint32_t i = 0; i < 16; i++) {
		uint64_t words[GM_DONE_WORDS];

		if (gm_ring_peek(&c.done, GM_DONE_WORDS, i, words))
			seen += gm_done_status(words) == -EIO;
	}
	EQ(seen, 16);
	gm_run_queue_drop(&r.w, s);
	rig_finish(&r, &c, s);
}

static void what_fails_fails_alone(void)
{
	static const int want[] = { -EIO, 0, -ENOMEM, 0, -ESTALE, 0 };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[6];

	s = rig_begin(&r, &c, 64 * KIB, 2, 2 * MIB);
	e[0] = hand_copy_between(&c, 0, MIB, 0, 0, 512 * KIB);
	rig_submit(&r, &c, s, e, 1);
	EQ(r.late.n_started, 2);
	r.late.land_rc = -EIO;
	rig_land(&r, s, 1);
	EQ(r.late.n_started, 2); /* no more of that */
	EQ(hand_n_done(&c), 0);  /* one of it is under way */
	e[1] = hand_fill(&c, 0, 0, 100, 9);
	rig_submit(&r, &c, s, e + 1, 1);
	EQ(r.late.n_started, 3);
	rig_land_all(&r, s);

	e[2] = hand_fill(&c, 0, 0, 100, 10);
	e[3] = hand_fill(&c, 0, 100, 100, 11);
	e[4] = hand_fill(&c, hand_handle(ROW, 5), 0, 1, 1);
	e[5] = hand_nop(&c);
	r.late.start_rc = -ENOMEM;
	rig_submit(&r, &c, s, e + 2, 4);
	rig_land_all(&r, s);
	rig_expect(&c, 0, want, 6);
	EQ(c.memory[0], 9);
	EQ(c.memory[100], 11);
	rig_finish(&r, &c, s);
}

static void without_room_it_waits_for_others(void)
{
	static const int good[2] = { 0 };
	struct hand_client a, b;
	struct gm_worker_session *sa, *sb;
	struct gm_entry e;

	rig_open(&r, 64 * KIB, 4);
	hand_open(&a, 1, 0, ROW, 16, MIB);
	hand_open(&b, 2, 1, ROW, 16, MIB);
	sa = rig_attach(&r, &a);
	sb = rig_attach(&r, &b);
	r.late.room = 1;
	e = hand_fill(&a, 0, 0, 10, 1);
	hand_submit(&a, &e, 1);
	hand_submit(&b, &e, 1);
	rig_serve(&r, sa);
	rig_serve(&r, sb);
	EQ(r.late.n_started, 1);
	OK(!gm_async_exec_due(&r.w, sb)); /* asked once, not again and again */
	late_land(&r.late, 1);
	rig_serve(&r, sa);
	OK(gm_async_exec_due(&r.w, sb));
	rig_serve(&r, sb);
	EQ(r.late.n_started, 2);
	late_land(&r.late, 2);
	rig_serve(&r, sb);
	rig_expect(&a, 0, good, 1);
	rig_expect(&b, 0, good, 1);
	rig_end(&r, &a, sa);
	rig_end(&r, &b, sb);
	rig_close(&r);
}

/* Lanes end in any order: no slice waits for a neighbour's. */
static void sessions_overtake_each_other(void)
{
	static const int good[1] = { 0 };
	struct hand_client a, b;
	struct gm_worker_session *sa, *sb;
	struct gm_entry e;

	rig_open(&r, 64 * KIB, 4);
	hand_open(&a, 1, 0, ROW, 16, MIB);
	hand_open(&b, 2, 1, ROW, 16, MIB);
	sa = rig_attach(&r, &a);
	sb = rig_attach(&r, &b);
	e = hand_fill(&a, 0, 0, 10, 1);
	hand_submit(&a, &e, 1);
	hand_submit(&b, &e, 1);
	rig_serve(&r, sa);
	rig_serve(&r, sb);
	late_land(&r.late, 2);
	rig_serve(&r, sa);
	rig_serve(&r, sb);
	EQ(hand_n_done(&a), 0);
	rig_expect(&b, 0, good, 1);
	late_land(&r.late, 1);
	rig_serve(&r, sa);
	rig_expect(&a, 0, good, 1);
	rig_end(&r, &a, sa);
	rig_end(&r, &b, sb);
	rig_close(&r);
}

static void buffers_come_and_go_in_order(void)
{
	static const int want[] = { 0, 0, 0, 0, 0, -ESTALE, 0 };
	uint64_t x = hand_handle(ROW, 1), y = hand_handle(ROW, 2);
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[7];

	s = rig_begin(&r, &c, 64 * KIB, 4, MIB);
	memset(c.memory, 5, 1000);
	e[0] = hand_copy_between(&c, 0, 2000, 0, 0, 1000);
	e[1] = hand_alloc(&c, x, 1000, 0);
	e[2] = hand_copy_between(&c, x, 0, 0, 2000, 1000);
	e[3] = hand_copy_between(&c, 0, 4000, x, 0, 1000);
	e[4] = hand_free(&c, x);
	e[5] = hand_copy_between(&c, 0, 0, x, 0, 1000);
	e[6] = hand_alloc(&c, y, 1000, 0);
	rig_submit(&r, &c, s, e, 7);
	/* The fence waits for what is before it. */
	EQ(r.late.n_started, 1);
	EQ(r.late.n_buffers, 0);
	rig_land_all(&r, s);
	EQ(r.late.n_buffers, 1);
	EQ(r.late.n_started, 3);
	EQ(hand_n_done(&c), 2);
	/* Freed, and used by what is under way: it stays. */
	EQ(gm_buffers_find(&s->buffers, x) == NULL, 1);
	rig_land(&r, s, 2);
	EQ(r.late.n_buffers, 1);
	rig_land(&r, s, 3);
	EQ(r.late.n_buffers, 1); /* y in x's place */
	rig_expect(&c, 0, want, 7);
	EQ(memcmp(c.memory, c.memory + 4000, 1000), 0);
	EQ(s->buffers.used, 1024);
	rig_end(&r, &c, s);
	EQ(r.late.n_buffers, 0);
	rig_close(&r);
}

static void handles_and_quotas_are_checked(void)
{
	static const int want[] = { 0,       -EEXIST, -EDQUOT, -EINVAL, -EINVAL,
				    -EINVAL, -EINVAL, -ESTALE, -ERANGE, -EDQUOT,
				    0,       0,       -EDQUOT, 0 };
	uint64_t x = hand_handle(ROW, 1);
	struct gm_entry e[14];
	struct hand_client c;
	struct gm_worker_session *s;

	rig_open(&r, 64 * KIB, 4);
	hand_open(&c, 1, 0, ROW, 16, MIB);
	c.quota = 4096;
	s = rig_attach(&r, &c);
	e[0] = hand_alloc(&c, x, 2048, 0);
	e[1] = hand_alloc(&c, x + (UINT64_C(9) << 32), 16, 0);
	e[2] = hand_alloc(&c, hand_handle(ROW, 2), 2049, 0);
	e[3] = hand_alloc(&c, hand_handle(ROW + 1, 2), 16, 0);
	e[4] = hand_alloc(&c, 3, 16, 0); /* generation 0 */
	e[5] = hand_alloc(&c, hand_handle(ROW, GM_BUFFERS_MAX), 16, 0);
	e[6] = hand_alloc(&c, hand_handle(ROW, 2), 0, 0);
	e[7] = hand_free(&c, x + (UINT64_C(1) << 32));
	e[8] = hand_fill(&c, x, 2048, 1, 1);
	/* The allocation fits as requested, and not as rounded up. */
	e[9] = hand_alloc(&c, hand_handle(ROW, 3), 2047 - 255, 0);
	e[10] = hand_free(&c, x);
	e[11] = hand_alloc(&c, hand_handle(ROW, 4), 4096, 0);
	e[12] = hand_alloc(&c, hand_handle(ROW, 5), 1, 0);
	e[13] = hand_nop(&c);
	e[9].n = 2048; /* with 2048 in use there is no byte more */
	c.quota = 4096;
	s->buffers.budget->quota = 4095;
	rig_submit(&r, &c, s, e, 9);
	EQ(hand_n_done(&c), 9);
	rig_submit(&r, &c, s, e + 9, 1);
	s->buffers.budget->quota = 4096;
	rig_submit(&r, &c, s, e + 10, 4);
	rig_expect(&c, 0, want, 14);
	EQ(r.late.n_buffers, 1);
	rig_end(&r, &c, s);
	EQ(r.late.bytes_free, MIB);
	rig_close(&r);
}

static void rounding_counts_as_well(void)
{
	static const int want[] = { -EDQUOT, 0, -ENOMEM };
	struct gm_entry e[3];
	struct hand_client c;
	struct gm_worker_session *s;

	rig_open(&r, 64 * KIB, 4);
	hand_open(&c, 1, 0, ROW, 16, MIB);
	c.quota = 1000;
	s = rig_attach(&r, &c);
	e[0] = hand_alloc(&c, hand_handle(ROW, 1), 1000, 0);
	e[1] = hand_alloc(&c, hand_handle(ROW, 1), 700, 0);
	rig_submit(&r, &c, s, e, 2);
	EQ(s->buffers.used, 768);
	EQ(r.late.n_buffers, 1);
	s->buffers.budget->quota = UINT64_MAX;
	e[2] = hand_alloc(&c, hand_handle(ROW, 2), 2 * MIB, 0);
	rig_submit(&r, &c, s, e + 2, 1);
	rig_expect(&c, 0, want, 3);
	EQ(s->buffers.used, 768);
	rig_finish(&r, &c, s);
}

/* Parts of the arena are had as they are named. */
static void the_arena_is_reached_in_parts(void)
{
	static const int want[] = { 0, -ENOMEM, 0, 0 };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[4];

	s = rig_begin(&r, &c, MIB, 4, 4 * MIB);
	rig_end(&r, &c, s);
	EQ(r.late.n_reached, 0); /* no entry named it */

	hand_open(&c, 2, 0, ROW, 16, 4 * MIB);
	s = rig_attach(&r, &c);
	free(s->reached);
	free(s->flights);
	s->range_bytes = MIB;
	EQ(gm_async_exec_open(s, r.w.dev), 0);
	EQ(s->n_reached, 4);
	e[0] = hand_fill(&c, 0, 2 * MIB, 16, 1);
	rig_submit(&r, &c, s, e, 1);
	EQ(r.late.n_reached, 1);
	EQ(s->reached[2] != NULL, 1);
	EQ(r.late.slice[1].task.dst_address != 0, 0); /* decoded before that */
	r.late.reach_rc = -ENOMEM;
	e[1] = hand_copy_between(&c, 0, 2 * MIB + 100, 0, 0, 16);
	rig_submit(&r, &c, s, e + 1, 1);
	r.late.reach_rc = 0;
	/* Over a border, both sides of it. */
	e[2] = hand_copy_between(&c, 0, MIB - 8, 0, 3 * MIB - 8, 16);
	e[3] = hand_fill(&c, 0, 3 * MIB - 8, 8, 3);
	rig_submit(&r, &c, s, e + 2, 2);
	rig_land_all(&r, s);
	rig_expect(&c, 0, want, 4);
	EQ(r.late.n_reached, 4);
	rig_end(&r, &c, s);
	EQ(r.late.n_unreached, 4);
	rig_close(&r);
}

static void who_leaves_waits_for_its_slices(void)
{
	uint64_t x = hand_handle(ROW, 1);
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[3];
	struct gm_wire wire;

	s = rig_begin(&r, &c, 64 * KIB, 2, MIB);
	e[0] = hand_alloc(&c, x, 512 * KIB, 0);
	e[1] = hand_fill(&c, x, 0, 512 * KIB, 1);
	e[2] = hand_free(&c, x);
	rig_submit(&r, &c, s, e, 3);
	EQ(r.late.n_started, 2);
	rig_detach(&r, s);
	gm_async_exec_poll(&r.w);
	EQ(r.w.slow.n, 0);
	EQ(rig_hear(&r, &wire, 0), 0);
	EQ(r.late.n_buffers, 1);
	late_land(&r.late, 1);
	gm_async_exec_poll(&r.w);
	EQ(r.late.n_buffers, 1);
	late_land(&r.late, 2);
	gm_async_exec_poll(&r.w);
	rig_slow(&r);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_DETACHED);
	EQ(r.late.n_started, 2); /* no more of it was begun */
	EQ(r.late.n_buffers, 0);
	EQ(r.w.n_in_flight, 0);
	OK(TAILQ_EMPTY(&r.w.flying));
	hand_close(&c, ROW);
	rig_close(&r);
}

/* Parked with work under way: the device's end wakes it, without a bell. */
static void asleep_it_is_looked_after(void)
{
	static const int good[3] = { 0 };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[3];

	s = rig_begin(&r, &c, 64 * KIB, 2, MIB);
	for (int i = 0; i < 3; i++)
		e[i] = hand_fill(&c, 0, 0, 10, (uint8_t)i);
	rig_submit(&r, &c, s, e, 1);
	OK(!gm_async_exec_may_sleep(&r.w)); /* it is awake */
	OK(gm_run_queue_park(&r.w, s));
	EQ(gm_get(&s->queue->parked) & 1, 1);
	OK(gm_async_exec_may_sleep(&r.w));
	EQ(r.late.n_armed, 1);
	OK(gm_get(&r.journal->in_flight) != 0);
	late_land(&r.late, 1);
	OK(!gm_async_exec_may_sleep(&r.w));
	OK(s->active);
	rig_serve(&r, s);

	/* One that can read nothing needs no bell either. */
	rig_submit(&r, &c, s, e, 3);
	EQ(r.late.n_started, 3);
	c.rung = 0;
	OK(gm_run_queue_park(&r.w, s));
	OK(!s->active);
	EQ(gm_get(&s->queue->parked) & 1, 0);
	OK(gm_async_exec_may_sleep(&r.w));
	late_land(&r.late, 2);
	OK(!gm_async_exec_may_sleep(&r.w));
	rig_serve(&r, s);
	rig_land_all(&r, s);
	rig_expect(&c, 0, good, 3);
	EQ(c.rung, 0);
	gm_async_exec_poll(&r.w);
	EQ(gm_get(&r.journal->in_flight), 0);
	OK(gm_run_queue_park(&r.w, s));
	OK(gm_async_exec_may_sleep(&r.w));
	EQ(r.late.n_armed, 2); /* nothing is under way: nothing to arm for */
	rig_finish(&r, &c, s);
}

/* The recovery process ends the jobs that a lost device leaves undone. */
static void a_lost_device_ends_the_worker(void)
{
	struct gm_wire wire = { 0 };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[2];
	int status = 0;
	pid_t child;

	rig_open(&r, 64 * KIB, 2);
	hand_open(&c, 1, 0, ROW, 16, MIB);
	gm_blocking_thread_stop(&r.w.slow); /* a fork has but one thread */
	fflush(stdout);
	child = fork();
	if (child == 0) {
		/* The end of the slice shows the error that was found. */
		if (!freopen("/dev/null", "w", stdout))
			_exit(78);
		gm_blocking_thread_start(&r.w.slow, r.w.dev, &r.journal->slow,
					 -1);
		s = rig_attach(&r, &c);
		e[0] = hand_nop(&c);
		e[1] = hand_fill(&c, 0, 0, 10, 1);
		rig_submit(&r, &c, s, e, 2);
		r.late.lost = true;
		rig_serve(&r, s);
		_exit(77);
	}
	EQ(gm_blocking_thread_start(&r.w.slow, r.w.dev, &r.journal->slow, -1),
	   0);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_FAILED);
	EQ(wire.code, 700);
	EQ(wire.status, -ENOTRECOVERABLE);
	OK(strstr(wire.text, "ILLEGAL_ADDRESS") != NULL);
	waitpid(child, &status, 0);
	OK(WIFEXITED(status));
	EQ(WEXITSTATUS(status), 1);
	EQ(hand_n_done(&c), 1);
	hand_close(&c, ROW);
	rig_close(&r);
}

static void breaches_end_the_session(void)
{
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[3];

	s = rig_begin(&r, &c, 64 * KIB, 2, MIB);
	for (int i = 0; i < 3; i++)
		e[i] = hand_nop(&c);
	e[1].flags = 4;
	hand_submit(&c, e, 3);
	gm_async_exec_serve(&r.w, s);
	OK(s->halted);
	STR(s->why, "unknown flag");
	EQ(hand_n_done(&c), 1);
	rig_finish(&r, &c, s);
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	entries_end_in_their_order();
	records_are_in_order();
	long_ones_go_in_slices();
	a_depth_is_in_flight_at_most();
	what_fails_fails_alone();
	without_room_it_waits_for_others();
	sessions_overtake_each_other();
	buffers_come_and_go_in_order();
	handles_and_quotas_are_checked();
	rounding_counts_as_well();
	the_arena_is_reached_in_parts();
	who_leaves_waits_for_its_slices();
	asleep_it_is_looked_after();
	a_lost_device_ends_the_worker();
	breaches_end_the_session();
	return tap_done();
}
