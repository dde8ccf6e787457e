/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/heads.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* Heads that ranks cannot divide. */
struct odd {
	uint32_t n;
	const char *of;
};

/* The first of them; n is 0 where there are none. */
static struct odd find_odd(const struct gpumap_plan_request *ask,
			   uint32_t n_ranks)
{
	if (ask->n_heads % n_ranks != 0)
		return (struct odd){ ask->n_heads, "attention heads" };
	for (uint32_t i = 0; i < ask->n_caches; i++) {
		const struct gpumap_layer_cache *c = &ask->caches[i];
		uint32_t n = c->n_heads;

		/* One is whole on each rank, and 0 are not known. */
		if (n <= 1 || n % n_ranks == 0)
			continue;
		if (c->token_elements == 0)
			return (struct odd){ n, "heads of a recurrence" };
		if (n_ranks % n != 0)
			return (struct odd){ n, "heads of keys and values" };
	}
	return (struct odd){ .n = 0 };
}

int gm_heads_check(const struct gpumap_plan_request *ask, uint32_t n_ranks,
		   struct gm_plan_error *ret_err)
{
	struct odd odd = find_odd(ask, n_ranks);
	char counts[96] = "take 1";
	int n = 6;

	if (odd.n == 0 || ret_err == NULL)
		return odd.n == 0 ? 0 : -EINVAL;
	for (uint32_t i = 2; i < n_ranks && i <= 1024; i *= 2)
		if (find_odd(ask, i).n == 0)
			n += snprintf(counts + n, sizeof(counts) - (size_t)n,
				      " or %" PRIu32, i);
	return gm_error_set(ret_err, -EINVAL, counts,
			    "The model's %" PRIu32 " %s are not to be divided "
			    "by %" PRIu32 " tensor parallel ranks",
			    odd.n, odd.of, n_ranks);
}
