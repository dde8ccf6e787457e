/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * relacy_comm - the orders of agent/comm, between two ranks that sleep.
 *
 * code: agent/comm/comm.c
 * code: agent/comm/completion.c
 *
 * test: whole: sums and broadcasts are of the numbers of their tickets
 * test: pair_whole: what is received is what was sent, or both ranks fail
 * test: together: no rank sleeps for good beside one that has come on
 * test: pair: the same for a sender and a receiver
 * test: met: the same for ranks that are through with calls of their devices
 * test: pair_met: the same for calls of pairs
 * test: broken: the same for a rank that breaks the group
 * test: left: a broadcast that ended well is not of what its root wrote later
 * test: pair_left: nor is what was received of what its sender wrote later
 *
 * weaken: together come_to gm_put_ordered: the bits are loaded before it
 * weaken: together all_at gm_get_ordered: a phase is loaded before the bit
 * weaken: pair offer gm_put_ordered: the bits are loaded before it
 * weaken: pair step_accept gm_get_ordered: the same, from the other end
 * weaken: pair take gm_put_ordered: the bits are loaded before it
 * weaken: pair step_offer gm_get_ordered: the same, from the other end
 * weaken: met gm_comm_part gm_put_ordered: the bits are loaded before it
 * weaken: met has_parted gm_get_ordered: the same, from the other end
 * weaken: broken gm_comm_break gm_try_ordered: the bits are loaded before it
 * weaken: broken gm_comm_broken_by gm_get_ordered: the same, from the other end
 *
 * spare: left after_reading gm_add_ordered: no one order with other words
 *
 * edit: whole comm.c s/put_ordered(&comm/put(\&comm/: the phase comes alone
 * edit: whole comm.c s/get_ordered(&comm/get(\&comm/: without its past
 * edit: pair_whole comm.c s/put_ordered(&cell->o/put(\&cell->o/: an offer alone
 * edit: pair_whole comm.c s/get_ordered(&cell->o/get(\&cell->o/: the same
 * edit: pair_whole comm.c s/put_ordered(&cell->t/put(\&cell->t/: its answer
 * edit: pair_whole comm.c s/get_ordered(&cell->t/get(\&cell->t/: the same
 * edit: together comm.c s/told = true/told = false/: no look at the bits
 * edit: pair comm.c s/told = true/told = false/: the same
 * edit: met completion.c s/put_ordered($/put(/: the phase
 * edit: met completion.c s/get_ordered(\(.*phase\)/get(\1/: the same
 * edit: pair_met completion.c s/put_ordered(\(.*sender\)/put(\1/: one word
 * edit: pair_met completion.c s/get_ordered(\(.*sender\)/get(\1/: the same
 * edit: pair_met completion.c s/put_ordered(\(.*receiver\)/put(\1/: one
 * edit: pair_met completion.c s/get_ordered(\(.*receiver\)/get(\1/: the same
 * edit: left comm.c s/add_ordered(\(.*\), 0)/get_acquire(\1)/: an early look
 * edit: left comm.c s/n broken ?/n 0 ?/: no look after the reading
 * edit: pair_left comm.c s/n broken ?/n 0 ?/: the same
 */

#include <new>

#include "relacy/test.h"

/* Relacy's atomics have sizes of their own. */
#define _Static_assert(...)

static void *copy_cells(void *dst, const void *src, size_t bytes);

#define memcpy copy_cells
#include "agent/comm/comm.c"
#include "agent/comm/completion.c"
#include "agent/comm/request.c"
#undef memcpy

#define RANKS 2

/* Bytes that are copied as one: a rank's part of a sum, or all of a slot. */
#define CELL  GM_COMM_SMALL
#define CELLS RANKS

/*
 * The group, and how agent/worker/collective polls for it: poll, set the bit,
 * poll again, sleep.  Memory is addresses alone; a cell of it is one atomic,
 * with relaxed loads and stores.
 */
struct group {
	static group *running;

	alignas(GM_LINE) char place[sizeof(struct gm_comm_page) +
				    RANKS * sizeof(struct gm_comm_rank) +
				    RANKS * RANKS *
					    sizeof(struct gm_comm_cell)];
	char memory[RANKS][CELLS * CELL];
	gm_a64 in_memory[RANKS][CELLS];
	gm_a64 in_slot[RANKS][2];
	gm_a64 awaited[RANKS]; /* by the other; swapped by its rank */
	gm_a32 doorbell[RANKS];
	gm_a32 steps[RANKS]; /* begun so far */
	struct gm_comm comm[RANKS];
	bool polls; /* no rank sleeps */

	struct gm_comm_page *page()
	{
		return (struct gm_comm_page *)place;
	}

	struct gm_comm_cell *cells()
	{
		return gm_comm_cell(page(), RANKS, 0, 0);
	}

	static void *reach(void *, uint32_t rank, struct gm_comm_place,
			   uint64_t, bool)
	{
		return running->memory[rank];
	}

	void open(bool polling = false)
	{
		running = this;
		polls = polling;
		new (&page()->broken) gm_a32;
		for (uint32_t i = 0; i < RANKS; i++)
			new (&page()->by_rank[i]) struct gm_comm_rank;
		for (uint32_t i = 0; i < RANKS * RANKS; i++)
			new (&cells()[i]) struct gm_comm_cell;
		zero();
		for (uint32_t i = 0; i < RANKS; i++) {
			gm_comm_init(&comm[i], page(), i, RANKS);
			comm[i].reach = reach;
		}
	}

	void zero()
	{
		gm_put(&page()->broken, 0);
		for (uint32_t i = 0; i < RANKS; i++) {
			gm_put(&page()->by_rank[i].phase, 0);
			gm_put(&awaited[i], 0);
			gm_put(&doorbell[i], 0);
			gm_put(&steps[i], 0);
			for (uint32_t k = 0; k < CELLS; k++)
				gm_put(&in_memory[i][k], 0);
			for (uint32_t k = 0; k < 2; k++) {
				gm_put(&in_slot[i][k], 0);
				zero_slot(&page()->by_rank[i].slot[k]);
			}
		}
		for (uint32_t i = 0; i < RANKS * RANKS; i++)
			zero_cell(&cells()[i]);
	}

	static void zero_slot(struct gm_comm_slot *slot)
	{
		gm_put(&slot->what, 0);
		gm_put(&slot->n, 0);
		gm_put(&slot->whole, 0);
		gm_put(&slot->send, 0);
		gm_put(&slot->recv, 0);
		gm_put(&slot->send_buffer, 0);
		gm_put(&slot->recv_buffer, 0);
		gm_put(&slot->status, 0);
		gm_put(&slot->direct, 0);
	}

	static void zero_cell(struct gm_comm_cell *cell)
	{
		gm_put(&cell->offered, 0);
		gm_put(&cell->what, 0);
		gm_put(&cell->n, 0);
		gm_put(&cell->whole, 0);
		gm_put(&cell->send, 0);
		gm_put(&cell->send_buffer, 0);
		gm_put(&cell->status, 0);
		gm_put(&cell->direct, 0);
		gm_put(&cell->sender_parted, 0);
		gm_put(&cell->taken, 0);
		gm_put(&cell->refused, 0);
		gm_put(&cell->able, 0);
		gm_put(&cell->receiver_parted, 0);
	}

	void close()
	{
		for (uint32_t i = RANKS * RANKS; i-- > 0;)
			cells()[i].~gm_comm_cell();
		for (uint32_t i = RANKS; i-- > 0;)
			page()->by_rank[i].~gm_comm_rank();
		page()->broken.~gm_a32();
	}

	gm_a64 *cell_of(const void *at)
	{
		const char *p = (const char *)at;
		uint64_t n = p - memory[0];

		if (p >= memory[0] && n < sizeof(memory))
			return &in_memory[n / (CELLS * CELL)][n / CELL % CELLS];
		for (uint32_t i = 0; i < RANKS; i++)
			for (uint32_t k = 0; k < 2; k++)
				if (at == page()->by_rank[i].slot[k].small)
					return &in_slot[i][k];
		RL_ASSERT(!"memory");
		return NULL;
	}

	/* ---- the worker -------------------------------------------------- */

	void tell(unsigned rank)
	{
		if (gm_get_ordered(&awaited[rank]) &&
		    gm_swap_ordered(&awaited[rank], 0))
			gm_put_ordered(&doorbell[1 - rank], 1);
	}

	template <typename poll> void sleep_until(unsigned rank, poll is_over)
	{
		while (!is_over()) {
			if (polls) {
				rl::yield(1, $);
				continue;
			}
			if (!gm_get(&awaited[1 - rank])) {
				gm_or_ordered(&awaited[1 - rank], 1);
				continue;
			}
			while (!gm_swap_ordered(&doorbell[rank], 0))
				rl::yield(1, $);
		}
	}

	int run(unsigned rank, const struct gm_comm_ask &ask,
		struct gm_comm_call *call)
	{
		uint32_t n = 0;
		int rc = 0;

		gm_comm_begin(&comm[rank], &ask, call);
		tell(rank);
		sleep_until(rank, [&] {
			bool told;

			do {
				gm_put(&steps[rank], ++n);
				rc = gm_comm_step(&comm[rank], call, CELL,
						  &told);
				if (told)
					tell(rank);
			} while (rc == 0);
			return rc != -EAGAIN;
		});
		return rc;
	}

	void part(unsigned rank, const struct gm_comm_call *call)
	{
		gm_comm_part(&comm[rank], call);
		tell(rank);
	}

	void wait_for_parted(unsigned rank)
	{
		sleep_until(rank,
			    [&] { return gm_comm_all_parted(&comm[rank]); });
	}

	/* ---- its client -------------------------------------------------- */

	void fill(unsigned rank, uint64_t value)
	{
		for (uint32_t i = 0; i < CELLS; i++)
			gm_put(&in_memory[rank][i], value);
	}

	void expect(unsigned rank, uint32_t n, uint64_t value)
	{
		for (uint32_t i = 0; i < n; i++)
			RL_ASSERT(gm_get(&in_memory[rank][i]) == value);
	}
};

group *group::running;

static void *copy_cells(void *dst, const void *src, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += CELL)
		gm_put(group::running->cell_of((char *)dst + i),
		       gm_get(group::running->cell_of((const char *)src + i)));
	return dst;
}

void gm_combine(const struct gm_combination *c, void *dst, size_t n)
{
	for (size_t i = 0; i < n; i += CELL) {
		uint64_t sum = 0;

		for (uint32_t k = 0; k < c->n_src; k++)
			sum += gm_get(group::running->cell_of(
				(const char *)c->src[k] + i));
		gm_put(group::running->cell_of((char *)dst + i), sum);
	}
}

bool gm_combine_knows(uint32_t, uint32_t)
{
	return true;
}

/* Each request is of bytes: GPUMAP_DTYPE_U8. */
int gm_ops_takes(uint32_t, uint32_t, uint32_t)
{
	return 0;
}

uint32_t gm_ops_dtype_bytes(uint32_t)
{
	return 1;
}

static void copy_part(void *dst, const void *src, size_t bytes)
{
	copy_cells(dst, src, bytes);
}

const struct gm_host_kernels *gm_host_kernels_choose(void)
{
	static struct gm_host_kernels kernels;

	kernels.copy = copy_part;
	return &kernels;
}

gm_host_copy *gm_host_copy_large(const struct gm_host_kernels *kernels)
{
	return kernels->copy;
}

static struct gm_comm_ask ask_for(uint32_t op, uint32_t cells, uint32_t peer)
{
	struct gm_comm_ask ask = {};

	ask.op = op;
	ask.dtype = GPUMAP_DTYPE_U8;
	ask.n = cells * CELL;
	ask.peer = peer;
	return ask;
}

/* A client writes new numbers as soon as its collective has ended. */
template <bool polls>
struct together_test : rl::test_suite<together_test<polls>, RANKS> {
	static const uint32_t tickets = 3;

	struct group group;
	unsigned kind[tickets + 1];

	void before()
	{
		group.open(polls);
		for (uint32_t t = 1; t <= tickets; t++)
			kind[t] = rl::rand(3);
	}

	void after()
	{
		group.close();
	}

	void thread(unsigned rank)
	{
		struct gm_comm_call call;

		for (uint32_t t = 1; t <= tickets; t++) {
			uint32_t cells = kind[t] == 0 ? 1 : CELLS;
			uint32_t op = kind[t] == 2 ? GM_COMM_BROADCAST
						   : GM_COMM_ALL_REDUCE;

			group.fill(rank, 10 * t + rank);
			RL_ASSERT(group.run(rank, ask_for(op, cells, 0),
					    &call) == 1);
			group.expect(rank, cells,
				     kind[t] == 2 ? 10 * t : 20 * t + 1);
		}
	}
};

/* Some of what is sent is not what the other rank asks for. */
template <bool polls>
struct pair_test : rl::test_suite<pair_test<polls>, RANKS> {
	static const uint32_t tickets = 3;

	struct group group;
	bool fits[tickets + 1];

	void before()
	{
		group.open(polls);
		for (uint32_t t = 1; t <= tickets; t++)
			fits[t] = rl::rand(3) != 0;
	}

	void after()
	{
		group.close();
	}

	void thread(unsigned rank)
	{
		uint32_t op = rank == 0 ? GM_COMM_SEND : GM_COMM_RECV;
		struct gm_comm_call call;

		for (uint32_t t = 1; t <= tickets; t++) {
			struct gm_comm_ask ask = ask_for(op, CELLS, 1 - rank);

			ask.whole = fits[t] ? t : 10 * t + rank;
			group.fill(rank, 10 * t + rank);
			RL_ASSERT(group.run(rank, ask, &call) ==
				  (fits[t] ? 1 : -EINVAL));
			group.expect(rank, CELLS,
				     fits[t] ? 10 * t : 10 * t + rank);
		}
	}
};

/* The ranks meet for calls of their devices, and wait until both are through
 * with all of them. */
template <bool pair> struct met_test : rl::test_suite<met_test<pair>, RANKS> {
	static const uint32_t tickets = 2;

	struct group group;

	void before()
	{
		group.open();
	}

	void after()
	{
		group.close();
	}

	void thread(unsigned rank)
	{
		struct gm_comm_call call;

		for (uint32_t t = 1; t <= tickets; t++) {
			uint32_t op = !pair           ? GM_COMM_ALL_REDUCE
				      : rank + 1 == t ? GM_COMM_SEND
						      : GM_COMM_RECV;
			struct gm_comm_ask ask =
				ask_for(op, CELLS, pair ? 1 - rank : 0);

			ask.meets = ask.is_direct = true;
			RL_ASSERT(group.run(rank, ask, &call) == 1);
			RL_ASSERT(call.all_direct);
			group.part(rank, &call);
			group.wait_for_parted(rank);
		}
	}
};

/* Rank 1 breaks the group while the other waits for it.  Relacy has numbers of
 * its own for some errors, not for this one. */
struct broken_test : rl::test_suite<broken_test, RANKS> {
	struct group group;

	void before()
	{
		group.open();
	}

	void after()
	{
		group.close();
	}

	void thread(unsigned rank)
	{
		struct gm_comm_ask ask = ask_for(GM_COMM_BARRIER, 0, 0);
		struct gm_comm_call call;

		if (rank == 0) {
			RL_ASSERT(group.run(rank, ask, &call) == -ENODEV);
			return;
		}
		gm_comm_break(group.page(), ENODEV);
		group.tell(rank);
	}
};

/* Rank 0 gives up beside a rank that reads from it, after any of its steps, and
 * its client writes new numbers. */
template <bool pair> struct left_test : rl::test_suite<left_test<pair>, RANKS> {
	struct group group;
	uint32_t after_step;

	void before()
	{
		group.open();
		after_step = rl::rand(4);
	}

	void after()
	{
		group.close();
	}

	void thread(unsigned rank)
	{
		uint32_t op = !pair       ? GM_COMM_BROADCAST
			      : rank == 0 ? GM_COMM_SEND
					  : GM_COMM_RECV;
		struct gm_comm_ask ask =
			ask_for(op, CELLS, pair ? 1 - rank : 0);
		struct gm_comm_call call;

		if (rank == 0) {
			group.fill(rank, 1);
			gm_comm_begin(&group.comm[rank], &ask, &call);
			group.tell(rank);
			while (gm_get(&group.steps[1]) < after_step)
				rl::yield(1, $);
			gm_comm_break(group.page(), ENODEV);
			group.tell(rank);
			group.fill(rank, 2);
			return;
		}
		if (group.run(rank, ask, &call) == 1)
			group.expect(rank, CELLS, 1);
		gm_put(&group.steps[rank], UINT32_MAX);
	}
};

static const struct gm_test tests[] = {
	{ "whole", rl::simulate<together_test<true>> },
	{ "pair_whole", rl::simulate<pair_test<true>> },
	{ "together", rl::simulate<together_test<false>> },
	{ "pair", rl::simulate<pair_test<false>> },
	{ "met", rl::simulate<met_test<false>> },
	{ "pair_met", rl::simulate<met_test<true>> },
	{ "broken", rl::simulate<broken_test> },
	{ "left", rl::simulate<left_test<false>> },
	{ "pair_left", rl::simulate<left_test<true>> },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return gm_run(tests, argc, argv);
}
