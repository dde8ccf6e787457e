/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/journal.h"

#include <errno.h>

#include "shm/point.h"
#include "shm/queue.h"

#define USED(word)  ((word) >> 63 != 0)
#define GIVEN(word) (((word) >> 31 & 1) != 0)

/* The 32-bit position that is nearest to @near and ends in these 31 bits.  Both
 * positions are never more than a depth apart. */
static uint32_t widen(uint32_t low, uint32_t near)
{
	uint32_t ahead = (low - near) & 0x7fffffff;

	return ahead < 0x40000000 ? near + ahead : near + ahead - 0x80000000;
}

static uint32_t entry_position(uint64_t word, uint32_t near)
{
	return widen((uint32_t)(word >> 32) & 0x7fffffff, near);
}

static uint32_t done_position(uint64_t word, uint32_t near)
{
	return widen((uint32_t)word & 0x7fffffff, near);
}

void gm_journal_open(struct gm_journal_queue *queue, uint64_t session)
{
	for (uint32_t i = 0; i < GM_DEPTH_MAX; i++)
		gm_put(&queue->word[i], 0);
	gm_put(&queue->next, 0);
	gm_put(&queue->violations, 0);
	gm_put(&queue->bytes, 0);
	gm_put_release(&queue->session, session); /* JOURNAL.order */
}

void gm_journal_close(struct gm_journal_queue *queue)
{
	gm_put_release(&queue->session, 0); /* JOURNAL.order */
}

struct gm_journal_state gm_journal_read(const struct gm_journal_queue *queue,
					uint32_t depth)
{
	struct gm_journal_state state;
	uint32_t next, consumed = 0;

	/* Also count positions given out after the counter was last stored. */
	next = (uint32_t)gm_get_acquire(&queue->next); /* JOURNAL.order */
	state.done = next;
	for (uint32_t i = 0; i < depth; i++) {
		uint64_t word =
			gm_get_acquire(&queue->word[i]); /* JOURNAL.order */

		if (!USED(word) || !GIVEN(word))
			continue;
		if ((int32_t)(done_position(word, next) - state.done) >= 0)
			state.done = done_position(word, next) + 1;
	}

	/* Every entry before done's was consumed, and at most depth more. */
	for (uint32_t i = 0; i < depth; i++) {
		uint64_t word =
			gm_get_acquire(&queue->word[i]); /* JOURNAL.order */
		uint32_t ahead =
			entry_position(word, state.done) + 1 - state.done;

		if (USED(word) && ahead <= depth && ahead > consumed)
			consumed = ahead;
	}
	state.entry = state.done + consumed;
	return state;
}

static void post(struct gm_ring *done, uint32_t at, uint32_t entry,
		 int32_t status)
{
	uint64_t words[GM_DONE_WORDS];

	gm_done_pack(entry, status, words);
	done->pos = at;
	gm_ring_put(done, GM_DONE_WORDS, 0, words);
	GM_POINT("recover_posted");
}

/* Give the entry at @pos the next completion position, then post it. */
static void end_entry(struct gm_journal_queue *queue, struct gm_ring *done,
		      uint32_t *next, uint32_t pos, int32_t status)
{
	gm_journal_give(queue, done->mask, pos, *next);
	GM_POINT("end_given");
	gm_journal_advance(queue, *next + 1);
	GM_POINT("recover_advanced");
	post(done, *next, pos, status);
	(*next)++;
}

static bool posted(struct gm_ring *done, uint32_t at)
{
	uint64_t words[GM_DONE_WORDS];

	done->pos = at;
	return gm_ring_peek(done, GM_DONE_WORDS, 0, words) != 0;
}

/* Post the completions of entries that have a position and whose completion is
 * not in the ring yet. */
static uint32_t end_given(const struct gm_journal_queue *queue,
			  struct gm_ring *done, uint32_t entry, uint32_t next,
			  int32_t status)
{
	uint32_t depth = done->mask + 1, n = 0;

	for (uint32_t i = 0; i < depth; i++) {
		uint64_t word =
			gm_get_acquire(&queue->word[i]); /* JOURNAL.order */
		uint32_t at = done_position(word, next);

		/* The client took older completions long ago: completion at +
		 * depth, or a later one, has overwritten their slot. */
		if (!USED(word) || !GIVEN(word) || next - at > depth)
			continue;
		if (posted(done, at))
			continue;
		post(done, at, entry_position(word, entry), status);
		n++;
	}
	return n;
}

uint32_t gm_journal_recover(struct gm_journal_queue *queue,
			    struct gm_ring *entries, struct gm_ring *done,
			    int32_t status)
{
	uint32_t depth = entries->mask + 1, n;
	struct gm_journal_state state = gm_journal_read(queue, depth);
	uint32_t next = state.done;
	uint64_t words[GM_ENTRY_WORDS];
	bool awaits_second = false;

	if (status == 0)
		status = -EIO;
	gm_journal_advance(queue, next);
	n = end_given(queue, done, state.entry, next, status);

	/* In flight without a completion position, oldest first. */
	for (uint32_t pos = state.entry - depth; pos != state.entry; pos++) {
		uint64_t word = gm_get_acquire(
			&queue->word[pos & done->mask]); /* JOURNAL.order */

		if (!USED(word) || GIVEN(word) ||
		    entry_position(word, state.entry) != pos)
			continue;
		end_entry(queue, done, &next, pos, status);
		n++;
	}

	/* Entries still in the ring: at most a depth of them, whatever the
	 * client does.  Do not stop between a first slot and its second: the
	 * next owner would find a second without a first. */
	entries->pos = state.entry;
	for (uint32_t i = 0; i < depth || awaits_second; i++) {
		if (!gm_ring_peek(entries, GM_ENTRY_WORDS, 0, words))
			break;
		awaits_second = i < depth && gm_entry_is_first(words[0]);
		end_entry(queue, done, &next, entries->pos, status);
		entries->pos++;
		n++;
	}
	done->pos = next;
	return n;
}
