/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * rule: the bytes that engines keep.
 *
 * The figures of vLLM are those of its own classes: get_kv_cache_groups() of
 * vllm/v1/core/kv_cache_planning.py (0.33.0) was given FullAttentionSpec,
 * SlidingWindowSpec, MLAAttentionSpec and MambaSpec of the layers, the layout
 * LBNHC and 16384 tokens in flight, and the bytes are
 *
 *	_get_kv_cache_bytes_per_block(groups) * (1 + batch * the sum over all
 *	groups of cdiv(max_memory_usage_bytes(), page_size_bytes))
 *
 * Blocks of hybrids are those of platforms/interface.py:1102: align *
 * cdiv(state, align * bytes of a token), where align is 16, or 128 with MLA.
 * The others are counted by hand, T tokens, in the comments of the rows.
 */

#include <stdio.h>
#include <string.h>

#include "gpumap/engine.h"
#include "lib/model/plan/cache.h"
#include "lib/model/plan/rule.h"
#include "tests/support/tap.h"

#define LAYERS_MAX 64u

/* One layer keeps so much, by a letter. */
static const struct {
	char letter;
	struct gpumap_layer_cache cache;
} kinds[] = {
	/* Qwen3-8B: 8 heads of 128 */
	{ 'q', { .n_heads = 8, .token_elements = 2048 } },
	/* Gemma 3 27B: 16 heads of 128, and a window of 1024 */
	{ 'f', { .n_heads = 16, .token_elements = 4096 } },
	{ 'w', { .n_heads = 16, .token_elements = 4096, .window = 1024 } },
	/* Gemma 4 31B: 4 heads of 512, and 16 of 256 with a window */
	{ 'F', { .n_heads = 4, .token_elements = 4096 } },
	{ 'W', { .n_heads = 16, .token_elements = 8192, .window = 1024 } },
	/* gpt-oss: 8 heads of 64 */
	{ 'o', { .n_heads = 8, .token_elements = 1024 } },
	{ 'v', { .n_heads = 8, .token_elements = 1024, .window = 128 } },
	/* 3 heads of 128, which do not divide 8 of 64 */
	{ 't', { .n_heads = 3, .token_elements = 768 } },
	{ 'u', { .n_heads = 8, .token_elements = 1024, .window = 1024 } },
	/* DeepSeek-V3, Kimi-Linear: a latent */
	{ 'l', { .n_heads = 1, .token_elements = 576 } },
	/* Granite 4 small: 128 heads of 64, a state of 128, one group */
	{ 'm',
	  { .n_heads = 128,
	    .conv_elements = (8192 + 2 * 128) * 4,
	    .state_elements = 128 * 64 * 128 } },
	/* Qwen3-Next: 2 heads of 256, and 32 heads of 128 by 128 */
	{ 'n', { .n_heads = 2, .token_elements = 1024 } },
	{ 'g',
	  { .n_heads = 32,
	    .conv_elements = 8192 * 4,
	    .state_elements = 32 * 128 * 128 } },
	/* Kimi-Linear: a convolution for each of q, k and v */
	{ 'k',
	  { .n_heads = 32,
	    .conv_elements = 3 * 4096 * 4,
	    .state_elements = 32 * 128 * 128 } },
	/* Mamba 2 2.7B */
	{ 's',
	  { .n_heads = 80,
	    .conv_elements = 5376 * 4,
	    .state_elements = 80 * 64 * 128 } },
	/* Whisper: 6 heads of 64, and as much of 1500 tokens of the encoder */
	{ 'x',
	  { .n_heads = 6,
	    .token_elements = 768,
	    .conv_elements = 768 * 1500 } },
	{ '?', { .n_heads = 0 } },
};

