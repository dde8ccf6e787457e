/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "agent/plan/checked.h"

#define MIB         (UINT64_C(1) << 20)
#define STATE_BYTES 4u /* of an element of a recurrence */

static int overflow(struct gm_plan_error *err)
{
	return gm_error_set(err, -EOVERFLOW,
			    "lower max_seq_len or max_batch_size",
			    "The KV cache comes to 2^64 bytes or more");
}

/* One rank's part of @elements, which are those of @n_heads heads. */
static uint64_t part(uint64_t elements, uint64_t n_heads, uint64_t n_ranks)
{
	if (n_ranks <= 1 || n_heads <= 1)
		return elements;
	return elements / n_heads * gm_part(n_heads, n_ranks) +
	       elements % n_heads;
}

/* How sequences are kept. */
struct pool {
	uint64_t tokens; /* of all sequences of the batch */
	uint32_t element_bytes;
	bool has_windows; /* a layer keeps no more than its window */
};

/* The bytes of one layer, with the states of the batch. */
static uint64_t layer_bytes(bool *over, const struct gm_cache_request *q,
			    const struct gpumap_layer_cache *layer,
			    const struct pool *pool)
{
	uint64_t keys = part(layer->token_elements, layer->n_heads, q->n_ranks);
	uint64_t conv = part(layer->conv_elements, layer->n_heads, q->n_ranks);
	uint64_t state =
		part(layer->state_elements, layer->n_heads, q->n_ranks);
	uint64_t tokens = pool->tokens;

	if (layer->n_heads == 0)
		return 0;
	if (layer->window > 0 && pool->has_windows)
		tokens = gm_min(tokens, gm_checked_mul(over, layer->window,
						       q->max_batch_size));
	keys = GM_CHECKED_PRODUCT(over, keys, tokens, pool->element_bytes);
	conv = GM_CHECKED_PRODUCT(over, conv, q->dtype_bytes,
				  q->max_batch_size);
	state = GM_CHECKED_PRODUCT(over, state, STATE_BYTES, q->max_batch_size);
	return gm_checked_add(over, keys, gm_checked_add(over, conv, state));
}

/* Does a layer keep all tokens?  Else nothing would fill a pool: its blocks are
 * of all layers alike, whatever their windows. */
static bool is_endless(const struct gm_cache_request *q)
{
	uint32_t i = 0;

	while (i < q->n_caches &&
	       (q->caches[i].window > 0 || q->caches[i].token_elements == 0))
		i++;
	return i < q->n_caches;
}

/* Store the sums of @n layers of @bytes each, after the first of @sums. */
static uint64_t *put(uint64_t *sums, uint32_t n, uint64_t bytes)
{
	uint64_t sum = *sums;

	for (uint32_t i = 1; i <= n; i++)
		sums[i] = sum += bytes;
	return sums + n;
}

/* Returns the bytes of all layers; @ret_sums may be NULL. */
static uint64_t sum_up(bool *over, const struct gm_cache_request *q,
		       const struct pool *pool, uint64_t *ret_sums)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < q->n_caches; i++) {
		uint32_t n = q->caches[i].n_layers;
		uint64_t bytes = layer_bytes(over, q, &q->caches[i], pool);

		if (ret_sums)
			ret_sums = put(ret_sums, n, bytes);
		all = gm_checked_add(over, all, gm_checked_mul(over, bytes, n));
	}
	return all;
}

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
	struct pool pool = { .element_bytes = q->paged.cache_bytes
						      ? q->paged.cache_bytes
						      : q->dtype_bytes,
			     .has_windows = is_endless(q) };
	uint64_t size = q->paged.block_size, low = 0, most = budget(q, room);
	uint64_t high;
	bool over = false;
	int r = gm_kv_check_block(size, err);

	if (r)
		return r;
	high = most / size; /* blocks: a token has a byte at least */
	if (q->paged.budget == GPUMAP_PAGED_TOKENS)
		low = high =
			q->paged.amount / size + (q->paged.amount % size != 0);
	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		pool.tokens = middle * size;
		if (sum_up(&over, q, &pool, NULL) > most || over)
			high = middle - 1;
		else
			low = middle;
		over = false;
	}
	if (low == 0)
		return no_block(q, err);
	pool.tokens = gm_checked_mul(&over, low, size);
	sum_up(&over, q, &pool, ret_sums);
	return over ? overflow(err) : 0;
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
	shape.n_heads = part(shape.n_heads, shape.n_heads, q->n_ranks);
	r = room == NULL
		    ? gm_kv_unpaged(&shape, q->max_seq_len, q->max_batch_size,
				    q->dtype_bytes, &bytes, err)
		    : gm_kv_paged_bytes(&shape, &q->paged, room, q->dtype_bytes,
					&bytes, err);
	for (uint32_t i = 0; r == 0 && i < q->n_layers; i++)
		ret_sums[i + 1] = gm_checked_add(&over, ret_sums[i], bytes);
	return over ? overflow(err) : r;
}

int gm_cache_sums(const struct gm_cache_request *q,
		  const struct gm_kv_room *room, uint64_t *ret_sums,
		  struct gm_plan_error *ret_err)
{
	struct pool unpaged = { .element_bytes = q->dtype_bytes,
				.has_windows = true };
	bool over = false;

	ret_sums[0] = 0;
	if (q->like != NULL)
		return like_mistralrs(q, room, ret_sums, ret_err);
	if (q->n_caches == 0)
		memset(ret_sums, 0, (q->n_layers + 1) * sizeof(*ret_sums));
	else if (room != NULL)
		return sum_paged(q, room, ret_sums, ret_err);
	unpaged.tokens =
		gm_checked_mul(&over, q->max_seq_len, q->max_batch_size);
	sum_up(&over, q, &unpaged, ret_sums);
	return over ? overflow(ret_err) : 0;
}
