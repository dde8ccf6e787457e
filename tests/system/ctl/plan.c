/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl plan: the table, the JSON and the refusals, on a node file
 * and on an agent's rows.
 */

#include <signal.h>

#include "tests/support/ctl.h"
#include "tests/support/ctl_model.h"

#define LAYERS 4

static char node[128];

/* Four layers of 4 MiB, and 2 MiB besides; 512 KiB of KV cache a layer, and 8
 * MiB of activations. */
static void make_model(void)
{
	static const char config[] =
		"{\"model_type\":\"llama\",\"num_hidden_layers\":4,"
		"\"hidden_size\":64,\"num_attention_heads\":4,"
		"\"num_key_value_heads\":2}";
	char header[4096], *at = header;
	int begin = 2 << 20;

	at += sprintf(at,
		      "{\"embed\":{\"dtype\":\"F16\",\"shape\":[1048576],"
		      "\"data_offsets\":[0,%d]}",
		      begin);
	for (int i = 0; i < LAYERS; i++, begin += 4 << 20)
		at += sprintf(at,
			      ",\"model.layers.%d.w\":{\"dtype\":\"F16\","
			      "\"shape\":[2097152],\"data_offsets\":[%d,%d]}",
			      i, begin, begin + (4 << 20));
	sprintf(at, "}");
	write_model(config, header, begin);
}

static void make_node(const char *free_bytes)
{
	FILE *file = fopen(node, "we");

	OK(file != NULL &&
	   fprintf(file,
		   "name: shelf\nrows:\n"
		   "  - name: card\n    kind: cuda\n    count: 2\n"
		   "    memory: 1G\n    free: %s\n"
		   "    compute-capability: 8.0\n    sm-count: 10\n"
		   "  - name: board\n    kind: host\n    cpus: 4\n"
		   "    memory: 1G\n",
		   free_bytes) > 0 &&
	   fclose(file) == 0);
}

#define PLAN(...) CTL("plan", "--model", model, "--node", node, __VA_ARGS__)

static void a_table_is_for_people(void)
{
	make_node("544M"); /* leaves 32 MiB after the reserve */
	EQ(PLAN("--strategy", "fill"), DONE);
	OK(prints(": 4 layers, 18.0 MiB of F16, on shelf\n"));
	OK(prints("auto by fill, bf16, 4096 tokens, batch 1, 512 KiB of KV "
		  "cache a layer\n"));
	OK(prints("\n  0* card                         0-3            0.02 "
		  "    0.00     0.01     0.50      0.00  #=+-----"));
	OK(prints("\n  1  card                         -              0.00 "
		  "    0.00     0.00     0.00      0.53  ........"));
	OK(prints("\n  spec 0:4\n"));
	EQ(PLAN("--strategy", "balance"), DONE);
	OK(prints("  0* card                         0-1 ") &&
	   prints("  1  card                         2-3 "));
	make_node("528M");
	EQ(PLAN("--strategy", "fill"), DONE);
	OK(prints("\n  spec 0:1;1:1;2:2\n"));
}

static json_int_t charged(const json_t *charges, const char *key)
{
	json_int_t sum = 0;
	const json_t *c;
	size_t i;

	json_array_foreach(charges, i, c)
	{
		OK(has_fields(c,
			      "row name dummy n_layers weight_bytes kv_bytes "
			      "activation_bytes reserve_bytes left_bytes"));
		sum += number(c, key);
	}
	return sum;
}

static void json_is_for_programs(void)
{
	const json_t *charges, *layers;
	json_t *json;

	make_node("544M");
	EQ(PLAN("--strategy", "balance", "--json"), DONE);
	json = object();
	OK(has_fields(
		json,
		"model node setting strategy stored_dtype isq dtype "
		"n_layers model_bytes max_seq_len max_batch_size "
		"kv_bytes engine paged base_row spec layers caches charges "
		"warnings "
		"committed version"));
	STR(text(json, "node"), "shelf");
	STR(text(json, "setting"), "auto");
	STR(text(json, "strategy"), "balance");
	STR(text(json, "dtype"), "bf16");
	STR(text(json, "spec"), "0:2;1:2");
	EQ(number(json, "kv_bytes"), 512 << 10);
	EQ(number(json, "model_bytes"), 18 << 20);
	layers = list(json, "layers", 2);
	EQ(json_integer_value(json_array_get(json_array_get(layers, 1), 0)), 1);
	EQ(json_integer_value(json_array_get(json_array_get(layers, 1), 1)), 2);
	charges = list(json, "charges", 2);
	EQ(charged(charges, "weight_bytes"), 18 << 20);
	EQ(charged(charges, "kv_bytes"), 2 << 20);
	EQ(charged(charges, "activation_bytes"), 16 << 20);
	EQ(charged(charges, "reserve_bytes"), 1 << 30);
	EQ(charged(charges, "left_bytes"), (64 - 36) << 20);
	json_decref(json);
}

