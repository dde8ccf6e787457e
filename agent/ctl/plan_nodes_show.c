/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show a plan over nodes: a table, and JSON with the mesh of its ranks. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/ctl/fields.h"
#include "agent/ctl/plan.h"
#include "agent/ctl/plan_nodes.h"
#include "agent/mesh/mesh.h"
#include "shm/ops.h"

void gm_ctl_nodes_table(const struct gm_ctl_nodes_job *job)
{
	const struct gm_cluster_plan *p = &job->plan;
	const char *model = GM_TEXT(job->ctl, MODEL);
	const char *isq = gm_ctl_isq(job->isq);
	char text[32];
	uint32_t n_warm = 0;

	gm_ctl_print_plain(model != NULL ? model : "model");
	printf(": %u layers, %s%s%s\n", job->q.ask.n_layers,
	       gm_size_text(job->model_bytes, text),
	       isq != NULL ? ", as if quantised to " : "",
	       isq != NULL ? isq : "");
	printf("%u of %u nodes of %s, %u stage%s, tensor parallel %u, %s\n\n",
	       p->n_nodes, job->cluster.head.n_nodes, job->cluster.head.name,
	       p->n_stages, gm_ctl_s(p->n_stages), p->tp,
	       gm_ops_dtype_name(job->q.ask.compute_dtype));
	printf("rank  %-*s row  stage  %-10s %8s %8s %8s %8s %9s  in GiB\n",
	       job->cluster.node_width, "node", "layers", "weights", "KV",
	       "act.", "kept", "left");
	for (uint32_t rank = 0; rank < p->n_ranks; rank++) {
		const struct gm_cluster_plan_rank *r = &p->ranks[rank];
		const struct gm_cluster_plan_stage *s = &p->stages[r->stage];
		const struct gpumap_charge *c = &r->charge;

		/* "0-39", or "7" */
		snprintf(text, sizeof(text), s->n_layers == 1 ? "%u" : "%u-%u",
			 s->first_layer, s->first_layer + s->n_layers - 1);
		printf("%4u  %-*s %3u  %5u  %-10s %8.2f %8.2f %8.2f %8.2f "
		       "%9.2f\n",
		       rank, job->cluster.node_width,
		       gm_ctl_nodes_taken(job, r->node)->info.name, c->row,
		       r->stage, text, (double)c->weight_bytes / GM_CTL_GIB,
		       (double)c->kv_bytes / GM_CTL_GIB,
		       (double)c->activation_bytes / GM_CTL_GIB,
		       (double)c->reserve_bytes / GM_CTL_GIB,
		       (double)c->left_bytes / GM_CTL_GIB);
	}
	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (job->candidates[p->nodes[i]].is_warm)
			printf("%s%s",
			       n_warm++ == 0 ? "\nhave the model: " : ", ",
			       gm_ctl_nodes_taken(job, i)->info.name);
	if (n_warm > 0)
		putchar('\n');
	else if (GM_GIVEN(job->ctl, SHARE) || GM_GIVEN(job->ctl, FINGERPRINT))
		printf("\nnone of these nodes has the model: gpumapctl cluster "
		       "models lists those there are\n");
	for (uint32_t i = 0; i < job->n_left_out; i++) {
		const struct gm_ctl_left_out *out = &job->left_out[i];

		printf("%sleft out: %s", i == 0 ? "\n" : "", out->node);
		if (out->row >= 0)
			printf(" row %lld", (long long)out->row);
		printf(": %s\n", out->why);
	}
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *nodes_json(const struct gm_ctl_nodes_job *job)
{
	json_t *list = json_array();
	uint32_t first = 0, n;

	for (uint32_t i = 0; i < job->plan.n_nodes; i++, first += n) {
		const struct gpumap_cluster_node *info =
			&gm_ctl_nodes_taken(job, i)->info;

		n = gm_ctl_nodes_count_ranks(job, i);
		json_array_append_new(
			list,
			json_pack("{s:I, s:s, s:s, s:b, s:b, s:I, s:I}",
				  "node_rank", (json_int_t)i, "name",
				  info->name, "address", info->address, "self",
				  (info->flags & GPUMAP_CLUSTER_SELF) != 0,
				  "warm",
				  job->candidates[job->plan.nodes[i]].is_warm,
				  "first_rank", (json_int_t)first, "ranks",
				  (json_int_t)n));
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
			json_pack("{s:I, s:s, s:I, s:I}", "stage",
				  (json_int_t)i, "node",
				  gm_ctl_nodes_taken(job, s->node)->info.name,
				  "first_layer", (json_int_t)s->first_layer,
				  "n_layers", (json_int_t)s->n_layers));
	}
	return list;
}

static const struct gm_ctl_field charge_fields[] = {
	GM_MEMBERS(gpumap_charge, weight_bytes, kv_bytes, activation_bytes,
		   reserve_bytes, left_bytes),
	{ 0 },
};

