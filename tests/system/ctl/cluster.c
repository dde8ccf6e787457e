/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl cluster: nodes, devices, models and topo of a cluster that
 * this test publishes, with nodes that are gone, and when all of it is stale.
 */

#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/ctl_cluster.h"
#include "tests/support/story.h"

#define HOUR_NS (3600 * CLUSTER_SECOND)

enum { STALE = 5 };

static struct lab_node nodes[5];
static struct gpumap *map;

/* a is this node; b has less room and a cordoned row; c is gone, d was
 * refused. */
static void make_nodes(void)
{
	lab_node(&nodes[0], "a", "10.0.0.1");
	lab_node(&nodes[1], "b", "10.0.0.2");
	lab_node(&nodes[2], "c", "node-c.example");
	lab_node(&nodes[3], "d", "10.0.0.4");
	nodes[0].info.flags = GPUMAP_CLUSTER_SELF;
	nodes[1].info.more_devices = 3;
	nodes[1].info.flags = GPUMAP_CLUSTER_NO_GANGS;
	nodes[2].info.state = GPUMAP_CLUSTER_GONE;
	nodes[2].info.age_ns = 2550 * CLUSTER_SECOND;
	nodes[3].info.state = GPUMAP_CLUSTER_REFUSED;
	for (uint32_t i = 0; i < 3; i++)
		for (uint32_t k = 0; k < 2; k++)
			lab_card(&nodes[i], 70 - 20 * i);
	nodes[0].devices[1].reserved_bytes = 30 * CLUSTER_GIB;
	nodes[0].devices[1].used_by_holders = 10 * CLUSTER_GIB;
	nodes[1].devices[1].flags = GPUMAP_DEVICE_CORDONED;
	lab_share(&nodes[0], "llama", 0xaa);
	lab_share(&nodes[2], "llama", 0xaa);
	lab_share(&nodes[1], "llama", 0xbb);
	lab_share(&nodes[1], "qwen", 0);
}

static bool publish(uint64_t limit_ns)
{
	make_nodes();
	return EQ(lab_publish(map, nodes, 4, limit_ns, GPUMAP_CLUSTER_HEARD),
		  0);
}

/* ---- text ---------------------------------------------------------------- */

#define NODES_TEXT                                                             \
	"node                 address                  state       since  "    \
	"rows      total       free  shares\n"                                 \
	"a                    10.0.0.1                 live      120 min     " \
	"2    160 GiB    120 GiB       1  this node\n"                         \
	"b                    10.0.0.2                 live      120 min     " \
	"5   80.0 GiB   50.0 GiB       2  no gangs\n"                          \
	"c                    node-c.example           gone       42 min     " \
	"2    160 GiB   60.0 GiB       1\n"                                    \
	"d                    10.0.0.4                 refused   120 min     " \
	"0        0 B        0 B       0\n"

#define DEVICES_HEAD                                                        \
	"node                 row  kind  state           total       free " \
	"  reserved links  name\n"
#define DEVICES_A                                                           \
	"a                      0  cuda  READY        80.0 GiB   70.0 GiB " \
	"       0 B    18  NVIDIA H100\n"                                   \
	"a                      1  cuda  READY        80.0 GiB   50.0 GiB " \
	"  30.0 GiB    18  NVIDIA H100\n"
#define DEVICES_B0                                                          \
	"b                      0  cuda  READY        80.0 GiB   50.0 GiB " \
	"       0 B    18  NVIDIA H100\n"
#define DEVICES_B1                                                          \
	"b                      1  cuda  READY        80.0 GiB   50.0 GiB " \
	"       0 B    18  NVIDIA H100, cordoned\n"
#define DEVICES_C                                                           \
	"c                      0  cuda  READY        80.0 GiB   30.0 GiB " \
	"       0 B    18  NVIDIA H100, node gone\n"                        \
	"c                      1  cuda  READY        80.0 GiB   30.0 GiB " \
	"       0 B    18  NVIDIA H100, node gone\n"

