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

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/ctl/plan_nodes.h"
#include "agent/reader/device_text.h"

#define TORCH_PORT     29500
#define VLLM_PORT      29501
#define SGLANG_PORT    20000
#define LLAMA_CPP_PORT 50052

#define LIST_BYTES     4096

/* Texts with commas between them. */
struct list {
	char text[LIST_BYTES];
	size_t n;
};

static void add_item(struct list *list, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add_item(struct list *list, const char *format, ...)
{
	va_list args;

	if (list->n > 0 && list->n + 1 < LIST_BYTES)
		list->text[list->n++] = ',';
	va_start(args, format);
	list->n += (size_t)vsnprintf(list->text + list->n, LIST_BYTES - list->n,
				     format, args);
	va_end(args);
	if (list->n >= LIST_BYTES)
		list->n = LIST_BYTES - 1;
}

const char *gm_ctl_nodes_uuid(const uint8_t uuid[16],
			      char ret_text[GM_CTL_UUID])
{
	struct gpumap_device device = { .size = sizeof(device) };
	char digits[GM_DEVICE_UUID];

	memcpy(device.uuid, uuid, sizeof(device.uuid));
	gm_device_uuid(&device, digits);
	snprintf(ret_text, GM_CTL_UUID, "GPU-%s", digits);
	return ret_text;
}

const struct gpumap_cluster_device *
gm_ctl_nodes_rank(const struct gm_ctl_nodes_job *job, uint32_t rank)
{
	const struct gm_cluster_plan_rank *r = &job->plan.ranks[rank];
	const struct gpumap_cluster_device *d =
		gm_ctl_nodes_taken(job, r->node)->devices;

	while (d->row != r->charge.row)
		d++;
	return d;
}

uint32_t gm_ctl_nodes_count_ranks(const struct gm_ctl_nodes_job *job,
				  uint32_t node)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < job->plan.n_ranks; r++)
		n += job->plan.ranks[r].node == node;
	return n;
}

static const struct gpumap_cluster_node *
info_of(const struct gm_ctl_nodes_job *job, uint32_t i)
{
	return &gm_ctl_nodes_taken(job, i)->info;
}

/* Is it this node?  Its work is done by llama.cpp itself, and not by an RPC
 * server. */
static bool is_self(const struct gm_ctl_nodes_job *job, uint32_t i)
{
	return (info_of(job, i)->flags & GPUMAP_CLUSTER_SELF) != 0;
}

