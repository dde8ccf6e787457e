/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks collectives on eight rows against arithmetic of one element at a time:
 * each operation, type and reduction, over one to eight ranks.
 *
 * With STAGE_CUDA the first four rows are cards, so there are groups of cards
 * alone, and of cards and host rows.
 */

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/story_rows.h"
#include "tests/support/collective.h"

#ifdef STAGE_CUDA
#define CONFIG "[host]\nrows = 4\n"
#else
#define CONFIG "[host]\nrows = 8\n"
#endif

static const uint32_t dtypes[] = { GPUMAP_DTYPE_U8,   GPUMAP_DTYPE_F16,
				   GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F32,
				   GPUMAP_DTYPE_I32,  GPUMAP_DTYPE_I64 };

#define N_DTYPES_HERE (sizeof(dtypes) / sizeof(dtypes[0]))
#define N_REDUCES     (GPUMAP_REDUCE_AVERAGE + 1)

static struct agent agent;
static struct gpumap *map;
static struct gpumap_session *session;

/* ---- the expected results ------------------------------------------------ */

static uint64_t each_op(struct ranks *g, uint32_t dtype, uint64_t n,
			uint64_t step)
{
	struct shape s = { .dtype = dtype, .n = n };
	uint64_t bad = 0;

	for (s.reduce = 0; s.reduce <= GPUMAP_REDUCE_AVERAGE; s.reduce++) {
		for (int i = 0; i < 2; i++) {
			s.in_place = i == 1;
			s.op = GPUMAP_OP_ALL_REDUCE;
			bad += collective_once(g, &s, step);
			s.op = GPUMAP_OP_REDUCE_SCATTER;
			bad += collective_once(g, &s, step);
		}
	}
	s.reduce = 0;
	for (int i = 0; i < 2; i++) {
		s.in_place = i == 1;
		s.op = GPUMAP_OP_ALL_GATHER;
		bad += collective_once(g, &s, step);
	}
	s.in_place = false;
	s.root = g->n - 1;
	s.op = GPUMAP_OP_BROADCAST;
	bad += collective_once(g, &s, step);
	s.op = GPUMAP_OP_SEND;
	s.peer = 0;
	if (g->n > 1)
		bad += collective_once(g, &s, step);
	return bad;
}

static void everything_is_right(uint32_t ranks)
{
	const struct shape barrier = { .op = GPUMAP_OP_BARRIER };
	uint64_t bad = 0;
	struct ranks g;
	char mesh[16];

	snprintf(mesh, sizeof(mesh), "ranks%u", ranks);
	EQ(collective_mesh(map, mesh, ranks), 0);
	if (!collective_open(session, mesh, 256 << 10, &g))
		return;
	EQ(g.n, ranks);
	for (uint32_t d = 0; d < N_DTYPES_HERE; d++) {
		uint64_t each = ref_bytes(dtypes[d]), wrong = 0;
		const uint64_t sizes[] = { 0, 1, 333, 4096 / each,
					   4096 / each + 1 };

		for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			wrong += each_op(&g, dtypes[d], sizes[i], 1);
		if (wrong)
			NOTE("%u ranks, dtype %u: %" PRIu64 " wrong", ranks,
			     dtypes[d], wrong);
		bad += wrong;
	}
	EQ(bad, 0);
	EQ(collective_submit(&g, &barrier, 5), 0);
	EQ(collective_end(session, 5), 0);
	collective_close(&g);
}

/* Each collective takes many slices. */
static void large_ones_are_right(uint32_t ranks)
{
	struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
			   .dtype = GPUMAP_DTYPE_F32,
			   .n = (4 << 20) + 5 };
	struct ranks g;
	char mesh[16];

	snprintf(mesh, sizeof(mesh), "ranks%u", ranks);
	if (!collective_open(session, mesh, 34 << 20, &g))
		return;
	EQ(collective_once(&g, &s, 997), 0);
	s.in_place = true;
	EQ(collective_once(&g, &s, 997), 0);
	s.in_place = false;
	s.op = GPUMAP_OP_BROADCAST;
	EQ(collective_once(&g, &s, 997), 0);
	s.n /= ranks;
	s.op = GPUMAP_OP_REDUCE_SCATTER;
	EQ(collective_once(&g, &s, 997), 0);
	s.op = GPUMAP_OP_ALL_GATHER;
	EQ(collective_once(&g, &s, 997), 0);
	collective_close(&g);
}

/* For each number of ranks every seventh pair of a type and a reduction: as
 * many bytes as are copied past the caches, and one element more; 16 MiB in the
 * torture test. */
