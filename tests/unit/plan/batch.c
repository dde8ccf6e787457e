/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* batch: requests and the answers that scripts rely on, byte by byte. */

#include <stdlib.h>
#include <string.h>

#include "agent/plan/batch.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct line {
	const char *request, *answer;
};

static void ask(enum gm_batch_kind what, const struct line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *got = gm_batch_answer(what, lines[i].request,
					    strlen(lines[i].request));

		if (!STR(got, lines[i].answer))
			NOTE("to %s", lines[i].request);
		free(got);
	}
}

static void whatever_is_asked_is_answered(void)
{
	static const struct line lines[] = {
		{ "",
		  "{\"error\":\"not a JSON object: '[' or '{' expected\"}" },
		{ "[1]", "{\"error\":\"not a JSON object\"}" },
		{ "{\"op\":\"map\",\"op\":\"map\"}",
		  "{\"error\":\"not a JSON object: duplicate object key\"}" },
		{ "{\"n\":18446744073709551616 x}",
		  "{\"error\":\"not a JSON object: '}' expected\"}" },
		{ "{\"op\":\"fly\"}",
		  "{\"error\":\"op is not map, auto or sizes\"}" },
		{ "{}", "{\"error\":\"op is not a string\"}" },
		{ "{\"op\":\"m\\u0000\"}",
		  "{\"error\":\"not a JSON object: \\\\u0000 is not allowed "
		  "without JSON_ALLOW_NUL\"}" },
	};

	ask(GM_BATCH_PLAN, lines, COUNT(lines));
}

#define H100                                                \
	"\"cc\":[9,0],\"sm_count\":132,\"free_mem_bytes\":" \
	"85899345920,\"total_mem_bytes\":85899345920}"
#define T4                                                 \
	"\"cc\":[7,5],\"sm_count\":40,\"free_mem_bytes\":" \
	"15032385536,\"total_mem_bytes\":16106127360}"

static void split_shares_by_score(void)
{
	static const struct line lines[] = {
		{ "{\"devices\":[{\"row\":0," H100 ",{\"row\":3," T4
		  "],\"n\":1000}",
		  "{\"ok\":{\"tiles\":[[0,0,862],[3,862,1000]],\"scores\":"
		  "[602.0,96.0],\"budgets\":[42949672960,8053063680]}}" },
		{ "{\"devices\":[{\"row\":9," T4 ",{\"row\":1," H100
		  "],\"n\":1}",
		  "{\"ok\":{\"tiles\":[[1,0,1]],\"scores\":[96.0,602.0],"
		  "\"budgets\":[8053063680,42949672960]}}" },
		{ "{\"devices\":[],\"n\":5}",
		  "{\"ok\":{\"tiles\":[],\"scores\":[],\"budgets\":[]}}" },
		{ "{\"devices\":[{\"row\":18446744073709551615," T4
		  "],\"n\":18446744073709551615}",
		  "{\"ok\":{\"tiles\":[[18446744073709551615,0,"
		  "18446744073709551615]],\"scores\":[96.0],\"budgets\":"
		  "[8053063680]}}" },
		{ "{\"devices\":[],\"n\":18446744073709551616}",
		  "{\"error\":\"n is not a whole number from 0 to 2^64-1\"}" },
		{ "{\"devices\":[],\"n\":-1}",
		  "{\"error\":\"n is not a whole number from 0 to 2^64-1\"}" },
		{ "{\"devices\":[],\"n\":1e3}",
		  "{\"error\":\"n is not a whole number from 0 to 2^64-1\"}" },
		{ "{\"devices\":[{\"row\":0}],\"n\":1}",
		  "{\"error\":\"devices: free_mem_bytes is not a whole number "
		  "from 0 to 2^64-1\"}" },
	};

	ask(GM_BATCH_SPLIT, lines, COUNT(lines));
}

static void spec_reads_and_prints(void)
{
	static const struct line lines[] = {
		{ "{\"text\":\"0:16;1:16\"}",
		  "{\"ok\":{\"setting\":\"map\",\"device_layers\":[[0,16],"
		  "[1,16]],\"spec\":\"0:16;1:16\"}}" },
		{ "{\"list\":[\"0:16\",\"1:16\"]}",
		  "{\"ok\":{\"setting\":\"map\",\"device_layers\":[[0,16],"
		  "[1,16]],\"spec\":\"0:16;1:16\"}}" },
		{ "{\"list\":[]}",
		  "{\"ok\":{\"setting\":\"map\",\"device_layers\":[],"
		  "\"spec\":null}}" },
		{ "{\"list\":[\"0:16\",5]}",
		  "{\"error\":\"list has what is no text\"}" },
		{ "{\"list\":\"0:16\"}", "{\"error\":\"list is not a list\"}" },
		{ "{\"list\":[],\"text\":\"3\"}",
		  "{\"error\":\"list is beside a text\"}" },
		{ "{\"text\":null}",
		  "{\"ok\":{\"setting\":\"auto\",\"device_layers\":null,"
		  "\"spec\":null}}" },
		{ "{\"text\":\"18446744073709551615\"}",
		  "{\"ok\":{\"setting\":\"map\",\"device_layers\":[[0,"
		  "18446744073709551615]],\"spec\":"
		  "\"0:18446744073709551615\"}}" },
		{ "{\"text\":\"\\u00e9:1\"}",
		  "{\"error\":\"Failed to parse \xc3\xa9 as integer.\"}" },
		{ "{\"text\":\"0:1;0:2\"}",
		  "{\"error\":\"Duplicate ordinal 0\"}" },
		{ "{}", "{\"error\":\"text is not a string\"}" },
	};

	ask(GM_BATCH_SPEC, lines, COUNT(lines));
}

