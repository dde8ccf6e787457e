/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Request a plan from the agent, and unpack its answer. */

#include <gpumap/plan.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/private.h"
#include "shm/objects.h"

_Static_assert(GM_PLAN_RUNS_MAX * sizeof(struct gpumap_layer_cache) +
			       8 * GM_LAYERS_MAX <
		       GM_CONTROL_BYTES_MAX - 131072,
	       "in one record, with texts");

#define TEXTS_MAX                                     \
	(sizeof(((struct gpumap_plan *)NULL)->spec) + \
	 sizeof(((struct gpumap_plan *)NULL)->warnings))
#define TAIL_MAX                                       \
	(GM_ROWS * sizeof(struct gpumap_plan_charge) + \
	 GM_PLAN_RUNS_MAX * sizeof(struct gm_control_run) + TEXTS_MAX)

/* An answer whose parts have been found in its tail. */
struct answer {
	struct gm_control_plan_reply head;
	const struct gpumap_plan_charge *charges;
	const struct gm_control_run *runs;
	const char *spec;
	const char *warnings; /* NULL: none */
};

static int refuse(struct gpumap *map, int error, const char *why)
{
	gm_map_refuse(map, why);
	return error;
}

/* Check what needs no agent. */
static int check(struct gpumap *map, const struct gpumap_plan_request *ours)
{
	const uint32_t publish = GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT;

	if (ours->owner_uid != 0 && (ours->flags & GPUMAP_PLAN_FOR) == 0)
		return refuse(map, -EINVAL,
			      "a map for another user needs GPUMAP_PLAN_FOR");
	if ((ours->flags & publish) != 0 &&
	    (ours->name == NULL || gm_object_name(ours->name) == 0))
		return refuse(map, -EINVAL,
			      "a map to be published needs a name of 1 to 63 "
			      "bytes");
	if (ours->n_layers > GM_LAYERS_MAX)
		return refuse(map, -EINVAL,
			      "a layer map has at most 65536 layers");
	if (ours->layer_bytes != NULL && ours->n_layers == 0)
		return refuse(map, -EINVAL,
			      "sizes of layers need the number of layers");
	if (ours->tied_bytes > ours->other_bytes)
		return refuse(map, -EINVAL,
			      "an embedding that is the head as well is part "
			      "of what belongs to no layer");
	if (ours->caches != NULL && ours->n_layers == 0)
		return refuse(map, -EINVAL,
			      "what layers keep needs the number of layers");
	if (ours->n_caches > GM_PLAN_RUNS_MAX)
		return refuse(map, -E2BIG,
			      "what layers keep changes more than 8191 times");
	if ((ours->caches != NULL) != (ours->n_caches != 0))
		return refuse(map, -EINVAL,
			      "what layers keep is an array and its length");
	if (ours->n_rows > GM_ROWS || (ours->n_rows != 0 && ours->rows == NULL))
		return refuse(map, -EINVAL,
			      "at most 256 rows, and an array of them");
	return 0;
}

static void put_body(const struct gpumap_plan_request *ours,
		     struct gm_control_plan *body)
{
	*body = (struct gm_control_plan){
		.flags = ours->flags,
		.setting = ours->setting,
		.strategy = ours->strategy,
		.base_row = ours->base_row,
		.n_bytes = ours->layer_bytes != NULL ? ours->n_layers : 0,
		.n_rows = ours->n_rows,
		.n_layers = ours->n_layers,
		.dtype = ours->dtype,
		.other_bytes = ours->other_bytes,
		.tied_bytes = ours->tied_bytes,
		.n_heads = ours->n_heads,
		.n_caches = ours->n_caches,
		.compute_dtype = ours->compute_dtype,
		.max_batch_size = ours->max_batch_size,
		.max_seq_len = ours->max_seq_len,
		.paged = ours->paged,
		.paged_block = ours->paged_block,
		.paged_amount = ours->paged_amount,
		.paged_element_bytes = ours->paged_element_bytes,
		.wait_ns = ours->wait_ns,
		.start_ns = ours->start_ns,
		.owner_uid = ours->owner_uid,
		.engine = ours->engine,
		.conv_taps = ours->conv_taps,
		.state_bytes = ours->state_bytes,
	};
	_Static_assert(sizeof(ours->paged_share) == 4, "a float's bits");
	memcpy(&body->paged_share, &ours->paged_share, 4);
	if (ours->name != NULL)
		memcpy(body->name, ours->name, gm_object_name(ours->name));
}

/* A text and its padding, as two parts of a tail.  Returns its bytes. */
static uint32_t put_text(const char *text, struct iovec part[2])
{
	static const char padding[8];
	size_t bytes = text != NULL ? strlen(text) + 1 : 0;

	part[0] = (struct iovec){ (void *)text, bytes };
	part[1] = (struct iovec){ (void *)padding, -bytes % 8 };
	return (uint32_t)(bytes < UINT32_MAX ? bytes : UINT32_MAX);
}

/* Validate the texts: each ends at its stated length, and no bytes are left
 * over. */
static bool check_texts(const char *at, uint64_t bytes, struct answer *answer)
{
	const struct gm_control_plan_reply *head = &answer->head;

	if (head->spec_bytes == 0 ||
	    head->spec_bytes > sizeof(((struct gpumap_plan *)NULL)->spec) ||
	    head->warning_bytes >
		    sizeof(((struct gpumap_plan *)NULL)->warnings) ||
	    (uint64_t)head->spec_bytes + head->warning_bytes != bytes ||
	    strnlen(at, head->spec_bytes) != head->spec_bytes - 1)
		return false;
	answer->spec = at;
	at += head->spec_bytes;
	if (head->warning_bytes == 0)
		return true;
	answer->warnings = at;
	return strnlen(at, head->warning_bytes) == head->warning_bytes - 1;
}

