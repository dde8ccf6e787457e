/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Run a collective over a group of a mesh and check it: every element that
 * every rank receives is compared with the value that this process computes, so
 * that a rank that drops, repeats or misplaces elements is named.  Cards send
 * and receive memory of their own.
 */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/ctl/clock.h"

#define DEFAULT_BYTES (UINT64_C(16) << 20)
#define MOST_BYTES    (UINT64_C(1) << 36)
#define LIMIT_NS      UINT64_C(60000000000) /* for one collective */

static const struct kind {
	const char *name;
	uint32_t op;
} kinds[] = {
	{ "all_reduce", GPUMAP_OP_ALL_REDUCE },
	{ "all_gather", GPUMAP_OP_ALL_GATHER },
	{ "reduce_scatter", GPUMAP_OP_REDUCE_SCATTER },
	{ "broadcast", GPUMAP_OP_BROADCAST },
	{ "send", GPUMAP_OP_SEND },
	{ "barrier", GPUMAP_OP_BARRIER },
};

const struct gm_ctl_choice gm_ctl_collective_ops = GM_CHOICE("--op", kinds);

struct run {
	const struct gm_ctl *ctl;
	const struct kind *kind;
	struct gpumap_session *session;
	struct gpumap_comm *comm;
	/* elements of a rank's send or recv, whichever is smaller */
	uint64_t n;
	uint64_t rounds;
	uint64_t best_ns;
	uint32_t ranks;
	uint32_t rows[GPUMAP_COMM_RANKS_MAX];
	struct gpumap_rank rank[GPUMAP_COMM_RANKS_MAX];
};

/* ---- expected results --------------------------------------------------- */

/* Values are small and large, of either sign; sums wrap. */
static int32_t source(uint32_t rank, uint64_t i)
{
	return (int32_t)((uint32_t)(i * UINT64_C(2654435761) >> (i % 24)) +
			 rank * 65537u);
}

static int32_t sum_of(const struct run *run, uint64_t i)
{
	uint32_t sum = 0;

	for (uint32_t r = 0; r < run->ranks; r++)
		sum += (uint32_t)source(r, i);
	return (int32_t)sum;
}

/* The number of elements that each rank sends, and that rank @r receives. */
static uint64_t given(const struct run *run)
{
	uint64_t parts =
		run->kind->op == GPUMAP_OP_REDUCE_SCATTER ? run->ranks : 1;

	return parts * run->n;
}

static uint64_t gotten(const struct run *run, uint32_t r)
{
	switch (run->kind->op) {
	case GPUMAP_OP_BARRIER:
		return 0;
	case GPUMAP_OP_ALL_GATHER:
		return run->ranks * run->n;
	case GPUMAP_OP_BROADCAST:
		return r == 0 ? 0 : run->n;
	case GPUMAP_OP_SEND:
		return r == 1 ? run->n : 0;
	default:
		return run->n;
	}
}

static int32_t wanted(const struct run *run, uint32_t r, uint64_t i)
{
	switch (run->kind->op) {
	case GPUMAP_OP_ALL_REDUCE:
		return sum_of(run, i);
	case GPUMAP_OP_REDUCE_SCATTER:
		return sum_of(run, r * run->n + i);
	case GPUMAP_OP_ALL_GATHER:
		return source((uint32_t)(i / run->n), i % run->n);
	default:
		return source(0, i);
	}
}

/* ---- memory of the cards ------------------------------------------------ */

/* Copy @memory to the buffer of that row; @out: or the buffer to it. */
static void copy(const struct run *run, uint32_t row, void *memory,
		 uint64_t buffer, uint64_t bytes, bool out)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = bytes };
	struct gpumap_done done = { .status = 0 };
	int ret;

	job.dst = out ? memory : NULL;
	job.src = out ? NULL : memory;
	job.dst_buffer = out ? 0 : buffer;
	job.src_buffer = out ? buffer : 0;
	ret = gpumap_submit(run->session, row, &job, 1);
	if (ret == 0)
		ret = gpumap_wait(run->session, &done, 1, GPUMAP_NO_DEADLINE);
	if (ret != 1 || done.status != 0)
		gm_ctl_fail(run->ctl, ret < 0 ? ret : done.status,
			    "a copy on row %u", row);
}

