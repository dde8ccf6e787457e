/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Run gpumapctl plan: plan, or send the same request to the agent, which
 * reserves the plan's charges. */

#include "agent/ctl/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/plan_nodes.h"

/* ---- the agent ----------------------------------------------------------- */

void gm_ctl_plan_to_agent(const struct gm_ctl_planning *p,
			  struct gpumap_plan_request *ret)
{
	*ret = p->q.ask;
	ret->size = sizeof(*ret);
	ret->name = GM_TEXT(p->ctl, COMMIT);
	ret->flags |= GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT;
	ret->dtype = gm_ctl_dtype_named(gm_weights_type(p->model.type));
	if (ret->n_rows == 0)
		ret->rows = NULL;
	if (ret->setting != GPUMAP_SETTING_AUTO &&
	    ret->setting != GPUMAP_SETTING_TOPOLOGY)
		ret->strategy = 0;
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

/* Take the agent's answer: @rows and @charges become the plan's. */
static int take_answer(struct gm_ctl_planning *p,
		       const struct gpumap_plan *answer, uint32_t *rows,
		       struct gpumap_plan_charge *charges)
{
	struct gm_plan *plan = &p->plan;

	*plan = (struct gm_plan){
		.n_layers = answer->n_layers,
		.rows = rows,
		.base_row = answer->base_row,
		.compute_dtype = answer->compute_dtype,
		.kv_bytes = answer->kv_bytes,
		.n_charges = answer->n_charges,
		.charges = charges,
	};
	plan->is_paged = p->q.ask.paged != GPUMAP_PAGED_NONE && !on_hosts(p);
	p->version = answer->version;
	if (answer->spec[0] != '\0')
		plan->spec = strdup(answer->spec);
	if (answer->warnings[0] != '\0')
		plan->warnings = strdup(answer->warnings);
	if ((answer->spec[0] != '\0' && plan->spec == NULL) ||
	    (answer->warnings[0] != '\0' && plan->warnings == NULL))
		return -ENOMEM;
	return gm_dtype_computes(plan->compute_dtype) ? 0 : -EPROTO;
}

/* Count the reservation of the map that would be replaced as free. */
static void take_own(struct gm_ctl_planning *p)
{
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_layers own = { .size = sizeof(own) };

	if (gpumap_layers_read(p->ctl->map, GM_TEXT(p->ctl, COMMIT), &own, NULL,
			       NULL, 0, charges, GPUMAP_ROWS_MAX) != 0 ||
	    (own.flags & GPUMAP_LAYERS_COMMITTED) == 0)
		return;
	for (uint32_t i = 0; i < own.n_rows; i++)
		for (uint32_t j = 0; j < p->node.n; j++)
			if (p->node.devices[j].row == charges[i].row)
				p->node.devices[j].avail +=
					gm_ctl_charged(&charges[i]);
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
	return gm_ctl_fail(p->ctl, ret, "commit \"%s\"",
			   GM_TEXT(p->ctl, COMMIT));
}

static int commit(struct gm_ctl_planning *p)
{
	struct gpumap_plan answer = { .size = sizeof(answer) };
	uint32_t n = p->q.ask.n_layers;
	uint32_t *rows = calloc(n, sizeof(*rows));
	struct gpumap_plan_charge *charges =
		calloc(GPUMAP_ROWS_MAX, sizeof(*charges));
	struct gpumap_plan_request request;
	int ret = rows != NULL && charges != NULL ? 0 : -ENOMEM;

	gm_ctl_plan_to_agent(p, &request);
	if (ret == 0)
		ret = gpumap_plan_make(p->ctl->map, &request, &answer, rows, n,
				       charges, GPUMAP_ROWS_MAX);
	if (ret != 0) {
		free(rows);
		free(charges);
		return refused(p, ret);
	}
	ret = take_answer(p, &answer, rows, charges);
	if (ret != 0)
		return gm_ctl_fail(p->ctl, ret, "plan");
	return gm_ctl_plan_show(p);
}

/* ---- the command --------------------------------------------------------- */

static int make(struct gm_ctl_planning *p)
{
	struct gm_plan_error error = { .code = 0 };
	struct gm_plan_advice advice = { .missing_bytes = 0 };
	int ret = gm_plan_make(&p->q, &p->plan, &advice, &error);

	if (ret != 0)
		return gm_ctl_plan_refused(p, &error,
					   ret == -ENOSPC ? &advice : NULL);
	return gm_ctl_plan_show(p);
}

int gm_ctl_plan(struct gm_ctl *ctl)
{
	struct gm_ctl_planning *p;
	int ret;

	if (GM_TEXT(ctl, NODES) != NULL)
		return gm_ctl_plan_nodes(ctl);
	if ((ctl->given & GM_OPTS_OF_NODES) != 0)
		return gm_ctl_wrong("plan: one of these options needs --nodes; "
				    "see gpumapctl(1)");
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "plan");
	p->ctl = ctl;
	ret = gm_ctl_plan_read(p);
	if (ret == GM_EXIT_OK)
		ret = GM_TEXT(ctl, COMMIT) != NULL ? commit(p) : make(p);
	gm_ctl_plan_free(p);
	return ret;
}
