/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ring: order, wrap, batches, the wake handshake, and both ends as threads over
 * one mapping.  Run under TSan too.
 */

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "shm/queue.h"
#include "tests/support/tap.h"

#define DEPTH 16

static gm_a64 slots[DEPTH * GM_ENTRY_WORDS];
static gm_a64 done_slots[DEPTH * GM_DONE_WORDS];
static gm_a32 parked;

static void reset(struct gm_ring *in, struct gm_ring *out, uint32_t pos)
{
	memset((void *)slots, 0, sizeof(slots));
	*in = (struct gm_ring){ slots, DEPTH - 1, pos };
	*out = (struct gm_ring){ slots, DEPTH - 1, pos };
}

static void put(struct gm_ring *in, uint64_t value)
{
	uint64_t words[GM_ENTRY_WORDS] = { UINT64_C(7) << 32, value };

	gm_ring_put(in, GM_ENTRY_WORDS, 0, words);
	in->pos++;
}

static void an_empty_ring_is_not_ready(void)
{
	struct gm_ring in, out;
	uint64_t got[GM_ENTRY_WORDS];

	reset(&in, &out, 0);
	EQ(gm_ring_peek(&out, GM_ENTRY_WORDS, 0, got), 0);
	OK(!gm_ring_ready(&out, GM_ENTRY_WORDS));
	OK(!gm_ring_recheck(&out, GM_ENTRY_WORDS));
}

static void entries_come_out_in_order_over_the_wrap(void)
{
	struct gm_ring in, out;
	uint64_t got[GM_ENTRY_WORDS];
	bool right = true;

	/* Positions pass 2^32 - 1, whose sequence is 0, and go on from 0. */
	reset(&in, &out, UINT32_MAX - DEPTH);
	for (uint64_t i = 0; i < 4 * DEPTH; i++) {
		put(&in, i);
		right = right && gm_ring_peek(&out, GM_ENTRY_WORDS, 0, got);
		right = right && got[1] == i && got[0] >> 32 == 7;
		out.pos++;
		/* Position 2^32 - 1 of a fresh ring would look ready. */
		right = right && !gm_ring_ready(&out, GM_ENTRY_WORDS);
	}
	OK(right);
}

static void a_full_turn_keeps_every_entry(void)
{
	struct gm_ring in, out;
	uint64_t got[GM_ENTRY_WORDS];
	bool right = true;

	reset(&in, &out, 5);
	for (uint64_t i = 0; i < DEPTH; i++)
		put(&in, 100 + i);
	for (uint32_t i = 0; i < DEPTH; i++) {
		right = right && gm_ring_peek(&out, GM_ENTRY_WORDS, i, got);
		right = right && got[1] == 100 + i;
	}
	OK(right);
	EQ(gm_ring_peek(&out, GM_ENTRY_WORDS, DEPTH, got), 0);
}

static void a_batch_shows_when_its_first_slot_does(void)
{
	struct gm_ring in, out;
	uint64_t words[GM_ENTRY_WORDS] = { 0 }, got[GM_ENTRY_WORDS];

	reset(&in, &out, 3);
	for (uint32_t ahead = 3; ahead > 0; ahead--) {
		words[1] = ahead;
		gm_ring_put(&in, GM_ENTRY_WORDS, ahead, words);
		OK(!gm_ring_ready(&out, GM_ENTRY_WORDS));
	}
	words[1] = 0;
	gm_ring_put(&in, GM_ENTRY_WORDS, 0, words);
	for (uint32_t ahead = 0; ahead < 4; ahead++) {
		EQ(gm_ring_peek(&out, GM_ENTRY_WORDS, ahead, got), 1);
		EQ(got[1], ahead);
	}
	EQ(gm_ring_peek(&out, GM_ENTRY_WORDS, 4, got), 0);
}

