/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show a plan over nodes: a table, and JSON with the mesh of its ranks. */

#include <stdio.h>
#include <string.h>

#include "agent/ctl/fields.h"
#include "agent/ctl/plan_nodes.h"
#include "agent/mesh/mesh.h"
#include "shm/ops.h"

#define GIB (1024.0 * 1024 * 1024)

/* ---- the table ----------------------------------------------------------- */

/* "0-39", or "7". */
static const char *layers_text(const struct gm_cluster_plan_stage *stage,
			       char ret_text[32])
{
	uint32_t last = stage->first_layer + stage->n_layers - 1;

	if (stage->n_layers == 1)
		snprintf(ret_text, 32, "%u", last);
	else
		snprintf(ret_text, 32, "%u-%u", stage->first_layer, last);
	return ret_text;
}

static void rank_line(const struct gm_ctl_nodes_job *job, uint32_t rank)
{
	const struct gm_cluster_plan_rank *r = &job->plan.ranks[rank];
	char layers[32];

	printf("%4u  %-*s %3u  %5u  %-10s %8.2f %8.2f %8.2f %8.2f %9.2f\n",
	       rank, job->cluster.node_width,
	       gm_ctl_nodes_taken(job, r->node)->info.name, r->charge.row,
	       r->stage, layers_text(&job->plan.stages[r->stage], layers),
	       (double)r->charge.weight_bytes / GIB,
	       (double)r->charge.kv_bytes / GIB,
	       (double)r->charge.activation_bytes / GIB,
	       (double)r->charge.reserve_bytes / GIB,
	       (double)r->charge.left_bytes / GIB);
}

static void put_warm(const struct gm_ctl_nodes_job *job)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < job->plan.n_nodes; i++)
		if (job->candidates[job->plan.nodes[i]].is_warm)
			printf("%s%s", n++ == 0 ? "\nhave the model: " : ", ",
			       gm_ctl_nodes_taken(job, i)->info.name);
	if (n > 0)
		putchar('\n');
	else if (GM_TEXT(job->ctl, SHARE) != NULL ||
		 GM_TEXT(job->ctl, FINGERPRINT) != NULL)
		printf("\nnone of these nodes has the model: gpumapctl cluster "
		       "models lists those there are\n");
}

static void put_left_out(const struct gm_ctl_nodes_job *job)
{
	for (size_t i = 0; i < job->n_left_out; i++) {
		const struct gm_ctl_left_out *out = &job->left_out[i];

		printf("%sleft out: %s", i == 0 ? "\n" : "", out->node);
		if (out->row >= 0)
			printf(" row %lld", (long long)out->row);
		printf(": %s\n", out->why);
	}
}

void gm_ctl_nodes_table(const struct gm_ctl_nodes_job *job)
{
	const struct gm_cluster_plan *p = &job->plan;
	const char *model = GM_TEXT(job->ctl, MODEL);
	char size[32];

	gm_ctl_print_plain(model != NULL ? model : "model");
	printf(": %u layers, %s%s%s\n", job->q.ask.n_layers,
	       gm_size_text(job->model_bytes, size),
	       job->isq != GM_ISQ_N ? ", as if quantised to " : "",
	       job->isq != GM_ISQ_N ? gm_isq_name(job->isq) : "");
	printf("%u of %u nodes of %s, %u stage%s, tensor parallel %u, %s\n\n",
	       p->n_nodes, job->cluster.head.n_nodes, job->cluster.head.name,
	       p->n_stages, p->n_stages > 1 ? "s" : "", p->tp,
	       gm_ops_dtype_name(job->q.ask.compute_dtype));
	printf("rank  %-*s row  stage  %-10s %8s %8s %8s %8s %9s  in GiB\n",
	       job->cluster.node_width, "node", "layers", "weights", "KV",
	       "act.", "kept", "left");
	for (uint32_t rank = 0; rank < p->n_ranks; rank++)
		rank_line(job, rank);
	put_warm(job);
	put_left_out(job);
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *whole(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *nodes_json(const struct gm_ctl_nodes_job *job)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < job->plan.n_nodes; i++) {
		const struct gpumap_cluster_node *n =
			&gm_ctl_nodes_taken(job, i)->info;
		uint32_t n_ranks = 0, first = UINT32_MAX;

		for (uint32_t r = 0; r < job->plan.n_ranks; r++) {
			if (job->plan.ranks[r].node != i)
				continue;
			first = r < first ? r : first;
			n_ranks++;
		}
		json_array_append_new(
			list,
			json_pack("{s:o, s:s, s:s, s:b, s:b, s:o, s:o}",
				  "node_rank", whole(i), "name", n->name,
				  "address", n->address, "self",
				  (n->flags & GPUMAP_CLUSTER_SELF) != 0, "warm",
				  job->candidates[job->plan.nodes[i]].is_warm,
				  "first_rank", whole(first), "ranks",
				  whole(n_ranks)));
	}
	return list;
}