static const struct row {
	const char *name;
	uint32_t engine;
	uint32_t n_layers;
	const char *pattern; /* of letters, repeated */
	uint32_t batch, n_ranks, taps, state_bytes;
	/* bytes of all layers at so many tokens */
	uint64_t at_1k, at_32k, at_128k;
} rows[] = {
	/* 36 * T * 4096 */
	{ "Qwen3", 0, 36, "q", 1, 1, 0, 0, 150994944, 4831838208, 19327352832 },
	/* (10 * T + 52 * 1024) * 8192 */
	{ "Gemma 3", 0, 62, "wwwwwf", 1, 1, 0, 0, 520093696, 3120562176,
	  11173625856 },
	/* 61 * T * 1152 */
	{ "DeepSeek", 0, 61, "l", 1, 1, 0, 0, 71958528, 2302672896,
	  9210691584 },
	/* 4 * T * 4096 + 36 * (33792 * 2 + 1048576 * 4) */
	{ "Granite 4", 0, 40, "mmmmmqmmmm", 1, 1, 4, 2, 170205184, 690298880,
	  2300911616 },

	{ "Qwen3", GPUMAP_ENGINE_VLLM, 36, "q", 1, 1, 0, 0, 153354240,
	  4834197504, 19329712128 },
	/* 52 layers fill 6 groups of 10; 13 and 13 are one */
	{ "Gemma 3", GPUMAP_ENGINE_VLLM, 62, "wwwwwf", 1, 1, 0, 0, 596377600,
	  11249909760, 19302973440 },
	{ "Gemma 3", GPUMAP_ENGINE_VLLM, 62, "wwwwwf", 4, 1, 0, 0, 2381578240,
	  44995706880, 77207961600 },
	{ "gpt-oss", GPUMAP_ENGINE_VLLM, 24, "vo", 1, 1, 0, 0, 51118080,
	  1211891712, 3627810816 },
	{ "gpt-oss and one", GPUMAP_ENGINE_VLLM, 25, "vo", 1, 1, 0, 0, 55377920,
	  1312882688, 3930128384 },
	/* A full layer's block has twice the tokens; one that does not divide
	 * is padded. */
	{ "Gemma 4", GPUMAP_ENGINE_VLLM, 60, "WWWWWF", 1, 1, 0, 0, 938475520,
	  16960716800, 25013780480 },
	{ "uneven", GPUMAP_ENGINE_VLLM, 12, "uuuuut", 1, 1, 0, 0, 25559040,
	  491126784, 893779968 },
	{ "DeepSeek", GPUMAP_ENGINE_VLLM, 61, "l", 1, 1, 0, 0, 73082880,
	  2303797248, 9211815936 },
	/* Blocks of 528 tokens, or of 1040 with states of 4 bytes. */
	{ "Granite 4", GPUMAP_ENGINE_VLLM, 40, "mmmmmqmmmm", 1, 1, 4, 0,
	  259522560, 787218432, 2396258304 },
	{ "Granite 4", GPUMAP_ENGINE_VLLM, 40, "mmmmmqmmmm", 1, 1, 4, 4,
	  494141440, 1022361600, 2641100800 },
	{ "Granite 4", GPUMAP_ENGINE_VLLM, 40, "mmmmmqmmmm", 4, 1, 4, 4,
	  1925447680, 4038328320, 10513285120 },
	/* Blocks of 544 tokens. */
	{ "Qwen3-Next", GPUMAP_ENGINE_VLLM, 48, "gggn", 1, 1, 4, 0, 160432128,
	  949223424, 3355705344 },
	{ "Qwen3-Next", GPUMAP_ENGINE_VLLM, 48, "gggn", 1, 2, 4, 0, 80216064,
	  474611712, 1677852672 },
	/* Blocks of 1920 tokens, and 20 layers fill 3 groups of 7. */
	{ "Kimi-Linear", GPUMAP_ENGINE_VLLM, 27, "kkklkkklkkklkkklkkklkkklkkl",
	  1, 1, 4, 4, 170311680, 433520640, 1223147520 },
	{ "Mamba 2", GPUMAP_ENGINE_VLLM, 64, "s", 1, 1, 4, 0, 171900928,
	  171900928, 171900928 },

	/* 36 * (T + 1) * 4096 */
	{ "Qwen3", GPUMAP_ENGINE_SGLANG, 36, "q", 1, 1, 0, 0, 151142400,
	  4831985664, 19327500288 },
	/* 62 * (T + 1) * 8192: Gemma 3 has no pool for windows */
	{ "Gemma 3", GPUMAP_ENGINE_SGLANG, 62, "wwwwwf", 1, 1, 0, 0, 520601600,
	  16643506176, 66572500992 },
	{ "DeepSeek", GPUMAP_ENGINE_SGLANG, 61, "l", 1, 1, 0, 0, 72028800,
	  2302743168, 9210761856 },
	/* 4 * (4 T + 1) * 4096 + 36 * (5 * 4 + 1) * (25344 * 2 + 1048576 * 4)
	 */
	{ "Granite 4", GPUMAP_ENGINE_SGLANG, 40, "mmmmmqmmmm", 4, 1, 4, 0,
	  3276339200, 5356713984, 11799164928 },

	/* 36 * T * 4096: T is a multiple of 256 */
	{ "Qwen3", GPUMAP_ENGINE_LLAMA_CPP, 36, "q", 1, 1, 0, 0, 150994944,
	  4831838208, 19327352832 },
	/* (10 * T + 52 * min(T, 1024 + 512)) * 8192 */
	{ "Gemma 3", GPUMAP_ENGINE_LLAMA_CPP, 62, "wwwwwf", 1, 1, 0, 0,
	  520093696, 3338665984, 11391729664 },
	{ "Gemma 3", GPUMAP_ENGINE_OLLAMA, 62, "wwwwwf", 4, 1, 0, 0, 2080374784,
	  13354663936, 45566918656 },
	{ "DeepSeek", GPUMAP_ENGINE_LLAMA_CPP, 61, "l", 1, 1, 0, 0, 71958528,
	  2302672896, 9210691584 },
	/* 4 * T * 4096 + 36 * (25344 + 1048576) * 4, whatever the model says */
	{ "Granite 4", GPUMAP_ENGINE_LLAMA_CPP, 40, "mmmmmqmmmm", 1, 1, 4, 2,
	  171421696, 691515392, 2302128128 },

	{ "Qwen3", GPUMAP_ENGINE_ACCELERATE, 36, "q", 1, 1, 0, 0, 150994944,
	  4831838208, 19327352832 },
	/* 62 * T * 8192: all of a prompt is kept until the next token */
	{ "Gemma 3", GPUMAP_ENGINE_ACCELERATE, 62, "wwwwwf", 1, 1, 0, 0,
	  520093696, 16642998272, 66571993088 },
	{ "DeepSeek", GPUMAP_ENGINE_ACCELERATE, 61, "l", 1, 1, 0, 0, 71958528,
	  2302672896, 9210691584 },
	/* 4 * T * 4096 + 36 * (33792 * 2 + 1048576 * 4) */
	{ "Granite 4", GPUMAP_ENGINE_ACCELERATE, 40, "mmmmmqmmmm", 1, 1, 4, 0,
	  170205184, 690298880, 2300911616 },

	/* An engine without a rule, and layers that are not known. */
	{ "Gemma 3", GPUMAP_ENGINE_MISTRAL_RS, 62, "wwwwwf", 1, 1, 0, 0,
	  520093696, 3120562176, 11173625856 },
	{ "unknown", GPUMAP_ENGINE_VLLM, 3, "?", 1, 1, 4, 0, 0, 0, 0 },
	/* 4 * (T + 16 + 1500) * 1536: an encoder's output is no state */
	{ "Whisper", GPUMAP_ENGINE_VLLM, 4, "x", 1, 1, 0, 0, 15605760,
	  210640896, 814620672 },
};