static void an_odd_value_is_answered_once(void)
{
	struct gm_waker waker = { .parked = &parked };
	uint32_t own = 0;

	gm_put(&parked, 0);
	OK(!gm_ring_must_wake(&waker));
	gm_ring_park(&parked, &own);
	OK(gm_ring_must_wake(&waker));
	OK(!gm_ring_must_wake(&waker));
	gm_ring_unpark(&parked, &own);
	OK(!gm_ring_must_wake(&waker));
	gm_ring_park(&parked, &own);
	OK(gm_ring_must_wake(&waker));
}

/* A worker dies parked at a value that the client has answered.  Whatever is
 * found there, the next worker's first sleep has to be answered again. */
static void a_new_owner_parks_at_a_new_value(void)
{
	for (uint32_t left = 0; left < 6; left++) {
		struct gm_waker waker = { .parked = &parked };
		uint32_t own = 77;

		gm_put(&parked, left);
		gm_ring_must_wake(&waker);
		gm_ring_adopt(&parked, &own);
		EQ(own % 2, 1);
		OK(gm_ring_must_wake(&waker));
	}
	gm_put(&parked, UINT32_MAX);
	uint32_t own = 0;
	gm_ring_adopt(&parked, &own);
	EQ(own, 1);
}

static void entries_survive_packing(void)
{
	struct gm_entry in = { .op = 1,
			       .flags = 2,
			       .dtype = 3,
			       .to = 4,
			       .incarnation = 5,
			       .dst = 6,
			       .src = 7,
			       .n = 8,
			       .value = 9,
			       .dst_buffer = 10,
			       .src_buffer = 11,
			       .zero = 12 };
	uint64_t words[GM_ENTRY_WORDS], again[GM_ENTRY_WORDS];
	struct gm_entry out;

	gm_entry_pack(&in, words);
	EQ((uint32_t)words[0], 0);
	memset(&out, 0xff, sizeof(out));
	gm_entry_unpack(words, &out);
	EQ(out.op + out.flags + out.dtype + out.to, 1 + 2 + 3 + 4);
	EQ(out.zero, 12);
	gm_entry_pack(&out, again);
	EQ(memcmp(words, again, sizeof(words)), 0);

	struct gm_more more = { .op = GM_OP_MORE,
				.n_waits = 2,
				.zero = 3,
				.deadline_ns = 4,
				.wait = { 5, 6, 7, 8 },
				.third = 9,
				.third_buffer = 10 },
		       second;
	gm_more_pack(&more, words);
	EQ((uint32_t)words[0], 0);
	OK(!gm_entry_has_more(words[0]));
	memset(&second, 0xff, sizeof(second));
	gm_more_unpack(words, &second);
	EQ(second.op + second.n_waits + second.zero, GM_OP_MORE + 2 + 3);
	EQ(second.wait[3] + second.third_buffer, 8 + 10);
	gm_more_pack(&second, again);
	EQ(memcmp(words, again, sizeof(words)), 0);
	in.flags = GM_ENTRY_MORE;
	gm_entry_pack(&in, words);
	OK(gm_entry_has_more(words[0]));

	uint64_t done[GM_DONE_WORDS];
	gm_done_pack(UINT32_MAX, -110, done);
	EQ(gm_done_status(done), -110);
	EQ(gm_done_position(done), UINT32_MAX);
}

static void queues_of_neighbouring_rows_do_not_touch(void)
{
	for (uint32_t d = GM_DEPTH_MIN; d <= GM_DEPTH_MAX; d *= 2) {
		uint64_t end = gm_queue_at(0, d) + sizeof(struct gm_queue) +
			       d * 8 * (GM_ENTRY_WORDS + GM_DONE_WORDS);

		OK(end <= gm_queue_at(1, d));
		EQ(gm_queue_at(1, d) % GM_PAGE, 0);
	}
}

/* ---- both ends as threads ---- */

#define JOBS 200000

struct pair {
	gm_a32 client_parked, worker_parked;
	gm_a32 bell; /* stands for the doorbell: wakes rung */
	gm_a32 wake;
};

