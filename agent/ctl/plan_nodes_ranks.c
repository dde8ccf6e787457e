/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The plan in the words of launchers and engines.
 *
 * Ranks are numbered node by node, as each of these numbers them: torchrun with
 * its static rendezvous, mpirun by slots, vLLM and SGLang by the rank of the
 * node.  llama.cpp numbers devices: those of RPC servers in the order of --rpc,
 * then its own; the CPUs have the first layers.
 */

#include <stdio.h>
#include <string.h>

#include "agent/ctl/plan_nodes.h"
#include "agent/reader/device_text.h"

#define TORCH_PORT     29500
#define VLLM_PORT      29501
#define SGLANG_PORT    20000
#define LLAMA_CPP_PORT 50052

const char *gm_ctl_nodes_uuid(const uint8_t uuid[16], char ret_text[48])
{
	struct gpumap_device device = { .size = sizeof(device) };
	char digits[GM_DEVICE_UUID];

	memcpy(device.uuid, uuid, sizeof(device.uuid));
	gm_device_uuid(&device, digits);
	snprintf(ret_text, 48, "GPU-%s", digits);
	return ret_text;
}

const struct gpumap_cluster_device *
gm_ctl_nodes_rank(const struct gm_ctl_nodes_job *job, uint32_t rank)
{
	const struct gm_cluster_plan_rank *r = &job->plan.ranks[rank];
	const struct gm_ctl_cluster_node *node =
		gm_ctl_nodes_taken(job, r->node);
	const struct gpumap_cluster_device *d = node->devices;

	while (d->row != r->charge.row)
		d++;
	return d;
}

uint32_t gm_ctl_nodes_self(const struct gm_ctl_nodes_job *job)
{
	for (uint32_t i = 0; i < job->plan.n_nodes; i++)
		if ((gm_ctl_nodes_taken(job, i)->info.flags &
		     GPUMAP_CLUSTER_SELF) != 0)
			return i;
	return UINT32_MAX;
}

static uint32_t port_of(const struct gm_ctl_nodes_job *job, uint32_t other)
{
	return GM_NUMBER(job->ctl, PORT) > 0
		       ? (uint32_t)GM_NUMBER(job->ctl, PORT)
		       : other;
}

static const struct gpumap_cluster_node *
info_of(const struct gm_ctl_nodes_job *job, uint32_t i)
{
	return &gm_ctl_nodes_taken(job, i)->info;
}

/* "10.0.0.1:29500"; an IPv6 address is in brackets. */
static const char *endpoint(const struct gm_ctl_nodes_job *job, uint32_t i,
			    uint32_t port, char ret_text[96])
{
	const char *address = info_of(job, i)->address;
	bool is_six = strchr(address, ':') != NULL;

	snprintf(ret_text, 96, "%s%s%s:%u", is_six ? "[" : "", address,
		 is_six ? "]" : "", port);
	return ret_text;
}

static uint32_t count_ranks(const struct gm_ctl_nodes_job *job, uint32_t node)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < job->plan.n_ranks; r++)
		n += job->plan.ranks[r].node == node;
	return n;
}

/* Texts of a node's ranks with commas between them. */
#define LIST_BYTES 4096

static const char *rows_of(const struct gm_ctl_nodes_job *job, uint32_t node,
			   char ret_text[LIST_BYTES])
{
	size_t n = 0;

	ret_text[0] = '\0';
	for (uint32_t r = 0; r < job->plan.n_ranks; r++)
		if (job->plan.ranks[r].node == node)
			n += (size_t)snprintf(ret_text + n, LIST_BYTES - n,
					      "%s%u", n > 0 ? "," : "",
					      job->plan.ranks[r].charge.row);
	return ret_text;
}

/* The cards of a node by UUID; "-1" hides all from a node without. */
static const char *cards_of(const struct gm_ctl_nodes_job *job, uint32_t node,
			    char ret_text[LIST_BYTES])
{
	char uuid[48];
	size_t n = 0;

	strcpy(ret_text, "-1");
	for (uint32_t r = 0; r < job->plan.n_ranks; r++) {
		const struct gpumap_cluster_device *d;

		if (job->plan.ranks[r].node != node)
			continue;
		d = gm_ctl_nodes_rank(job, r);
		if (d->kind == GPUMAP_DEVICE_CUDA)
			n += (size_t)snprintf(ret_text + n, LIST_BYTES - n,
					      "%s%s", n > 0 ? "," : "",
					      gm_ctl_nodes_uuid(d->uuid, uuid));
	}
	return ret_text;
}

