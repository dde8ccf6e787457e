/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Read the cluster as the agent publishes it; options and the cluster to a
 * request, and the request to a plan. */

#include "agent/ctl/plan_nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/text.h"
#include "agent/ctl/parse.h"
#include "agent/ctl/plan.h"
#include "agent/reader/device_text.h"
#include "gpumap/engine.h"
#include "shm/device_kinds.h"

#define SECOND           UINT64_C(1000000000)
#define ATTEMPTS         100u /* at a whole cluster of one publication */
#define LLAMA_CPP_STAGES 15u  /* devices of --tensor-split */

/* ---- the cluster --------------------------------------------------------- */

static void make_plain(char *text, size_t bytes)
{
	text[bytes - 1] = '\0';
	gm_text_make_plain(text, strlen(text));
}

static void free_cluster(struct gm_ctl_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->n; i++) {
		free(cluster->nodes[i].devices);
		free(cluster->nodes[i].shares);
	}
	free(cluster->nodes);
}

/* The list calls return 1 with an item: anything else is none of this
 * publication. */
static int one_of(int ret, uint64_t version, uint64_t wanted)
{
	if (ret < 0)
		return ret;
	return ret == 0 || version != wanted ? -EAGAIN : 0;
}

/* Read the devices and the shares of a node. */
static int read_node(const struct gpumap *map, uint64_t version,
		     struct gm_ctl_cluster_node *node)
{
	const struct gpumap_cluster_node *info = &node->info;
	uint32_t cursor = 0;
	int ret = 0;

	node->devices = gm_ctl_alloc(info->n_devices, sizeof(*node->devices));
	node->shares = gm_ctl_alloc(info->n_shares, sizeof(*node->shares));
	for (uint32_t i = 0; ret == 0 && i < info->n_devices; i++) {
		struct gpumap_cluster_device *d = &node->devices[i];

		d->size = sizeof(*d);
		ret = gpumap_cluster_next_device(map, info->index, &cursor, d);
		ret = one_of(ret, d->version, version);
		make_plain(d->name, sizeof(d->name));
	}
	cursor = 0;
	for (uint32_t i = 0; ret == 0 && i < info->n_shares; i++) {
		struct gpumap_cluster_share *s = &node->shares[i];

		s->size = sizeof(*s);
		ret = gpumap_cluster_next_share(map, info->index, NULL, &cursor,
						s);
		ret = one_of(ret, s->version, version);
		make_plain(s->name, sizeof(s->name));
	}
	return ret;
}

static int read_nodes(const struct gpumap *map, struct gm_ctl_cluster *cluster)
{
	uint32_t cursor = 0;
	int ret = 0;

	cluster->nodes =
		gm_ctl_alloc(cluster->head.n_nodes, sizeof(*cluster->nodes));
	while (ret == 0 && cluster->n < cluster->head.n_nodes) {
		struct gm_ctl_cluster_node *node =
			&cluster->nodes[cluster->n++];
		int width;

		node->info.size = sizeof(node->info);
		ret = gpumap_cluster_next_node(map, &cursor, &node->info);
		ret = one_of(ret, node->info.version, cluster->head.version);
		make_plain(node->info.name, sizeof(node->info.name));
		make_plain(node->info.address, sizeof(node->info.address));
		width = (int)strlen(node->info.name);
		if (width > cluster->node_width)
			cluster->node_width = width;
		if (ret == 0)
			ret = read_node(map, cluster->head.version, node);
	}
	return ret;
}

/* "5 s", "3 min", "2 h". */
static const char *print_age(uint64_t ns, char ret_text[32])
{
	uint64_t s = ns / SECOND;

	if (s < 10)
		snprintf(ret_text, 32, "%.1f s", (double)ns / 1e9);
	else if (s < 600)
		snprintf(ret_text, 32, "%llu s", (unsigned long long)s);
	else if (s < 36000)
		snprintf(ret_text, 32, "%llu min", (unsigned long long)s / 60);
	else
		snprintf(ret_text, 32, "%llu h", (unsigned long long)s / 3600);
	return ret_text;
}

/* Read the whole cluster, and refuse a stale one. */
static void read_cluster(const struct gm_ctl *ctl,
			 struct gm_ctl_cluster *cluster)
{
	char since[32] = "this agent's start";
	int ret = -EAGAIN;

