/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_agent - a whole agent on dummy rows, for tests that have it plan.
 */
#ifndef GM_TEST_SUPPORT_PLAN_AGENT_H
#define GM_TEST_SUPPORT_PLAN_AGENT_H

#include <gpumap/plan.h>

#include "tests/support/story.h"

#define GIB      (UINT64_C(1) << 30)
#define N_LAYERS 12u

static const char node[] =
	"name: two\n"
	"rows:\n"
	"- { name: A, kind: cuda, count: 2, memory: 10G, free: 8G,\n"
	"    compute-capability: 9.0, sm-count: 100, threads-per-sm: 2048 }\n"
	"- { name: B, kind: cuda, memory: 10G, compute-capability: 7.5,\n"
	"    sm-count: 50, threads-per-sm: 1024 }\n"
	"- { name: C, kind: host, cpus: 8, memory: 64G, free: 60G }\n";

#define ROWS 4u

static struct agent agent;
static struct gpumap *map;
static uint64_t sizes[N_LAYERS];

static inline void configure(const char *limits)
{
	char config[512];

	snprintf(config, sizeof(config), "[host]\nenabled = no\n[limits]\n%s\n",
		 limits);
	agent_configure_dummies(&agent, node, config);
}

/* A model of @layer_bytes a layer that computes nothing: its charges are its
 * weights, and what is kept back. */
static inline struct gpumap_plan_request
request_of(const char *name, uint32_t flags, uint64_t layer_bytes)
{
	for (uint32_t i = 0; i < N_LAYERS; i++)
		sizes[i] = layer_bytes;
	return (struct gpumap_plan_request){
		.size = sizeof(struct gpumap_plan_request),
		.name = name,
		.flags = flags,
		.setting = GPUMAP_SETTING_AUTO,
		.n_layers = N_LAYERS,
		.layer_bytes = sizes,
		.other_bytes = GIB / 4,
		.dtype = GPUMAP_DTYPE_BF16,
	};
}

static inline uint64_t reserved(uint32_t row)
{
	return story_device(map, row).reserved_bytes;
}

static inline uint64_t all_reserved(void)
{
	uint64_t sum = 0;

	for (uint32_t row = 0; row < ROWS; row++)
		sum += reserved(row);
	return sum;
}

static inline struct gpumap_layers head_of(const char *name)
{
	struct gpumap_layers head = { .size = sizeof(head) };

	gpumap_layers_read(map, name, &head, NULL, NULL, 0, NULL, 0);
	return head;
}

static inline bool is_published(const char *name)
{
	return head_of(name).n_layers != 0;
}

/* Is it all as it was before anything was planned? */
static inline bool is_empty(void)
{
	uint32_t cursor = 0;
	char name[GPUMAP_NAME_MAX + 1];

	return all_reserved() == 0 &&
	       gpumap_layers_next(map, &cursor, name) == 0;
}

static inline int plan(const struct gpumap_plan_request *request,
		       struct gpumap_plan *ret_plan)
{
	*ret_plan = (struct gpumap_plan){ .size = sizeof(*ret_plan) };
	return gpumap_plan_make(map, request, ret_plan, NULL, 0, NULL, 0);
}

static inline int commit(const char *name, uint32_t flags, uint64_t layer_bytes)
{
	struct gpumap_plan_request request =
		request_of(name, GPUMAP_PLAN_COMMIT | flags, layer_bytes);
	struct gpumap_plan answer;

	return plan(&request, &answer);
}

#endif
