/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * collective.h - collectives on an agent's host rows, for the stories about
 * them: a mesh of so many rows, what each rank gives and gets, and what is
 * right.
 */
#ifndef GM_TEST_SUPPORT_COLLECTIVE_H
#define GM_TEST_SUPPORT_COLLECTIVE_H

#include "tests/support/combine_ref.h"
#include "tests/support/story.h"

#define COLLECTIVE_RANKS 8u

/* The collective, and its place: the data that a rank gives at the beginning of
 * its memory, the data that it gets behind that, or both in one place. */
struct shape {
	uint32_t op, dtype, reduce, root, peer;
	uint64_t n;
	bool in_place;
};

/* A group, and memory of each of its ranks. */
struct ranks {
	struct gpumap_session *session;
	struct gpumap_comm *comm;
	uint32_t n;
	uint64_t bytes; /* of each */
	uint32_t row[COLLECTIVE_RANKS];
	char *memory[COLLECTIVE_RANKS];
	uint64_t buffer[COLLECTIVE_RANKS]; /* collective_buffers.h */
	struct gpumap_rank rank[COLLECTIVE_RANKS];
	uint64_t deadline_ns; /* of the next ones */
};

/* A mesh of these rows. */
int collective_mesh_of(struct gpumap *map, const char *name,
		       const uint32_t *rows, uint32_t n);

/* A mesh of rows 0 to n - 1. */
int collective_mesh(struct gpumap *map, const char *name, uint32_t n);
uint64_t parts_given(const struct shape *s, uint32_t n);
uint64_t parts_gotten(const struct shape *s, uint32_t n);
bool is_gotten(const struct shape *s, uint32_t r);
uint64_t shape_bytes(const struct shape *s);

/* Where rank @r's memory begins that it gets. */
char *gotten(const struct ranks *g, const struct shape *s, uint32_t r);
char *given(const struct ranks *g, const struct shape *s, uint32_t r);
int collective_submit(struct ranks *g, const struct shape *s, uint64_t cookie);

/* Waits for one completion.  Returns its status, or 1 and what was wrong. */
int collective_end(struct gpumap_session *session, uint64_t cookie);

/* Bytes of each rank's memory that the collective uses, and some after them. */
uint64_t collective_used(const struct ranks *g, const struct shape *s);

/* The data of all ranks before the collective. */
struct before {
	char *rank[COLLECTIVE_RANKS];
};

void before_free(struct before *b);

/* Fill that memory; numbers are any bits. */
void collective_fill(struct ranks *g, const struct shape *s,
		     struct before *ret_before);

/* Element @i of what rank @r gets. */
uint64_t want_of(const struct ranks *g, const struct shape *s,
		 const struct before *b, uint32_t r, uint64_t i);

/* How many elements are not what they should be, of every @step'th; and one
 * more where something was written behind them. */
uint64_t collective_wrong(const struct ranks *g, const struct shape *s,
			  const struct before *b, uint64_t step);

/* Do it, and look at the result.  Returns how much was wrong. */
uint64_t collective_once(struct ranks *g, const struct shape *s, uint64_t step);
bool collective_open(struct gpumap_session *session, const char *mesh,
		     uint64_t bytes, struct ranks *ret_ranks);

/* With its memory. */
void collective_close(struct ranks *g);

#endif