static void tables_say_what_nodes_have(void)
{
	if (!publish(HOUR_NS))
		return;
	EQ(CTL("cluster", "nodes"), DONE);
	STR(out, NODES_TEXT);
	STR(err, "");
	EQ(CTL("cluster", "devices"), DONE);
	STR(out, DEVICES_HEAD DEVICES_A DEVICES_B0 DEVICES_B1 DEVICES_C);
	EQ(CTL("cluster", "devices", "--node", "a"), DONE);
	STR(out, DEVICES_HEAD DEVICES_A);
	EQ(CTL("cluster", "devices", "--free", "60G"), DONE);
	OK(prints("70.0 GiB"));
	OK(strstr(out, "50.0 GiB") == NULL && strstr(out, "\nb") == NULL);
	EQ(CTL("cluster", "devices", "--sort", "free", "--node", "a"), DONE);
	STR(out, DEVICES_HEAD DEVICES_A);
	EQ(CTL("cluster", "models"), DONE);
	STR(out, "model                          size  fingerprint   nodes\n"
		 "llama                       128 GiB  aaaaaaaaaaaa  a, c "
		 "(gone)\n"
		 "llama                       128 GiB  bbbbbbbbbbbb  b\n"
		 "qwen                        128 GiB  -             b\n");
	EQ(CTL("cluster", "models", "qwen"), DONE);
	STR(out, "model                          size  fingerprint   nodes\n"
		 "qwen                        128 GiB  -             b\n");
	EQ(CTL("cluster", "topo"), DONE);
	OK(prints("lab: 4 nodes, 1 of them gone, 6 rows\n\n"
		  "node a  10.0.0.1  this node\n"
		  "  row 0  cuda  NVIDIA H100  18 NVLinks\n"
		  "    [#####...................................] 10.0 GiB "
		  "used, 0 B promised, 70.0 GiB free of 80.0 GiB\n"
		  "  row 1  cuda  NVIDIA H100  18 NVLinks\n"
		  "    [#####==========.........................] 10.0 GiB "
		  "used, 20.0 GiB promised, 50.0 GiB free of 80.0 GiB\n"
		  "  llama: 128 GiB on row 0,1\n"));
	OK(prints("node b  10.0.0.2  it takes no gangs\n"));
	OK(prints("NVLinks  cordoned\n"));
	OK(prints("  3 more rows\n"));
	OK(prints("node c  node-c.example  gone for 42 min\n"));
	OK(prints("node d  10.0.0.4  its summary was refused"));
}

/* The column of @text in its line of what was printed; -1: there is none. */
static long column_of(const char *text)
{
	const char *at = strstr(out, text), *from = at;

	while (from != NULL && from > out && from[-1] != '\n')
		from--;
	return at != NULL ? at - from : -1;
}

/* As of machines in a cloud. */
static void columns_fit_long_names(void)
{
	static const char name[] = "ip-10-0-12-34.eu-west-1.compute.internal";

	make_nodes();
	lab_node(&nodes[4], name, name);
	lab_share(&nodes[4], "a-model-of-a-name-that-is-longer-than-most",
		  0xcc);
	EQ(lab_publish(map, nodes, 5, HOUR_NS, GPUMAP_CLUSTER_HEARD), 0);
	EQ(CTL("cluster", "nodes"), DONE);
	EQ(column_of("state"), 2 * (long)sizeof(name));
	EQ(column_of("refused"), column_of("state"));
	OK(prints("compute.internal live "));
	EQ(CTL("cluster", "devices"), DONE);
	EQ(column_of("cuda"), column_of("kind"));
	EQ(CTL("cluster", "models"), DONE);
	EQ(column_of("aaaaaaaaaaaa"), column_of("fingerprint"));
	EQ(column_of("cccccccccccc"), column_of("fingerprint"));
}

/* ---- JSON ---------------------------------------------------------------- */

#define HEAD_FIELDS "cluster node version age_ns limit_ns stale "

/* The list of the object that was printed; *ret_json is to be given back. */
static const json_t *listed(const char *key, size_t n, json_t **ret_json)
{
	char fields[256];

	*ret_json = object();
	snprintf(fields, sizeof(fields), HEAD_FIELDS "%s", key);
	OK(has_fields(*ret_json, fields));
	STR(text(*ret_json, "cluster"), "lab");
	STR(text(*ret_json, "node"), "a");
	OK(json_is_false(json_object_get(*ret_json, "stale")));
	return list(*ret_json, key, n);
}