#define MAP(layers, host, topology, n, base)                                 \
	"{\"op\":\"map\",\"device_layers\":" layers ",\"host_layers\":" host \
	",\"topology\":" topology ",\"model_layers\":" n ",\"base\":\"" base \
	"\",\"devices\":[\"cuda[0]\",\"cuda[1]\"]}"

static void map_places_in_runs(void)
{
	static const struct line lines[] = {
		{ MAP("[[0,16],[1,10]]", "null", "null", "32", "cuda[0]"),
		  "{\"ok\":{\"kind\":\"layer\",\"layers\":[[\"cuda[0]\",16],"
		  "[\"cuda[1]\",10],[\"cpu\",6]],\"unique\":[\"cuda[0]\","
		  "\"cuda[1]\",\"cpu\"],\"spec\":\"0:16;1:10\"}}" },
		{ MAP("null", "null", "\"0-4:\\n  device: cuda[1]\\n\"",
		      "18446744073709551615", "cuda[0]"),
		  "{\"ok\":{\"kind\":\"layer\",\"layers\":[[\"cuda[1]\",4],"
		  "[\"cuda[0]\",18446744073709551611]],\"unique\":"
		  "[\"cuda[1]\",\"cuda[0]\"],\"spec\":null}}" },
		{ MAP("null", "null", "null", "3", "cuda[7]"),
		  "{\"ok\":{\"kind\":\"dummy\",\"layers\":[[\"cuda[7]\",3]],"
		  "\"unique\":[\"cuda[7]\"],\"spec\":null}}" },
		{ MAP("[]", "null", "null", "3", "cpu"),
		  "{\"ok\":{\"kind\":\"layer\",\"layers\":[[\"cpu\",3]],"
		  "\"unique\":[\"cpu\"],\"spec\":null}}" },
		{ MAP("[[0,2]]", "2", "null", "3", "cuda[0]"),
		  "{\"error\":\"Expected the total number of GPU (2) and host "
		  "layers (2) to sum to the number of model hidden layers "
		  "(3)\"}" },
		{ MAP("[[2,2],[0,1]]", "null", "null", "3", "cuda[0]"),
		  "{\"error\":\"Could not find cuda device with ordinal 2\"}" },
		{ MAP("[[2,2,2]]", "null", "null", "3", "cuda[0]"),
		  "{\"error\":\"device_layers is not a list of lists of so "
		  "many whole numbers from 0 to 2^64-1\"}" },
	};

	ask(GM_BATCH_PLAN, lines, COUNT(lines));
}

#define AUTO(layers, devices, paged) BY("fill", layers, devices, paged)
#define BY(strategy, layers, devices, paged)                               \
	"{\"op\":\"auto\",\"strategy\":\"" strategy "\",\"num_layers\":4," \
	"\"layer_sizes\":" layers ",\"non_mapped_size\":104857600,"        \
	"\"total_model_size\":524288000,\"mapped_act_elems\":1048576,"     \
	"\"non_mapped_act_elems\":0,\"dtype\":\"bf16\",\"max_seq_len\":"   \
	"1024,\"max_batch_size\":1,\"num_kv_heads\":1,\"k_head_dim\":64,"  \
	"\"v_head_dim\":64,\"mla\":null,\"devices\":[" devices             \
	"],\"cpu_avail\":419430400,\"paged\":" paged "}"
#define GPU(avail) \
	"{\"avail\":" avail ",\"total\":" avail ",\"integrated\":false}"