/* "40,40": the layers of each stage. */
static const char *lengths_of(const struct gm_cluster_plan *p,
			      char ret_text[LIST_BYTES])
{
	size_t n = 0;

	for (uint32_t i = 0; i < p->n_stages; i++)
		n += (size_t)snprintf(ret_text + n, LIST_BYTES - n, "%s%u",
				      i > 0 ? "," : "", p->stages[i].n_layers);
	return ret_text;
}

/* ---- variables ----------------------------------------------------------- */

/* The variables of every launcher that tell a process of its node. */
static void add_node(const struct gm_ctl_nodes_job *job, uint32_t i,
		     const char *name, struct gm_words *env)
{
	char list[LIST_BYTES];

	gm_words_add(env, "CUDA_VISIBLE_DEVICES=%s", cards_of(job, i, list));
	gm_words_add(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
	gm_words_add(env, "GPUMAP_CLUSTER=%s", job->cluster.head.name);
	if (name != NULL)
		gm_words_add(env, "GPUMAP_MAP=%s", name);
	gm_words_add(env, "GPUMAP_NODE=%s", info_of(job, i)->name);
	gm_words_add(env, "GPUMAP_NODE_RANK=%u", i);
	gm_words_add(env, "GPUMAP_NODES=%u", job->plan.n_nodes);
	gm_words_add(env, "GPUMAP_ROWS=%s", rows_of(job, i, list));
	gm_words_add(env, "GPUMAP_WORLD_SIZE=%u", job->plan.n_ranks);
}

/* The names that torch.distributed reads. */
static void add_master(const struct gm_ctl_nodes_job *job, struct gm_words *env)
{
	gm_words_add(env, "MASTER_ADDR=%s", info_of(job, 0)->address);
	gm_words_add(env, "MASTER_PORT=%u", port_of(job, TORCH_PORT));
	gm_words_add(env, "WORLD_SIZE=%u", job->plan.n_ranks);
}

/* ---- launchers ----------------------------------------------------------- */

static void add_torchrun(const struct gm_ctl_nodes_job *job, uint32_t i,
			 const char *name, struct gm_words *argv)
{
	char text[96];

	gm_words_add(argv, "torchrun");
	gm_words_add(argv, "--nnodes=%u", job->plan.n_nodes);
	gm_words_add(argv, "--node_rank=%u", i);
	gm_words_add(argv, "--nproc_per_node=%u", count_ranks(job, i));
	gm_words_add(argv, "--rdzv_backend=static");
	gm_words_add(argv, "--rdzv_endpoint=%s",
		     endpoint(job, 0, port_of(job, TORCH_PORT), text));
	if (name != NULL)
		gm_words_add(argv, "--rdzv_id=%s", name);
	gm_words_add(argv, GM_CTL_NODES_COMMAND);
}

/* One context for each node: each has other cards. */
static void add_mpirun(const struct gm_ctl_nodes_job *job, const char *name,
		       struct gm_words *argv)
{
	gm_words_add(argv, "mpirun");
	for (uint32_t i = 0; i < job->plan.n_nodes; i++) {
		struct gm_words env = { .n = 0 };
		uint32_t n = count_ranks(job, i);

		add_node(job, i, name, &env);
		add_master(job, &env);
		if (i > 0)
			gm_words_add(argv, ":");
		gm_words_add(argv, "-np");
		gm_words_add(argv, "%u", n);
		gm_words_add(argv, "--host");
		gm_words_add(argv, "%s:%u", info_of(job, i)->address, n);
		for (uint32_t k = 0; k < env.n; k++) {
			gm_words_add(argv, "-x");
			gm_words_add(argv, "%s", env.v[k]);
		}
		gm_words_add(argv, GM_CTL_NODES_COMMAND);
		gm_words_free(&env);
	}
}

static void add_option(struct gm_words *argv, const char *option,
		       uint32_t value)
{
	gm_words_add(argv, "%s", option);
	gm_words_add(argv, "%u", value);
}

static void add_sizes(const struct gm_ctl_nodes_job *job, uint32_t i,
		      struct gm_words *argv)
{
	add_option(argv, "--tensor-parallel-size", job->plan.tp);
	add_option(argv, "--pipeline-parallel-size", job->plan.n_stages);
	if (job->plan.n_nodes == 1)
		return;
	add_option(argv, "--nnodes", job->plan.n_nodes);
	add_option(argv, "--node-rank", i);
}

static void add_vllm(const struct gm_ctl_nodes_job *job, uint32_t i,
		     struct gm_ctl_nodes_words *words)
{
	struct gm_words *argv = &words->argv;
	char list[LIST_BYTES];

	if (job->plan.n_stages > 1)
		gm_words_add(&words->env, "VLLM_PP_LAYER_PARTITION=%s",
			     lengths_of(&job->plan, list));
	gm_words_add(&words->env, "VLLM_HOST_IP=%s", info_of(job, i)->address);
	gm_words_add(argv, "vllm");
	gm_words_add(argv, "serve");
	gm_words_add(argv, GM_CTL_NODES_COMMAND);
	add_sizes(job, i, argv);
	if (job->plan.n_ranks > 1) {
		gm_words_add(argv, "--distributed-executor-backend");
		gm_words_add(argv, "mp");
	}
	if (job->plan.n_nodes == 1)
		return;
	gm_words_add(argv, "--master-addr");
	gm_words_add(argv, "%s", info_of(job, 0)->address);
	add_option(argv, "--master-port", port_of(job, VLLM_PORT));
	if (i > 0)
		gm_words_add(argv, "--headless");
}

static void add_sglang(const struct gm_ctl_nodes_job *job, uint32_t i,
		       struct gm_ctl_nodes_words *words)
{
	struct gm_words *argv = &words->argv;
	char list[LIST_BYTES], text[96];

	if (job->plan.n_stages > 1)
		gm_words_add(&words->env, "SGLANG_PP_LAYER_PARTITION=%s",
			     lengths_of(&job->plan, list));
	gm_words_add(argv, "python3");
	gm_words_add(argv, "-m");
	gm_words_add(argv, "sglang.launch_server");
	gm_words_add(argv, GM_CTL_NODES_COMMAND);
	add_sizes(job, i, argv);
	if (job->plan.n_nodes == 1)
		return;
	gm_words_add(argv, "--dist-init-addr");
	gm_words_add(argv, "%s",
		     endpoint(job, 0, port_of(job, SGLANG_PORT), text));
}

/* ---- llama.cpp ----------------------------------------------------------- */

/* Is the node's work done by llama.cpp itself, and not by an RPC server? */
static bool is_main(const struct gm_ctl_nodes_job *job, uint32_t i)
{
	return i == gm_ctl_nodes_self(job);
}

static uint32_t layers_on(const struct gm_ctl_nodes_job *job, uint32_t node)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < job->plan.n_stages; i++)
		if (job->plan.stages[i].node == node)
			n += job->plan.stages[i].n_layers;
	return n;
}