static void objects_say_the_same(void)
{
	const json_t *all, *one;
	json_t *json;

	if (!publish(HOUR_NS))
		return;
	EQ(CTL("--json", "cluster", "nodes"), DONE);
	all = listed("nodes", 4, &json);
	one = json_array_get(all, 1);
	OK(has_fields(one, "name address state self gangs draining age_ns "
			   "epoch agent_version devices more_devices shares "
			   "more_shares total_bytes free_bytes"));
	EQ(number(one, "more_devices"), 3);
	EQ(number(one, "free_bytes"), (intmax_t)(50 * CLUSTER_GIB));
	OK(json_is_false(json_object_get(one, "gangs")));
	STR(text(json_array_get(all, 2), "state"), "gone");
	json_decref(json);

	EQ(CTL("cluster", "devices", "--json"), DONE);
	all = listed("devices", 6, &json);
	one = json_array_get(all, 1);
	OK(has_fields(one, "node node_state row uuid name kind state cordoned "
			   "split numa_node compute_capability total_bytes "
			   "free_bytes reserved_bytes used_by_holders "
			   "available_bytes nvlinks"));
	STR(text(one, "uuid"), "61000000-0000-0000-0000-000000000002");
	STR(text(one, "compute_capability"), "9.0");
	EQ(number(one, "available_bytes"), (intmax_t)(50 * CLUSTER_GIB));
	json_decref(json);

	EQ(CTL("cluster", "--json", "models"), DONE);
	all = listed("models", 3, &json);
	one = json_array_get(all, 0);
	OK(has_fields(one, "name fingerprint bytes nodes"));
	EQ(strlen(text(one, "fingerprint")), 64);
	OK(has_fields(json_array_get(list(one, "nodes", 2), 1),
		      "node state rows uid kept"));
	OK(json_is_null(
		json_object_get(json_array_get(all, 2), "fingerprint")));
	json_decref(json);

	EQ(CTL("cluster", "topo", "--json"), DONE);
	all = listed("nodes", 4, &json);
	one = json_array_get(all, 0);
	OK(has_fields(one, "name address state rows models"));
	OK(has_fields(json_array_get(list(one, "rows", 2), 0),
		      "row kind name state nvlinks total_bytes used_bytes "
		      "promised_bytes free_bytes"));
	OK(has_fields(json_array_get(list(one, "models", 1), 0),
		      "name bytes rows"));
	json_decref(json);
}

/* ---- what goes wrong ----------------------------------------------------- */

static void a_stale_cluster_is_said_first(void)
{
	static const char *const commands[] = { "nodes", "devices", "models",
						"topo" };
	json_t *json;

	/* A limit that has passed at once. */
	if (!publish(1))
		return;
	for (size_t i = 0; i < 4; i++) {
		EQ(CTL("cluster", commands[i]), STALE);
		OK(strncmp(err, "gpumapctl: cluster lab is stale: ", 33) == 0);
		OK(strchr(err, '\n')[1] == '\0' && out[0] != '\0');
		EQ(CTL("cluster", commands[i], "--json"), STALE);
		json = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
		OK(json_is_true(json_object_get(json, "stale")));
		json_decref(json);
	}
	EQ(CTL("cluster", "plan", "--layers", "8", "--bytes", "8G"), STALE);
	OK(complains("cluster lab is stale"));
}

/* While gpumap-sync tells of it nothing is forgotten. */
static void a_stale_cluster_can_be_left(void)
{
	publish(HOUR_NS);
	EQ(CTL("cluster", "leave"), FAILED);
	OK(complains("stop it first"));
	EQ(CTL("cluster", "nodes"), DONE);
	publish(1);
	EQ(CTL("cluster", "leave"), DONE);
	EQ(CTL("cluster", "nodes"), FAILED);
	EQ(CTL("cluster", "leave"), FAILED);
}

static void what_is_not_there_is_said(void)
{
	if (!publish(HOUR_NS))
		return;
	EQ(CTL("cluster", "models", "x"), FAILED);
	OK(complains("there is no model \"x\"; gpumapctl cluster models"));
	EQ(CTL("cluster", "devices", "--node", "x"), FAILED);
	OK(complains("there is no node \"x\"; gpumapctl cluster nodes"));
	EQ(CTL("cluster", "devices", "--sort", "x"), USAGE);
	OK(complains("--sort"));
	EQ(CTL("cluster"), USAGE);
	OK(complains("\"cluster\" is no command: cluster nodes, cluster dev"));
	EQ(CTL("cluster", "x"), USAGE);
	OK(complains("\"cluster x\" is no command: cluster nodes, cluster "));
	EQ(CTL("cluster", "nodes", "--tp", "2"), USAGE);
	EQ(CTL("scatter", "--tp", "2"), USAGE);
	EQ(CTL("cluster", "nodes", "x"), USAGE);
}