static void auto_fills_and_explains(void)
{
	static const struct line lines[] = {
		{ AUTO("[[104857600,4]]", GPU("860000000"), "null"),
		  "{\"ok\":{\"device_layers\":[[0,2]],\"host_layers\":2,"
		  "\"charges\":[{\"position\":0,\"n_layers\":2,"
		  "\"non_mapped\":true,\"weight_bytes\":314572800,"
		  "\"kv_bytes\":524288,\"activation_bytes\":2097152,"
		  "\"reserve_bytes\":536870912,\"left_bytes\":5934848},"
		  "{\"position\":null,\"n_layers\":2,\"non_mapped\":false,"
		  "\"weight_bytes\":209715200,\"kv_bytes\":524288,"
		  "\"activation_bytes\":2097152,\"reserve_bytes\":0,"
		  "\"left_bytes\":207093760}],\"warnings\":[]}}" },
		{ AUTO("[[104857600,3]]", GPU("860000000"), "null"),
		  "{\"error\":\"layer_sizes has fewer layers than "
		  "num_layers\"}" },
		{ AUTO("[[104857600,18446744073709551615]]", GPU("860000000"),
		       "null"),
		  "{\"error\":\"layer_sizes has more layers than "
		  "num_layers\"}" },
		{ AUTO("[[104857600,4]]", GPU("9000000000"),
		       "{\"block_size\":7,\"mem\":{\"mb\":64},"
		       "\"cache_type\":\"auto\"}"),
		  "{\"error\":\"Block size must be in [8, 16, 32], got 7\"}" },
		{ AUTO("[[104857600,4]]", "", "null"),
		  "{\"error\":\"This model does not fit on the devices "
		  "[\\\"cpu (avail: 400MB)\\\"], and exceeds total capacity "
		  "by 200MB. Auto device mapping params: text[max_seq_len: "
		  "1024, max_batch_size: 1]\"}" },
	};

	ask(GM_BATCH_PLAN, lines, COUNT(lines));
}

#define RATED(avail, score) "{\"avail\":" avail ",\"score\":" score "}"

static void other_strategies_look_at_scores(void)
{
	static const struct line lines[] = {
		{ BY("balance", "[[104857600,4]]",
		     RATED("960000000", "1.5") "," RATED("960000000", "4.5"),
		     "null"),
		  "{\"ok\":{\"device_layers\":[[0,1],[1,3]],\"host_layers\":0,"
		  "\"charges\":[{\"position\":0,\"n_layers\":1,"
		  "\"non_mapped\":true,\"weight_bytes\":209715200,"
		  "\"kv_bytes\":262144,\"activation_bytes\":2097152,"
		  "\"reserve_bytes\":536870912,\"left_bytes\":211054592},"
		  "{\"position\":1,\"n_layers\":3,\"non_mapped\":false,"
		  "\"weight_bytes\":314572800,\"kv_bytes\":786432,"
		  "\"activation_bytes\":2097152,\"reserve_bytes\":536870912,"
		  "\"left_bytes\":105672704}],\"warnings\":[]}}" },
		/* Equal parts by default; the host only where it must. */
		{ BY("fewest", "[[104857600,4]]",
		     GPU("700000000") "," GPU("860000000"), "null"),
		  "{\"ok\":{\"device_layers\":[[1,2]],\"host_layers\":2,"
		  "\"charges\":[{\"position\":1,\"n_layers\":2,"
		  "\"non_mapped\":true,\"weight_bytes\":314572800,"
		  "\"kv_bytes\":524288,\"activation_bytes\":2097152,"
		  "\"reserve_bytes\":536870912,\"left_bytes\":5934848},"
		  "{\"position\":null,\"n_layers\":2,\"non_mapped\":false,"
		  "\"weight_bytes\":209715200,\"kv_bytes\":524288,"
		  "\"activation_bytes\":2097152,\"reserve_bytes\":0,"
		  "\"left_bytes\":207093760}],\"warnings\":[]}}" },
		{ BY("balance", "[[104857600,4]]", RATED("960000000", "-1"),
		     "null"),
		  "{\"error\":\"devices: score is not from 0 to 10^12\"}" },
		{ BY("best", "[[104857600,4]]", "", "null"),
		  "{\"error\":\"strategy is not fill, balance or fewest\"}" },
		{ BY("balance", "[[104857600,4]]", "", "null"),
		  "{\"error\":\"This model does not fit on the 1 rows: layers "
		  "2 to 3, 210239488 bytes with their KV cache, find no "
		  "room\"}" },
	};

	ask(GM_BATCH_PLAN, lines, COUNT(lines));
}

