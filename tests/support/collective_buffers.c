/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/collective_buffers.h"

bool cards_open(struct gpumap_session *session, const char *mesh,
		uint64_t bytes, struct ranks *ret_ranks)
{
	struct ranks *g = ret_ranks;

	if (!collective_open(session, mesh, bytes, g))
		return false;
	for (uint32_t r = 0; r < g->n; r++)
		if (!EQ(gpumap_buffer_alloc(session, g->row[r], bytes, 0,
					    story_now() + STORY_LIMIT_NS,
					    &g->buffer[r]),
			0))
			return false;
	return true;
}

void cards_close(struct ranks *g)
{
	for (uint32_t r = 0; r < g->n; r++)
		EQ(gpumap_buffer_free(g->session, g->buffer[r]), 0);
	collective_close(g);
}

int cards_bring(struct ranks *g, uint64_t bytes, bool back)
{
	int failed = 0;

	for (uint32_t r = 0; r < g->n; r++) {
		struct gpumap_job job = { .op = GPUMAP_OP_COPY,
					  .dtype = GPUMAP_DTYPE_U8,
					  .n = bytes,
					  .cookie = r };

		if (back) {
			job.dst = g->memory[r];
			job.src_buffer = g->buffer[r];
		} else {
			job.dst_buffer = g->buffer[r];
			job.src = g->memory[r];
		}
		failed += gpumap_submit(g->session, g->row[r], &job, 1) != 0 ||
			  collective_end(g->session, r) != 0;
	}
	return failed;
}

int cards_submit(struct ranks *g, const struct shape *s, uint64_t cookie)
{
	struct gpumap_rank rank[COLLECTIVE_RANKS] = { 0 };
	struct gpumap_collective what = { .size = sizeof(what),
					  .op = s->op,
					  .dtype = s->dtype,
					  .reduce = s->reduce,
					  .root = s->root,
					  .peer = s->peer,
					  .n = s->n,
					  .ranks = rank,
					  .deadline_ns = g->deadline_ns,
					  .cookie = cookie };

	for (uint32_t r = 0; r < g->n; r++) {
		rank[r].send_buffer = rank[r].recv_buffer = g->buffer[r];
		rank[r].send_at = (uint64_t)(given(g, s, r) - g->memory[r]);
		rank[r].recv_at = (uint64_t)(gotten(g, s, r) - g->memory[r]);
	}
	return gpumap_comm_submit(g->comm, &what);
}

uint64_t cards_once(struct ranks *g, const struct shape *s, uint64_t step)
{
	uint64_t used = collective_used(g, s);
	struct before b;
	uint64_t bad = 0;
	int failed;

	collective_fill(g, s, &b);
	failed = cards_bring(g, used, false);
	if (failed == 0)
		failed = cards_submit(g, s, 77);
	if (failed == 0)
		failed = collective_end(g->session, 77);
	for (uint32_t r = 0; r < g->n; r++)
		memset(g->memory[r], 0xcc, used);
	if (failed == 0)
		failed = cards_bring(g, used, true);
	if (failed == 0)
		bad = collective_wrong(g, s, &b, step);
	before_free(&b);
	return bad + (failed != 0);
}
