/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Send the same request to the agent, which reserves the plan's charges. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/plan.h"

static void put_cache(const struct gm_plan_request *q,
		      struct gpumap_plan_request *ret)
{
	static const uint32_t kinds[] = {
		[GM_KV_MB] = GPUMAP_PAGED_MIB,
		[GM_KV_UTILIZATION] = GPUMAP_PAGED_SHARE,
		[GM_KV_TOKENS] = GPUMAP_PAGED_TOKENS,
	};

	if (q->model.has_kv) {
		ret->n_kv_heads = (uint32_t)q->model.kv.n_heads;
		ret->k_dim = (uint32_t)q->model.kv.k_dim;
		ret->v_dim = (uint32_t)q->model.kv.v_dim;
	}
	if (q->model.has_kv && q->model.kv.is_mla) {
		ret->kv_lora_rank = (uint32_t)q->model.kv.kv_lora_rank;
		ret->kpe_head_dim = (uint32_t)q->model.kv.kpe_head_dim;
	}
	if (q->paged == NULL)
		return;
	ret->paged = kinds[q->paged->budget];
	ret->paged_amount = q->paged->amount;
	ret->paged_share = q->paged->share;
	ret->paged_block = (uint32_t)q->paged->block_size;
	ret->paged_element_bytes = q->paged->cache_bytes;
}

void gm_ctl_plan_to_agent(const struct gm_ctl_planning *p,
			  struct gpumap_plan_request *ret)
{
	const struct gm_plan_request *q = &p->q;

	*ret = (struct gpumap_plan_request){
		.size = sizeof(*ret),
		.name = p->ctl->plan.commit,
		.flags = GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT,
		.setting = (uint32_t)q->setting,
		.text = q->text,
		.weights = q->weights,
		.rows = p->ctl->n_rows > 0 ? p->ctl->rows : NULL,
		.n_rows = p->ctl->n_rows,
		.n_layers = q->model.n_layers,
		.layer_bytes = q->model.layer_bytes,
		.other_bytes = q->model.other_bytes,
		.dtype = gm_ctl_dtype_named(gm_weights_type(p->model.type)),
		.n_heads = (uint32_t)q->model.n_heads,
		.compute_dtype = q->has_dtype ? gm_dtype_public(q->dtype) : 0,
		.max_seq_len = q->max_seq_len,
		.max_batch_size = (uint32_t)q->max_batch_size,
	};
	if (q->setting == GM_SETTING_AUTO || q->setting == GM_SETTING_TOPOLOGY)
		ret->strategy = q->strategy;
	if (q->base_row != GM_ROW_FIRST) {
		ret->flags |= GPUMAP_PLAN_BASE;
		ret->base_row = q->base_row;
	}
	put_cache(q, ret);
}

static int take_warnings(struct gm_plan *plan, const char *text)
{
	while (*text != '\0') {
		size_t n = strcspn(text, "\n");
		void *grown = reallocarray(plan->warnings, plan->n_warnings + 1,
					   sizeof(*plan->warnings));

		if (grown == NULL)
			return -ENOMEM;
		plan->warnings = grown;
		plan->warnings[plan->n_warnings] = strndup(text, n);
		if (plan->warnings[plan->n_warnings++] == NULL)
			return -ENOMEM;
		text += n + (text[n] == '\n');
	}
	return 0;
}

/* Is there a host among the rows that are charged? */
static bool on_hosts(const struct gm_ctl_planning *p)
{
	for (uint32_t i = 0; i < p->plan.n_charges; i++)
		for (uint32_t j = 0; j < p->node.n; j++)
			if (p->node.devices[j].row == p->plan.charges[i].row &&
			    p->node.devices[j].is_host &&
			    p->plan.charges[i].n_layers > 0)
				return true;
	return false;
}

/* Take the agent's answer.  @rows become the plan's. */
static int take_answer(struct gm_ctl_planning *p,
		       const struct gpumap_plan *answer, uint32_t *rows,
		       const struct gpumap_plan_charge *charges)
{
	struct gm_plan *plan = &p->plan;

	plan->rows = rows;
	plan->n_layers = answer->n_layers;
	plan->base_row = answer->base_row;
	if (gm_dtype_of_public(answer->compute_dtype, &plan->dtype) != 0)
		return -EPROTO;
	plan->kv_bytes = answer->kv_bytes;
	p->version = answer->version;
	plan->charges = calloc(answer->n_charges + 1, sizeof(*plan->charges));
	if (answer->spec[0] != '\0')
		plan->spec = strdup(answer->spec);
	if (plan->charges == NULL ||
	    (answer->spec[0] != '\0' && plan->spec == NULL))
		return -ENOMEM;
	for (uint32_t i = 0; i < answer->n_charges; i++)
		plan->charges[i] = (struct gm_plan_charge){
			.row = charges[i].row,
			.n_layers = charges[i].n_layers,
			.weight_bytes = charges[i].weight_bytes,
			.kv_bytes = charges[i].kv_bytes,
			.act_bytes = charges[i].activation_bytes,
			.reserve_bytes = charges[i].reserve_bytes,
			.left_bytes = charges[i].left_bytes,
		};
	plan->n_charges = answer->n_charges;
	plan->is_paged = p->q.paged != NULL && !on_hosts(p);
	return take_warnings(plan, answer->warnings);
}

/* Count the reservation of the map that would be replaced as free. */
static void take_own(struct gm_ctl_planning *p)
{
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_layers own = { .size = sizeof(own) };

	if (gpumap_layers_read(p->ctl->map, p->ctl->plan.commit, &own, NULL,
			       NULL, 0, charges, GPUMAP_ROWS_MAX) != 0 ||
	    (own.flags & GPUMAP_LAYERS_COMMITTED) == 0)
		return;
	for (uint32_t i = 0; i < own.n_rows; i++)
		for (uint32_t j = 0; j < p->node.n; j++)
			if (p->node.devices[j].row == charges[i].row)
				p->node.devices[j].avail +=
					charges[i].weight_bytes +
					charges[i].kv_bytes +
					charges[i].activation_bytes +
					charges[i].reserve_bytes;
}

/* The agent has refused.  Find out here what would fit: see plan.h. */
static int refused(struct gm_ctl_planning *p, int ret)
{
	struct gm_plan_advice advice = { .missing_bytes = 0 };
	struct gm_plan_error error = { .code = 0 };

	if (ret == -ENOSPC)
		take_own(p);
	if (ret == -ENOSPC &&
	    gm_plan_make(&p->q, &p->plan, &advice, &error) == -ENOSPC)
		return gm_ctl_plan_refused(p, &error, &advice);
	return gm_ctl_fail(p->ctl, ret, "commit \"%s\"", p->ctl->plan.commit);
}

int gm_ctl_commit(struct gm_ctl_planning *p)
{
	struct gpumap_plan_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_plan answer = { .size = sizeof(answer) };
	uint32_t n = p->q.model.n_layers;
	uint32_t *rows = calloc(n, sizeof(*rows));
	struct gpumap_plan_request request;
	int ret;

	if (rows == NULL)
		return gm_ctl_fail(p->ctl, -ENOMEM, "plan");
	gm_ctl_plan_to_agent(p, &request);
	ret = gpumap_plan_make(p->ctl->map, &request, &answer, rows, n, charges,
			       GPUMAP_ROWS_MAX);
	if (ret != 0) {
		free(rows);
		return refused(p, ret);
	}
	ret = take_answer(p, &answer, rows, charges);
	if (ret != 0)
		return gm_ctl_fail(p->ctl, ret, "plan");
	return gm_ctl_plan_show(p);
}