static void sizes_are_exact(void)
{
	static const struct line lines[] = {
		{ "{\"op\":\"sizes\",\"vocab_size\":32000,\"hidden_size\":8192,"
		  "\"intermediate_size\":28672,\"num_hidden_layers\":80,"
		  "\"num_attention_heads\":64,\"num_key_value_heads\":8,"
		  "\"head_dim\":null,\"tie_word_embeddings\":false,\"dtype\":"
		  "\"f16\",\"weight_pack_factor\":1,\"max_seq_len\":4096,"
		  "\"max_batch_size\":1}",
		  "{\"ok\":{\"layer_size_bytes\":1711308800,"
		  "\"non_mapped_size_bytes\":1048592384,"
		  "\"mapped_max_act_elems\":67108864,"
		  "\"non_mapped_max_act_elems\":0,"
		  "\"kv_bytes_per_layer_unpaged\":16777216}}" },
		{ "{\"op\":\"sizes\",\"vocab_size\":0,\"hidden_size\":1,"
		  "\"intermediate_size\":0,\"num_hidden_layers\":1,"
		  "\"num_attention_heads\":1,\"num_key_value_heads\":1,"
		  "\"head_dim\":4611686018427387904,\"tie_word_embeddings\":"
		  "true,\"dtype\":\"f8e4m3\",\"weight_pack_factor\":1,"
		  "\"max_seq_len\":1,\"max_batch_size\":1}",
		  "{\"ok\":{\"layer_size_bytes\":6,\"non_mapped_size_bytes\":"
		  "1,\"mapped_max_act_elems\":1,\"non_mapped_max_act_elems\":"
		  "0,\"kv_bytes_per_layer_unpaged\":9223372036854775808}}" },
	};

	ask(GM_BATCH_PLAN, lines, COUNT(lines));
}

static void mesh_arranges_ranks(void)
{
	static const struct line lines[] = {
		{ "{\"topology\":{\"kind\":\"data\"},\"world_size\":4,\"rank\":"
		  "2}",
		  "{\"ok\":{\"expected_world_size\":1,\"groups\":[[\"world\","
		  "\"Mock\",[[0,4]]]],\"membership\":[[\"world\",2]]}}" },
		{ "{\"topology\":{\"kind\":\"tensor\",\"degree\":3},"
		  "\"world_size\":10,\"rank\":4}",
		  "{\"ok\":{\"expected_world_size\":3,\"groups\":[[\"tp_0\","
		  "\"Nccl\",[[0,3]]],[\"tp_1\",\"Nccl\",[[3,3]]],[\"tp_2\","
		  "\"Nccl\",[[6,3]]],[\"world\",\"Mock\",[[0,10]]]],"
		  "\"membership\":[[\"tp_1\",1],[\"world\",4]]}}" },
		{ "{\"topology\":{\"kind\":\"pipeline\",\"stages\":2},"
		  "\"world_size\":3,\"rank\":2}",
		  "{\"ok\":{\"expected_world_size\":2,\"groups\":"
		  "[[\"pp_stage_0\",\"Gloo\",[[0,1]]],[\"pp_stage_1\","
		  "\"Gloo\",[[1,1]]],[\"world\",\"Mock\",[[0,3]]]],"
		  "\"membership\":[[\"world\",2]]}}" },
		{ "{\"topology\":{\"kind\":\"mixed\",\"tp\":2,\"pp\":1,"
		  "\"dp\":2},\"world_size\":4,\"rank\":3}",
		  "{\"ok\":{\"expected_world_size\":4,\"groups\":"
		  "[[\"dp_tp0_pp0\",\"Nccl\",[[0,1],[2,1]]],[\"dp_tp1_pp0\","
		  "\"Nccl\",[[1,1],[3,1]]],[\"pp_dp0_tp0\",\"Nccl\",[[0,1]]],"
		  "[\"pp_dp0_tp1\",\"Nccl\",[[1,1]]],[\"pp_dp1_tp0\","
		  "\"Nccl\",[[2,1]]],[\"pp_dp1_tp1\",\"Nccl\",[[3,1]]],"
		  "[\"tp_dp0_pp0\",\"Nccl\",[[0,2]]],[\"tp_dp1_pp0\","
		  "\"Nccl\",[[2,2]]],[\"world\",\"Mock\",[[0,4]]]],"
		  "\"membership\":[[\"dp_tp1_pp0\",1],[\"pp_dp1_tp1\",0],"
		  "[\"tp_dp1_pp0\",1],[\"world\",3]]}}" },
	};

	ask(GM_BATCH_MESH, lines, COUNT(lines));
}

/* By bytes, so ten comes before two. */
static void mesh_sorts_by_name(void)
{
	static const char request[] =
		"{\"topology\":{\"kind\":\"pipeline\",\"stages\":12},"
		"\"world_size\":12,\"rank\":0}";
	char *got = gm_batch_answer(GM_BATCH_MESH, request, strlen(request));
	const char *one = strstr(got, "\"pp_stage_1\""),
		   *ten = strstr(got, "\"pp_stage_10\""),
		   *two = strstr(got, "\"pp_stage_2\"");

	OK(one && ten && two && one < ten && ten < two);
	free(got);
}