/* Neighbours that keep the same are one cache if @merges.  Returns how many
 * caches there are. */
static uint32_t fill(const struct row *row, bool merges,
		     struct gpumap_layer_cache *caches)
{
	size_t length = strlen(row->pattern);
	uint32_t n = 0;
	char last = 0;

	for (uint32_t i = 0; i < row->n_layers; i++) {
		char letter = row->pattern[i % length];

		if (merges && letter == last) {
			caches[n - 1].n_layers++;
			continue;
		}
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			if (kinds[k].letter == letter)
				caches[n] = kinds[k].cache;
		caches[n++].n_layers = 1;
		last = letter;
	}
	return n;
}

static struct gm_cache_request request(const struct row *row, bool merges,
				       struct gpumap_layer_cache *caches)
{
	return (struct gm_cache_request){
		.caches = caches,
		.n_caches = fill(row, merges, caches),
		.n_layers = row->n_layers,
		.n_ranks = row->n_ranks,
		.dtype_bytes = 2,
		.engine = row->engine,
		.conv_taps = row->taps,
		.state_bytes = row->state_bytes,
		.max_batch_size = row->batch,
		.paged = { .block_size = 16 },
	};
}

/* Are the sums those of the same layers, each a cache of its own? */
static bool are_sums(const struct row *row, uint64_t n_tokens,
		     const uint64_t *sums)
{
	struct gpumap_layer_cache caches[LAYERS_MAX];
	struct gm_cache_request q = request(row, false, caches);
	uint64_t others[LAYERS_MAX + 1];
	struct gm_plan_error err;

	q.max_seq_len = n_tokens;
	return gm_cache_sums(&q, NULL, others, &err) == 0 &&
	       memcmp(sums, others, (q.n_layers + 1) * sizeof(*sums)) == 0;
}