static struct pair pair;

/* The other end of the pair: takes entries, completes them in batches. */
static void *serve(void *unused)
{
	struct gm_ring in = { slots, DEPTH - 1, 0 };
	struct gm_ring out = { done_slots, DEPTH - 1, 0 };
	struct gm_waker client = { .parked = &pair.client_parked };
	uint32_t own = 0, served = 0;

	while (served < JOBS) {
		uint64_t entry[GM_ENTRY_WORDS], done[DEPTH][GM_DONE_WORDS];
		uint32_t n = 0;

		while (n < DEPTH && gm_ring_peek(&in, GM_ENTRY_WORDS, 0, entry))
			gm_done_pack(in.pos++, (int32_t)entry[1], done[n++]);
		if (n == 0) {
			uint32_t rung = gm_get_acquire(&pair.bell);

			gm_ring_park(&pair.worker_parked, &own);
			while (!gm_ring_recheck(&in, GM_ENTRY_WORDS) &&
			       gm_get_acquire(&pair.bell) == rung)
				sched_yield();
			gm_ring_unpark(&pair.worker_parked, &own);
			continue;
		}
		for (uint32_t i = n; i-- > 0;)
			gm_ring_put(&out, GM_DONE_WORDS, i, done[i]);
		out.pos += n;
		served += n;
		if (gm_ring_must_wake(&client))
			gm_add_ordered(&pair.wake, 1);
	}
	return unused;
}

static void two_threads_lose_nothing(void)
{
	struct gm_ring in = { slots, DEPTH - 1, 0 };
	struct gm_ring out = { done_slots, DEPTH - 1, 0 };
	struct gm_waker worker = { .parked = &pair.worker_parked };
	uint32_t submitted = 0, taken = 0, own = 0, wrong = 0;
	pthread_t thread;

	memset((void *)slots, 0, sizeof(slots));
	memset((void *)done_slots, 0, sizeof(done_slots));
	if (!OK(pthread_create(&thread, NULL, serve, NULL) == 0))
		return;
	while (taken < JOBS) {
		uint64_t done[GM_DONE_WORDS];
		uint32_t n = 1 + submitted % 5;

		if (n > JOBS - submitted)
			n = JOBS - submitted;
		if (n != 0 && submitted - taken + n <= DEPTH) {
			for (uint32_t i = n; i-- > 0;) {
				uint64_t words[GM_ENTRY_WORDS] = { 0 };

				words[1] = (submitted + i) & 0xffff;
				gm_ring_put(&in, GM_ENTRY_WORDS, i, words);
			}
			in.pos += n;
			submitted += n;
			if (gm_ring_must_wake(&worker))
				gm_add_ordered(&pair.bell, 1);
			continue;
		}
		if (gm_ring_peek(&out, GM_DONE_WORDS, 0, done)) {
			wrong += gm_done_position(done) != taken;
			wrong += gm_done_status(done) !=
				 (int32_t)(taken & 0xffff);
			out.pos++;
			taken++;
			continue;
		}
		uint32_t seen = gm_get_acquire(&pair.wake);

		gm_ring_park(&pair.client_parked, &own);
		while (!gm_ring_recheck(&out, GM_DONE_WORDS) &&
		       gm_get_acquire(&pair.wake) == seen)
			sched_yield();
		gm_ring_unpark(&pair.client_parked, &own);
	}
	pthread_join(thread, NULL);
	EQ(wrong, 0);
	EQ(taken, JOBS);
}

TAP_CASE()
{
	an_empty_ring_is_not_ready();
	entries_come_out_in_order_over_the_wrap();
	a_full_turn_keeps_every_entry();
	a_batch_shows_when_its_first_slot_does();
	an_odd_value_is_answered_once();
	a_new_owner_parks_at_a_new_value();
	entries_survive_packing();
	queues_of_neighbouring_rows_do_not_touch();
	two_threads_lose_nothing();
	return tap_done();
}