static json_t *stages_json(const struct gm_ctl_nodes_job *job)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < job->plan.n_stages; i++) {
		const struct gm_cluster_plan_stage *s = &job->plan.stages[i];

		json_array_append_new(
			list,
			json_pack("{s:o, s:s, s:o, s:o}", "stage", whole(i),
				  "node",
				  gm_ctl_nodes_taken(job, s->node)->info.name,
				  "first_layer", whole(s->first_layer),
				  "n_layers", whole(s->n_layers)));
	}
	return list;
}

static json_t *rank_json(const struct gm_ctl_nodes_job *job, uint32_t rank,
			 uint32_t local)
{
	static const struct gm_ctl_field fields[] = {
		GM_MEMBERS(gpumap_plan_charge, weight_bytes, kv_bytes,
			   activation_bytes, reserve_bytes, left_bytes),
		{ 0 },
	};
	const struct gm_cluster_plan_rank *r = &job->plan.ranks[rank];
	const struct gpumap_cluster_device *d = gm_ctl_nodes_rank(job, rank);
	char uuid[48];

	return gm_ctl_fields_json(
		job->ctl, fields, &r->charge,
		json_pack("{s:o, s:s, s:o, s:o, s:s, s:o, s:o}", "rank",
			  whole(rank), "node",
			  gm_ctl_nodes_taken(job, r->node)->info.name, "row",
			  whole(r->charge.row), "local_rank", whole(local),
			  "uuid", gm_ctl_nodes_uuid(d->uuid, uuid) + 4, "stage",
			  whole(r->stage), "tp_rank",
			  whole(rank % job->plan.tp)));
}

static json_t *ranks_json(const struct gm_ctl_nodes_job *job)
{
	json_t *list = json_array();
	uint32_t local = 0;

	for (uint32_t r = 0; r < job->plan.n_ranks; r++) {
		local = r > 0 && job->plan.ranks[r].node ==
						job->plan.ranks[r - 1].node
				? local + 1
				: 0;
		json_array_append_new(list, rank_json(job, r, local));
	}
	return list;
}

static json_t *group_json(const struct gm_mesh_group *group)
{
	json_t *ranks = json_array();

	for (uint64_t i = 0; i < group->n; i++)
		json_array_append_new(ranks, whole(gm_mesh_rank(group, i)));
	return json_pack("{s:s, s:o}", "name", group->name, "ranks", ranks);
}

/* The arrangement of the ranks, and its groups, as a mesh of one node has
 * them. */
static json_t *mesh_json(const struct gm_cluster_plan *p)
{
	struct gm_mesh_shape shape = {
		.kind = p->tp > 1 && p->n_stages > 1 ? GPUMAP_MESH_MIXED
			: p->tp > 1                  ? GPUMAP_MESH_TENSOR
			: p->n_stages > 1            ? GPUMAP_MESH_PIPELINE
						     : GPUMAP_MESH_DATA,
		.tp = p->tp,
		.pp = p->n_stages,
		.dp = 1,
	};
	json_t *groups = json_array();
	char text[GM_MESH_TEXT];
	struct gm_mesh mesh;

	if (gm_mesh_make(&shape, p->n_ranks, &mesh, NULL) != 0)
		return groups;
	for (uint64_t i = 0; i < mesh.n_shaped; i++) {
		struct gm_mesh_group group;

		gm_mesh_group(&mesh, i, &group);
		json_array_append_new(groups, group_json(&group));
	}
	gm_mesh_free(&mesh);
	return json_pack("{s:s, s:o, s:o}", "topology",
			 gm_mesh_print(&shape, text), "world",
			 whole(p->n_ranks), "groups", groups);
}

