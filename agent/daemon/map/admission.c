/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/admission.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/room.h"
#include "agent/daemon/segment/directory.h"
#include "gpumap.h"

#define NS_PER_S UINT64_C(1000000000)
#define WAIT_MAX (INT64_MAX / 2) /* years */

static struct gm_admission *of(struct gm_change *change)
{
	return gm_owner(change, struct gm_admission, change);
}

static bool to_publish(const struct gm_admission *a)
{
	return (a->map.flags & (GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT)) != 0;
}

static uint64_t charge_bytes(const struct gm_charge_image *charge)
{
	return charge->weight_bytes + charge->kv_bytes +
	       charge->activation_bytes + charge->reserve_bytes;
}

static uint32_t slot_of(const struct gm_admission *a)
{
	return gm_room_slot(a->change.d, &a->map);
}

/* ---- checking ------------------------------------------------------------ */

/* A map of this name that the process holds itself may be from a request whose
 * answer it has not got, of an agent that has ended. */
static int check_new(const struct gm_admission *a, char *ret_why)
{
	const struct gm_daemon *d = a->change.d;
	uint32_t slot = slot_of(a);
	pid_t holder;

	if ((a->map.flags & GPUMAP_PLAN_NEW) == 0 || slot == GM_LEDGER_NOBODY)
		return 0;
	holder = gm_pins_holder(d, slot);
	if (holder == a->change.pid)
		return 0;
	if (holder != 0)
		return gm_why(ret_why, -EEXIST,
			      "process %d holds a map of this name: choose "
			      "another name",
			      (int)holder);
	return gm_why(ret_why, -EEXIST,
		      "there is a map of this name: choose another name, or "
		      "release that one (gpumapctl release)");
}

/* Publishing checks it again, after any wait for room. */
static int may_publish(struct gm_admission *a)
{
	struct gm_change *change = &a->change;
	int ret;

	if (!to_publish(a))
		return 0;
	ret = gm_state_may_replace(change->d, &gm_map_kind, a->map.name,
				   change->uid, change->why);
	if (ret == 0)
		ret = gm_directory_may_replace(change->d, GM_KIND_LAYERS,
					       a->map.name, change->uid, 0,
					       change->why);
	return ret == 0 ? check_new(a, change->why) : ret;
}

static int check_dropped(const struct gm_admission *a, char *ret_why)
{
	if (!a->place->wait.is_dropped)
		return 0;
	return gm_why(ret_why, -ECANCELED,
		      "the request waited, and was dropped (gpumapctl wait "
		      "drop): ask again");
}

static int time_is_over(const struct gm_admission *a, const char *why,
			char *ret_why)
{
	char last[GM_WHY_BYTES];

	snprintf(last, sizeof(last), "%s", why);
	return gm_why(ret_why, -ETIMEDOUT, "%llu s later still: %.220s",
		      (unsigned long long)(a->place->map.wait_ns / NS_PER_S),
		      last);
}

/* Its user's other maps may end. */
static bool may_share(const struct gm_admission *a)
{
	for (uint32_t i = 0; i < a->layers.n_rows; i++)
		if (charge_bytes(&a->charges[i]) >
		    gm_ledger_share_left(a->change.d, a->change.uid,
					 a->charges[i].row, 0))
			return false;
	return true;
}

/* The bytes that it waits for are within its user's share. */
static int check_wanted(struct gm_admission *a)
{
	struct gm_change *change = &a->change;
	uint64_t has[GM_ROWS];
	int ret = 0;

	gm_ledger_shares(change->d, change->uid, slot_of(a), has);
	for (uint32_t i = 0; i < a->layers.n_rows && ret == 0; i++) {
		const struct gm_charge_image *charge = &a->charges[i];

		ret = gm_ledger_check_share(change->d, change->uid, charge->row,
					    charge_bytes(charge),
					    has[charge->row], change->why);
	}
	a->may_wait = ret == 0 || may_share(a);
	return ret == 0 ? -ENOSPC : ret;
}

