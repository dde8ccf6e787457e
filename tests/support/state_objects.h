/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state_objects - something of each kind that has state files: how it is
 * published and taken back, and whether clients see it.
 */
#ifndef GM_TEST_SUPPORT_STATE_OBJECTS_H
#define GM_TEST_SUPPORT_STATE_OBJECTS_H

#include <gpumap/mask.h>

#include "tests/support/raw.h"
#include "tests/support/state_agent.h"

static inline int publish_mesh(void)
{
	static const uint32_t rows[] = { 1, 0 };
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "s",
		.topology = GPUMAP_MESH_TENSOR,
		.tp = 1,
		.pp = 1,
		.dp = 1,
		.rows = rows,
		.n_rows = 2,
	};

	return gpumap_mesh_publish(map, &request);
}

static inline int take_mesh(void)
{
	return gpumap_mesh_release(map, "s");
}

static inline bool is_mesh(void)
{
	uint32_t rows[GPUMAP_ROWS_MAX];

	return gpumap_mesh_read(map, "s", NULL, rows, GPUMAP_ROWS_MAX) == 0 &&
	       rows[0] == 1 && rows[1] == 0;
}

static inline int publish_mask(void)
{
	static const uint32_t rows[] = { 0, 1 };
	const struct gpumap_mask_request request = {
		.size = sizeof(request),
		.name = "k",
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_LOADED,
		.dtype = GPUMAP_DTYPE_U8,
		.rank = 1,
		.shape = { 24 },
		.data = "twenty-four bytes of it.",
		.rows = rows,
		.n_rows = 2,
	};

	return gpumap_mask_publish(map, &request, NULL);
}

static inline int take_mask(void)
{
	return gpumap_mask_release(map, "k");
}

static inline bool is_mask(void)
{
	struct gpumap_mask_info info = { .size = sizeof(info) };

	return gpumap_mask_read(map, "k", &info, NULL, 0) == 0 &&
	       info.bytes == 24;
}

static inline int publish_map(void)
{
	struct gpumap_plan_request request = { .size = sizeof(request),
					       .name = "m",
					       .flags = GPUMAP_PLAN_COMMIT,
					       .setting = GPUMAP_SETTING_MANUAL,
					       .text = "0:3;1:2",
					       .other_bytes = 4096 };
	struct gpumap_plan plan = { .size = sizeof(plan) };

	return gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0);
}

static inline int take_map(void)
{
	return gpumap_layers_release(map, "m");
}

static inline bool is_map(void)
{
	return says("m", "0:3;1:2");
}

static inline int set_cordon(bool undo)
{
	const struct gm_cordon ask = { .row = 1, .undo = undo };
	char path[128];
	struct raw c;
	int ret;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	ret = raw_open(&c, path);
	if (ret == 0)
		ret = raw_ask(&c, GM_CONTROL_CORDON, &ask, sizeof(ask), NULL, 0,
			      NULL);
	raw_close(&c);
	return ret;
}

static inline int cordon(void)
{
	return set_cordon(false);
}

static inline int uncordon(void)
{
	return set_cordon(true);
}

static inline bool is_cordoned(void)
{
	struct gpumap_device device = { .size = sizeof(device) };

	return gpumap_device_read(map, 1, &device) == 0 &&
	       (device.flags & GPUMAP_DEVICE_CORDONED);
}

static inline int set_least(uint64_t least)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };
	int ret = gpumap_policy_read(map, 1, &policy);

	memset(policy.least, 0, sizeof(policy.least));
	policy.least[GPUMAP_WORK_COPY] = least;
	return ret == 0 ? gpumap_policy_set(map, &policy) : ret;
}

static inline int calibrate(void)
{
	return set_least(4321);
}

static inline int reset(void)
{
	return set_least(0);
}

static inline bool is_calibrated(void)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };

	return gpumap_policy_read(map, 1, &policy) == 0 &&
	       policy.least[GPUMAP_WORK_COPY] == 4321;
}

struct state_object {
	const char *file;
	int (*publish)(void);
	int (*take)(void);
	bool (*is_there)(void);
};

static const struct state_object state_objects[] = {
	{ "m.layers", publish_map, take_map, is_map },
	{ "s.mesh", publish_mesh, take_mesh, is_mesh },
	{ "k.mask", publish_mask, take_mask, is_mask },
	{ "cordons", cordon, uncordon, is_cordoned },
	{ "calibrations", calibrate, reset, is_calibrated },
};

#define STATE_OBJECTS (sizeof(state_objects) / sizeof(state_objects[0]))
#define STATE_SINGLES 3u /* from there on, in one file for all rows */

#endif
