/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vLLM and SGLang: rank i of a pipeline computes a range of layers on CUDA
 * ordinal i, ranges follow one another, and a list of their lengths may replace
 * the equal ones.  The first rank also has the embeddings, the last the head.
 *
 * Ranks that each have a part of every layer are on one ordinal each as well.
 *
 * The list is for every model in the process, and is left out for one rank: the
 * lengths would not be those of a draft model.
 */

#include <errno.h>
#include <stdio.h>

#include "lib/model/engines/engine.h"

static int check_cards(const struct gm_engine_job *job)
{
	const char *part = job->has_ranks ? "rank" : "layer";

	for (uint32_t i = 0; i < job->n_layers; i++) {
		uint32_t row = job->rows[i];

		if (gm_engine_card(job, i) < 0)
			return gm_refuse(job->map, -EOPNOTSUPP,
					 "%s %u is on row %u, a host row, "
					 "and %s has layers on GPUs only: "
					 "publish the map without it",
					 part, i, row, job->name);
		if (job->n_cards > 1 && job->devices[row].mig_gi >= 0)
			return gm_refuse(
				job->map, -EOPNOTSUPP,
				"%s %u is on row %u, a MIG instance, "
				"and the ranks of %s need whole cards: "
				"publish the map with one row, or with "
				"cards",
				part, i, row, job->name);
	}
	return gm_engine_ranges(job, "a rank has one range of layers; publish "
				     "the map with each row's layers in one "
				     "piece");
}

static void set_lengths(struct gm_engine_job *job)
{
	const char *variable = job->request.engine == GPUMAP_ENGINE_VLLM
				       ? "VLLM_PP_LAYER_PARTITION"
				       : "SGLANG_PP_LAYER_PARTITION";
	char text[GPUMAP_ROWS_MAX * 6] = ""; /* "65536," */
	uint32_t lengths[GPUMAP_ROWS_MAX] = { 0 };
	size_t n = 0;

	for (uint32_t i = 0; i < job->n_layers; i++)
		lengths[gm_engine_card(job, i)]++;
	for (uint32_t i = 0; i < job->n_cards; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u",
				      i > 0 ? "," : "", lengths[i]);
	if (job->n_cards > 1)
		gm_engine_add(job, &job->env, "%s=%s", variable, text);
}

int gm_engine_pipeline(struct gm_engine_job *job)
{
	uint32_t first;
	int ret = gm_engine_devices(job, false);

	if (ret == 0)
		ret = check_cards(job);
	if (ret != 0)
		return ret;
	if (!job->has_ranks)
		set_lengths(job);
	gm_engine_option(job, "--tensor-parallel-size", "%u",
			 job->has_ranks ? job->n_cards : 1);
	gm_engine_option(job, "--pipeline-parallel-size", "%u",
			 job->has_ranks ? 1 : job->n_cards);
	if (job->request.engine == GPUMAP_ENGINE_VLLM && job->n_cards > 1)
		gm_engine_option(job, "--distributed-executor-backend", "mp");
	first = job->cards[0];
	if (first == job->base_row)
		return 0;
	/* They are more than the map has charged that row for. */
	job->exact = false;
	gm_engine_add(
		job, &job->notes,
		"%s has the embeddings on row %u; the map has them on row "
		"%u.",
		job->name, first, job->base_row);
	return 0;
}
