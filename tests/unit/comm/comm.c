/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Collectives of host ranks: all of them in one thread, whose turns are thrown,
 * so that every order of steps comes up and is found again; then each in a
 * thread of its own.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "tests/support/comm_ranks.h"
#include "tests/support/operators/operators_case.h"
#include "tests/support/tap.h"

/* ---- what is right ------------------------------------------------------- */

/* Where things lie: what is given at the beginning, what is gotten behind it,
 * or both in one place. */
struct shape {
	uint32_t op, dtype, reduce, root;
	uint64_t n;
	bool in_place;
};

static uint64_t parts_given(const struct shape *s, uint32_t ranks)
{
	return s->op == GM_COMM_REDUCE_SCATTER ? ranks : 1;
}

static uint64_t parts_gotten(const struct shape *s, uint32_t ranks)
{
	return s->op == GM_COMM_ALL_GATHER ? ranks : 1;
}

static void place(struct world *w, const struct shape *s)
{
	uint64_t bytes = s->n * ref_bytes(s->dtype);

	for (uint32_t r = 0; r < w->ranks; r++) {
		struct gm_comm_ask *ask = &w->ask[r];

		*ask = (struct gm_comm_ask){ .op = s->op,
					     .dtype = s->dtype,
					     .reduce = s->reduce,
					     .peer = s->root,
					     .n = s->n };
		ask->recv.at = parts_given(s, w->ranks) * bytes;
		if (!s->in_place)
			continue;
		ask->recv.at = s->op == GM_COMM_REDUCE_SCATTER ? r * bytes : 0;
		ask->send.at = s->op == GM_COMM_ALL_GATHER ? r * bytes : 0;
	}
}

/* The data that rank @r is to have of all that @given has. */
static void expect(const struct world *w, const struct shape *s, uint32_t r,
		   char *const *given, char *ret_want)
{
	uint64_t bytes = s->n * ref_bytes(s->dtype);
	const void *from[RANKS];

	for (uint32_t i = 0; i < w->ranks; i++) {
		from[i] = given[i] +
			  (s->op == GM_COMM_REDUCE_SCATTER ? r * bytes : 0);
		if (s->op == GM_COMM_ALL_GATHER)
			memcpy(ret_want + i * bytes, given[i], bytes);
	}
	if (s->op == GM_COMM_BROADCAST)
		memcpy(ret_want, given[s->root], bytes);
	else if (s->op != GM_COMM_ALL_GATHER)
		gm_combine(&(struct gm_combination){ gm_host_kernels_choose(),
						     s->reduce, s->dtype, from,
						     w->ranks },
			   ret_want, s->n);
}

static void give(struct world *w, const struct shape *s, char **ret_given)
{
	uint64_t n = parts_given(s, w->ranks) * s->n;
	uint64_t bytes = n * ref_bytes(s->dtype);

	for (uint32_t r = 0; r < w->ranks; r++) {
		char *from = w->memory[r] + w->ask[r].send.at;

		memset(w->memory[r], 0x5a, w->bytes + MARGIN);
		throw_numbers(from, n, s->dtype, ANY);
		ret_given[r] = malloc(bytes + 1);
		memcpy(ret_given[r], from, bytes);
	}
}

/* Returns how many ranks have not what they should, or more than that. */
static uint32_t check(struct world *w, const struct shape *s, char **given)
{
	uint64_t all = parts_gotten(s, w->ranks) * s->n * ref_bytes(s->dtype);
	char *want = malloc(w->bytes + MARGIN);
	uint32_t bad = 0;

	for (uint32_t r = 0; r < w->ranks; r++) {
		bool gets = s->op != GM_COMM_BROADCAST || r != s->root;
		uint64_t n = parts_given(s, w->ranks) * s->n;

		memset(want, 0x5a, w->bytes + MARGIN);
		memcpy(want + w->ask[r].send.at, given[r],
		       n * ref_bytes(s->dtype));
		memset(want + w->ask[r].send.at, 0x77, w->spoils);
		if (gets && all)
			expect(w, s, r, given, want + w->ask[r].recv.at);
		bad += memcmp(want, w->memory[r], w->bytes + MARGIN) != 0;
	}
	free(want);
	return bad;
}

