/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/answers/topology_choice.h"

#include <inttypes.h>
#include <stdio.h>

#include "shm/chars.h"

#define DATA_PARALLEL "falling back to data-parallel"

static bool is_called(const char *requested, const char *name)
{
	return gm_chars_equal(gm_chars_trim(gm_chars_of(requested)),
			      gm_chars_of(name));
}

static struct gm_topology_choice data_parallel(const char *warning)
{
	struct gm_topology_choice choice = { .worker = "data-parallel",
					     .tp_degree = 1 };

	snprintf(choice.warning, sizeof(choice.warning), "%s", warning);
	return choice;
}

static struct gm_topology_choice pipeline(uint64_t stages)
{
	return (struct gm_topology_choice){ .is_pipeline = true,
					    .stages = stages,
					    .worker = "pipeline-parallel",
					    .tp_degree = stages };
}

struct gm_topology_choice gm_topology_choice(const char *requested,
					     uint64_t tp_degree,
					     bool is_onnx_generate,
					     uint64_t stages)
{
	bool is_ready = is_onnx_generate && stages > 0;
	struct gm_topology_choice choice = pipeline(stages);

	if (is_called(requested, "pipeline") ||
	    is_called(requested, "pipeline-parallel")) {
		if (!is_ready)
			return data_parallel(
				"Pipeline topology requested but no usable LLM "
				"pipeline metadata found; " DATA_PARALLEL);
		if (tp_degree == 0)
			tp_degree = 1;
		if (tp_degree != stages)
			snprintf(choice.warning, sizeof(choice.warning),
				 "Ignoring --tp-degree=%" PRIu64
				 " for pipeline mode; using metadata stage "
				 "count=%" PRIu64,
				 tp_degree, stages);
		return choice;
	}
	if (is_called(requested, "mixed")) {
		if (!is_ready)
			return data_parallel(
				"Mixed topology requested but no usable LLM "
				"pipeline metadata found; " DATA_PARALLEL);
		snprintf(choice.warning, sizeof(choice.warning),
			 "Mixed topology is not fully implemented; using "
			 "pipeline-parallel execution based on metadata "
			 "stages");
		return choice;
	}
	if (is_called(requested, "tensor-parallel"))
		return data_parallel(
			"Tensor-parallel topology is not fully "
			"implemented in backend execution; " DATA_PARALLEL);
	return data_parallel("");
}
