/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * journal: a worker that may die after each of its stores, a recovery process
 * that may die after each of its own and is then started again, positions on
 * both sides of every wrap.  Each entry must end exactly once.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tap.h"

/* The recovery's instants, as deaths: the real code is compiled in here. */
#define GM_POINT_H
#define GM_POINT(name) recover_step()

static jmp_buf death;
static int steps_to_live;

static void (*meanwhile)(void); /* what the client does */

static void recover_step(void)
{
	if (meanwhile)
		meanwhile();
	if (steps_to_live > 0 && --steps_to_live == 0)
		longjmp(death, 1);
}

#include "shm/journal.c"

#define DEPTH 16

static gm_a64 entry_slots[DEPTH * GM_ENTRY_WORDS];
static gm_a64 done_slots[DEPTH * GM_DONE_WORDS];
static struct gm_journal_queue queue;
static uint32_t start;                     /* first position of this story */
static int ended[4 * DEPTH], failed, wild; /* by entry, counted from start */

/* The client's ends, and the worker's. */
static struct gm_ring in, out, worker_in, worker_out;

static void begin(uint32_t at)
{
	start = at;
	memset((void *)entry_slots, 0, sizeof(entry_slots));
	memset((void *)done_slots, 0, sizeof(done_slots));
	memset(ended, 0, sizeof(ended));
	failed = wild = 0;
	gm_journal_open(&queue, 42);
	gm_journal_advance(&queue, at);
	in = worker_in = (struct gm_ring){ entry_slots, DEPTH - 1, at };
	out = worker_out = (struct gm_ring){ done_slots, DEPTH - 1, at };
}

static void submit(uint32_t n)
{
	uint64_t words[GM_ENTRY_WORDS] = { 0 };

	for (uint32_t i = n; i-- > 0;)
		gm_ring_put(&in, GM_ENTRY_WORDS, i, words);
	in.pos += n;
}

static void take_completions(void)
{
	uint64_t words[GM_DONE_WORDS] = { 0 };

	while (gm_ring_peek(&out, GM_DONE_WORDS, 0, words)) {
		uint32_t entry = gm_done_position(words) - start;

		if (entry < 4 * DEPTH)
			ended[entry]++;
		else
			wild++;
		failed += gm_done_status(words) == -EIO;
		out.pos++;
	}
}

/* The worker's stores for a batch of @n entries that it has finished, @taken of
 * which had been journalled at consumption; dies after @limit stores.  Returns
 * whether it lived. */
static bool work(uint32_t n, bool taken, int limit)
{
	uint64_t words[GM_DONE_WORDS] = { 0 };

	for (uint32_t i = 0; taken && i < n; i++) {
		if (limit-- == 0)
			return false;
		gm_journal_take(&queue, DEPTH - 1, worker_in.pos + i);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (limit-- == 0)
			return false;
		gm_journal_give(&queue, DEPTH - 1, worker_in.pos + i,
				worker_out.pos + i);
	}
	if (limit-- == 0)
		return false;
	gm_journal_advance(&queue, worker_out.pos + n);
	for (uint32_t i = n; i-- > 0;) {
		if (limit-- == 0)
			return false;
		gm_done_pack(worker_in.pos + i, 0, words);
		gm_ring_put(&worker_out, GM_DONE_WORDS, i, words);
	}
	worker_in.pos += n;
	worker_out.pos += n;
	return true;
}

/* Recover, dying at step @first, then at step @second of the next try, then not
 * at all. */
static void recover(int first, int second)
{
	volatile int round = 0;

	if (setjmp(death) != 0)
		round++;
	steps_to_live = round == 0 ? first : round == 1 ? second : 0;
	worker_in = (struct gm_ring){ entry_slots, DEPTH - 1, 0 };
	worker_out = (struct gm_ring){ done_slots, DEPTH - 1, 0 };
	gm_journal_recover(&queue, &worker_in, &worker_out, 0);
	steps_to_live = 0;
}