static void mesh_takes_worlds_of_any_size(void)
{
	static const struct line lines[] = {
		{ "{\"topology\":{\"kind\":\"mixed\",\"tp\":1,\"pp\":1,"
		  "\"dp\":1},\"world_size\":18446744073709551615,\"rank\":"
		  "18446744073709551614}",
		  "{\"ok\":{\"expected_world_size\":1,\"groups\":"
		  "[[\"dp_tp0_pp0\",\"Nccl\",[[0,1]]],[\"pp_dp0_tp0\","
		  "\"Nccl\",[[0,1]]],[\"tp_dp0_pp0\",\"Nccl\",[[0,1]]],"
		  "[\"world\",\"Mock\",[[0,18446744073709551615]]]],"
		  "\"membership\":[[\"world\",18446744073709551614]]}}" },
		{ "{\"topology\":{\"kind\":\"tensor\",\"degree\":"
		  "9223372036854775808},\"world_size\":"
		  "18446744073709551615,\"rank\":9223372036854775807}",
		  "{\"ok\":{\"expected_world_size\":9223372036854775808,"
		  "\"groups\":[[\"tp_0\",\"Nccl\",[[0,9223372036854775808]]],"
		  "[\"world\",\"Mock\",[[0,18446744073709551615]]]],"
		  "\"membership\":[[\"tp_0\",9223372036854775807],"
		  "[\"world\",9223372036854775807]]}}" },
		{ "{\"topology\":{\"kind\":\"tensor\",\"degree\":1},"
		  "\"world_size\":1048576,\"rank\":0}",
		  "{\"error\":\"the answer would list more than 1048576 runs "
		  "of ranks\"}" },
		{ "{\"topology\":{\"kind\":\"mixed\",\"tp\":2,\"pp\":1,"
		  "\"dp\":4611686018427387904},\"world_size\":"
		  "18446744073709551615,\"rank\":0}",
		  "{\"error\":\"the answer would list more than 1048576 runs "
		  "of ranks\"}" },
		{ "{\"topology\":{\"kind\":\"mixed\",\"tp\":4,\"pp\":1024,"
		  "\"dp\":128},\"world_size\":524288,\"rank\":0}",
		  "{\"error\":\"the answer would list more than 1048576 runs "
		  "of ranks\"}" },
	};

	ask(GM_BATCH_MESH, lines, COUNT(lines));
}

static void mesh_refuses_in_words(void)
{
	static const struct line lines[] = {
		{ "{\"topology\":{\"kind\":\"tensor\",\"degree\":4},"
		  "\"world_size\":3,\"rank\":7}",
		  "{\"error\":\"Tensor parallel degree 4 requires at least 4 "
		  "devices, got 3\"}" },
		{ "{\"topology\":{\"kind\":\"data\"},\"world_size\":3,\"rank\":"
		  "3}",
		  "{\"error\":\"Rank 3 out of bounds for world size 3\"}" },
		{ "{\"topology\":{\"kind\":\"data\"},\"world_size\":0,\"rank\":"
		  "0}",
		  "{\"error\":\"Rank 0 out of bounds for world size 0\"}" },
		{ "{\"topology\":{\"kind\":\"mixed\",\"tp\":4294967296,"
		  "\"pp\":4294967296,\"dp\":1},\"world_size\":3,\"rank\":0}",
		  "{\"error\":\"Mixed parallelism (TP=4294967296, "
		  "PP=4294967296, DP=1) requires 2^64 devices or more\"}" },
		{ "{\"topology\":{\"kind\":\"ring\"},\"world_size\":3,\"rank\":"
		  "0}",
		  "{\"error\":\"topology: kind is not data, tensor, pipeline "
		  "or mixed\"}" },
		{ "{\"topology\":{\"kind\":\"mixed\",\"tp\":2},"
		  "\"world_size\":3,\"rank\":0}",
		  "{\"error\":\"topology: pp is not a whole number from 0 to "
		  "2^64-1\"}" },
		{ "{\"topology\":\"data\",\"world_size\":3,\"rank\":0}",
		  "{\"error\":\"topology is not an object\"}" },
		{ "{\"topology\":{\"kind\":\"data\"},\"rank\":0}",
		  "{\"error\":\"world_size is not a whole number from 0 to "
		  "2^64-1\"}" },
		{ "{\"topology\":{\"kind\":\"data\"},\"world_size\":3}",
		  "{\"error\":\"rank is not a whole number from 0 to "
		  "2^64-1\"}" },
	};

	ask(GM_BATCH_MESH, lines, COUNT(lines));
}