static void every_type_is_right_when_large(uint32_t ranks)
{
	uint64_t bytes = getenv("GM_ROUNDS") ? 16 << 20 : 1 << 20, wrong = 0;
	struct ranks g;
	char mesh[16];

	snprintf(mesh, sizeof(mesh), "ranks%u", ranks);
	if (!collective_open(session, mesh, 2 * bytes + 4096, &g))
		return;
	for (uint32_t k = ranks - 2; k < N_DTYPES_HERE * N_REDUCES; k += 7) {
		struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
				   .dtype = dtypes[k % N_DTYPES_HERE],
				   .reduce = k / N_DTYPES_HERE };

		s.n = bytes / ref_bytes(s.dtype) + 1;
		wrong += collective_once(&g, &s, 61);
		s.op = GPUMAP_OP_REDUCE_SCATTER;
		s.n /= ranks;
		wrong += collective_once(&g, &s, 61);
		s.op = GPUMAP_OP_ALL_GATHER;
		wrong += collective_once(&g, &s, 61);
	}
	EQ(wrong, 0);
	collective_close(&g);
}

/* ---- many at once -------------------------------------------------------- */

#define MANY 40u

/* Two groups share rows and take turns; all their collectives are under way at
 * once. */
static void many_are_under_way(void)
{
	struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
			   .dtype = GPUMAP_DTYPE_I32,
			   .n = 3000,
			   .in_place = true };
	struct ranks g[2];
	uint32_t wrong = 0;

	if (!collective_open(session, "ranks3", 16384, &g[0]) ||
	    !collective_open(session, "ranks5", 16384, &g[1]))
		return;
	for (uint32_t k = 0; k < 2; k++)
		for (uint32_t r = 0; r < g[k].n; r++)
			for (uint32_t i = 0; i < s.n; i++)
				((int32_t *)(void *)g[k].memory[r])[i] = 1;
	for (uint32_t i = 0; i < MANY; i++)
		wrong += collective_submit(&g[i % 3 == 0], &s, i) != 0;
	EQ(wrong, 0);
	for (uint32_t i = 0; i < MANY; i++) {
		struct gpumap_done done = { .status = 1 };

		wrong += gpumap_wait(session, &done, 1,
				     story_now() + STORY_LIMIT_NS) != 1 ||
			 done.status != 0 || done.cookie >= MANY;
	}
	EQ(wrong, 0);
	/* Each of the sums in place multiplies the elements by the number of
	 * ranks. */
	for (uint32_t k = 0; k < 2; k++) {
		uint32_t want = 1, times = k == 1 ? (MANY + 2) / 3
						  : MANY - (MANY + 2) / 3;

		for (uint32_t i = 0; i < times; i++)
			want *= g[k].n;
		for (uint32_t r = 0; r < g[k].n; r++)
			for (uint32_t i = 0; i < s.n; i++)
				wrong += ((uint32_t *)(void *)g[k]
						  .memory[r])[i] != want;
	}
	EQ(wrong, 0);
	collective_close(&g[0]);
	collective_close(&g[1]);
}

/* ---- other memory -------------------------------------------------------- */

static uint64_t exportable(uint32_t row, uint64_t bytes, uint32_t flags)
{
	uint64_t buffer = 0;

	EQ(gpumap_buffer_alloc(session, row, bytes, flags,
			       story_now() + STORY_LIMIT_NS, &buffer),
	   0);
	return buffer;
}

static int one_job(uint32_t row, struct gpumap_job *job)
{
	int ret;

	job->cookie = 9;
	ret = gpumap_submit(session, row, job, 1);
	return ret ? ret : collective_end(session, 9);
}

enum { ELEMENTS = 9000, BYTES = ELEMENTS * 4 };

static void what_the_others_do_not_reach(struct gpumap_comm *comm,
					 const struct gpumap_collective *what,
					 struct gpumap_rank *rank)
{
	uint64_t plain = exportable(0, 2 * BYTES, 0);

	rank[0].send_buffer = plain;
#ifdef STAGE_CUDA /* A card needs no exportable memory. */
	EQ(gpumap_comm_submit(comm, what), 0);
	EQ(collective_end(session, what->cookie), 0);
#else
	EQ(gpumap_comm_submit(comm, what), -EOPNOTSUPP);
	OK(strstr(gpumap_refusal(map), "GPUMAP_BUFFER_EXPORTABLE") != NULL);
#endif
	rank[0].send_buffer = rank[0].recv_buffer;
	rank[0].recv_at = BYTES + 4;
	EQ(gpumap_comm_submit(comm, what), -ERANGE);
	rank[0].recv_at = 2;
	EQ(gpumap_comm_submit(comm, what), -EINVAL);
	EQ(gpumap_buffer_free(session, plain), 0);
	EQ(gpumap_buffer_free(session, rank[0].recv_buffer), 0);
	rank[0].recv_at = BYTES;
	EQ(gpumap_comm_submit(comm, what), -ESTALE);
}

