/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * kill_points_client - what a client does that has memory, fills it, shares it,
 * loads a model and spreads work: each part in turn, until the first error.
 */
#ifndef GM_TEST_SUPPORT_KILL_POINTS_CLIENT_H
#define GM_TEST_SUPPORT_KILL_POINTS_CLIENT_H

#include <gpumap/model.h>

#include "tests/support/shards.h"

#define ROWS  2u
#define BYTES (UINT64_C(300) << 10) /* more than a slice, and no power of two */
#define BUSY  200u

static const struct shard_tensor tensors[] = {
	{ "a", "U8", "[5]", 5, 0, false },
	{ "b", "U8", "[200000]", 200000, 0, false },
};

static int file; /* of BYTES */
static struct shards model;

struct player {
	struct gpumap_session *own, *other;
	uint64_t file, buffers[ROWS], export_id, imported;
	struct gpumap_model *loaded, *found;
	char *from, *to, *seen; /* BYTES each, the last in the other's arena */
	bool right;             /* all bytes were */
	bool widowed;           /* the worker has been killed */
	uint32_t odd;           /* of its entries, ended as none may */
	const char *at;         /* what it was about */
};

static struct gpumap_session *opened(struct gpumap *map, int *ret)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;

	*ret = gpumap_session_open(map, &opts, &session);
	return session;
}

static int have(struct player *p, struct gpumap *map)
{
	void *memory[3] = { 0 };
	int ret = 0;

	p->at = "to have";
	p->own = opened(map, &ret);
	if (ret == 0)
		p->other = opened(map, &ret);
	for (int i = 0; ret == 0 && i < 3; i++)
		ret = gpumap_alloc(i < 2 ? p->own : p->other, 0, BYTES,
				   &memory[i]);
	for (uint32_t row = 0; ret == 0 && row < ROWS; row++)
		ret = gpumap_buffer_alloc(
			p->own, row, BYTES,
			row == 1 ? GPUMAP_BUFFER_EXPORTABLE : 0,
			story_now() + STORY_LIMIT_NS, &p->buffers[row]);
	p->from = memory[0];
	p->to = memory[1];
	p->seen = memory[2];
	return ret;
}

/* Row 0 is busy for so long that row 1, which waits for it, has to be told. */
static int wait_for_another(struct player *p)
{
	struct gpumap_job jobs[BUSY], after = { .op = GPUMAP_OP_NOP };
	struct gpumap_time time;
	int ret;

	p->at = "to wait";
	for (uint32_t i = 0; i < BUSY; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
					       .dst = p->to,
					       .n = BYTES };
	ret = gpumap_submit(p->own, 0, jobs, BUSY);
	if (ret == 0)
		ret = gpumap_submitted(p->own, 0, &time);
	after.waits = &time;
	after.n_waits = 1;
	if (ret == 0)
		ret = gpumap_submit(p->own, 1, &after, 1);
	for (uint32_t left = BUSY + 1; ret == 0 && left > 0; left--) {
		struct gpumap_done done;
		int got = gpumap_wait(p->own, &done, 1,
				      story_now() + STORY_LIMIT_NS);

		ret = got < 0 ? got : done.status;
	}
	return ret;
}

/* The file, to the first row, and from there to the other. */
static int fill(struct player *p)
{
	struct gpumap_job job = load_job(0, 0, BYTES, NULL);
	int ret = gpumap_buffer_register_file(p->own, file, 0, &p->file);

	p->at = "to fill";
	job.src_buffer = p->file;
	job.dst_buffer = p->buffers[0];
	if (ret == 0)
		ret = story_run(p->own, 0, &job);
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .n = BYTES,
				   .src_buffer = p->buffers[0],
				   .dst_buffer = p->buffers[1] };
	if (ret == 0)
		ret = story_run(p->own, 1, &job);
	return ret;
}

/* Jobs that were given up end as well. */
static int give_up(struct player *p)
{
	struct gpumap_job jobs[4];
	int ret;

	p->at = "to give up";
	for (uint32_t i = 0; i < 4; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
					       .dst = p->to,
					       .n = BYTES };
	ret = gpumap_submit(p->own, 0, jobs, 4);
	if (ret == 0 && gpumap_cancel_job(p->own, 0, 0) < 0)
		return -EBADMSG;
	if (ret == 0)
		ret = gpumap_cancel(p->own, 0);
	for (uint32_t left = 4; ret == 0 && left > 0; left--) {
		struct gpumap_done done;
		int got = gpumap_wait(p->own, &done, 1,
				      story_now() + STORY_LIMIT_NS);

		ret = got < 0 ? got : done.status;
		if (ret == -ECANCELED)
			ret = 0;
	}
	return ret;
}

static int share(struct player *p)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .n = BYTES,
				  .dst = p->seen };
	int ret = gpumap_buffer_export(p->own, p->buffers[1], &p->export_id);

	p->at = "to share";
	if (ret == 0)
		ret = gpumap_buffer_import(p->other, p->export_id,
					   GPUMAP_BUFFER_READ_ONLY,
					   &job.src_buffer);
	p->imported = job.src_buffer;
	if (ret == 0)
		ret = story_run(p->other, 1, &job);
	if (ret == 0)
		p->right = load_matches(p->seen, 0, BYTES);
	return ret;
}

