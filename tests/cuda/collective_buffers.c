/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Collectives of memory that is the cards' own, which no other row can have
 * mapped: over one to four cards, and over cards and host rows.
 */

#define STAGE_CUDA 1

#include "tests/support/story_rows.h"
#include "tests/support/collective_buffers.h"

#define MIB (UINT64_C(1) << 20)

static const uint32_t dtypes[] = { GPUMAP_DTYPE_U8,   GPUMAP_DTYPE_F16,
				   GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F32,
				   GPUMAP_DTYPE_I32,  GPUMAP_DTYPE_I64 };

#define N_DTYPES_HERE (sizeof(dtypes) / sizeof(dtypes[0]))

static struct agent agent;
static struct gpumap *map;
static struct gpumap_session *session;

/* ---- means --------------------------------------------------------------- */

static bool open_group(uint32_t ranks, uint64_t bytes, struct ranks *ret_ranks)
{
	char mesh[16];

	snprintf(mesh, sizeof(mesh), "ranks%u", ranks);
	if (cards_open(session, mesh, bytes, ret_ranks))
		return true;
	NOTE("%s", gpumap_refusal(map));
	return false;
}

/* ---- what is right ------------------------------------------------------- */

static uint64_t each_op(struct ranks *g, uint32_t dtype, uint64_t n,
			uint32_t reduce, uint64_t step)
{
	struct shape s = { .dtype = dtype, .n = n, .reduce = reduce };
	uint64_t bad = 0;

	for (int i = 0; i < 2; i++) {
		s.in_place = i == 1;
		s.op = GPUMAP_OP_ALL_REDUCE;
		bad += cards_once(g, &s, step);
		s.op = GPUMAP_OP_REDUCE_SCATTER;
		bad += cards_once(g, &s, step);
		s.op = GPUMAP_OP_ALL_GATHER;
		bad += cards_once(g, &s, step);
	}
	s.in_place = false;
	s.op = GPUMAP_OP_BROADCAST;
	s.root = g->n - 1;
	bad += cards_once(g, &s, step);
	s.op = GPUMAP_OP_SEND;
	s.peer = 0;
	if (g->n > 1)
		bad += cards_once(g, &s, step);
	return bad;
}

static void everything_is_right(uint32_t ranks)
{
	uint64_t bad = 0;
	struct ranks g;

	if (!open_group(ranks, 256 << 10, &g))
		return;
	for (uint32_t d = 0; d < N_DTYPES_HERE; d++) {
		uint64_t each = ref_bytes(dtypes[d]), wrong = 0;
		const uint64_t sizes[] = { 0, 1, 333, 4096 / each,
					   4096 / each + 1 };

		for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			wrong += each_op(&g, dtypes[d], sizes[i],
					 (d + i) % (GPUMAP_REDUCE_AVERAGE + 1),
					 1);
		if (wrong)
			NOTE("%u ranks, dtype %u: %" PRIu64 " wrong", ranks,
			     dtypes[d], wrong);
		bad += wrong;
	}
	EQ(bad, 0);
	cards_close(&g);
}

/* Many rounds of each, the last of them not full. */
static void large_ones_are_right(uint32_t ranks)
{
	struct ranks g;

	if (!open_group(ranks, 34 * MIB, &g))
		return;
	EQ(each_op(&g, GPUMAP_DTYPE_F32, MIB / 2 + 5, GPUMAP_REDUCE_SUM, 997),
	   0);
	EQ(each_op(&g, GPUMAP_DTYPE_U8, MIB + 1, GPUMAP_REDUCE_MAX, 997), 0);
	/* One round, and as much as two have. */
	EQ(each_op(&g, GPUMAP_DTYPE_I64, MIB / 8, GPUMAP_REDUCE_SUM, 97), 0);
	EQ(each_op(&g, GPUMAP_DTYPE_I32, MIB / 2, GPUMAP_REDUCE_MIN, 97), 0);
	cards_close(&g);
}

static void sixteen_mebibytes(void)
{
	struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
			   .dtype = GPUMAP_DTYPE_F32,
			   .n = 16 * MIB / 4,
			   .in_place = true };
	struct ranks g;

	if (!open_group(6, 34 * MIB, &g))
		return;
	EQ(cards_once(&g, &s, 997), 0);
	s.in_place = false;
	EQ(cards_once(&g, &s, 997), 0);
	cards_close(&g);
}

/* ---- order --------------------------------------------------------------- */

/* Behind the jobs that fill the buffers and before those that read them, in the
 * rows' own queues: no client waits in between. */
