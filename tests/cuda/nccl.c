/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Collectives that cards do among themselves, by the stand-in for NCCL: right,
 * in order, beside windows; one session's at a time on a row; taken up again on
 * other rows; and by way of windows where there is no NCCL, or it may not be
 * used.
 */

#define STAGE_CUDA 1

#include <math.h>

#include "tests/fake/nccl.h"
#include "tests/support/collective_nccl.h"
#include "tests/support/dice.h"

/* ---- what is right ------------------------------------------------------- */

static uint64_t each_op(struct ranks *g, uint32_t dtype, uint64_t n,
			uint32_t reduce)
{
	struct shape s = { .dtype = dtype, .n = n, .reduce = reduce };
	uint64_t bad = 0;

	for (int i = 0; i < 2; i++) {
		s.in_place = i == 1;
		s.op = GPUMAP_OP_ALL_REDUCE;
		bad += cards_once(g, &s, 1);
		s.op = GPUMAP_OP_REDUCE_SCATTER;
		bad += cards_once(g, &s, 1);
		s.op = GPUMAP_OP_ALL_GATHER;
		bad += cards_once(g, &s, 1);
	}
	s.in_place = false;
	s.op = GPUMAP_OP_BROADCAST;
	s.root = g->n - 1;
	bad += cards_once(g, &s, 1);
	s.op = GPUMAP_OP_SEND;
	s.peer = 0;
	return bad + cards_once(g, &s, 1);
}