static int32_t *numbers(char *memory)
{
	return (int32_t *)(void *)memory;
}

/* Count the elements that are not the sum 100 + i + 7 of the three ranks. */
static uint32_t wrong_sums(const int32_t *sums)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < ELEMENTS; i++)
		wrong += sums[i] != 107 + (int32_t)i;
	return wrong;
}

/* The ranks use a buffer of a row, memory that the client registered, and the
 * session's arena. */
static void buffers_take_part(void)
{
	struct gpumap_rank rank[3] = { 0 };
	struct gpumap_collective what = { .size = sizeof(what),
					  .op = GPUMAP_OP_ALL_REDUCE,
					  .dtype = GPUMAP_DTYPE_I32,
					  .n = ELEMENTS,
					  .ranks = rank,
					  .cookie = 4 };
	int fd = memfd_create("collective", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	uint64_t registered = 0;
	int32_t *ours;
	struct ranks g;

	if (!collective_open(session, "ranks3", 2 * BYTES, &g))
		return;
	OK(ftruncate(fd, 2 * BYTES) == 0);
	OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	ours = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	OK(ours != MAP_FAILED);
	EQ(gpumap_buffer_register(session, fd, 0, 2 * BYTES, 0, &registered),
	   0);
	rank[0].send_buffer =
		exportable(0, 2 * BYTES, GPUMAP_BUFFER_EXPORTABLE);
	rank[0].recv_buffer = rank[0].send_buffer;
	rank[0].recv_at = BYTES;
	rank[1].send_buffer = rank[1].recv_buffer = registered;
	rank[1].recv_at = BYTES;
	rank[2].send = g.memory[2];
	rank[2].recv = g.memory[2] + BYTES;
	for (uint32_t i = 0; i < ELEMENTS; i++) {
		ours[i] = (int32_t)i;
		numbers(g.memory[2])[i] = 7;
	}
	EQ(one_job(0,
		   &(struct gpumap_job){ .op = GPUMAP_OP_FILL,
					 .dtype = GPUMAP_DTYPE_I32,
					 .n = ELEMENTS,
					 .pattern = 100,
					 .dst_buffer = rank[0].send_buffer }),
	   0);
	EQ(gpumap_comm_submit(g.comm, &what), 0);
	EQ(collective_end(session, 4), 0);
	EQ(one_job(0, &(struct gpumap_job){ .op = GPUMAP_OP_COPY,
					    .dtype = GPUMAP_DTYPE_I32,
					    .n = ELEMENTS,
					    .dst = g.memory[0],
					    .src_buffer = rank[0].recv_buffer,
					    .src_at = BYTES }),
	   0);
	EQ(wrong_sums(numbers(g.memory[0])), 0);
	EQ(wrong_sums(ours + ELEMENTS), 0);
	EQ(wrong_sums(numbers(g.memory[2]) + ELEMENTS), 0);

	what_the_others_do_not_reach(g.comm, &what, rank);
	EQ(gpumap_buffer_unregister(session, registered), 0);
	munmap(ours, 2 * BYTES);
	close(fd);
	collective_close(&g);
}

/* ---- order --------------------------------------------------------------- */

/* A collective waits for a job of another row, and a job of a third row waits
 * for the collective. */
static void waits_on_both_sides(void)
{
	enum { N = 1 << 20 };
	struct gpumap_collective what = { .size = sizeof(what),
					  .op = GPUMAP_OP_BROADCAST,
					  .dtype = GPUMAP_DTYPE_I32,
					  .n = N,
					  .n_waits = 1,
					  .cookie = 2 };
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_I32,
				  .n = N,
				  .cookie = 1 };
	struct gpumap_time time;
	uint32_t wrong = 0, late = 0;
	struct ranks g;

	if (!collective_open(session, "ranks2", N * 4, &g))
		return;
	what.ranks = g.rank;
	what.waits = &time;
	for (int32_t round = 1; round <= 10; round++) {
		g.rank[0].send = g.memory[0];
		g.rank[1].recv = g.memory[1];
		/* Row 5 writes the contribution of rank 0.  Row 6 writes where
		 * rank 1 received its result. */
		job.op = GPUMAP_OP_FILL;
		job.dst = g.memory[0];
		job.src = NULL;
		job.pattern = (uint32_t)round;
		job.n_waits = 0;
		EQ(gpumap_submit(session, 5, &job, 1), 0);
		EQ(gpumap_submitted(session, 5, &time), 0);
		EQ(gpumap_comm_submit(g.comm, &what), 0);
		EQ(gpumap_submitted(session, 1, &time), 0);
		job.op = GPUMAP_OP_SCALE;
		job.dtype = GPUMAP_DTYPE_F32;
		job.src = job.dst = g.memory[1];
		job.alpha = 1;
		job.waits = &time;
		job.n_waits = 1;
		EQ(gpumap_submit(session, 6, &job, 1), 0);
		job.dtype = GPUMAP_DTYPE_I32;
		for (int i = 0; i < 3; i++) {
			struct gpumap_done done = { .status = 1 };

			late += gpumap_wait(session, &done, 1,
					    story_now() + STORY_LIMIT_NS) != 1;
			wrong += done.status != 0;
		}
		for (uint32_t i = 0; i < N; i += 64)
			wrong += ((int32_t *)(void *)g.memory[1])[i] != round;
	}
	EQ(wrong, 0);
	EQ(late, 0);
	collective_close(&g);
}