	for (uint32_t i = 0; ret == -EAGAIN && i < ATTEMPTS; i++) {
		free_cluster(cluster);
		*cluster = (struct gm_ctl_cluster){ .node_width = 20 };
		cluster->head.size = sizeof(cluster->head);
		ret = gpumap_cluster_read(ctl->map, &cluster->head);
		if (ret == 0)
			ret = read_nodes(ctl->map, cluster);
	}
	if (ret == -ENOENT)
		gm_ctl_failed("cluster: this node is in none: start "
			      "gpumap-sync, see gpumap-sync(8)");
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "cluster");
	make_plain(cluster->head.name, sizeof(cluster->head.name));
	make_plain(cluster->head.node, sizeof(cluster->head.node));
	if (cluster->head.stale == 0)
		return;
	/* Other nodes may have changed. */
	if (cluster->head.age_ns != UINT64_MAX)
		print_age(cluster->head.age_ns, since);
	gm_ctl_end(GM_EXIT_STALE,
		   "cluster %s is stale: for %s gpumap-sync has not known that "
		   "it sees every change, and other nodes may have changed; is "
		   "gpumap-sync running, and can it reach its store?",
		   cluster->head.name, since);
}

/* ---- what a plan can have ------------------------------------------------ */

/* Why a plan cannot have the node; NULL: it can.  Else @text, or a constant. */
static const char *node_why(const struct gm_ctl_cluster_node *node,
			    char text[GM_CTL_NODES_WHY])
{
	char age[32];

	switch (node->info.state) {
	case GPUMAP_CLUSTER_LIVE:
		break;
	case GPUMAP_CLUSTER_GONE:
		snprintf(text, GM_CTL_NODES_WHY, "gone for %s",
			 print_age(node->info.age_ns, age));
		return text;
	default:
		return "its summary was refused: the log of gpumap-sync says "
		       "why";
	}
	if ((node->info.flags & GPUMAP_CLUSTER_DRAINING) != 0)
		return "its agent is ending";
	if ((node->info.flags & GPUMAP_CLUSTER_NO_GANGS) != 0)
		return "it takes no gangs";
	return NULL;
}

/* ---- options ------------------------------------------------------------- */

static const struct {
	const char *name;
	enum gm_ctl_launcher launcher;
	uint32_t engine; /* by whose rule caches are charged */
} launchers[] = {
	{ "torchrun", GM_LAUNCHER_TORCHRUN, 0 },
	{ "mpirun", GM_LAUNCHER_MPIRUN, 0 },
	{ "vllm", GM_LAUNCHER_VLLM, GPUMAP_ENGINE_VLLM },
	{ "sglang", GM_LAUNCHER_SGLANG, GPUMAP_ENGINE_SGLANG },
	{ "llama.cpp", GM_LAUNCHER_LLAMA_CPP, GPUMAP_ENGINE_LLAMA_CPP },
	{ "env", GM_LAUNCHER_ENV, 0 },
};

static const struct gm_ctl_choice choice = GM_CHOICE("--for", launchers);

