/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * relacy_ring - the orders of shm/ring.h.
 *
 * test: circle: entries and completions arrive whole, round both rings
 * test: wake: no consumer sleeps beside a batch whose producer saw it awake
 * test: adopt: the same for the heir of a counter that has been answered
 * test: rounds: nor after any number of sleeps
 *
 * weaken: circle gm_ring_peek gm_get_acquire: a sequence without its words
 * weaken: wake gm_ring_put gm_put_ordered: parked is loaded before it is seen
 * weaken: wake gm_ring_must_wake gm_get_ordered: the same, from the other end
 * weaken: wake gm_ring_park gm_put_ordered: the slot is loaded too early
 * weaken: wake gm_ring_recheck gm_get_ordered: the same, from the other end
 * weaken: adopt gm_ring_adopt gm_put_ordered: the slot is loaded too early
 *
 * spare: circle gm_ring_put gm_put_release: the batch's first slot covers it
 *
 * edit: circle ring.h s/gm_put_ordered(&slot/gm_put(\&slot/: the sequence alone
 * edit: wake relacy_ring.cpp s/i = n; i-- > 0;/i = 0; i < n; i++/: forwards
 * edit: adopt ring.h s/| 1) + 2/| 1)/: a value that has been answered
 * edit: rounds ring.h s/| 1) + 1/| 1)/: one odd value for every sleep
 */

#include "relacy/test.h"
#include "shm/ring.h"

#define WORDS 3

static uint64_t word_of(uint32_t pos, uint32_t i)
{
	return UINT64_C(100) * (pos + 1) + i;
}

/* Both ends of a ring of entries, in the hands of two threads. */
template <uint32_t depth> struct queue {
	gm_a64 slots[depth * WORDS];
	struct gm_ring in, out;

	void open()
	{
		struct gm_ring end = { slots, depth - 1, 0 };

		for (int i = 0; i < depth * WORDS; i++)
			gm_put(&slots[i], 0);
		in = out = end;
	}

	/* Publish @n entries, the first of them last. */
	void put(uint32_t n)
	{
		uint64_t words[WORDS];

		for (uint32_t i = n; i-- > 0;) {
			for (uint32_t k = 0; k < WORDS; k++)
				words[k] = word_of(in.pos + i, k) << 32;
			gm_ring_put(&in, WORDS, i, words);
		}
		in.pos += n;
	}

	bool take()
	{
		uint64_t words[WORDS];

		if (!gm_ring_peek(&out, WORDS, 0, words))
			return false;
		for (uint32_t k = 0; k < WORDS; k++)
			RL_ASSERT(words[k] >> 32 == word_of(out.pos, k));
		out.pos++;
		return true;
	}
};

/* Credit alone says when a slot may be filled again. */
struct circle_test : rl::test_suite<circle_test, 2> {
	static const uint32_t depth = 2, entries = 4;

	struct queue<depth> submissions, completions;

	void before()
	{
		submissions.open();
		completions.open();
	}

	void client()
	{
		uint32_t submitted = 0, taken = 0;

		while (taken < entries) {
			uint32_t n = depth - (submitted - taken);

			if (n > entries - submitted)
				n = entries - submitted;
			submissions.put(n);
			submitted += n;
			if (completions.take())
				taken++;
			else
				rl::yield(1, $);
		}
	}

	void worker()
	{
		for (uint32_t n = 0; n < entries;) {
			if (submissions.take()) {
				completions.put(1);
				n++;
			} else {
				rl::yield(1, $);
			}
		}
	}

	void thread(unsigned index)
	{
		if (index == 0)
			client();
		else
			worker();
	}
};

/* A sleeper takes what it finds and goes to sleep, once. */
template <bool adopted>
struct sleep_test : rl::test_suite<sleep_test<adopted>, 2> {
	struct queue<2> queue;
	gm_a32 parked;
	struct gm_waker waker;
	bool asleep, woken;

	void before()
	{
		queue.open();
		gm_put(&parked, adopted ? 1 : 0);
		waker.parked = &parked;
		waker.answered = adopted ? 1 : 0;
		asleep = woken = false;
	}

	void thread(unsigned index)
	{
		uint32_t own = 0;

		if (index == 0) {
			queue.put(1 + rl::rand(2));
			woken = gm_ring_must_wake(&waker);
			return;
		}
		if (adopted) {
			gm_ring_adopt(&parked, &own);
		} else {
			while (queue.take())
				;
			gm_ring_park(&parked, &own);
		}
		asleep = !gm_ring_recheck(&queue.out, WORDS);
	}

	void after()
	{
		RL_ASSERT(!asleep || woken || queue.out.pos == queue.in.pos);
	}
};

/* A lost wake leaves the sleeper waiting until Relacy loses patience. */
struct rounds_test : rl::test_suite<rounds_test, 2> {
	static const uint32_t entries = 3;

	struct queue<4> queue;
	gm_a32 parked, doorbell;
	struct gm_waker waker;

	void before()
	{
		queue.open();
		gm_put(&parked, 0);
		gm_put(&doorbell, 0);
		waker.parked = &parked;
		waker.answered = 0;
	}

	void producer()
	{
		for (uint32_t n = 0; n < entries; n++) {
			queue.put(1);
			if (gm_ring_must_wake(&waker))
				gm_put_ordered(&doorbell, 1);
		}
	}

	void sleeper()
	{
		uint32_t own = 0;

		while (queue.out.pos < entries) {
			if (queue.take())
				continue;
			gm_ring_park(&parked, &own);
			if (!gm_ring_recheck(&queue.out, WORDS)) {
				while (!doorbell.exchange(0, rl::mo_seq_cst, $))
					rl::yield(1, $);
			}
			gm_ring_unpark(&parked, &own);
		}
	}

	void thread(unsigned index)
	{
		if (index == 0)
			producer();
		else
			sleeper();
	}
};

static const struct gm_test tests[] = {
	{ "circle", rl::simulate<circle_test> },
	{ "wake", rl::simulate<sleep_test<false>> },
	{ "adopt", rl::simulate<sleep_test<true>> },
	{ "rounds", rl::simulate<rounds_test> },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return gm_run(tests, argc, argv);
}
