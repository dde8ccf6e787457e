/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Pairs of a group whose cards have met: each send goes from card to card, by
 * the stand-in for NCCL, and is seen there; of every type and size, in any
 * direction, among collectives of all and beside other pairs.
 */

#define STAGE_CUDA 1

#include "tests/stubs/nccl.h"
#include "tests/support/collective_nccl.h"
#include "tests/support/dice.h"

#define LARGE (16 * MIB)

/* Lines of the stand-in about both ends so far. */
static unsigned int seen(void)
{
	return agent_count_log(&agent, "nccl send ") +
	       agent_count_log(&agent, "nccl recv ");
}

/* The line is in the log before the send has ended. */
static void is_seen(const struct shape *s, unsigned int before, uint64_t sends)
{
	static const int types[] = {
		[GPUMAP_DTYPE_U8] = ncclUint8,
		[GPUMAP_DTYPE_I32] = ncclInt32,
		[GPUMAP_DTYPE_I64] = ncclInt64,
		[GPUMAP_DTYPE_F16] = ncclFloat16,
		[GPUMAP_DTYPE_F32] = ncclFloat32,
		[GPUMAP_DTYPE_BF16] = ncclBfloat16,
	};
	char line[128];

	EQ(seen() - before, 2 * sends);
	snprintf(line, sizeof(line), "nccl send rank=%u peer=%u n=%llu type=%d",
		 s->root, s->peer, (unsigned long long)s->n, types[s->dtype]);
	OK(sends == 0 || agent_logged(&agent, line));
	snprintf(line, sizeof(line), "nccl recv rank=%u peer=%u n=%llu type=%d",
		 s->peer, s->root, (unsigned long long)s->n, types[s->dtype]);
	OK(sends == 0 || agent_logged(&agent, line));
}

/* ---- what is right ------------------------------------------------------- */

static void one_way(struct ranks *g, const struct shape *s, uint64_t step)
{
	unsigned int before = seen();

	EQ(cards_once(g, s, step), 0);
	is_seen(s, before, s->n > 0);
}

static void both_ways(struct ranks *g, const struct shape *s)
{
	struct shape back = *s;

	back.root = s->peer;
	back.peer = s->root;
	one_way(g, s, 1);
	one_way(g, &back, 1);
}

