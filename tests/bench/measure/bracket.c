/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/bench/measure/bracket.h"

#include <stdbool.h>

#include "tests/bench/measure/raw.h"

#define TOLERANCE 1.15
#define TRIES     3 /* tries for each round that is wanted */

static bool agree(double a, double b)
{
	return a <= b * TOLERANCE && b <= a * TOLERANCE;
}

int gm_bracket_run(const struct gm_bracket *bracket,
		   int (*measure)(void *arg, struct gm_round *ret_rounds),
		   void *arg, struct gm_series *ret_series)
{
	struct gm_round rounds[GM_BRACKET_SERIES] = { 0 };
	double before, after;
	uint32_t kept = 0;
	int ret;

	for (uint32_t i = 0;
	     i < TRIES * bracket->rounds && kept < bracket->rounds; i++) {
		ret = gm_raw_trip(bracket->cpu, &before);
		if (ret == 0)
			ret = measure(arg, rounds);
		if (ret >= 0) {
			int error = gm_raw_trip(bracket->cpu, &after);

			ret = error < 0 ? error : ret;
		}
		if (ret < 0)
			return ret;
		if (ret > 0 || !agree(before, after)) {
			for (uint32_t s = 0; s < bracket->n; s++)
				ret_series[s].rejected++;
			continue;
		}
		for (uint32_t s = 0; s < bracket->n; s++)
			gm_series_add(&ret_series[s], rounds[s].value,
				      rounds[s].baseline > 0
					      ? rounds[s].baseline
					      : (before + after) / 2);
		kept++;
	}
	return 0;
}