/* Returns the spec in the answer, or the complaint when there is no answer. */
static const char *spec_of(void)
{
	static char spec[64];
	json_t *json;

	if (out[0] == '\0')
		return err;
	json = object();
	snprintf(spec, sizeof(spec), "%s@%d", text(json, "spec"),
		 (int)number(json, "base_row"));
	json_decref(json);
	return spec;
}

/* Bytes that are no text, and those that a terminal would obey. */
static void a_path_is_any_bytes(void)
{
	char other[160], want[200];
	json_t *json;

	snprintf(other, sizeof(other), "%s\xff\x1b[2J\n", model);
	EQ(symlink(model, other), 0);
	EQ(CTL("plan", "--model", other, "--node", node), DONE);
	snprintf(want, sizeof(want), "%s??[2J?: 4 layers", model);
	OK(prints(want) && strchr(out, '\x1b') == NULL);
	EQ(CTL("plan", "--model", other, "--node", node, "--json"), DONE);
	snprintf(want, sizeof(want), "%s\xef\xbf\xbd\x1b[2J\n", model);
	json = object();
	STR(text(json, "model"), want);
	json_decref(json);
	EQ(CTL("export", "--model", other, "--node", node, "--spec", "0:4",
	       "--for", "llama.cpp", "--json"),
	   DONE);
	json_decref(object());
	unlink(other);
}

/* A model of two layers, and one that predicts more tokens: a spec knows no
 * bytes that would tell it from a third. */
static void layers_past_the_last_are_no_maps(void)
{
	static const char config[] =
		"{\"model_type\":\"glm4_moe\",\"num_hidden_layers\":%d,"
		"\"num_nextn_predict_layers\":1}";
	char header[1024], *at = header, written[160];

	at += sprintf(at, "{\"e\":{\"dtype\":\"F16\",\"shape\":[4],"
			  "\"data_offsets\":[0,8]}");
	for (int i = 0; i < 3; i++)
		at += sprintf(at,
			      ",\"model.layers.%d.w\":{\"dtype\":\"F16\","
			      "\"shape\":[4],\"data_offsets\":[%d,%d]}",
			      i, 8 * i + 8, 8 * i + 16);
	sprintf(at, "}");
	snprintf(written, sizeof(written), config, 2);
	remove_model();
	write_model(written, header, 32);
	EQ(CTL("export", "--model", model, "--node", node, "--spec", "0:1;1:1",
	       "--for", "llama.cpp"),
	   DONE);
	OK(prints("--tensor-split") && prints("1,3"));
	snprintf(written, sizeof(written), config, 1);
	remove_model();
	write_model(written, header, 32);
	EQ(CTL("export", "--model", model, "--node", node, "--spec", "0:1;1:1",
	       "--for", "llama.cpp"),
	   FAILED);
	OK(complains("has 2 layers, the model 3"));
	remove_model();
	make_model();
}

static void every_setting_can_be_asked_for(void)
{
	char topology[160];
	FILE *file;

	snprintf(topology, sizeof(topology), "%s/topology", model);
	file = fopen(topology, "we");
	OK(file != NULL && fputs("0-3:\n  device: cuda[1]\n", file) >= 0 &&
	   fclose(file) == 0);
	make_node("1G");
#define SPEC(want, ...)                             \
	do {                                        \
		EQ(PLAN("--json", __VA_ARGS__), 0); \
		STR(spec_of(), want);               \
	} while (0)
	SPEC("1:3;2:1@1", "--spec", "1:3");
	SPEC("1:4@0", "--spec", "1:4", "--base-row", "0");
	SPEC("1:3;0:1@0", "--topology", topology);
	SPEC("0:1;1:3@0", "--split", "1,3");
	SPEC("0:3;1:1@0", "--weights", "24,8");
	SPEC("0:2;1:2@0", "--setting", "pipeline");
	SPEC("1:2;2:2@1", "--setting", "pipeline", "--rows", "1,2");
	SPEC("0:4@0", "--setting", "dummy");
	SPEC("1:4@1", "--setting", "nccl", "--base-row", "1");
	SPEC("1:4@1", "--rows", "1,0");
#undef SPEC
}