static void read_job(struct gm_ctl_nodes_job *job)
{
	const struct gm_ctl *ctl = job->ctl;
	uint64_t n_layers = GM_NUMBER(ctl, LAYERS);
	uint64_t bytes = GM_NUMBER(ctl, BYTES), n_nodes = 0;

	if (GM_GIVEN(ctl, FOR)) {
		uint32_t i = gm_ctl_choose_word(&choice, GM_TEXT(ctl, FOR));

		job->launcher = launchers[i].launcher;
		job->q.ask.engine = launchers[i].engine;
	}
	if ((ctl->given & ~GM_OPTS_NODES) != 0)
		gm_ctl_plan_wrong(ctl, "one of these options is for rows of "
				       "this node");
	if ((GM_TEXT(ctl, MODEL) != NULL) == GM_GIVEN(ctl, LAYERS))
		gm_ctl_plan_wrong(ctl,
				  "give --model, or --layers with --bytes");
	if ((n_layers > 0) != (bytes > 0))
		gm_ctl_plan_wrong(ctl, "--layers and --bytes go together");
	if (GM_TEXT(ctl, MODEL) == NULL && GM_TEXT(ctl, ISQ) != NULL)
		gm_ctl_plan_wrong(ctl, "--isq is for --model");
	if (strcmp(GM_TEXT(ctl, NODES), "any") != 0 &&
	    (gm_parse_number(GM_TEXT(ctl, NODES), &n_nodes) != 0 ||
	     n_nodes == 0))
		gm_ctl_plan_wrong(ctl, "give a number of nodes, or any");
	if (n_layers > GM_CLUSTER_PLAN_LAYERS ||
	    GM_NUMBER(ctl, DEVICES) > UINT32_MAX ||
	    GM_NUMBER(ctl, TP) > UINT32_MAX ||
	    GM_NUMBER(ctl, PP) > UINT32_MAX ||
	    GM_NUMBER(ctl, MAX_BATCH) > UINT32_MAX || n_nodes > UINT32_MAX)
		gm_ctl_plan_wrong(ctl, "a number is too large");
	if (GM_NUMBER(ctl, PORT) > UINT16_MAX)
		gm_ctl_plan_wrong(ctl, "--port is 1 to 65535");
	if (GM_GIVEN(ctl, FINGERPRINT) &&
	    gm_parse_hash(GM_TEXT(ctl, FINGERPRINT), job->hash) != 0)
		gm_ctl_plan_wrong(ctl, "--fingerprint needs 64 hexadecimal "
				       "digits, not all 0");
	job->q.ask.compute_dtype = gm_ctl_plan_dtype(ctl);
	job->q.is_free = job->launcher == GM_LAUNCHER_LLAMA_CPP;
	if (job->q.is_free && (GM_GIVEN(ctl, TP) || GM_GIVEN(ctl, PP)))
		gm_ctl_plan_wrong(ctl, "llama.cpp has whole layers on each "
				       "device: leave --tp and --pp out");
	if (GM_TEXT(ctl, MODEL) != NULL) {
		gm_ctl_plan_model(ctl, &job->model, &job->q.ask, &job->isq);
		job->model_bytes = job->model.total_bytes;
	} else { /* equal layers, of which only the sum is known */
		job->layer_bytes =
			gm_ctl_alloc(n_layers, sizeof(*job->layer_bytes));
		for (uint64_t i = 0; i < n_layers; i++)
			job->layer_bytes[i] =
				bytes / n_layers + (bytes % n_layers != 0);
		job->isq = GM_ISQ_N;
		job->model_bytes = bytes;
		job->q.ask.n_layers = (uint32_t)n_layers;
		job->q.ask.layer_bytes = job->layer_bytes;
	}
	job->q.ask.max_seq_len = GM_NUMBER(ctl, MAX_SEQ_LEN);
	job->q.ask.max_batch_size = (uint32_t)GM_NUMBER(ctl, MAX_BATCH);
	job->q.take_nodes = (uint32_t)n_nodes;
	job->q.take_devices = (uint32_t)GM_NUMBER(ctl, DEVICES);
	job->q.tp = (uint32_t)GM_NUMBER(ctl, TP);
	job->q.pp = (uint32_t)GM_NUMBER(ctl, PP);
	job->q.max_stages = job->q.is_free ? LLAMA_CPP_STAGES : 0;
}

/* ---- nodes --------------------------------------------------------------- */

/* Is the node in --only? */
static bool is_wanted(const struct gm_ctl *ctl, const char *name)
{
	size_t n = strlen(name);
	const char *at = GM_TEXT(ctl, ONLY);

	for (; at != NULL; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, name, n) == 0 &&
		    (at[n] == ',' || at[n] == '\0'))
			return true;
	}
	return GM_TEXT(ctl, ONLY) == NULL;
}

static uint32_t class_of(const struct gpumap_cluster_device *device)
{
	return device->flags & GM_DEVICE_CLASS;
}

static void leave_out(struct gm_ctl_nodes_job *job,
		      const struct gm_ctl_cluster_node *node, int64_t row,
		      const char *why)
{
	struct gm_ctl_left_out *out = &job->left_out[job->n_left_out++];

	out->node = node->info.name;
	out->row = row;
	snprintf(out->why, sizeof(out->why), "%s", why);
}

/* Has the node the model?  A name alone will do where all nodes have the same
 * model of it. */
static bool is_warm(const struct gm_ctl_nodes_job *job,
		    const struct gm_ctl_cluster_node *node)
{
	const struct gm_ctl *ctl = job->ctl;

	if (!GM_GIVEN(ctl, SHARE) && !GM_GIVEN(ctl, FINGERPRINT))
		return false;
	for (uint32_t i = 0; i < node->info.n_shares; i++) {
		const struct gpumap_cluster_share *s = &node->shares[i];

		if (GM_TEXT(ctl, SHARE) != NULL &&
		    strcmp(s->name, GM_TEXT(ctl, SHARE)) != 0)
			continue;
		if (!GM_GIVEN(ctl, FINGERPRINT) ||
		    memcmp(s->fingerprint, job->hash, sizeof(job->hash)) == 0)
			return true;
	}
	return false;
}

