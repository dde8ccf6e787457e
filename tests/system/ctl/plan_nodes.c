/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl plan --nodes: the table, the words of each launcher, and
 * what is said of nodes that are left out, on a cluster that this test
 * publishes.
 */

#include "tests/support/ctl_cluster.h"
#include "tests/support/ctl_model.h"
#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/story.h"

#define HOUR_NS (3600 * CLUSTER_SECOND)

enum { STALE = 5 };

static struct lab_node nodes[5];
static struct gpumap *map;

/* Four live nodes of two cards, of which b and e have the model, and one that
 * is gone; this node is a. */
static void publish(void)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	char address[32];

	for (uint32_t i = 0; i < 5; i++) {
		snprintf(address, sizeof(address), "10.0.0.%u", i + 1);
		lab_node(&nodes[i], names[i], address);
		for (uint32_t k = 0; k < 2; k++)
			lab_card(&nodes[i], 78);
	}
	nodes[0].info.flags = GPUMAP_CLUSTER_SELF;
	nodes[2].info.state = GPUMAP_CLUSTER_GONE;
	nodes[2].info.age_ns = 2550 * CLUSTER_SECOND;
	nodes[3].devices[1].flags |= GPUMAP_DEVICE_CORDONED;
	strcpy(nodes[4].info.address, "fd00::5");
	lab_share(&nodes[1], "llama", 0xaa);
	lab_share(&nodes[4], "llama", 0xaa);
	EQ(lab_publish(map, nodes, 5, HOUR_NS, GPUMAP_CLUSTER_HEARD), 0);
}

#define PLAN(...)                                                          \
	CTL("plan", "--nodes", "any", "--layers", "80", "--bytes", "160G", \
	    "--tp", "2", __VA_ARGS__)

/* ---- text ---------------------------------------------------------------- */

static void a_table_has_each_rank(void)
{
	EQ(PLAN("--nodes", "2"), DONE);
	STR(out,
	    "model: 80 layers, 160 GiB\n"
	    "2 of 5 nodes of lab, 2 stages, tensor parallel 2, bf16\n\n"
	    "rank  node                 row  stage  layers      weights       "
	    "KV     act.     kept      left  in GiB\n"
	    "   0  a                      0      0  0-39          40.00     "
	    "0.00     0.00     1.56     36.44\n"
	    "   1  a                      1      0  0-39          40.00     "
	    "0.00     0.00     1.56     36.44\n"
	    "   2  b                      0      1  40-79         40.00     "
	    "0.00     0.00     1.56     36.44\n"
	    "   3  b                      1      1  40-79         40.00     "
	    "0.00     0.00     1.56     36.44\n"
	    "\nleft out: c: gone for 42 min\n"
	    "left out: d row 1: cordoned\n");
	STR(err, "");
}

