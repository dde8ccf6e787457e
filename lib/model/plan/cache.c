/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "lib/model/plan/checked.h"
#include "lib/model/plan/rule.h"

#define MIB (UINT64_C(1) << 20)

static int no_block(const struct gm_cache_request *q, struct gm_plan_error *err)
{
	return gm_error_set(
		err, -ENOSPC, "ask for more, or for a cache without pages",
		"The paged KV cache has no room for a block of %" PRIu64
		" tokens%s",
		q->paged.block_size,
		q->paged.budget == GPUMAP_PAGED_SHARE
			? ": a share of the first row's memory counts what the "
			  "weights of the whole model leave of it; give the "
			  "cache's MiB or tokens instead"
			: "; ask for more, or for a cache without pages");
}

/* The bytes of the pool; with TOKENS that of so many. */
static uint64_t budget(const struct gm_cache_request *q,
		       const struct gm_kv_room *room)
{
	bool over = false;
	uint64_t bytes;

	if (q->paged.budget == GPUMAP_PAGED_SHARE)
		return gm_minus(gm_kv_share(room->capacity, q->paged.share),
				gm_checked_add(&over, room->model_bytes,
					       room->act_bytes));
	bytes = gm_checked_mul(&over, q->paged.amount, MIB);
	return over ? UINT64_MAX : bytes;
}

static int sum_paged(const struct gm_cache_request *q,
		     const struct gm_kv_room *room, uint64_t *ret_sums,
		     struct gm_plan_error *err)
{
	uint64_t size = q->paged.block_size, low = 0, most = budget(q, room);
	uint64_t high;
	struct gm_rule_kinds kinds;
	bool over = false;
	int r = gm_kv_check_block(size, err);

	if (r)
		return r;
	gm_rule_find(&over, q, true, &kinds);
	if (over)
		return gm_error_large_cache(err);
	high = most / size; /* blocks: a token has a byte at least */
	if (q->paged.budget == GPUMAP_PAGED_TOKENS)
		low = high =
			q->paged.amount / size + (q->paged.amount % size != 0);
	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		kinds.pool = middle * size;
		if (gm_rule_sum(&over, &kinds, NULL) > most || over)
			high = middle - 1;
		else
			low = middle;
		over = false;
	}
	if (low == 0)
		return no_block(q, err);
	kinds.pool = gm_checked_mul(&over, low, size);
	gm_rule_sum(&over, &kinds, ret_sums);
	return over ? gm_error_large_cache(err) : 0;
}

static int like_mistralrs(const struct gm_cache_request *q,
			  const struct gm_kv_room *room, uint64_t *ret_sums,
			  struct gm_plan_error *err)
{
	struct gm_kv_shape shape = *q->like;
	bool over = false;
	uint64_t bytes;
	int r;

	shape.n_layers = q->n_layers;
	shape.n_heads = gm_part(shape.n_heads, q->n_ranks);
	r = room == NULL
		    ? gm_kv_unpaged(&shape, q->max_seq_len, q->max_batch_size,
				    q->dtype_bytes, &bytes, err)
		    : gm_kv_paged_bytes(&shape, &q->paged, room, q->dtype_bytes,
					&bytes, err);
	for (uint32_t i = 0; r == 0 && i < q->n_layers; i++)
		ret_sums[i + 1] = gm_checked_add(&over, ret_sums[i], bytes);
	return over ? gm_error_large_cache(err) : r;
}

struct gm_cache_request gm_cache_of(const struct gpumap_plan_request *ask)
{
	return (struct gm_cache_request){
		.caches = ask->caches,
		.n_caches = ask->n_layers > 0 ? ask->n_caches : 0,
		.engine = ask->engine,
		.conv_taps = ask->conv_taps,
		.state_bytes = ask->state_bytes,
		.max_seq_len =
			ask->max_seq_len ? ask->max_seq_len : GM_PLAN_SEQ_LEN,
		.max_batch_size = ask->max_batch_size ? ask->max_batch_size
						      : GM_PLAN_BATCH_SIZE,
		.paged = { .budget = ask->paged,
			   .amount = ask->paged_amount,
			   .share = ask->paged_share,
			   .block_size = ask->paged_block ? ask->paged_block
							  : GM_KV_BLOCK,
			   .cache_bytes = ask->paged_element_bytes },
	};
}

int gm_cache_sums(const struct gm_cache_request *q,
		  const struct gm_kv_room *room, uint64_t *ret_sums,
		  struct gm_plan_error *ret_err)
{
	struct gm_rule_kinds kinds;
	bool over = false;

	ret_sums[0] = 0;
	if (q->like != NULL)
		return like_mistralrs(q, room, ret_sums, ret_err);
	if (q->n_caches == 0) {
		memset(ret_sums, 0, (q->n_layers + 1) * sizeof(*ret_sums));
		return 0;
	}
	if (room != NULL)
		return sum_paged(q, room, ret_sums, ret_err);
	gm_rule_find(&over, q, false, &kinds);
	if (!over)
		gm_rule_sum(&over, &kinds, ret_sums);
	return over ? gm_error_large_cache(ret_err) : 0;
}