static void queues_keep_their_order(void)
{
	const struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
				 .dtype = GPUMAP_DTYPE_I32,
				 .n = MIB,
				 .in_place = true };
	uint32_t wrong = 0, odd = 0;
	struct ranks g;

	if (!open_group(5, 8 * MIB, &g))
		return;
	for (uint32_t round = 1; round <= 5; round++) {
		for (uint32_t r = 0; r < g.n; r++) {
			struct gpumap_job job = { .op = GPUMAP_OP_FILL,
						  .dtype = s.dtype,
						  .n = s.n,
						  .pattern = round + r,
						  .dst_buffer = g.buffer[r] };

			odd += gpumap_submit(session, r, &job, 1) != 0;
		}
		odd += cards_submit(&g, &s, 0) != 0;
		for (uint32_t r = 0; r < g.n; r++) {
			struct gpumap_job job = { .op = GPUMAP_OP_COPY,
						  .dtype = s.dtype,
						  .n = s.n,
						  .dst = g.memory[r],
						  .src_buffer = g.buffer[r] };

			odd += gpumap_submit(session, r, &job, 1) != 0;
		}
		for (uint32_t i = 0; i < 2 * g.n + 1; i++)
			odd += collective_end(session, 0) != 0;
		for (uint32_t r = 0; r < g.n; r++)
			for (uint64_t i = 0; i < s.n; i += 61)
				wrong += ((uint32_t *)(void *)g.memory[r])[i] !=
					 5 * round + 10;
	}
	EQ(odd, 0);
	EQ(wrong, 0);
	cards_close(&g);
}

/* ---- what cannot be ------------------------------------------------------ */

/* One rank's memory is gone, or lies upon itself.  All hear of it, and the
 * group lives on. */
static void one_rank_cannot(void)
{
	struct gpumap_rank rank[5] = { 0 };
	struct gpumap_collective what = { .size = sizeof(what),
					  .op = GPUMAP_OP_ALL_REDUCE,
					  .dtype = GPUMAP_DTYPE_F32,
					  .n = MIB,
					  .ranks = rank,
					  .cookie = 3 };
	struct shape s = { .op = what.op, .dtype = what.dtype, .n = 1000 };
	struct ranks g;

	if (!open_group(5, 16 * MIB, &g))
		return;
	for (uint32_t r = 0; r < g.n; r++) {
		rank[r].send_buffer = rank[r].recv_buffer = g.buffer[r];
		rank[r].recv_at = 4 * MIB;
	}
	rank[2].recv_at = 4;
	EQ(gpumap_comm_submit(g.comm, &what), 0);
	EQ(collective_end(session, 3), -EINVAL);
	rank[2].recv_at = 13 * MIB;
	EQ(gpumap_comm_submit(g.comm, &what), -ERANGE);
	rank[2].recv_at = 4 * MIB;
	/* Another card's. */
	rank[2].send_buffer = g.buffer[1];
	EQ(gpumap_comm_submit(g.comm, &what), -EOPNOTSUPP);
	EQ(cards_once(&g, &s, 1), 0);
	cards_close(&g);
}

/* ---- what goes wrong on the way ------------------------------------------ */

static pid_t worker_of(uint32_t row)
{
	return (pid_t)story_device(map, row).worker_pid;
}

/* Until a group can be had again. */
static bool open_again(uint32_t ranks, uint64_t bytes, struct ranks *ret_ranks)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_comm *comm;
	char mesh[16];
	int ret;

	snprintf(mesh, sizeof(mesh), "ranks%u", ranks);
	do
		ret = gpumap_comm_open(session, mesh, NULL, &comm);
	while ((ret == -ESTALE || ret == -ENODEV) && story_now() < until);
	return EQ(ret, 0) && EQ(gpumap_comm_close(comm), 0) &&
	       open_group(ranks, bytes, ret_ranks);
}

/* A client that died of it has no buffer any more. */
static void close_broken(struct ranks *g)
{
	EQ(gpumap_comm_close(g->comm), 0);
	for (uint32_t r = 0; r < g->n; r++) {
		int ret = gpumap_buffer_free(session, g->buffer[r]);

		OK(ret == 0 || ret == -ESTALE || ret == -ENODEV);
		gpumap_free(session, g->memory[r]);
	}
}

static const struct shape large = { .op = GPUMAP_OP_ALL_REDUCE,
				    .dtype = GPUMAP_DTYPE_I32,
				    .n = 2 * MIB + 3 };

/* A card dies of one of its copies, at the beginning, on the way, at the
 * end. */
static void a_card_fails(void)
{
	static const uint32_t copies[] = { 1, 2, 5, 9, 16, 18 };
	struct ranks g;

	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		struct gpumap_device device = story_device(map, 1);
		uint32_t gpu = cuda_scene_gpu(&stage_scene, &device);
		pid_t other = worker_of(2);
		uint64_t n;
		int status;

		if (!open_again(5, 20 * MIB, &g))
			return;
		n = cuda_scene_copies(&stage_scene, gpu);
		cuda_scene_add(&stage_scene, "row %u: copy %u: sticky 719", gpu,
			       (uint32_t)n + copies[i]);
		EQ(cards_submit(&g, &large, 1), 0);
		status = collective_end(session, 1);
		NOTE("copy %u: %s", copies[i], gpumap_strerror(status));
		EQ(status, -EIO);
		EQ(cards_submit(&g, &large, 2), -ESTALE);
		OK(story_back(map, 1, device.restarts));
		EQ(worker_of(2), other);
		cuda_scene_mend(&stage_scene);
		close_broken(&g);
	}
	if (!open_again(5, 40 * MIB, &g))
		return;
	EQ(cards_once(&g, &large, 997), 0);
	cards_close(&g);
}