/* A model, which the other session finds by its name. */
static int name(struct player *p)
{
	static const uint32_t row;
	struct gpumap_model_opts opts = {
		.size = sizeof(opts),
		.path = model.path,
		.rows = &row,
		.n_rows = 1,
		.name = "points",
		.share_flags = GPUMAP_SHARE_READ_ONLY,
	};
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_job job = { .op = GPUMAP_OP_COPY, .dst = p->seen };
	int ret = gpumap_model_load(p->own, &opts, &p->loaded);

	p->at = "to name";
	if (ret == 0)
		ret = gpumap_model_wait(p->loaded,
					story_now() + STORY_LIMIT_NS);
	if (ret == 0)
		ret = gpumap_model_open(p->other, "points",
					GPUMAP_SHARE_READ_ONLY, NULL,
					&p->found);
	if (ret == 0)
		ret = gpumap_model_find(p->found, "b", &t);
	job.n = t.bytes;
	job.src_buffer = t.buffer;
	job.src_at = t.at;
	if (ret == 0)
		ret = story_run(p->other, 0, &job);
	if (ret == 0)
		p->right &= shards_match(&model, 1, p->seen, 0, t.bytes);
	return ret;
}

/* Out to the rows, and back. */
static int spread(struct player *p)
{
	static const uint32_t rows[ROWS] = { 0, 1 };
	static const double weights[ROWS] = { 2, 3 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .weights = weights,
					    .n_rows = ROWS,
					    .deadline_ns = story_now() +
							   STORY_LIMIT_NS,
					    .dst_buffers = p->buffers };
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .n = BYTES,
				  .src = p->from };
	int ret;

	p->at = "to spread";
	load_fill(p->from, 77, BYTES);
	ret = gpumap_scatter(p->own, &job, &opts, NULL, 0);
	if (ret < 0)
		return ret;
	opts.dst_buffers = NULL;
	opts.src_buffers = p->buffers;
	job.src = NULL;
	job.dst = p->to;
	ret = gpumap_scatter(p->own, &job, &opts, NULL, 0);
	if (ret < 0)
		return ret;
	p->right &= load_matches(p->to, 77, BYTES);
	return 0;
}

static int give_back(struct player *p)
{
	int ret = gpumap_buffer_free(p->other, p->imported);

	p->at = "to give back";
	if (ret == 0)
		ret = gpumap_model_close(p->loaded, GPUMAP_NO_DEADLINE);
	p->loaded = NULL;
	if (ret == 0)
		ret = gpumap_model_close(p->found, GPUMAP_NO_DEADLINE);
	p->found = NULL;
	if (ret == 0)
		ret = gpumap_buffer_unregister(p->own, p->file);
	for (uint32_t row = 0; ret == 0 && row < ROWS; row++)
		ret = gpumap_buffer_free(p->own, p->buffers[row]);
	return ret;
}

/*
 * The worker of row 1 dies while it owes us entries.  The ticket is put out
 * first, and the function sees which process takes it: no process comes to a
 * mark of recovery for sessions that have ended.
 */
static int widow(struct player *p, const struct gpumap *map, const char *ticket)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done[BUSY];
	struct gpumap_job jobs[BUSY];
	pid_t worker = (pid_t)story_device(map, 1).worker_pid;
	uint32_t n = 0;
	int ret;

	p->at = "to be widowed";
	for (uint32_t i = 0; i < BUSY; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
					       .dst_buffer = p->buffers[1],
					       .n = BYTES };
	/* The worker may have done the first half, and cannot have done the
	 * second. */
	ret = gpumap_submit(p->own, 1, jobs, BUSY / 2);
	kill(worker, SIGSTOP);
	if (ret == 0)
		ret = gpumap_submit(p->own, 1, jobs, BUSY / 2);
	close(open(ticket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	kill(worker, SIGKILL);
	p->widowed = true;
	while (access(ticket, F_OK) == 0 && story_now() < until)
		story_nap(500);
	while (ret == 0 && n < BUSY) {
		int got = gpumap_wait(p->own, done, BUSY, until);

		for (int i = 0; i < got; i++)
			p->odd += done[i].status != 0 &&
				  done[i].status != -EIO &&
				  done[i].status != -ECONNRESET;
		n += got > 0 ? (uint32_t)got : 0;
		ret = got < 0 ? got : 0;
	}
	p->odd += ret == 0 && (n != BUSY || gpumap_poll(p->own, done, 1) > 0);
	return ret;
}

/*
 * Returns 0 or the error that it came to, with everything closed.  With a
 * @ticket, the worker of row 1 is killed on the way.
 */
static int play(struct gpumap *map, struct player *p, const char *ticket)
{
	int ret;

	*p = (struct player){ .right = true };
	ret = have(p, map);
	if (ret == 0)
		ret = fill(p);
	if (ret == 0)
		ret = wait_for_another(p);
	if (ret == 0)
		ret = give_up(p);
	if (ret == 0 && ticket)
		ret = widow(p, map, ticket);
	if (ret == 0)
		ret = share(p);
	if (ret == 0)
		ret = name(p);
	if (ret == 0)
		ret = spread(p);
	if (ret == 0)
		ret = give_back(p);
	gpumap_session_close(p->other);
	gpumap_session_close(p->own);
	gpumap_model_close(p->found, GPUMAP_NO_DEADLINE);
	gpumap_model_close(p->loaded, GPUMAP_NO_DEADLINE);
	return ret;
}

#endif
