/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* turn: the worker's end of a queue, served in this process over a memfd, by a
 * backend that only counts. */

#include "agent/device/device.h"
#include "agent/worker/fault.h"
#include "agent/worker/turn.h"
#include "hand_client.h"
#include "tap.h"

#define ROW 0u
#define MIB (UINT64_C(1) << 20)
#define KIB (UINT64_C(1) << 10)

struct counting {
	struct gm_device dev;
	uint32_t runs;
	uint64_t elements;
	uint64_t largest; /* bytes of one run */
	uint64_t next;    /* element at which the next slice has to begin */
	bool gap;         /* one did not */
	int rc;
	struct hand_client *seen; /* completions at the last run: */
	uint32_t n_seen;
};

static uint32_t n_done(const struct hand_client *c)
{
	uint64_t words[GM_DONE_WORDS];
	uint32_t n = 0;

	while (n < c->depth && gm_ring_peek(&c->done, GM_DONE_WORDS, n, words))
		n++;
	return n;
}

static int count_run(struct gm_device *dev, const struct gm_task *task,
		     uint64_t first, uint64_t count)
{
	struct counting *k = (struct counting *)dev;
	uint64_t bytes = count * gm_dtype_bytes(task->dtype);

	k->runs++;
	k->elements += count;
	k->gap = k->gap || (first != 0 && first != k->next);
	k->next = first + count;
	if (bytes > k->largest)
		k->largest = bytes;
	if (k->seen)
		k->n_seen = n_done(k->seen);
	return k->rc;
}

static const struct gm_backend counting_backend = { .name = "counting",
						    .run = count_run };

static struct gm_journal *journal;
static int journal_fd;
static struct gm_closer closer;

static struct gm_session *serve(struct hand_client *c)
{
	int fds[GM_SESSION_FDS] = { c->queues, c->arena, dup(c->doorbell),
				    dup(c->socket[1]) };
	struct gm_wire wire = hand_attach(c, ROW);
	struct gm_session *s;

	if (gm_session_map(&wire, fds, journal, -1, true, &s) < 0)
		exit(99);
	gm_session_take_over(s, c->incarnation);
	return s;
}

/* A turn on a machine that is fast enough for whole shares, whatever this one
 * is: what the clock makes of a share is gm_turn_share()'s own test. */
static uint32_t fast_turn(struct gm_session *s, struct counting *k)
{
	s->share = GM_TURN_BYTES;
	return gm_turn_serve(s, &k->dev);
}

static void stop(struct hand_client *c, struct gm_session *s)
{
	gm_journal_close(s->owed);
	gm_session_unmap(s, &closer, free);
	hand_close(c, ROW);
}

static void no_ops_are_answered_in_batches(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct gm_entry e[100];
	struct hand_client c;
	struct gm_session *s;
	uint32_t pos;
	int32_t status = 1;

	hand_open(&c, 1, 0, ROW, 128, MIB);
	s = serve(&c);
	EQ(gm_turn_serve(s, &k.dev), 0);
	for (int i = 0; i < 100; i++)
		e[i] = hand_nop(&c);
	hand_submit(&c, e, 100);
	OK(gm_turn_due(s));
	EQ(gm_turn_serve(s, &k.dev), GM_TURN_ENTRIES);
	EQ(n_done(&c), GM_TURN_ENTRIES);
	while (gm_turn_due(s))
		gm_turn_serve(s, &k.dev);
	for (uint32_t i = 0; i < 100; i++)
		if (!hand_take(&c, &pos, &status) || pos != i || status != 0)
			OK(!"a completion is missing or out of order");
	EQ(n_done(&c), 0);
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
	struct gm_session *s;

	hand_open(&c, 1, 0, ROW, 128, MIB);
	s = serve(&c);
	k.seen = &c;
	for (uint32_t i = 0; i < GM_TURN_BATCH + 3; i++)
		e[i] = hand_nop(&c);
	e[GM_TURN_BATCH + 3] = hand_copy(&c, 4096, 0, 64);
	hand_submit(&c, e, GM_TURN_BATCH + 4);
	EQ(gm_turn_serve(s, &k.dev), GM_TURN_BATCH + 4);
	EQ(k.runs, 1);
	EQ(k.n_seen, GM_TURN_BATCH);
	EQ(n_done(&c), GM_TURN_BATCH + 4);
	stop(&c, s);
}

