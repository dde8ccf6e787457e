/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * kv - compute the bytes of the KV cache of one layer as mistral.rs does.
 *
 * cache.h has the rule by which plans are made.  Here every layer is charged
 * the same, for the full sequence.  Unpaged the cache grows with the longest
 * sequence and the largest batch.  Paged it is a pool of blocks, sized by an
 * amount of memory, by a share of the first device or by a number of tokens.
 * Formulas, order of divisions and texts of errors are those of mistral.rs; the
 * number of blocks of an 8-bit cache follows from its own element size, and its
 * charge from that of the activations, as there.
 */
#ifndef GM_KV_H
#define GM_KV_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap/plan.h"
#include "lib/model/plan/error.h"

#define GM_KV_BLOCK 32u   /* tokens, unless given */
#define GM_KV_CHUNK 1024u /* most queries whose scores exist at once */

struct gm_kv_shape {
	uint64_t n_layers;
	uint64_t n_heads; /* of keys and values */
	uint64_t k_dim;   /* of one head */
	uint64_t v_dim;
	bool is_mla; /* keys and values are stored compressed */
	uint64_t kv_lora_rank;
	uint64_t kpe_head_dim;
};

/*
 * gm_kv_unpaged - bytes per layer
 *
 * Returns	0, -EOVERFLOW
 * Threads	any
 */
int gm_kv_unpaged(const struct gm_kv_shape *shape, uint64_t max_seq_len,
		  uint64_t max_batch_size, uint32_t dtype_bytes,
		  uint64_t *ret_bytes, struct gm_plan_error *ret_err);

struct gm_kv_paged {
	uint32_t budget; /* enum gpumap_paged; GPUMAP_PAGED_NONE: not paged */
	uint64_t amount; /* MiB, if the first device has them; or tokens */
	float share;     /* of the first device, less the model */
	uint64_t block_size;  /* tokens: 8, 16 or 32 */
	uint32_t cache_bytes; /* per element, 0 for that of activations */
};

/* The other facts that a pool's size depends on. */
struct gm_kv_room {
	uint64_t capacity;    /* usable bytes of the first device */
	uint64_t model_bytes; /* of the whole model */
	uint64_t act_bytes;   /* largest activation */
};

/* A share of @capacity bytes, in whole bytes.  Threads: any. */
uint64_t gm_kv_share(uint64_t capacity, float share);

/* Returns 0, -EINVAL: @block_size is not 8, 16 or 32.  Threads: any. */
int gm_kv_check_block(uint64_t block_size, struct gm_plan_error *ret_err);

/*
 * gm_kv_paged_bytes - bytes per layer
 *
 * Returns	0
 *		-EINVAL	the block size is not permitted, or a divisor is 0
 *		-ENOSPC	not even one block
 *		-EOVERFLOW
 * Threads	any
 */
int gm_kv_paged_bytes(const struct gm_kv_shape *shape,
		      const struct gm_kv_paged *paged,
		      const struct gm_kv_room *room, uint32_t dtype_bytes,
		      uint64_t *ret_bytes, struct gm_plan_error *ret_err);

#endif
