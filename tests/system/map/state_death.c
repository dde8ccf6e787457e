/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks maps after the agent was killed while clients publish, commit, hold
 * and release.  Acknowledged changes are there after the next start, also on a
 * new machine; only held maps end with their holders.  A change without an
 * answer is either as before or as requested, and whole.  Rows reserve exactly
 * what the committed maps charge.
 */

#include <gpumap/plan.h>

#include "tests/support/told_stories.h"

#define LAYERS 6

/* All of a map follows from one number, so a part of another map shows. */
static void spell(uint32_t content, char ret_spec[64], uint64_t bytes[LAYERS])
{
	uint32_t first = 1 + content % (LAYERS - 1);

	snprintf(ret_spec, 64, "%u:%u;%u:%u", content % 2, first,
		 1 - content % 2, LAYERS - first);
	for (uint32_t i = 0; i < LAYERS; i++)
		bytes[i] = UINT64_C(4096) * (content % 1000) + i;
}

static bool is_committed(uint32_t content)
{
	return content % 3 == 0;
}

/* Does a map of this content end with its client? */
static bool is_held(uint32_t content)
{
	return content % 6 == 0;
}

static int publish(struct gpumap *to, const char *name, uint32_t content)
{
	struct gpumap_plan plan = { .size = sizeof(plan) };
	uint64_t bytes[LAYERS];
	char spec[64];
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = spec,
						 .n_layers = LAYERS,
						 .layer_bytes = bytes,
						 .other_bytes = content };
	struct gpumap_plan_request commit = { .size = sizeof(commit),
					      .name = name,
					      .flags = GPUMAP_PLAN_COMMIT,
					      .setting = GPUMAP_SETTING_MANUAL,
					      .text = spec,
					      .n_layers = LAYERS,
					      .layer_bytes = bytes,
					      .other_bytes = content,
					      .dtype = GPUMAP_DTYPE_F16 };

	spell(content, spec, bytes);
	if (is_held(content))
		commit.flags |= GPUMAP_PLAN_HELD;
	return is_committed(content)
		       ? gpumap_plan_make(to, &commit, &plan, NULL, 0, NULL, 0)
		       : gpumap_layers_publish(to, &request);
}

/* Is the map under the name this content, and all of it? */
static bool is_content(const char *name, uint32_t content)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	uint64_t bytes[LAYERS], want[LAYERS];
	uint32_t rows[LAYERS];
	char spec[64];
	int ret = gpumap_layers_read(map, name, &layers, rows, bytes, LAYERS,
				     NULL, 0);

	if (content == NOTHING)
		return ret == -ENOENT;
	spell(content, spec, want);
	if (ret != 0 || layers.other_bytes != content ||
	    strcmp(layers.spec, spec) != 0 ||
	    memcmp(bytes, want, sizeof(want)) != 0 ||
	    ((layers.flags & GPUMAP_LAYERS_COMMITTED) != 0) !=
		    is_committed(content))
		return false;
	for (uint32_t i = 0; i < LAYERS; i++) {
		if (rows[i] != (i < 1 + content % (LAYERS - 1)
					? content % 2
					: 1 - content % 2))
			return false;
	}
	return true;
}

/* Do the charges of the committed maps add up to each row's reservation? */
static bool adds_up(void)
{
	uint64_t charged[2] = { 0, 0 };
	struct gpumap_holder who = { .size = sizeof(who) };
	uint32_t cursor = 0;

	while (gpumap_holder_next(map, &cursor, &who) == 1) {
		struct gpumap_layers layers = { .size = sizeof(layers) };
		struct gpumap_charge charges[2];

		if (gpumap_layers_read(map, who.name, &layers, NULL, NULL, 0,
				       charges, 2) != 0)
			return false;
		for (uint32_t i = 0; i < layers.n_rows; i++)
			charged[charges[i].row] += charges[i].weight_bytes +
						   charges[i].kv_bytes +
						   charges[i].activation_bytes +
						   charges[i].reserve_bytes;
	}
	return story_device(map, 0).reserved_bytes == charged[0] &&
	       story_device(map, 1).reserved_bytes == charged[1];
}

TAP_CASE()
{
	static const struct told_kind kind = {
		.publish = publish,
		.release = gpumap_layers_release,
		.is_content = is_content,
		.next = gpumap_layers_next,
		.is_held = is_held,
		.is_well = adds_up,
	};

	return told_case(&kind);
}
