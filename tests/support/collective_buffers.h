/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * collective_buffers.h - collectives of memory that is the rows' own: beside
 * what each rank has in the arena it has a buffer as large.
 */
#ifndef GM_TEST_SUPPORT_COLLECTIVE_BUFFERS_H
#define GM_TEST_SUPPORT_COLLECTIVE_BUFFERS_H

#include "tests/support/collective.h"

bool cards_open(struct gpumap_session *session, const char *mesh,
		uint64_t bytes, struct ranks *ret_ranks);
void cards_close(struct ranks *g);

/* All memory to the buffers, or back.  Returns how many copies failed. */
int cards_bring(struct ranks *g, uint64_t bytes, bool back);

/* As collective_submit(), of the same places in the buffers. */
int cards_submit(struct ranks *g, const struct shape *s, uint64_t cookie);

/* Do it, and look at the result.  Returns how much was wrong. */
uint64_t cards_once(struct ranks *g, const struct shape *s, uint64_t step);

#endif
