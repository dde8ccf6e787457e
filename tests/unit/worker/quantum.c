/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* turn: how entries end, one by one, in pairs, late, wrong, over a wrap and
 * over an owner's end. */

#include "tests/support/worker/quantum_rig.h"
#include "tests/support/tap.h"

static void no_ops_are_answered_in_batches(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct gm_entry e[100];
	struct hand_client c;
	struct gm_worker_session *s;
	uint32_t pos;
	int32_t status = 1;

	hand_open(&c, 1, 0, ROW, 128, MIB);
	s = serve(&c);
	EQ(gm_quantum_serve(s, &k.dev), 0);
	for (int i = 0; i < 100; i++)
		e[i] = hand_nop(&c);
	hand_submit(&c, e, 100);
	OK(gm_turn_due(s));
	EQ(gm_quantum_serve(s, &k.dev), GM_TURN_ENTRIES);
	EQ(hand_n_done(&c), GM_TURN_ENTRIES);
	while (gm_turn_due(s))
		gm_quantum_serve(s, &k.dev);
	for (uint32_t i = 0; i < 100; i++)
		if (!hand_take(&c, &pos, &status) || pos != i || status != 0)
			OK(!"a completion is missing or out of order");
	EQ(hand_n_done(&c), 0);
	EQ(k.runs, 0);
	EQ(gm_get(&journal->completed), 100);
	EQ(gm_get(&s->owed->next), 100);
	stop(&c, s);
}

/* The client takes one batch while the worker is busy with the next. */
static void half_a_turn_is_visible_during_the_other(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct gm_entry e[GM_TURN_BATCH + 4];
	struct hand_client c;
	struct gm_worker_session *s;

	hand_open(&c, 1, 0, ROW, 128, MIB);
	s = serve(&c);
	k.seen = &c;
	for (uint32_t i = 0; i < GM_TURN_BATCH + 3; i++)
		e[i] = hand_nop(&c);
	e[GM_TURN_BATCH + 3] = hand_copy(&c, 4096, 0, 64);
	hand_submit(&c, e, GM_TURN_BATCH + 4);
	EQ(gm_quantum_serve(s, &k.dev), GM_TURN_BATCH + 4);
	EQ(k.runs, 1);
	EQ(k.n_seen, GM_TURN_BATCH);
	EQ(hand_n_done(&c), GM_TURN_BATCH + 4);
	stop(&c, s);
}

static void errors_end_one_job(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[5];
	static const int want[] = { -ERANGE, -EIO, -EINVAL, 0, -ENODEV };
	uint32_t pos;
	int32_t status = 1;

	hand_open(&c, 5, 0, ROW, 16, 8 * MIB);
	s = serve(&c);
	e[0] = hand_copy(&c, 8 * MIB, 0, 1);
	e[1] = hand_nop(&c);
	e[1].incarnation = 0;
	e[2] = hand_copy(&c, 0, 0, 2 * MIB);
	e[3] = hand_nop(&c);
	e[4] = hand_copy(&c, 4 * MIB, 0, 4 * MIB);
	k.rc = -ENODEV;
	hand_submit(&c, e, 5);
	while (gm_turn_due(s))
		gm_quantum_serve(s, &k.dev);
	OK(!s->why);
	EQ(k.runs, 1); /* a failed slice is the last */
	for (uint32_t i = 0; i < 5; i++) {
		if (!OK(hand_take(&c, &pos, &status)))
			break;
		EQ(pos, i);
		EQ(status, want[i]);
	}
	stop(&c, s);
}

static void a_breach_stops_everything_behind_it(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[4];

	hand_open(&c, 6, 0, ROW, 16, MIB);
	s = serve(&c);
	for (int i = 0; i < 4; i++)
		e[i] = hand_nop(&c);
	e[2].op = 99;
	hand_submit(&c, e, 4);
	EQ(gm_quantum_serve(s, &k.dev), 2);
	STR(s->why, "unknown operation");
	EQ(hand_n_done(&c), 2);
	EQ(s->entries.pos, 2);
	stop(&c, s);
}