/* Have nodes different models of the name of --share? */
static bool is_ambiguous(const struct gm_ctl_nodes_job *job)
{
	const uint8_t *first = NULL;

	if (GM_TEXT(job->ctl, SHARE) == NULL ||
	    GM_TEXT(job->ctl, FINGERPRINT) != NULL)
		return false;
	for (uint32_t i = 0; i < job->cluster.head.n_nodes; i++) {
		const struct gm_ctl_cluster_node *node = &job->cluster.nodes[i];

		for (uint32_t k = 0; k < node->info.n_shares; k++) {
			const struct gpumap_cluster_share *s = &node->shares[k];

			if (node->info.state != GPUMAP_CLUSTER_LIVE ||
			    strcmp(s->name, GM_TEXT(job->ctl, SHARE)) != 0)
				continue;
			if (first != NULL &&
			    memcmp(first, s->fingerprint, 32) != 0)
				return true;
			first = s->fingerprint;
		}
	}
	return false;
}

static void take_node(struct gm_ctl_nodes_job *job,
		      const struct gm_ctl_cluster_node *node, bool warm)
{
	char text[GM_CTL_NODES_WHY];
	const char *why = node_why(node, text);
	struct gm_plan_device *devices;
	uint32_t n = 0;

	if (!is_wanted(job->ctl, node->info.name))
		return;
	if (why != NULL) {
		leave_out(job, node, -1, why);
		return;
	}
	devices = gm_ctl_alloc(node->info.n_devices, sizeof(*devices));
	for (uint32_t i = 0; i < node->info.n_devices; i++) {
		const struct gpumap_cluster_device *d = &node->devices[i];

		if (class_of(d) != job->class)
			continue;
		why = d->state != GPUMAP_DEVICE_READY
			      ? gm_device_state(d->state)
		      : (d->flags & GPUMAP_DEVICE_CORDONED) != 0 ? "cordoned"
		      : (d->flags & GPUMAP_DEVICE_MIG) != 0
			      ? "split into MIG instances"
		      : (d->flags & GPUMAP_DEVICE_CARD) != 0 &&
				      strstr(d->name, " MIG ") != NULL
			      ? "a MIG instance, and ranks need whole cards"
			      : NULL;
		if (why != NULL) {
			leave_out(job, node, d->row, why);
			continue;
		}
		devices[n++] = (struct gm_plan_device){
			.row = d->row,
			.links = d->links,
			.is_host = (d->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0,
			.avail = gm_ctl_avail(d->free_bytes, d->reserved_bytes,
					      d->used_by_holders),
		};
	}
	if (n == 0) {
		free(devices);
		return;
	}
	job->candidates[job->q.n_nodes] =
		(struct gm_cluster_plan_node){ .name = node->info.name,
					       .devices = devices,
					       .n_devices = n,
					       .is_warm = warm };
	job->of[job->q.n_nodes++] = node;
}

/* llama.cpp has the layers of RPC servers between those of its own CPUs and
 * those of its own cards. */
static bool comes_at_an_end(const struct gm_ctl_nodes_job *job,
			    const struct gm_ctl_cluster_node *node, bool first)
{
	return job->launcher == GM_LAUNCHER_LLAMA_CPP &&
	       (node->info.flags & GPUMAP_CLUSTER_SELF) != 0 &&
	       first == (job->class == GPUMAP_DEVICE_SERVES);
}

static void take_nodes(struct gm_ctl_nodes_job *job)
{
	const struct gm_ctl_cluster *cluster = &job->cluster;
	bool ambiguous = is_ambiguous(job);

	if (ambiguous)
		gm_ctl_say("cluster: nodes have different models of the name "
			   "\"%s\", so none is preferred: give --fingerprint, "
			   "which gpumapctl cluster models shows",
			   GM_TEXT(job->ctl, SHARE));
	/* This node first, the others, and this one last. */
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < cluster->head.n_nodes; i++) {
			const struct gm_ctl_cluster_node *node =
				&cluster->nodes[i];
			int at = comes_at_an_end(job, node, true)    ? 0
				 : comes_at_an_end(job, node, false) ? 2
								     : 1;

			if (at == round)
				take_node(job, node,
					  !ambiguous && is_warm(job, node));
		}
}

