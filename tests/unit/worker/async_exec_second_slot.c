/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* flight: entries of two slots, and who is parked, on a device that computes
 * when it likes. */

#include "agent/worker/memory/sigbus.h"
#include "tests/support/worker/async_rig.h"

static struct rig r;

/* Second slots are entries of their own here, too: behind their first. */
static void second_slots_follow_their_first(void)
{
	static const int want[] = { 0, 0, 0, -ETIME, 0, 0 };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[6];

	s = rig_begin(&r, &c, 64 * KIB, 2, 2 * MIB);
	e[0] = hand_copy(&c, MIB, 0, 256 * KIB);
	e[1] = hand_second(UINT64_MAX);
	e[2] = hand_nop(&c);
	e[3] = hand_fill(&c, 0, 0, 100, 9);
	e[4] = hand_second(1); /* long ago */
	e[5] = hand_fill(&c, 0, 100, 100, 9);
	e[0].flags = e[3].flags = GM_ENTRY_MORE;
	rig_submit(&r, &c, s, e, 6);
	EQ(s->entries.pos, 1); /* it has slices left to start */
	OK(s->second);
	for (uint64_t v = 1; v <= r.late.n_started; v++)
		rig_land(&r, s, v);
	EQ(r.late.n_started, 5);
	EQ(r.late.n_quit, 0);
	rig_expect(&c, 0, want, 6);
	EQ(c.memory[0], 0);
	EQ(c.memory[100], 9);
	EQ(gm_get(&r.journal->completed), 4); /* they are no jobs */
	rig_finish(&r, &c, s);
}

static void a_deadline_holds_between_slices(void)
{
	static const int want[] = { -ETIME, 0 };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[2];
	uint64_t deadline = hand_now() + 50 * 1000 * 1000;

	s = rig_begin(&r, &c, 64 * KIB, 2, 2 * MIB);
	e[0] = hand_copy(&c, MIB, 0, 256 * KIB);
	e[1] = hand_second(deadline);
	e[0].flags = GM_ENTRY_MORE;
	rig_submit(&r, &c, s, e, 2);
	/* Two at most, none where this machine was slow to come here. */
	OK(r.late.n_started <= 2);
	while (hand_now() < deadline)
		hand_nap();
	rig_land_all(&r, s);
	OK(r.late.n_started <= 2);
	/* A device that keeps something of a task is told of its end. */
	EQ(r.late.n_quit, r.late.n_started > 0);
	rig_expect(&c, 0, want, 2);
	rig_finish(&r, &c, s);
}

/* So it is of one whose session leaves. */
static void who_leaves_quits(void)
{
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e;

	s = rig_begin(&r, &c, 64 * KIB, 2, 2 * MIB);
	e = hand_copy(&c, MIB, 0, 256 * KIB);
	rig_submit(&r, &c, s, &e, 1);
	EQ(r.late.n_started, 2);
	rig_end(&r, &c, s);
	EQ(r.late.n_quit, 1);
	rig_close(&r);
}

static void slots_come_in_pairs(void)
{
	static const char *const why[] = { "a first slot without a second",
					   "a second slot without a first",
					   "a first slot without a second" };

	for (int i = 0; i < 3; i++) {
		struct gm_entry e[2];
		struct hand_client c;
		struct gm_worker_session *s;

		s = rig_begin(&r, &c, 64 * KIB, 2, MIB);
		e[0] = e[1] = hand_nop(&c);
		if (i == 1)
			e[0] = hand_second(0);
		else
			e[0].flags = GM_ENTRY_MORE;
		hand_submit(&c, e, i == 2 ? 1 : 2);
		gm_async_exec_serve(&r.w, s);
		OK(s->halted);
		STR(s->why, why[i]);
		EQ(hand_n_done(&c), 0);
		rig_finish(&r, &c, s);
	}
}

/* But memory is given back: a FREE is no job, and no client submits it
 * again. */