static void nodes_with_the_model_come_first(void)
{
	EQ(PLAN("--nodes", "2", "--share", "llama"), DONE);
	OK(prints("\n   2  e   ") && prints("\nhave the model: b, e\n"));
	EQ(PLAN("--nodes", "2", "--fingerprint",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aa"),
	   DONE);
	OK(prints("\nhave the model: b, e\n"));
	EQ(PLAN("--nodes", "2", "--share", "llama", "--only", "a,e"), DONE);
	OK(prints("\n   0  a   ") && prints("\nhave the model: e\n"));
	EQ(PLAN("--nodes", "2", "--share", "lama"), DONE);
	OK(prints(
		"\nnone of these nodes has the model: gpumapctl cluster mod"));
	/* Which of two models is meant? */
	memset(nodes[4].shares[0].fingerprint, 0xbb, 32);
	EQ(lab_publish(map, nodes, 5, HOUR_NS, GPUMAP_CLUSTER_HEARD), 0);
	EQ(PLAN("--nodes", "2", "--share", "llama"), DONE);
	OK(strstr(err, "different models of the name \"llama\"") != NULL);
	OK(!prints("have the model: ") && prints("has the model: gpumapctl"));
	publish();
}

static void what_does_not_fit_is_said_with_the_nodes_left_out(void)
{
	EQ(PLAN("--bytes", "800G"), FAILED);
	STR(out, "");
	OK(strncmp(err, "gpumapctl: 45 of 80 layers fit on nodes ", 40) == 0);
	OK(strstr(err, ", 2 devices each: ") != NULL);
	OK(strstr(err, " lacks ") != NULL);
	OK(strstr(err, "gpumapctl: node c is left out: gone for 42 min\n"
		       "gpumapctl: row 1 of node d is left out: cordoned\n") !=
	   NULL);
	EQ(PLAN("--nodes", "4"), FAILED);
	EQ(PLAN("--only", "c"), FAILED);
	OK(strstr(err, "0 nodes can take a part of the model") != NULL);
	EQ(PLAN("--only", "a,x"), FAILED);
	OK(complains("there is no node \"x\""));
	EQ(PLAN("--tp", "4"), FAILED);
	OK(strstr(err, "No node has 4 devices") != NULL);
}

/* A program is told what may be otherwise at another time. */
static void a_refusal_is_an_object(void)
{
	json_t *json;

	EQ(PLAN("--bytes", "800G", "--json"), FAILED);
	json = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
	OK(has_fields(json, "cluster node version age_ns limit_ns stale errno "
			    "why left_out"));
	STR(text(json, "errno"), "ENOSPC");
	list(json, "left_out", 2);
	json_decref(json);
	EQ(PLAN("--nodes", "5", "--json"), FAILED);
	json = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
	STR(text(json, "errno"), "ENODEV");
	json_decref(json);
	EQ(PLAN("--only", "x", "--json"), FAILED);
	STR(out, "");
}

static void a_stale_cluster_has_no_plan(void)
{
	EQ(CTL("plan", "--nodes", "any", "--layers", "8", "--bytes", "8G"),
	   FAILED);
	OK(complains("cluster: this node is in none: start gpumap-sync"));
	publish();
	EQ(lab_publish(map, nodes, 5, 1, GPUMAP_CLUSTER_HEARD), 0);
	EQ(PLAN("--nodes", "2"), STALE);
	OK(complains("cluster lab is stale"));
	publish();
}

static void a_thousand_nodes_are_planned_on(void)
{
	const struct cluster_nodes many = {
		.n = 1024, .n_devices = 8, .n_shares = 2, .content = 1
	};
	uint64_t start;

	EQ(cluster_nodes_publish(map, &many, GPUMAP_CLUSTER_HEARD), 0);
	start = story_now();
	CTL("plan", "--nodes", "any", "--layers", "80", "--bytes", "8G");
	NOTE("plan --nodes in %" PRIu64 " ms: %.200s%.200s",
	     (story_now() - start) / 1000000, out, err);
}

static void options_that_contradict_are_refused(void)
{
	EQ(CTL("plan", "--nodes", "any"), USAGE);
	OK(complains("give --model, or --layers with --bytes"));
	EQ(CTL("plan", "--nodes", "any", "--layers", "3"), USAGE);
	EQ(CTL("plan", "--nodes", "any", "--bytes", "3G"), USAGE);
	EQ(PLAN("--model", "x"), USAGE);
	EQ(PLAN("--for", "x"), USAGE);
	OK(complains("--for"));
	EQ(PLAN("--for", "llama.cpp"), USAGE);
	EQ(PLAN("--port", "65536"), USAGE);
	EQ(PLAN("--isq", "q4k"), USAGE);
	EQ(PLAN("--fingerprint", "12"), USAGE);
	EQ(PLAN("--dtype", "x"), USAGE);
	EQ(CTL("plan", "--nodes", "any", "--model", "/no/such/model"), FAILED);
	EQ(PLAN("--nodes", "0"), USAGE);
	EQ(PLAN("--nodes", "some"), USAGE);
	OK(complains("give a number of nodes, or any"));
	EQ(PLAN("--rows", "0"), USAGE);
	EQ(PLAN("--strategy", "fill"), USAGE);
	OK(complains("one of these options is for rows of this node"));
	EQ(CTL("plan", "--model", "x", "--tp", "2"), USAGE);
	OK(complains("one of these options needs --nodes"));
}

/* ---- launchers ----------------------------------------------------------- */

#define NODE_A                                                             \
	"# node a, 10.0.0.1: node rank 0 of 2, ranks: 2\n"                 \
	"export CUDA_VISIBLE_DEVICES="                                     \
	"GPU-61000000-0000-0000-0000-000000000001,"                        \
	"GPU-61000000-0000-0000-0000-000000000002\n"                       \
	"export CUDA_DEVICE_ORDER=PCI_BUS_ID\nexport GPUMAP_CLUSTER=lab\n" \
	"export GPUMAP_MAP=m\nexport GPUMAP_NODE=a\n"                      \
	"export GPUMAP_NODE_RANK=0\nexport GPUMAP_NODES=2\n"               \
	"export GPUMAP_ROWS=0,1\nexport GPUMAP_WORLD_SIZE=4\n"
#define NODE_E                                                             \
	"\n# node e, fd00::5: node rank 1 of 2, ranks: 2\n"                \
	"export CUDA_VISIBLE_DEVICES="                                     \
	"GPU-65000000-0000-0000-0000-000000000001,"                        \
	"GPU-65000000-0000-0000-0000-000000000002\n"                       \
	"export CUDA_DEVICE_ORDER=PCI_BUS_ID\nexport GPUMAP_CLUSTER=lab\n" \
	"export GPUMAP_MAP=m\nexport GPUMAP_NODE=e\n"                      \
	"export GPUMAP_NODE_RANK=1\nexport GPUMAP_NODES=2\n"               \
	"export GPUMAP_ROWS=0,1\nexport GPUMAP_WORLD_SIZE=4\n"

#define MASTER_A                        \
	"export MASTER_ADDR=10.0.0.1\n" \
	"export MASTER_PORT=29500\nexport WORLD_SIZE=4\n"

#define FOR(launcher, only) \
	PLAN("--nodes", "2", "--only", only, "--name", "m", "--for", launcher)

static void launchers_have_their_words(void)
{
	EQ(FOR("env", "a,e"), DONE);
	STR(out, NODE_A MASTER_A "\"$@\"\n" NODE_E MASTER_A "\"$@\"\n");
	EQ(FOR("torchrun", "a,e"), DONE);
	STR(out, NODE_A
	    "torchrun --nnodes=2 --node_rank=0 --nproc_per_node=2 "
	    "--rdzv_backend=static --rdzv_endpoint=10.0.0.1:29500 --rdzv_id=m "
	    "\"$@\"\n" NODE_E
	    "torchrun --nnodes=2 --node_rank=1 --nproc_per_node=2 "
	    "--rdzv_backend=static --rdzv_endpoint=10.0.0.1:29500 --rdzv_id=m "
	    "\"$@\"\n");
	EQ(FOR("vllm", "a,e"), DONE);
	STR(out,
	    NODE_A "export VLLM_PP_LAYER_PARTITION=40,40\n"
		   "export VLLM_HOST_IP=10.0.0.1\n"
		   "vllm serve \"$@\" --tensor-parallel-size 2 "
		   "--pipeline-parallel-size 2 --nnodes 2 --node-rank 0 "
		   "--distributed-executor-backend mp --master-addr 10.0.0.1 "
		   "--master-port 29501\n" NODE_E
		   "export VLLM_PP_LAYER_PARTITION=40,40\n"
		   "export VLLM_HOST_IP=fd00::5\n"
		   "vllm serve \"$@\" --tensor-parallel-size 2 "
		   "--pipeline-parallel-size 2 --nnodes 2 --node-rank 1 "
		   "--distributed-executor-backend mp --master-addr 10.0.0.1 "
		   "--master-port 29501 --headless\n");
	EQ(FOR("sglang", "a,e"), DONE);
	OK(prints(NODE_A "export SGLANG_PP_LAYER_PARTITION=40,40\n"
			 "python3 -m sglang.launch_server \"$@\" "
			 "--tensor-parallel-size 2 --pipeline-parallel-size 2 "
			 "--nnodes 2 --node-rank 0 --dist-init-addr "
			 "10.0.0.1:20000\n"));
	/* The first node is the one with an IPv6 address. */
	EQ(PLAN("--bytes", "80G", "--only", "e", "--for", "sglang"), DONE);
	OK(strstr(out, "--nnodes") == NULL);
	EQ(PLAN("--bytes", "80G", "--only", "e", "--for", "torchrun", "--port",
		"7"),
	   DONE);
	OK(prints(" '--rdzv_endpoint=[fd00::5]:7' "));
}

static void mpirun_has_a_context_for_each_node(void)
{
	EQ(FOR("mpirun", "a,b"), DONE);
	OK(strncmp(out,
		   "# node a\nmpirun -np 2 --host 10.0.0.1:2 -x "
		   "CUDA_VISIBLE_DEVICES="
		   "GPU-61000000-0000-0000-0000-000000000001,",
		   100) == 0);
	OK(prints(" -x WORLD_SIZE=4 \"$@\" : -np 2 --host 10.0.0.2:2 -x "
		  "CUDA_VISIBLE_DEVICES="
		  "GPU-62000000-0000-0000-0000-000000000001,"));
	OK(prints(" -x MASTER_ADDR=10.0.0.1 "));
}

/* Its devices are those of RPC servers first, and then its own. */
static void llama_cpp_has_this_node_last(void)
{
	EQ(CTL("plan", "--nodes", "any", "--layers", "80", "--bytes", "300G",
	       "--for", "llama.cpp", "--only", "a,b,d", "--nodes", "3"),
	   DONE);
	OK(prints("# node b, 10.0.0.2: node rank 0 of 3, ranks: 2\n"));
	OK(prints("ggml-rpc-server --host 10.0.0.2 --port 50052\n"));
	OK(prints("# node a, 10.0.0.1: node rank 2 of 3, ranks: 2\n"));
	OK(prints("llama-server \"$@\" --rpc 10.0.0.2:50052,10.0.0.4:50052 "
		  "--n-gpu-layers 81 --split-mode layer --tensor-split "
		  "16,16,16,16,17 --fit off\n"));
	/* A node that is not in the plan shows no card of its own. */
	EQ(CTL("plan", "--nodes", "any", "--layers", "80", "--bytes", "200G",
	       "--for", "llama.cpp", "--only", "b,e"),
	   DONE);
	OK(prints("\n# node a\nexport CUDA_VISIBLE_DEVICES=-1\nllama-server "
		  "\"$@\" --rpc '10.0.0.2:50052,[fd00::5]:50052' "));
}

/* Where no node has a card: CPUs have the first layers, and each server is one
 * device. */
static void llama_cpp_has_this_nodes_cpus_first(void)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct gpumap_cluster_device *d = &nodes[i / 2].devices[i % 2];

		d->kind = GPUMAP_DEVICE_HOST;
		d->flags = GPUMAP_DEVICE_SERVES | GPUMAP_DEVICE_MAIN_MEMORY;
	}
	EQ(lab_publish(map, nodes, 2, HOUR_NS, GPUMAP_CLUSTER_HEARD), 0);
	EQ(CTL("plan", "--nodes", "any", "--layers", "80", "--bytes", "300G",
	       "--for", "llama.cpp"),
	   DONE);
	OK(prints("# node a, 10.0.0.1: node rank 0 of 2, ranks: 2\n"
		  "export CUDA_VISIBLE_DEVICES=-1\n"));
	OK(prints("\nllama-server \"$@\" --rpc 10.0.0.2:50052 --n-gpu-layers "
		  "41 --fit off\n"));
	publish();
}