/* The layers of each device in its order, and the output's on the last.  An RPC
 * server without cards is one device. */
static void add_shares(const struct gm_ctl_nodes_job *job,
		       struct gm_words *argv)
{
	const struct gm_cluster_plan *p = &job->plan;
	bool is_host = (job->class & GPUMAP_DEVICE_CARD) == 0;
	char list[LIST_BYTES] = "";
	uint32_t on_cpu = 0, shares[GM_CLUSTER_PLAN_STAGES], n = 0;
	size_t at = 0;

	for (uint32_t i = 0; is_host && i < p->n_nodes; i++) {
		if (is_main(job, i))
			on_cpu = layers_on(job, i);
		else
			shares[n++] = layers_on(job, i);
	}
	for (uint32_t i = 0; !is_host && i < p->n_stages; i++)
		shares[n++] = p->stages[i].n_layers;
	for (uint32_t i = 0; i < n; i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%u",
				       i > 0 ? "," : "",
				       shares[i] + (i + 1 == n));
	add_option(argv, "--n-gpu-layers",
		   n > 0 ? job->q.ask.n_layers - on_cpu + 1 : 0);
	if (n < 2)
		return;
	gm_words_add(argv, "--split-mode");
	gm_words_add(argv, "layer");
	gm_words_add(argv, "--tensor-split");
	gm_words_add(argv, "%s", list);
}

static void add_servers(const struct gm_ctl_nodes_job *job,
			struct gm_words *argv)
{
	char list[LIST_BYTES] = "", text[96];
	size_t at = 0;

	for (uint32_t i = 0; i < job->plan.n_nodes; i++)
		if (!is_main(job, i))
			at += (size_t)snprintf(
				list + at, sizeof(list) - at, "%s%s",
				at > 0 ? "," : "",
				endpoint(job, i, port_of(job, LLAMA_CPP_PORT),
					 text));
	if (at == 0)
		return;
	gm_words_add(argv, "--rpc");
	gm_words_add(argv, "%s", list);
}

static void add_llama_main(const struct gm_ctl_nodes_job *job,
			   struct gm_words *argv)
{
	gm_words_add(argv, "llama-server");
	gm_words_add(argv, GM_CTL_NODES_COMMAND);
	add_servers(job, argv);
	add_shares(job, argv);
	gm_words_add(argv, "--fit");
	gm_words_add(argv, "off");
}

