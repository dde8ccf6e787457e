/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/kv.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "lib/model/plan/checked.h"

#define MIB (UINT64_C(1) << 20)

int gm_kv_unpaged(const struct gm_kv_shape *shape, uint64_t max_seq_len,
		  uint64_t max_batch_size, uint32_t dtype_bytes,
		  uint64_t *ret_bytes, struct gm_plan_error *ret_err)
{
	bool over = false;
	uint64_t keys, values, bytes;

	keys = GM_CHECKED_PRODUCT(&over, max_batch_size, shape->n_heads,
				  max_seq_len, shape->k_dim);
	values = GM_CHECKED_PRODUCT(&over, max_batch_size, shape->n_heads,
				    max_seq_len, shape->v_dim);
	bytes = gm_checked_mul(&over, gm_checked_add(&over, keys, values),
			       dtype_bytes);
	if (over)
		return gm_error_large_cache(ret_err);
	*ret_bytes = bytes;
	return 0;
}

static uint64_t elems_per_token(bool *over, const struct gm_kv_shape *shape)
{
	if (shape->is_mla)
		return gm_checked_add(over, shape->kv_lora_rank,
				      shape->kpe_head_dim);
	return GM_CHECKED_PRODUCT(over, 2, shape->n_heads,
				  gm_max(shape->k_dim, shape->v_dim));
}

uint64_t gm_kv_share(uint64_t capacity, float share)
{
	return gm_whole((double)capacity * (double)share);
}

static uint64_t budget_mib(bool *over, const struct gm_kv_shape *shape,
			   const struct gm_kv_paged *paged,
			   const struct gm_kv_room *room, uint32_t cache_bytes)
{
	uint64_t free_bytes = gm_minus(room->capacity, room->act_bytes);

	switch (paged->budget) {
	case GPUMAP_PAGED_MIB:
		return gm_min(paged->amount, free_bytes / MIB);
	case GPUMAP_PAGED_SHARE:
		return gm_minus(gm_kv_share(room->capacity, paged->share),
				gm_checked_add(over, room->model_bytes,
					       room->act_bytes)) /
		       MIB;
	case GPUMAP_PAGED_TOKENS:
		return GM_CHECKED_PRODUCT(over, paged->amount, cache_bytes,
					  shape->n_layers,
					  elems_per_token(over, shape)) /
		       MIB;
	}
	return 0;
}

int gm_kv_check_block(uint64_t block_size, struct gm_plan_error *ret_err)
{
	if (block_size == 8 || block_size == 16 || block_size == 32)
		return 0;
	return gm_error_set(ret_err, -EINVAL, "leave the block size out",
			    "Block size must be in [8, 16, 32], got %" PRIu64,
			    block_size);
}

static int check_paged(const struct gm_kv_shape *shape, uint64_t block_size,
		       uint64_t elems, struct gm_plan_error *err)
{
	int r = gm_kv_check_block(block_size, err);

	if (r)
		return r;
	if (shape->n_layers == 0 || elems == 0)
		return gm_error_set(
			err, -EINVAL, "correct the request",
			"%s must be at least 1",
			shape->n_layers == 0
				? "num_layers"
				: "The KV cache's elements per token");
	return 0;
}

int gm_kv_paged_bytes(const struct gm_kv_shape *shape,
		      const struct gm_kv_paged *paged,
		      const struct gm_kv_room *room, uint32_t dtype_bytes,
		      uint64_t *ret_bytes, struct gm_plan_error *ret_err)
{
	uint32_t cache_bytes =
		paged->cache_bytes ? paged->cache_bytes : dtype_bytes;
	uint64_t block_size = paged->block_size;
	uint64_t x = 16 / dtype_bytes; /* elements in a vector of the kernels */
	uint64_t blocks, keys, values, bytes, elems;
	bool over = false;
	int r;

	elems = elems_per_token(&over, shape);
	if (over)
		return gm_error_large_cache(ret_err);
	r = check_paged(shape, block_size, elems, ret_err);
	if (r)
		return r;
	blocks = gm_checked_mul(
		&over, budget_mib(&over, shape, paged, room, cache_bytes), MIB);
	blocks = blocks / cache_bytes / block_size / shape->n_layers / elems;
	if (!over && blocks == 0)
		return gm_error_set(
			ret_err, -ENOSPC, "plan without paged attention",
			"Num GPU blocks is 0. This means there is not enough "
			"memory. Either reduce the memory "
			"amount/utilization/context size or disable "
			"PagedAttention.");
	keys = GM_CHECKED_PRODUCT(&over, blocks, shape->n_heads,
				  shape->k_dim / x, block_size, x);
	values = GM_CHECKED_PRODUCT(&over, blocks, shape->n_heads, shape->v_dim,
				    block_size);
	bytes = gm_checked_mul(&over, gm_checked_add(&over, keys, values),
			       dtype_bytes);
	if (over)
		return gm_error_large_cache(ret_err);
	*ret_bytes = bytes;
	return 0;
}