/* The time of all is up while copies of one are under way.  Nothing is written
 * behind that. */
static void a_card_is_slow(void)
{
	struct gpumap_device device = story_device(map, 0);
	uint32_t gpu = cuda_scene_gpu(&stage_scene, &device);
	const char *got;
	struct ranks g;
	char *before;

	if (!open_again(5, 20 * MIB, &g))
		return;
	cuda_scene_add(&stage_scene, "row %u: copies take 200 ms", gpu);
	g.deadline_ns = story_now() + STORY_LIMIT_NS;
	EQ(collective_submit(&g, &large, 1), 0);
	EQ(collective_end(session, 1), 0);
	g.deadline_ns = story_now() + 500000000;
	EQ(cards_submit(&g, &large, 2), 0);
	EQ(collective_end(session, 2), -ETIME);
	got = gotten(&g, &large, 4);
	before = malloc(shape_bytes(&large));
	memcpy(before, got, shape_bytes(&large));
	story_nap(600000);
	EQ(memcmp(before, got, shape_bytes(&large)), 0);
	free(before);
	EQ(cards_submit(&g, &large, 3), -ESTALE);
	cuda_scene_mend(&stage_scene);
	cards_close(&g);
	if (!open_again(5, 40 * MIB, &g))
		return;
	EQ(cards_once(&g, &large, 997), 0);
	cards_close(&g);
}

/* The worker of a rank is killed while memory of cards goes around. */
static void a_worker_is_killed(void)
{
	int odd = 0, wrong = 0, well = 0;

	for (int round = 0; round < story_rounds(); round++) {
		uint32_t row = (uint32_t)round % 5;
		struct gpumap_device device = story_device(map, row);
		struct before b;
		struct ranks g;
		int status;

		if (!open_again(5, 20 * MIB, &g))
			return;
		collective_fill(&g, &large, &b);
		EQ(cards_bring(&g, 20 * MIB, false), 0);
		EQ(cards_submit(&g, &large, 1), 0);
		story_nap(story_moment(round, 6000));
		kill((pid_t)device.worker_pid, SIGKILL);
		status = collective_end(session, 1);
		odd += status != 0 && status != -EIO && status != -ESTALE;
		well += status == 0;
		OK(story_back(map, row, device.restarts));
		if (status == 0) {
			/* The others' buffers have the right bytes, and still
			 * exist. */
			uint32_t left = (row + 1) % 5;
			struct gpumap_job job = { .op = GPUMAP_OP_COPY,
						  .n = 20 * MIB,
						  .dst = g.memory[left],
						  .src_buffer =
							  g.buffer[left] };

			EQ(gpumap_submit(session, left, &job, 1), 0);
			EQ(collective_end(session, 0), 0);
			for (uint64_t i = 0; i < large.n; i += 997)
				wrong += ref_load(gotten(&g, &large, left), i,
						  large.dtype) !=
					 want_of(&g, &large, &b, left, i);
		}
		before_free(&b);
		close_broken(&g);
	}
	EQ(odd, 0);
	EQ(wrong, 0);
	NOTE("%d of %d were over before", well, story_rounds());
}

/* The pages of groups are charged, and given back. */
static void windows_are_charged(void)
{
	struct gpumap_comm *comm[64];
	int ret = 0, n = 0;

	while (n < 64) {
		ret = gpumap_comm_open(session, "ranks8", NULL, &comm[n]);
		if (ret != 0)
			break;
		n++;
	}
	EQ(ret, -EDQUOT);
	OK(strstr(gpumap_refusal(map), "arena-per-uid") != NULL);
	OK(n > 1);
	while (n > 0)
		EQ(gpumap_comm_close(comm[--n]), 0);
	EQ(gpumap_comm_open(session, "ranks8", NULL, &comm[0]), 0);
	EQ(gpumap_comm_close(comm[0]), 0);
}

TAP_CASE()
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE,
					    .arena_bytes = 40 * MIB };

	stage_make(&agent,
		   "[host]\nrows = 4\n[limits]\narena-per-uid = 512M\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))) ||
	    !EQ(gpumap_session_open(map, &opts, &session), 0)) {
		agent_show_log(&agent);
		return tap_done();
	}
	for (uint32_t ranks = 1; ranks <= COLLECTIVE_RANKS; ranks++) {
		char mesh[16];

		snprintf(mesh, sizeof(mesh), "ranks%u", ranks);
		EQ(collective_mesh(map, mesh, ranks), 0);
		everything_is_right(ranks);
	}
	large_ones_are_right(2);
	large_ones_are_right(7);
	sixteen_mebibytes();
	queues_keep_their_order();
	one_rank_cannot();
	a_card_fails();
	a_card_is_slow();
	a_worker_is_killed();
	windows_are_charged();
	gpumap_session_close(session);
	return stage_finish(&agent, map);
}