static void free_given(const struct world *w, char **given)
{
	for (uint32_t r = 0; r < w->ranks; r++)
		free(given[r]);
}

static uint32_t once(struct world *w, const struct shape *s, uint64_t budget)
{
	char *given[RANKS];
	uint32_t bad;

	place(w, s);
	give(w, s, given);
	/* No rank reads it any more. */
	if (!s->in_place)
		w->spoils =
			parts_given(s, w->ranks) * s->n * ref_bytes(s->dtype);
	bad = run(w, (1u << w->ranks) - 1, budget);
	bad += !all_ended(w, 1);
	bad += check(w, s, given);
	w->spoils = 0;
	free_given(w, given);
	return bad;
}

/* ---- each of them -------------------------------------------------------- */

static const uint32_t dtypes[] = { GPUMAP_DTYPE_U8,   GPUMAP_DTYPE_F16,
				   GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F32,
				   GPUMAP_DTYPE_I32,  GPUMAP_DTYPE_I64 };

static void each_op(uint32_t op)
{
	static const uint64_t sizes[] = { 0, 1, 7, 511, 4096, 4097, 10007 };
	uint32_t bad = 0;
	struct world w;

	for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
		open_world(&w, ranks, 8 * 10007 * (RANKS + 1));
		for (size_t d = 0; d < sizeof(dtypes) / sizeof(*dtypes); d++) {
			for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes);
			     i++) {
				struct shape s = {
					.op = op,
					.dtype = dtypes[d],
					.reduce = (uint32_t)dice(
						GM_COMBINE_AVERAGE + 1),
					.root = (uint32_t)dice(ranks),
					.n = sizes[i],
					.in_place = dice(2),
				};

				bad += once(&w, &s, dice(3) ? 1 << 12 : 1);
			}
		}
		close_world(&w);
	}
	if (!EQ(bad, 0))
		NOTE("operation %u", op);
}

static void a_barrier_holds(void)
{
	const struct gm_comm_ask ask = { .op = GM_COMM_BARRIER };
	struct world w;

	open_world(&w, 4, 64);
	ask_all(&w, &ask);
	/* The last has not come. */
	EQ(run(&w, 7, 64), 3);
	for (uint32_t r = 0; r < 3; r++)
		EQ(w.end[r], 0);
	close_world(&w);
	open_world(&w, 4, 64);
	ask_all(&w, &ask);
	EQ(run(&w, 15, 64), 0);
	OK(all_ended(&w, 1));
	close_world(&w);
}

static void pairs(void)
{
	struct world w;
	uint32_t bad = 0;

	open_world(&w, 4, 1 << 16);
	for (uint32_t round = 0; round < 200; round++) {
		uint64_t n = dice(5) ? dice(3000) : 0;

		for (uint32_t r = 0; r < 4; r++) {
			/* 0 to 1, and 3 to 2, or the other way. */
			bool sends = (r + round) % 2 == 0;

			w.ask[r] = (struct gm_comm_ask){
				.op = sends ? GM_COMM_SEND : GM_COMM_RECV,
				.dtype = GPUMAP_DTYPE_F32,
				.peer = r ^ 1,
				.n = n,
				.recv.at = 1 << 15,
			};
			throw_numbers(w.memory[r], 1 << 14, GPUMAP_DTYPE_F32,
				      ANY);
		}
		bad += run(&w, 15, 256) + !all_ended(&w, 1);
		for (uint32_t r = 0; r < 4; r++)
			if (w.ask[r].op == GM_COMM_RECV)
				bad += memcmp(w.memory[r] + (1 << 15),
					      w.memory[r ^ 1], 4 * n) != 0;
	}
	EQ(bad, 0);
	close_world(&w);
}

/* ---- what is wrong ------------------------------------------------------- */

