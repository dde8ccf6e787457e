/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Place a model on what the agent says there is room for, and have the agent
 * admit it.
 *
 * ROOM is a look at one instant.  Where it was over when PUBLISH came, or it is
 * the turn of a map that waited, the agent answers -EAGAIN, and the plan is
 * made anew.  Both requests go over one connection, whose place in the line the
 * agent keeps meanwhile.
 */

#include <gpumap/engine.h>
#include <gpumap/plan.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/heads.h"
#include "lib/model/plan/plan.h"
#include "lib/model/plan/topology.h"
#include "lib/private.h"
#include "shm/objects.h"

/* Plans that came too late, one after the other, before one that was not to
 * wait takes a place in the line; and for how long. */
#define ATTEMPTS    2u
#define STANDING_NS (2 * GM_SECOND)

struct planning {
	struct gpumap *map;
	struct gpumap_plan_request ours;
	bool is_bare; /* the map is charged for weights alone */
	struct gm_topology topology;

	struct gm_room room; /* of each request to the agent */
	bool has_turn;       /* its place in the line is its own to use */
	uint64_t until_ns;   /* with room.wait_ns */
	struct gm_room_reply head;
	struct gm_room_row rows[GM_ROWS];
	uint64_t most[GM_ROWS];    /* by row */
	uint64_t lasting[GM_ROWS]; /* by row */

	struct gm_plan_device devices[GM_ROWS];
	uint32_t drained[GM_ROWS];
	struct gm_plan_request q;
	struct gm_plan plan;
	struct gm_plan wanted; /* where it fits nowhere now: one day */
	struct gm_plan_error error;

	uint64_t version;
	uint64_t missing_bytes;
	uint32_t missing_row;
};

static int refuse(const struct planning *p, int error, const char *why)
{
	gm_map_refuse(p->map, why);
	return error;
}

/* Store the planner's error, and what to do. */
static int explain(const struct planning *p, int error)
{
	char why[GM_WHY];

	gm_error_explain(&p->error, why, sizeof(why));
	return refuse(p, error, why);
}

static bool to_publish(const struct planning *p)
{
	return (p->ours.flags & (GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT)) !=
	       0;
}

static bool is_reserve(const struct planning *p)
{
	return p->ours.setting == GPUMAP_SETTING_RESERVE;
}

/* The layers may go to any of the rows, also where a topology names types
 * alone. */
static bool takes_any(const struct planning *p)
{
	return p->ours.setting == GPUMAP_SETTING_AUTO ||
	       (p->ours.setting == GPUMAP_SETTING_TOPOLOGY &&
		!gm_topology_places(&p->topology));
}

static bool takes_turns(const struct planning *p)
{
	return (p->ours.flags & GPUMAP_PLAN_HELD) != 0 || p->room.wait_ns != 0;
}

/* ---- the request --------------------------------------------------------- */

static bool is_known(const struct gpumap_plan_request *ours)
{
	return ours->engine <= GPUMAP_ENGINE_ACCELERATE &&
	       ours->state_bytes <= 8 &&
	       ours->setting >= GPUMAP_SETTING_MANUAL &&
	       ours->setting <= GPUMAP_SETTING_RESERVE &&
	       ours->strategy <= GPUMAP_STRATEGY_FEWEST &&
	       ours->dtype <= GPUMAP_DTYPE_F8_E5M2 &&
	       ours->paged <= GPUMAP_PAGED_TOKENS &&
	       (ours->compute_dtype == 0 ||
		gm_dtype_computes(ours->compute_dtype));
}

static int check_numbers(const struct planning *p)
{
	const struct gpumap_plan_request *ours = &p->ours;

	if (!is_known(ours))
		return refuse(p, -EINVAL,
			      "a flag, the setting, the strategy, a dtype or "
			      "the engine of the plan is none that this "
			      "library knows");
	if (ours->n_layers > GM_LAYERS_MAX)
		return refuse(p, -EINVAL,
			      "a layer map has at most 65536 layers");
	if (ours->layer_bytes != NULL && ours->n_layers == 0)
		return refuse(p, -EINVAL,
			      "sizes of layers need the number of layers");
	if (ours->tied_bytes > ours->other_bytes)
		return refuse(p, -EINVAL,
			      "an embedding that is the head as well is part "
			      "of what belongs to no layer");
	if (ours->n_rows > GM_ROWS || (ours->n_rows != 0 && ours->rows == NULL))
		return refuse(p, -EINVAL,
			      "at most 256 rows, and an array of them");
	for (uint32_t i = 0; i < ours->n_rows; i++)
		for (uint32_t j = 0; j < i; j++)
			if (ours->rows[i] == ours->rows[j])
				return gm_refuse(
					p->map, -EINVAL,
					"row %u is among the rows twice",
					ours->rows[i]);
	return 0;
}

