/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/collective.h"

#define BEHIND 4096u /* bytes of guard and alignment */

int collective_mesh_of(struct gpumap *map, const char *name,
		       const uint32_t *rows, uint32_t n)
{
	struct gpumap_mesh_request request = { .size = sizeof(request),
					       .name = name,
					       .topology = GPUMAP_MESH_DATA,
					       .n_rows = n,
					       .tp = 1,
					       .pp = 1,
					       .dp = n,
					       .rows = rows };

	return gpumap_mesh_publish(map, &request);
}

int collective_mesh(struct gpumap *map, const char *name, uint32_t n)
{
	static const uint32_t rows[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	return collective_mesh_of(map, name, rows, n);
}

uint64_t parts_given(const struct shape *s, uint32_t n)
{
	return s->op == GPUMAP_OP_REDUCE_SCATTER ? n : 1;
}

uint64_t parts_gotten(const struct shape *s, uint32_t n)
{
	return s->op == GPUMAP_OP_ALL_GATHER ? n : 1;
}

static bool is_given(const struct shape *s, uint32_t r)
{
	if (s->op == GPUMAP_OP_BROADCAST || s->op == GPUMAP_OP_SEND)
		return r == s->root;
	return s->op != GPUMAP_OP_BARRIER;
}

bool is_gotten(const struct shape *s, uint32_t r)
{
	if (s->op == GPUMAP_OP_BROADCAST)
		return r != s->root;
	if (s->op == GPUMAP_OP_SEND)
		return r == s->peer;
	return s->op != GPUMAP_OP_BARRIER;
}

uint64_t shape_bytes(const struct shape *s)
{
	return s->n * ref_bytes(s->dtype);
}

char *gotten(const struct ranks *g, const struct shape *s, uint32_t r)
{
	if (s->in_place)
		return g->memory[r] + (s->op == GPUMAP_OP_REDUCE_SCATTER
					       ? r * shape_bytes(s)
					       : 0);
	/* Aligned, whatever is before it. */
	return g->memory[r] +
	       (parts_given(s, g->n) * shape_bytes(s) + 63) / 64 * 64;
}

char *given(const struct ranks *g, const struct shape *s, uint32_t r)
{
	return g->memory[r] + (s->in_place && s->op == GPUMAP_OP_ALL_GATHER
				       ? r * shape_bytes(s)
				       : 0);
}

int collective_submit(struct ranks *g, const struct shape *s, uint64_t cookie)
{
	struct gpumap_collective what = { .size = sizeof(what),
					  .op = s->op,
					  .dtype = s->dtype,
					  .reduce = s->reduce,
					  .root = s->root,
					  .peer = s->peer,
					  .n = s->n,
					  .ranks = g->rank,
					  .deadline_ns = g->deadline_ns,
					  .cookie = cookie };

	for (uint32_t r = 0; r < g->n; r++)
		g->rank[r] = (struct gpumap_rank){ .send = given(g, s, r),
						   .recv = gotten(g, s, r) };
	return gpumap_comm_submit(g->comm, &what);
}

int collective_end(struct gpumap_session *session, uint64_t cookie)
{
	struct gpumap_done done;
	int got = gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS);

	if (got != 1 || done.cookie != cookie) {
		NOTE("wait says %d, cookie %" PRIu64 " for %" PRIu64, got,
		     got == 1 ? done.cookie : 0, cookie);
		return 1;
	}
	return done.status;
}

void before_free(struct before *b)
{
	for (uint32_t r = 0; r < COLLECTIVE_RANKS; r++)
		free(b->rank[r]);
}

uint64_t collective_used(const struct ranks *g, const struct shape *s)
{
	uint64_t parts = parts_given(s, g->n) + parts_gotten(s, g->n);
	uint64_t bytes = parts * shape_bytes(s) + BEHIND;

	return bytes < g->bytes ? bytes : g->bytes;
}

void collective_fill(struct ranks *g, const struct shape *s,
		     struct before *ret_before)
{
	uint64_t n = parts_given(s, g->n) * s->n;

