/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Ranks that meet, all of them or two, before any data moves: each learns
 * whether all ask for the same and whether all could do without the host, and
 * pairs leave the numbers of the group's collectives as they are.
 */

#include <pthread.h>
#include <sched.h>

#include "tests/support/comm_ranks.h"

/* A rank that is in the next one has finished this one, too. */
static void each_says_when_it_is_through(struct world *w)
{
	for (uint32_t r = 0; r < 3; r++)
		gm_comm_part(&w->comm[r], &w->call[r]);
	for (uint32_t r = 0; r < 3; r++)
		OK(gm_comm_all_parted(&w->comm[r]));
	EQ(run(w, 7, 4096), 0);
	for (uint32_t r = 0; r < 3; r++) {
		if (r < 2)
			gm_comm_part(&w->comm[r], &w->call[r]);
		OK(gm_comm_all_parted(&w->comm[r]) == (r == 2));
	}
	gm_comm_begin(&w->comm[2], &w->ask[2], &w->call[2]);
	for (uint32_t r = 0; r < 3; r++)
		OK(gm_comm_all_parted(&w->comm[r]));
}

/* All ranks hear whether all of them could, and no memory is looked at. */
static void they_meet(void)
{
	const struct gm_comm_ask sum = { .op = GM_COMM_ALL_REDUCE,
					 .dtype = GPUMAP_DTYPE_F32,
					 .n = 3000,
					 .recv.at = UINT64_MAX - 77,
					 .meets = true,
					 .is_direct = true };
	struct gm_comm_ask other = sum;
	struct world w;

	for (uint32_t cannot = 0; cannot <= 3; cannot++) {
		open_world(&w, 3, 1 << 16);
		for (int round = 0; round < 3; round++) {
			ask_all(&w, &sum);
			if (cannot < 3)
				w.ask[cannot].is_direct = false;
			EQ(run(&w, 7, 4096), 0);
			OK(all_ended(&w, 1));
			for (uint32_t r = 0; r < 3; r++)
				EQ(w.call[r].all_direct, cannot == 3);
		}
		for (uint32_t i = 0; i < w.bytes; i++)
			if (w.memory[1][i] != 0x5a) {
				OK(!"memory was written");
				break;
			}
		each_says_when_it_is_through(&w);
		close_world(&w);
	}
	other.meets = false;
	other.recv.at = 12000;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.n++;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.op = GM_COMM_ALL_GATHER;
	all_but_one(&sum, &other, -EINVAL);
	other = sum;
	other.status = -EFAULT;
	all_but_one(&sum, &other, -EFAULT);
}

/* ---- pairs --------------------------------------------------------------- */

/* From @from to @to, as both ask for it. */
static void pair_up(struct world *w, uint32_t from, uint32_t to)
{
	const struct gm_comm_ask ask = { .op = GM_COMM_SEND,
					 .dtype = GPUMAP_DTYPE_F16,
					 .peer = to,
					 .n = 3000,
					 .send.at = UINT64_MAX - 77,
					 .recv.at = UINT64_MAX - 77,
					 .meets = true,
					 .is_direct = true };

	w->ask[from] = w->ask[to] = ask;
	w->ask[to].op = GM_COMM_RECV;
	w->ask[to].peer = from;
}

/* Each rank waits for the other one of its pairs, and for no other rank. */
static void two_are_through(void)
{
	struct world w;

	open_world(&w, 4, 1 << 16);
	for (int round = 0; round < 3; round++) {
		for (uint32_t first = 0; first < 2; first++) {
			pair_up(&w, 0, 1);
			pair_up(&w, 3, 2);
			EQ(run(&w, 15, 4096), 0);
			gm_comm_part(&w.comm[first], &w.call[first]);
			OK(!gm_comm_all_parted(&w.comm[first]));
			OK(gm_comm_all_parted(&w.comm[2]));
			gm_comm_part(&w.comm[!first], &w.call[!first]);
			OK(gm_comm_all_parted(&w.comm[first]));
			OK(gm_comm_all_parted(&w.comm[!first]));
		}
		ask_all(&w, &(struct gm_comm_ask){ .op = GM_COMM_BARRIER });
		EQ(run(&w, 15, 64), 0);
		OK(all_ended(&w, 1));
	}
	close_world(&w);
}

static void two_meet(void)
{
	struct world w;

	open_world(&w, 4, 1 << 16);
	for (uint32_t cannot = 0; cannot < 4; cannot++) {
		pair_up(&w, 0, 1);
		pair_up(&w, 3, 2);
		w.ask[0].is_direct = !(cannot & 1);
		w.ask[1].is_direct = !(cannot & 2);
		EQ(run(&w, 15, 4096), 0);
		OK(all_ended(&w, 1));
		EQ(w.call[0].all_direct, cannot == 0);
		EQ(w.call[1].all_direct, cannot == 0);
		OK(w.call[2].all_direct && w.call[3].all_direct);
	}
	for (uint32_t i = 0; i < w.bytes; i++)
		if (w.memory[1][i] != 0x5a) {
			OK(!"memory was written");
			break;
		}
	close_world(&w);
}

