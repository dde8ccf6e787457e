/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/rule.h"

#include <stddef.h>

#include "gpumap/engine.h"
#include "lib/model/plan/checked.h"

/*
 * vLLM 0.33.0, in vllm/, with its defaults:
 *	block		config/cache.py:185, platforms/interface.py:1098
 *	latent_block	platforms/interface.py:1088
 *	has_steps	v1/kv_cache_interface.py:938: window - 1 and two steps
 *			(config/vllm.py:588), of tokens by the card
 *			(engine/arg_utils.py:2973 to 3006)
 *	edge_blocks	v1/kv_cache_interface.py:944
 *	state_bytes	model_executor/layers/mamba/mamba_utils.py:106 and
 *			model_executor/models/config.py:826 and 966
 *	keeps_newest	model_executor/layers/mamba/mamba_utils.py:179
 *	states		v1/kv_cache_interface.py:1138, of which one to continue
 *			from (model_executor/layers/mamba/mamba_mixer2.py:1117);
 *			lone ones are not cached (config/model.py:2282)
 *	spare		the null block, v1/core/kv_cache_planning.py:1533
 *	equal pages	platforms/interface.py:1128, and
 *			v1/core/kv_cache_planning.py:346 and 416
 * SGLang 0.5.23, in sglang/srt/:
 *	block		arg_groups/overrides.py:1341: 1, more with some backends
 *	evicts		configs/model_config.py:2651 lists the models whose
 *			windows have a pool, of 0.8 times the tokens
 *			(arg_groups/fields/schedule.py:160); others, such as
 *			Gemma 2 and 3, keep all tokens in all layers
 *	conv_bytes	configs/mamba_utils.py:68, state_bytes the next lines
 *	states		mem_cache/kv_cache_configurator.py:3062: 3, and 2 for
 *			the extra buffer (arg_groups/overrides.py:483)
 *	spare		mem_cache/memory_pool.py:2464, 4866, and
 *			mem_cache/kv_cache_configurator.py:3406
 * llama.cpp 0c1e57098 (llama-cpp-python 0.3.36), llama-server with -np N and
 * -c of N times a sequence's tokens:
 *	key_bytes	common/common.h:589
 *	conv_bytes	src/llama-model.cpp:2483 and 2672
 *	block		src/llama-context.cpp:296
 *	in_flight	src/llama-kv-cache-iswa.cpp:73, without --swa-full, of
 *			512 tokens (common/common.h:454)
 *	keeps_newest	src/llama-hparams.cpp:229
 * transformers 5.24.0, DynamicCache:
 *	evicts		cache_utils.py:246: what a layer keeps of a prompt is a
 *			view of all of it, until the next token
 *	keeps_newest	cache_utils.py:1225
 */
static const struct gm_rule rules[] = {
	{ .state_bytes = 4,
	  .has_pool = true,
	  .block = 1,
	  .evicts = true,
	  .keeps_newest = true,
	  .states = 1 },
	{ .engine = GPUMAP_ENGINE_VLLM,
	  .release = "vLLM 0.33.0",
	  .has_pool = true,
	  .takes_type = true,
	  .block = 16,
	  .latent_block = 128,
	  .spare = 1,
	  .evicts = true,
	  .has_steps = true,
	  .edge_blocks = 1,
	  .states = 3,
	  .lone_states = 1,
	  .has_equal_pages = true },
	{ .engine = GPUMAP_ENGINE_SGLANG,
	  .release = "SGLang 0.5.23",
	  .has_pool = true,
	  .conv_bytes = 2,
	  .state_bytes = 4,
	  .takes_type = true,
	  .block = 1,
	  .spare = 1,
	  .states = 5 },
	{ .engine = GPUMAP_ENGINE_LLAMA_CPP,
	  .release = "llama.cpp 0c1e57098",
	  .key_bytes = 2,
	  .conv_bytes = 4,
	  .state_bytes = 4,
	  .block = 256,
	  .evicts = true,
	  .in_flight = 512,
	  .states = 1 },
	{ .engine = GPUMAP_ENGINE_ACCELERATE,
	  .release = "transformers 5.24.0",
	  .state_bytes = 4,
	  .block = 1,
	  .keeps_newest = true,
	  .states = 1 },
};