/* A map that its client has made, on rows as it knows them. */
static int check_made(struct gm_admission *a)
{
	struct gm_change *change = &a->change;
	int ret = 0;

	if (a->n_others != 0 && a->place->is_again)
		return gm_admit_place_is_over(a->place)
			       ? time_is_over(a, a->place->why, change->why)
			       : gm_why(change->why, -EAGAIN,
					"it is the map's turn: plan again");
	if (a->rows_given != gm_room_rows_given(change->d))
		return gm_why(
			change->why, -EAGAIN,
			"a row was given to another device meanwhile: ask "
			"again");
	if (a->only_waits)
		return check_wanted(a);
	ret = gm_room_check_row(change->d, a->layers.base, change->why);
	for (uint32_t i = 0; i < a->layers.n_rows && ret == 0; i++)
		ret = gm_room_check_row(change->d, a->charges[i].row,
					change->why);
	return ret == -ENODEV && a->n_others != 0 ? -EAGAIN : ret;
}

static int choose(struct gm_admission *a)
{
	const struct gm_reserve_ask *ask = &a->reserve;
	struct gm_turn turn;
	const struct gm_reserve reserve = {
		.bytes = a->tail,
		.n = ask->n_bytes,
		.rows = (const void *)(a->tail + ask->n_bytes),
		.n_rows = ask->n_rows,
		.uid = a->change.uid,
		.may_be_none = (a->map.flags & GPUMAP_PLAN_HELD) != 0 ||
			       !to_publish(a),
		.turn = &turn,
	};
	int ret;

	gm_turn_find(a->change.d, &a->place->wait, &a->map, &turn);
	ret = gm_reserve_choose(a->change.d, &reserve, &a->place->wait,
				a->change.why, &a->reserved);
	a->shortage = a->reserved.shortage;
	a->may_wait = a->reserved.may_wait;
	return ret;
}

/* The change may have been tried before, and be in the line. */
static int check(struct gm_change *change)
{
	struct gm_admission *a = of(change);
	int ret;

	change->uid = a->place->wait.uid;
	a->may_wait = false;
	change->act = GM_CHANGE_NOTHING;
	ret = check_dropped(a, change->why);
	if (ret != 0)
		return ret;
	ret = gm_room_check_agent(change->d, change->why);
	if (ret == 0)
		ret = may_publish(a);
	if (ret == 0)
		ret = a->is_reserve ? choose(a) : check_made(a);
	return ret;
}

/* ---- admitting ----------------------------------------------------------- */

/* The client must still run to be watched; the pid of one that has ended may be
 * another process's. */
static int hold(struct gm_admission *a)
{
	struct gm_change *change = &a->change;
	int ret;

	ret = gm_pins_hold(change->d, change->pid, change->uid, change->why,
			   &a->holder);
	if (ret != 0)
		return ret;
	a->holds = true;
	if (change->connection != NULL &&
	    gm_connection_lives(change->connection))
		return 0;
	return gm_why(change->why, -ESRCH,
		      "process %d, which connected, is gone", (int)change->pid);
}

/* A row may have room for it, and not be its yet. */
static int check_turn(struct gm_admission *a)
{
	struct gm_turn turn;
	int error = 0;

	gm_turn_find(a->change.d, &a->place->wait, &a->map, &turn);
	for (uint32_t i = 0; i < a->layers.n_rows && error != -ENOSPC; i++) {
		int ret = gm_turn_check(a->change.d, &turn, a->charges[i].row,
					charge_bytes(&a->charges[i]),
					a->change.why);

		error = ret != 0 ? ret : error;
	}
	a->may_wait = error != 0;
	return error;
}

/* Publishing checks it again; here the refusal says by how much it is too
 * large.  Where others would do as well its client makes another map. */