static int check_caches(const struct planning *p)
{
	const struct gpumap_plan_request *ours = &p->ours;
	bool is_known = true, is_whole = true;
	uint64_t n_layers = 0;

	if (ours->caches != NULL && ours->n_layers == 0)
		return refuse(p, -EINVAL,
			      "what layers keep needs the number of layers");
	if (ours->n_caches > GM_PLAN_RUNS_MAX)
		return refuse(p, -E2BIG,
			      "what layers keep changes more than 8191 times");
	if ((ours->caches != NULL) != (ours->n_caches != 0))
		return refuse(p, -EINVAL,
			      "what layers keep is an array and its length");
	if (ours->n_caches == 0)
		return 0;
	for (uint32_t i = 0; i < ours->n_caches; i++) {
		is_known = is_known && ours->caches[i].n_heads != 0;
		is_whole = is_whole && ours->caches[i].n_layers != 0 &&
			   ours->caches[i].reserved == 0;
		n_layers += ours->caches[i].n_layers;
	}
	if (!is_whole || n_layers != ours->n_layers)
		return gm_refuse(p->map, -EINVAL,
				 "it is said what %" PRIu64 " layers keep, or "
				 "of none in one place, and there are %u "
				 "(gpumap_layer_cache)",
				 n_layers, ours->n_layers);
	if ((ours->flags & GPUMAP_PLAN_COMMIT) != 0 && !is_known)
		return refuse(p, -EINVAL,
			      "it is not known what each layer keeps of a "
			      "sequence, so too little would be reserved: say "
			      "it for every layer (gpumap_layer_cache)");
	return 0;
}

/* Check what needs no agent. */
static int check(const struct planning *p)
{
	const struct gpumap_plan_request *ours = &p->ours;
	int ret;

	if (ours->owner_uid != 0 && (ours->flags & GPUMAP_PLAN_FOR) == 0)
		return refuse(p, -EINVAL,
			      "a map for another user needs GPUMAP_PLAN_FOR");
	if (to_publish(p) &&
	    (ours->name == NULL || gm_object_name(ours->name) == 0))
		return refuse(p, -EINVAL,
			      "a map to be published needs a name of 1 to 63 "
			      "bytes");
	ret = check_numbers(p);
	if (ret == 0)
		ret = check_caches(p);
	if (ret != 0)
		return ret;
	if (is_reserve(p) &&
	    (ours->layer_bytes == NULL || ours->other_bytes != 0 ||
	     ours->n_caches != 0 || ours->text != NULL ||
	     ours->paged != GPUMAP_PAGED_NONE))
		return refuse(p, -EINVAL,
			      "a reservation has bytes of rows (layer_bytes), "
			      "and no model");
	if (ours->setting == GPUMAP_SETTING_MANUAL && ours->text == NULL)
		return refuse(p, -EINVAL, "a plan by hand needs a spec");
	return 0;
}

static int begin(struct planning *p)
{
	struct gpumap_plan_request *ours = &p->ours;
	int ret = 0;

	p->room = (struct gm_room){ .flags = ours->flags,
				    .owner_uid = ours->owner_uid,
				    .wait_ns = ours->wait_ns,
				    .start_ns = ours->start_ns };
	p->until_ns = gm_now_ns() + ours->wait_ns;
	if (p->until_ns < ours->wait_ns)
		p->until_ns = UINT64_MAX;
	if (to_publish(p))
		memcpy(p->room.name, ours->name, gm_object_name(ours->name));
	if (ours->strategy == 0)
		ours->strategy = GPUMAP_STRATEGY_FILL;
	p->q.ask = *ours;
	if (ours->setting != GPUMAP_SETTING_TOPOLOGY || ours->text == NULL)
		return 0;
	ret = gm_topology_parse(ours->text, &p->topology, &p->error);
	p->q.topology = &p->topology;
	return ret == 0 ? 0 : explain(p, ret);
}

