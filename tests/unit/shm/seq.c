/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * seq: blocks named by a slot, versions over eight buffers, and readers that
 * race a writer in another thread.  Run under TSan too.
 */

#include <pthread.h>
#include <string.h>

#include "shm/seq.h"
#include "tests/support/tap.h"

#define WORDS  6
#define BLOCKS 4

static gm_a64 slot;
static gm_a64 block[BLOCKS][WORDS];
static gm_a64 version;
static gm_a64 buffers[GM_SEQ_BUFFERS][WORDS];
static gm_a32 stop;

static void slot_words_keep_version_and_unit_apart(void)
{
	uint64_t last = gm_seq_word((UINT64_C(1) << 40) - 1, 0xffffff);

	EQ(gm_seq_unit(gm_seq_word(1, 0xffffff)), 0xffffff);
	EQ(gm_seq_version(gm_seq_word(1, 0xffffff)), 1);
	EQ(gm_seq_unit(last), 0xffffff);
	OK(gm_seq_version(last) == (UINT64_C(1) << 40) - 1);
	OK(last == UINT64_MAX);
}

static void a_reader_notices_a_new_publication(void)
{
	uint64_t words[WORDS] = { 1, 2, 3, 4, 5, 6 }, got[WORDS];
	uint64_t word;

	gm_seq_fill(block[1], words, WORDS);
	gm_seq_publish(&slot, gm_seq_word(1, 1));
	word = gm_seq_open(&slot);
	gm_seq_read(block[gm_seq_unit(word)], got, WORDS);
	OK(gm_seq_whole(&slot, word));
	EQ(memcmp(got, words, sizeof(got)), 0);

	/* The same block again is another publication all the same. */
	gm_seq_publish(&slot, gm_seq_word(2, 1));
	OK(!gm_seq_whole(&slot, word));
}

static void nothing_is_read_before_the_first_version(void)
{
	uint64_t got[WORDS];

	EQ(gm_seq_get_latest(&version, buffers[0], WORDS, got, WORDS), 0);
}

static void versions_go_round_the_buffers(void)
{
	uint64_t words[WORDS], got[WORDS];
	bool same = true;

	for (uint64_t v = 1; v <= 3 * GM_SEQ_BUFFERS; v++) {
		for (size_t i = 0; i < WORDS; i++)
			words[i] = 100 * v + i;
		same = same && gm_seq_put_next(&version, buffers[0], WORDS,
					       words, WORDS) == v;
		same = same && gm_seq_get_latest(&version, buffers[0], WORDS,
						 got, WORDS) == v;
		same = same && memcmp(got, words, sizeof(got)) == 0;
	}
	OK(same);
}

/* A reader that is overtaken between its loads, step by step: what it holds
 * counts as long as the writer cannot have begun to fill its buffer. */
static void a_reader_may_fall_six_versions_behind(void)
{
	uint64_t words[WORDS] = { 0 };
	uint64_t seen = gm_get(&version);

	for (unsigned behind = 0; behind <= GM_SEQ_BUFFERS; behind++) {
		bool ok = gm_get(&version) - seen <= GM_SEQ_DISTANCE;
		/* The writer may be inside of version + 1 at any time. */
		uint64_t filling = (gm_get(&version) + 1) % GM_SEQ_BUFFERS;

		EQ(ok, behind <= 6);
		OK(!ok || behind == 0 || filling != seen % GM_SEQ_BUFFERS);
		gm_seq_put_next(&version, buffers[0], WORDS, words, WORDS);
	}
}

/* Words that belong together: each is a function of the first. */
static void fill(uint64_t v, uint64_t words[WORDS])
{
	for (size_t i = 0; i < WORDS; i++)
		words[i] = v * 0x9e3779b97f4a7c15 + i;
}

static bool whole(const uint64_t words[WORDS], uint64_t v)
{
	uint64_t want[WORDS];

	fill(v, want);
	return memcmp(words, want, sizeof(want)) == 0;
}

static void *write_flat_out(void *arg)
{
	uint64_t words[WORDS], v = *(uint64_t *)arg;

	while (gm_get(&stop) == 0) {
		fill(++v, words);
		gm_seq_fill(block[v % BLOCKS], words, WORDS);
		gm_seq_publish(&slot, gm_seq_word(v, (uint32_t)(v % BLOCKS)));
		fill(gm_get(&version) + 1, words);
		gm_seq_put_next(&version, buffers[0], WORDS, words, WORDS);
	}
	return NULL;
}

static void readers_never_see_a_torn_object(void)
{
	uint64_t got[WORDS], words[WORDS], start = 1000;
	unsigned good = 0, torn = 0, moved = 0, moved_torn = 0, tries = 0;
	pthread_t writer;

	fill(start, words);
	gm_seq_fill(block[start % BLOCKS], words, WORDS);
	gm_seq_publish(&slot, gm_seq_word(start, start % BLOCKS));
	fill(gm_get(&version) + 1, words);
	gm_seq_put_next(&version, buffers[0], WORDS, words, WORDS);
	if (!OK(pthread_create(&writer, NULL, write_flat_out, &start) == 0))
		return;

	while (tries++ < 20000000 && (good < 200000 || moved < 200000)) {
		uint64_t word = gm_seq_open(&slot), v;

		gm_seq_read(block[gm_seq_unit(word)], got, WORDS);
		if (gm_seq_whole(&slot, word)) {
			good++;
			torn += !whole(got, gm_seq_version(word));
		}
		v = gm_seq_get_latest(&version, buffers[0], WORDS, got, WORDS);
		if (v != 0) {
			moved++;
			moved_torn += !whole(got, v);
		}
	}
	gm_put(&stop, 1);
	pthread_join(writer, NULL);
	NOTE("%u objects and %u versions in %u attempts", good, moved, tries);
	OK(good > 0 && moved > 0);
	EQ(torn, 0);
	EQ(moved_torn, 0);
}

TAP_CASE()
{
	slot_words_keep_version_and_unit_apart();
	a_reader_notices_a_new_publication();
	nothing_is_read_before_the_first_version();
	versions_go_round_the_buffers();
	a_reader_may_fall_six_versions_behind();
	readers_never_see_a_torn_object();
	return tap_done();
}