/* Make a buffer with the content of @memory. */
static uint64_t put_on_card(const struct run *run, uint32_t row, void *memory,
			    uint64_t bytes)
{
	uint64_t buffer;
	int ret = gpumap_buffer_alloc(run->session, row, bytes, 0,
				      GPUMAP_NO_DEADLINE, &buffer);

	if (ret != 0)
		gm_ctl_fail(run->ctl, ret, "memory of row %u", row);
	copy(run, row, memory, buffer, bytes, false);
	return buffer;
}

/* Copy the results of all cards, from them or to them. */
static void move_results(const struct run *run, bool out)
{
	for (uint32_t r = 0; r < run->ranks; r++)
		if (run->rank[r].recv_buffer != 0)
			copy(run, run->rows[r], run->rank[r].recv,
			     run->rank[r].recv_buffer,
			     gotten(run, r) * sizeof(int32_t), out);
}

static void check(const struct run *run)
{
	for (uint32_t r = 0; r < run->ranks; r++) {
		const int32_t *got = run->rank[r].recv;

		for (uint64_t i = 0; i < gotten(run, r); i++)
			if (got[i] != wanted(run, r, i))
				gm_ctl_failed("element %llu of rank %u is "
					      "wrong; it is row %u",
					      (unsigned long long)i, r,
					      run->rows[r]);
	}
}

/* ---- the collective ------------------------------------------------------ */

static void open_group(struct run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE };
	const struct gpumap_comm_opts comm_opts = {
		.size = sizeof(comm_opts),
		.flags = GM_GIVEN(ctl, NCCL) ? GPUMAP_COMM_NCCL : 0,
	};
	int ret = gpumap_mesh_group(ctl->map, ctl->args[0], ctl->args[1],
				    &group, NULL, NULL, 0);

	/* An error of the group is reported when the communicator is opened. */
	run->ranks = ret == 0 || ret == -ENOBUFS ? group.n : 1;
	opts.arena_bytes = gm_ctl_room(given(run) * sizeof(int32_t)) +
			   gm_ctl_room(gotten(run, 1) * sizeof(int32_t));
	ret = gpumap_session_open(ctl->map, &opts, &run->session);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "open a session");
	ret = gpumap_comm_open_opts(run->session, ctl->args[0], ctl->args[1],
				    &comm_opts, &run->comm);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "group \"%s\" of mesh \"%s\"",
			    ctl->args[1], ctl->args[0]);
	run->ranks = (uint32_t)gpumap_comm_rows(run->comm, run->rows,
						GPUMAP_COMM_RANKS_MAX);
	if (run->kind->op == GPUMAP_OP_SEND && run->ranks < 2)
		gm_ctl_failed("a send needs two ranks: name a group that has "
			      "them");
}

/* Make what each rank sends, and room for what it receives; of a card also
 * there. */
static void make_memory(struct run *run)
{
	uint64_t out = given(run) * sizeof(int32_t);

	for (uint32_t r = 0; r < run->ranks; r++) {
		struct gpumap_device device = { .size = sizeof(device) };
		struct gpumap_rank *rank = &run->rank[r];
		uint64_t in = gotten(run, r) * sizeof(int32_t);
		uint32_t row = run->rows[r];
		void *memory;
		int ret = gpumap_alloc(run->session, row, out, &memory);

		for (uint64_t i = 0; ret == 0 && i < given(run); i++)
			((int32_t *)memory)[i] = source(r, i);
		if (ret == 0 && in != 0)
			ret = gpumap_alloc(run->session, row, in, &rank->recv);
		if (ret != 0)
			gm_ctl_fail(run->ctl, ret, "memory on row %u", row);
		rank->send = memory;
		ret = gpumap_device_read(run->ctl->map, row, &device);
		if (ret != 0)
			gm_ctl_fail(run->ctl, ret, "row %u", row);
		if ((device.flags & GPUMAP_DEVICE_CARD) == 0)
			continue;
		rank->send_buffer = put_on_card(run, row, memory, out);
		if (in != 0)
			rank->recv_buffer =
				put_on_card(run, row, rank->recv, in);
	}
}