static void they_must_agree(void)
{
	const struct gm_comm_ask sum = { .op = GM_COMM_ALL_REDUCE,
					 .dtype = GPUMAP_DTYPE_F32,
					 .n = 3000,
					 .recv.at = 12000 };
	struct gm_comm_ask other = sum;

	other.n = 3;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.reduce = GM_COMBINE_MAX;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.dtype = GPUMAP_DTYPE_I32;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.op = GM_COMM_BARRIER;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.reduce = GM_COMBINE_AVERAGE + 1;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.dtype = GPUMAP_DTYPE_F64;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.whole = 1;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.recv.at = 4; /* upon what it gives */
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.recv.at = 12002; /* between two elements */
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.send.at = 1;
	other.recv.at = 12004;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.recv.at = (1 << 16) - 4;
	all_but_one(&sum, &other, -EFAULT);
	other = sum;
	other.n = UINT64_MAX / 2;
	all_but_one(&sum, &other, -EINVAL);
	other = (struct gm_comm_ask){ .op = GM_COMM_BROADCAST, .peer = 3 };
	all_but_one(&other, &other, -EINVAL);
}

static void pairs_must_agree(void)
{
	struct gm_comm_ask ask = {
		.op = GM_COMM_SEND, .dtype = GPUMAP_DTYPE_U8, .peer = 1, .n = 8
	};
	struct world w;

	open_world(&w, 2, 4096);
	w.ask[0] = ask;
	w.ask[1] = ask;
	w.ask[1].op = GM_COMM_RECV;
	w.ask[1].peer = 0;
	w.ask[1].n = 9;
	EQ(run(&w, 3, 64), 0);
	OK(all_ended(&w, -EINVAL));
	w.ask[1].n = 8;
	w.ask[1].recv.at = 4090;
	EQ(run(&w, 3, 64), 0);
	OK(all_ended(&w, -EFAULT));
	w.ask[1].recv.at = 0;
	w.ask[0].send.at = 4090;
	EQ(run(&w, 3, 64), 0);
	OK(all_ended(&w, -EFAULT));
	w.ask[0].send.at = 0;
	w.is_read_only = true;
	EQ(run(&w, 3, 64), 0);
	OK(all_ended(&w, -EFAULT));
	w.is_read_only = false;
	EQ(run(&w, 3, 64), 0);
	OK(all_ended(&w, 1));
	w.ask[0].peer = 0; /* itself */
	EQ(run(&w, 1, 64), 0);
	EQ(w.end[0], -EINVAL);
	w.ask[0].peer = 2; /* no rank */
	EQ(run(&w, 1, 64), 0);
	EQ(w.end[0], -EINVAL);
	close_world(&w);
}

/* At each step: all end with the first error, and no rank waits. */
static void a_broken_group(void)
{
	const struct gm_comm_ask sum = { .op = GM_COMM_ALL_REDUCE,
					 .dtype = GPUMAP_DTYPE_F32,
					 .n = 3000,
					 .recv.at = 12000 };
	uint32_t left = 0, other = 0, broken = 0;
	bool told;

	for (uint32_t steps = 0; steps < 60; steps++) {
		struct world w;

		open_world(&w, 3, 1 << 16);
		ask_all(&w, &sum);
		for (uint32_t r = 0; r < 3; r++) {
			name_buffers(&w.ask[r], r);
			gm_comm_begin(&w.comm[r], &w.ask[r], &w.call[r]);
		}
		for (uint32_t i = 0; i < steps; i++) {
			uint32_t r = (uint32_t)dice(3);

			if (w.end[r] == 0 || w.end[r] == -EAGAIN)
				w.end[r] = gm_comm_step(&w.comm[r], &w.call[r],
							512, &told);
		}
		gm_comm_break(w.page, ECONNABORTED);
		gm_comm_break(w.page, ETIME); /* too late */
		for (uint32_t r = 0; r < 3; r++) {
			if (w.end[r] != 1)
				w.end[r] = gm_comm_step(&w.comm[r], &w.call[r],
							512, &told);
			left += w.end[r] == 0 || w.end[r] == -EAGAIN;
			broken += w.end[r] == -ECONNABORTED;
			other += w.end[r] != 1 && w.end[r] != -ECONNABORTED;
		}
		close_world(&w);
	}
	EQ(left, 0);
	EQ(other, 0);
	OK(broken > 90);
}

