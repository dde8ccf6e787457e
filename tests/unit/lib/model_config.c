/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * config.json: how architectures spell the same few numbers.  The values are
 * those of published models.
 */

#include <errno.h>
#include <string.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct gm_reason why;

static int check(const char *text, struct gm_weights_config *config)
{
	char copy[1024];
	const struct gm_weights_meta meta = { .data = copy,
					      .bytes = strlen(text),
					      .format =
						      GPUMAP_META_CONFIG_JSON };

	memcpy(copy, text, strlen(text));
	return gm_weights_config_read(&meta, &why, config);
}

static const struct {
	const char *text;
	uint32_t layers, heads, kv_heads, dim;
} spellings[] = {
	/* Llama 2 7B: as many as heads, where it does not say */
	{ "{\"model_type\":\"llama\",\"hidden_size\":4096,"
	  "\"num_attention_heads\":32,\"num_hidden_layers\":32}",
	  32, 32, 32, 128 },
	/* Mixtral 8x7B */
	{ "{\"model_type\":\"mixtral\",\"hidden_size\":4096,"
	  "\"num_attention_heads\":32,\"num_hidden_layers\":32,"
	  "\"num_key_value_heads\":8,\"head_dim\":null,"
	  "\"num_local_experts\":8}",
	  32, 32, 8, 128 },
	/* Mistral Nemo: heads that are not hidden_size / heads wide */
	{ "{\"model_type\":\"mistral\",\"hidden_size\":5120,"
	  "\"num_attention_heads\":32,\"num_hidden_layers\":40,"
	  "\"num_key_value_heads\":8,\"head_dim\":128}",
	  40, 32, 8, 128 },
	/* Gemma 7B */
	{ "{\"model_type\":\"gemma\",\"hidden_size\":3072,"
	  "\"num_attention_heads\":16,\"num_hidden_layers\":28,"
	  "\"num_key_value_heads\":16,\"head_dim\":256}",
	  28, 16, 16, 256 },
	/* Gemma 3 12B: behind its eyes */
	{ "{\"model_type\":\"gemma3\",\"vision_config\":"
	  "{\"num_hidden_layers\":27},\"text_config\":"
	  "{\"hidden_size\":3840,\"num_attention_heads\":16,"
	  "\"num_hidden_layers\":48,\"num_key_value_heads\":8,"
	  "\"head_dim\":256}}",
	  48, 16, 8, 256 },
	/* Phi-2, as it was first published */
	{ "{\"model_type\":\"phi-msft\",\"n_embd\":2560,\"n_head\":32,"
	  "\"n_head_kv\":null,\"n_layer\":32}",
	  32, 32, 32, 80 },
	/* Falcon 7B: one head of keys whatever else it says */
	{ "{\"model_type\":\"falcon\",\"hidden_size\":4544,"
	  "\"multi_query\":true,\"new_decoder_architecture\":false,"
	  "\"num_attention_heads\":71,\"num_hidden_layers\":32,"
	  "\"num_kv_heads\":71}",
	  32, 71, 1, 64 },
	/* Falcon 40B, before and after it was taken in */
	{ "{\"model_type\":\"RefinedWeb\",\"hidden_size\":8192,"
	  "\"n_head\":128,\"n_head_kv\":8,\"n_layer\":60}",
	  60, 128, 8, 64 },
	{ "{\"model_type\":\"falcon\",\"hidden_size\":8192,"
	  "\"multi_query\":true,\"new_decoder_architecture\":true,"
	  "\"num_attention_heads\":128,\"num_hidden_layers\":60,"
	  "\"num_kv_heads\":8}",
	  60, 128, 8, 64 },
	/* GPT-2, MPT 7B 8k Instruct, ChatGLM 3 */
	{ "{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_head\":12,"
	  "\"n_layer\":12}",
	  12, 12, 12, 64 },
	{ "{\"model_type\":\"mpt\",\"d_model\":4096,\"n_heads\":32,"
	  "\"n_layers\":32,\"attn_config\":{\"kv_n_heads\":4}}",
	  32, 32, 4, 128 },
	{ "{\"model_type\":\"chatglm\",\"hidden_size\":4096,"
	  "\"num_attention_heads\":32,\"num_layers\":28,"
	  "\"multi_query_attention\":true,\"multi_query_group_num\":2,"
	  "\"kv_channels\":128}",
	  28, 32, 2, 128 },
};

static void every_spelling_is_read(void)
{
	for (size_t i = 0; i < COUNT(spellings); i++) {
		struct gm_weights_config c = { 0 };

		EQ(check(spellings[i].text, &c), 0);
		EQ(c.n_layers, spellings[i].layers);
		EQ(c.n_heads, spellings[i].heads);
		EQ(c.kv_lora_rank, 0);
		EQ(c.n_kv_heads, spellings[i].kv_heads);
		EQ(c.k_dim, spellings[i].dim);
		if (!EQ(c.v_dim, spellings[i].dim))
			NOTE("%s", c.type);
	}
}