static void once(struct run *run)
{
	struct gpumap_collective what = { .size = sizeof(what),
					  .op = run->kind->op,
					  .dtype = GPUMAP_DTYPE_I32,
					  .reduce = GPUMAP_REDUCE_SUM,
					  .peer = 1,
					  .n = run->n,
					  .ranks = run->rank };
	struct gpumap_done done = { .status = 0 };
	uint64_t start, ns;
	int ret;

	for (uint32_t r = 0; r < run->ranks; r++)
		if (run->rank[r].recv != NULL)
			memset(run->rank[r].recv, 0x55,
			       gotten(run, r) * sizeof(int32_t));
	move_results(run, false);
	start = gm_clock_ns();
	what.deadline_ns = start + LIMIT_NS;
	ret = gpumap_comm_submit(run->comm, &what);
	if (ret == 0)
		ret = gpumap_wait(run->session, &done, 1, GPUMAP_NO_DEADLINE);
	ns = gm_clock_ns() - start;
	if (ret < 0 || done.status != 0)
		gm_ctl_fail(run->ctl, ret < 0 ? ret : done.status, "%s",
			    run->kind->name);
	if (ns < run->best_ns)
		run->best_ns = ns;
	move_results(run, true);
	check(run);
}

static void show(const struct run *run)
{
	bool moves = run->kind->op != GPUMAP_OP_BARRIER;
	bool is_of_one = run->kind->op == GPUMAP_OP_BROADCAST ||
			 run->kind->op == GPUMAP_OP_SEND;
	uint64_t bytes = moves ? given(run) * sizeof(int32_t) : 0;
	double rate = (double)bytes / (double)run->best_ns;
	bool has_nccl = gpumap_comm_flags(run->comm) & GPUMAP_COMM_NCCL;
	char size[32];

	if (run->ctl->json) {
		gm_ctl_print(json_pack(
			"{s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:f, s:b, s:b}",
			"op", run->kind->name, "mesh", run->ctl->args[0],
			"group", run->ctl->args[1], "rows",
			gm_ctl_list_json(run->rows, run->ranks), "bytes",
			(json_int_t)bytes, "rounds", (json_int_t)run->rounds,
			"best_ns", (json_int_t)run->best_ns,
			"gigabytes_per_second", rate, "right", 1, "nccl",
			has_nccl));
		return;
	}
	for (uint32_t r = 0; r < run->ranks; r++)
		printf("  rank %2u  row %3u\n", r, run->rows[r]);
	if (GM_GIVEN(run->ctl, NCCL))
		puts(has_nccl ? "  by NCCL, what it does"
			      : "  by way of the host: NCCL wants cards alone, "
				"and nccl not to be no, see gpumapd.conf(5)");
	if (moves)
		printf("%s of %s from %s %u ranks: every element is right; ",
		       run->kind->name, gm_size_text(bytes, size),
		       is_of_one ? "rank 0, of" : "each of", run->ranks);
	else
		printf("%s of %u ranks: ", run->kind->name, run->ranks);
	printf("best of %llu rounds %.3f ms", (unsigned long long)run->rounds,
	       (double)run->best_ns / 1e6);
	if (moves)
		printf(", %.1f GB/s", rate);
	putchar('\n');
}

void gm_ctl_collective(struct gm_ctl *ctl)
{
	const char *op = GM_TEXT(ctl, OP);
	uint64_t bytes =
		GM_GIVEN(ctl, BYTES) ? GM_NUMBER(ctl, BYTES) : DEFAULT_BYTES;
	struct run run = {
		.ctl = ctl,
		.kind = &kinds[gm_ctl_choose_word(&gm_ctl_collective_ops,
						  op != NULL ? op
							     : "all_reduce")],
		.n = bytes / sizeof(int32_t),
		.rounds = GM_GIVEN(ctl, ROUNDS) ? GM_NUMBER(ctl, ROUNDS) : 3,
		.best_ns = UINT64_MAX,
	};

	if (run.n == 0 || bytes > MOST_BYTES)
		gm_ctl_wrong("--bytes is from 4, an element, to 64G");
	open_group(&run);
	make_memory(&run);
	for (uint64_t i = 0; i < run.rounds; i++)
		once(&run);
	show(&run);
	gpumap_comm_close(run.comm);
	gpumap_session_close(run.session);
}