static void split_gives_ranks_ranges_of_layers(void)
{
	static const struct line lines[] = {
		{ "{\"op\":\"pipeline\",\"n_layers\":32,\"world_size\":3,"
		  "\"list\":null,\"weights\":null}",
		  "{\"ok\":{\"ranges\":[[0,11],[11,22],[22,32]]}}" },
		{ "{\"op\":\"pipeline\",\"n_layers\":32,\"world_size\":2,"
		  "\"list\":\"10,22\",\"weights\":\"1,1\"}",
		  "{\"ok\":{\"ranges\":[[0,10],[10,32]]}}" },
		{ "{\"op\":\"pipeline\",\"n_layers\":18446744073709551615,"
		  "\"world_size\":2,\"weights\":\"0,1\"}",
		  "{\"ok\":{\"ranges\":[[0,0],[0,18446744073709551615]]}}" },
		{ "{\"op\":\"pipeline\",\"n_layers\":0,\"world_size\":0}",
		  "{\"ok\":{\"ranges\":[]}}" },
		{ "{\"op\":\"pipeline\",\"n_layers\":32,\"world_size\":2,"
		  "\"weights\":\"3,-1\"}",
		  "{\"error\":\"RING_MEM_GIB sums to 48 but model has 32 "
		  "layers\"}" },
		{ "{\"op\":\"pipeline\",\"n_layers\":32,\"world_size\":2,"
		  "\"list\":\"1\"}",
		  "{\"error\":\"RING_LAYER_SPLIT has 1 entries but world_size "
		  "is 2\"}" },
		{ "{\"op\":\"pipeline\",\"n_layers\":32,\"world_size\":0}",
		  "{\"error\":\"A pipeline of no ranks\"}" },
		{ "{\"op\":\"pipeline\",\"n_layers\":1,\"world_size\":1048577}",
		  "{\"error\":\"world_size is more than 1048576\"}" },
		{ "{\"op\":\"pipeline\",\"n_layers\":1,\"world_size\":1,"
		  "\"list\":[1]}",
		  "{\"error\":\"list is not a string\"}" },
		{ "{\"op\":\"ring\"}", "{\"error\":\"op is not pipeline\"}" },
		{ "{\"op\":null,\"devices\":[],\"n\":5}",
		  "{\"ok\":{\"tiles\":[],\"scores\":[],\"budgets\":[]}}" },
	};

	ask(GM_BATCH_SPLIT, lines, COUNT(lines));
}

#define CPU \
	"{\"id\":0,\"name\":\"CPU\",\"backend\":\"cpu\",\"memory_mb\":64000}"
#define A100                                                            \
	"{\"id\":0,\"name\":\"NVIDIA A100\",\"backend\":\"cuda\","      \
	"\"memory_mb\":81920,\"compute_units\":108,\"pci_bus_id\":"     \
	"\"0000:17:00.0\",\"partition_id\":\"GPU-a\",\"cuda_version\":" \
	"\"12.4\",\"compute_capability\":\"8.0\"}"
#define CARD(cc)                                                           \
	"{\"id\":1,\"name\":\"Big\",\"backend\":\" CUDA \",\"memory_mb\":" \
	"99999,\"pci_bus_id\":null,\"compute_capability\":" cc "}"

static void choose_prefers(void)
{
	static const struct line lines[] = {
		{ "{\"op\":\"preference\",\"spec\":\"a100\",\"devices\":[" CPU
		  "," A100 "]}",
		  "{\"ok\":{\"matches\":[false,true],\"selected\":1}}" },
		/* A CPU may match, but is not selected. */
		{ "{\"op\":\"preference\",\"spec\":\"cpu:0\",\"devices\":[" CPU
		  "," A100 "]}",
		  "{\"ok\":{\"matches\":[true,false],\"selected\":null}}" },
		{ "{\"op\":\"preference\",\"spec\":\" cuda : "
		  "1\",\"devices\":[" A100
		  "," CARD("null") "," CARD("null") "]}",
		  "{\"ok\":{\"matches\":[false,true,true],\"selected\":1}}" },
		{ "{\"op\":\"preference\",\"spec\":\" \",\"devices\":[" A100
		  "]}",
		  "{\"ok\":{\"matches\":[false],\"selected\":null}}" },
		{ "{\"op\":\"preference\",\"spec\":\"x\",\"devices\":[]}",
		  "{\"ok\":{\"matches\":[],\"selected\":null}}" },
		{ "{\"op\":\"preference\",\"spec\":\"x\",\"devices\":["
		  "{\"id\":0,\"name\":\"x\"}]}",
		  "{\"error\":\"devices: backend is not a string\"}" },
		{ "{\"op\":\"preference\",\"devices\":[]}",
		  "{\"error\":\"spec is not a string\"}" },
		{ "{\"op\":\"worst\"}",
		  "{\"error\":\"op is not preference, best, select or "
		  "topology\"}" },
	};

	ask(GM_BATCH_CHOOSE, lines, COUNT(lines));
}

