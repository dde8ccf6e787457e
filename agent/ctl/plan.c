/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Run gpumapctl plan: plan, or send the same request to the agent, which
 * reserves the plan's charges. */

#include "agent/ctl/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the agent ----------------------------------------------------------- */

struct gpumap_plan_request gm_ctl_plan_to_agent(const struct gm_ctl_planning *p)
{
	struct gpumap_plan_request ask = p->q.ask;

	ask.size = sizeof(ask);
	ask.name = GM_TEXT(p->ctl, COMMIT);
	ask.flags |= GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT;
	ask.dtype = gm_weights_dtype(p->model.type);
	if (ask.n_rows == 0)
		ask.rows = NULL;
	if (ask.setting != GPUMAP_SETTING_AUTO &&
	    ask.setting != GPUMAP_SETTING_TOPOLOGY)
		ask.strategy = 0;
	return ask;
}

static char *copy_text(const char *text)
{
	return text[0] != '\0' ? strcpy(gm_ctl_alloc(1, strlen(text) + 1), text)
			       : NULL;
}

/* The agent has refused.  Find out here what would fit: see plan.h. */
static _Noreturn void refused(struct gm_ctl_planning *p, int ret)
{
	struct gm_plan_advice advice = { .missing_bytes = 0 };
	struct gm_plan_error error = { .code = 0 };
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_layers own = { .size = sizeof(own) };

	/* The reservation of the map that would be replaced counts as free. */
	if (ret == -ENOSPC &&
	    gpumap_layers_read(p->ctl->map, GM_TEXT(p->ctl, COMMIT), &own, NULL,
			       NULL, 0, charges, GPUMAP_ROWS_MAX) == 0 &&
	    (own.flags & GPUMAP_LAYERS_COMMITTED) != 0)
		for (uint32_t i = 0; i < own.n_rows; i++)
			for (uint32_t j = 0; j < p->node.n; j++)
				if (p->node.devices[j].row == charges[i].row)
					p->node.devices[j].avail +=
						gm_ctl_charged(&charges[i]);
	if (ret == -ENOSPC &&
	    gm_plan_make(&p->q, &p->plan, &advice, &error) == -ENOSPC)
		gm_ctl_plan_refused(p, &error, &advice);
	gm_ctl_fail(p->ctl, ret, "commit \"%s\"", GM_TEXT(p->ctl, COMMIT));
}

/* Have the agent make the plan. */
static void commit(struct gm_ctl_planning *p)
{
	struct gpumap_plan_request request = gm_ctl_plan_to_agent(p);
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct gm_plan *plan = &p->plan;
	uint32_t *rows = gm_ctl_alloc(request.n_layers, sizeof(*rows));
	struct gpumap_charge *charges =
		gm_ctl_alloc(GPUMAP_ROWS_MAX, sizeof(*charges));
	int ret = gpumap_plan_make(p->ctl->map, &request, &answer, rows,
				   request.n_layers, charges, GPUMAP_ROWS_MAX);

	if (ret != 0) {
		free(rows);
		free(charges);
		refused(p, ret);
	}
	*plan = (struct gm_plan){
		.n_layers = answer.n_layers,
		.rows = rows,
		.base_row = answer.base_row,
		.compute_dtype = answer.compute_dtype,
		.kv_bytes = answer.kv_bytes,
		.n_charges = answer.n_charges,
		.charges = charges,
		.spec = copy_text(answer.spec),
		.warnings = copy_text(answer.warnings),
	};
	/* No cache is paged where a host has a layer. */
	plan->is_paged = p->q.ask.paged != GPUMAP_PAGED_NONE;
	for (uint32_t i = 0; i < plan->n_charges; i++)
		for (uint32_t j = 0; j < p->node.n; j++)
			if (p->node.devices[j].row == charges[i].row &&
			    p->node.devices[j].is_host &&
			    charges[i].n_layers > 0)
				plan->is_paged = false;
	p->version = answer.version;
	if (!gm_dtype_computes(plan->compute_dtype))
		gm_ctl_fail(p->ctl, -EPROTO, "plan");
}

void gm_ctl_plan(struct gm_ctl *ctl)
{
	struct gm_plan_advice advice = { .missing_bytes = 0 };
	struct gm_plan_error error = { .code = 0 };
	struct gm_ctl_planning *p;
	int ret = 0;

	if (GM_TEXT(ctl, NODES) != NULL) {
		gm_ctl_plan_nodes(ctl);
		return;
	}
	if ((ctl->given & GM_OPTS_OF_NODES) != 0)
		gm_ctl_wrong("plan: one of these options needs --nodes; see "
			     "gpumapctl(1)");
	p = gm_ctl_plan_read(ctl);
	if (GM_TEXT(ctl, COMMIT) != NULL)
		commit(p);
	else
		ret = gm_plan_make(&p->q, &p->plan, &advice, &error);
	if (ret != 0)
		gm_ctl_plan_refused(p, &error, ret == -ENOSPC ? &advice : NULL);
	gm_ctl_plan_show(p);
	gm_ctl_plan_free(p);
}