static void sizes_can_be_asked_for(void)
{
	json_t *json;

	make_node("1G");
	EQ(PLAN("--json", "--dtype", "f32", "--max-seq-len", "2048",
		"--max-batch", "3"),
	   DONE);
	json = object();
	EQ(number(json, "kv_bytes"), 3 * 512 << 10);
	EQ(number(json, "max_seq_len"), 2048);
	EQ(number(json, "max_batch_size"), 3);
	STR(text(json, "dtype"), "f32");
	json_decref(json);
	EQ(PLAN("--json", "--paged-mib", "64", "--paged-block", "16",
		"--cache-type", "f8e4m3"),
	   DONE);
	json = object();
	/* The pool's size is what was asked for, of more tokens. */
	EQ(number(json, "kv_bytes"), 16 << 20);
	OK(json_is_true(json_object_get(json, "paged")));
	json_decref(json);
	/* mistral.rs has twice the blocks then, and charges 16 bits. */
	EQ(PLAN("--json", "--paged-mib", "64", "--paged-block", "16",
		"--cache-type", "f8e4m3", "--like", "mistral.rs"),
	   DONE);
	json = object();
	EQ(number(json, "kv_bytes"), 32 << 20);
	json_decref(json);
	EQ(PLAN("--like", "vllm"), USAGE);
	OK(complains("--like is mistral.rs"));
	EQ(CTL("plan", "--model", model, "--commit", "m", "--like",
	       "mistral.rs"),
	   USAGE);
	OK(complains("cannot be committed"));
	EQ(PLAN("--json", "--paged-tokens", "65536"), DONE);
	json = object();
	EQ(number(json, "kv_bytes"), 8 << 20);
	json_decref(json);
	EQ(PLAN("--json", "--paged-share", "0.5"), DONE);
	json = object();
	OK(number(json, "kv_bytes") > 50 << 20);
	json_decref(json);
}

static void what_does_not_fit_is_said_with_what_would(void)
{
	json_t *json;

	make_node("520M"); /* with 8 MiB left of it */
	EQ(PLAN("--rows", "0,1"), FAILED);
	OK(complains("; it would fit with 20.0 MiB more on row 0, or 1 more "
		     "row like row 0\n"));
	EQ(PLAN("--rows", "0,1", "--json"), FAILED);
	json = object();
	OK(has_fields(json,
		      "error remedy missing_bytes missing_row "
		      "more_rows like_row max_seq_len max_batch_size isq"));
	EQ(number(json, "missing_bytes"), 20 << 20);
	EQ(number(json, "missing_row"), 0);
	EQ(number(json, "more_rows"), 1);
	EQ(number(json, "like_row"), 0);
	OK(json_is_null(json_object_get(json, "max_batch_size")));
	json_decref(json);
	make_node("544M");
	EQ(PLAN("--rows", "0", "--max-batch", "8"), FAILED);
	OK(complains(" more on row 0, or 1 more row like row 0, or "
		     "--max-seq-len 4"));
	OK(complains(", or --max-batch 1\n"));
	make_node("520M");
	EQ(PLAN("--spec", "1:4"), FAILED);
	OK(complains("Row 1 lacks 20.0 MiB: 18.0 MiB for weights, "));
	EQ(PLAN("--spec", "7:4"), FAILED);
	OK(complains("Could not find row 7: the rows are 0-2; ") &&
	   complains(" has rows 0 to 2\n"));
	EQ(PLAN("--spec", "1:5"), FAILED);
	OK(complains("The map places 5 layers but the model has 4"));
	EQ(PLAN("--rows", "0,5"), FAILED);
	OK(complains("there is no row 5 to plan on: "));
	OK(strstr(err, " has 0 to 2\n") != NULL);
}

/* The advice can be tried. */
static void a_quantised_model_is_planned(void)
{
	json_t *json;

	make_node("524M"); /* with 12 MiB left of it */
	EQ(PLAN("--rows", "0", "--max-seq-len", "64"), FAILED);
	OK(complains("weights quantised to Q8_0 (--isq Q8_0)\n"));
	EQ(PLAN("--rows", "0", "--max-seq-len", "64", "--isq", "Q8_0"), DONE);
	OK(prints(" of F16, as if quantised to Q8_0, on shelf\n"));
	EQ(PLAN("--isq", "4", "--json"), DONE);
	json = object();
	STR(text(json, "isq"), "Q4K");
	EQ(charged(json_object_get(json, "charges"), "weight_bytes"),
	   (18 << 20) / 4);
	json_decref(json);
	EQ(PLAN("--isq", "Q9"), USAGE);
	OK(complains("--isq: ISQ type Q9 unknown, choose one of `2`, "));
}