static void choose_finds_the_best(void)
{
	static const struct line lines[] = {
		{ "{\"op\":\"best\",\"devices\":[" CPU "," A100
		  "," CARD("null") "]}",
		  "{\"ok\":{\"index\":2,\"provider\":\"cuda\"}}" },
		/* The last of equals is the best; 9.10 is above 9.9. */
		{ "{\"op\":\"best\",\"devices\":[" CARD("\"9.10\"") "," CARD(
			  "\"9.9\"") "]}",
		  "{\"ok\":{\"index\":0,\"provider\":\"cuda\"}}" },
		{ "{\"op\":\"best\",\"devices\":[" CARD("\"9.0\"") "," CARD(
			  "\" 9.0 \"") "," CARD("\"9.0a\"") "]}",
		  "{\"ok\":{\"index\":1,\"provider\":\"cuda\"}}" },
		{ "{\"op\":\"best\",\"devices\":[" CPU "]}",
		  "{\"ok\":{\"index\":null,\"provider\":\"cpu\"}}" },
		{ "{\"op\":\"best\",\"devices\":["
		  "{\"backend\":\"npu\",\"memory_mb\":1},"
		  "{\"backend\":\"directml\",\"memory_mb\":0},"
		  "{\"backend\":\"oneapi\",\"memory_mb\":0}]}",
		  "{\"ok\":{\"index\":0,\"provider\":\"oneapi\"}}" },
		{ "{\"op\":\"best\",\"devices\":[{\"backend\":\"npu\"}]}",
		  "{\"error\":\"devices: memory_mb is not a whole number from "
		  "0 to 2^64-1\"}" },
	};

	ask(GM_BATCH_CHOOSE, lines, COUNT(lines));
}

#define SELECT(policy, preferred, fallback, cuda, vram, id, strategy, devices) \
	"{\"op\":\"select\",\"policy\":\"" policy                              \
	"\",\"preferred_provider\":" preferred                                 \
	",\"fallback_providers\":[" fallback "],\"min_cuda_version\":" cuda    \
	",\"min_vram_mb\":" vram ",\"device_id\":" id                          \
	",\"strategy\":" strategy ",\"devices\":[" devices "]}"
#define NODE                                                  \
	"[0,\"cpu\",64000,null],[0,\"cuda\",16000,\"12.0\"]," \
	"[1,\"cuda\",80000,\"9.2\"],[0,\"rocm\",32000,null]"
#define PICK(policy, preferred, fallback, id, strategy) \
	SELECT(policy, preferred, fallback, "null", "null", id, strategy, NODE)

static void choose_selects_by_provider(void)
{
	static const struct line lines[] = {
		{ PICK("fastest", "null", "", "null", "null"),
		  "{\"ok\":{\"provider\":\"cuda\",\"devices\":[1,2]}}" },
		{ PICK("fastest", "\"cpu\"", "\"\"", "null", "null"),
		  "{\"ok\":{\"provider\":\"cpu\",\"devices\":[0]}}" },
		{ PICK("manifest", "\"CPU\"", "", "7", "null"),
		  "{\"ok\":{\"provider\":\"cpu\",\"devices\":[0]}}" },
		{ PICK("manifest", "null", "", "null", "null"),
		  "{\"ok\":{\"provider\":\"cuda\",\"devices\":[1,2]}}" },
		{ PICK("fastest", "\" TensorRT \"", "", "1", "\"single\""),
		  "{\"ok\":{\"provider\":\"tensorrt\",\"devices\":[2]}}" },
		{ PICK("fastest", "\"coreml\"", "\"rocm\"", "null", "null"),
		  "{\"ok\":{\"provider\":\"rocm\",\"devices\":[3]}}" },
		/* Strategies for several devices have no use for an id. */
		{ PICK("fastest", "\"cuda\"", "", "1", "\"Round-Robin\""),
		  "{\"ok\":{\"provider\":\"cuda\",\"devices\":[1,2]}}" },
		{ PICK("fastest", "\"cuda\"", "", "1", "\" pool\""),
		  "{\"ok\":{\"provider\":\"cuda\",\"devices\":[2]}}" },
		{ SELECT("fastest", "\"cuda\"", "", "\"9.10\"", "null", "null",
			 "null", NODE),
		  "{\"ok\":{\"provider\":\"cuda\",\"devices\":[1]}}" },
		{ SELECT("fastest", "\"cuda\"", "\"rocm\"", "\"12.4\"", "20000",
			 "null", "null", NODE),
		  "{\"ok\":{\"provider\":\"rocm\",\"devices\":[3]}}" },
		/* A CPU has no VRAM to lack. */
		{ SELECT("fastest", "null", "", "null", "90000", "null", "null",
			 NODE),
		  "{\"ok\":{\"provider\":\"cpu\",\"devices\":[0]}}" },
	};

	ask(GM_BATCH_CHOOSE, lines, COUNT(lines));
}