const struct gm_rule *gm_rule_of(uint32_t engine)
{
	if (engine == GPUMAP_ENGINE_OLLAMA)
		engine = GPUMAP_ENGINE_LLAMA_CPP;
	for (size_t i = 1; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].engine == engine)
			return &rules[i];
	return &rules[0];
}

/* The tokens of a step of vLLM's server; of a card that is not known those of
 * most that it runs on. */
static uint32_t step_of(uint64_t card_bytes)
{
	if (card_bytes >= UINT64_C(160) << 30)
		return 16384;
	return card_bytes == 0 || card_bytes >= UINT64_C(70) << 30 ? 8192
								   : 2048;
}

static uint64_t blocks_of(uint64_t tokens, uint64_t block)
{
	return tokens / block + (tokens % block != 0);
}

/* ---- one layer ----------------------------------------------------------- */

/* The parts of what a layer keeps. */
enum part {
	KEYS,  /* and values, of tokens */
	STATE, /* of a recurrence, and the inputs of its convolution */
	FIXED, /* keys and values of an encoder's output */
	N_PARTS
};

/* One rank's part of @elements, which are those of @n_heads heads. */
static uint64_t share(const struct gm_cache_request *q, uint64_t elements,
		      uint64_t n_heads)
{
	if (q->n_ranks <= 1 || n_heads <= 1)
		return elements;
	return elements / n_heads * gm_part(n_heads, q->n_ranks) +
	       elements % n_heads;
}

static bool has_part(const struct gm_cache_request *q,
		     const struct gpumap_layer_cache *layer, enum part part)
{
	bool has_state = layer->state_elements > 0 ||
			 (q->conv_taps > 0 && layer->conv_elements > 0);

	if (layer->n_heads == 0)
		return false;
	if (part == KEYS)
		return layer->token_elements > 0;
	return part == STATE ? has_state
			     : layer->conv_elements > 0 && !has_state;
}

static uint64_t state_bytes(bool *over, const struct gm_rule_kinds *k,
			    const struct gpumap_layer_cache *layer)
{
	const struct gm_cache_request *q = k->q;
	uint32_t of_conv = k->rule->conv_bytes, of_state = k->rule->state_bytes;
	uint64_t conv = layer->conv_elements;

	if (k->rule->takes_type && q->state_bytes > 0)
		of_state = q->state_bytes;
	if (!k->rule->keeps_newest && q->conv_taps > 0)
		conv = conv / q->conv_taps * (q->conv_taps - 1);
	conv = gm_checked_mul(over, share(q, conv, layer->n_heads),
			      of_conv > 0 ? of_conv : q->dtype_bytes);
	return gm_checked_add(
		over, conv,
		gm_checked_mul(over,
			       share(q, layer->state_elements, layer->n_heads),
			       of_state > 0 ? of_state : q->dtype_bytes));
}

static struct gm_rule_kind kind_of(bool *over, const struct gm_rule_kinds *k,
				   const struct gpumap_layer_cache *layer,
				   enum part part)
{
	struct gm_rule_kind kind = { .part = part,
				     .n = layer->n_layers,
				     .block = k->rule->block,
				     .copies = layer->n_layers,
				     .spare = k->rule->spare };

	switch (part) {
	case KEYS:
		if (k->rule->evicts && !k->ignores_windows)
			kind.window = layer->window;
		kind.bytes = gm_checked_mul(over,
					    share(k->q, layer->token_elements,
						  layer->n_heads),
					    k->key_bytes);
		break;
	case STATE:
		kind.bytes = state_bytes(over, k, layer);
		break;
	default:
		kind.spare = 0;
		kind.bytes = gm_checked_mul(
			over, share(k->q, layer->conv_elements, layer->n_heads),
			k->q->dtype_bytes);
	}
	return kind;
}

/* ---- all kinds ----------------------------------------------------------- */

/* The kind's index, or that of the next one. */
static uint32_t find_kind(const struct gm_rule_kinds *k,
			  const struct gm_rule_kind *like)
{
	uint32_t i = 0;

	while (i < k->n && (k->kinds[i].part != like->part ||
			    k->kinds[i].window != like->window ||
			    k->kinds[i].bytes != like->bytes))
		i++;
	return i;
}