static bool each_ended_once(uint32_t n)
{
	bool right = wild == 0;

	for (uint32_t i = 0; i < 4 * DEPTH; i++)
		right = right && ended[i] == (i < n);
	return right;
}

/* One life: some entries done and taken, some done and not taken, a batch cut
 * short, some waiting; then the recovery, then a next worker goes on. */
static bool story(uint32_t at, bool taken, int limit, int first, int second)
{
	uint32_t n = DEPTH;
	bool right;

	begin(at);
	submit(DEPTH);
	work(5, false, -1);
	take_completions();
	submit(4);
	n += 4;
	work(3, true, -1);
	work(6, taken, limit);
	recover(first, second);
	take_completions();
	right = each_ended_once(n);

	/* The next worker starts where the journal says; it takes what it
	 * finds over the words of its forerunner, and dies of that. */
	right = right && worker_in.pos == in.pos && worker_out.pos == out.pos;
	submit(DEPTH);
	right = right && !work(DEPTH, true, DEPTH);
	recover(second, 0);
	take_completions();
	return right && each_ended_once(n + DEPTH) && failed <= (int)n + 8;
}

static void entries_end_once_wherever_anybody_dies(void)
{
	static const uint32_t starts[] = {
		0,          1,          DEPTH - 1,      0x7ffffff0,
		0x7fffffff, 0x80000000, UINT32_MAX - 3, UINT32_MAX,
	};
	unsigned n = 0, wrong = 0;

	for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++)
		for (int taken = 0; taken < 2; taken++)
			for (int limit = 0; limit <= 19; limit++)
				for (int f = 0; f < 40; f++)
					for (int g = 0; g < 40;
					     g += 1 + f % 3) {
						n++;
						wrong +=
							!story(starts[s], taken,
							       limit, f, g);
					}
	NOTE("%u lives and deaths", n);
	EQ(wrong, 0);
}

static void a_second_recovery_finds_nothing(void)
{
	begin(9);
	submit(10);
	work(4, true, 6);
	recover(0, 0);
	take_completions();
	OK(each_ended_once(10));
	EQ(gm_journal_recover(&queue, &worker_in, &worker_out, 0), 0);
	take_completions();
	OK(each_ended_once(10));
}

static void completions_out_of_order_are_remembered(void)
{
	begin(100);
	submit(4);
	for (uint32_t i = 0; i < 4; i++)
		gm_journal_take(&queue, DEPTH - 1, 100 + i);
	/* The third ends first and its completion is posted; the first has a
	 * position and no completion. */
	uint64_t words[GM_DONE_WORDS] = { 0 };

	gm_journal_give(&queue, DEPTH - 1, 102, 100);
	gm_journal_advance(&queue, 101);
	gm_done_pack(102, 0, words);
	gm_ring_put(&worker_out, GM_DONE_WORDS, 0, words);
	gm_journal_give(&queue, DEPTH - 1, 100, 101);
	recover(0, 0);
	take_completions();
	OK(each_ended_once(4));
	EQ(failed, 3);
}

/* The first of many ends last: when it does, the words still hold completion
 * positions whose slots have long been used again. */
static void old_completion_positions_are_left_alone(void)
{
	uint64_t words[GM_DONE_WORDS] = { 0 };

	begin(0);
	submit(DEPTH);
	gm_journal_take(&queue, DEPTH - 1, 0);
	for (uint32_t i = 1; i < DEPTH; i++)
		gm_journal_give(&queue, DEPTH - 1, i, i - 1);
	gm_journal_give(&queue, DEPTH - 1, 0, DEPTH - 1);
	gm_journal_advance(&queue, 2 * DEPTH);
	for (uint32_t i = 0; i < DEPTH; i++) {
		worker_out.pos = DEPTH + i;
		gm_done_pack(DEPTH + i, 0, words);
		gm_ring_put(&worker_out, GM_DONE_WORDS, 0, words);
	}
	out.pos = DEPTH;
	gm_journal_recover(&queue, &worker_in, &worker_out, 0);
	take_completions();
	EQ(wild, 0);
	EQ(ended[0] + ended[1] + ended[DEPTH - 1], 0);
	EQ(ended[DEPTH] + ended[2 * DEPTH - 1], 2);
}