/* The group breaks, and the other rank's client writes there, while a rank
 * reads the last of it. */
static void *reach_and_spoil(void *arg, uint32_t rank,
			     struct gm_comm_place place, uint64_t bytes,
			     bool writes)
{
	struct world *w = arg;

	if (rank == 0 && w->spoils && bytes >= w->spoils) {
		gm_comm_break(w->page, ECONNABORTED);
		memset(w->memory[0], 0x33, w->bytes);
	}
	return reach(arg, rank, place, bytes, writes);
}

static void the_last_look(uint32_t gives, uint32_t gets)
{
	struct gm_comm_ask ask = { .op = gives,
				   .dtype = GPUMAP_DTYPE_U8,
				   .peer = gives == GM_COMM_SEND,
				   .n = 10000 };
	struct world w;

	open_world(&w, 2, 10000);
	w.ask[0] = ask;
	ask.op = gets;
	ask.peer = 0;
	w.ask[1] = ask;
	w.comm[1].reach = reach_and_spoil;
	w.spoils = 10000;
	EQ(run(&w, 3, 1024), 0);
	EQ(w.end[0], -ECONNABORTED);
	EQ(w.end[1], -ECONNABORTED);
	close_world(&w);
}

/* ---- threads ------------------------------------------------------------- */

struct by_rank {
	struct world *w;
	uint32_t rank;
	uint32_t bad;
};

#define ROUNDS 300u

/* Sums that say which round they are of, small ones and large ones. */
static void *sit(void *arg)
{
	struct by_rank *by_rank = arg;
	struct world *w = by_rank->w;
	struct gm_comm *comm = &w->comm[by_rank->rank];
	int32_t *own = (int32_t *)(void *)w->memory[by_rank->rank];

	for (int32_t round = 1; round <= (int32_t)ROUNDS; round++) {
		uint64_t n = round % 3 ? 5 : 5000;
		struct gm_comm_ask ask = { .op = GM_COMM_ALL_REDUCE,
					   .dtype = GPUMAP_DTYPE_I32,
					   .n = n };
		int32_t ranks = (int32_t)w->ranks;
		struct gm_comm_call call;
		bool told;
		int rc;

		for (uint64_t i = 0; i < n; i++)
			own[i] = round * ((int32_t)by_rank->rank + 1);
		name_buffers(&ask, by_rank->rank);
		gm_comm_begin(comm, &ask, &call);
		while ((rc = gm_comm_step(comm, &call, 4096, &told)) == 0 ||
		       rc == -EAGAIN)
			if (rc != 0)
				sched_yield();
		by_rank->bad += rc != 1;
		for (uint64_t i = 0; i < n; i++)
			by_rank->bad +=
				own[i] != round * ranks * (ranks + 1) / 2;
	}
	return NULL;
}

static void threads(void)
{
	struct world w;
	struct by_rank by_rank[4];
	pthread_t thread[4];
	uint32_t bad = 0;

	open_world(&w, 4, 1 << 16);
	for (uint32_t r = 0; r < 4; r++) {
		by_rank[r] = (struct by_rank){ .w = &w, .rank = r };
		pthread_create(&thread[r], NULL, sit, &by_rank[r]);
	}
	for (uint32_t r = 0; r < 4; r++) {
		pthread_join(thread[r], NULL);
		bad += by_rank[r].bad;
	}
	EQ(bad, 0);
	close_world(&w);
}

TAP_CASE()
{
	each_op(GM_COMM_ALL_REDUCE);
	each_op(GM_COMM_ALL_GATHER);
	each_op(GM_COMM_REDUCE_SCATTER);
	each_op(GM_COMM_BROADCAST);
	a_barrier_holds();
	pairs();
	they_must_agree();
	pairs_must_agree();
	a_broken_group();
	the_last_look(GM_COMM_BROADCAST, GM_COMM_BROADCAST);
	the_last_look(GM_COMM_SEND, GM_COMM_RECV);
	threads();
	return tap_done();
}