static int check_promise(struct gm_admission *a)
{
	struct gm_change *change = &a->change;
	struct gm_reservation *reservation;
	int ret = gm_ledger_reservation(&a->layers, change->why, &reservation);

	if (ret != 0)
		return ret;
	ret = gm_ledger_admit(change->d, reservation, slot_of(a), change->why,
			      &a->shortage);
	a->may_wait = ret == -ENOSPC || (ret == -EDQUOT && may_share(a));
	free(reservation);
	if (ret == -ENOSPC && a->n_others != 0)
		return -EAGAIN;
	return ret != 0 ? ret : check_turn(a);
}

static void note_left(struct gm_admission *a)
{
	uint32_t slot = slot_of(a);

	for (uint32_t i = 0; i < a->layers.n_rows; i++) {
		uint64_t bytes = charge_bytes(&a->charges[i]);
		uint64_t avail =
			gm_ledger_avail(a->change.d, a->charges[i].row, slot);

		a->left[i] = avail > bytes ? avail - bytes : 0;
		if (bytes > avail && bytes - avail > a->shortage.bytes)
			a->shortage = (struct gm_shortage){ bytes - avail,
							    a->charges[i].row };
	}
}

/* One layer on each row, which has the row's bytes and no more. */
static void put_reserved(struct gm_admission *a)
{
	struct gm_layers *layers = &a->layers;

	for (uint32_t i = 0; i < a->reserved.n; i++) {
		const struct gm_reserved_bytes *on = &a->reserved.of[i];

		a->rows[i] = on->row;
		a->charges[i] = (struct gm_charge_image){
			.row = on->row,
			.n_layers = 1,
			.weight_bytes = on->bytes,
		};
	}
	layers->n_layers = layers->n_rows = a->reserved.n;
	layers->base = a->reserved.of[0].row;
	layers->spec = a->reserved.spec;
	layers->bytes = a->tail;
}

static int settle(struct gm_change *change)
{
	struct gm_admission *a = of(change);
	int ret = check_dropped(a, change->why);

	if (ret != 0)
		return ret;
	if (a->is_reserve)
		put_reserved(a);
	a->layers.owner_uid = change->uid;
	a->shortage.bytes = 0;
	note_left(a);
	if (!to_publish(a))
		return 0;
	a->shortage.bytes = 0;
	change->act = GM_CHANGE_PUT;
	change->object = &gm_map_kind;
	if ((a->layers.flags & GM_OBJECT_COMMITTED) != 0)
		ret = check_promise(a);
	if (ret == 0 && (a->layers.flags & GM_OBJECT_HELD) != 0)
		ret = hold(a);
	a->may_wait |= ret == -ENOSPC;
	if (ret != 0)
		return ret;
	change->words = gm_map_kind_words(&a->layers);
	return change->words != NULL
		       ? 0
		       : gm_why(change->why, -ENOMEM, "out of memory");
}

static void before_show(struct gm_change *change)
{
	struct gm_admission *a = of(change);

	if (change->put.reservation != NULL)
		change->put.reservation->came_ns = a->place->wait.came_ns;
	gm_wait_line_leave(change->d, &a->place->wait);
	if (!a->holds)
		return;
	if (a->map.start_ns != 0)
		gm_pins_set_start(change->d, a->holder, a->map.start_ns);
	gm_pins_keep(change->d, a->holder, &change->put.block);
	a->holds = false;
}

/* ---- waiting ------------------------------------------------------------- */

/* A map waits for its rows, or for any where it may have others; and keeps the
 * bytes that it would have now. */
