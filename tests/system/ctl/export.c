/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl export: JSON, words for a shell, variables and files, of a
 * map of the agent's and of a spec on a node file; and refusals.
 */

#include <signal.h>

#include "tests/support/ctl.h"
#include "tests/support/ctl_model.h"

#define LAYERS 4

static char node[128], script[160];

/* ---- what it is given ---------------------------------------------------- */

static void make_model(void)
{
	static const char config[] =
		"{\"model_type\":\"llama\",\"num_hidden_layers\":4,"
		"\"hidden_size\":64,\"num_attention_heads\":4,"
		"\"num_key_value_heads\":2}";
	char header[4096], *at = header;

	at += sprintf(at, "{\"model.embed.w\":{\"dtype\":\"U8\",\"shape\":[1],"
			  "\"data_offsets\":[0,1]}");
	for (int i = 0; i < LAYERS; i++)
		at += sprintf(at,
			      ",\"model.layers.%d.w\":{\"dtype\":\"U8\","
			      "\"shape\":[1],\"data_offsets\":[%d,%d]}",
			      i, i + 1, i + 2);
	sprintf(at, "}");
	write_model(config, header, LAYERS + 1);
}

/* Two cards, the first of two instances, and a host that is row 4. */
static void make_node(void)
{
	FILE *file = fopen(node, "we");

	OK(file != NULL &&
	   fputs("name: shelf\nrows:\n"
		 "  - name: card\n    kind: cuda\n    memory: 1G\n"
		 "    compute-capability: 9.0\n    count: 2\n"
		 "  - name: part\n    kind: cuda\n    memory: 400M\n"
		 "    mig: 3g.40gb\n    compute-capability: 9.0\n"
		 "    count: 2\n"
		 "  - name: board\n    kind: host\n    memory: 1G\n",
		 file) >= 0 &&
	   fclose(file) == 0);
}

#define NODE(...) CTL("export", "--node", node, __VA_ARGS__)

static bool lists(const json_t *json, const char *key, const char *want)
{
	const json_t *word;
	char text[512] = "";
	size_t i, n = 0;

	json_array_foreach(json_object_get(json, key), i, word)
	{
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s",
				      i > 0 ? " " : "",
				      json_string_value(word));
	}
	return STR(text, want);
}

/* ---- JSON ---------------------------------------------------------------- */