/* ---- what there is ------------------------------------------------------- */

static struct gm_plan_device device_of(const struct gm_room_row *row)
{
	bool is_host = (row->flags & GM_ROOM_HOST) != 0;

	return (struct gm_plan_device){
		.row = row->row,
		.is_host = is_host,
		.is_cuda = (row->flags & GM_ROOM_CUDA) != 0,
		.is_integrated = (row->flags & GM_ROOM_INTEGRATED) != 0,
		.is_drained = (row->flags & GM_ROOM_DRAINED) != 0,
		.is_dummy = (row->flags & GM_ROOM_DUMMY) != 0,
		.cc_major = row->cc_major,
		.cc_minor = row->cc_minor,
		.avail = row->avail_bytes,
		.total = row->total_bytes,
		.speed = gm_plan_speed(is_host, row->units, row->free_bytes,
				       row->cc_major),
	};
}

static int ask_room(struct planning *p)
{
	struct gm_call call = { .type = GM_CONTROL_ROOM,
				.body = &p->room,
				.body_bytes = sizeof(p->room),
				.reply = &p->head,
				.reply_bytes = sizeof(p->head),
				.reply_tail = p->rows,
				.reply_tail_room = sizeof(p->rows) };
	int ret = gm_map_call(p->map, &call, 0);

	if (ret != 0)
		return ret;
	if (p->head.n > GM_ROWS ||
	    call.reply_tail_bytes != p->head.n * sizeof(p->rows[0]))
		return -EPROTO;
	for (uint32_t i = 0; i < p->head.n; i++) {
		if (p->rows[i].row >= GM_ROWS)
			return -EPROTO;
		p->devices[i] = device_of(&p->rows[i]);
		p->most[p->rows[i].row] = p->rows[i].most_bytes;
		p->lasting[p->rows[i].row] = p->rows[i].lasting_bytes;
	}
	return 0;
}

static int choose_rows(struct planning *p)
{
	uint32_t wrong = 0;
	int ret = gm_plan_choose(&p->q, p->devices, p->head.n, p->drained,
				 p->ours.setting == GPUMAP_SETTING_MANUAL,
				 &wrong);

	if (ret == 0)
		return 0;
	return gm_refuse(p->map, ret,
			 gm_plan_is_drained(&p->q, wrong)
				 ? "row %u is drained or cordoned: gpumapctl "
				   "undrain or uncordon brings it back; or "
				   "leave it out"
				 : "row %u is not there, is lost or has "
				   "failed: gpumapctl devices shows which can "
				   "be used",
			 wrong);
}

/* ---- planning ------------------------------------------------------------ */

static bool is_too_much(const struct planning *p)
{
	for (uint32_t i = 0; i < p->plan.n_charges; i++) {
		const struct gpumap_charge *charge = &p->plan.charges[i];

		if (gm_plan_charge_bytes(charge) > p->most[charge->row])
			return true;
	}
	return false;
}

/* Plan on rows of which there is no more than @bytes of each; rows without any
 * are left out. */
static int make_within(const struct planning *p, const uint64_t bytes[GM_ROWS],
		       bool is_now, struct gm_plan *ret_plan)
{
	struct gm_plan_device devices[GM_ROWS];
	struct gm_plan_request q = p->q;
	struct gm_plan_error error;

	q.devices = devices;
	q.n_devices = 0;
	for (uint32_t i = 0; i < p->q.n_devices; i++) {
		struct gm_plan_device device = p->devices[i];

		if (!is_now || device.avail > bytes[device.row])
			device.avail = bytes[device.row];
		if (device.avail != 0)
			devices[q.n_devices++] = device;
	}
	if (q.n_devices != 0 && gm_plan_make(&q, ret_plan, NULL, &error) == 0)
		return 0;
	gm_plan_free(ret_plan);
	return -ENOSPC;
}

/* Where others come before, on what they leave. */
static void make_elsewhere(struct planning *p)
{
	struct gm_plan other = { .rows = NULL };

	if (make_within(p, p->most, true, &other) != 0)
		return;
	gm_plan_free(&p->plan);
	p->plan = other;
}

