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

static char *put_charges(const struct gm_plan *plan, char *at)
{
	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gm_plan_charge *from = &plan->charges[i];
		struct gm_control_charge charge = {
			.row = from->row,
			.n_layers = from->n_layers,
			.weight_bytes = from->weight_bytes,
			.kv_bytes = from->kv_bytes,
			.activation_bytes = from->act_bytes,
			.reserve_bytes = from->reserve_bytes,
			.left_bytes = from->left_bytes,
		};

		memcpy(at, &charge, sizeof(charge));
		at += sizeof(charge);
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

/* One to a line.  Returns 0 when there is none. */
static uint32_t put_warnings(const struct gm_plan *plan, char *at)
{
	char all[2 * WARNING_ROOM] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < plan->n_warnings && n < sizeof(all); i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s",
				      i > 0 ? "\n" : "", plan->warnings[i]);
	return n > 0 ? put_text(at, WARNING_ROOM, all) : 0;
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
		.compute_dtype = gm_dtype_public(plan->dtype),
	};
	if (body->n_runs > GM_PLAN_RUNS_MAX)
		return gm_why(ret_why, -E2BIG,
			      "the layers change their row %u times; a plan "
			      "may do that %u times",
			      body->n_runs - 1, GM_PLAN_RUNS_MAX - 1);
	ret_reply->tail =
		malloc(body->n_charges * sizeof(struct gm_control_charge) +
		       body->n_runs * sizeof(struct gm_control_run) +
		       SPEC_ROOM + WARNING_ROOM);
	if (ret_reply->tail == NULL)
		return -ENOMEM;
	at = put_charges(plan, ret_reply->tail);
	at = put_runs(plan, at);
	body->spec_bytes =
		put_text(at, SPEC_ROOM, plan->spec != NULL ? plan->spec : "");
	at += body->spec_bytes;
	body->warning_bytes = put_warnings(plan, at);
	at += body->warning_bytes;
	ret_reply->tail_bytes = (uint32_t)(at - ret_reply->tail);
	return 0;
}
