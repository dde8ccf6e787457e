/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks programs over several rows: items whose input and output have
 * different sizes, tiles that wait for other jobs and for which other jobs
 * wait, and a worker that dies when its program has run and its job has not
 * ended.
 */

#include "tests/support/program_agent.h"

#define ITEMS 1009u /* a number no weights divide */
#define ROOM  (64u << 10)

static struct gpumap_session *session;
static uint64_t unlike;
static unsigned char *src, *dst, *other; /* ROOM bytes each */

static unsigned char *room(uint32_t row)
{
	void *memory = NULL;

	if (gpumap_alloc(session, row, ROOM, &memory) != 0)
		exit(99);
	return memory;
}

static bool begin(const char *programs)
{
	put("unlike", "unlike");
	put("odd", "odd");
	if (!OK(start(programs)))
		return false;
	session = open_with(true);
	if (!OK(session != NULL))
		return false;
	src = room(0);
	dst = room(1);
	other = room(0);
	if (EQ(gpumap_program_load(session, 0, "unlike", &unlike), 0))
		return true;
	NOTE("%s", gpumap_refusal(map));
	return false;
}

static void end(void)
{
	gpumap_session_close(session);
	OK(gone_soon(program_worker(0)));
	OK(gone_soon(program_worker(1)));
	stop();
}

static struct gpumap_scatter_opts spread(void)
{
	static const uint32_t rows[] = { 1, 0 };
	static const double weights[] = { 3, 5 };

	return (struct gpumap_scatter_opts){
		.size = sizeof(struct gpumap_scatter_opts),
		.rows = rows,
		.weights = weights,
		.n_rows = 2
	};
}

static struct gpumap_job unlike_job(uint32_t from, uint32_t to)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_RUN,
				    .dtype = GPUMAP_DTYPE_U8,
				    .src = from ? src : NULL,
				    .dst = to ? dst : NULL,
				    .src_item_bytes = from,
				    .dst_item_bytes = to,
				    .n = ITEMS,
				    .program = unlike };
}

/* All items are as programs/unlike.c writes them, and nothing is written behind
 * them. */
static bool is_right(uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < ITEMS; i++)
		for (uint32_t k = 0; k < to; k++)
			if (dst[i * to + k] !=
			    (unsigned char)(k + (from ? src[i * from + k % from]
						      : 0))) {
				NOTE("byte %u of item %u", k, i);
				return false;
			}
	for (uint32_t i = ITEMS * to; i < ROOM; i++)
		if (dst[i] != 0xee) {
			NOTE("byte %u is behind the last item", i);
			return false;
		}
	return true;
}

static void throw_bytes(void)
{
	for (uint32_t i = 0; i < ROOM; i++)
		src[i] = (unsigned char)(i * 2654435761u >> 11);
	memset(dst, 0xee, ROOM);
}

static void items_may_be_of_unlike_sizes(void)
{
	static const uint32_t sizes[][2] = { { 1, 8 },  { 12, 4 }, { 3, 7 },
					     { 0, 5 },  { 9, 0 },  { 40, 1 },
					     { 1, 40 }, { 16, 16 } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t from = sizes[i][0], to = sizes[i][1];
		struct gpumap_scatter_opts opts = spread();
		struct gpumap_job job = unlike_job(from, to);
		struct gpumap_tile tiles[2];

		throw_bytes();
		if (!EQ(gpumap_scatter(session, &job, &opts, tiles, 2), 2))
			NOTE("items of %u and %u: %s", from, to,
			     gpumap_refusal(map));
		/* The tiles come in the order in which the rows were named. */
		EQ(tiles[0].row, 1);
		EQ(tiles[0].first, 0);
		EQ(tiles[0].n, 378); /* 1009 * 3 / 8 is 378.375 */
		EQ(tiles[1].row, 0);
		EQ(tiles[1].first, 378);
		EQ(tiles[1].n, ITEMS - 378);
		OK(is_right(from, to));
	}
}

/* With a destination buffer of its own each row writes its tile to the
 * beginning of that buffer. */
static void rows_may_have_their_own_results(void)
{
	struct gpumap_scatter_opts opts = spread();
	struct gpumap_job job = unlike_job(3, 7);
	uint64_t buffers[2] = { 0 };
	struct gpumap_tile tiles[2];

	throw_bytes();
	for (uint32_t i = 0; i < 2; i++)
		EQ(gpumap_buffer_alloc(session, opts.rows[i], ROOM, 0,
				       GPUMAP_NO_DEADLINE, &buffers[i]),
		   0);
	opts.dst_buffers = buffers;
	job.dst = NULL;
	job.dst_at = 16;
	EQ(gpumap_scatter(session, &job, &opts, tiles, 2), 2);
	for (uint32_t i = 0; i < 2; i++) {
		job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
					   .dst = dst + tiles[i].first * 7,
					   .src_buffer = buffers[i],
					   .src_at = 16,
					   .n = tiles[i].n * 7 };
		EQ(story_run(session, opts.rows[i], &job), 0);
	}
	OK(is_right(3, 7));
	for (uint32_t i = 0; i < 2; i++)
		EQ(gpumap_buffer_free(session, buffers[i]), 0);
}