/* Leave weights alone: what runs the model is not known. */
static void strip(struct gm_plan *plan)
{
	plan->compute_dtype = 0;
	for (uint32_t i = 0; i < plan->n_charges; i++)
		plan->charges[i] = (struct gpumap_charge){
			.row = plan->charges[i].row,
			.n_layers = plan->charges[i].n_layers,
			.weight_bytes = plan->charges[i].weight_bytes,
		};
}

static int make(struct planning *p)
{
	bool is_in_turn = takes_any(p) && takes_turns(p);
	int ret;

	gm_plan_free(&p->plan);
	gm_plan_free(&p->wanted);
	p->plan = p->wanted = (struct gm_plan){ .rows = NULL };
	ret = gm_plan_make(&p->q, &p->plan, NULL, &p->error);
	if (ret == 0 && p->is_bare)
		strip(&p->plan);
	if (ret == 0 && is_in_turn && is_too_much(p))
		make_elsewhere(p);
	if (ret == -ENOSPC && is_in_turn && p->room.wait_ns != 0)
		make_within(p, p->lasting, false, &p->wanted);
	return ret;
}

/* ---- publishing ---------------------------------------------------------- */

static uint32_t count_runs(const struct gm_plan *plan)
{
	uint32_t n = plan->n_layers != 0;

	for (uint32_t i = 1; i < plan->n_layers; i++)
		n += plan->rows[i] != plan->rows[i - 1];
	return n;
}

static void *put_charges(const struct gm_plan *plan, struct gm_charge_image *at)
{
	for (uint32_t i = 0; i < plan->n_charges; i++)
		*at++ = (struct gm_charge_image){
			.row = plan->charges[i].row,
			.n_layers = plan->charges[i].n_layers,
			.weight_bytes = plan->charges[i].weight_bytes,
			.kv_bytes = plan->charges[i].kv_bytes,
			.activation_bytes = plan->charges[i].activation_bytes,
			.reserve_bytes = plan->charges[i].reserve_bytes,
		};
	return at;
}

static void put_runs(const struct gm_plan *plan, struct gm_plan_run *at)
{
	for (uint32_t i = 0; i < plan->n_layers; i++) {
		if (i == 0 || plan->rows[i] != plan->rows[i - 1])
			*at++ = (struct gm_plan_run){ .row = plan->rows[i] };
		at[-1].n_layers++;
	}
}

/* Weights take as much on any rows, and the rest at least nothing. */
static uint64_t least_bytes(const struct gpumap_plan_request *ours)
{
	uint64_t sum = ours->other_bytes;

	for (uint32_t i = 0; ours->layer_bytes != NULL && i < ours->n_layers;
	     i++)
		if (__builtin_add_overflow(sum, ours->layer_bytes[i], &sum))
			return UINT64_MAX;
	return sum;
}

static struct gm_publish body_of(const struct planning *p,
				 const struct gm_plan *plan)
{
	const struct gpumap_plan_request *ours = &p->ours;
	struct gm_publish body = {
		.map = p->room,
		.setting = ours->setting,
		.base_row = plan->base_row,
		.n_layers = plan->n_layers,
		.dtype = ours->dtype,
		.compute_dtype = plan->compute_dtype,
		.n_charges = plan->n_charges,
		.n_bytes = ours->layer_bytes != NULL ? plan->n_layers : 0,
		.n_rows = takes_any(p) ? p->q.n_devices : 0,
		.spec_bytes = 1,
		.other_bytes = ours->other_bytes,
		.least_bytes = least_bytes(ours),
		.rows_given = p->head.rows_given,
	};

	if (plan->spec != NULL)
		body.spec_bytes = (uint32_t)strlen(plan->spec) + 1;
	if (ours->setting == GPUMAP_SETTING_AUTO)
		body.strategy = ours->strategy;
	if (ours->caches != NULL) {
		body.max_seq_len = ours->max_seq_len != 0 ? ours->max_seq_len
							  : GM_PLAN_SEQ_LEN;
		body.max_batch_size = ours->max_batch_size != 0
					      ? ours->max_batch_size
					      : GM_PLAN_BATCH_SIZE;
	}
	if (p->room.wait_ns != 0) {
		uint64_t now = gm_now_ns();

		body.map.wait_ns = p->until_ns > now ? p->until_ns - now : 1;
	}
	return body;
}

