/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/cuda_session.h"

/* ---- jobs that prove what they did --------------------------------------- */

bool open_side(struct gpumap *map, struct side *s, uint32_t row)
{
	return open_side_opts(map, s, row, NULL);
}

bool open_side_opts(struct gpumap *map, struct side *s, uint32_t row,
		    const struct gpumap_session_opts *opts)
{
	void *src, *dst;

	*s = (struct side){ .row = row };
	if (gpumap_session_open(map, opts, &s->session) != 0)
		return false;
	if (gpumap_alloc(s->session, row, JOBS * ELEMENTS * 4, &src) == 0 &&
	    gpumap_alloc(s->session, row, JOBS * ELEMENTS * 4, &dst) == 0) {
		s->src = src;
		s->dst = dst;
		return true;
	}
	NOTE("row %u: %s", row, gpumap_refusal(map));
	gpumap_session_close(s->session);
	s->session = NULL;
	return false;
}

void close_side(struct side *s)
{
	if (s->session)
		gpumap_session_close(s->session);
	s->session = NULL;
}

int submit(struct side *s, uint32_t n, uint32_t salt)
{
	struct gpumap_job jobs[JOBS];

	for (uint32_t i = 0; i < n; i++) {
		float *src = s->src + (size_t)i * ELEMENTS;
		float *dst = s->dst + (size_t)i * ELEMENTS;

		for (uint32_t k = 0; k < ELEMENTS; k++)
			src[k] = (float)((k + i + salt) % 1021);
		memset(dst, 0, ELEMENTS * 4);
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_SCALE,
					       .dtype = GPUMAP_DTYPE_F32,
					       .dst = dst,
					       .src = src,
					       .n = ELEMENTS,
					       .alpha = 3,
					       .cookie = i };
	}
	return gpumap_submit(s->session, s->row, jobs, n);
}

bool is_right(const struct side *s, uint64_t job)
{
	const float *src = s->src + job * ELEMENTS;
	const float *dst = s->dst + job * ELEMENTS;

	for (uint32_t k = 0; k < ELEMENTS; k++) {
		if (dst[k] != 3 * src[k])
			return false;
	}
	return true;
}

struct tally collect(struct side *s, uint32_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t seen[JOBS] = { 0 };
	struct gpumap_done done[JOBS];
	struct tally t = { 0 };

	for (uint32_t ended = 0; ended < n;) {
		int got = gpumap_wait(s->session, done, JOBS, until);

		if (got < 0) {
			NOTE("row %u: wait says %d", s->row, got);
			t.lost = n - ended;
			return t;
		}
		for (int i = 0; i < got; i++) {
			const struct gpumap_done *d = &done[i];

			t.twice += seen[d->cookie]++ != 0;
			t.io += d->status == -EIO;
			t.gone += d->status == -ENODEV;
			t.other += d->status != 0 && d->status != -EIO &&
				   d->status != -ENODEV;
			t.done += d->status == 0 && is_right(s, d->cookie);
			t.wrong += d->status == 0 && !is_right(s, d->cookie);
		}
		ended += (uint32_t)got;
	}
	return t;
}

bool works(struct side *s, uint32_t salt)
{
	struct tally t = { 0 };

	if (submit(s, JOBS, salt) == 0)
		t = collect(s, JOBS);
	if (t.done == JOBS)
		return true;
	NOTE("row %u: %u done, %u wrong, %u EIO, %u ENODEV, %u other, %u lost",
	     s->row, t.done, t.wrong, t.io, t.gone, t.other, t.lost);
	return false;
}