static void put_rows(struct gm_admission *a)
{
	struct gm_wait_place *place = &a->place->wait;
	uint64_t sum = 0;

	memset(place->rows, 0, sizeof(place->rows));
	memset(place->claims, 0, sizeof(place->claims));
	for (uint32_t i = 0; i < a->layers.n_rows; i++) {
		uint64_t bytes = charge_bytes(&a->charges[i]);

		gm_wait_line_add_row(place->claims, a->charges[i].row);
		place->asks[a->charges[i].row] = bytes;
		sum += bytes;
	}
	/* No more than it keeps from others is to come before its turn. */
	a->place->least_bytes = a->least_bytes;
	if (a->layers.n_rows != 0 && a->least_bytes > sum)
		a->place->least_bytes = sum;
	for (uint32_t i = 0; i < a->n_others; i++)
		gm_wait_line_add_row(place->rows, a->others[i]);
	place->takes_all = a->n_others == 0;
	if (place->takes_all)
		memcpy(place->rows, place->claims, sizeof(place->rows));
	/* A turn can come for these alone. */
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		place->claims[i] &= place->rows[i];
}

/* Is there now what it keeps from others? */
static bool could_have_it(const struct gm_admission *a)
{
	const struct gm_daemon *d = a->change.d;
	uint32_t slot = slot_of(a);
	char why[GM_WHY_BYTES];
	struct gm_turn turn;
	bool keeps = false;

	gm_turn_find(a->change.d, &a->place->wait, &a->map, &turn);
	for (uint32_t i = 0; i < a->layers.n_rows; i++) {
		uint32_t row = a->charges[i].row;
		uint64_t bytes = charge_bytes(&a->charges[i]);

		if (bytes > gm_ledger_avail(d, row, slot) ||
		    gm_turn_check(d, &turn, row, bytes, why) != 0)
			return false;
		keeps |= gm_wait_line_has_row(a->place->wait.claims, row);
	}
	return keeps;
}

/* A client that waits on in its turn, though there is what it asks for, has
 * missed the turn. */
static void note_turn(struct gm_admission *a)
{
	if (a->only_waits && a->place->wait.number != 0 && could_have_it(a))
		gm_admit_place_miss_turn(a->place);
	else
		a->place->has_missed = false;
}

/* One that could not be held even if there were room need not wait for it;
 * unless holders of any user have to end first. */
static int check_hold(struct gm_admission *a)
{
	int ret;

	if ((a->map.flags & GPUMAP_PLAN_HELD) == 0 ||
	    a->place->wait.number != 0)
		return 0;
	ret = hold(a);
	if (a->holds)
		gm_pins_let_go(a->change.d, a->holder);
	a->holds = false;
	return ret != -ENOSPC ? ret : 0;
}

/* Room may come, or the end of a start window. */
static int postpone(struct gm_change *change, int status)
{
	struct gm_admission *a = of(change);
	struct gm_wait_place *place = &a->place->wait;
	uint64_t now = gm_loop_now(), until = now + a->map.wait_ns;
	int ret;

	if (a->map.wait_ns == 0 || !a->may_wait)
		return status;
	ret = check_hold(a);
	if (ret != 0)
		return ret;
	if (place->number != 0)
		until = place->until_ns;
	if (now >= until)
		return time_is_over(a, change->why, change->why);
	if (!a->is_reserve)
		put_rows(a);
	/* One that waits for its own user's maps to end keeps no row from
	 * others. */
	if (status == -EDQUOT)
		memset(place->claims, 0, sizeof(place->claims));
	place->is_for_start = status == -EBUSY;
	place->pid = (uint32_t)change->pid;
	place->until_ns = until;
	place->missing_row = a->shortage.row;
	place->missing_bytes = a->shortage.bytes;
	for (uint32_t i = 0;
	     a->is_reserve && place->number == 0 && i < a->reserve.n_bytes; i++)
		place->bytes += a->tail[i];
	memcpy(a->place->why, change->why, sizeof(a->place->why));
	note_turn(a);
	gm_admit_place_wait(a->place);
	return 0;
}

/* ---- the answer ---------------------------------------------------------- */

