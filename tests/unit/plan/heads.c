/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* heads: among how many ranks those of a model can be divided. */

#include <errno.h>

#include "lib/model/plan/heads.h"
#include "tests/support/tap.h"

#define NO(what, n)                                         \
	"The model's " what " are not to be divided by " #n \
	" tensor parallel ranks"

static const struct row {
	uint32_t n_heads;
	uint32_t keys;  /* heads of layer 0 */
	uint32_t state; /* of layer 1, a recurrence */
	uint32_t n_ranks;
	const char *text, *remedy; /* NULL: they can be divided */
} rows[] = {
	{ 32, 8, 0, 1, NULL, NULL },
	{ 32, 8, 0, 8, NULL, NULL },
	/* Two ranks have the same head. */
	{ 32, 8, 0, 16, NULL, NULL },
	{ 32, 8, 0, 64, NO("32 attention heads", 64),
	  "take 1 or 2 or 4 or 8 or 16 or 32" },
	/* vLLM refuses 14 heads on 4 cards. */
	{ 14, 2, 0, 4, NO("14 attention heads", 4), "take 1 or 2" },
	{ 24, 6, 0, 4, NO("6 heads of keys and values", 4), "take 1 or 2" },
	{ 24, 6, 0, 8, NO("6 heads of keys and values", 8), "take 1 or 2" },
	{ 24, 6, 0, 12, NULL, NULL },
	{ 24, 6, 0, 3, NULL, NULL },
	/* A latent is whole on each, and heads may not be known. */
	{ 128, 1, 0, 8, NULL, NULL },
	{ 0, 0, 0, 8, NULL, NULL },
	/* Those of a recurrence are not shared. */
	{ 32, 8, 24, 8, NULL, NULL },
	{ 32, 8, 24, 16, NO("24 heads of a recurrence", 16),
	  "take 1 or 2 or 4 or 8" },
	{ 32, 8, 1, 16, NULL, NULL },
};

static void heads_are_whole_on_each_rank(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		const struct gpumap_layer_cache caches[] = {
			{ .n_layers = 1,
			  .n_heads = row->keys,
			  .token_elements = 128 },
			{ .n_layers = 1,
			  .n_heads = row->state,
			  .state_elements = 1024 },
		};
		struct gpumap_plan_request ask = { .n_heads = row->n_heads,
						   .n_layers = 2,
						   .caches = caches,
						   .n_caches = 2 };
		struct gm_plan_error err = { .code = 0 };

		EQ(gm_heads_check(&ask, row->n_ranks, &err),
		   row->text != NULL ? -EINVAL : 0);
		EQ(gm_heads_check(&ask, row->n_ranks, NULL), err.code);
		STR(err.text, row->text != NULL ? row->text : "");
		STR(err.remedy, row->remedy != NULL ? row->remedy : "");
		/* Without caches the heads of attention decide alone. */
		ask.n_caches = 0;
		EQ(gm_heads_check(&ask, row->n_ranks, NULL),
		   row->n_heads % row->n_ranks != 0 ? -EINVAL : 0);
	}
}

TAP_CASE()
{
	heads_are_whole_on_each_rank();
	return tap_done();
}
