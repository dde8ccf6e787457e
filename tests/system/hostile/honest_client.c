/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/hostile/honest_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SAMPLES (1u << 18)
#define FLOATS  16384u /* of a job, at most */

static void good_wrong(struct good *g, const struct gpumap_job *job,
		       uint32_t row, int status, uint64_t at)
{
	if (g->wrong++ == 0)
		snprintf(g->what, sizeof(g->what),
			 "row %u op %u n %llu: status %d, element %llu", row,
			 job->op, (unsigned long long)job->n, status,
			 (unsigned long long)at);
}

/* With the first buffer of all, a worker's blocking thread gets an allocator
 * arena of its own: 64 MiB of address space that stay. */
static bool good_warms_up(struct good *g, uint32_t row)
{
	uint64_t buffer;

	return gpumap_buffer_alloc(g->session, row, 4096, 0, GPUMAP_NO_DEADLINE,
				   &buffer) == 0 &&
	       gpumap_buffer_free(g->session, buffer) == 0;
}

/* On a machine that is held up the agent may drop this client for not sending
 * HELLO in time, so the client tries again. */
static bool good_session(struct good *g)
{
	int ret = -EINVAL;

	for (int tries = 0; ret != 0 && tries < 10; tries++)
		ret = gpumap_session_open(g->map, NULL, &g->session);
	return ret == 0;
}

bool good_open(struct good *g, const struct agent *agent, uint32_t n_rows,
	       uint64_t seed)
{
	struct gpumap_attach_opts where = { .size = sizeof(where),
					    .instance = agent->instance,
					    .runtime_dir = agent->dir };
	bool is_open;

	g->n_rows = n_rows;
	g->samples = malloc(SAMPLES * sizeof(*g->samples));
	g->random = (struct hostile){ .random = seed };
	is_open = g->samples && gpumap_attach(&where, &g->map) == 0 &&
		  good_session(g);
	for (uint32_t row = 0; row < n_rows && is_open; row++) {
		void *dst, *src;

		is_open =
			gpumap_alloc(g->session, row, 4 * FLOATS, &dst) == 0 &&
			gpumap_alloc(g->session, row, 4 * FLOATS, &src) == 0 &&
			good_warms_up(g, row);
		if (is_open) {
			g->dst[row] = dst;
			g->src[row] = src;
		}
	}
	return is_open;
}

void good_close(struct good *g)
{
	gpumap_session_close(g->session);
	gpumap_detach(g->map);
	free(g->samples);
}

/* The values are small whole numbers, so every result is exact. */
static float good_value(uint64_t i, uint64_t salt)
{
	return (float)((i * 7 + salt) % 2039);
}

static void good_check(struct good *g, const struct gpumap_job *job,
		       uint32_t row, uint64_t salt)
{
	const float *dst = job->dst;

	for (uint64_t i = 0; i < job->n; i++) {
		float x = good_value(i, salt);
		float want = x;

		if (job->op == GPUMAP_OP_SCALE)
			want = (float)job->alpha * x;
		else if (job->op == GPUMAP_OP_AXPY)
			want = good_value(i, salt + 1) + (float)job->alpha * x;
		if (dst[i] != want) {
			good_wrong(g, job, row, 0, i);
			return;
		}
	}
}

void good_job(struct good *g, uint32_t row)
{
	static const uint32_t ops[] = { GPUMAP_OP_NOP, GPUMAP_OP_COPY,
					GPUMAP_OP_SCALE, GPUMAP_OP_AXPY };
	uint64_t salt = hostile_below(&g->random, 2039);
	struct gpumap_job job = {
		.op = ops[hostile_below(&g->random, 4)],
		.dtype = GPUMAP_DTYPE_F32,
		.dst = g->dst[row],
		.src = g->src[row],
		.n = 1 + hostile_below(&g->random, 256),
		.alpha = (double)hostile_below(&g->random, 16),
		.cookie = g->jobs,
	};
	struct gpumap_done done;
	uint64_t began;
	int ret;

	if (job.op == GPUMAP_OP_NOP)
		job = (struct gpumap_job){ .cookie = g->jobs };
	else if (hostile_below(&g->random, 64) == 0)
		job.n = FLOATS;
	for (uint64_t i = 0; i < job.n; i++) {
		g->src[row][i] = good_value(i, salt);
		g->dst[row][i] = good_value(i, salt + 1);
	}
	began = raw_now();
	ret = gpumap_submit(g->session, row, &job, 1);
	if (ret == 0)
		ret = gpumap_wait(g->session, &done, 1,
				  began + RAW_PATIENCE_NS);
	if (g->n_samples < SAMPLES)
		g->samples[g->n_samples++] = (uint32_t)(raw_now() - began);
	g->jobs++;
	if (ret != 1 || done.cookie != g->jobs - 1 || done.status != 0)
		good_wrong(g, &job, row, ret == 1 ? done.status : ret, 0);
	else
		good_check(g, &job, row, salt);
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

uint32_t good_work(struct good *g, uint64_t until_ns)
{
	g->n_samples = 0;
	do {
		good_job(g, (uint32_t)hostile_below(&g->random, g->n_rows));
	} while (raw_now() < until_ns && g->wrong < 100);
	qsort(g->samples, g->n_samples, sizeof(*g->samples), by_size);
	return g->samples[(uint64_t)g->n_samples * 99 / 100];
}
