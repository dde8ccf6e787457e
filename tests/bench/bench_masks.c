/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench_masks - what getting a replica costs beside a load from an array, and
 * publishing a mask of 8192 x 8192 in bf16 for eight rows beside one copy of as
 * many bytes.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure/series.h"
#include "tests/bench/measure/ticks.h"
#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/story.h"

#define ROWS   8u
#define SIDE   UINT64_C(8192)
#define GETS   4000000u
#define ROUNDS 7

static struct agent agent;
static struct gpumap *map;

static void die(const char *what, int error)
{
	fprintf(stderr, "bench_masks: %s: %s %s\n", what,
		gpumap_strerror(error), map != NULL ? gpumap_refusal(map) : "");
	agent_remove(&agent);
	exit(1);
}

static int publish(const char *name, uint64_t past, uint64_t side,
		   struct gpumap_mask_result *result)
{
	static const uint32_t rows[ROWS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_BF16,
		.tgt_len = side,
		.past_kv_len = past,
		.rows = rows,
		.n_rows = ROWS,
	};

	result->size = sizeof(*result);
	return gpumap_mask_publish(map, &r, result);
}

/* ns of one. */
static double gets(struct gpumap_mask *mask)
{
	uint64_t from = gm_ticks();
	uintptr_t sum = 0;

	for (uint32_t i = 0; i < GETS; i++) {
		const struct gpumap_mask_view *view;

		if (gpumap_mask_get(map, mask, i % ROWS, &view) == 0)
			sum += (uintptr_t)view->data;
		__asm__ volatile("" : "+r"(sum) : : "memory");
	}
	return (double)(gm_ticks() - from) * gm_ticks_ns() / GETS;
}

static double loads(const void *const *array)
{
	uint64_t from = gm_ticks();
	uintptr_t sum = 0;

	for (uint32_t i = 0; i < GETS; i++) {
		sum += (uintptr_t)array[i % ROWS];
		__asm__ volatile("" : "+r"(sum) : : "memory");
	}
	return (double)(gm_ticks() - from) * gm_ticks_ns() / GETS;
}

static void get_beside_a_load(void)
{
	struct gm_figure figure = {
		.name = "mask_get", .unit = "ns", .sense = GM_AT_MOST, .goal = 3
	};
	struct gpumap_mask_result result;
	const void *array[ROWS];
	struct gm_series series = { 0 };
	struct gpumap_mask *mask;
	int ret = publish("small", 0, 64, &result);

	if (ret == 0)
		ret = gpumap_mask_open(map, "small", 0, &mask);
	for (uint32_t i = 0; i < ROWS && ret == 0; i++) {
		const struct gpumap_mask_view *view = NULL;

		ret = gpumap_mask_get(map, mask, i, &view);
		array[i] = ret == 0 ? view->data : NULL;
	}
	if (ret != 0)
		die("mask", ret);
	for (int round = 0; round < ROUNDS; round++) {
		double baseline = loads(array);

		gm_series_add(&series, gets(mask), baseline);
	}
	gm_series_print(&figure, &series, "against a load from an array");
	gpumap_mask_close(map, mask);
}

static void publish_beside_a_copy(void)
{
	struct gm_figure figure = {
		.name = "mask_publish_8192x8192_bf16_8_rows",
		.unit = "ms",
		.sense = GM_AT_MOST,
		.goal = 5
	};
	uint64_t bytes = SIDE * SIDE * 2;
	struct gpumap_mask_result result;
	struct gm_series series = { 0 };
	char *from = malloc(bytes), *to = malloc(bytes), note[96];
	uint32_t most = 0;

	if (from == NULL || to == NULL)
		die("memory", -ENOMEM);
	memset(from, 1, bytes);
	memset(to, 2, bytes);
	for (int round = 0; round <= ROUNDS; round++) {
		uint64_t start = gm_ticks();
		double copy, all;
		int ret;

		memcpy(to, from, bytes);
		__asm__ volatile("" : : "r"(to) : "memory");
		copy = (double)(gm_ticks() - start) * gm_ticks_ns() / 1e6;
		start = gm_ticks();
		/* Never the same twice, or nothing would be written. */
		ret = publish("large", (uint64_t)round, SIDE, &result);
		all = (double)(gm_ticks() - start) * gm_ticks_ns() / 1e6;
		if (ret != 0)
			die("publish", ret);
		if (result.n_copies > most)
			most = result.n_copies;
		/* The first two take the pages that later ones have. */
		if (round > 1)
			gm_series_add(&series, all, copy);
	}
	snprintf(note, sizeof(note),
		 "against one copy of its bytes; it was written %u times",
		 most);
	gm_series_print(&figure, &series, note);
	free(from);
	free(to);
}

int main(void)
{
	agent_make(&agent, "[host]\nrows = 8\n");
	if (!agent_start(&agent))
		die("agent", 0);
	map = story_attach(&agent);
	if (map == NULL)
		die("attach", -ENOENT);
	get_beside_a_load();
	publish_beside_a_copy();
	gpumap_detach(map);
	agent_remove(&agent);
	return 0;
}
