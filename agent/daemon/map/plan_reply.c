/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/plan_reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/refusal.h"
#include "gpumap.h"

#define SPEC_ROOM    sizeof(((struct gpumap_plan *)NULL)->spec)
#define WARNING_ROOM sizeof(((struct gpumap_plan *)NULL)->warnings)

static uint32_t count_runs(const struct gm_plan *plan)
{
	uint32_t n = 1;

	for (uint32_t i = 1; i < plan->n_layers; i++)
		n += plan->rows[i] != plan->rows[i - 1];
	return n;
}

static char *put_runs(const struct gm_plan *plan, char *at)
{
	struct gm_control_run run = { .n_layers = 0 };

	for (uint32_t i = 0; i < plan->n_layers; i++) {
		run.row = plan->rows[i];
		run.n_layers++;
		if (i + 1 < plan->n_layers && plan->rows[i + 1] == run.row)
			continue;
		memcpy(at, &run, sizeof(run));
		at += sizeof(run);
		run.n_layers = 0;
	}
	return at;
}

/* Returns its bytes with the NUL; what is longer than @room ends in dots. */
static uint32_t put_text(char *at, size_t room, const char *text)
{
	int n = snprintf(at, room, "%s", text);

	if ((size_t)n < room)
		return (uint32_t)n + 1;
	memcpy(at + room - sizeof("..."), "...", sizeof("..."));
	return (uint32_t)room;
}

int gm_plan_reply_make(const struct gm_plan *plan,
		       const struct gm_shortage *shortage,
		       char ret_why[GM_WHY_BYTES],
		       struct gm_plan_reply *ret_reply)
{
	struct gm_control_plan_reply *body = &ret_reply->body;
	char *at;

	*body = (struct gm_control_plan_reply){
		.kv_bytes = plan->kv_bytes,
		.n_layers = plan->n_layers,
		.n_charges = plan->n_charges,
		.n_runs = count_runs(plan),
		.missing_bytes = shortage->bytes,
		.missing_row = shortage->row,
		.base_row = plan->base_row,
		.compute_dtype = plan->compute_dtype,
	};
	if (body->n_runs > GM_PLAN_RUNS_MAX)
		return gm_why(ret_why, -E2BIG,
			      "the layers change their row %u times; a plan "
			      "may do that %u times",
			      body->n_runs - 1, GM_PLAN_RUNS_MAX - 1);
	ret_reply->tail = malloc(body->n_charges * sizeof(plan->charges[0]) +
				 body->n_runs * sizeof(struct gm_control_run) +
				 SPEC_ROOM + WARNING_ROOM);
	if (ret_reply->tail == NULL)
		return -ENOMEM;
	at = mempcpy(ret_reply->tail, plan->charges,
		     plan->n_charges * sizeof(plan->charges[0]));
	at = put_runs(plan, at);
	body->spec_bytes =
		put_text(at, SPEC_ROOM, plan->spec != NULL ? plan->spec : "");
	at += body->spec_bytes;
	if (plan->warnings != NULL)
		body->warning_bytes =
			put_text(at, WARNING_ROOM, plan->warnings);
	at += body->warning_bytes;
	ret_reply->tail_bytes = (uint32_t)(at - ret_reply->tail);
	return 0;
}