/* ---- the plan ------------------------------------------------------------ */

/* Say why there is none; and which nodes could not be asked, where more of them
 * would help. */
static _Noreturn void refused(const struct gm_ctl_nodes_job *job,
			      const struct gm_plan_error *error)
{
	if (error->code != -ENOSPC && error->code != -ENODEV)
		gm_ctl_plan_error(error);
	gm_ctl_say("%s%s%s", error->text, error->remedy[0] != '\0' ? "; " : "",
		   error->remedy);
	for (uint32_t i = 0; i < job->n_left_out; i++) {
		const struct gm_ctl_left_out *out = &job->left_out[i];

		if (out->row < 0)
			gm_ctl_say("node %s is left out: %s", out->node,
				   out->why);
		else
			gm_ctl_say("row %lld of node %s is left out: %s",
				   (long long)out->row, out->node, out->why);
	}
	if (job->ctl->json)
		gm_ctl_nodes_refusal_json(job, error);
	gm_ctl_exit(GM_EXIT_FAILED);
}

static void make(struct gm_ctl_nodes_job *job)
{
	const struct gm_ctl_cluster *cluster = &job->cluster;
	uint32_t n_nodes = cluster->head.n_nodes, dtype = GPUMAP_DTYPE_BF16;
	struct gm_plan_error error = { .code = 0 };

	/* Cards, or where no node has any the hosts, or dummies. */
	for (uint32_t i = 0; i < n_nodes; i++) {
		const struct gm_ctl_cluster_node *node = &cluster->nodes[i];

		if (!is_wanted(job->ctl, node->info.name))
			continue;
		for (uint32_t k = 0; k < node->info.n_devices; k++)
			if (class_of(&node->devices[k]) > job->class)
				job->class = class_of(&node->devices[k]);
	}
	job->candidates = gm_ctl_alloc(n_nodes, sizeof(*job->candidates));
	job->of = gm_ctl_alloc(n_nodes, sizeof(*job->of));
	job->left_out = gm_ctl_alloc((size_t)n_nodes + cluster->head.n_devices,
				     sizeof(*job->left_out));
	take_nodes(job);
	for (uint32_t i = 0; i < job->q.n_nodes; i++)
		for (uint32_t k = 0; k < job->of[i]->info.n_devices; k++) {
			const struct gpumap_cluster_device *d =
				&job->of[i]->devices[k];

			if (class_of(d) == job->class)
				dtype = gm_dtype_weaker(
					dtype, gm_dtype_of_row(d->cc_major != 0,
							       d->cc_major,
							       d->cc_minor));
		}
	if (job->q.ask.compute_dtype == 0)
		job->q.ask.compute_dtype = dtype;
	job->q.nodes = job->candidates;
	if (gm_cluster_plan_make(&job->q, &job->plan, &error) != 0)
		refused(job, &error);
}

void gm_ctl_plan_nodes(struct gm_ctl *ctl)
{
	struct gm_ctl_nodes_job job = { .ctl = ctl };

	gm_ctl_attach(ctl);
	read_job(&job);
	read_cluster(ctl, &job.cluster);
	/* Is each node of --only in the cluster? */
	for (const char *at = GM_TEXT(ctl, ONLY); at != NULL;
	     at = strchr(at, ',')) {
		char name[GPUMAP_NAME_MAX + 1];
		uint32_t i = 0;

		at += *at == ',';
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
		while (i < job.cluster.n &&
		       strcmp(job.cluster.nodes[i].info.name, name) != 0)
			i++;
		if (i == job.cluster.n)
			gm_ctl_unknown("node", name, "cluster nodes");
	}
	make(&job);
	if (ctl->json)
		gm_ctl_nodes_json(&job);
	else if (job.launcher != GM_LAUNCHER_NONE)
		gm_ctl_nodes_script(&job);
	else
		gm_ctl_nodes_table(&job);
	for (uint32_t i = 0; i < job.q.n_nodes; i++)
		free((void *)(uintptr_t)job.candidates[i].devices);
	gm_cluster_plan_free(&job.plan);
	free(job.candidates);
	free(job.of);
	free(job.left_out);
	free_cluster(&job.cluster);
	gm_weights_sizes_free(&job.model);
	free(job.layer_bytes);
}
