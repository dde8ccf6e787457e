/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumapctl policy: cards are measured beside the host row. */

#define STAGE_CUDA 1
#include "tests/support/story_rows.h"
#include "tests/support/ctl.h"

static void cards_are_measured(void)
{
	const json_t *policies, *policy;
	bool were = true;
	json_t *json;
	size_t i;

	EQ(CTL("policy", "--calibrate", "--rounds", "1", "--json"), DONE);
	json = object();
	policies = json_object_get(json, "policies");
	json_array_foreach(policies, i, policy) were =
		were &&
		json_is_null(json_object_get(policy, "calibrated_ns")) ==
			(i + 1 == json_array_size(policies));
	/* The cards are calibrated, and the host row behind them is not. */
	EQ((intmax_t)json_array_size(policies), STAGE_ROWS + 1);
	OK(were);
	json_decref(json);
	EQ(CTL("policy", "--calibrate", "--rounds", "1", "--rows", "1"), DONE);
	OK(prints("\n  1  yes "));
	EQ(CTL("choose", "--by", "free-compute"), DONE);
	OK(prints(" cuda "));
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 1\n");
	if (OK(agent_start(&agent)))
		cards_are_measured();
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}
