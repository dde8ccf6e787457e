/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model_config: how architectures spell the same few numbers.  The values are
 * those of published models.
 */

#include <errno.h>
#include <string.h>

#include "agent/plan/model_config.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int check(const char *text, struct gm_model_config *config,
		 struct gm_plan_error *err)
{
	json_t *json = json_loads(text, 0, NULL);
	int r;

	if (!OK(json != NULL))
		return 1;
	r = gm_model_config_check("config.json", json, config, err);
	json_decref(json);
	return r;
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
		struct gm_model_config c = { 0 };

		EQ(check(spellings[i].text, &c, NULL), 0);
		EQ(c.n_layers, spellings[i].layers);
		EQ(c.n_heads, spellings[i].heads);
		OK(c.has_kv && !c.kv.is_mla);
		EQ(c.kv.n_layers, spellings[i].layers);
		EQ(c.kv.n_heads, spellings[i].kv_heads);
		EQ(c.kv.k_dim, spellings[i].dim);
		if (!EQ(c.kv.v_dim, spellings[i].dim))
			NOTE("%s", c.type);
	}
}

static void compressed_keys_are_known(void)
{
	struct gm_model_config c = { 0 };

	EQ(check("{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,"
		 "\"num_attention_heads\":128,\"num_hidden_layers\":61,"
		 "\"num_key_value_heads\":128,\"kv_lora_rank\":512,"
		 "\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,"
		 "\"v_head_dim\":128,\"num_nextn_predict_layers\":1}",
		 &c, NULL),
	   0);
	OK(c.kv.is_mla);
	EQ(c.kv.kv_lora_rank, 512);
	EQ(c.kv.kpe_head_dim, 64);
	EQ(c.kv.k_dim, 192);
	EQ(c.kv.v_dim, 128);
	EQ(c.n_extra, 1);
	STR(c.type, "deepseek_v3");
}

static void what_is_not_said_is_not_guessed(void)
{
	struct gm_model_config c = { 0 };

	EQ(check("{}", &c, NULL), 0);
	EQ(c.n_layers, 0);
	OK(!c.has_kv);
	EQ(check("{\"model_type\":\"mamba\",\"num_hidden_layers\":64,"
		 "\"hidden_size\":2560}",
		 &c, NULL),
	   0);
	EQ(c.n_layers, 64);
	EQ(c.n_heads, 0);
	OK(!c.has_kv);
	STR(c.type, "mamba");
	EQ(check("{\"num_hidden_layers\":2,\"num_attention_heads\":8}", &c,
		 NULL),
	   0);
	EQ(c.n_heads, 8);
	OK(!c.has_kv);
	/* A number for each layer is more than a shape can say. */
	EQ(check("{\"num_hidden_layers\":2,\"num_attention_heads\":8,"
		 "\"hidden_size\":64,\"num_key_value_heads\":[2,4]}",
		 &c, NULL),
	   0);
	EQ(c.n_layers, 2);
	OK(!c.has_kv);
}

static void numbers_that_cannot_be_are_refused(void)
{
	static const char *const table[] = {
		"{\"num_hidden_layers\":0}",
		"{\"num_hidden_layers\":-1}",
		"{\"num_hidden_layers\":\"32\"}",
		"{\"num_hidden_layers\":65537}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":0}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":16777217}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":2,"
		"\"attn_config\":{\"kv_n_heads\":-2}}",
		"{\"num_hidden_layers\":2,\"num_attention_heads\":2,"
		"\"kv_lora_rank\":-2}",
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_model_config c = { .n_layers = 7 };
		struct gm_plan_error err = { 0 };

		EQ(check(table[i], &c, &err), -EINVAL);
		OK(strncmp(err.text, "config.json: ", 13) == 0);
		EQ(c.n_layers, 7);
	}
}

TAP_CASE()
{
	every_spelling_is_read();
	compressed_keys_are_known();
	what_is_not_said_is_not_guessed();
	numbers_that_cannot_be_are_refused();
	return tap_done();
}