static void long_jobs_go_in_slices(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_session *s;
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
	EQ(n_done(&c), 2);
	stop(&c, s);
}

/* Larger than a turn that nobody has set, or smaller. */
static void a_device_may_say_how_long_a_slice_is(void)
{
	static const uint64_t slices[] = { 64 * KIB, 4 * MIB };

	for (uint32_t i = 0; i < 2; i++) {
		struct counting k = { .dev = { .backend = &counting_backend,
					       .slice_bytes = slices[i] } };
		struct hand_client c;
		struct gm_session *s;
		struct gm_entry e;

		hand_open(&c, 2, 0, ROW, 16, 64 * MIB);
		s = serve(&c);
		e = hand_copy(&c, 32 * MIB, 0, 8 * MIB + 1);
		hand_submit(&c, &e, 1);
		while (gm_turn_due(s)) {
			s->share = slices[i];
			gm_turn_serve(s, &k.dev);
		}
		EQ(k.elements, 8 * MIB + 1);
		EQ(k.largest, slices[i]);
		OK(!k.gap);
		EQ(k.runs, 8 * MIB / slices[i] + 1);
		/* Nobody is faster than the device lets him be. */
		EQ(gm_turn_share(slices[i], slices[i], 1, slices[i]),
		   slices[i]);
		stop(&c, s);
	}
}

/* Whoever has as much of the device as it gives has not been slow. */
static void small_slices_cost_what_they_are(void)
{
	struct counting k = { .dev = { .backend = &counting_backend,
				       .slice_bytes = 64 * KIB } };
	struct hand_client c;
	struct gm_session *s;
	struct gm_entry e;
	int64_t before;

	hand_open(&c, 2, 0, ROW, 16, 64 * MIB);
	s = serve(&c);
	e = hand_copy(&c, 32 * MIB, 0, MIB);
	hand_submit(&c, &e, 1);
	s->share = 64 * KIB;
	before = s->deficit.bytes;
	gm_turn_serve(s, &k.dev);
	EQ(before - s->deficit.bytes, 64 * KIB);
	s->share = 16 * KIB;
	before = s->deficit.bytes;
	gm_turn_serve(s, &k.dev);
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
	struct gm_session *s;
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
	EQ(n_done(&c), 4);
	stop(&c, s);
}