/* Validate the agent's answer.  Returns 0 or -EPROTO. */
static int check_answer(const char *tail, uint64_t bytes, struct answer *answer)
{
	const struct gm_control_plan_reply *head = &answer->head;
	uint64_t charges, runs, layers = 0;

	charges = head->n_charges * sizeof(*answer->charges);
	runs = head->n_runs * sizeof(*answer->runs);
	if (head->n_charges > GM_ROWS || head->n_runs > GM_PLAN_RUNS_MAX ||
	    head->n_layers == 0 || head->n_layers > GM_LAYERS_MAX ||
	    charges + runs > bytes ||
	    !check_texts(tail + charges + runs, bytes - charges - runs, answer))
		return -EPROTO;
	answer->charges = (const void *)tail;
	answer->runs = (const void *)(tail + charges);
	for (uint32_t i = 0; i < head->n_runs; i++)
		layers += answer->runs[i].n_layers;
	return layers == head->n_layers ? 0 : -EPROTO;
}

static void put_plan(const struct answer *answer, struct gpumap_plan *plan)
{
	const struct gm_control_plan_reply *head = &answer->head;

	plan->n_layers = head->n_layers;
	plan->n_charges = head->n_charges;
	plan->base_row = head->base_row;
	plan->compute_dtype = head->compute_dtype;
	plan->kv_bytes = head->kv_bytes;
	plan->version = head->version;
	plan->missing_bytes = head->missing_bytes;
	plan->missing_row = head->missing_row;
	memcpy(plan->spec, answer->spec, head->spec_bytes);
	if (answer->warnings != NULL)
		memcpy(plan->warnings, answer->warnings, head->warning_bytes);
}

static void put_rows(const struct answer *answer, uint32_t *ret_rows)
{
	for (uint32_t i = 0; i < answer->head.n_runs; i++) {
		for (uint32_t n = answer->runs[i].n_layers; n > 0; n--)
			*ret_rows++ = answer->runs[i].row;
	}
}

/* May the refusal say how many bytes are missing? */
static bool is_want_of_room(int error)
{
	return error == -ENOSPC || error == -ETIMEDOUT;
}

/* Send the request, with room for the answer's tail.  For want of room @plan
 * receives the missing bytes. */
static int ask(struct gpumap *map, const struct gpumap_plan_request *ours,
	       char *tail, struct answer *answer, struct gpumap_plan *plan)
{
	struct gm_control_plan_refusal refusal = { .missing_bytes = 0 };
	struct gm_control_plan body;
	struct gm_call call = { .type = GM_CONTROL_PLAN,
				.body = &body,
				.body_bytes = sizeof(body),
				.reply = &answer->head,
				.reply_bytes = sizeof(answer->head),
				.reply_tail = tail,
				.reply_tail_room = TAIL_MAX,
				.refusal = &refusal,
				.refusal_bytes = sizeof(refusal),
				.wait_ns = ours->wait_ns };
	int ret;

	put_body(ours, &body);
	body.text_bytes = put_text(ours->text, call.tail);
	body.weight_bytes = put_text(ours->weights, call.tail + 2);
	call.tail[4] = (struct iovec){ (void *)ours->layer_bytes,
				       8 * (size_t)body.n_bytes };
	call.tail[5] =
		(struct iovec){ (void *)ours->caches,
				sizeof(*ours->caches) * (size_t)body.n_caches };
	call.tail[6] =
		(struct iovec){ (void *)ours->rows, 4 * (size_t)ours->n_rows };
	call.n_tail = 7;
	ret = gm_map_call(map, &call, 0);
	if (ret == 0)
		return check_answer(tail, call.reply_tail_bytes, answer);
	if (is_want_of_room(ret)) {
		plan->missing_bytes = refusal.missing_bytes;
		plan->missing_row = refusal.missing_row;
	}
	return ret;
}

int gpumap_plan_make(struct gpumap *map,
		     const struct gpumap_plan_request *request,
		     struct gpumap_plan *ret_plan, uint32_t *ret_rows, size_t n,
		     struct gpumap_plan_charge *ret_charges, size_t n_charges)
{
	struct gpumap_plan plan = { 0 };
	struct gpumap_plan_request ours;
	struct answer answer = { .head.n_layers = 0 };
	char *tail;
	int ret;

	ret = gm_map_begin(map);
	if (ret == 0)
		ret = gm_map_size_out(map, ret_plan,
				      offsetof(struct gpumap_plan, spec));
	if (ret == 0)
		ret = gm_map_size_in(map, &ours, sizeof(ours), request);
	if (ret == 0)
		ret = check(map, &ours);
	if (ret != 0)
		return ret;
	tail = malloc(TAIL_MAX);
	if (tail == NULL)
		return gm_refuse_memory(map, TAIL_MAX);
	ret = ask(map, &ours, tail, &answer, &plan);
	if (ret == 0)
		put_plan(&answer, &plan);
	if (ret == 0 || is_want_of_room(ret))
		gm_size_put(ret_plan, &plan, sizeof(plan));
	if (ret == 0 && ((ret_rows != NULL && n < plan.n_layers) ||
			 (ret_charges != NULL && n_charges < plan.n_charges)))
		ret = -ENOBUFS;
	if (ret == 0 && ret_rows != NULL)
		put_rows(&answer, ret_rows);
	if (ret == 0 && ret_charges != NULL)
		memcpy(ret_charges, answer.charges,
		       plan.n_charges * sizeof(*ret_charges));
	free(tail);
	return ret;
}
