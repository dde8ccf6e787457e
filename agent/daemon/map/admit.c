/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/admit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/admission.h"
#include "agent/daemon/map/room.h"
#include "gpumap.h"
#include "lib/model/plan/dtype.h"

#define START_MAX_NS UINT64_C(3600000000000)
#define SPEC_BYTES   4096u

#define ALL_FLAGS                                                      \
	(GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD | \
	 GPUMAP_PLAN_BASE | GPUMAP_PLAN_NEW | GPUMAP_PLAN_FOR)

static int do_not_fit(struct gm_connection *c)
{
	return gm_connection_bad(
		c, -EINVAL,
		"the request's parts do not fit together; this "
		"is a client's fault");
}

/* The part that the three have in common, which comes first. */
static int check_head(struct gm_connection *c, const struct gm_room *head)
{
	if (memchr(head->name, '\0', sizeof(head->name)) == NULL)
		return do_not_fit(c);
	if ((head->flags & ~ALL_FLAGS) != 0 ||
	    (head->owner_uid != 0 && (head->flags & GPUMAP_PLAN_FOR) == 0))
		return gm_connection_bad(c, -EINVAL,
					 "a flag of the plan is none that this "
					 "agent knows, or an owner without "
					 "GPUMAP_PLAN_FOR");
	if ((head->flags & GPUMAP_PLAN_FOR) != 0 && !gm_connection_is_sync(c))
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not make maps for others: root may, uid "
			"%u, which runs the agent, and the user in [cluster] "
			"of gpumapd.conf",
			(unsigned)c->uid, (unsigned)geteuid());
	if ((head->flags & GPUMAP_PLAN_HELD) != 0 &&
	    (head->flags & GPUMAP_PLAN_COMMIT) == 0)
		return gm_connection_bad(c, -EINVAL,
					 "only what is committed can be held: "
					 "ask for both");
	if ((head->wait_ns != 0 && (head->flags & GPUMAP_PLAN_COMMIT) == 0) ||
	    (head->start_ns != 0 && (head->flags & GPUMAP_PLAN_HELD) == 0))
		return gm_connection_bad(c, -EINVAL,
					 "only what is committed waits for "
					 "room, and only what is held has a "
					 "start window");
	if (head->start_ns > START_MAX_NS)
		return gm_connection_bad(c, -EINVAL,
					 "a start window has at most an hour, "
					 "in which others may not start: ask "
					 "for less");
	return 0;
}

static int check_rows(struct gm_connection *c, const uint32_t *rows, uint32_t n)
{
	bool named[GM_ROWS] = { false };

	for (uint32_t i = 0; i < n; i++) {
		if (rows[i] >= GM_ROWS)
			return gm_connection_bad(
				c, -ENODEV,
				"row %u is not there, is lost or has failed: "
				"gpumapctl devices shows which can be used",
				rows[i]);
		if (named[rows[i]])
			return gm_connection_bad(
				c, -EINVAL, "row %u is among the rows twice",
				rows[i]);
		named[rows[i]] = true;
	}
	return 0;
}

/* The beginning of PUBLISH and RESERVE. */
static int begin(struct gm_connection *c, const struct gm_request *r,
		 struct gm_admission **ret_admission)
{
	int ret = check_head(c, (const void *)r->body);

	if (ret != 0)
		return ret;
	*ret_admission = gm_admission_new(c, r);
	return *ret_admission != NULL ? 0 : -ENOMEM;
}

/* ---- ROOM ---------------------------------------------------------------- */

int gm_admit_room_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_room *ask = (const void *)r->body;
	struct gm_daemon *d = c->server->d;
	struct gm_room_row rows[GM_ROWS];
	struct gm_room_reply reply = { .rows_given = gm_room_rows_given(d) };
	struct gm_wait_place none = { .uid = gm_admit_place_uid(c, ask),
				      .has_start = ask->start_ns != 0 };
	const struct gm_admit_place *place;
	const uint64_t *lasting;
	struct gm_turn turn;
	uint64_t has[GM_ROWS];
	int ret = check_head(c, ask);

	if (ret == 0)
		ret = gm_room_check_agent(d, c->server->why);
	if (ret != 0)
		return ret;
	place = gm_admit_place_of(c, ask);
	gm_turn_find(d, place != NULL ? &place->wait : &none, ask, &turn);
	lasting = gm_wait_line_lasting(d);
	gm_ledger_shares(d, none.uid, turn.slot, has);
	reply.n = gm_room_list(d, turn.slot, rows);
	for (uint32_t i = 0; i < reply.n; i++) {
		uint32_t row = rows[i].row;
		uint64_t share =
			gm_ledger_share_left(d, none.uid, row, has[row]);

		rows[i].most_bytes = gm_turn_most(d, &turn, row);
		rows[i].lasting_bytes =
			lasting[row] < share ? lasting[row] : share;
	}
	return gm_connection_reply(
		c, &r->header,
		&(struct gm_reply){ .body = &reply,
				    .body_bytes = sizeof(reply),
				    .tail = rows,
				    .tail_bytes = reply.n *
						  (uint32_t)sizeof(rows[0]) });
}