/* The entry's second slot ends behind it, by itself. */
static void second_slots_end_by_themselves(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct gm_journal_state state;
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[7];
	uint64_t before = gm_get(&journal->completed);
	uint32_t pos, wrong = 0;
	int32_t status;

	hand_open(&c, 3, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	e[0] = hand_nop(&c);
	e[1] = hand_second(UINT64_MAX);
	e[2] = hand_copy(&c, 32 * MIB, 0, 3 * MIB / 2);
	e[3] = hand_second(UINT64_MAX);
	e[4] = hand_copy(&c, MIB, 0, 64);
	e[5] = hand_second(1); /* long ago */
	e[6] = hand_copy(&c, MIB, 0, 128);
	e[0].flags = e[2].flags = e[4].flags = GM_ENTRY_MORE;
	hand_submit(&c, e, 7);
	EQ(fast_turn(s, &k), 2);
	EQ(hand_n_done(&c), 2);

	/* The job has begun and its second slot has not been read. */
	state = gm_journal_read(s->owed, c.depth);
	EQ(state.entry, 3);
	EQ(state.done, 2);
	while (gm_turn_due(s))
		fast_turn(s, &k);
	OK(!s->halted);
	for (uint32_t i = 0; i < 7; i++)
		wrong += !hand_take(&c, &pos, &status) || pos != i ||
			 status != (i == 4 ? -ETIME : 0);
	EQ(wrong, 0);
	EQ(k.elements, 3 * MIB / 2 + 128);
	EQ(gm_get(&journal->completed) - before, 4); /* they are no jobs */
	stop(&c, s);
}

static void a_deadline_holds_between_slices(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[2];
	uint32_t pos = 0;
	int32_t status = 1;

	hand_open(&c, 3, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	e[0] = hand_copy(&c, 32 * MIB, 0, 20 * MIB);
	e[1] = hand_second(UINT64_MAX - 1);
	e[0].flags = GM_ENTRY_MORE;
	hand_submit(&c, e, 2);
	EQ(fast_turn(s, &k), 0);
	EQ(fast_turn(s, &k), 0);
	EQ(s->work.deadline_ns, UINT64_MAX - 1);
	s->work.deadline_ns = hand_now();
	EQ(fast_turn(s, &k), 2);
	EQ(k.runs, 2);
	OK(hand_take(&c, &pos, &status));
	EQ(status, -ETIME);
	OK(hand_take(&c, &pos, &status));
	EQ(pos, 1);
	stop(&c, s);
}

static const char *why_of(const struct gm_entry *e, uint32_t n, bool flip)
{
	struct counting k = { .dev.backend = &counting_backend };
	static char why[80];
	struct hand_client c;
	struct gm_worker_session *s;

	hand_open(&c, 3, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	hand_submit(&c, e, n);
	if (flip) {
		/* One turn, in which only the first slot is taken. */
		gm_a64 *slot = gm_ring_slot(&c.entries, 1, GM_ENTRY_WORDS);

		fast_turn(s, &k);
		gm_put(slot, gm_ring_first(1, 0));
	}
	while (!s->why && gm_turn_due(s))
		fast_turn(s, &k);
	snprintf(why, sizeof(why), "%s", s->why ? s->why : "none");
	stop(&c, s);
	return why;
}

static void slots_come_in_pairs(void)
{
	struct hand_client c = { .incarnation = 1 };
	struct gm_entry pair[2] = { hand_copy(&c, 32 * MIB, 0, 3 * MIB / 2),
				    hand_second(0) };
	struct gm_entry lone = hand_second(0), first = hand_nop(&c);

	first.flags = pair[0].flags = GM_ENTRY_MORE;
	STR(why_of(pair, 2, false), "none");
	STR(why_of(&lone, 1, false), "a second slot without a first");
	STR(why_of(&first, 1, false), "a first slot without a second");
	STR(why_of(pair, 2, true), "a second slot was taken back");
	pair[1] = pair[0];
	STR(why_of(pair, 2, false), "a first slot without a second");
}

static void positions_wrap(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	uint32_t pos;
	int32_t status = 1;

	hand_open(&c, 7, 0, ROW, 16, MIB);
	s = serve(&c);
	c.entries.pos = c.done.pos = UINT32_MAX - 20;
	s->entries.pos = s->done.pos = UINT32_MAX - 20;
	for (int i = 0; i < 60; i++) {
		struct gm_entry e = hand_nop(&c);
		uint32_t want = c.entries.pos;

		hand_submit(&c, &e, 1);
		gm_quantum_serve(s, &k.dev);
		if (!hand_take(&c, &pos, &status) || pos != want)
			OK(!"a position was lost in the wrap");
	}
	EQ(c.done.pos, 39);
	stop(&c, s);
}

static void the_next_owner_goes_on(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e[3];
	uint32_t odd, pos;
	int32_t status = 1;

	hand_open(&c, 8, 9, ROW, 16, MIB);
	s = serve(&c);
	odd = gm_get(&c.queue->parked);
	OK(odd & 1);
	for (int i = 0; i < 3; i++)
		e[i] = hand_nop(&c);
	hand_submit(&c, e, 3);
	EQ(gm_quantum_serve(s, &k.dev), 3);

	/* The worker dies, and another comes: the journal stays. */
	gm_session_unmap(s, &close_thread, free);
	c.incarnation = 2;
	s = serve(&c);
	OK(gm_get(&c.queue->parked) & 1);
	OK(gm_get(&c.queue->parked) != odd);
	EQ(gm_get(&c.queue->incarnation), 2);
	EQ(s->entries.pos, 3);
	EQ(s->done.pos, 3);
	hand_submit(&c, e, 1); /* one from before */
	EQ(gm_quantum_serve(s, &k.dev), 1);
	for (int i = 0; i < 4; i++)
		EQ(hand_take(&c, &pos, &status), 1);
	EQ(status, -EIO);
	stop(&c, s);
}

static void sleepers_are_woken_once(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e;
	char bytes[8];

	hand_open(&c, 9, 0, ROW, 16, MIB);
	s = serve(&c);
	e = hand_nop(&c);
	hand_submit(&c, &e, 1);
	gm_quantum_serve(s, &k.dev);
	EQ(gm_get(&c.page->wake), 0); /* awake: no client calls */

	gm_put(&c.page->by_fd, 1);
	gm_ring_park(&c.page->parked, &c.parked);
	for (int i = 0; i < 3; i++) {
		hand_submit(&c, &e, 1);
		gm_quantum_serve(s, &k.dev);
	}
	EQ(gm_get(&c.page->wake), 1);
	EQ(recv(c.socket[0], bytes, sizeof(bytes), MSG_DONTWAIT), 1);
	EQ(gm_get(&journal->wakes), 1);
	stop(&c, s);
}

static void lost_memory_ends_the_session(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry e;

	hand_open(&c, 10, 0, ROW, 16, MIB);
	s = serve(&c);
	e = hand_nop(&c);
	hand_submit(&c, &e, 1);
	EQ(ftruncate(c.queues, 0), 0);
	OK(!gm_turn_due(s)); /* the handler put a page of zeroes there */
	OK(gm_get(&gm_sigbus_seen));
	OK(gm_get(&s->mapping.broken));
	EQ(gm_quantum_serve(s, &k.dev), 0);
	STR(s->why, GM_SESSION_BROKEN);
	gm_put(&gm_sigbus_seen, 0);
	gm_journal_close(s->owed);
	gm_session_unmap(s, &close_thread, free);
	close(c.queues);
	close(c.arena);
}

TAP_CASE()
{
	turn_begin();
	no_ops_are_answered_in_batches();
	half_a_turn_is_visible_during_the_other();
	errors_end_one_job();
	a_breach_stops_everything_behind_it();
	second_slots_end_by_themselves();
	a_deadline_holds_between_slices();
	slots_come_in_pairs();
	positions_wrap();
	the_next_owner_goes_on();
	sleepers_are_woken_once();
	lost_memory_ends_the_session();
	turn_end();
	return tap_done();
}
