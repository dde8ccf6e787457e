/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/nccl.h while its mesh is published anew: between any two readings the
 * group may have other ranks, and this process another place among them.  Its
 * rank in the communicator is its rank in the group.  Ranks that come later
 * find the communicator that it made for those that did not come.  And waits
 * without a limit have none.
 */

#include <errno.h>
#include <nccl.h>

#include "gpumap.h"
#include "tests/contract/contract.h"
#include "tests/support/story.h"

#define WAIT_NS (UINT64_C(60) * 1000000000)

enum look { NO_LOOK, GROUP, WITHIN };

static struct agent agent;
static struct gpumap *node;
static enum look moves_after; /* the next look of this kind */
static int n_ids;

/* A mesh of two host rows; the group is rank 1 alone, or behind rank 0. */
static int publish(bool alone)
{
	static const uint32_t ranks[] = { 0, 1 };
	const struct gpumap_mesh_added group = {
		.name = "g",
		.ranks = alone ? ranks + 1 : ranks,
		.n = alone ? 1 : 2,
		.backend = GPUMAP_MESH_NCCL,
	};
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "m",
		.topology = GPUMAP_MESH_DATA,
		.tp = 1,
		.pp = 1,
		.dp = 1,
		.added = &group,
		.n_added = 1,
	};

	return gpumap_mesh_publish(node, &request);
}

static void look_is_over(enum look look)
{
	if (look != moves_after)
		return;
	moves_after = NO_LOOK;
	EQ(publish(true), 0);
}

static inline int group_and_move(const struct gpumap *at, const char *name,
				 const char *group,
				 struct gpumap_mesh_group *ret_group,
				 uint32_t *ret_ranks, uint32_t *ret_rows,
				 size_t n)
{
	int ret = gpumap_mesh_group(at, name, group, ret_group, ret_ranks,
				    ret_rows, n);

	look_is_over(GROUP);
	return ret;
}

static inline int within_and_move(const struct gpumap *at, const char *name,
				  const char *group, uint32_t rank)
{
	int ret = gpumap_mesh_within(at, name, group, rank);

	look_is_over(WITHIN);
	return ret;
}

static inline ncclResult_t make_id(ncclUniqueId *ret_id)
{
	n_ids++;
	return ncclGetUniqueId(ret_id);
}

#define ncclGetUniqueId(...)    make_id(__VA_ARGS__)
#define gpumap_mesh_group(...)  group_and_move(__VA_ARGS__)
#define gpumap_mesh_within(...) within_and_move(__VA_ARGS__)
#include <gpumap/nccl.h>
#undef ncclGetUniqueId
#undef gpumap_mesh_group
#undef gpumap_mesh_within

static void it_is_what_the_group_has_it_for(enum look look)
{
	struct gpumap_nccl nccl;
	int ret;

	EQ(publish(false), 0);
	moves_after = look;
	ret = gpumap_nccl_init(node, "m", "g", 1, gpumap_nccl_now() + WAIT_NS,
			       &nccl);
	if (!EQ(ret, 0)) {
		NOTE("%s", gpumap_refusal(node));
		return;
	}
	EQ(moves_after, NO_LOOK);
	EQ(nccl.rank, 0);
	EQ(nccl.n, 1);
	EQ(gpumap_nccl_finish(&nccl, gpumap_nccl_now() + WAIT_NS), 0);
}

/* Each has a thread and a listener. */
static void one_id_is_made(enum look look)
{
	struct gpumap_nccl nccl;

	EQ(publish(true), 0);
	moves_after = look;
	n_ids = 0;
	if (!EQ(gpumap_nccl_init(node, "m", "g", 1, gpumap_nccl_now() + WAIT_NS,
				 &nccl),
		0))
		return;
	EQ(moves_after, NO_LOOK);
	EQ(n_ids, 1);
	EQ(gpumap_nccl_finish(&nccl, gpumap_nccl_now() + WAIT_NS), 0);
	/* Others had that one. */
	if (!EQ(gpumap_nccl_init(node, "m", "g", 1, gpumap_nccl_now() + WAIT_NS,
				 &nccl),
		0))
		return;
	EQ(n_ids, 2);
	EQ(gpumap_nccl_finish(&nccl, gpumap_nccl_now() + WAIT_NS), 0);
}

static void waits_may_have_no_end(void)
{
	struct gpumap_nccl nccl;
	int ret;

	EQ(publish(true), 0);
	ret = gpumap_nccl_init(node, "m", "g", 1, GPUMAP_NO_DEADLINE, &nccl);
	if (!EQ(ret, 0))
		return;
	EQ(gpumap_nccl_wait(&nccl, ncclInProgress, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_nccl_finish(&nccl, GPUMAP_NO_DEADLINE), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	const char *lack = contract_load(argv);
	int version = 0;
	CUcontext context;

	(void)argc;
	if (lack || ncclGetVersion(&version) != ncclSuccess) {
		SKIP(1, lack ? lack : "no NCCL");
		return tap_done();
	}
	EQ(cu.cuInit(0), 0);
	EQ(cu.cuDevicePrimaryCtxRetain(&context, 0), 0);
	EQ(cu.cuCtxSetCurrent(context), 0);
	agent_make(&agent, "[host]\nrows = 2\n");
	if (OK(agent_start(&agent)) &&
	    OK((node = story_attach(&agent)) != NULL)) {
		it_is_what_the_group_has_it_for(GROUP);
		it_is_what_the_group_has_it_for(WITHIN);
		one_id_is_made(GROUP);
		one_id_is_made(WITHIN);
		waits_may_have_no_end();
	}
	story_finish(&agent, node);
	agent_remove(&agent);
	cu.cuDevicePrimaryCtxRelease_v2(0);
	return tap_done();
}