static void everything_is_right(const char *mesh)
{
	static const uint32_t dtypes[] = {
		GPUMAP_DTYPE_U8,  GPUMAP_DTYPE_F16, GPUMAP_DTYPE_BF16,
		GPUMAP_DTYPE_F32, GPUMAP_DTYPE_I32, GPUMAP_DTYPE_I64
	};
	static const uint64_t sizes[] = { 0, 1, 333 };
	struct shape s = { .op = GPUMAP_OP_SEND };
	struct ranks g;

	if (!nccl_open(session, mesh, 2 * LARGE + MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	for (uint32_t d = 0; d < 6; d++) {
		s.dtype = dtypes[d];
		s.root = d % g.n;
		s.peer = (s.root + 1 + d % (g.n - 1)) % g.n;
		for (uint32_t i = 0; i < 3; i++) {
			s.n = sizes[i];
			both_ways(&g, &s);
		}
		s.n = 4096 / ref_bytes(s.dtype);
		both_ways(&g, &s);
		/* One short of it, as much, and one more. */
		s.n = LARGE / ref_bytes(s.dtype) + d % 3 - 1;
		one_way(&g, &s, 97);
	}
	nccl_close(&g);
}

/* ---- among others -------------------------------------------------------- */

/* SEND of @n I32 from what one rank has at @from to where another has @to. */
static int pass_on(struct ranks *g, uint32_t root, uint32_t peer, uint64_t n,
		   uint64_t from, uint64_t to, uint64_t cookie)
{
	struct gpumap_rank rank[COLLECTIVE_RANKS] = { 0 };
	struct gpumap_collective what = { .size = sizeof(what),
					  .op = GPUMAP_OP_SEND,
					  .dtype = GPUMAP_DTYPE_I32,
					  .root = root,
					  .peer = peer,
					  .n = n,
					  .ranks = rank,
					  .cookie = cookie };

	for (uint32_t r = 0; r < g->n; r++) {
		rank[r].send_buffer = rank[r].recv_buffer = g->buffer[r];
		rank[r].send_at = from;
		rank[r].recv_at = to;
	}
	return gpumap_comm_submit(g->comm, &what);
}

static int32_t *numbers(const struct ranks *g, uint32_t r, uint64_t at)
{
	return (int32_t *)(void *)(g->memory[r] + at);
}

/*
 * The bytes of rank 0 go around through all ranks, each of which sends on what
 * it receives, all at once in the queues: with collectives of all ranks, and
 * pairs of others, between any two of them.  Each row does its own jobs in
 * order, so the bytes arrive; and no two rows wait for each other.
 */
static void pairs_keep_their_order(void)
{
	const struct shape sum = { .op = GPUMAP_OP_ALL_REDUCE,
				   .dtype = GPUMAP_DTYPE_I32,
				   .n = 10000 };
	const uint64_t n = 50000, at = MIB, aside = 2 * MIB;
	uint64_t begun = 0, bad = 0;
	unsigned int before = seen();
	struct ranks g, two;

	if (!nccl_open(session, "cards", 10 * MIB, &g) ||
	    !nccl_open(session, "two", 10 * MIB, &two))
		return;
	for (uint32_t r = 0; r < g.n; r++)
		for (uint64_t i = 0; i < n; i++)
			numbers(&g, r, at)[i] = (int32_t)(r * 1000003 + i);
	EQ(cards_bring(&g, g.bytes, false), 0);
	for (uint32_t lap = 0; lap < 6; lap++) {
		for (uint32_t r = 0; r < 4; r++) {
			uint32_t next = (r + 1) % 4, other = (r + 2) % 4;
			uint64_t here = at + (uint64_t)lap * 4,
				 there = r == 3 ? here + 4 : here;

			bad += pass_on(&g, r, next, n, here, there, 1) != 0;
			bad += pass_on(&g, (other + 1) % 4, other, n, aside,
				       aside, 1) != 0;
			begun += 2;
			if (dice(2)) {
				bad += cards_submit(&g, &sum, 1) != 0;
				begun++;
			}
			if (dice(2)) {
				bad += cards_submit(&two, &sum, 1) != 0;
				begun++;
			}
		}
		for (; begun > 0; begun--)
			bad += collective_end(session, 1) != 0;
	}
	EQ(bad, 0);
	EQ(seen() - before, 2 * 2 * 24);
	EQ(cards_bring(&g, g.bytes, true), 0);
	for (uint64_t i = 0; i < n; i++)
		bad += numbers(&g, 0, at + 24)[i] != (int32_t)i;
	EQ(bad, 0);
	nccl_is_well(&g);
	nccl_is_well(&two);
	nccl_close(&g);
	nccl_close(&two);
}

/* Two pairs of one group, and one of them takes long: the other does not wait
 * for it. */
static void nobody_else_is_held(void)
{
	struct gpumap_done done;
	struct ranks g;

	if (!nccl_open(session, "cards", 10 * MIB, &g))
		return;
	nccl_slow_down(0, 20000);
	EQ(pass_on(&g, 0, 1, 1000, 0, 0, 1), 0);
	EQ(pass_on(&g, 3, 2, 1000, 0, 0, 2), 0);
	for (uint64_t cookie = 2; cookie > 0; cookie--) {
		EQ(gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS),
		   1);
		EQ(done.status, 0);
		EQ(done.cookie, cookie);
		cuda_scene_mend(&stage_scene);
	}
	nccl_close(&g);
}

/* ---- by way of windows --------------------------------------------------- */

/* Where one of the two has its part in the arena both do it so, and the pair
 * goes on as before. */
static void one_has_it_elsewhere(void)
{
	struct shape s = { .op = GPUMAP_OP_SEND,
			   .dtype = GPUMAP_DTYPE_U8,
			   .n = 3 * MIB / 2 + 1,
			   .root = 2,
			   .peer = 1 };
	unsigned int before = seen();
	struct ranks g;

	if (!nccl_open(session, "cards", 10 * MIB, &g))
		return;
	for (int side = 0; side < 2; side++) {
		struct gpumap_rank rank[COLLECTIVE_RANKS] = { 0 };
		struct gpumap_collective what = { .size = sizeof(what),
						  .op = s.op,
						  .dtype = s.dtype,
						  .root = s.root,
						  .peer = s.peer,
						  .n = s.n,
						  .ranks = rank,
						  .cookie = 5 };

		for (uint64_t i = 0; i < s.n; i++)
			g.memory[2][i] = (char)dice(256);
		memset(g.memory[1], 0, s.n);
		EQ(cards_bring(&g, s.n, false), 0);
		rank[2].send_buffer = side ? g.buffer[2] : 0;
		rank[2].send = g.memory[2];
		rank[1].recv_buffer = side ? 0 : g.buffer[1];
		rank[1].recv = g.memory[1];
		EQ(gpumap_comm_submit(g.comm, &what), 0);
		EQ(collective_end(session, 5), 0);
		if (side == 0)
			EQ(cards_bring(&g, s.n, true), 0);
		OK(memcmp(g.memory[1], g.memory[2], s.n) == 0);
		EQ(seen(), before);
	}
	EQ(collective_once(&g, &s, 97), 0);
	EQ(seen(), before);
	EQ(cards_once(&g, &s, 97), 0);
	EQ(seen(), before + 2);
	nccl_close(&g);
}

/* A communicator that did not ask for NCCL sends through windows. */
static void nobody_asked(void)
{
	struct shape s = { .op = GPUMAP_OP_SEND,
			   .dtype = GPUMAP_DTYPE_U8,
			   .n = 1000,
			   .peer = 1 };
	unsigned int before = seen();
	struct ranks g;

	if (!cards_open(session, "cards", MIB, &g))
		return;
	EQ(cards_once(&g, &s, 1), 0);
	EQ(seen(), before);
	cards_close(&g);
}

TAP_CASE()
{
	if (!nccl_begin("tells", "nccl = yes\n"))
		return tap_done();
	everything_is_right("two");
	everything_is_right("cards");
	pairs_keep_their_order();
	nobody_else_is_held();
	one_has_it_elsewhere();
	nobody_asked();
	nccl_end();
	stage_end(&agent);
	return tap_done();
}