/* ---- JSON ---------------------------------------------------------------- */

static void an_object_has_the_mesh(void)
{
	const json_t *mesh, *one;
	json_t *json;

	EQ(PLAN("--json", "--nodes", "2", "--for", "vllm"), DONE);
	json = object();
	OK(has_fields(json, "cluster node version age_ns limit_ns stale model "
			    "n_layers model_bytes dtype isq tp pp nodes "
			    "stages ranks mesh left_out commands"));
	EQ(number(json, "tp"), 2);
	EQ(number(json, "pp"), 2);
	OK(has_fields(json_array_get(list(json, "nodes", 2), 0),
		      "node_rank name address self warm first_rank ranks"));
	OK(has_fields(json_array_get(list(json, "stages", 2), 1),
		      "stage node first_layer n_layers"));
	one = json_array_get(list(json, "ranks", 4), 3);
	OK(has_fields(one, "rank node row local_rank uuid stage tp_rank "
			   "weight_bytes kv_bytes activation_bytes "
			   "reserve_bytes left_bytes"));
	EQ(number(one, "local_rank"), 1);
	EQ(number(one, "tp_rank"), 1);
	STR(text(one, "node"), "b");
	mesh = json_object_get(json, "mesh");
	STR(text(mesh, "topology"), "mixed=2x2x1");
	EQ(number(mesh, "world"), 4);
	OK(json_array_size(json_object_get(mesh, "groups")) >= 5);
	OK(has_fields(json_array_get(list(json, "left_out", 2), 1),
		      "node row why"));
	one = json_array_get(list(json, "commands", 2), 1);
	OK(has_fields(one, "node env argv"));
	STR(text(json_object_get(one, "env"), "GPUMAP_NODE"), "b");
	json_decref(json);
	EQ(PLAN("--json", "--nodes", "2"), DONE);
	json = object();
	OK(json_is_null(json_object_get(json, "commands")));
	json_decref(json);
}

