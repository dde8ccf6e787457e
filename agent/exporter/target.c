/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/target.h"

#include <stdbool.h>
#include <stdio.h>

static bool is_retired(const struct gpumap *map)
{
	struct gpumap_health health = { .size = sizeof(health) };

	return gpumap_health(map, &health) != 0 ||
	       health.state == GPUMAP_RETIRED;
}

struct gpumap *gm_target_map(struct gm_target *target)
{
	int ret;

	if (target->map != NULL && is_retired(target->map))
		gm_target_close(target);
	if (target->map != NULL)
		return target->map;
	ret = gpumap_attach(&target->opts, &target->map);
	if (ret != 0 && ret != target->error) {
		const char *why = gpumap_refusal(NULL);

		fprintf(stderr, "gpumap-exporter: %s\n",
			why[0] != '\0' ? why : gpumap_strerror(ret));
	}
	target->error = ret;
	return target->map;
}

void gm_target_close(struct gm_target *target)
{
	gpumap_detach(target->map);
	target->map = NULL;
}
