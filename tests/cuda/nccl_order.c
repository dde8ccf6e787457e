/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Ranks that are not in the order of their cards, nor a group's in that of its
 * mesh: with NCCL each is given what is its own, and not what would be its
 * card's.
 */

#define STAGE_CUDA 1

#include "tests/support/collective_nccl.h"

static const uint32_t rows[] = { 2, 0, 3, 1 };

/* From every root to every other rank. */
static uint64_t roots(struct ranks *g, uint32_t dtype, uint64_t n)
{
	struct shape s = { .dtype = dtype, .n = n };
	uint64_t bad = 0;

	for (s.root = 0; s.root < g->n; s.root++) {
		s.op = GPUMAP_OP_BROADCAST;
		bad += cards_once(g, &s, 1);
		s.op = GPUMAP_OP_SEND;
		for (s.peer = 0; s.peer < g->n; s.peer++)
			if (s.peer != s.root)
				bad += cards_once(g, &s, 1);
	}
	return bad;
}

static uint64_t parts(struct ranks *g, uint32_t dtype, uint64_t n)
{
	static const uint32_t ops[] = { GPUMAP_OP_ALL_REDUCE,
					GPUMAP_OP_REDUCE_SCATTER,
					GPUMAP_OP_ALL_GATHER };
	struct shape s = { .dtype = dtype, .n = n };
	uint64_t bad = 0;

	for (int i = 0; i < 6; i++) {
		s.op = ops[i % 3];
		s.in_place = i >= 3;
		bad += cards_once(g, &s, 1);
	}
	return bad;
}

static void each_has_its_own(const char *group, const uint32_t *want,
			     uint32_t n)
{
	struct ranks g;

	if (!nccl_open_group(session, "odd", group, MIB, &g))
		return;
	if (EQ(g.n, n))
		OK(memcmp(g.row, want, n * sizeof(*want)) == 0);
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	EQ(parts(&g, GPUMAP_DTYPE_I32, 333), 0);
	EQ(parts(&g, GPUMAP_DTYPE_U8, 4099), 0);
	EQ(roots(&g, GPUMAP_DTYPE_I64, 333), 0);
	/* None of it by windows. */
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	nccl_close(&g);
}

TAP_CASE()
{
	static const uint32_t ranks[] = { 2, 3, 1 }, three[] = { 3, 1, 0 };
	static const uint32_t two[] = { 3, 1 };
	const struct gpumap_mesh_added added = { .name = "back",
						 .ranks = ranks,
						 .n = 3,
						 .backend = GPUMAP_MESH_NCCL };
	struct gpumap_mesh_request mesh = { .size = sizeof(mesh),
					    .name = "odd",
					    .topology = GPUMAP_MESH_MIXED,
					    .tp = 2,
					    .pp = 1,
					    .dp = 2,
					    .rows = rows,
					    .n_rows = 4,
					    .added = &added,
					    .n_added = 1 };

	if (!nccl_begin("", "nccl = yes\n"))
		return tap_done();
	if (EQ(gpumap_mesh_publish(map, &mesh), 0)) {
		each_has_its_own(NULL, rows, 4);
		each_has_its_own("back", three, 3);
		each_has_its_own("tp_dp1_pp0", two, 2);
	}
	nccl_end();
	stage_end(&agent);
	return tap_done();
}