/* Names of devices and models come from other machines. */
static void a_terminal_obeys_no_name(void)
{
	json_t *json;

	make_nodes();
	strcpy(nodes[1].devices[0].name, "\033[31mred\007\200");
	if (lab_publish(map, nodes, 4, HOUR_NS, GPUMAP_CLUSTER_HEARD) != 0) {
		/* The agent takes none that it could obey. */
		OK(strstr(gpumap_refusal(map), "name") != NULL);
		return;
	}
	EQ(CTL("cluster", "devices"), DONE);
	OK(prints("?[31mred??"));
	OK(strchr(out, '\033') == NULL && strchr(out, '\007') == NULL);
	EQ(CTL("cluster", "topo"), DONE);
	OK(strchr(out, '\033') == NULL);
	EQ(CTL("cluster", "devices", "--json"), DONE);
	json = object();
	json_decref(json);
}

/* ---- completion ---------------------------------------------------------- */

static int complete(const char *const words[])
{
	const char *argv[WORDS_MAX + 8] = {
		ctl_program(),   "complete",   "--",
		"gpumapctl",     "--instance", agent.instance,
		"--runtime-dir", agent.dir
	};

	for (int i = 0; i < WORDS_MAX && words[i] != NULL; i++)
		argv[8 + i] = words[i];
	return run(argv);
}

#define COMPLETE(...) complete(WORDS(__VA_ARGS__))

static void nodes_and_models_have_names(void)
{
	if (!publish(HOUR_NS))
		return;
	EQ(COMPLETE("cluster", "models", ""), DONE);
	STR(out, "words\nllama\t\nqwen\t\n");
	EQ(COMPLETE("cluster", "plan", "--share", "q"), DONE);
	STR(out, "words\nqwen\t\n");
	EQ(COMPLETE("cluster", "devices", "--node", ""), DONE);
	STR(out, "words\na\t10.0.0.1\nb\t10.0.0.2\nc\tnode-c.example\n"
		 "d\t10.0.0.4\n");
	EQ(COMPLETE("cluster", "plan", "--only", "a,b"), DONE);
	STR(out, "words\na,b\t10.0.0.2\n");
	EQ(COMPLETE("cluster", "plan", "--for", "m"), DONE);
	STR(out, "words\nmpirun\t\n");
}

/* ---- many ---------------------------------------------------------------- */

static uint32_t count_lines(void)
{
	uint32_t n = 0;

	for (const char *at = out; (at = strchr(at, '\n')) != NULL; at++)
		n++;
	return n;
}

static void a_thousand_nodes_are_listed(void)
{
	const struct cluster_nodes many = {
		.n = 1024, .n_devices = 8, .n_shares = 2, .content = 1
	};
	uint64_t start;

	EQ(cluster_nodes_publish(map, &many, GPUMAP_CLUSTER_HEARD), 0);
	for (uint32_t i = 0; i < 3; i++) {
		static const char *const commands[] = { "nodes", "devices",
							"topo" };
		static const uint32_t lines[] = { 1025, 8193, 1024 };

		start = story_now();
		EQ(CTL("cluster", commands[i]), DONE);
		NOTE("cluster %s in %" PRIu64 " ms", commands[i],
		     (story_now() - start) / 1000000);
		OK(count_lines() >= lines[i]);
	}
	start = story_now();
	CTL("cluster", "plan", "--layers", "80", "--bytes", "8G");
	NOTE("cluster plan in %" PRIu64 " ms: %.200s%.200s",
	     (story_now() - start) / 1000000, out, err);
}

TAP_CASE()
{
	if (!ctl_start(NULL))
		return tap_done();
	map = story_attach(&agent);
	EQ(CTL("cluster", "nodes"), FAILED);
	OK(complains("this node is in none: start gpumap-sync"));
	tables_say_what_nodes_have();
	columns_fit_long_names();
	objects_say_the_same();
	a_stale_cluster_is_said_first();
	a_stale_cluster_can_be_left();
	what_is_not_there_is_said();
	a_terminal_obeys_no_name();
	nodes_and_models_have_names();
	a_thousand_nodes_are_listed();
	gpumap_detach(map);
	return tap_done();
}