static void layers_on_hosts_are_warned_of(void)
{
	make_node("528M");
	EQ(PLAN("--strategy", "fill"), DONE);
	OK(prints("\n  warning: 2 of 4 layers are on host rows: CPUs compute "
		  "them, which takes far longer"));
	EQ(PLAN("--rows", "2"), DONE);
	OK(strstr(out, "warning") == NULL);
}

static void a_cache_without_room_is_refused_plainly(void)
{
	make_node("544M");
	EQ(PLAN("--rows", "0", "--paged-share", "0.1"), FAILED);
	OK(complains("The paged KV cache has no room for a block of 32 tokens: "
		     "a share of the first row's memory counts what the "
		     "weights of the whole model leave of it"));
	OK(strstr(err, "PagedAttention") == NULL);
}

static void wrong_command_lines_are_refused(void)
{
	make_node("1G");
	EQ(CTL("plan"), USAGE);
	OK(complains("give --model"));
	EQ(PLAN("--spec", "4", "--split", "2,2"), USAGE);
	EQ(PLAN("--setting", "some"), USAGE);
	OK(complains("--setting is manual, auto, topology"));
	EQ(PLAN("--setting", "dummy", "--spec", "4"), USAGE);
	EQ(PLAN("--setting", "manual"), USAGE);
	OK(complains("--setting manual needs --spec"));
	EQ(PLAN("--setting", "topology"), USAGE);
	OK(complains("--setting topology needs --topology"));
	EQ(PLAN("--strategy", "fill", "--spec", "4"), USAGE);
	OK(complains("--strategy is for automatic maps"));
	EQ(PLAN("--commit", "m"), USAGE);
	OK(complains("--node file cannot be committed"));
	EQ(PLAN("--strategy", "best"), USAGE);
	OK(complains("--strategy is fill, balance or fewest"));
	EQ(PLAN("--dtype", "i8"), USAGE);
	OK(complains("--dtype is auto, bf16, f16, f32 or f64"));
	EQ(PLAN("--dtype", "u8"), USAGE);
	EQ(PLAN("--paged-mib", "1", "--paged-tokens", "1"), USAGE);
	EQ(PLAN("--paged-block", "8"), USAGE);
	EQ(PLAN("--paged-mib", "8", "--paged-block", "7"), USAGE);
	OK(complains("--paged-block is 8, 16 or 32"));
	EQ(PLAN("--paged-mib", "0"), USAGE);
	EQ(PLAN("--max-seq-len", "0"), USAGE);
	OK(complains("--max-seq-len: \"0\" is less than one"));
	EQ(PLAN("--max-batch", "0"), USAGE);
	EQ(PLAN("--paged-share", "1.5"), USAGE);
	EQ(PLAN("--paged-mib", "8", "--cache-type", "u8"), USAGE);
	EQ(PLAN("--engine", "tgi"), USAGE);
	OK(complains("vllm"));
	EQ(PLAN("--engine", "vllm", "--like", "mistral.rs"), USAGE);
	EQ(PLAN("--engine", "hf", "--paged-mib", "8"), FAILED);
	OK(complains("transformers 5.24.0 has no paged KV cache"));
	EQ(PLAN("--topology", "/nowhere"), FAILED);
	OK(complains("/nowhere: No such file or directory; give the path of "));
	EQ(PLAN("--split", "2,1"), FAILED);
	OK(complains("RING_LAYER_SPLIT sums to 3 but model has 4 layers; "));
	EQ(PLAN("--weights", "3,-1"), FAILED);
	OK(complains("RING_MEM_GIB sums to 6 but model has 4 layers; "));
	EQ(CTL("plan", "--model", model, "--node", "/nowhere"), FAILED);
	EQ(CTL("plan", "--model", "/nowhere", "--node", node), FAILED);
	EQ(ctl_of("nobody", WORDS("plan", "--model", model)), NO_AGENT);
}