static json_t *ranks_json(const struct gm_ctl_nodes_job *job)
{
	json_t *list = json_array();
	uint32_t first = 0; /* of its node */

	for (uint32_t i = 0; i < job->plan.n_ranks; i++) {
		const struct gm_cluster_plan_rank *r = &job->plan.ranks[i];
		const struct gpumap_cluster_device *d =
			gm_ctl_nodes_rank(job, i);
		char uuid[GM_CTL_UUID];

		if (r->node != job->plan.ranks[first].node)
			first = i;
		json_array_append_new(
			list,
			gm_ctl_fields_json(
				job->ctl, charge_fields, &r->charge,
				json_pack("{s:I, s:s, s:I, s:I, s:s, s:I, s:I}",
					  "rank", (json_int_t)i, "node",
					  gm_ctl_nodes_taken(job, r->node)
						  ->info.name,
					  "row", (json_int_t)d->row,
					  "local_rank", (json_int_t)(i - first),
					  "uuid",
					  gm_ctl_nodes_uuid(d->uuid, uuid) + 4,
					  "stage", (json_int_t)r->stage,
					  "tp_rank",
					  (json_int_t)(i % job->plan.tp))));
	}
	return list;
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
		json_t *ranks = json_array();
		struct gm_mesh_group group;

		gm_mesh_group(&mesh, i, &group);
		for (uint64_t k = 0; k < group.n; k++)
			json_array_append_new(
				ranks, json_integer((json_int_t)gm_mesh_rank(
					       &group, k)));
		json_array_append_new(groups,
				      json_pack("{s:s, s:o}", "name",
						group.name, "ranks", ranks));
	}
	gm_mesh_free(&mesh);
	return json_pack("{s:s, s:I, s:o}", "topology",
			 gm_mesh_print(&shape, text), "world",
			 (json_int_t)p->n_ranks, "groups", groups);
}

static json_t *commands_json(const struct gm_ctl_nodes_job *job)
{
	struct gm_ctl_nodes_words words;
	json_t *list = json_array();

	for (uint32_t i = 0; gm_ctl_nodes_words(job, i, &words); i++) {
		json_array_append_new(
			list,
			json_pack("{s:s, s:o, s:o}", "node", words.node, "env",
				  gm_ctl_words_env_json(
					  (const char *const *)words.env.v,
					  words.env.n),
				  "argv",
				  gm_ctl_words_json(
					  (const char *const *)words.argv.v,
					  words.argv.n)));
		gm_ctl_nodes_words_free(&words);
	}
	return list;
}

static const struct gm_ctl_field head_fields[] = {
	GM_FIELD(gpumap_cluster, "cluster", name),
	GM_MEMBERS(gpumap_cluster, node, version),
	GM_FIELD(gpumap_cluster, "age_ns", age_ns, .as = GM_AS_OR_MAX),
	GM_MEMBERS(gpumap_cluster, limit_ns),
	GM_FIELD(gpumap_cluster, "stale", stale, GM_SET(1)),
	{ 0 },
};

static const struct gm_ctl_field left_out_fields[] = {
	GM_FIELD(gm_ctl_left_out, "node", node),
	GM_FIELD(gm_ctl_left_out, "row", row, .as = GM_AS_OR_NULL),
	GM_FIELD(gm_ctl_left_out, "why", why),
	{ 0 },
};

static json_t *left_out_json(const struct gm_ctl_nodes_job *job)
{
	return gm_ctl_fields_array(job->ctl, left_out_fields, job->left_out,
				   job->n_left_out, sizeof(job->left_out[0]));
}

void gm_ctl_nodes_refusal_json(const struct gm_ctl_nodes_job *job,
			       const struct gm_plan_error *error)
{
	json_t *object = gm_ctl_fields_json(job->ctl, head_fields,
					    &job->cluster.head, NULL);

	json_object_update_new(
		object,
		json_pack("{s:s, s:s, s:o}", "errno",
			  error->code == -ENOSPC ? "ENOSPC" : "ENODEV", "why",
			  error->text, "left_out", left_out_json(job)));
	gm_ctl_print(object);
}

void gm_ctl_nodes_json(const struct gm_ctl_nodes_job *job)
{
	const struct gm_cluster_plan *p = &job->plan;
	json_t *object = gm_ctl_fields_json(job->ctl, head_fields,
					    &job->cluster.head, NULL);

	json_object_update_new(
		object,
		json_pack("{s:o, s:I, s:I, s:s, s:s?, s:I, s:I, s:o, s:o, "
			  "s:o, s:o, s:o, s:o}",
			  "model", gm_ctl_text_json(GM_TEXT(job->ctl, MODEL)),
			  "n_layers", (json_int_t)job->q.ask.n_layers,
			  "model_bytes", (json_int_t)job->model_bytes, "dtype",
			  gm_ops_dtype_name(job->q.ask.compute_dtype), "isq",
			  gm_ctl_isq(job->isq), "tp", (json_int_t)p->tp, "pp",
			  (json_int_t)p->n_stages, "nodes", nodes_json(job),
			  "stages", stages_json(job), "ranks", ranks_json(job),
			  "mesh", mesh_json(p), "left_out", left_out_json(job),
			  "commands",
			  job->launcher != GM_LAUNCHER_NONE ? commands_json(job)
							    : json_null()));
	gm_ctl_print(object);
}