/* May the refusal say how many bytes are missing? */
static bool is_want_of_room(int error)
{
	return error == -ENOSPC || error == -ETIMEDOUT;
}

/* Send PUBLISH or RESERVE, and take the refusal's numbers. */
static int call(struct planning *p, struct gm_call *call, uint64_t wait_ns)
{
	struct gm_publish_refusal refusal = { .missing_bytes = 0 };
	int ret;

	call->refusal = &refusal;
	call->refusal_bytes = sizeof(refusal);
	call->wait_ns = wait_ns;
	ret = gm_map_call(p->map, call, 0);
	if (is_want_of_room(ret)) {
		p->missing_bytes = refusal.missing_bytes;
		p->missing_row = refusal.missing_row;
	}
	return ret;
}

/* @plan to be published, or without layers to be waited for. */
static int send(struct planning *p, const struct gm_plan *plan,
		uint64_t left[GM_ROWS])
{
	struct gm_publish body = body_of(p, plan);
	struct gm_publish_reply reply = { .version = 0 };
	struct gm_charge_image charges[GM_ROWS];
	uint32_t rows[GM_ROWS];
	struct gm_plan_run *runs;
	struct gm_call publish = { .type = GM_CONTROL_PUBLISH,
				   .body = &body,
				   .body_bytes = sizeof(body),
				   .reply = &reply,
				   .reply_bytes = sizeof(reply),
				   .reply_tail = left,
				   .reply_tail_room = GM_ROWS * 8,
				   .n_tail = 5 };
	int ret;

	body.n_runs = count_runs(plan);
	if (body.n_runs > GM_PLAN_RUNS_MAX)
		return gm_refuse(p->map, -E2BIG,
				 "the layers change their row %u times; a plan "
				 "may do that %u times",
				 body.n_runs - 1, GM_PLAN_RUNS_MAX - 1);
	runs = malloc(((size_t)body.n_runs + 1) * sizeof(*runs));
	if (runs == NULL)
		return gm_refuse_memory(p->map, body.n_runs * sizeof(*runs));
	put_charges(plan, charges);
	put_runs(plan, runs);
	for (uint32_t i = 0; i < body.n_rows; i++)
		rows[i] = p->q.devices[i].row;
	publish.tail[0] =
		(struct iovec){ charges, body.n_charges * sizeof(charges[0]) };
	publish.tail[1] = (struct iovec){ runs, body.n_runs * sizeof(*runs) };
	publish.tail[2] = (struct iovec){ (void *)p->ours.layer_bytes,
					  8 * (size_t)body.n_bytes };
	publish.tail[3] = (struct iovec){ rows, body.n_rows * sizeof(rows[0]) };
	publish.tail[4] =
		(struct iovec){ plan->spec != NULL ? plan->spec : (char *)"",
				body.spec_bytes };
	ret = call(p, &publish, body.map.wait_ns);
	p->has_turn = ret == -EAGAIN && body.map.wait_ns != 0;
	free(runs);
	if (ret == 0 && publish.reply_tail_bytes != 8 * body.n_charges)
		return -EPROTO;
	p->version = reply.version;
	return ret;
}

static int publish(struct planning *p)
{
	uint64_t left[GM_ROWS];
	int ret = send(p, &p->plan, left);

	for (uint32_t i = 0; ret == 0 && i < p->plan.n_charges; i++)
		p->plan.charges[i].left_bytes = left[i];
	return ret;
}

/* For as much as it could have one day. */
static int wait_for_room(struct planning *p)
{
	struct gm_plan none = p->wanted;
	uint64_t left[GM_ROWS];
	char why[GM_WHY];
	int ret;

	none.n_layers = 0;
	none.spec = NULL;
	ret = send(p, &none, left);
	if (ret != -ETIMEDOUT)
		return ret;
	gm_error_explain(&p->error, why, sizeof(why));
	return gm_refuse(p->map, ret, "%" PRIu64 " s later still: %.220s",
			 p->room.wait_ns / GM_SECOND, why);
}

