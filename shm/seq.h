/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * seq - publish words from one writer so that readers get them whole or not at
 * all.
 *
 * There are two forms.  A slot names an immutable block: the writer fills a
 * free block, then stores the slot word.  A versioned word stands before eight
 * buffers: the writer fills buffer version % 8, then stores the version.
 * Readers load the word, the data, and the word again.
 *
 * Edges
 *
 *   SEQ.publish  a block's words are stored before the slot word that names
 *                them; a reader that sees the slot word sees the block.
 *   SEQ.reuse    the writer stores new words into a block only after the slot
 *                has moved on.  Each word is itself stored with release and
 *                loaded with acquire, so a reader that loads a word of the
 *                block's next content also sees the slot moved on when it loads
 *                the slot again, and drops what it read.  The release store of
 *                the slot alone does not ensure that: it does not hold back
 *                later stores.
 *
 * A word of a named block that is meaningful by itself may be stored again in
 * place: readers find one value or the other, in a publication that is whole.
 *
 * The writer may die between any two stores: the slot then still names the
 * previous block, which is whole.
 *
 * This header is also compiled as C++ by the model checker.
 */
#ifndef GM_SEQ_H
#define GM_SEQ_H

#include <stdbool.h>
#include <stddef.h>

#include "shm/atomic.h"

/* Buffers of moving facts, and the lead that a writer may have over a reader:
 * while it fills the buffer of version v + 8 the version says at most v + 7, so
 * a reader that finds v + 6 or less has read a buffer that was not written
 * meanwhile. */
#define GM_SEQ_BUFFERS  8u
#define GM_SEQ_DISTANCE (GM_SEQ_BUFFERS - 2)

static inline uint64_t gm_seq_word(uint64_t version, uint32_t unit)
{
	return version << 24 | unit;
}

static inline uint32_t gm_seq_unit(uint64_t word)
{
	return (uint32_t)(word & 0xffffff);
}

static inline uint64_t gm_seq_version(uint64_t word)
{
	return word >> 24;
}

/* Writer: fill a block that no slot names. */
static inline void gm_seq_fill(gm_a64 *block, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		gm_put_release(&block[i], words[i]); /* SEQ.reuse */
}

/* Writer: make the slot name another block, or none. */
static inline void gm_seq_publish(gm_a64 *slot, uint64_t word)
{
	gm_put_release(slot, word); /* SEQ.publish */
}

/* Reader: load the slot word before reading the block. */
static inline uint64_t gm_seq_open(const gm_a64 *slot)
{
	return gm_get_acquire(slot); /* SEQ.publish */
}

/* Reader: copy words of the block. */
static inline void gm_seq_read(const gm_a64 *block, uint64_t *ret_words,
			       size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret_words[i] = gm_get_acquire(&block[i]); /* SEQ.reuse */
}

/* Reader: is everything read since gm_seq_open() of one publication? */
static inline bool gm_seq_whole(const gm_a64 *slot, uint64_t word)
{
	return gm_get(slot) == word;
}

/* Writer: publish @n words as the next version; returns that version.  @buffers
 * are GM_SEQ_BUFFERS runs of @stride words. */
static inline uint64_t gm_seq_put_next(gm_a64 *version, gm_a64 *buffers,
				       size_t stride, const uint64_t *words,
				       size_t n)
{
	uint64_t next = gm_get(version) + 1;

	gm_seq_fill(&buffers[next % GM_SEQ_BUFFERS * stride], words, n);
	gm_seq_publish(version, next);
	return next;
}

/* Reader: one attempt at the latest version.  Returns it, or 0 when there is
 * none yet or the writer has overtaken this reader. */
static inline uint64_t gm_seq_get_latest(const gm_a64 *version,
					 const gm_a64 *buffers, size_t stride,
					 uint64_t *ret_words, size_t n)
{
	uint64_t seen = gm_seq_open(version);

	if (seen == 0)
		return 0;
	gm_seq_read(&buffers[seen % GM_SEQ_BUFFERS * stride], ret_words, n);
	if (gm_get(version) - seen > GM_SEQ_DISTANCE)
		return 0;
	return seen;
}

#endif