static void everything_is_right(const char *mesh)
{
	static const uint32_t dtypes[] = { GPUMAP_DTYPE_U8, GPUMAP_DTYPE_I32,
					   GPUMAP_DTYPE_I64 };
	static const uint64_t sizes[] = { 0, 1, 333, 4099 };
	uint64_t bad = 0;
	struct ranks g;

	if (!nccl_open(session, mesh, 2 * MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	for (uint32_t d = 0; d < 3; d++)
		for (uint32_t i = 0; i < 4; i++)
			bad += each_op(&g, dtypes[d], sizes[i],
				       (d + i) % GPUMAP_REDUCE_AVERAGE);
	EQ(bad, 0);
	nccl_close(&g);
}

/* Two groups that share rows, and what comes before and behind in the
 * queues. */
static void groups_keep_their_order(void)
{
	struct ranks a, b;
	uint64_t bad = 0;

	if (!nccl_open(session, "cards", 10 * MIB, &a) ||
	    !nccl_open(session, "two", 10 * MIB, &b))
		return;
	EQ(gpumap_comm_flags(a.comm), GPUMAP_COMM_NCCL);
	EQ(gpumap_comm_flags(b.comm), GPUMAP_COMM_NCCL);
	/* A communicator's process gets all arguments of a worker, and more. */
	OK(agent_wait_log(&agent, "event=standby_ready row=0"));
	for (int i = 0; i < 20; i++) {
		bad += cards_submit(&a, &whole, 1) != 0;
		bad += cards_submit(&b, &whole, 1) != 0;
		if (i % 4 == 3)
			for (int k = 0; k < 8; k++)
				bad += collective_end(session, 1) != 0;
	}
	EQ(bad, 0);
	EQ(cards_once(&a, &whole, 97), 0);
	EQ(cards_once(&b, &whole, 97), 0);
	nccl_close(&a);
	nccl_close(&b);
}

/* Another session's cards would wait for ours, and ours for its. */
static void one_session_at_a_time(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE,
					    .arena_bytes = 40 * MIB };
	struct gpumap_session *other;
	struct ranks a, b;

	if (!EQ(gpumap_session_open(map, &opts, &other), 0) ||
	    !nccl_open(session, "two", 10 * MIB, &a) ||
	    !nccl_open(other, "cards", 10 * MIB, &b))
		return;
	EQ(gpumap_comm_flags(a.comm), GPUMAP_COMM_NCCL);
	EQ(gpumap_comm_flags(b.comm), 0);
	EQ(cards_once(&b, &whole, 97), 0);
	EQ(cards_once(&a, &whole, 97), 0);
	nccl_close(&a);
	nccl_close(&b);
	if (nccl_open(other, "cards", 10 * MIB, &b)) {
		EQ(gpumap_comm_flags(b.comm), GPUMAP_COMM_NCCL);
		EQ(cards_once(&b, &whole, 97), 0);
		nccl_close(&b);
	}
	gpumap_session_close(other);
}

/* All workers run already, and no other session takes any. */
static void what_it_takes_is_told(void)
{
	char line[128];
	struct ranks g;

	if (!nccl_open(session, "cards", MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	snprintf(line, sizeof(line),
		 "ranks=4 about_bytes=%" PRIu64 " most=%" PRIu64 " row=",
		 4 * FAKE_NCCL_MEMORY, FAKE_NCCL_MEMORY);
	OK(agent_wait_log(&agent, line));
	nccl_close(&g);
}

/* No ledger has the card memory that communicators take. */
static void a_card_has_room_for_eight(void)
{
	struct gpumap_comm *comm[9];

	for (int i = 0; i < 9; i++) {
		EQ(gpumap_comm_open_opts(session, "two", NULL, &by_nccl,
					 &comm[i]),
		   0);
		EQ(gpumap_comm_flags(comm[i]), i < 8 ? GPUMAP_COMM_NCCL : 0);
	}
	EQ(gpumap_comm_close(comm[3]), 0);
	EQ(gpumap_comm_open_opts(session, "cards", NULL, &by_nccl, &comm[3]),
	   0);
	EQ(gpumap_comm_flags(comm[3]), GPUMAP_COMM_NCCL);
	EQ(gpumap_comm_renew(comm[8]), 0);
	EQ(gpumap_comm_flags(comm[8]), 0);
	for (int i = 0; i < 9; i++)
		EQ(gpumap_comm_close(comm[i]), 0);
}

static void nobody_asked(void)
{
	struct gpumap_comm_opts odd = by_nccl;
	struct gpumap_comm *comm;

	EQ(gpumap_comm_open(session, "two", NULL, &comm), 0);
	EQ(gpumap_comm_flags(comm), 0);
	EQ(gpumap_comm_close(comm), 0);
	odd.flags = 2;
	EQ(gpumap_comm_open_opts(session, "two", NULL, &odd, &comm), -E2BIG);
	odd = by_nccl;
	odd.reserved = 1;
	EQ(gpumap_comm_open_opts(session, "two", NULL, &odd, &comm), -E2BIG);
}

/* ---- what is nearly right ------------------------------------------------ */

static void store_float(char *at, uint64_t i, uint32_t dtype, float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	ref_store(at, i, dtype, as(GPUMAP_DTYPE_F32, dtype, bits));
}

/* The exact value of element @i, and the sum of the absolute values, which
 * bounds the error of an order of rounding. */
static double exact(const struct ranks *g, const struct shape *s, uint64_t i,
		    double *ret_size)
{
	double all = get_float(s->dtype, g->memory[0], i), size = fabs(all);

	for (uint32_t r = 1; r < g->n; r++) {
		double x = get_float(s->dtype, g->memory[r], i);

		size += fabs(x);
		if (s->reduce == GPUMAP_REDUCE_PRODUCT)
			all *= x;
		else if (s->reduce == GPUMAP_REDUCE_MIN)
			all = x < all ? x : all;
		else if (s->reduce == GPUMAP_REDUCE_MAX)
			all = x > all ? x : all;
		else
			all += x;
	}
	*ret_size = s->reduce == GPUMAP_REDUCE_PRODUCT ? fabs(all) : size;
	return s->reduce == GPUMAP_REDUCE_AVERAGE ? all / g->n : all;
}

/* Each rank rounds once at most, in any order. */
static double tolerance(const struct ranks *g, const struct shape *s)
{
	if (s->reduce == GPUMAP_REDUCE_MIN || s->reduce == GPUMAP_REDUCE_MAX)
		return 0;
	return g->n * (s->dtype == GPUMAP_DTYPE_F32   ? 0x1p-23
		       : s->dtype == GPUMAP_DTYPE_F16 ? 0x1p-10
						      : 0x1p-7);
}

/* ALL_REDUCE of numbers from -4 to 4, in 64ths.  Returns how many are not
 * right, and one more where two ranks have different ones. */
static uint64_t floats_once(struct ranks *g, const struct shape *s)
{
	uint64_t bytes = shape_bytes(s), bad = 0;
	char *sums[COLLECTIVE_RANKS];

	for (uint32_t r = 0; r < g->n; r++)
		for (uint64_t i = 0; i < s->n; i++)
			store_float(given(g, s, r), i, s->dtype,
				    ((float)dice(513) - 256) / 64);
	bad += cards_bring(g, g->bytes, false) != 0;
	bad += cards_submit(g, s, 1) != 0 || collective_end(g->session, 1) != 0;
	for (uint32_t r = 0; r < g->n; r++)
		sums[r] = gotten(g, s, r);
	bad += cards_bring(g, g->bytes, true) != 0;
	for (uint64_t i = 0; i < s->n; i++) {
		double size, want = exact(g, s, i, &size);
		double got = get_float(s->dtype, sums[0], i);

		bad += !(fabs(got - want) <= tolerance(g, s) * size);
	}
	for (uint32_t r = 1; r < g->n; r++)
		bad += memcmp(sums[r], sums[0], bytes) != 0;
	return bad;
}

static void floats_are_nearly_right(void)
{
	static const uint32_t dtypes[] = { GPUMAP_DTYPE_F16, GPUMAP_DTYPE_BF16,
					   GPUMAP_DTYPE_F32 };
	struct shape s = { .op = GPUMAP_OP_ALL_REDUCE, .n = 4099 };
	struct ranks g;

	if (!nccl_open(session, "cards", 64 << 10, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	for (uint32_t d = 0; d < 3; d++)
		for (uint32_t how = 0; how <= GPUMAP_REDUCE_AVERAGE; how++) {
			s.dtype = dtypes[d];
			s.reduce = how;
			EQ(floats_once(&g, &s), 0);
		}
	nccl_close(&g);
}

/* How NCCL cuts it off is not said, and that is all it may do. */
static void averages_of_integers(void)
{
	static const uint32_t dtypes[] = { GPUMAP_DTYPE_I32, GPUMAP_DTYPE_I64 };
	struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
			   .reduce = GPUMAP_REDUCE_AVERAGE,
			   .n = 1000 };
	struct ranks g;

	if (!nccl_open(session, "cards", 64 << 10, &g))
		return;
	for (uint32_t d = 0; d < 2; d++) {
		uint64_t bad = 0;

		s.dtype = dtypes[d];
		for (uint32_t r = 0; r < g.n; r++)
			for (uint64_t i = 0; i < s.n; i++)
				ref_store(given(&g, &s, r), i, s.dtype,
					  dice(2001) - 1000);
		EQ(cards_bring(&g, g.bytes, false), 0);
		EQ(cards_submit(&g, &s, 1), 0);
		EQ(collective_end(session, 1), 0);
		EQ(cards_bring(&g, g.bytes, true), 0);
		for (uint64_t i = 0; i < s.n; i++) {
			double want = 0;

			for (uint32_t r = 0; r < g.n; r++)
				want += (double)get_integer(
					s.dtype, given(&g, &s, r), i);
			for (uint32_t r = 0; r < g.n; r++)
				bad += fabs((double)get_integer(
						    s.dtype, gotten(&g, &s, r),
						    i) -
					    want / g.n) >= 1;
		}
		EQ(bad, 0);
	}
	nccl_close(&g);
}

/* ---- taken up again ------------------------------------------------------ */

/* "m", on other rows than before. */
static int arrange(const uint32_t *rows, uint32_t n)
{
	return collective_mesh_of(map, "m", rows, n);
}

/* Its memory is on its rows. */
static void renew(struct ranks *g, uint32_t flags)
{
	nccl_forget(g);
	EQ(gpumap_comm_renew(g->comm), 0);
	EQ(gpumap_comm_flags(g->comm), flags);
	if (nccl_memory(g))
		EQ(cards_once(g, &whole, 97), 0);
}

static void it_keeps_its_flags(void)
{
	static const uint32_t cards[] = { 0, 1, 2 }, mixed[] = { 3, 4 },
			      others[] = { 3, 2 }, one[] = { 1 };
	struct gpumap_comm *plain;
	struct ranks g;

	EQ(arrange(cards, 3), 0);
	EQ(gpumap_comm_open(session, "m", NULL, &plain), 0);
	if (!nccl_open(session, "m", 10 * MIB, &g))
		return;
	nccl_is_well(&g);
	/* A host row, and then none any more. */
	EQ(arrange(mixed, 2), 0);
	renew(&g, 0);
	EQ(arrange(others, 2), 0);
	renew(&g, GPUMAP_COMM_NCCL);
	EQ(gpumap_comm_renew(plain), 0);
	EQ(gpumap_comm_flags(plain), 0);
	/* A rank that is alone meets no other. */
	EQ(arrange(one, 1), 0);
	renew(&g, 0);
	EQ(gpumap_mesh_release(map, "m"), 0);
	EQ(gpumap_comm_renew(g.comm), -ENOENT);
	EQ(gpumap_comm_flags(g.comm), 0);
	EQ(arrange(cards, 3), 0);
	renew(&g, GPUMAP_COMM_NCCL);
	/* As well as one that is well. */
	renew(&g, GPUMAP_COMM_NCCL);
	nccl_close(&g);
	EQ(gpumap_comm_close(plain), 0);
	EQ(gpumap_mesh_release(map, "m"), 0);
}

/* Nothing is of a communicator whose session has ended. */
static void none_is_kept_without_a_session(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE,
					    .arena_bytes = 40 * MIB };
	struct gpumap_comm *comm = NULL;
	struct gpumap_session *other;

	if (!EQ(gpumap_session_open(map, &opts, &other), 0))
		return;
	EQ(gpumap_comm_open_opts(other, "two", NULL, &by_nccl, &comm), 0);
	gpumap_session_close(other);
	if (!comm)
		return;
	EQ(gpumap_comm_flags(comm), GPUMAP_COMM_NCCL);
	EQ(gpumap_comm_renew(comm), -ECONNRESET);
	EQ(gpumap_comm_flags(comm), 0);
	EQ(gpumap_comm_close(comm), 0);
}

/* ---- where there is none ------------------------------------------------- */

/* Two cards are enough, if the administrator says nothing of it. */
static void cards_may_by_themselves(void)
{
	struct ranks g;

	if (!nccl_begin("", ""))
		return;
	if (nccl_open(session, "two", 10 * MIB, &g)) {
		nccl_is_well(&g);
		nccl_close(&g);
	}
	nccl_end();
}

static void windows_do_it(const char *fault, const char *cuda)
{
	struct ranks g;

	if (!nccl_begin(fault, cuda))
		return;
	if (nccl_open(session, "cards", 10 * MIB, &g)) {
		EQ(gpumap_comm_flags(g.comm), 0);
		EQ(cards_once(&g, &whole, 97), 0);
		nccl_close(&g);
	}
	nccl_end();
}

/* Instances of a split card have no way to each other, and NCCL none to
 * them. */
static void parts_of_a_card(void)
{
	uint32_t parts[2], n = 0;
	struct ranks g;

	stage_end(&agent);
	nccl_node = "halves.yaml";
	if (!nccl_prepare("", "nccl = yes\n", "[host]\nrows = 1\n") ||
	    !nccl_start_agent())
		return;
	for (uint32_t row = 0; row < gpumap_device_count(map) && n < 2; row++) {
		struct gpumap_device device = story_device(map, row);

		if (device.kind == GPUMAP_DEVICE_CUDA && device.mig_gi >= 0 &&
		    device.state == GPUMAP_DEVICE_READY)
			parts[n++] = row;
	}
	if (EQ(n, 2) && EQ(arrange(parts, 2), 0) &&
	    nccl_open(session, "m", 10 * MIB, &g)) {
		EQ(gpumap_comm_flags(g.comm), 0);
		EQ(cards_once(&g, &whole, 97), 0);
		nccl_close(&g);
	}
	nccl_end();
}

TAP_CASE()
{
	if (!nccl_begin("", "nccl = yes\n"))
		return tap_done();
	everything_is_right("two");
	everything_is_right("cards");
	groups_keep_their_order();
	one_session_at_a_time();
	what_it_takes_is_told();
	a_card_has_room_for_eight();
	nobody_asked();
	floats_are_nearly_right();
	averages_of_integers();
	it_keeps_its_flags();
	none_is_kept_without_a_session();
	nccl_end();
	cards_may_by_themselves();
	windows_do_it("", "nccl = no\n");
	windows_do_it("version=21805", "nccl = yes\n");
	windows_do_it("absent", "nccl = yes\nnccl-limit = 300ms\n");
	parts_of_a_card();
	stage_end(&agent);
	return tap_done();
}