	*ret_before = (struct before){ 0 };
	for (uint32_t r = 0; r < g->n; r++) {
		memset(g->memory[r], 0x5a, collective_used(g, s));
		throw_numbers(given(g, s, r), n, s->dtype, ONE_HARD);
		ret_before->rank[r] = malloc(n * ref_bytes(s->dtype) + 1);
		memcpy(ret_before->rank[r], given(g, s, r),
		       n * ref_bytes(s->dtype));
	}
}

uint64_t want_of(const struct ranks *g, const struct shape *s,
		 const struct before *b, uint32_t r, uint64_t i)
{
	const void *src[COLLECTIVE_RANKS];
	uint64_t at = s->op == GPUMAP_OP_REDUCE_SCATTER ? r * s->n + i : i;

	if (s->op == GPUMAP_OP_BROADCAST || s->op == GPUMAP_OP_SEND)
		return ref_load(b->rank[s->root], i, s->dtype);
	if (s->op == GPUMAP_OP_ALL_GATHER)
		return ref_load(b->rank[i / s->n], i % s->n, s->dtype);
	for (uint32_t k = 0; k < g->n; k++)
		src[k] = b->rank[k];
	return want_element(s->reduce, s->dtype, src, g->n, at);
}

uint64_t collective_wrong(const struct ranks *g, const struct shape *s,
			  const struct before *b, uint64_t step)
{
	uint64_t n = parts_gotten(s, g->n) * s->n, bad = 0;
	uint32_t each = ref_bytes(s->dtype);

	for (uint32_t r = 0; r < g->n; r++) {
		const char *got = gotten(g, s, r);
		char bits[8];

		for (uint64_t i = 0; is_gotten(s, r) && i < n; i += step) {
			ref_store(bits, 0, s->dtype, want_of(g, s, b, r, i));
			bad += !ref_same(s->dtype, ref_load(bits, 0, s->dtype),
					 ref_load(got, i, s->dtype));
		}
		/* The same bits on each rank. */
		if (s->op == GPUMAP_OP_ALL_REDUCE)
			bad += memcmp(got, gotten(g, s, 0), n * each) != 0;
		if (!s->in_place && is_given(s, r))
			bad += memcmp(given(g, s, r), b->rank[r],
				      parts_given(s, g->n) * s->n * each) != 0;
		for (uint32_t i = 0; !s->in_place && i < 16; i++)
			bad += got[(is_gotten(s, r) ? n * each : 0) + i] !=
			       0x5a;
	}
	return bad;
}

uint64_t collective_once(struct ranks *g, const struct shape *s, uint64_t step)
{
	struct before b;
	uint64_t bad = 0;
	int status;

	collective_fill(g, s, &b);
	status = collective_submit(g, s, 77);
	if (status == 0)
		status = collective_end(g->session, 77);
	if (status == 0)
		bad = collective_wrong(g, s, &b, step);
	before_free(&b);
	return bad + (status != 0);
}

bool collective_open(struct gpumap_session *session, const char *mesh,
		     uint64_t bytes, struct ranks *ret_ranks)
{
	struct ranks *g = ret_ranks;

	*g = (struct ranks){ .session = session, .bytes = bytes };
	if (!EQ(gpumap_comm_open(session, mesh, NULL, &g->comm), 0))
		return false;
	g->n = (uint32_t)gpumap_comm_rows(g->comm, g->row, COLLECTIVE_RANKS);
	for (uint32_t r = 0; r < g->n; r++) {
		void *memory = NULL;

		if (bytes &&
		    !EQ(gpumap_alloc(session, g->row[r], bytes, &memory), 0))
			return false;
		g->memory[r] = memory;
	}
	return true;
}

void collective_close(struct ranks *g)
{
	EQ(gpumap_comm_close(g->comm), 0);
	for (uint32_t r = 0; r < g->n; r++)
		gpumap_free(g->session, g->memory[r]);
}