/* ---- refusals ------------------------------------------------------------ */

static void upon_each_other(struct ranks *g)
{
	const struct gpumap_collective what = { .size = sizeof(what),
						.op = GPUMAP_OP_ALL_REDUCE,
						.dtype = GPUMAP_DTYPE_F32,
						.n = 100,
						.ranks = g->rank,
						.cookie = 3 };

	g->rank[1].send = g->memory[1];
	g->rank[1].recv = g->memory[1] + 4;
	EQ(gpumap_comm_submit(g->comm, &what), 0);
	EQ(collective_end(session, 3), -EINVAL);
}

static void what_cannot_be_is_refused(void)
{
	struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
			   .dtype = GPUMAP_DTYPE_F32,
			   .n = 100 };
	struct gpumap_job job = { .op = GPUMAP_OP_BARRIER };
	struct gpumap_comm *comm;
	struct ranks g;

	EQ(gpumap_comm_open(session, "nobody", NULL, &comm), -ENOENT);
	EQ(gpumap_comm_open(session, "ranks2", "nobody", &comm), -ENOENT);
	EQ(gpumap_comm_close(NULL), 0);
	EQ(gpumap_submit(session, 0, &job, 1), -EINVAL);
	if (!collective_open(session, "ranks2", 65536, &g))
		return;
	s.dtype = GPUMAP_DTYPE_F64;
	EQ(collective_submit(&g, &s, 1), -EINVAL);
	s.dtype = GPUMAP_DTYPE_F32;
	s.reduce = 5;
	EQ(collective_submit(&g, &s, 1), -EINVAL);
	s.reduce = 0;
	s.op = GPUMAP_OP_RECV;
	EQ(collective_submit(&g, &s, 1), -EINVAL);
	s.op = GPUMAP_OP_RUN;
	EQ(collective_submit(&g, &s, 1), -EINVAL);
	s.op = GPUMAP_OP_BROADCAST;
	s.root = 2;
	EQ(collective_submit(&g, &s, 1), -EINVAL);
	s.op = GPUMAP_OP_SEND;
	s.root = s.peer = 1;
	EQ(collective_submit(&g, &s, 1), -EINVAL);
	s.peer = 2;
	EQ(collective_submit(&g, &s, 1), -EINVAL);
	s.op = GPUMAP_OP_ALL_REDUCE;
	s.n = UINT64_MAX / 4;
	EQ(collective_submit(&g, &s, 1), -ERANGE);
	s.n = UINT64_C(1) << 50;
	EQ(collective_submit(&g, &s, 1), -ERANGE);
	/* Memory of the ranks overlaps: the ranks find that, and continue. */
	s.n = 100;
	EQ(collective_submit(&g, &s, 1), 0);
	EQ(collective_end(session, 1), 0);
	g.memory[1] += 4;
	s.in_place = true;
	EQ(collective_submit(&g, &s, 2), 0);
	EQ(collective_end(session, 2), 0);
	g.memory[1] -= 4;
	upon_each_other(&g);
	EQ(collective_once(&g, &s, 1), 0);
	collective_close(&g);
}

/* ---- limits of time ------------------------------------------------------ */

