/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A card as a rank of collectives, beside a host row: both give and get memory
 * of their own.  Every element, how fast it is, and the death of the card's
 * worker on the way.
 */

#include "tests/gpu/agent.h"
#include "tests/support/collective_buffers.h"

#define RANKS 2u

static bool publish(struct gpu_agent *g)
{
	const uint32_t rows[RANKS] = { g->row, g->host };
	struct gpumap_mesh_request request = { .size = sizeof(request),
					       .name = "both",
					       .topology = GPUMAP_MESH_DATA,
					       .n_rows = RANKS,
					       .tp = 1,
					       .pp = 1,
					       .dp = RANKS,
					       .rows = rows };

	return EQ(gpumap_mesh_publish(g->map, &request), 0);
}

static uint64_t each_op(struct ranks *ranks, uint32_t dtype, uint64_t n)
{
	static const uint32_t all[] = { GPUMAP_OP_ALL_REDUCE,
					GPUMAP_OP_REDUCE_SCATTER,
					GPUMAP_OP_ALL_GATHER };
	struct shape s = { .dtype = dtype, .n = n };
	uint64_t wrong = 0, step = n / 100000 + 1;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		s.op = all[i];
		s.in_place = false;
		wrong += cards_once(ranks, &s, step);
		s.in_place = true;
		wrong += cards_once(ranks, &s, step);
	}
	/* Out of the card, and into it. */
	s.in_place = false;
	for (s.root = 0; s.root < RANKS; s.root++) {
		s.op = GPUMAP_OP_BROADCAST;
		wrong += cards_once(ranks, &s, step);
		s.op = GPUMAP_OP_SEND;
		s.peer = 1 - s.root;
		wrong += cards_once(ranks, &s, step);
	}
	return wrong;
}

static void every_element_is_right(struct gpu_agent *g)
{
	static const uint32_t dtypes[] = {
		GPUMAP_DTYPE_U8,  GPUMAP_DTYPE_F16, GPUMAP_DTYPE_BF16,
		GPUMAP_DTYPE_F32, GPUMAP_DTYPE_I32, GPUMAP_DTYPE_I64
	};
	static const uint64_t sizes[] = { 0, 1, 333, 4096, (1 << 20) + 5 };
	struct ranks ranks;

	if (!cards_open(g->session, "both", 52 * GPU_MIB, &ranks))
		return;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
			EQ(each_op(&ranks, dtypes[d], sizes[i]), 0);
	cards_close(&ranks);
}

static void how_fast_it_is(struct gpu_agent *g)
{
	const struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
				 .dtype = GPUMAP_DTYPE_F32,
				 .n = 6 * GPU_MIB,
				 .in_place = true };
	uint64_t best = UINT64_MAX, rounds = gpu_rounds(20, 2);
	struct ranks ranks;

	if (!cards_open(g->session, "both", 52 * GPU_MIB, &ranks))
		return;
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t ns = story_now();

		if (!EQ(cards_submit(&ranks, &s, 1), 0) ||
		    !EQ(collective_end(g->session, 1), 0))
			return;
		ns = story_now() - ns;
		best = ns < best ? ns : best;
	}
	FACT("\"collective\":\"all_reduce of a card and a host row\","
	     "\"bytes\":%" PRIu64 ",\"gb_s\":%.2f",
	     shape_bytes(&s), (double)shape_bytes(&s) / (double)best);
	cards_close(&ranks);
}

/* The group breaks, and is there again when the worker is. */
static void the_cards_worker_dies(struct gpu_agent *g)
{
	const struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
				 .dtype = GPUMAP_DTYPE_I32,
				 .n = 4 * GPU_MIB + 1 };
	struct gpumap_device device = story_device(g->map, g->row);
	struct ranks ranks;
	int status;

	if (!cards_open(g->session, "both", 52 * GPU_MIB, &ranks))
		return;
	for (uint64_t i = 0; i < 20; i++)
		EQ(cards_submit(&ranks, &s, i), 0);
	EQ(kill((pid_t)device.worker_pid, SIGKILL), 0);
	for (uint64_t i = 0; i < 20; i++) {
		status = collective_end(g->session, i);
		OK(status == 0 || status == -EIO || status == -ESTALE);
	}
	NOTE("the last says: %s", gpumap_strerror(status));
	EQ(cards_submit(&ranks, &s, 1), -ESTALE);
	OK(story_back(g->map, g->row, device.restarts));
	gpumap_buffer_free(g->session, ranks.buffer[0]);
	EQ(gpumap_buffer_free(g->session, ranks.buffer[1]), 0);
	collective_close(&ranks);
	if (!cards_open(g->session, "both", 52 * GPU_MIB, &ranks))
		return;
	EQ(cards_once(&ranks, &s, 997), 0);
	cards_close(&ranks);
}

TAP_CASE_ARGS(argc, argv)
{
	struct gpu_agent g;

	(void)argc;
	gpu_agent_go_under(argv);
	if (!gpu_begin(argv))
		return tap_done();
	if (gpu_agent_make(&g, "") && gpu_agent_session(&g, 64 * GPU_MIB) &&
	    publish(&g)) {
		every_element_is_right(&g);
		how_fast_it_is(&g);
		the_cards_worker_dies(&g);
	}
	gpu_agent_remove(&g);
	return tap_done();
}
