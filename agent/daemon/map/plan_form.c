/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/plan_form.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/refusal.h"
#include "gpumap.h"
#include "gpumap/engine.h"
#include "lib/model/plan/plan.h"

#define START_MAX_NS UINT64_C(3600000000000)

#define CACHE_BYTES  sizeof(struct gpumap_layer_cache)

#define ALL_FLAGS                                                      \
	(GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD | \
	 GPUMAP_PLAN_BASE | GPUMAP_PLAN_NEW | GPUMAP_PLAN_FOR)

/* ---- the request --------------------------------------------------------- */

/* The bytes that a text takes of the tail. */
static uint64_t padded(uint32_t bytes)
{
	return ((uint64_t)bytes + 7) / 8 * 8;
}

/* The text of a tail's part: NUL-terminated, and nowhere else. */
static bool is_text(const char *at, uint32_t bytes)
{
	return bytes == 0 || strnlen(at, bytes) == bytes - 1;
}

static bool fits_together(const struct gm_control_plan *ask,
			  const struct gm_request *r)
{
	uint64_t text = padded(ask->text_bytes);
	uint64_t weights = padded(ask->weight_bytes);

	return memchr(ask->name, '\0', sizeof(ask->name)) != NULL &&
	       text + weights + 8 * (uint64_t)ask->n_bytes +
			       CACHE_BYTES * (uint64_t)ask->n_caches +
			       4 * (uint64_t)ask->n_rows ==
		       r->tail_bytes &&
	       is_text(r->tail, ask->text_bytes) &&
	       is_text(r->tail + text, ask->weight_bytes) &&
	       ask->tied_bytes <= ask->other_bytes &&
	       (ask->n_bytes == 0 || ask->n_bytes == ask->n_layers);
}

static bool is_known(const struct gm_control_plan *ask)
{
	return (ask->flags & ~ALL_FLAGS) == 0 &&
	       ask->engine <= GPUMAP_ENGINE_ACCELERATE &&
	       ask->state_bytes <= 8 &&
	       (ask->owner_uid == 0 || (ask->flags & GPUMAP_PLAN_FOR) != 0) &&
	       ask->setting >= GPUMAP_SETTING_MANUAL &&
	       ask->setting <= GPUMAP_SETTING_RESERVE &&
	       ask->strategy <= GPUMAP_STRATEGY_FEWEST &&
	       ask->dtype <= GPUMAP_DTYPE_F8_E5M2 &&
	       ask->paged <= GPUMAP_PAGED_TOKENS &&
	       (ask->compute_dtype == 0 ||
		gm_dtype_computes(ask->compute_dtype));
}

static const void *caches_of(const struct gm_control_plan *ask,
			     const char *tail)
{
	return tail + padded(ask->text_bytes) + padded(ask->weight_bytes) +
	       8 * (size_t)ask->n_bytes;
}

/* Check what the layers keep, after the sizes of all texts and arrays. */
static int check_caches(struct gm_connection *c,
			const struct gm_control_plan *ask,
			const struct gm_request *r)
{
	const struct gpumap_layer_cache *caches = caches_of(ask, r->tail);
	bool is_known = true, is_whole = true;
	uint64_t n_layers = 0;

	if (ask->n_caches == 0)
		return 0;
	if (ask->n_caches > GM_PLAN_RUNS_MAX)
		return gm_connection_bad(c, -E2BIG,
					 "what the layers keep changes %u "
					 "times; it may do so %u times",
					 ask->n_caches - 1,
					 GM_PLAN_RUNS_MAX - 1);
	for (uint32_t i = 0; i < ask->n_caches; i++) {
		is_known = is_known && caches[i].n_heads != 0;
		is_whole = is_whole && caches[i].n_layers != 0 &&
			   caches[i].reserved == 0;
		n_layers += caches[i].n_layers;
	}
	if (!is_whole || n_layers != ask->n_layers)
		return gm_connection_bad(c, -EINVAL,
					 "it is said what %llu layers keep, or "
					 "of none in one place, and there are "
					 "%u (gpumap_layer_cache)",
					 (unsigned long long)n_layers,
					 ask->n_layers);
	if ((ask->flags & GPUMAP_PLAN_COMMIT) != 0 && !is_known)
		return gm_connection_bad(c, -EINVAL,
					 "it is not known what each layer "
					 "keeps of a sequence, so too little "
					 "would be reserved: say it for every "
					 "layer (gpumap_layer_cache)");
	return 0;
}