static void json_has_the_settings(void)
{
	const json_t *env;
	json_t *json;

	EQ(NODE("--spec", "0:3;3:1", "--for", "llama.cpp"), DONE);
	json = object();
	OK(has_fields(json, "argv env exact notes"));
	OK(lists(json, "argv",
		 "--device CUDA0,CUDA1 --n-gpu-layers 5 --split-mode layer "
		 "--tensor-split 3,2 --fit off"));
	OK(json_is_true(json_object_get(json, "exact")));
	env = json_object_get(json, "env");
	EQ((intmax_t)json_object_size(env), 2);
	/* Row 1 is split, so it has no ordinal. */
	STR(text(env, "CUDA_VISIBLE_DEVICES"), "0,2");
	STR(text(env, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
	json_decref(json);

	EQ(NODE("--spec", "0:1", "--layers", "3", "--for", "mistralrs",
		"--json"),
	   DONE);
	json = object();
	OK(has_fields(json, "argv env exact notes topology"));
	OK(lists(json, "argv", "-n 0:1"));
	STR(text(json, "topology"),
	    "0-1:\n  device: cuda[0]\n1-3:\n  device: cpu\n");
	json_decref(json);

	EQ(NODE("--spec", "0:2;2:2", "--base-row", "2", "--for", "accelerate",
		"--model", model, "--format", "json"),
	   DONE);
	json = object();
	OK(has_fields(json, "argv env exact notes device_map"));
	EQ(number(json_object_get(json, "device_map"), "model.layers.1"), 1);
	EQ(number(json_object_get(json, "device_map"), "model.embed"), 0);
	json_decref(json);
}

/* ---- other formats ------------------------------------------------------- */

/* A shell reads the words again. */
static void words_survive_a_shell(void)
{
	const char *const argv[] = { "sh", script, NULL };
	FILE *file = fopen(script, "we");

	OK(file != NULL &&
	   fprintf(file,
		   "set -e\nask() { '%s' export --node '%s' "
		   "--spec '0:2;4:2' --for \"$@\" 2>/dev/null; }\n"
		   "eval \"set -- $(ask llama.cpp --format argv)\"\n"
		   "printf '<%%s>' \"$@\"\n"
		   "eval \"$(ask llama.cpp --format env)\"\n"
		   "printf '{%%s}' \"$LLAMA_ARG_OVERRIDE_TENSOR\"\n"
		   "eval \"set -- $(ask mistralrs --format argv "
		   "--topology \"a b'c\")\"\n"
		   "printf '<%%s>' \"$@\"\n",
		   ctl_program(), node) > 0 &&
	   fclose(file) == 0);
	EQ(run(argv), 0);
	STR(out, "<--device><CUDA0><--n-gpu-layers><5><--split-mode><layer>"
		 "<--tensor-split><5><--override-tensor>"
		 "<^blk\\.(2|3)\\.=CPU><--fit><off>{^blk\\.(2|3)\\.=CPU}"
		 "<-n><0:2>");
}

static void formats_are_lines(void)
{
	EQ(NODE("--spec", "0:1;2:3", "--for", "vllm", "--format", "env"), 1);
	OK(complains("gpumapctl: export: layer 1 is on row 2, a MIG instance, "
		     "and the ranks of vLLM need whole cards"));
	EQ(NODE("--spec", "0:4", "--for", "sglang", "--format", "env"), DONE);
	STR(out, "CUDA_VISIBLE_DEVICES=0\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n");
	OK(strstr(err, "gpumapctl: The table has no UUIDs") == err);
	EQ(NODE("--spec", "0:4", "--for", "sglang", "--format", "argv"), DONE);
	STR(out, "--tensor-parallel-size 1 --pipeline-parallel-size 1\n");
	EQ(NODE("--spec", "4:2;0:2", "--for", "mistralrs", "--format", "argv",
		"--topology", "a b'c"),
	   DONE);
	STR(out, "-n 0:4 --topology 'a b'\\''c'\n");
	EQ(NODE("--spec", "0:2;4:2", "--for", "env", "--format", "env"), DONE);
	OK(strstr(err, "gpumapctl: these settings are not exact\n") == err);
	EQ(NODE("--spec", "4:4", "--for", "accelerate", "--model", model,
		"--format", "yaml"),
	   DONE);
	STR(out, "{\"model.layers.0\": \"cpu\", \"model.layers.1\": \"cpu\", "
		 "\"model.layers.2\": \"cpu\", \"model.layers.3\": \"cpu\", "
		 "\"model.embed\": \"cpu\", \"lm_head\": \"cpu\"}\n");
}

/* The topology means the same to plan, which reads those of mistral.rs. */
static void a_topology_is_the_map(void)
{
	const char *source = getenv("abs_top_srcdir");
	static const json_int_t want[][2] = { { 8, 1 }, { 0, 2 }, { 1, 1 } };
	char path[192], eight[512];
	const json_t *layers;
	json_t *json;
	FILE *file;

	snprintf(eight, sizeof(eight), "%s/tests/nodes/eight-gpu.yaml",
		 source != NULL ? source : ".");
	EQ(CTL("export", "--node", eight, "--spec", "8:1;0:2;1:1", "--for",
	       "mistralrs", "--format", "yaml"),
	   DONE);
	STR(out, "0-1:\n  device: cpu\n1-3:\n  device: cuda[0]\n3-4:\n  "
		 "device: cuda[1]\n");
	in_model(path, "topology");
	file = fopen(path, "we");
	OK(file != NULL && fputs(out, file) >= 0 && fclose(file) == 0);
	EQ(CTL("plan", "--model", model, "--node", eight, "--topology", path,
	       "--json"),
	   DONE);
	json = object();
	layers = list(json, "layers", 3);
	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < 2; k++)
			EQ(json_integer_value(json_array_get(
				   json_array_get(layers, i), k)),
			   want[i][k]);
	json_decref(json);
}

/* ---- maps of the agent's ------------------------------------------------- */

static void maps_of_the_agent(void)
{
	json_t *json;

	EQ(CTL("publish", "hosts", "--spec", "0:2;1:2"), DONE);
	EQ(CTL("publish", "host", "--spec", "1:4"), DONE);
	EQ(CTL("export", "host", "--for", "llama.cpp"), DONE);
	json = object();
	OK(lists(json, "argv", "--device none --n-gpu-layers 0 --fit off"));
	STR(text(json_object_get(json, "env"), "CUDA_VISIBLE_DEVICES"), "-1");
	/* The other host row has memory as well. */
	OK(json_is_false(json_object_get(json, "exact")));
	json_decref(json);
	EQ(CTL("export", "hosts", "--for", "llama.cpp"), FAILED);
	OK(complains("export \"hosts\": layer 2 is on row 1, and other layers "
		     "on host row 0: llama.cpp has one CPU device"));
	EQ(CTL("export", "none", "--for", "llama.cpp"), FAILED);
	OK(complains("there is no layer map \"none\"; gpumapctl maps lists"));
	EQ(CTL("export", "host", "--for", "accelerate", "--model", "nowhere"),
	   FAILED);
	OK(complains("nowhere"));
	EQ(ctl_of("no-such", WORDS("export", "host", "--for", "env")),
	   NO_AGENT);
}

static void command_lines_are_checked(void)
{
	EQ(CTL("export", "host"), USAGE);
	OK(complains("give --for and an engine"));
	EQ(CTL("export", "--for", "vllm"), USAGE);
	OK(complains("give the NAME of a layer map, or --node with --spec"));
	EQ(CTL("export", "host", "--for", "vllm", "--layers", "3"), USAGE);
	EQ(CTL("export", "host", "--node", node, "--spec", "1", "--for",
	       "vllm"),
	   USAGE);
	EQ(NODE("--for", "vllm"), USAGE);
	EQ(CTL("export", "host", "--for", "torch"), USAGE);
	OK(complains("--for is llama.cpp, ollama, vllm, sglang, mistralrs, "
		     "accelerate or env, not \"torch\""));
	EQ(CTL("export", "host", "--for", "env", "--format", "xml"), USAGE);
	OK(complains("--format is json, argv, env or yaml, not \"xml\""));
	EQ(CTL("export", "host", "--for", "env", "--format", "env", "--json"),
	   USAGE);
	EQ(CTL("export", "host", "--for", "env", "--format", "yaml"), USAGE);
	OK(complains("--format yaml is the topology of mistralrs"));
	EQ(CTL("export", "host", "more", "--for", "env"), USAGE);
	OK(complains("takes 1 operand, not 2"));
	EQ(NODE("--spec", "0:4", "--layers", "65537", "--for", "env"), FAILED);
	OK(complains("More than the 65536 layers"));
	EQ(NODE("--spec", "0:4", "--layers", "18446744073709551615", "--for",
		"env"),
	   USAGE);
	OK(complains("--layers: a layer map has at most 65536"));
	EQ(NODE("--spec", "0:x", "--for", "env"), FAILED);
	OK(complains("Failed to parse x as integer."));
	EQ(NODE("--spec", "0:4", "--base-row", "5", "--for", "env"), FAILED);
	OK(complains("there is no row 5"));
	EQ(NODE("--spec", "1:4", "--for", "env"), FAILED);
	OK(complains("layer 0 is on row 1, a card that is split"));
}

TAP_CASE()
{
	if (!ctl_start("[host]\nrows = 2\n"))
		return tap_done();
	snprintf(model, sizeof(model), "%s.model", agent.dir);
	snprintf(node, sizeof(node), "%s/node.yaml", agent.dir);
	snprintf(script, sizeof(script), "%s/script", agent.dir);
	make_model();
	make_node();
	json_has_the_settings();
	words_survive_a_shell();
	formats_are_lines();
	a_topology_is_the_map();
	maps_of_the_agent();
	command_lines_are_checked();
	remove_model();
	unlink(node);
	unlink(script);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	return tap_done();
}
