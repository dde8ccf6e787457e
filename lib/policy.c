/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The least sizes of work of which a row is worth it. */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

#include "shm/rows.h"

_Static_assert(GPUMAP_WORKS_MAX == GM_WORKS, "one row");
_Static_assert(GPUMAP_WORKS <= GPUMAP_WORKS_MAX, "kinds fit");

int gpumap_policy_view(const struct gpumap *map, uint32_t row,
		       struct gpumap_policy_view *ret_view)
{
	if (row >= gm_rows_used(&map->map))
		return -ENODEV;
	*ret_view = (struct gpumap_policy_view){
		.least = (const uint64_t *)(const void *)map->map.rows[row]
				 .least,
		.row = row,
	};
	return 0;
}

int gpumap_policy_read(const struct gpumap *map, uint32_t row,
		       struct gpumap_policy *ret_policy)
{
	struct gpumap_policy policy = { .row = row };
	struct gm_row_image facts;
	const struct gm_row *slot;
	int ret = gm_size_out(ret_policy,
			      offsetof(struct gpumap_policy, calibrated_ns));

	if (ret == 0)
		ret = gm_rows_facts(&map->map, row, &facts);
	if (ret != 0)
		return ret;
	slot = &map->map.rows[row];
	policy.generation = facts.generation;
	policy.calibrated_ns = gm_get(&slot->calibrated);
	for (uint32_t i = 0; i < GPUMAP_WORKS; i++)
		policy.least[i] = gm_get(&slot->least[i]);
	gm_size_put(ret_policy, &policy, sizeof(policy));
	return 0;
}

int gpumap_policy_set(struct gpumap *map, const struct gpumap_policy *policy)
{
	struct gpumap_policy ours;
	struct gm_calibrate body = { .row = 0 };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_CALIBRATE, body) };
	int ret = gm_map_begin(map);

	if (ret == 0)
		ret = gm_map_size_in(map, &ours, sizeof(ours), policy);
	if (ret != 0)
		return ret;
	for (uint32_t i = GPUMAP_WORKS; i < GPUMAP_WORKS_MAX; i++)
		if (ours.least[i] != 0)
			return gm_refuse(map, -E2BIG,
					 "this library knows %u kinds of work",
					 GPUMAP_WORKS);
	body.row = ours.row;
	body.generation = ours.generation;
	memcpy(body.least, ours.least, sizeof(body.least));
	return gm_map_call(map, &call, 0);
}