static void rows_are_the_agents_without_a_file(void)
{
	const json_t *charges;
	json_t *json;

	EQ(CTL("plan", "--model", model, "--json"), DONE);
	json = object();
	OK(json_is_null(json_object_get(json, "node")));
	STR(text(json, "spec"), "0:4");
	charges = list(json, "charges", 1);
	EQ(charged(charges, "weight_bytes"), 18 << 20);
	EQ(charged(charges, "reserve_bytes"),
	   0); /* a host row has no reserve */
	json_decref(json);
	EQ(CTL("plan", "--model", model, "--strategy", "balance", "--rows",
	       "1,0"),
	   DONE);
	OK(prints("spec 1:2;0:2\n"));
}

/* Returns the reserved bytes of all rows together. */
static json_int_t reserved(void)
{
	json_int_t sum = 0;
	json_t *json;
	const json_t *d;
	size_t i;

	EQ(CTL("devices", "--json"), DONE);
	json = object();
	json_array_foreach(json_object_get(json, "devices"), i, d) sum +=
		number(d, "reserved_bytes");
	json_decref(json);
	return sum;
}

#define COMMIT(...) CTL("plan", "--model", model, "--commit", __VA_ARGS__)

static void a_plan_is_committed(void)
{
	json_t *json;

	EQ(COMMIT("kept", "--rows", "1,0", "--setting", "pipeline", "--json"),
	   DONE);
	json = object();
	STR(text(json, "committed"), "kept");
	OK(number(json, "version") > 0);
	STR(text(json, "spec"), "1:2;0:2");
	STR(text(json, "dtype"), "bf16");
	EQ(number(json, "kv_bytes"), 512 << 10);
	/* 18 MiB of weights, 2 of cache, 8 of activations on each row. */
	EQ(charged(list(json, "charges", 2), "weight_bytes"), 18 << 20);
	json_decref(json);
	EQ(reserved(), 36 << 20);
	EQ(CTL("devices"), DONE);
	OK(prints(" reserved ") && prints("   17.0 MiB ") &&
	   prints("   19.0 MiB "));
	EQ(CTL("layers", "kept"), DONE);
	OK(prints("4 layers over 2 rows, 1:2;0:2\n"));

	/* A new plan of the same name replaces the reservation of the old
	 * one. */
	EQ(COMMIT("kept", "--spec", "0:4", "--base-row", "1", "--max-batch",
		  "2", "--dtype", "f32"),
	   DONE);
	OK(prints("committed as kept, version ") && prints("manual, f32, "));
	EQ(reserved(), (18 + 8 + 32) << 20);

	EQ(COMMIT("more", "--max-batch", "100000000"), FAILED);
	OK(complains("; it would fit with "));
	EQ(COMMIT("more", "--max-batch", "100000000", "--json"), FAILED);
	json = object();
	OK(number(json, "max_batch_size") > 0);
	json_decref(json);
	EQ(CTL("layers", "more"), FAILED);
	EQ(COMMIT("", "--spec", "0:4"), FAILED);
	OK(complains("needs a name"));
	EQ(reserved(), (18 + 8 + 32) << 20);
	EQ(CTL("release", "kept"), DONE);
	EQ(reserved(), 0);
}

/* Returns the largest batch possible for "half", which the refusal of an
 * impossible batch reports. */
static json_int_t largest_batch(void)
{
	json_int_t batch;
	json_t *json;

	EQ(COMMIT("half", "--rows", "0", "--max-batch", "100000000", "--json"),
	   FAILED);
	json = object();
	batch = number(json, "max_batch_size");
	json_decref(json);
	return batch;
}

/* A map's own reservation does not count against a new map of the same name. */
static void advice_counts_what_would_be_replaced(void)
{
	json_int_t most = largest_batch();
	char batch[32];

	snprintf(batch, sizeof(batch), "%d", (int)(most / 2));
	EQ(COMMIT("half", "--rows", "0", "--max-batch", batch), DONE);
	/* If the reservation counted, the advice would be about half.  The
	 * margin allows for other uses of the machine's memory. */
	OK(largest_batch() > most / 8 * 5);
	EQ(CTL("release", "half"), DONE);
}