/* ---- PUBLISH ------------------------------------------------------------- */

/* A map that is shown has a row for each layer; a request that only waits, or
 * waits no more, has none.  Maps of certain rows have no turn to wait for. */
static bool fits_together(const struct gm_publish *ask, uint32_t tail_bytes)
{
	bool is_shown = ask->n_runs != 0;
	bool has_turns = ask->n_rows != 0 || ask->map.wait_ns == 0;

	return ask->n_charges <= GM_ROWS && ask->n_runs <= GM_PLAN_RUNS_MAX &&
	       ask->n_layers <= GM_LAYERS_MAX && ask->n_rows <= GM_ROWS &&
	       ask->spec_bytes >= 1 && ask->spec_bytes <= SPEC_BYTES &&
	       (ask->n_bytes == 0 || ask->n_bytes == ask->n_layers) &&
	       (is_shown ? ask->n_charges != 0 && ask->n_layers != 0
			 : has_turns) &&
	       sizeof(struct gm_charge_image) * (uint64_t)ask->n_charges +
			       sizeof(struct gm_plan_run) *
				       (uint64_t)ask->n_runs +
			       8 * (uint64_t)ask->n_bytes +
			       4 * (uint64_t)ask->n_rows + ask->spec_bytes ==
		       tail_bytes;
}

static bool is_known(const struct gm_publish *ask)
{
	return ask->setting >= GPUMAP_SETTING_MANUAL &&
	       ask->setting < GPUMAP_SETTING_RESERVE &&
	       ask->strategy <= GPUMAP_STRATEGY_FEWEST &&
	       ask->dtype <= GPUMAP_DTYPE_F8_E5M2 &&
	       (ask->compute_dtype == 0 ||
		gm_dtype_computes(ask->compute_dtype));
}

static bool can_be_charged(const struct gm_charge_image *charge)
{
	uint64_t sum = charge->weight_bytes;

	return charge->spare[0] == 0 && charge->spare[1] == 0 &&
	       !__builtin_add_overflow(sum, charge->kv_bytes, &sum) &&
	       !__builtin_add_overflow(sum, charge->activation_bytes, &sum) &&
	       !__builtin_add_overflow(sum, charge->reserve_bytes, &sum) &&
	       sum <= INT64_MAX;
}

/* Each row is charged once, and layers lie on rows that are charged. */
static int check_map(struct gm_connection *c, const struct gm_publish *ask,
		     const struct gm_charge_image *charges,
		     const struct gm_plan_run *runs)
{
	uint32_t n_rows = c->server->d->devices->n;
	bool charged[GM_ROWS] = { false };
	uint64_t n_layers = 0;

	for (uint32_t i = 0; i < ask->n_charges; i++) {
		uint32_t row = charges[i].row;

		if (row >= n_rows || charged[row] ||
		    !can_be_charged(&charges[i]))
			return do_not_fit(c);
		charged[row] = true;
	}
	for (uint32_t i = 0; i < ask->n_runs; i++) {
		if (runs[i].row >= n_rows || !charged[runs[i].row])
			return do_not_fit(c);
		n_layers += runs[i].n_layers;
	}
	if (ask->n_runs != 0 &&
	    (n_layers != ask->n_layers || ask->base_row >= n_rows))
		return do_not_fit(c);
	return 0;
}

/* Sizes that wrap when they are summed would make every charge a lie. */
static bool add_up(const struct gm_publish *ask, const uint64_t *bytes)
{
	uint64_t sum = ask->other_bytes;

	for (uint32_t i = 0; i < ask->n_bytes && sum <= INT64_MAX; i++)
		if (__builtin_add_overflow(sum, bytes[i], &sum))
			return false;
	return sum <= INT64_MAX;
}