static json_t *left_out_json(const struct gm_ctl_nodes_job *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->n_left_out; i++) {
		const struct gm_ctl_left_out *out = &job->left_out[i];

		json_array_append_new(
			list,
			json_pack("{s:s, s:o, s:s}", "node", out->node, "row",
				  out->row >= 0 ? json_integer(out->row)
						: json_null(),
				  "why", out->why));
	}
	return list;
}

static json_t *words_json(const char *node,
			  const struct gm_ctl_nodes_words *words)
{
	return json_pack("{s:s, s:o, s:o}", "node", node, "env",
			 gm_words_env_json((const char *const *)words->env.v,
					   words->env.n),
			 "argv",
			 gm_words_json((const char *const *)words->argv.v,
				       words->argv.n));
}

static json_t *commands_json(const struct gm_ctl_nodes_job *job,
			     const char *name)
{
	struct gm_ctl_nodes_words words;
	json_t *list = json_array();

	for (uint32_t i = 0; i < job->plan.n_nodes; i++) {
		gm_ctl_nodes_words(job, i, name, &words);
		json_array_append_new(
			list, words_json(gm_ctl_nodes_taken(job, i)->info.name,
					 &words));
		gm_ctl_nodes_words_free(&words);
	}
	if (gm_ctl_nodes_has_head(job)) {
		gm_ctl_nodes_head_words(job, name, &words);
		json_array_append_new(list, words_json(job->cluster.head.node,
						       &words));
		gm_ctl_nodes_words_free(&words);
	}
	return list;
}

/* {"cluster", "node", "version", "age_ns", "limit_ns", "stale"}. */
static json_t *head_json(const struct gm_ctl_nodes_job *job)
{
	static const struct gm_ctl_field fields[] = {
		GM_FIELD(gpumap_cluster, "cluster", name),
		GM_MEMBERS(gpumap_cluster, node, version),
		GM_FIELD(gpumap_cluster, "age_ns", age_ns, .as = GM_AS_OR_MAX),
		GM_MEMBERS(gpumap_cluster, limit_ns),
		GM_FIELD(gpumap_cluster, "stale", stale, GM_SET(1)),
		{ 0 },
	};

	return gm_ctl_fields_json(job->ctl, fields, &job->cluster.head, NULL);
}

json_t *gm_ctl_nodes_refusal_json(const struct gm_ctl_nodes_job *job,
				  const struct gm_plan_error *error)
{
	json_t *object = head_json(job);

	json_object_update_new(
		object,
		json_pack("{s:s, s:s, s:o}", "errno",
			  error->code == -ENOSPC ? "ENOSPC" : "ENODEV", "why",
			  error->text, "left_out", left_out_json(job)));
	return object;
}

json_t *gm_ctl_nodes_plan_json(const struct gm_ctl_nodes_job *job,
			       const char *name)
{
	const struct gm_cluster_plan *p = &job->plan;
	json_t *object = head_json(job);

	json_object_update_new(
		object,
		json_pack("{s:o, s:o, s:o, s:s, s:s?, s:o, s:o, s:o, s:o, "
			  "s:o, s:o, s:o, s:o}",
			  "model", gm_ctl_text_json(GM_TEXT(job->ctl, MODEL)),
			  "n_layers", whole(job->q.ask.n_layers), "model_bytes",
			  whole(job->model_bytes), "dtype",
			  gm_ops_dtype_name(job->q.ask.compute_dtype), "isq",
			  job->isq != GM_ISQ_N ? gm_isq_name(job->isq) : NULL,
			  "tp", whole(p->tp), "pp", whole(p->n_stages), "nodes",
			  nodes_json(job), "stages", stages_json(job), "ranks",
			  ranks_json(job), "mesh", mesh_json(p), "left_out",
			  left_out_json(job), "commands",
			  job->launcher != GM_LAUNCHER_NONE
				  ? commands_json(job, name)
				  : json_null()));
	return object;
}
