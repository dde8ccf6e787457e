/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer_session.h - one attachment to one peer, for the tests of the session
 * side: three rows, of which 0 and 1 are READY with scores of 3 to 1 and 2 has
 * FAILED, and a layer map.
 */
#ifndef GM_TEST_SUPPORT_PEER_PEER_SESSION_H
#define GM_TEST_SUPPORT_PEER_PEER_SESSION_H

#include "gpumap.h"
#include "tests/support/peer/peer.h"
#include "tests/support/tap.h"

static struct segment_file file;
static struct peer peer;
static struct gpumap *map;

static inline void moving(uint32_t row, uint32_t state, double score)
{
	struct gm_moving_image image = { .state = state, .score = score };

	gm_rows_move(&file.segment.map.rows[row], &image);
	gm_put_release(&file.segment.map.header->tick,
		       gm_get(&file.segment.map.header->tick) + 1);
}

static inline struct gpumap_session *
open_session_of(uint32_t depth, uint32_t flags, uint64_t arena_bytes)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = depth,
					    .flags = flags,
					    .arena_bytes = arena_bytes };
	struct gpumap_session *session = NULL;

	EQ(gpumap_session_open(map, &opts, &session), 0);
	STR(gpumap_refusal(map), "");
	return session;
}

static inline struct gpumap_session *open_session(uint32_t depth,
						  uint32_t flags)
{
	return open_session_of(depth, flags, 1 << 20);
}

/* Its status, or the error of submitting it. */
static inline int run_job(struct gpumap_session *session, uint32_t row,
			  const struct gpumap_job *job)
{
	struct gpumap_done done = { .status = 1 };
	int ret = gpumap_submit(session, row, job, 1);

	if (ret == 0)
		ret = gpumap_wait(session, &done, 1, GPUMAP_NO_DEADLINE);
	return ret == 1 ? done.status : ret;
}

static inline uint64_t soon(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec +
	       1000000;
}

static inline float *floats(struct gpumap_session *session, uint32_t row,
			    uint64_t n)
{
	void *memory = NULL;

	if (!EQ(gpumap_alloc(session, row, n * sizeof(float), &memory), 0))
		return NULL;
	return memory;
}

static inline struct gpumap_job fill(float *dst, uint64_t n, float value)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_F32,
				  .dst = dst,
				  .n = n };

	memcpy(&job.pattern, &value, sizeof(value));
	return job;
}

static inline void publish_model(void)
{
	static const uint32_t rows[] = { 0, 1 };
	static const struct gm_charge_image charges[] = { { .row = 0 },
							  { .row = 1 } };
	struct gm_layers layers = { .name = "model",
				    .spec = "0:1;1:1",
				    .n_layers = 2,
				    .n_rows = 2,
				    .rows = rows,
				    .charges = charges };

	segment_layers(&file.segment, 5, &layers);
}

/* Returns whether the test can run. */
static inline bool client_begin(const char *what)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };

	if (segment_file_make(what, &file) != 0 ||
	    peer_start(&peer, &file) != 0) {
		SKIP(1, "no segment in /dev/shm or no socket in /tmp");
		return false;
	}
	segment_row(&file.segment, 0, "host zero");
	segment_row(&file.segment, 1, "host one");
	segment_row(&file.segment, 2, "host two");
	moving(0, GPUMAP_DEVICE_READY, 3);
	moving(1, GPUMAP_DEVICE_READY, 1);
	moving(2, GPUMAP_DEVICE_FAILED, 0);
	publish_model();
	opts.instance = file.instance;
	opts.runtime_dir = peer.dir;
	if (EQ(gpumap_attach(&opts, &map), 0))
		return true;
	peer_stop(&peer);
	segment_file_remove(&file);
	return false;
}

static inline int client_end(void)
{
	gpumap_detach(map);
	peer_stop(&peer);
	segment_file_remove(&file);
	return tap_done();
}

#endif