static pid_t worker_of(uint32_t row)
{
	return (pid_t)story_device(map, row).worker_pid;
}

/* One rank does not come.  The deadline ends the other ranks' parts; other
 * sessions do not wait. */
static void a_deadline_ends_all(void)
{
	struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
			   .dtype = GPUMAP_DTYPE_F32,
			   .n = 100 };
	struct gpumap_session *other = NULL;
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .cookie = 3 };
	pid_t pid = worker_of(2);
	struct ranks g;
	uint64_t began;

	EQ(gpumap_session_open(map, NULL, &other), 0);
	EQ(gpumap_submit(other, 0, &nop, 1), 0);
	EQ(collective_end(other, 3), 0);
	if (!collective_open(session, "ranks3", 65536, &g))
		return;
	EQ(collective_once(&g, &s, 1), 0);
	/* No deadline ends a part before all are submitted. */
	for (uint32_t row = 0; row < 3; row++)
		OK(process_stop(worker_of(row)));
	began = story_now();
	g.deadline_ns = began + 300000000;
	EQ(collective_submit(&g, &s, 1), 0);
	g.deadline_ns = 0;
	EQ(collective_submit(&g, &s, 2), 0);
	for (uint32_t row = 0; row < 2; row++)
		EQ(kill(worker_of(row), SIGCONT), 0);
	/* The waiting row serves another session. */
	EQ(gpumap_submit(other, 0, &nop, 1), 0);
	EQ(collective_end(other, 3), 0);
	EQ(collective_end(session, 1), -ETIME);
	OK(story_now() >= began + 300000000);
	EQ(collective_submit(&g, &s, 3), -ESTALE);
	OK(strstr(gpumap_refusal(map), "comm_renew") != NULL);
	EQ(kill(pid, SIGCONT), 0);
	EQ(collective_end(session, 2), -ESTALE);
	collective_close(&g);
	if (!collective_open(session, "ranks3", 65536, &g))
		return;
	EQ(collective_once(&g, &s, 1), 0);
	collective_close(&g);
	gpumap_session_close(other);
}

static void a_cancel_ends_all(void)
{
	struct shape s = { .op = GPUMAP_OP_BARRIER };
	pid_t pid = worker_of(2);
	struct ranks g;

	if (!collective_open(session, "ranks3", 0, &g))
		return;
	OK(process_stop(pid));
	EQ(collective_submit(&g, &s, 1), 0);
	EQ(gpumap_cancel(session, 1), 0);
	story_nap(50000);
	EQ(kill(pid, SIGCONT), 0);
	EQ(collective_end(session, 1), -ECANCELED);
	collective_close(&g);
}

/* A communicator is closed while one collective is under way, and a session
 * while many are. */
static void a_close_ends_all(void)
{
	struct shape s = { .op = GPUMAP_OP_BARRIER };
	struct gpumap_session *other = NULL;
	pid_t pid = worker_of(2);
	struct ranks g;

	EQ(gpumap_session_open(map, NULL, &other), 0);
	if (!collective_open(other, "ranks3", 0, &g))
		return;
	OK(process_stop(pid));
	EQ(collective_submit(&g, &s, 1), 0);
	/* The agent ends the stopped worker. */
	EQ(gpumap_comm_close(g.comm), 0);
	EQ(collective_end(other, 1), -EIO);
	OK(story_back(map, 2, 0));
	if (!collective_open(other, "ranks3", 0, &g))
		return;
	for (int i = 0; i < 10; i++)
		EQ(collective_submit(&g, &s, 1), 0);
	gpumap_session_close(other);
	gpumap_comm_close(g.comm);
}

TAP_CASE()
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE };

	stage_make(&agent, CONFIG);
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	opts.arena_bytes = 72 << 20;
	if (!OK(map != NULL) ||
	    !EQ(gpumap_session_open(map, &opts, &session), 0)) {
		NOTE("%s", map ? gpumap_refusal(map) : "");
		return tap_done();
	}
	for (uint32_t ranks = 1; ranks <= COLLECTIVE_RANKS; ranks++)
		everything_is_right(ranks);
	large_ones_are_right(2);
	large_ones_are_right(3);
	for (uint32_t ranks = 2; ranks <= COLLECTIVE_RANKS; ranks++)
		every_type_is_right_when_large(ranks);
	many_are_under_way();
	buffers_take_part();
	waits_on_both_sides();
	what_cannot_be_is_refused();
	a_deadline_ends_all();
	a_cancel_ends_all();
	a_close_ends_all();
	gpumap_session_close(session);
	return stage_finish(&agent, map);
}
