/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/spin.h"

uint64_t gm_spin_begin(struct gm_doorbell_spin *spin)
{
	uint64_t budget = 2 * spin->average_ns;

	if (spin->periods++ % GM_SPIN_LEARN == 0)
		return GM_SPIN_CAP_NS;
	if (spin->misses >= GM_SPIN_MISSES)
		return 0;
	if (spin->average_ns == 0)
		return GM_SPIN_CAP_NS;
	if (budget < GM_SPIN_FLOOR_NS)
		return GM_SPIN_FLOOR_NS;
	return budget < GM_SPIN_CAP_NS ? budget : GM_SPIN_CAP_NS;
}

void gm_spin_hit(struct gm_doorbell_spin *spin, uint64_t gap_ns)
{
	if (gap_ns > GM_SPIN_CAP_NS)
		gap_ns = GM_SPIN_CAP_NS;
	/* The average from before the misses is out of date. */
	if (spin->misses >= GM_SPIN_MISSES || spin->average_ns == 0)
		spin->average_ns = gap_ns;
	else
		spin->average_ns = (7 * spin->average_ns + gap_ns) / 8;
	if (spin->average_ns == 0)
		spin->average_ns = 1; /* 0 stands for nothing learned yet */
	spin->misses = 0;
}

void gm_spin_miss(struct gm_doorbell_spin *spin)
{
	if (spin->misses < GM_SPIN_MISSES)
		spin->misses++;
}

bool gm_spin_enter(struct gm_group_page *group_page, uint32_t row)
{
	uint32_t limit = gm_get(&group_page->spin_limit), n = 0;

	if (limit == 0)
		return false;
	gm_put_ordered(&group_page->spinning[row], 1); /* SPIN.count */
	for (uint32_t i = 0; i < GM_ROWS; i++)
		n += gm_get_ordered(&group_page->spinning[i]) !=
		     0; /* SPIN.count */
	if (n <= limit)
		return true;
	gm_spin_leave(group_page, row);
	return false;
}

void gm_spin_leave(struct gm_group_page *group_page, uint32_t row)
{
	gm_put(&group_page->spinning[row], 0);
}