static void turns_have_a_budget(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_session *s;
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

static void errors_end_one_job(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_session *s;
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
		gm_turn_serve(s, &k.dev);
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
	struct gm_session *s;
	struct gm_entry e[4];

	hand_open(&c, 6, 0, ROW, 16, MIB);
	s = serve(&c);
	for (int i = 0; i < 4; i++)
		e[i] = hand_nop(&c);
	e[2].op = 99;
	hand_submit(&c, e, 4);
	EQ(gm_turn_serve(s, &k.dev), 2);
	STR(s->why, "unknown operation");
	EQ(n_done(&c), 2);
	EQ(s->entries.pos, 2);
	stop(&c, s);
}

/* The entry's second slot ends behind it, by itself. */
static void second_slots_end_by_themselves(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct gm_journal_state state;
	struct hand_client c;
	struct gm_session *s;
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
	EQ(n_done(&c), 2);

	/* It has begun and its second slot has not been read. */
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
	struct gm_session *s;
	struct gm_entry e[2];
	uint32_t pos;
	int32_t status;

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
	struct gm_session *s;

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
	struct gm_session *s;
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
		gm_turn_serve(s, &k.dev);
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
	struct gm_session *s;
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
	EQ(gm_turn_serve(s, &k.dev), 3);

	/* It dies, and another comes: the journal stays. */
	gm_session_unmap(s, &closer, free);
	c.incarnation = 2;
	s = serve(&c);
	OK(gm_get(&c.queue->parked) & 1);
	OK(gm_get(&c.queue->parked) != odd);
	EQ(gm_get(&c.queue->incarnation), 2);
	EQ(s->entries.pos, 3);
	EQ(s->done.pos, 3);
	hand_submit(&c, e, 1); /* one from before */
	EQ(gm_turn_serve(s, &k.dev), 1);
	for (int i = 0; i < 4; i++)
		EQ(hand_take(&c, &pos, &status), 1);
	EQ(status, -EIO);
	stop(&c, s);
}

static void sleepers_are_woken_once(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct hand_client c;
	struct gm_session *s;
	struct gm_entry e;
	char bytes[8];

	hand_open(&c, 9, 0, ROW, 16, MIB);
	s = serve(&c);
	e = hand_nop(&c);
	hand_submit(&c, &e, 1);
	gm_turn_serve(s, &k.dev);
	EQ(gm_get(&c.page->wake), 0); /* awake: nobody calls */

	gm_put(&c.page->by_fd, 1);
	gm_ring_park(&c.page->parked, &c.parked);
	for (int i = 0; i < 3; i++) {
		hand_submit(&c, &e, 1);
		gm_turn_serve(s, &k.dev);
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
	struct gm_session *s;
	struct gm_entry e;

	hand_open(&c, 10, 0, ROW, 16, MIB);
	s = serve(&c);
	e = hand_nop(&c);
	hand_submit(&c, &e, 1);
	EQ(ftruncate(c.queues, 0), 0);
	OK(!gm_turn_due(s)); /* the handler put a page of zeroes there */
	OK(gm_fault_seen);
	OK(s->ground.broken);
	EQ(gm_turn_serve(s, &k.dev), 0);
	STR(s->why, GM_SESSION_BROKEN);
	gm_fault_seen = 0;
	gm_journal_close(s->owed);
	gm_session_unmap(s, &closer, free);
	close(c.queues);
	close(c.arena);
}

/* Bytes alone do not bound time. */
static void slow_work_gets_a_smaller_share(void)
{
	uint64_t share = GM_TURN_BYTES;

	/* As fast as memory. */
	EQ(gm_turn_share(share, MIB, GM_TURN_NS * 4 / 5, GM_TURN_BYTES),
	   GM_TURN_BYTES);
	/* Twenty times slower for its size. */
	share = gm_turn_share(share, MIB, 20 * GM_TURN_NS, GM_TURN_BYTES);
	EQ(share, 3 * GM_TURN_LEAST); /* 1 MiB / 20 in whole pages */
	/* Never less than this, however slow. */
	EQ(gm_turn_share(share, GM_TURN_LEAST, 10000000, GM_TURN_BYTES),
	   GM_TURN_LEAST);
	/* Fast again: it doubles. */
	share = gm_turn_share(share, share, 1000, GM_TURN_BYTES);
	EQ(share, 6 * GM_TURN_LEAST);
	EQ(gm_turn_share(GM_TURN_BYTES, MIB, 0, GM_TURN_BYTES), GM_TURN_BYTES);
	/* A few bytes tell nothing. */
	EQ(gm_turn_share(share, 4096, 1000000, GM_TURN_BYTES), share);
}

int main(void)
{
	slow_work_gets_a_smaller_share();
	journal = hand_share("test-journal", GM_JOURNAL_BYTES, &journal_fd);
	gm_closer_init(&closer);
	EQ(gm_fault_init(), 0);
	no_ops_are_answered_in_batches();
	half_a_turn_is_visible_during_the_other();
	long_jobs_go_in_slices();
	a_device_may_say_how_long_a_slice_is();
	small_slices_cost_what_they_are();
	nobody_waits_for_the_long_job_behind();
	turns_have_a_budget();
	errors_end_one_job();
	a_breach_stops_everything_behind_it();
	second_slots_end_by_themselves();
	a_deadline_holds_between_slices();
	slots_come_in_pairs();
	positions_wrap();
	the_next_owner_goes_on();
	sleepers_are_woken_once();
	lost_memory_ends_the_session();
	gm_closer_stop(&closer);
	return tap_done();
}