/* The scatter reads what another job has written, and another job reads the
 * scatter's results. */
static void it_waits_and_is_waited_for(void)
{
	struct gpumap_job before = {
		.op = GPUMAP_OP_FILL, .dst = src, .n = ROOM, .pattern = 'a'
	};
	struct gpumap_job after = { .op = GPUMAP_OP_COPY,
				    .dst = other,
				    .src = dst,
				    .n = ITEMS * 4,
				    .n_waits = 2 };

	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_scatter_opts opts = spread();
		struct gpumap_job job = unlike_job(2, 4);
		struct gpumap_time waits[2];
		struct gpumap_tile tiles[2];
		uint64_t sum = 0;
		int ret;

		before.pattern = (uint64_t)('a' + round % 20);
		memset(other, 0, ROOM);
		EQ(gpumap_submit(session, 0, &before, 1), 0);
		EQ(gpumap_submitted(session, 0, &waits[0]), 0);
		job.waits = waits;
		job.n_waits = 1;
		opts.deadline_ns = round % 2; /* the caller does not wait */
		ret = gpumap_scatter(session, &job, &opts, tiles, 2);
		OK(ret == 2 || (round % 2 && ret == -ETIME));
		for (uint32_t i = 0; i < 2; i++)
			waits[i] =
				(struct gpumap_time){ .row = tiles[i].row,
						      .value = tiles[i].value };
		after.waits = waits;
		EQ(gpumap_submit(session, 1, &after, 1), 0);
		for (int i = 0; i < 2; i++) {
			struct gpumap_done done = { .status = 1 };

			EQ(gpumap_wait(session, &done, 1,
				       story_now() + STORY_LIMIT_NS),
			   1);
			EQ(done.status, 0);
		}
		for (uint32_t i = 0; i < ITEMS * 4; i++)
			sum += other[i] != before.pattern + i % 4;
		EQ(sum, 0);
	}
}

/* ---- a worker that dies once it has run ---------------------------------- */

/* A worker dies at @mark, after its job's program has run, or before.  The job
 * and those behind it have not ended, so each ends once, with -EIO.  After that
 * the program can run again. */
static void what_had_run_ends_once(const char *mark, bool has_run)
{
	static char point[64], ticket[192];
	struct gpumap_job jobs[3];
	uint32_t *memory;
	uint64_t odd = 0, until;
	pid_t before;
	FILE *file;
	int ret = -EIO;

	snprintf(point, sizeof(point), "GM_POINT=%s:kill", mark);
	snprintf(ticket, sizeof(ticket), "GM_POINT_TICKET=%s-ticket",
		 agent.dir);
	agent.env[0] = point;
	agent.env[1] = ticket;
	agent.env[2] = NULL;
	if (!begin("policy = any\n[worker]\nuser = root\n"))
		return;
	EQ(gpumap_program_load(session, 0, "odd", &odd), 0);
	before = program_worker(0);
	memory = (uint32_t *)(void *)other;
	for (uint32_t i = 0; i < 3; i++) {
		jobs[i] = odd_job(odd, memory, ODD_COUNTS);
		jobs[i].dst = memory + 16 + 2 * i;
		jobs[i].dst_item_bytes = 1;
		jobs[i].n = 100 + i;
		memory[16 + 2 * i] = 0;
	}
	file = fopen(strchr(ticket, '=') + 1, "w");
	if (!file)
		exit(99);
	fclose(file);
	EQ(gpumap_submit(session, 0, jobs, 3), 0);
	for (uint32_t n = 0; n < 3; n++) {
		struct gpumap_done done = { .status = 1 };

		EQ(gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS),
		   1);
		EQ(done.status, -EIO);
	}
	OK(gone_soon(before));
	EQ(access(strchr(ticket, '=') + 1, F_OK), -1); /* mark was reached */
	EQ(memory[16], has_run ? 100 : 0);
	EQ(memory[18], 0);
	until = story_now() + STORY_LIMIT_NS;
	while (ret == -EIO && story_now() < until)
		ret = story_run(session, 0, &jobs[2]);
	EQ(ret, 0);
	EQ(memory[20], 102);
	unlink(strchr(ticket, '=') + 1);
	end();
	agent.env[0] = NULL;
}

TAP_CASE()
{
	bool marked = tap_has_points() && geteuid() == 0;

	make();
	if (begin("policy = any\n")) {
		items_may_be_of_unlike_sizes();
		rows_may_have_their_own_results();
		it_waits_and_is_waited_for();
		end();
	}
	if (!marked)
		SKIP(1, "needs --enable-testpoints, and root");
	for (int n = getenv("GM_ROUNDS") ? story_rounds() : 2; marked && n > 0;
	     n--) {
		what_had_run_ends_once("worker_runs", false);
		what_had_run_ends_once("worker_ran", true);
	}
	agent_remove(&agent);
	return tap_done();
}
