/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks thresholds of work: the defaults, that devices that are alike share
 * what was set, over the agent's death and without the segment, and that only
 * the administrator may set any.
 */

#include <signal.h>

#include "tests/support/ctl.h"
#include "tests/support/story.h"

/* Two cards that are alike, and one that is not. */
static const char node[] =
	"name: three\n"
	"rows:\n"
	"- { name: H100, kind: cuda, count: 2, memory: 80G,\n"
	"    compute-capability: 9.0, sm-count: 132 }\n"
	"- { name: H100, kind: cuda, memory: 80G,\n"
	"    compute-capability: 9.0, sm-count: 114 }\n";

static const char *const own[] = { "fill", "copy",   "scale", "axpy",
				   "cast", "reduce", "mask" };

#define N_OWN (sizeof(own) / sizeof(own[0]))

/* Host rows 0 and 1, cards 2, 3 and 4. */
#define ROWS 5u

static struct gpumap *map;

/* The thresholds of all rows, a new reference. */
static json_t *policies(void)
{
	json_t *json;

	EQ(CTL("policy", "--json"), DONE);
	json = object();
	OK(list(json, "policies", ROWS) != NULL);
	return json;
}

static const json_t *policy_of(const json_t *json, uint32_t row)
{
	const json_t *policy =
		json_array_get(json_object_get(json, "policies"), row);

	EQ(number(policy, "row"), row);
	return policy;
}

static intmax_t least_of(const json_t *policy, const char *work)
{
	return number(json_object_get(policy, "least"), work);
}

static intmax_t least(uint32_t row, const char *work)
{
	json_t *json = policies();
	intmax_t least = least_of(policy_of(json, row), work);

	json_decref(json);
	return least;
}

static bool is_calibrated(uint32_t row)
{
	json_t *json = policies();
	bool is = !json_is_null(
		json_object_get(policy_of(json, row), "calibrated_ns"));

	json_decref(json);
	return is;
}

static void rows_have_defaults(void)
{
	json_t *json = policies();

	for (uint32_t row = 0; row < ROWS; row++) {
		const json_t *policy = policy_of(json, row);

		OK(json_is_null(json_object_get(policy, "calibrated_ns")));
		EQ(least_of(policy, "gemm"), 100000000);
		EQ(least_of(policy, "potrf"), 512);
		EQ(least_of(policy, "xtwx"), 100000000);
		for (size_t i = 0; i < N_OWN; i++)
			EQ(least_of(policy, own[i]), 50000);
	}
	json_decref(json);
	EQ(CTL("policy", "--rows", "1"), DONE);
	OK(prints("row  calibrated ") && prints("\n  1  no  "));
	OK(!prints("\n  0  no  "));
}

static int set(uint32_t row, uint32_t generation, uint32_t work, uint64_t value)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };

	EQ(gpumap_policy_read(map, row, &policy), 0);
	memset(policy.least, 0, sizeof(policy.least));
	policy.generation += generation;
	policy.least[work] = value;
	return gpumap_policy_set(map, &policy);
}

static void devices_that_are_alike_share_them(void)
{
	struct gpumap_policy_view view;
	uint32_t seen = gpumap_generation(map);

	EQ(gpumap_policy_view(map, 3, &view), 0);
	EQ(gpumap_worth(&view, GPUMAP_WORK_GEMM, 600000), 0);
	EQ(set(2, 0, GPUMAP_WORK_GEMM, 600000), 0);
	EQ(gpumap_worth(&view, GPUMAP_WORK_GEMM, 600000), 1);
	EQ(gpumap_wait_change(map, seen, 0), 0);
	EQ(least(2, "gemm"), 600000);
	OK(is_calibrated(2) && is_calibrated(3));
	EQ(least(3, "axpy"), 50000);
	/* One with fewer multiprocessors is another device. */
	EQ(least(4, "gemm"), 100000000);
	OK(!is_calibrated(4) && !is_calibrated(0));
	EQ(set(4, 0, GPUMAP_WORK_COPY, UINT64_MAX), 0);
	EQ(CTL("policy", "--rows", "4"), DONE);
	OK(prints(" never "));
}