static void a_client_that_fills_its_ring_forever_ends(void)
{
	begin(0);
	/* Every slot claims to be ready for whatever position comes next. */
	for (uint32_t turn = 0; turn < 3; turn++)
		for (uint32_t i = 0; i < DEPTH; i++)
			gm_put(&entry_slots[i * GM_ENTRY_WORDS], i + 1);
	EQ(gm_journal_recover(&queue, &worker_in, &worker_out, -ENODEV), DEPTH);
	EQ(worker_in.pos, DEPTH);
}

static void submit_pair(void)
{
	uint64_t words[GM_ENTRY_WORDS] = { UINT64_C(0xff) << 32 };

	gm_ring_put(&in, GM_ENTRY_WORDS, 1, words);
	words[0] = (uint64_t)GM_ENTRY_MORE << 40;
	gm_ring_put(&in, GM_ENTRY_WORDS, 0, words);
	in.pos += 2;
}

static void take_and_submit_pairs(void)
{
	take_completions();
	while (in.pos - out.pos <= DEPTH - 2)
		submit_pair();
}

/* The next worker reads on where the recovery process stopped. */
static void two_slots_are_recovered_together(void)
{
	for (uint32_t lead = 0; lead < 2; lead++) {
		begin(0);
		submit(lead);
		take_and_submit_pairs();
		meanwhile = take_and_submit_pairs;
		EQ(gm_journal_recover(&queue, &worker_in, &worker_out, 0),
		   DEPTH + lead);
		meanwhile = NULL;
		EQ((worker_in.pos - lead) % 2, 0);
		take_completions();
		OK(each_ended_once(DEPTH + lead));
	}
}

static void a_recovery_may_give_another_reason(void)
{
	uint64_t words[GM_DONE_WORDS] = { 0 };

	begin(0);
	submit(1);
	EQ(gm_journal_recover(&queue, &worker_in, &worker_out, -ENODEV), 1);
	EQ(gm_ring_peek(&out, GM_DONE_WORDS, 0, words), 1);
	EQ(gm_done_status(words), -ENODEV);
}

/* gpumapd, the worker and recovery each map the file: a place begins where the
 * header says, on a line of its own, and the last one ends with the file. */
static void places_are_where_the_header_says(void)
{
	char *file = aligned_alloc(4096, GM_JOURNAL_BYTES);
	struct gm_journal *journal = (struct gm_journal *)(void *)file;
	const char *last;

	if (!OK(file != NULL))
		return;
	last = (char *)gm_journal_at(journal, GM_JOURNAL_PLACES - 1);
	EQ((char *)gm_journal_at(journal, 0) - file, 4096);
	EQ((char *)gm_journal_at(journal, 1) -
		   (char *)gm_journal_at(journal, 0),
	   (intmax_t)sizeof(struct gm_journal_queue));
	EQ((uintptr_t)gm_journal_at(journal, 1) % GM_LINE, 0);
	EQ(last + sizeof(struct gm_journal_queue) - file,
	   (intmax_t)GM_JOURNAL_BYTES);
	free(file);
}

TAP_CASE()
{
	places_are_where_the_header_says();
	entries_end_once_wherever_anybody_dies();
	a_second_recovery_finds_nothing();
	completions_out_of_order_are_remembered();
	old_completion_positions_are_left_alone();
	a_client_that_fills_its_ring_forever_ends();
	two_slots_are_recovered_together();
	a_recovery_may_give_another_reason();
	return tap_done();
}