static void engines_keep_what_their_sources_say(void)
{
	struct gpumap_layer_cache caches[LAYERS_MAX];
	uint64_t sums[LAYERS_MAX + 1];
	struct gm_plan_error err;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct {
			uint64_t tokens, bytes;
		} wants[] = { { 1024, rows[i].at_1k },
			      { 32768, rows[i].at_32k },
			      { 131072, rows[i].at_128k } };
		struct gm_cache_request q = request(&rows[i], true, caches);
		const char *release = gm_rule_of(q.engine)->release;

		printf("# %s, %s\n", rows[i].name, release ? release : "any");
		for (size_t k = 0; k < 3; k++) {
			q.max_seq_len = wants[k].tokens;
			EQ(gm_cache_sums(&q, NULL, sums, &err), 0);
			EQ(sums[q.n_layers], wants[k].bytes);
			OK(are_sums(&rows[i], wants[k].tokens, sums));
		}
	}
}

static uint64_t bytes_of(const struct gm_cache_request *q,
			 const struct gm_kv_room *room)
{
	uint64_t sums[LAYERS_MAX + 1];
	struct gm_plan_error err;

	EQ(gm_cache_sums(q, room, sums, &err), 0);
	return sums[q->n_layers];
}

/* A model with more kinds of layers than are told apart has no common page: its
 * sum does not depend on their order. */
static void many_kinds_are_each_by_itself(void)
{
	struct gpumap_layer_cache caches[2 * GM_RULE_KINDS];
	uint64_t sums[2];

	for (uint32_t k = 0; k < 2; k++) {
		struct gm_cache_request q = { .caches = caches,
					      .n_caches = 2 * GM_RULE_KINDS,
					      .n_layers = 2 * GM_RULE_KINDS,
					      .dtype_bytes = 2,
					      .engine = GPUMAP_ENGINE_VLLM,
					      .max_seq_len = 32768,
					      .max_batch_size = 4 };

		for (uint32_t i = 0; i < 2 * GM_RULE_KINDS; i++)
			caches[k == 0 ? i : 2 * GM_RULE_KINDS - 1 - i] =
				(struct gpumap_layer_cache){
					.n_layers = 1,
					.n_heads = 2,
					.state_elements = i == 0 ? 1 << 20 : 0,
					.token_elements = 256 * i,
				};
		sums[k] = bytes_of(&q, NULL);
	}
	EQ(sums[0], sums[1]);
}