static void nothing_is_planned_on_a_drained_row(void)
{
	EQ(CTL("drain", "0"), DONE);
	EQ(CTL("plan", "--model", model), DONE);
	OK(prints("spec 1:4\n"));
	EQ(CTL("plan", "--model", model, "--rows", "1,0"), FAILED);
	OK(complains("row 0 is drained or cordoned: gpumapctl undrain or "
		     "uncordon brings it back"));
	EQ(CTL("plan", "--model", model, "--spec", "0:2;1:2"), FAILED);
	OK(complains("Row 0 is drained"));
	OK(complains("gpumapctl undrain"));
	EQ(CTL("plan", "--model", model, "--setting", "pipeline", "--rows",
	       "1"),
	   DONE);
	EQ(CTL("undrain", "0"), DONE);
	EQ(CTL("plan", "--model", model, "--rows", "1,0"), DONE);
}

static void weights_are(const char *spec, const char *like, json_int_t first,
			json_int_t second)
{
	json_t *json, *charges;

	EQ(like != NULL ? PLAN("--json", "--spec", spec, "--like", like)
			: PLAN("--json", "--spec", spec),
	   DONE);
	json = object();
	charges = json_object_get(json, "charges");
	EQ(number(json_array_get(charges, 0), "weight_bytes"), first);
	EQ(number(json_array_get(charges, 1), "weight_bytes"), second);
	json_decref(json);
}

/* Two layers of 100 bytes, an embedding of 10 and a head of 30. */
static void the_head_is_with_the_last_layer(void)
{
	make_node("1G");
	remove_model();
	write_model("{\"num_hidden_layers\":2,\"hidden_size\":8,"
		    "\"num_attention_heads\":1}",
		    "{\"model.embed_tokens.weight\":{\"dtype\":\"U8\","
		    "\"shape\":[10],\"data_offsets\":[0,10]},"
		    "\"model.layers.0.w\":{\"dtype\":\"U8\","
		    "\"shape\":[100],\"data_offsets\":[10,110]},"
		    "\"model.layers.1.w\":{\"dtype\":\"U8\","
		    "\"shape\":[100],\"data_offsets\":[110,210]},"
		    "\"lm_head.weight\":{\"dtype\":\"U8\","
		    "\"shape\":[30],\"data_offsets\":[210,240]}}",
		    240);
	weights_are("0:1;1:1", NULL, 110, 130);
	weights_are("0:1;1:1", "mistral.rs", 140, 100);
}

/* Four layers of 128 bytes a token: 4 tokens are a block of 16 and a null block
 * of vLLM, a token more of SGLang, 256 of llama.cpp, and as many of
 * transformers. */
static void engines_keep_more(void)
{
	static const struct {
		const char *engine, *release;
		json_int_t bytes;
	} table[] = {
		{ "vllm", "vLLM 0.33.0", 4 * 32 * 128 },
		{ "sglang", "SGLang 0.5.23", 4 * 5 * 128 },
		{ "llama.cpp", "llama.cpp 0c1e57098", 4 * 256 * 128 },
		{ "hf", "transformers 5.24.0", 4 * 4 * 128 },
	};
	char line[64];

	make_node("544M");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		json_t *json;

		EQ(PLAN("--json", "--max-seq-len", "4", "--spec", "4",
			"--engine", table[i].engine),
		   DONE);
		json = object();
		STR(text(json, "engine"), table[i].release);
		EQ(charged(list(json, "charges", 1), "kv_bytes"),
		   table[i].bytes);
		json_decref(json);
		EQ(PLAN("--max-seq-len", "4", "--spec", "4", "--engine",
			table[i].engine),
		   DONE);
		snprintf(line, sizeof(line),
			 "KV cache a layer, as kept by %s\n", table[i].release);
		OK(prints(line));
	}
}

TAP_CASE()
{
	if (!ctl_start("[host]\nrows = 2\n"))
		return tap_done();
	snprintf(model, sizeof(model), "%s.model", agent.dir);
	snprintf(node, sizeof(node), "%s/node.yaml", agent.dir);
	make_model();
	a_table_is_for_people();
	json_is_for_programs();
	a_path_is_any_bytes();
	layers_past_the_last_are_no_maps();
	every_setting_can_be_asked_for();
	sizes_can_be_asked_for();
	engines_keep_more();
	what_does_not_fit_is_said_with_what_would();
	a_quantised_model_is_planned();
	layers_on_hosts_are_warned_of();
	a_cache_without_room_is_refused_plainly();
	wrong_command_lines_are_refused();
	rows_are_the_agents_without_a_file();
	nothing_is_planned_on_a_drained_row();
	a_plan_is_committed();
	advice_counts_what_would_be_replaced();
	the_head_is_with_the_last_layer();
	remove_model();
	unlink(node);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	return tap_done();
}