static void compressed_keys_are_known(void)
{
	struct gm_weights_config c = { 0 };

	EQ(check("{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,"
		 "\"num_attention_heads\":128,\"num_hidden_layers\":61,"
		 "\"num_key_value_heads\":128,\"kv_lora_rank\":512,"
		 "\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,"
		 "\"v_head_dim\":128,\"num_nextn_predict_layers\":1}",
		 &c),
	   0);
	EQ(c.kv_lora_rank, 512);
	EQ(c.kpe_head_dim, 64);
	EQ(c.k_dim, 192);
	EQ(c.v_dim, 128);
	EQ(c.n_extra, 1);
	STR(c.type, "deepseek_v3");
	/* The cache is the same, whatever a head of values has. */
	EQ(check("{\"hidden_size\":64,\"num_attention_heads\":4,"
		 "\"num_hidden_layers\":2,\"kv_lora_rank\":32,"
		 "\"qk_rope_head_dim\":8}",
		 &c),
	   0);
	EQ(c.kv_lora_rank, 32);
	EQ(c.kpe_head_dim, 8);
	EQ(c.k_dim, 16);
	EQ(c.v_dim, 16);
}

static void what_is_not_said_is_not_guessed(void)
{
	struct gm_weights_config c = { 0 };

	EQ(check("{}", &c), 0);
	EQ(c.n_layers, 0);
	EQ(c.k_dim, 0);
	EQ(check("{\"model_type\":\"mamba\",\"num_hidden_layers\":64,"
		 "\"hidden_size\":2560}",
		 &c),
	   0);
	EQ(c.n_layers, 64);
	EQ(c.n_heads, 0);
	EQ(c.k_dim, 0);
	STR(c.type, "mamba");
	EQ(check("{\"num_hidden_layers\":2,\"num_attention_heads\":8}", &c), 0);
	EQ(c.n_heads, 8);
	EQ(c.k_dim, 0);
	/* A number for each layer is more than a shape can say. */
	EQ(check("{\"num_hidden_layers\":2,\"num_attention_heads\":8,"
		 "\"hidden_size\":64,\"num_key_value_heads\":[2,4]}",
		 &c),
	   0);
	EQ(c.n_layers, 2);
	EQ(c.k_dim, 0);
}

static void numbers_that_cannot_be_are_refused(void)
{
	static const char *const table[] = {
		"{\"num_hidden_layers\":0}",
		"{\"num_hidden_layers\":-1}",
		"{\"num_hidden_layers\":\"32\"}",
		"{\"num_hidden_layers\":65537}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":16777217}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":2,"
		"\"attn_config\":{\"kv_n_heads\":-2}}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":2,"
		"\"kv_lora_rank\":-2}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":2,"
		"\"head_dim\":100000000000000000000}",
		"{\"num_hidden_layers\":1.5}",
		"{\"num_hidden_layers\":true}",
		"{\"num_hidden_layers\":1,\"num_nextn_predict_layers\":-1}",
		"{\"text_config\":{\"num_hidden_layers\":1.5}}",
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_weights_config c = { .n_layers = 7 };

		EQ(check(table[i], &c), -EINVAL);
		if (!OK(strncmp(why.text, "config.json: ", 13) == 0))
			NOTE("%s", why.text);
		EQ(c.n_layers, 7);
	}
}

/* transformers reads it with Python's json, which knows more than JSON. */
static void what_python_reads_is_read(void)
{
	static const char *const taken[] = {
		"{\"eps\":NaN,\"num_hidden_layers\":2}",
		"{\"limits\":[0.0,Infinity,-Infinity],\"num_hidden_layers\":2}",
		"{\"long\":1000000000000000019884624838656,"
		"\"num_hidden_layers\":2}",
		"{\"half\":\"\\ud800\",\"nul\\u0000\":\"\\u0000\","
		"\"num_hidden_layers\":2}",
		"{\"num_hidden_layers\":3,\"num_hidden_layers\":2}",
		"{\"text_config\":{\"num_hidden_layers\":3},"
		"\"text_config\":{\"num_hidden_layers\":2}}",
		"{\"num_hidden_layers\\u0000\":3,\"num_hidden_layers\":2}",
		"{\"text_config\":null,\"num_hidden_layers\":2}",
		/* 0 is not known, but for the number of layers */
		"{\"num_hidden_layers\":2,\"num_attention_heads\":0}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":4,"
		"\"kv_lora_rank\":64,\"qk_rope_head_dim\":0}",
	};
	static const char *const refused[] = {
		"",
		"{",
		"[]",
		"null",
		"{}x",
		"{\"a\":nan}",
		"{\"a\":+Infinity}",
		"{\"a\":\"\xff\"}",
		"{'a':1}",
		"{\"a\":1,}",
		"\xef\xbb\xbf{}",
	};

	for (size_t i = 0; i < COUNT(taken); i++) {
		struct gm_weights_config c = { .n_layers = 0 };

		EQ(check(taken[i], &c), 0);
		if (!EQ(c.n_layers, 2))
			NOTE("%s: %s", taken[i], why.text);
	}
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct gm_weights_config c = { .n_layers = 7 };

		EQ(check(refused[i], &c), -EINVAL);
		STR(why.text, "config.json is not the JSON that it should be; "
			      "fetch or write it again");
		EQ(c.n_layers, 7);
	}
}

TAP_CASE()
{
	every_spelling_is_read();
	compressed_keys_are_known();
	what_is_not_said_is_not_guessed();
	numbers_that_cannot_be_are_refused();
	what_python_reads_is_read();
	return tap_done();
}