/* A window of vLLM has two steps behind it, and a block at its edge. */
static void steps_are_those_of_the_card(void)
{
	static const struct {
		uint64_t card_gib;
		uint64_t tokens;
	} table[] = { { 0, 16384 },  { 24, 4096 },   { 69, 4096 },
		      { 70, 16384 }, { 159, 16384 }, { 160, 32768 },
		      { 288, 32768 } };
	const struct row window = { .engine = GPUMAP_ENGINE_VLLM,
				    .n_layers = 1,
				    .pattern = "w",
				    .batch = 1 };
	struct gpumap_layer_cache caches[LAYERS_MAX];
	struct gm_cache_request q = request(&window, true, caches);

	q.max_seq_len = 131072;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		q.card_bytes = table[i].card_gib << 30;
		EQ(bytes_of(&q, NULL),
		   ((1024 + table[i].tokens) / 16 + 2) * 16 * 8192);
	}
}

/* 1025 tokens are 65 blocks of vLLM, one token more of SGLang, and 1280 of
 * llama.cpp, whose windows have as many as a sequence. */
static void blocks_are_whole(void)
{
	const struct row plain = {
		.engine = 0, .n_layers = 1, .pattern = "q", .batch = 2
	};
	struct gpumap_layer_cache caches[LAYERS_MAX];
	struct gm_cache_request q = request(&plain, true, caches);

	q.max_seq_len = 1025;
	EQ(bytes_of(&q, NULL), 2 * 1025 * 4096);
	q.engine = GPUMAP_ENGINE_VLLM;
	EQ(bytes_of(&q, NULL), (2 * 65 + 1) * 16 * 4096);
	q.engine = GPUMAP_ENGINE_SGLANG;
	EQ(bytes_of(&q, NULL), (2 * 1025 + 1) * 4096);
	q.engine = GPUMAP_ENGINE_LLAMA_CPP;
	EQ(bytes_of(&q, NULL), 2 * 1280 * 4096);
	/* The keys of llama.cpp have 16 bits whatever is computed with. */
	q.dtype_bytes = 4;
	EQ(bytes_of(&q, NULL), 2 * 1280 * 4096);
	caches[0].window = 700;
	EQ(bytes_of(&q, NULL), 2 * 1280 * 4096);
	caches[0].window = 500; /* 500 + 512 */
	EQ(bytes_of(&q, NULL), 2 * 1024 * 4096);
}

/* A pool of so many tokens is as large as it was asked for, with the states
 * and windows of the batch in it. */
static void pools_have_whole_pages(void)
{
	const struct gm_kv_room room = { .capacity = 1 };
	const struct row granite = { .engine = GPUMAP_ENGINE_VLLM,
				     .n_layers = 40,
				     .pattern = "mmmmmqmmmm",
				     .batch = 4,
				     .taps = 4 };
	struct gpumap_layer_cache caches[LAYERS_MAX];
	struct gm_cache_request q = request(&granite, true, caches);
	const uint64_t page = 528 * 4096;

	q.max_seq_len = 131072;
	q.paged.budget = GPUMAP_PAGED_TOKENS;
	q.paged.amount = 5280;
	/* 10 blocks and the null block in 4 layers, 3 states in 36 */
	EQ(bytes_of(&q, &room), 4 * 11 * page + 36 * 3 * 4 * page);
	q.paged.budget = GPUMAP_PAGED_MIB;
	q.paged.amount = 2048;
	OK(bytes_of(&q, &room) <= UINT64_C(2048) << 20);
	OK(bytes_of(&q, &room) > (UINT64_C(2048) << 20) - 4 * page);
}

TAP_CASE()
{
	engines_keep_what_their_sources_say();
	many_kinds_are_each_by_itself();
	steps_are_those_of_the_card();
	blocks_are_whole();
	pools_have_whole_pages();
	return tap_done();
}
