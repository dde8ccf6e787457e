/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_session - a session on one row, with jobs that prove what they did.
 */
#ifndef GM_TEST_SUPPORT_CUDA_SESSION_H
#define GM_TEST_SUPPORT_CUDA_SESSION_H

#include "tests/support/story.h"

#define JOBS     16u
#define ELEMENTS 4096u

struct side {
	struct gpumap_session *session;
	uint32_t row;
	float *src, *dst; /* of JOBS jobs */
};

/* ---- jobs that prove what they did --------------------------------------- */

bool open_side(struct gpumap *map, struct side *s, uint32_t row);
bool open_side_opts(struct gpumap *map, struct side *s, uint32_t row,
		    const struct gpumap_session_opts *opts);
void close_side(struct side *s);

/* dst = 3 * src: each is a launch. */
int submit(struct side *s, uint32_t n, uint32_t salt);
bool is_right(const struct side *s, uint64_t job);

/* How jobs ended. */
struct tally {
	uint32_t done;  /* with 0 and the right result */
	uint32_t wrong; /* with 0 and another */
	uint32_t io;    /* -EIO */
	uint32_t gone;  /* -ENODEV */
	uint32_t other;
	uint32_t twice;
	uint32_t lost; /* never */
};

struct tally collect(struct side *s, uint32_t n);
bool works(struct side *s, uint32_t salt);

#endif