/* ---- a checkpoint -------------------------------------------------------- */

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
		      "{\"model.embed_tokens.weight\":{\"dtype\":\"F16\","
		      "\"shape\":[1048576],"
		      "\"data_offsets\":[0,%d]}",
		      begin);
	for (int i = 0; i < 4; i++, begin += 4 << 20)
		at += sprintf(at,
			      ",\"model.layers.%d.w\":{\"dtype\":\"F16\","
			      "\"shape\":[2097152],\"data_offsets\":[%d,%d]}",
			      i, begin, begin + (4 << 20));
	sprintf(at, "}");
	snprintf(model, sizeof(model), "%s/model", agent.dir);
	write_model(config, header, begin);
}

static void a_checkpoint_is_measured(void)
{
	const json_t *rank;
	json_t *json;

	make_model();
	EQ(CTL("plan", "--nodes", "any", "--model", model, "--nodes", "2",
	       "--tp", "2", "--json"),
	   DONE);
	json = object();
	STR(text(json, "model"), model);
	EQ(number(json, "n_layers"), 4);
	EQ(number(json, "model_bytes"), 18 << 20);
	rank = json_array_get(list(json, "ranks", 4), 3);
	EQ(number(rank, "weight_bytes"), (2 * 2 + 2) << 20);
	EQ(number(rank, "kv_bytes"), 2 * (256 << 10));
	EQ(number(rank, "activation_bytes"), 4 << 20);
	json_decref(json);
	EQ(CTL("plan", "--nodes", "any", "--model", model, "--nodes", "2",
	       "--tp", "2", "--isq", "q4k", "--max-seq-len", "8192", "--dtype",
	       "f32", "--json"),
	   DONE);
	json = object();
	STR(text(json, "dtype"), "f32");
	rank = json_array_get(list(json, "ranks", 4), 3);
	OK(number(rank, "weight_bytes") < 3 << 20);
	EQ(number(rank, "kv_bytes"), 2 * (1 << 20));
	json_decref(json);
	EQ(CTL("plan", "--nodes", "any", "--model", model, "--tp", "3"),
	   FAILED);
	OK(complains("The model's 4 attention heads are not to be divided by "
		     "3 tensor parallel ranks; take 1 or 2"));
	remove_model();
}

TAP_CASE()
{
	if (!ctl_start(NULL))
		return tap_done();
	map = story_attach(&agent);
	a_stale_cluster_has_no_plan();
	a_table_has_each_rank();
	nodes_with_the_model_come_first();
	what_does_not_fit_is_said_with_the_nodes_left_out();
	a_refusal_is_an_object();
	options_that_contradict_are_refused();
	launchers_have_their_words();
	mpirun_has_a_context_for_each_node();
	llama_cpp_has_this_node_last();
	llama_cpp_has_this_nodes_cpus_first();
	an_object_has_the_mesh();
	a_checkpoint_is_measured();
	a_thousand_nodes_are_planned_on();
	gpumap_detach(map);
	return tap_done();
}