static void choose_selects_nothing_in_words(void)
{
	static const struct line lines[] = {
		{ PICK("manifest", "\"cuda\"", "\" x\\\"\\n\"", "5", "null"),
		  "{\"error\":\"Device ID 5 not found for providers "
		  "[\\\"cuda\\\", \\\" x\\\\\\\"\\\\n\\\"]\"}" },
		{ PICK("manifest", "null", "", "-1", "null"),
		  "{\"error\":\"Device ID 18446744073709551615 not found in "
		  "available devices\"}" },
		{ PICK("fastest", "\"metal\"", "", "null", "null"),
		  "{\"error\":\"No devices found for providers "
		  "[\\\"metal\\\"]\"}" },
		{ PICK("fastest", "\"metal\"", "", "5", "\"auto\""),
		  "{\"error\":\"No devices found for providers "
		  "[\\\"metal\\\"]\"}" },
		{ SELECT("manifest", "null", "", "null", "null", "null", "null",
			 "[0,\"vulkan\",1,null]"),
		  "{\"error\":\"No devices found\"}" },
		{ SELECT("fastest", "null", "", "null", "null", "null", "null",
			 ""),
		  "{\"error\":\"No devices found for providers "
		  "[\\\"cpu\\\"]\"}" },
		{ SELECT("fastest", "null", "", "\"12.x\"", "null", "null",
			 "null", NODE),
		  "{\"error\":\"\\\"12.x\\\" is no version\"}" },
		{ PICK("slowest", "null", "", "null", "null"),
		  "{\"error\":\"policy is not fastest or manifest\"}" },
		{ PICK("fastest", "null", "5", "null", "null"),
		  "{\"error\":\"fallback_providers has what is no text\"}" },
		{ SELECT("fastest", "null", "", "null", "null", "null", "null",
			 "[0,\"cuda\",1]"),
		  "{\"error\":\"devices is not a list of lists of id, "
		  "backend, memory_mb and cuda_version\"}" },
	};

	ask(GM_BATCH_CHOOSE, lines, COUNT(lines));
}

#define TOPOLOGY(name, degree, onnx, stages)                                   \
	"{\"op\":\"topology\",\"topology\":\"" name "\",\"tp_degree\":" degree \
	",\"onnx_generate\":" onnx ",\"stages\":" stages "}"
#define DATA(warning)                                                     \
	"{\"ok\":{\"mesh\":{\"kind\":\"data\"},\"worker_topology\":"      \
	"\"data-parallel\",\"worker_tp_degree\":1,\"warnings\":[" warning \
	"]}}"
#define STAGES(n, warning)                                       \
	"{\"ok\":{\"mesh\":{\"kind\":\"pipeline\",\"stages\":" n \
	"},\"worker_topology\":\"pipeline-parallel\","           \
	"\"worker_tp_degree\":" n ",\"warnings\":[" warning "]}}"

static void choose_takes_a_topology_that_runs(void)
{
	static const struct line lines[] = {
		{ TOPOLOGY("data-parallel", "4", "true", "2"), DATA("") },
		{ TOPOLOGY("ring", "4", "true", "2"), DATA("") },
		{ TOPOLOGY("pipeline", "2", "true", "2"), STAGES("2", "") },
		{ TOPOLOGY(" Pipeline-Parallel ", "0", "true", "1"),
		  STAGES("1", "") },
		{ TOPOLOGY("pipeline", "8", "true", "2"),
		  STAGES("2",
			 "\"Ignoring --tp-degree=8 for pipeline mode; using "
			 "metadata stage count=2\"") },
		{ TOPOLOGY("pipeline", "8", "false", "2"),
		  DATA("\"Pipeline topology requested but no usable LLM "
		       "pipeline metadata found; falling back to "
		       "data-parallel\"") },
		{ TOPOLOGY("pipeline", "8", "true", "null"),
		  DATA("\"Pipeline topology requested but no usable LLM "
		       "pipeline metadata found; falling back to "
		       "data-parallel\"") },
		{ TOPOLOGY("mixed", "8", "true", "3"),
		  STAGES("3",
			 "\"Mixed topology is not fully implemented; using "
			 "pipeline-parallel execution based on metadata "
			 "stages\"") },
		{ TOPOLOGY("mixed", "8", "true", "0"),
		  DATA("\"Mixed topology requested but no usable LLM pipeline "
		       "metadata found; falling back to data-parallel\"") },
		{ TOPOLOGY("tensor-parallel", "4", "true", "2"),
		  DATA("\"Tensor-parallel topology is not fully implemented in "
		       "backend execution; falling back to data-parallel\"") },
	};

	ask(GM_BATCH_CHOOSE, lines, COUNT(lines));
}

TAP_CASE()
{
	split_gives_ranks_ranges_of_layers();
	choose_prefers();
	choose_finds_the_best();
	choose_selects_by_provider();
	choose_selects_nothing_in_words();
	choose_takes_a_topology_that_runs();
	whatever_is_asked_is_answered();
	split_shares_by_score();
	spec_reads_and_prints();
	map_places_in_runs();
	auto_fills_and_explains();
	other_strategies_look_at_scores();
	sizes_are_exact();
	mesh_arranges_ranks();
	mesh_sorts_by_name();
	mesh_takes_worlds_of_any_size();
	mesh_refuses_in_words();
	return tap_done();
}