/* The place in the line is not wanted any more. */
static void leave_line(struct planning *p)
{
	char why[GM_WHY];
	struct gm_publish body = { .map = p->room,
				   .setting = p->ours.setting,
				   .spec_bytes = 1,
				   .rows_given = p->head.rows_given };
	struct gm_call leave = { .type = GM_CONTROL_PUBLISH,
				 .body = &body,
				 .body_bytes = sizeof(body),
				 .tail = { { (char *)"", 1 } },
				 .n_tail = 1 };

	snprintf(why, sizeof(why), "%s", gpumap_refusal(p->map));
	body.map.wait_ns = 0;
	(void)gm_map_call(p->map, &leave, 0);
	gm_map_refuse(p->map, why);
}

/* One attempt.  Returns -EAGAIN where another one is to be made. */
static int attempt(struct planning *p)
{
	bool waits = takes_any(p) && p->room.wait_ns != 0;
	int ret = ask_room(p);

	if (ret == 0)
		ret = choose_rows(p);
	if (ret != 0)
		return ret;
	ret = make(p);
	if (ret == -ENOSPC && waits && to_publish(p))
		return wait_for_room(p);
	if (ret != 0 || !to_publish(p))
		return ret == 0 ? 0 : explain(p, ret);
	return publish(p);
}

static int place(struct planning *p)
{
	bool stands = false;
	uint32_t n = 0;
	int ret;

	while ((ret = attempt(p)) == -EAGAIN) {
		if (p->room.wait_ns != 0 || ++n < ATTEMPTS)
			continue;
		if ((p->ours.flags & GPUMAP_PLAN_COMMIT) == 0 || !takes_any(p))
			break;
		p->room.wait_ns = STANDING_NS;
		p->until_ns = gm_now_ns() + STANDING_NS;
		stands = true;
	}
	if (p->has_turn && ret != 0)
		leave_line(p);
	return ret == -ETIMEDOUT && stands ? -EAGAIN : ret;
}

/* ---- reserving ----------------------------------------------------------- */

static int take_reserved(struct planning *p,
			 const struct gm_reserve_reply *reply,
			 const struct gm_reserved_row *rows)
{
	struct gm_plan *plan = &p->plan;
	size_t room = (size_t)reply->n * sizeof("255:1;") + 1, at = 0;

	plan->rows = calloc(reply->n, sizeof(*plan->rows));
	plan->charges = calloc(reply->n, sizeof(*plan->charges));
	plan->spec = calloc(1, room);
	if (plan->rows == NULL || plan->charges == NULL || plan->spec == NULL)
		return gm_refuse_memory(p->map, room);
	for (uint32_t i = 0; i < reply->n; i++) {
		plan->rows[i] = rows[i].row;
		plan->charges[i] = (struct gpumap_charge){
			.row = rows[i].row,
			.n_layers = 1,
			.weight_bytes = rows[i].bytes,
			.left_bytes = rows[i].left_bytes,
		};
		at += (size_t)snprintf(plan->spec + at, room - at, "%s%u:1",
				       at != 0 ? ";" : "", rows[i].row);
	}
	plan->n_layers = plan->n_charges = reply->n;
	plan->base_row = rows[0].row;
	plan->missing_bytes = reply->missing_bytes;
	plan->missing_row = reply->missing_row;
	p->version = reply->version;
	return 0;
}

static int reserve(struct planning *p)
{
	const struct gpumap_plan_request *ours = &p->ours;
	struct gm_reserve_ask body = { .map = p->room,
				       .dtype = ours->dtype,
				       .n_bytes = ours->n_layers,
				       .n_rows = ours->n_rows };
	struct gm_reserved_row rows[GM_ROWS];
	struct gm_reserve_reply reply;
	struct gm_call ask = {
		.type = GM_CONTROL_RESERVE,
		.body = &body,
		.body_bytes = sizeof(body),
		.tail = { { (void *)ours->layer_bytes,
			    8 * (size_t)ours->n_layers },
			  { (void *)ours->rows, 4 * (size_t)ours->n_rows } },
		.n_tail = 2,
		.reply = &reply,
		.reply_bytes = sizeof(reply),
		.reply_tail = rows,
		.reply_tail_room = sizeof(rows),
	};
	int ret = call(p, &ask, ours->wait_ns);

	if (ret != 0)
		return ret;
	if (reply.n == 0 || reply.n > GM_ROWS ||
	    ask.reply_tail_bytes != reply.n * sizeof(rows[0]))
		return -EPROTO;
	return take_reserved(p, &reply, rows);
}

