/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* cache: the bytes that layers keep, in sequences and in pools. */

#include <errno.h>

#include "gpumap/plan.h"
#include "lib/model/plan/cache.h"
#include "tests/support/tap.h"

#define MIB (UINT64_C(1) << 20)

/* 8 heads of keys and values of 32 elements; a window; a latent; a state. */
static const struct gpumap_layer_cache caches[] = {
	{ .n_layers = 1, .n_heads = 8, .token_elements = 512 },
	{ .n_layers = 1, .n_heads = 8, .token_elements = 512, .window = 100 },
	{ .n_layers = 1, .n_heads = 1, .token_elements = 576 },
	{ .n_layers = 1,
	  .n_heads = 4,
	  .conv_elements = 40,
	  .state_elements = 1000 },
	{ .n_layers = 1, .n_heads = 0, .token_elements = 7 }, /* not known */
};

#define LAYERS (sizeof(caches) / sizeof(caches[0]))

static struct gm_cache_request request(void)
{
	return (struct gm_cache_request){
		.caches = caches,
		.n_caches = LAYERS,
		.n_layers = LAYERS,
		.dtype_bytes = 2,
		.max_seq_len = 1024,
		.max_batch_size = 3,
		.paged = { .block_size = 16 },
	};
}

/* The bytes of each layer, or why there are none. */
static const char *show(const struct gm_cache_request *q,
			const struct gm_kv_room *room)
{
	static struct gm_plan_error err;
	static char text[256];
	uint64_t sums[LAYERS + 1];
	char *to = text;

	if (gm_cache_sums(q, room, sums, &err) != 0)
		return err.text;
	EQ(sums[0], 0);
	for (uint32_t i = 0; i < q->n_layers; i++)
		to += sprintf(to, "%s%llu", i > 0 ? " " : "",
			      (unsigned long long)(sums[i + 1] - sums[i]));
	return text;
}

static void each_layer_is_charged_for_what_it_keeps(void)
{
	struct gm_cache_request q = request();

	/* 3 * 1024 * 512 * 2; 100 tokens; 576; 3 * (40 * 2 + 1000 * 4) */
	STR(show(&q, NULL), "3145728 307200 3538944 12240 0");
	/* Less than the window. */
	q.max_seq_len = 50;
	STR(show(&q, NULL), "153600 153600 172800 12240 0");
	/* Whole heads, and the latent whole. */
	q.n_ranks = 3;
	STR(show(&q, NULL), "57600 57600 172800 6120 0");
	q.n_ranks = 16;
	STR(show(&q, NULL), "19200 19200 172800 3060 0");
	q = request();
	q.n_caches = 0;
	STR(show(&q, NULL), "0 0 0 0 0");
	q = request();
	q.max_seq_len = UINT64_MAX / 8;
	STR(show(&q, NULL), "The KV cache comes to 2^64 bytes or more");
}

static uint64_t pool_of(const struct gm_cache_request *q,
			const struct gm_kv_room *room, int want)
{
	struct gm_plan_error err;
	uint64_t sums[LAYERS + 1] = { 0 };

	EQ(gm_cache_sums(q, room, sums, &err), want);
	return want == 0 ? sums[q->n_layers] : 0;
}

static void a_pool_is_as_large_as_it_was_asked_for(void)
{
	const struct gm_kv_room room = { .capacity = 100 * MIB,
					 .model_bytes = 20 * MIB,
					 .act_bytes = 10 * MIB };
	const uint64_t block = 16 * (512 + 576) * 2; /* of the endless ones */
	struct gm_cache_request q = request();
	uint64_t bytes;

	q.paged.budget = GPUMAP_PAGED_MIB;
	q.paged.amount = 64;
	bytes = pool_of(&q, &room, 0);
	OK(bytes <= 64 * MIB && bytes > 64 * MIB - block);
	/* An 8-bit cache of the same size has twice the tokens. */
	q.paged.cache_bytes = 1;
	bytes = pool_of(&q, &room, 0);
	OK(bytes <= 64 * MIB && bytes > 64 * MIB - block / 2);
	/* A layer with a window keeps it for each sequence, and no more. */
	STR(show(&q, &room), "31498240 153600 35435520 12240 0");
	q = request();
	q.paged.budget = GPUMAP_PAGED_SHARE;
	q.paged.share = 0.5f;
	bytes = pool_of(&q, &room, 0);
	OK(bytes <= 20 * MIB && bytes > 20 * MIB - block);
	/* 33 tokens are three blocks. */
	q.paged.budget = GPUMAP_PAGED_TOKENS;
	q.paged.amount = 33;
	STR(show(&q, &room), "49152 49152 55296 12240 0");
	q.paged.budget = GPUMAP_PAGED_MIB;
	q.paged.amount = 0;
	pool_of(&q, &room, -ENOSPC);
	q.paged.amount = UINT64_MAX;
	OK(pool_of(&q, &room, 0) > UINT64_MAX / 2);
	/* A layer with a window fills a pool where no other does. */
	q.caches = &caches[1];
	q.n_caches = q.n_layers = 1;
	q.paged.amount = 64;
	EQ(pool_of(&q, &room, 0), 64 * MIB);
	q.paged.block_size = 12;
	pool_of(&q, &room, -EINVAL);
	q.paged.block_size = 0;
	pool_of(&q, &room, -EINVAL);
	q = request();
	q.paged.budget = GPUMAP_PAGED_TOKENS;
	q.paged.amount = UINT64_MAX;
	pool_of(&q, &room, -EOVERFLOW);
}

/* As if each layer were said alone. */
static void equal_neighbours_are_one(void)
{
	const struct gpumap_layer_cache both[] = {
		{ .n_layers = 3, .n_heads = 8, .token_elements = 512 },
		{ .n_layers = 2, .n_heads = 4, .conv_elements = 40 },
	};
	struct gm_cache_request q = request();

	q.caches = both;
	q.n_caches = 2;
	STR(show(&q, NULL), "3145728 3145728 3145728 240 240");
	q.paged.budget = GPUMAP_PAGED_TOKENS;
	q.paged.amount = 32;
	STR(show(&q, &(struct gm_kv_room){ .capacity = MIB }),
	    "32768 32768 32768 240 240");
	/* 3 * 2^63 */
	q.max_seq_len = UINT64_C(1) << 53;
	q.max_batch_size = 1;
	STR(show(&q, NULL), "The KV cache comes to 2^64 bytes or more");
}

static void mistralrs_charges_every_layer_the_same(void)
{
	static const struct gm_kv_shape shape = { .n_heads = 7,
						  .k_dim = 32,
						  .v_dim = 16 };
	struct gm_cache_request q = request();

	q.like = &shape;
	STR(show(&q, NULL), "2064384 2064384 2064384 2064384 2064384");
	q.n_ranks = 2;
	STR(show(&q, NULL), "1179648 1179648 1179648 1179648 1179648");
}

TAP_CASE()
{
	each_layer_is_charged_for_what_it_keeps();
	a_pool_is_as_large_as_it_was_asked_for();
	equal_neighbours_are_one();
	mistralrs_charges_every_layer_the_same();
	return tap_done();
}
