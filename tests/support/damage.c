/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/damage.h"

gm_a64 *damage_word(const struct agent_map *m, uint32_t kind, size_t at)
{
	uint64_t key = gm_object_key(
		kind, kind == GM_KIND_CLUSTER ? GM_CLUSTER_OBJECT : "m");
	uint32_t i = 0, unit;

	while (gm_get(&m->map.objects[i].key) != key)
		i++;
	unit = gm_seq_unit(gm_get(&m->map.objects[i].slot));
	return (gm_a64 *)(void *)(m->map.base + (uint64_t)unit * GM_UNIT) + at;
}

void damage_set(const struct agent_map *m, uint32_t kind, size_t at,
		uint32_t value)
{
	gm_a64 *to = damage_word(m, kind, at / 8);
	unsigned int shift = at / 4 % 2 * 32;
	uint64_t keep = gm_get(to) & ~(UINT64_C(0xffffffff) << shift);

	gm_put(to, keep | (uint64_t)value << shift);
}

void damage_is_noticed(const struct damaged *of, const struct damage *damage)
{
	struct gpumap *map = NULL;
	struct agent_map m;
	bool good;

	if (!of->start(&map) || !of->publish(map) ||
	    !agent_map_open(of->agent, &m)) {
		OK(!"the agent starts");
		return;
	}
	agent_kill(of->agent, SIGKILL);
	damage->do_it(&m);
	OK(of->reads_right(map, damage->is_readable));
	gpumap_detach(map);
	good = of->start(&map);
	if (!tap_check(
		    good && agent_logged(of->agent, "event=segment_retired") &&
			    agent_logged(of->agent, damage->why),
		    damage->why, __FILE__, __LINE__))
		agent_show_log(of->agent);
	EQ(agent_map_state(&m), GM_STATE_RETIRED);
	OK(good && of->is_as_published(map));
	agent_map_close(&m);
	if (good)
		gpumap_detach(map);
	agent_kill(of->agent, SIGKILL);
}