/* ---- the answer ---------------------------------------------------------- */

/* A text that is longer than its room ends in dots. */
static void put_text(char *to, size_t room, const char *text)
{
	int n = snprintf(to, room, "%s", text != NULL ? text : "");

	if ((size_t)n >= room)
		memcpy(to + room - sizeof("..."), "...", sizeof("..."));
}

static void put_answer(const struct planning *p, int ret,
		       struct gpumap_plan *answer)
{
	const struct gm_plan *plan = &p->plan;

	answer->missing_bytes = p->missing_bytes;
	answer->missing_row = p->missing_row;
	if (ret != 0)
		return;
	answer->n_layers = plan->n_layers;
	answer->n_charges = plan->n_charges;
	answer->base_row = plan->base_row;
	answer->compute_dtype = plan->compute_dtype;
	answer->kv_bytes = plan->kv_bytes;
	answer->version = p->version;
	if ((p->ours.flags & GPUMAP_PLAN_COMMIT) == 0) {
		answer->missing_bytes = plan->missing_bytes;
		answer->missing_row = plan->missing_row;
	}
	put_text(answer->spec, sizeof(answer->spec), plan->spec);
	put_text(answer->warnings, sizeof(answer->warnings), plan->warnings);
}

static void end(struct planning *p)
{
	gm_plan_free(&p->plan);
	gm_plan_free(&p->wanted);
	gm_topology_free(&p->topology);
	free(p);
}

/* Carry out p->ours. */
static int carry_out(struct planning *p)
{
	int ret = check(p);

	if (ret == 0)
		ret = begin(p);
	if (ret != 0)
		return ret;
	return is_reserve(p) ? reserve(p) : place(p);
}

int gpumap_plan_make(struct gpumap *map,
		     const struct gpumap_plan_request *request,
		     struct gpumap_plan *ret_plan, uint32_t *ret_rows, size_t n,
		     struct gpumap_charge *ret_charges, size_t n_charges)
{
	struct gpumap_plan answer = { 0 };
	struct planning *p;
	int ret;

	ret = gm_map_begin(map);
	if (ret == 0)
		ret = gm_map_size_out(map, ret_plan,
				      offsetof(struct gpumap_plan, spec));
	if (ret != 0)
		return ret;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return gm_refuse_memory(map, sizeof(*p));
	p->map = map;
	ret = gm_map_size_in(map, &p->ours, sizeof(p->ours), request);
	if (ret == 0)
		ret = carry_out(p);
	if (ret == 0 || is_want_of_room(ret)) {
		put_answer(p, ret, &answer);
		gm_size_put(ret_plan, &answer, sizeof(answer));
	}
	if (ret == 0 &&
	    ((ret_rows != NULL && n < p->plan.n_layers) ||
	     (ret_charges != NULL && n_charges < p->plan.n_charges)))
		ret = -ENOBUFS;
	if (ret == 0 && ret_rows != NULL)
		memcpy(ret_rows, p->plan.rows,
		       p->plan.n_layers * sizeof(*ret_rows));
	if (ret == 0 && ret_charges != NULL)
		memcpy(ret_charges, p->plan.charges,
		       p->plan.n_charges * sizeof(*ret_charges));
	end(p);
	return ret;
}

int gpumap_layers_publish(struct gpumap *map,
			  const struct gpumap_layers_request *request)
{
	struct gpumap_layers_request ours;
	struct planning *p;
	int ret = gm_map_begin(map);

	if (ret == 0)
		ret = gm_map_size_in(map, &ours, sizeof(ours), request);
	if (ret != 0)
		return ret;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return gm_refuse_memory(map, sizeof(*p));
	p->map = map;
	p->is_bare = true;
	p->ours = (struct gpumap_plan_request){
		.name = ours.name,
		.flags = GPUMAP_PLAN_PUBLISH,
		.setting = GPUMAP_SETTING_MANUAL,
		.text = ours.spec,
		.n_layers = ours.n_layers,
		.layer_bytes = ours.layer_bytes,
		.other_bytes = ours.other_bytes,
		.dtype = ours.dtype,
	};
	ret = carry_out(p);
	end(p);
	return ret;
}