/* Else a later version with other defaults would keep these. */
static void defaults_that_are_set_are_none(void)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };

	EQ(gpumap_policy_read(map, 0, &policy), 0);
	/* A default below the floor would never be looked at. */
	for (uint32_t work = 0; work < GPUMAP_WORKS; work++)
		OK(policy.least[work] > gpumap_work_floor(work));
	EQ(gpumap_policy_set(map, &policy), 0);
	OK(!is_calibrated(0));
	policy.least[GPUMAP_WORK_COPY] = 8192;
	EQ(gpumap_policy_set(map, &policy), 0);
	EQ(least(0, "copy"), 8192);
	EQ(least(0, "gemm"), 100000000);
	policy.least[GPUMAP_WORK_COPY] = 50000;
	EQ(gpumap_policy_set(map, &policy), 0);
	OK(!is_calibrated(0));
}

static void nonsense_is_refused(void)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };

	EQ(set(2, 1, GPUMAP_WORK_GEMM, 5), -EAGAIN);
	OK(strstr(gpumap_refusal(map), "row 2 was given to another device"));
	EQ(set(2, UINT32_MAX, GPUMAP_WORK_GEMM, 5), -EAGAIN);
	policy.row = 77;
	EQ(gpumap_policy_set(map, &policy), -ENODEV);
	OK(strstr(gpumap_refusal(map), "there is no row 77"));
	policy.least[GPUMAP_WORKS] = 1;
	EQ(gpumap_policy_set(map, &policy), -E2BIG);
	EQ(gpumap_policy_set(map, NULL), -EINVAL);
	EQ(CTL("policy", "--rounds", "3"), USAGE);
	EQ(CTL("policy", "--rows", "77"), FAILED);
	EQ(least(2, "gemm"), 600000);
}

static void they_outlive_the_agent(void)
{
	EQ(set(1, 0, GPUMAP_WORK_COPY, 16384), 0);
	agent_kill(&agent, SIGKILL);
	OK(agent_start(&agent));
	EQ(least(1, "copy"), 16384);
	EQ(least(3, "gemm"), 600000);
	EQ(agent_kill(&agent, SIGTERM), 0);
	gpumap_detach(map);
	EQ(agent_run(&agent, "--remove"), 0);
	OK(agent_start(&agent) && (map = story_attach(&agent)) != NULL);
	EQ(least(1, "copy"), 16384);
	EQ(least(2, "gemm"), 600000);
	EQ(CTL("policy", "--rows", "4"), DONE);
	OK(prints(" never "));
}

static void others_may_not(void)
{
	if (!ctl_as_another(3))
		return;
	EQ(CTL("policy"), DONE);
	EQ(CTL("policy", "--reset"), FAILED);
	OK(complains("uid 65534 may not set thresholds: only root and uid 0"));
	user = 0;
}

static void they_are_reset(void)
{
	char path[256];

	EQ(CTL("policy", "--reset", "--rows", "3"), DONE);
	EQ(least(2, "gemm"), 100000000);
	snprintf(path, sizeof(path), "%s/calibrations", agent.state);
	EQ(access(path, F_OK), 0);
	EQ(CTL("policy", "--reset"), DONE);
	rows_have_defaults();
	OK(access(path, F_OK) != 0);
	EQ(CTL("policy", "--reset"), DONE);
}

/* A file that makes no sense is set aside, and the start goes on. */
static void a_strange_file_is_refused(void)
{
	char path[256];
	FILE *file;

	EQ(set(2, 0, GPUMAP_WORK_GEMM, 600000), 0);
	EQ(agent_kill(&agent, SIGTERM), 0);
	snprintf(path, sizeof(path), "%s/calibrations", agent.state);
	file = fopen(path, "we");
	OK(file != NULL && fputs("{}\n", file) >= 0 && fclose(file) == 0);
	OK(agent_start(&agent));
	OK(agent_logged(&agent, "event=state_refused path="));
	rows_have_defaults();
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, node,
				"[host]\nrows = 2\n[socket]\nmode = 0666\n");
	if (!OK(agent_start(&agent)) ||
	    !OK((map = story_attach(&agent)) != NULL))
		return tap_done();
	rows_have_defaults();
	devices_that_are_alike_share_them();
	defaults_that_are_set_are_none();
	nonsense_is_refused();
	they_outlive_the_agent();
	others_may_not();
	they_are_reset();
	a_strange_file_is_refused();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
