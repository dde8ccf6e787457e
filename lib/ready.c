/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Wait until the agent serves, and until its rows do. */

#include "lib/internal.h"

#include <errno.h>

#include "shm/rows.h"

bool gm_ready_is_awaited(const struct gm_row_image *facts,
			 const struct gm_moving_image *moving)
{
	return (facts->flags & GPUMAP_DEVICE_SERVES) != 0 &&
	       (facts->flags & GPUMAP_DEVICE_CORDONED) == 0 &&
	       (moving->state == GPUMAP_DEVICE_PROBING ||
		moving->state == GPUMAP_DEVICE_RESTARTING);
}

int gm_ready_refuse(const struct gpumap *map, int error, uint32_t row)
{
	return gm_refuse(map, error,
			 "the worker of row %u is still being started: "
			 "gpumap_wait_ready() waits for it, and gpumapctl "
			 "devices says more",
			 row);
}

/* Does any row of the table have a worker that is being started? */
static bool any_row_starts(const struct gpumap *map, uint32_t *ret_row)
{
	uint32_t n = gm_rows_used(&map->map);

	for (uint32_t row = 0; row < n; row++) {
		struct gm_moving_image moving;
		struct gm_row_image facts;

		if (gm_rows_facts(&map->map, row, &facts) != 0 ||
		    gm_rows_moving(&map->map, row, &moving) != 0 ||
		    !gm_ready_is_awaited(&facts, &moving))
			continue;
		*ret_row = row;
		return true;
	}
	return false;
}

/* Returns 0 when the agent and its rows serve; -ETIME when they do not yet; or
 * an error.  The reason is stored. */
static int look(struct gpumap *map)
{
	struct gpumap_health health = { .size = sizeof(health) };
	uint32_t row;
	int ret = gpumap_session_list(map, NULL, 0);

	if (ret < 0)
		return ret;
	gpumap_health(map, &health);
	if (health.state == GPUMAP_RETIRED)
		return gm_refuse(map, -ESTALE,
				 "this map was retired: attach again");
	if (health.stale || health.state != GPUMAP_READY)
		return gm_refuse(map, -ETIME,
				 "the agent answers, and its map is not READY");
	if (any_row_starts(map, &row))
		return gm_ready_refuse(map, -ETIME, row);
	return 0;
}

int gpumap_wait_ready(struct gpumap *map, uint64_t deadline_ns)
{
	for (;;) {
		uint32_t seen = gpumap_generation(map);
		int ret = look(map);
		uint64_t now = gm_now_ns(), nap = GM_NAP_NS;

		/* An agent that has gone, or is about to go, may have a
		 * successor, which answers. */
		if ((ret != -ETIME && ret != -ECONNREFUSED &&
		     ret != -ECONNRESET && ret != -ESHUTDOWN) ||
		    now >= deadline_ns)
			return ret;
		if (deadline_ns - now < nap)
			nap = deadline_ns - now;
		gm_health_sleep(map, seen, nap);
	}
}
