/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/pauses.h"

void gm_pauses_tick(struct gm_pauses *pauses, uint64_t now_ns,
		    uint64_t period_ns)
{
	uint64_t due_ns = pauses->tick_ns + period_ns;
	uint32_t at = pauses->next % GM_PAUSES;

	if (pauses->tick_ns != 0 && now_ns > due_ns + period_ns / 2) {
		pauses->of[at].end_ns = now_ns;
		pauses->of[at].ns = now_ns - due_ns;
		pauses->next++;
	}
	pauses->tick_ns = now_ns;
}

uint64_t gm_pauses_since(const struct gm_pauses *pauses, uint64_t since_ns)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < GM_PAUSES; i++) {
		uint64_t end_ns = pauses->of[i].end_ns;
		uint64_t ns = pauses->of[i].ns;

		if (end_ns <= since_ns)
			continue;
		sum += ns < end_ns - since_ns ? ns : end_ns - since_ns;
	}
	return sum;
}