static void add_kind(struct gm_rule_kinds *k, const struct gm_rule_kind *kind)
{
	uint32_t i = find_kind(k, kind);

	if (kind->part == FIXED)
		return;
	if (i == GM_RULE_KINDS) {
		k->is_full = true;
		return;
	}
	if (i < k->n) {
		k->kinds[i].n += kind->n;
		k->kinds[i].copies += kind->n;
	} else {
		k->kinds[k->n++] = *kind;
	}
}

/* Make all blocks and states as large as the largest. */
static void equalise_pages(bool *over, struct gm_rule_kinds *k, bool has_latent)
{
	uint64_t keys = 0, state = 0, block = k->rule->block;

	for (uint32_t i = 0; i < k->n; i++) {
		uint64_t *most = k->kinds[i].part == KEYS ? &keys : &state;

		*most = gm_max(*most, k->kinds[i].bytes);
	}
	if (state > 0 && has_latent && k->rule->latent_block > 0)
		block = k->rule->latent_block;
	k->page = gm_checked_mul(over, block, keys);
	if (!*over && state > k->page) {
		block *= blocks_of(state, k->page);
		k->page = gm_checked_mul(over, block, keys);
	}
	for (uint32_t i = 0; i < k->n && !*over; i++) {
		struct gm_rule_kind *kind = &k->kinds[i];

		kind->block = block;
		if (kind->part == KEYS && keys % kind->bytes == 0)
			kind->block *= keys / kind->bytes;
	}
}

/* Fill up the kinds to groups of as many layers. */
static void fill_groups(struct gm_rule_kinds *k)
{
	uint64_t group = UINT32_MAX, most = 0;
	uint32_t spare = k->rule->spare;

	for (uint32_t i = 0; i < k->n; i++) {
		group = gm_min(group, k->kinds[i].n);
		most = gm_max(most, k->kinds[i].n);
	}
	if (2 * most < 3 * group)
		group = most;
	for (uint32_t i = 0; i < k->n; i++) {
		struct gm_rule_kind *kind = &k->kinds[i];

		kind->copies = blocks_of(kind->n, group) * group;
		kind->spare = kind->n == group ? spare : 0;
		spare -= kind->spare;
	}
}

/* Keys of all tokens, those of one window, and states need no common page. */
static bool is_mixed(const struct gm_rule_kinds *k)
{
	for (uint32_t i = 1; i < k->n; i++)
		if (k->kinds[i].part != k->kinds[0].part ||
		    k->kinds[i].window != k->kinds[0].window)
			return true;
	return false;
}

void gm_rule_find(bool *over, const struct gm_cache_request *q, bool is_pool,
		  struct gm_rule_kinds *k)
{
	bool has_latent = false, has_keys = false, has_endless = false;

	*k = (struct gm_rule_kinds){ .rule = gm_rule_of(q->engine), .q = q };
	k->key_bytes =
		k->rule->key_bytes > 0 ? k->rule->key_bytes : q->dtype_bytes;
	if (is_pool && q->paged.cache_bytes > 0)
		k->key_bytes = q->paged.cache_bytes;
	for (uint32_t i = 0; i < q->n_caches; i++) {
		const struct gpumap_layer_cache *layer = &q->caches[i];

		if (!has_part(q, layer, KEYS))
			continue;
		has_keys = true;
		has_latent |= layer->n_heads == 1;
		has_endless |= layer->window == 0;
	}
	k->ignores_windows = is_pool && !has_endless;
	k->in_flight = k->rule->has_steps ? 2 * step_of(q->card_bytes) - 1
					  : k->rule->in_flight;
	k->states = has_keys || k->rule->lone_states == 0
			    ? k->rule->states
			    : k->rule->lone_states;
	for (uint32_t i = 0; i < q->n_caches && k->rule->has_equal_pages; i++)
		for (int part = KEYS; part < N_PARTS; part++)
			if (has_part(q, &q->caches[i], part)) {
				const struct gm_rule_kind kind =
					kind_of(over, k, &q->caches[i], part);

				add_kind(k, &kind);
			}
	if (!*over && has_keys && !k->is_full && is_mixed(k)) {
		equalise_pages(over, k, has_latent);
		fill_groups(k);
	}
}