static void add_llama_cpp(const struct gm_ctl_nodes_job *job, uint32_t i,
			  struct gm_words *argv)
{
	if (is_main(job, i)) {
		add_llama_main(job, argv);
		return;
	}
	gm_words_add(argv, "ggml-rpc-server");
	gm_words_add(argv, "--host");
	gm_words_add(argv, "%s", info_of(job, i)->address);
	add_option(argv, "--port", port_of(job, LLAMA_CPP_PORT));
}

/* ---- the words of a node ------------------------------------------------- */

void gm_ctl_nodes_words(const struct gm_ctl_nodes_job *job, uint32_t i,
			const char *name, struct gm_ctl_nodes_words *ret)
{
	*ret = (struct gm_ctl_nodes_words){ .env.n = 0 };
	add_node(job, i, name, &ret->env);
	switch (job->launcher) {
	case GM_LAUNCHER_TORCHRUN:
		add_torchrun(job, i, name, &ret->argv);
		break;
	case GM_LAUNCHER_MPIRUN: /* starts on one node */
		add_master(job, &ret->env);
		break;
	case GM_LAUNCHER_VLLM:
		add_vllm(job, i, ret);
		break;
	case GM_LAUNCHER_SGLANG:
		add_sglang(job, i, ret);
		break;
	case GM_LAUNCHER_LLAMA_CPP:
		add_llama_cpp(job, i, &ret->argv);
		break;
	default:
		add_master(job, &ret->env);
		gm_words_add(&ret->argv, GM_CTL_NODES_COMMAND);
	}
}

bool gm_ctl_nodes_has_head(const struct gm_ctl_nodes_job *job)
{
	return job->launcher == GM_LAUNCHER_MPIRUN ||
	       (job->launcher == GM_LAUNCHER_LLAMA_CPP &&
		gm_ctl_nodes_self(job) == UINT32_MAX);
}

void gm_ctl_nodes_head_words(const struct gm_ctl_nodes_job *job,
			     const char *name, struct gm_ctl_nodes_words *ret)
{
	*ret = (struct gm_ctl_nodes_words){ .env.n = 0 };
	if (job->launcher == GM_LAUNCHER_MPIRUN) {
		add_mpirun(job, name, &ret->argv);
		return;
	}
	/* This node has no device in the plan. */
	gm_words_add(&ret->env, "CUDA_VISIBLE_DEVICES=-1");
	add_llama_main(job, &ret->argv);
}

void gm_ctl_nodes_words_free(struct gm_ctl_nodes_words *words)
{
	gm_words_free(&words->env);
	gm_words_free(&words->argv);
}

/* ---- the text ------------------------------------------------------------ */

static void put_words(const struct gm_ctl_nodes_words *words)
{
	for (uint32_t i = 0; i < words->env.n; i++) {
		fputs("export ", stdout);
		gm_words_print_env(words->env.v[i]);
	}
	for (uint32_t i = 0; i < words->argv.n; i++) {
		const char *word = words->argv.v[i];

		if (i > 0)
			putchar(' ');
		if (strcmp(word, GM_CTL_NODES_COMMAND) == 0)
			fputs("\"" GM_CTL_NODES_COMMAND "\"", stdout);
		else
			gm_ctl_print_word(word);
	}
	if (words->argv.n > 0)
		putchar('\n');
}

void gm_ctl_nodes_script(const struct gm_ctl_nodes_job *job, const char *name)
{
	struct gm_ctl_nodes_words words;

	/* mpirun sets what there is to set. */
	for (uint32_t i = 0;
	     job->launcher != GM_LAUNCHER_MPIRUN && i < job->plan.n_nodes;
	     i++) {
		const struct gpumap_cluster_node *n = info_of(job, i);

		gm_ctl_nodes_words(job, i, name, &words);
		printf("%s# node %s, %s: node rank %u of %u, ranks: %u\n",
		       i > 0 ? "\n" : "", n->name, n->address, i,
		       job->plan.n_nodes, count_ranks(job, i));
		put_words(&words);
		gm_ctl_nodes_words_free(&words);
	}
	if (!gm_ctl_nodes_has_head(job))
		return;
	gm_ctl_nodes_head_words(job, name, &words);
	printf("%s# node %s\n", job->launcher == GM_LAUNCHER_MPIRUN ? "" : "\n",
	       job->cluster.head.node);
	put_words(&words);
	gm_ctl_nodes_words_free(&words);
}