int gm_plan_form_check(struct gm_connection *c,
		       const struct gm_control_plan *ask,
		       const struct gm_request *r)
{
	if (!fits_together(ask, r))
		return gm_connection_bad(c, -EINVAL,
					 "the request's parts do not fit "
					 "together; this is a client's fault");
	if (!is_known(ask))
		return gm_connection_bad(
			c, -EINVAL,
			"a flag, the setting, the strategy, a dtype or the "
			"engine of the plan is none that this agent knows");
	if ((ask->flags & GPUMAP_PLAN_FOR) != 0 && !gm_connection_is_sync(c))
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not make maps for others: root may, uid "
			"%u, which runs the agent, and the user in [cluster] "
			"of gpumapd.conf",
			(unsigned)c->uid, (unsigned)geteuid());
	if ((ask->flags & GPUMAP_PLAN_HELD) != 0 &&
	    (ask->flags & GPUMAP_PLAN_COMMIT) == 0)
		return gm_connection_bad(c, -EINVAL,
					 "only what is committed can be held: "
					 "ask for both");
	if ((ask->wait_ns != 0 && (ask->flags & GPUMAP_PLAN_COMMIT) == 0) ||
	    (ask->start_ns != 0 && (ask->flags & GPUMAP_PLAN_HELD) == 0))
		return gm_connection_bad(c, -EINVAL,
					 "only what is committed waits for "
					 "room, and only what is held has a "
					 "start window");
	if (ask->start_ns > START_MAX_NS)
		return gm_connection_bad(c, -EINVAL,
					 "a start window has at most an hour, "
					 "in which others may not start: ask "
					 "for less");
	if (ask->setting == GPUMAP_SETTING_RESERVE &&
	    (ask->n_bytes == 0 || ask->other_bytes != 0 || ask->n_caches != 0 ||
	     ask->text_bytes != 0 || ask->paged != GPUMAP_PAGED_NONE))
		return gm_connection_bad(c, -EINVAL,
					 "a reservation has bytes of rows "
					 "(layer_bytes), and no model");
	if (ask->setting == GPUMAP_SETTING_MANUAL && ask->text_bytes == 0)
		return gm_connection_bad(c, -EINVAL,
					 "a plan by hand needs a spec");
	if (ask->n_layers > GM_LAYERS_MAX)
		return gm_connection_bad(c, -E2BIG,
					 "%u layers; a map has at most %u",
					 ask->n_layers, GM_LAYERS_MAX);
	if (ask->n_rows > GM_ROWS)
		return gm_connection_bad(c, -EINVAL,
					 "%u rows; there are at most %u",
					 ask->n_rows, GM_ROWS);
	return check_caches(c, ask, r);
}

void gm_plan_form_read(const struct gm_control_plan *ask, const char *tail,
		       struct gpumap_plan_request *ret)
{
	const char *weights = tail + padded(ask->text_bytes);
	const char *bytes = weights + padded(ask->weight_bytes);
	const void *caches = caches_of(ask, tail);

	*ret = (struct gpumap_plan_request){
		.name = ask->name,
		.flags = ask->flags,
		.setting = ask->setting,
		.strategy = ask->strategy != 0 ? ask->strategy
					       : GPUMAP_STRATEGY_FILL,
		.base_row = ask->base_row,
		.text = ask->text_bytes != 0 ? tail : NULL,
		.weights = ask->weight_bytes != 0 ? weights : NULL,
		.rows = (const void *)((const char *)caches +
				       CACHE_BYTES * (size_t)ask->n_caches),
		.n_rows = ask->n_rows,
		.n_layers = ask->n_layers,
		.layer_bytes = ask->n_bytes != 0 ? (const void *)bytes : NULL,
		.other_bytes = ask->other_bytes,
		.tied_bytes = ask->tied_bytes,
		.dtype = ask->dtype,
		.n_heads = ask->n_heads,
		.caches = ask->n_caches != 0 ? caches : NULL,
		.n_caches = ask->n_caches,
		.compute_dtype = ask->compute_dtype,
		.max_seq_len = ask->max_seq_len,
		.max_batch_size = ask->max_batch_size,
		.paged = ask->paged,
		.paged_amount = ask->paged_amount,
		.paged_block = ask->paged_block,
		.paged_element_bytes = ask->paged_element_bytes,
		.owner_uid = ask->owner_uid,
		.engine = ask->engine,
		.conv_taps = ask->conv_taps,
		.state_bytes = ask->state_bytes,
		/* Years. */
		.wait_ns = ask->wait_ns < INT64_MAX / 2 ? ask->wait_ns
							: INT64_MAX / 2,
		.start_ns = ask->start_ns,
	};
	memcpy(&ret->paged_share, &ask->paged_share, sizeof(ret->paged_share));
}

/* ---- the reply ----------------------------------------------------------- */

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

int gm_plan_form_reply(const struct gm_plan *plan,
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