/* Some pairs meet often and others never, and all ranks are together all the
 * same whenever all of them meet. */
static void pairs_do_not_count(void)
{
	const struct gm_comm_ask all = { .op = GM_COMM_ALL_GATHER,
					 .dtype = GPUMAP_DTYPE_U8,
					 .n = 9,
					 .meets = true };
	uint32_t bad = 0;
	struct world w;

	open_world(&w, 4, 1 << 16);
	for (uint32_t round = 0; round < 200; round++) {
		uint32_t from = (uint32_t)dice(4);
		uint32_t to = (from + 1 + (uint32_t)dice(3)) % 4;
		uint64_t n = dice(3);

		for (; n > 0; n--) {
			pair_up(&w, from, to);
			w.ask[to].is_direct = dice(2);
			bad += run(&w, 1u << from | 1u << to, 64) != 0;
			bad += w.end[from] != 1 || w.end[to] != 1;
			bad += w.call[from].all_direct != w.ask[to].is_direct;
			bad += w.call[to].all_direct != w.ask[to].is_direct;
		}
		ask_all(&w, &all);
		bad += run(&w, 15, 64) != 0 || !all_ended(&w, 1);
	}
	EQ(bad, 0);
	close_world(&w);
}

/* Both end so, nothing is broken, and the pair's next is right. */
static void the_pair_ends(struct world *w, int with)
{
	EQ(run(w, 3, 64), 0);
	EQ(w->end[0], with);
	EQ(w->end[1], with);
	pair_up(w, 0, 1);
	EQ(run(w, 3, 64), 0);
	EQ(w->end[0], 1);
	EQ(w->end[1], 1);
	OK(w->call[0].all_direct && w->call[1].all_direct);
	pair_up(w, 0, 1);
}

static void two_must_agree(void)
{
	struct world w;

	open_world(&w, 4, 1 << 16);
	pair_up(&w, 0, 1);
	w.ask[1].n++;
	the_pair_ends(&w, -EINVAL);
	w.ask[0].dtype = GPUMAP_DTYPE_BF16;
	the_pair_ends(&w, -EINVAL);
	w.ask[0].whole = 7;
	the_pair_ends(&w, -EINVAL);
	w.ask[0].status = -EFAULT;
	the_pair_ends(&w, -EFAULT);
	w.ask[1].status = -EFAULT;
	the_pair_ends(&w, -EFAULT);
	/* One of them moves it at once. */
	w.ask[0].meets = false;
	w.ask[0].send.at = 0;
	the_pair_ends(&w, -EINVAL);
	w.ask[1].meets = false;
	w.ask[1].recv.at = 0;
	the_pair_ends(&w, -EINVAL);
	w.ask[0].peer = 0; /* itself */
	EQ(run(&w, 1, 64), 0);
	EQ(w.end[0], -EINVAL);
	w.ask[0].peer = 4; /* no rank */
	EQ(run(&w, 1, 64), 0);
	EQ(w.end[0], -EINVAL);
	close_world(&w);
}

/* A rank does not wait for the other one for ever. */
static void one_never_comes(void)
{
	struct world w;

	for (uint32_t alone = 0; alone < 2; alone++) {
		open_world(&w, 4, 1 << 16);
		pair_up(&w, 0, 1);
		EQ(run(&w, 1u << alone, 64), 1);
		gm_comm_break(w.page, ETIME);
		pair_up(&w, 0, 1);
		EQ(run(&w, 3, 64), 0);
		EQ(w.end[0], -ETIME);
		EQ(w.end[1], -ETIME);
		close_world(&w);
	}
}

/* ---- in threads ---------------------------------------------------------- */

struct by_rank {
	struct world *w;
	uint32_t rank;
	uint32_t bad;
};

/* In every third round the receiver could not.  Each goes on as soon as it may,
 * and has heard the same as the other. */
static void *sit(void *arg)
{
	struct by_rank *by_rank = arg;
	struct world *w = by_rank->w;
	uint32_t own = by_rank->rank, peer = own ^ 1;

	for (uint32_t round = 0; round < 3000; round++) {
		bool sends = (own ^ round) & 1, able = round % 3 != 0;
		const struct gm_comm_ask ask = { .op = sends ? GM_COMM_SEND
							     : GM_COMM_RECV,
						 .dtype = GPUMAP_DTYPE_U8,
						 .peer = peer,
						 .n = round,
						 .meets = true,
						 .is_direct = sends || able };
		struct gm_comm_call call;
		bool told;
		int rc;

		gm_comm_begin(&w->comm[own], &ask, &call);
		while ((rc = gm_comm_step(&w->comm[own], &call, 64, &told)) ==
			       0 ||
		       rc == -EAGAIN)
			if (rc != 0)
				sched_yield();
		by_rank->bad += rc != 1 || call.all_direct != able;
	}
	return NULL;
}

static void threads(void)
{
	struct by_rank by_rank[4];
	pthread_t thread[4];
	uint32_t bad = 0;
	struct world w;

	open_world(&w, 4, 64);
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
	they_meet();
	two_meet();
	two_are_through();
	pairs_do_not_count();
	two_must_agree();
	one_never_comes();
	threads();
	return tap_done();
}