static uint32_t port_of(const struct gm_ctl_nodes_job *job, uint32_t other)
{
	return GM_GIVEN(job->ctl, PORT) ? (uint32_t)GM_NUMBER(job->ctl, PORT)
					: other;
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

/* Add words, the last of which is followed by NULL. */
static void add(struct gm_words *words, ...)
{
	const char *word;
	va_list args;

	va_start(args, words);
	while ((word = va_arg(args, const char *)) != NULL)
		gm_ctl_words_add(words, "%s", word);
	va_end(args);
}

static void add_option(struct gm_words *argv, const char *option,
		       uint32_t value)
{
	gm_ctl_words_add(argv, "%s", option);
	gm_ctl_words_add(argv, "%u", value);
}

/* ---- variables ----------------------------------------------------------- */

/* The variables of every launcher that tell a process of its node. */
static void add_node(const struct gm_ctl_nodes_job *job, uint32_t i,
		     struct gm_words *env)
{
	struct list rows = { .n = 0 }, cards = { .n = 0 };
	char uuid[GM_CTL_UUID];

	for (uint32_t r = 0; r < job->plan.n_ranks; r++) {
		const struct gpumap_cluster_device *d =
			gm_ctl_nodes_rank(job, r);

		if (job->plan.ranks[r].node != i)
			continue;
		add_item(&rows, "%u", d->row);
		if (d->kind == GPUMAP_DEVICE_CUDA)
			add_item(&cards, "%s",
				 gm_ctl_nodes_uuid(d->uuid, uuid));
	}
	/* "-1" hides all cards from a node without. */
	gm_ctl_words_add(env, "CUDA_VISIBLE_DEVICES=%s",
			 cards.n > 0 ? cards.text : "-1");
	gm_ctl_words_add(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
	gm_ctl_words_add(env, "GPUMAP_CLUSTER=%s", job->cluster.head.name);
	if (GM_GIVEN(job->ctl, NAME))
		gm_ctl_words_add(env, "GPUMAP_MAP=%s", GM_TEXT(job->ctl, NAME));
	gm_ctl_words_add(env, "GPUMAP_NODE=%s", info_of(job, i)->name);
	gm_ctl_words_add(env, "GPUMAP_NODE_RANK=%u", i);
	gm_ctl_words_add(env, "GPUMAP_NODES=%u", job->plan.n_nodes);
	gm_ctl_words_add(env, "GPUMAP_ROWS=%s", rows.text);
	gm_ctl_words_add(env, "GPUMAP_WORLD_SIZE=%u", job->plan.n_ranks);
}

/* The names that torch.distributed reads. */
static void add_master(const struct gm_ctl_nodes_job *job, struct gm_words *env)
{
	gm_ctl_words_add(env, "MASTER_ADDR=%s", info_of(job, 0)->address);
	gm_ctl_words_add(env, "MASTER_PORT=%u", port_of(job, TORCH_PORT));
	gm_ctl_words_add(env, "WORLD_SIZE=%u", job->plan.n_ranks);
}

/* The layers of each stage, "40,40". */
static void add_lengths(const struct gm_ctl_nodes_job *job, const char *name,
			struct gm_words *env)
{
	struct list list = { .n = 0 };

	if (job->plan.n_stages < 2)
		return;
	for (uint32_t i = 0; i < job->plan.n_stages; i++)
		add_item(&list, "%u", job->plan.stages[i].n_layers);
	gm_ctl_words_add(env, "%s=%s", name, list.text);
}

/* ---- launchers ----------------------------------------------------------- */

static void add_torchrun(const struct gm_ctl_nodes_job *job, uint32_t i,
			 struct gm_words *argv)
{
	char text[96];

	gm_ctl_words_add(argv, "torchrun");
	gm_ctl_words_add(argv, "--nnodes=%u", job->plan.n_nodes);
	gm_ctl_words_add(argv, "--node_rank=%u", i);
	gm_ctl_words_add(argv, "--nproc_per_node=%u",
			 gm_ctl_nodes_count_ranks(job, i));
	gm_ctl_words_add(argv, "--rdzv_backend=static");
	gm_ctl_words_add(argv, "--rdzv_endpoint=%s",
			 endpoint(job, 0, port_of(job, TORCH_PORT), text));
	if (GM_GIVEN(job->ctl, NAME))
		gm_ctl_words_add(argv, "--rdzv_id=%s", GM_TEXT(job->ctl, NAME));
	gm_ctl_words_add(argv, GM_CTL_NODES_COMMAND);
}

/* One context for each node: each has other cards. */
static void add_mpirun(const struct gm_ctl_nodes_job *job,
		       struct gm_words *argv)
{
	gm_ctl_words_add(argv, "mpirun");
	for (uint32_t i = 0; i < job->plan.n_nodes; i++) {
		struct gm_words env = { .n = 0 };
		uint32_t n = gm_ctl_nodes_count_ranks(job, i);

		add_node(job, i, &env);
		add_master(job, &env);
		if (i > 0)
			gm_ctl_words_add(argv, ":");
		add_option(argv, "-np", n);
		gm_ctl_words_add(argv, "--host");
		gm_ctl_words_add(argv, "%s:%u", info_of(job, i)->address, n);
		for (uint32_t k = 0; k < env.n; k++)
			add(argv, "-x", env.v[k], NULL);
		gm_ctl_words_add(argv, GM_CTL_NODES_COMMAND);
		gm_ctl_words_free(&env);
	}
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

	add_lengths(job, "VLLM_PP_LAYER_PARTITION", &words->env);
	gm_ctl_words_add(&words->env, "VLLM_HOST_IP=%s",
			 info_of(job, i)->address);
	add(argv, "vllm", "serve", GM_CTL_NODES_COMMAND, NULL);
	add_sizes(job, i, argv);
	if (job->plan.n_ranks > 1)
		add(argv, "--distributed-executor-backend", "mp", NULL);
	if (job->plan.n_nodes == 1)
		return;
	add(argv, "--master-addr", info_of(job, 0)->address, NULL);
	add_option(argv, "--master-port", port_of(job, VLLM_PORT));
	if (i > 0)
		gm_ctl_words_add(argv, "--headless");
}

static void add_sglang(const struct gm_ctl_nodes_job *job, uint32_t i,
		       struct gm_ctl_nodes_words *words)
{
	char text[96];

	add_lengths(job, "SGLANG_PP_LAYER_PARTITION", &words->env);
	add(&words->argv, "python3", "-m", "sglang.launch_server",
	    GM_CTL_NODES_COMMAND, NULL);
	add_sizes(job, i, &words->argv);
	if (job->plan.n_nodes > 1)
		add(&words->argv, "--dist-init-addr",
		    endpoint(job, 0, port_of(job, SGLANG_PORT), text), NULL);
}

/* ---- llama.cpp ----------------------------------------------------------- */

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
	uint32_t on_cpu = 0, shares[GM_CLUSTER_PLAN_STAGES], n = 0;
	struct list list = { .n = 0 };

	for (uint32_t i = 0; is_host && i < p->n_nodes; i++) {
		if (is_self(job, i))
			on_cpu = layers_on(job, i);
		else
			shares[n++] = layers_on(job, i);
	}
	for (uint32_t i = 0; !is_host && i < p->n_stages; i++)
		shares[n++] = p->stages[i].n_layers;
	for (uint32_t i = 0; i < n; i++)
		add_item(&list, "%u", shares[i] + (i + 1 == n));
	add_option(argv, "--n-gpu-layers",
		   n > 0 ? job->q.ask.n_layers - on_cpu + 1 : 0);
	if (n > 1)
		add(argv, "--split-mode", "layer", "--tensor-split", list.text,
		    NULL);
}

static void add_llama_main(const struct gm_ctl_nodes_job *job,
			   struct gm_words *argv)
{
	struct list servers = { .n = 0 };
	char text[96];

	for (uint32_t i = 0; i < job->plan.n_nodes; i++)
		if (!is_self(job, i))
			add_item(&servers, "%s",
				 endpoint(job, i, port_of(job, LLAMA_CPP_PORT),
					  text));
	add(argv, "llama-server", GM_CTL_NODES_COMMAND, NULL);
	if (servers.n > 0)
		add(argv, "--rpc", servers.text, NULL);
	add_shares(job, argv);
	add(argv, "--fit", "off", NULL);
}

/* ---- the words of a node ------------------------------------------------- */

/* A command that starts on this node although it is not in the plan. */
static bool head_words(const struct gm_ctl_nodes_job *job,
		       struct gm_ctl_nodes_words *ret)
{
	uint32_t i = 0;

	ret->node = job->cluster.head.node;
	if (job->launcher == GM_LAUNCHER_MPIRUN) {
		add_mpirun(job, &ret->argv);
		return true;
	}
	while (i < job->plan.n_nodes && !is_self(job, i))
		i++;
	if (job->launcher != GM_LAUNCHER_LLAMA_CPP || i < job->plan.n_nodes)
		return false;
	/* This node has no device in the plan. */
	gm_ctl_words_add(&ret->env, "CUDA_VISIBLE_DEVICES=-1");
	add_llama_main(job, &ret->argv);
	return true;
}

bool gm_ctl_nodes_words(const struct gm_ctl_nodes_job *job, uint32_t i,
			struct gm_ctl_nodes_words *ret)
{
	*ret = (struct gm_ctl_nodes_words){ .env.n = 0 };
	if (i >= job->plan.n_nodes)
		return i == job->plan.n_nodes && head_words(job, ret);
	ret->node = info_of(job, i)->name;
	add_node(job, i, &ret->env);
	switch (job->launcher) {
	case GM_LAUNCHER_TORCHRUN:
		add_torchrun(job, i, &ret->argv);
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
		if (is_self(job, i)) {
			add_llama_main(job, &ret->argv);
			break;
		}
		add(&ret->argv, "ggml-rpc-server", "--host",
		    info_of(job, i)->address, NULL);
		add_option(&ret->argv, "--port", port_of(job, LLAMA_CPP_PORT));
		break;
	default:
		add_master(job, &ret->env);
		gm_ctl_words_add(&ret->argv, GM_CTL_NODES_COMMAND);
	}
	return true;
}

void gm_ctl_nodes_words_free(struct gm_ctl_nodes_words *words)
{
	gm_ctl_words_free(&words->env);
	gm_ctl_words_free(&words->argv);
}

/* ---- the text ------------------------------------------------------------ */

static void put_words(const struct gm_ctl_nodes_words *words)
{
	for (uint32_t i = 0; i < words->env.n; i++) {
		fputs("export ", stdout);
		gm_ctl_words_print_env(words->env.v[i]);
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

void gm_ctl_nodes_script(const struct gm_ctl_nodes_job *job)
{
	/* mpirun sets what there is to set. */
	const uint32_t n = job->plan.n_nodes,
		       first = job->launcher == GM_LAUNCHER_MPIRUN ? n : 0;
	struct gm_ctl_nodes_words words;

	for (uint32_t i = first; gm_ctl_nodes_words(job, i, &words); i++) {
		printf("%s# node %s", i > first ? "\n" : "", words.node);
		if (i < n)
			printf(", %s: node rank %u of %u, ranks: %u",
			       info_of(job, i)->address, i, n,
			       gm_ctl_nodes_count_ranks(job, i));
		putchar('\n');
		put_words(&words);
		gm_ctl_nodes_words_free(&words);
	}
}