static void what_is_taken_back_is_not_begun(void)
{
	static const int made[] = { 0 };
	static const int want[] = { -ECANCELED, -ECANCELED, 0, -ECANCELED, 0 };
	uint64_t x = hand_handle(ROW, 1), y = hand_handle(ROW, 2);
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[5];

	s = rig_begin(&r, &c, 64 * KIB, 2, 2 * MIB);
	e[0] = hand_alloc(&c, x, 1000, 0);
	rig_submit(&r, &c, s, e, 1);
	rig_slow(&r);
	rig_serve(&r, s);
	rig_expect(&c, 0, made, 1);
	EQ(r.late.n_buffers, 1);
	e[0] = hand_nop(&c);
	e[1] = hand_fill(&c, 0, 0, 100, 9);
	e[2] = hand_free(&c, x);
	e[3] = hand_alloc(&c, y, 1000, 0);
	e[4] = hand_nop(&c);
	hand_submit(&c, e, 4);
	gm_put(&s->timeline->cancel, gm_cancel_make(c.entries.pos));
	rig_submit(&r, &c, s, e + 4, 1);
	rig_slow(&r);
	rig_serve(&r, s);
	rig_expect(&c, 1, want, 5);
	EQ(r.late.n_started, 0);
	EQ(r.late.n_buffers, 0);
	rig_finish(&r, &c, s);
}

/* One that is cancelled alone, while another is on the card. */
static void one_is_taken_back(void)
{
	static const int want[] = { 0, -ECANCELED, 0, -ECANCELED };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[4];

	s = rig_begin(&r, &c, 64 * KIB, 2, MIB);
	e[0] = hand_fill(&c, 0, 0, 100, 1);
	e[1] = hand_fill(&c, 0, 0, 100, 2);
	e[2] = hand_fill(&c, 0, 0, 100, 3);
	e[3] = hand_nop(&c);
	rig_submit(&r, &c, s, e, 1);
	rig_slow(&r);
	rig_serve(&r, s);
	EQ(r.late.n_started, 1);
	hand_submit(&c, e + 1, 3);
	gm_entry_cancel(gm_ring_slot(&c.entries, 0, GM_ENTRY_WORDS));
	gm_entry_cancel(gm_ring_slot(&c.entries, 1, GM_ENTRY_WORDS));
	gm_entry_cancel(gm_ring_slot(&c.entries, 3, GM_ENTRY_WORDS));
	rig_serve(&r, s);
	rig_land_all(&r, s);
	rig_land_all(&r, s);
	rig_expect(&c, 0, want, 4);
	EQ(r.late.n_started, 2);
	rig_finish(&r, &c, s);
}

/* Found idle while the device was being made to reach its arena, and looked at
 * when it does. */
static void who_may_begin_is_not_parked(void)
{
	static const int good[] = { 0 };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e;

	s = rig_begin(&r, &c, 64 * KIB, 2, 2 * MIB);
	e = hand_fill(&c, 0, 0, 10, 1);
	hand_submit(&c, &e, 1);
	gm_async_exec_serve(&r.w, s);
	OK(!gm_async_exec_due(&r.w, s));
	gm_run_queue_found(&r.w, s, true);
	rig_slow(&r);
	EQ(r.late.n_reached, 1);
	EQ(r.late.n_started, 0);
	OK(!gm_run_queue_park(&r.w, s));
	OK(s->active && !s->idle);
	rig_serve(&r, s);
	EQ(r.late.n_started, 1);
	rig_land_all(&r, s);
	rig_expect(&c, 0, good, 1);
	rig_finish(&r, &c, s);
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	second_slots_follow_their_first();
	a_deadline_holds_between_slices();
	who_leaves_quits();
	slots_come_in_pairs();
	what_is_taken_back_is_not_begun();
	one_is_taken_back();
	who_may_begin_is_not_parked();
	return tap_done();
}