/* ---- sums ---------------------------------------------------------------- */

/* The blocks of keys, or states, of a layer of this kind. */
static uint64_t count(bool *over, const struct gm_rule_kinds *k,
		      const struct gm_rule_kind *kind)
{
	uint64_t batch = k->q->max_batch_size, tokens = k->q->max_seq_len;
	uint64_t pool = UINT64_MAX, n;

	if (kind->part != KEYS)
		return gm_checked_mul(over, batch,
				      kind->part == STATE ? k->states : 1);
	if (k->pool > 0)
		pool = blocks_of(k->pool, kind->block);
	if (k->pool > 0 && kind->window == 0)
		return pool;
	if (kind->window > 0)
		tokens = gm_min(tokens, (uint64_t)kind->window + k->in_flight);
	n = blocks_of(tokens, kind->block);
	if (kind->window > 0)
		n += k->rule->edge_blocks;
	return gm_min(gm_checked_mul(over, n, batch), pool);
}

/* The bytes of a part of @n layers, which are behind @at others of its kind. */
static uint64_t part_bytes(bool *over, const struct gm_rule_kinds *k,
			   const struct gm_rule_kind *kind, uint64_t at,
			   uint64_t n)
{
	uint64_t copies =
		(at + n) * kind->copies / kind->n - at * kind->copies / kind->n;
	uint64_t blocks = gm_checked_mul(over, count(over, k, kind), copies);
	uint64_t bytes = k->page;

	if (bytes == 0 || kind->part == FIXED)
		bytes = gm_checked_mul(over, kind->bytes,
				       kind->part == KEYS ? kind->block : 1);
	return gm_checked_mul(
		over, gm_checked_add(over, blocks, n * kind->spare), bytes);
}

/* Neighbours that keep the same: the kinds of their parts, and how many layers
 * of each are before them. */
struct run {
	uint32_t n_parts;
	struct gm_rule_kind kinds[N_PARTS];
	uint64_t at[N_PARTS];
	bool is_even; /* each of the layers has as many bytes */
};

static uint64_t run_bytes(bool *over, const struct gm_rule_kinds *k,
			  const struct run *run, uint64_t first, uint64_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < run->n_parts; i++)
		sum = gm_checked_add(over, sum,
				     part_bytes(over, k, &run->kinds[i],
						run->at[i] + first, n));
	return sum;
}

/* @at counts the layers of each kind. */
static void find_run(bool *over, const struct gm_rule_kinds *k,
		     const struct gpumap_layer_cache *layer,
		     uint64_t at[GM_RULE_KINDS], struct run *run)
{
	*run = (struct run){ .is_even = true };
	for (int part = KEYS; part < N_PARTS; part++) {
		struct gm_rule_kind *kind = &run->kinds[run->n_parts];
		uint32_t same;

		if (!has_part(k->q, layer, part))
			continue;
		*kind = kind_of(over, k, layer, part);
		same = find_kind(k, kind);
		if (same < k->n) {
			*kind = k->kinds[same];
			run->at[run->n_parts] = at[same];
			at[same] += layer->n_layers;
		}
		run->is_even &= kind->copies == kind->n;
		run->n_parts++;
	}
}

uint64_t gm_rule_sum(bool *over, const struct gm_rule_kinds *k,
		     uint64_t *ret_sums)
{
	const struct gm_cache_request *q = k->q;
	uint64_t at[GM_RULE_KINDS] = { 0 }, all = 0, each;

	for (uint32_t i = 0; i < q->n_caches; i++) {
		uint32_t n = q->caches[i].n_layers;
		struct run run;

		find_run(over, k, &q->caches[i], at, &run);
		each = ret_sums != NULL && run.is_even
			       ? run_bytes(over, k, &run, 0, 1)
			       : 0;
		for (uint32_t layer = 0; ret_sums != NULL && layer < n;
		     layer++, ret_sums++) {
			if (!run.is_even)
				each = run_bytes(over, k, &run, layer, 1);
			ret_sums[1] = gm_checked_add(over, ret_sums[0], each);
		}
		all = gm_checked_add(over, all, run_bytes(over, k, &run, 0, n));
	}
	return all;
}