static bool is_text(const char *text, uint32_t bytes)
{
	if (strnlen(text, bytes) != bytes - 1)
		return false;
	for (uint32_t i = 0; i + 1 < bytes; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return true;
}

/* Check a request and put it into the map, which points into the copy of the
 * tail that the admission has. */
static int read_map(struct gm_connection *c, const struct gm_publish *ask,
		    uint32_t tail_bytes, struct gm_admission *a)
{
	struct gm_layers *layers = &a->layers;
	const struct gm_charge_image *charges = (const void *)a->tail;
	const struct gm_plan_run *runs;
	uint32_t *row;
	int ret;

	if (!fits_together(ask, tail_bytes))
		return do_not_fit(c);
	runs = (const void *)(charges + ask->n_charges);
	layers->bytes = (const void *)(runs + ask->n_runs);
	a->others = (const void *)(layers->bytes + ask->n_bytes);
	layers->spec = (const void *)(a->others + ask->n_rows);
	if (!is_known(ask))
		return gm_connection_bad(
			c, -EINVAL,
			"the setting, the strategy or a dtype of the plan is "
			"none that this agent knows");
	if ((ask->map.flags & (GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT)) ==
		    0 ||
	    !is_text(layers->spec, ask->spec_bytes))
		return do_not_fit(c);
	ret = check_map(c, ask, charges, runs);
	if (ret == 0)
		ret = check_rows(c, a->others, ask->n_rows);
	if (ret != 0)
		return ret;
	if (!add_up(ask, layers->bytes))
		return gm_connection_bad(c, -EOVERFLOW,
					 "the model has 2^63 bytes or more");
	for (uint32_t i = 0; i < ask->n_charges; i++) {
		a->charges[i] = charges[i];
		memset(a->charges[i].spare, 0, sizeof(a->charges[i].spare));
	}
	a->change.bytes += sizeof(*row) * ask->n_layers;
	a->rows = row = malloc(sizeof(*row) * ((size_t)ask->n_layers + 1));
	if (row == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < ask->n_runs; i++)
		for (uint32_t n = runs[i].n_layers; n > 0; n--)
			*row++ = runs[i].row;
	if (ask->n_bytes == 0)
		layers->bytes = NULL;
	layers->rows = a->rows;
	layers->n_layers = ask->n_layers;
	layers->n_rows = ask->n_charges;
	layers->base = ask->base_row;
	layers->setting = ask->setting;
	layers->strategy = (uint16_t)ask->strategy;
	layers->dtype = ask->dtype;
	layers->compute_dtype = (uint16_t)ask->compute_dtype;
	layers->max_seq_len = ask->max_seq_len;
	layers->max_batch_size = ask->max_batch_size;
	layers->other_bytes = ask->other_bytes;
	a->rows_given = ask->rows_given;
	a->only_waits = ask->n_runs == 0;
	a->n_others = ask->n_rows;
	a->least_bytes = ask->least_bytes;
	a->shortage =
		(struct gm_shortage){ ask->missing_bytes, ask->missing_row };
	return 0;
}

int gm_admit_publish_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_publish *ask = (const void *)r->body;
	struct gm_admission *a;
	int ret = begin(c, r, &a);

	if (ret != 0)
		return ret;
	ret = read_map(c, ask, r->tail_bytes, a);
	if (ret != 0 || !a->only_waits || ask->map.wait_ns != 0)
		return gm_admission_add(c, r, a, ret);
	if (c->line != NULL)
		gm_admit_place_drop(c->line);
	a->change.kind->free(&a->change);
	gm_connection_reply(c, &r->header, NULL);
	return 0;
}

/* ---- RESERVE ------------------------------------------------------------- */

static int read_reservation(struct gm_connection *c,
			    const struct gm_reserve_ask *ask,
			    uint32_t tail_bytes, struct gm_admission *a)
{
	if (ask->n_rows > GM_ROWS || ask->n_bytes > GM_ROWS ||
	    8 * (uint64_t)ask->n_bytes + 4 * (uint64_t)ask->n_rows !=
		    tail_bytes ||
	    ask->dtype > GPUMAP_DTYPE_F8_E5M2)
		return do_not_fit(c);
	if (ask->n_bytes == 0)
		return gm_connection_bad(c, -EINVAL,
					 "a reservation has bytes of rows "
					 "(layer_bytes), and no model");
	a->is_reserve = true;
	a->reserve = *ask;
	a->layers.setting = GPUMAP_SETTING_MANUAL;
	a->layers.dtype = ask->dtype;
	a->layers.rows = a->rows = calloc(GM_ROWS, sizeof(*a->rows));
	if (a->rows == NULL)
		return -ENOMEM;
	return check_rows(c, (const void *)(a->tail + ask->n_bytes),
			  ask->n_rows);
}

int gm_admit_reserve_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_admission *a;
	int ret = begin(c, r, &a);

	if (ret != 0)
		return ret;
	ret = read_reservation(c, (const void *)r->body, r->tail_bytes, a);
	return gm_admission_add(c, r, a, ret);
}
