/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* decode_arena.h - an arena with buffers, for tests of the decoder. */
#ifndef GM_TEST_SUPPORT_WORKER_DECODE_ARENA_H
#define GM_TEST_SUPPORT_WORKER_DECODE_ARENA_H

#include "agent/worker/queue/decode.h"
#include "shm/queue.h"

#define ARENA 4096u
#define NOW   5u /* the incarnation */

/* Judging touches no memory, so there need be none. */
static const struct gm_decoder decoder = { .arena = (char *)(uintptr_t)0x10000,
					   .arena_bytes = ARENA,
					   .incarnation = NOW };

static inline int check_it(const struct gm_entry *entry,
			   struct gm_decoded_entry *verdict)
{
	uint64_t words[GM_ENTRY_WORDS];

	gm_entry_pack(entry, words);
	words[0] |= 77; /* a sequence */
	return gm_decode_entry(&decoder, words, NULL, verdict);
}

static inline struct gm_entry entry_of(uint8_t op, uint8_t dtype, uint64_t dst,
				       uint64_t src, uint64_t n)
{
	return (struct gm_entry){ .op = op,
				  .dtype = dtype,
				  .incarnation = NOW,
				  .dst = dst,
				  .src = src,
				  .n = n };
}

#endif