static void answer_reserve(const struct gm_admission *a,
			   struct gm_connection *c,
			   const struct gm_control *request)
{
	struct gm_reserved_row rows[GM_ROWS];
	const struct gm_reserve_reply reply = {
		.version = a->change.version,
		.missing_bytes = a->shortage.bytes,
		.missing_row = a->shortage.row,
		.n = a->layers.n_rows,
	};

	for (uint32_t i = 0; i < reply.n; i++)
		rows[i] = (struct gm_reserved_row){
			.row = a->charges[i].row,
			.bytes = a->charges[i].weight_bytes,
			.left_bytes = a->left[i],
		};
	gm_connection_reply(
		c, request,
		&(struct gm_reply){ .body = &reply,
				    .body_bytes = sizeof(reply),
				    .tail = rows,
				    .tail_bytes = reply.n *
						  (uint32_t)sizeof(rows[0]) });
}

static void answer(struct gm_change *change, struct gm_connection *c,
		   const struct gm_control *request)
{
	const struct gm_admission *a = of(change);
	const struct gm_publish_reply reply = { .version = change->version };

	if (a->is_reserve)
		answer_reserve(a, c, request);
	else
		gm_connection_reply(
			c, request,
			&(struct gm_reply){ .body = &reply,
					    .body_bytes = sizeof(reply),
					    .tail = a->left,
					    .tail_bytes =
						    a->layers.n_rows * 8 });
}

static void refuse(struct gm_change *change, struct gm_connection *c,
		   const struct gm_control *request, int status)
{
	struct gm_admission *a = of(change);
	struct gm_publish_refusal refusal = {
		.missing_bytes = a->shortage.bytes,
		.missing_row = a->shortage.row,
	};

	if (status == -EAGAIN && a->place->wait.number != 0) {
		gm_admit_place_give(a->place, c);
		a->place = NULL;
	}
	snprintf(refusal.refusal.text, sizeof(refusal.refusal.text), "%s",
		 change->why[0] != '\0' ? change->why : strerror(-status));
	gm_connection_refuse_with(c, request, status, &refusal,
				  sizeof(refusal));
}

static void free_admission(struct gm_change *change)
{
	struct gm_admission *a = of(change);

	if (a->holds)
		gm_pins_let_go(change->d, a->holder);
	if (a->place != NULL)
		gm_admit_place_drop(a->place);
	free(a->rows);
	free(a);
}

static const struct gm_change_kind admission_kind = {
	.check = check,
	.settle = settle,
	.postpone = postpone,
	.before_show = before_show,
	.answer = answer,
	.refuse = refuse,
	.free = free_admission,
};

struct gm_admission *gm_admission_new(struct gm_connection *c,
				      const struct gm_request *r)
{
	size_t bytes = sizeof(struct gm_admission) + r->tail_bytes;
	struct gm_admission *a = calloc(1, bytes);

	if (a == NULL)
		return NULL;
	a->change.kind = &admission_kind;
	a->change.bytes = bytes;
	a->change.d = c->server->d;
	memcpy(&a->map, r->body, sizeof(a->map));
	if (a->map.wait_ns > WAIT_MAX)
		a->map.wait_ns = WAIT_MAX;
	memcpy(a->tail, r->tail, r->tail_bytes);
	a->layers.name = a->map.name;
	a->layers.charges = a->charges;
	if ((a->map.flags & GPUMAP_PLAN_COMMIT) != 0)
		a->layers.flags |= GM_OBJECT_COMMITTED;
	if ((a->map.flags & GPUMAP_PLAN_HELD) != 0)
		a->layers.flags |= GM_OBJECT_HELD;
	return a;
}

int gm_admission_add(struct gm_connection *c, const struct gm_request *r,
		     struct gm_admission *a, int status)
{
	if (status == 0)
		a->place = gm_admit_place_take(c, &a->map, &a->change);
	if (status == 0 && a->place == NULL)
		status = -ENOMEM;
	if (status == 0)
		return gm_transactions_add(c, &r->header, &a->change);
	free_admission(&a->change);
	return status;
}
