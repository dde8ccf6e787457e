/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/admit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/admit_form.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/reserve.h"
#include "agent/daemon/map/room.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/segment/directory.h"
#include "gpumap.h"

#define NS_PER_S UINT64_C(1000000000)
#define TURN_NS  NS_PER_S
#define WAIT_MAX (INT64_MAX / 2) /* years */

/* A place in the line: of a request that waits, or, in its turn, of the
 * connection that is to make the next one. */
struct gm_admit_place {
	struct gm_wait_place wait;
	struct gm_daemon *d;
	struct admission *request; /* NULL: the connection's */
	struct gm_connection *connection;
	struct gm_timer turn; /* the end of the turn, */
	uint64_t end_ns;      /* at this time */
	bool has_missed;      /* the last one */
	bool is_late;         /* one has passed since its client was told */
	char name[GM_NAME_BYTES];
	uint64_t wait_ns;
	char why[GM_WHY_BYTES]; /* it waits */
};

struct admission {
	struct gm_change change;
	struct gm_room map;
	struct gm_admit_place *place;
	bool is_again; /* it has waited */
	bool may_wait; /* with a refusal: another time there may be room */
	bool replaces; /* there was a map of its name, which may be gone */
	struct gm_shortage shortage;

	/* PUBLISH. */
	uint64_t rows_given;
	bool only_waits;
	const uint32_t *others; /* rows any of which would do */
	uint32_t n_others;
	uint64_t least_bytes; /* of all rows together */

	/* RESERVE. */
	bool is_reserve;
	struct gm_reserve_ask reserve;
	struct gm_reserved reserved;

	struct gm_layers layers; /* the map, and what it charges */
	uint32_t *rows;          /* of each layer */
	struct gm_charge_image charges[GM_ROWS];
	uint64_t left[GM_ROWS]; /* bytes of each charge's row */
	bool holds;             /* a place among the holders */
	uint32_t holder;

	uint64_t tail[]; /* the request's */
};

static struct admission *of(struct gm_change *change)
{
	return gm_owner(change, struct admission, change);
}

static bool to_publish(const struct admission *a)
{
	return (a->map.flags & (GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT)) != 0;
}

static uint64_t charge_bytes(const struct gm_charge_image *charge)
{
	return charge->weight_bytes + charge->kv_bytes +
	       charge->activation_bytes + charge->reserve_bytes;
}

static uint32_t slot_of(const struct admission *a)
{
	return gm_room_slot(a->change.d, a->map.name, a->map.flags);
}

static void find_turn(const struct admission *a, struct gm_turn *ret_turn)
{
	gm_turn_find(a->change.d, &a->place->wait, slot_of(a),
		     !gm_room_takes_turns(a->map.flags, a->map.wait_ns),
		     ret_turn);
}

/* The user that the map is to belong to. */
static uint32_t uid_of(const struct gm_connection *c, const struct gm_room *map)
{
	return (map->flags & GPUMAP_PLAN_FOR) != 0 &&
			       !gm_user_is_privileged(map->owner_uid)
		       ? map->owner_uid
		       : c->uid;
}

/* ---- places -------------------------------------------------------------- */

static void drop_place(struct gm_admit_place *place)
{
	gm_timer_stop(place->d->loop, &place->turn);
	gm_wait_line_leave(place->d, &place->wait);
	if (place->connection != NULL)
		place->connection->line = NULL;
	free(place);
}

/* After the second one it comes last, and keeps nothing from others. */
static void miss_turn(struct gm_admit_place *place)
{
	if (place->has_missed) {
		gm_wait_line_leave(place->d, &place->wait);
		memset(place->wait.claims, 0, sizeof(place->wait.claims));
	}
	place->has_missed = !place->has_missed;
}

static void end_turn(struct gm_timer *timer)
{
	struct gm_admit_place *place =
		gm_owner(timer, struct gm_admit_place, turn);

	miss_turn(place);
	place->is_late = true;
	gm_wait_line_wait(place->d, &place->wait);
}

static void begin_turn(struct gm_admit_place *place)
{
	place->turn.fired = end_turn;
	place->end_ns = gm_loop_now() + TURN_NS;
	gm_timer_set(place->d->loop, &place->turn, place->end_ns);
}

static bool is_over(const struct gm_admit_place *place)
{
	return place->wait.is_dropped || gm_loop_now() >= place->wait.until_ns;
}

/* A glance: is there room for the bytes that it asks for, on all of its rows,
 * on one, or for the model on all together?  A row that cannot be used any more
 * is for the attempt to find. */
static bool may_fit(struct admission *a)
{
	const struct gm_wait_place *place = &a->place->wait;
	const struct gm_daemon *d = a->change.d;
	uint32_t slot = a->replaces ? slot_of(a) : GM_LEDGER_NOBODY;
	bool has_all = true, has_one = false;
	uint64_t sum = 0;

	for (uint32_t row = 0; row < d->devices->n; row++) {
		uint64_t avail;

		if (!gm_wait_line_has_row(place->rows, row))
			continue;
		if (!gm_room_is_there(d, row))
			return true;
		avail = gm_ledger_avail(d, row, slot);
		sum += avail;
		has_all &= avail >= place->asks[row];
		has_one |= avail >= place->asks[row];
	}
	if (place->takes_all)
		return has_all;
	return place->takes_one ? has_one : sum >= a->least_bytes;
}

/* The client of one whose turn it is has asked for nothing yet, and hears that
 * it was dropped when it does. */
static bool try_again(struct gm_wait_place *wait)
{
	struct gm_admit_place *place =
		gm_owner(wait, struct gm_admit_place, wait);
	struct admission *a = place->request;

	if (a != NULL && !is_over(place) && !may_fit(a))
		return false;
	if (a != NULL) {
		a->is_again = true;
		gm_transactions_again(&a->change);
	} else if (is_over(place)) {
		gm_wait_line_leave(place->d, wait);
	} else {
		begin_turn(place);
	}
	return true;
}

/* The connection's own, in its turn, or a new one.  NULL: no memory. */
static struct gm_admit_place *take_place(struct gm_connection *c,
					 const struct gm_room *map)
{
	struct gm_admit_place *place = c->line;
	bool has_start = map->start_ns != 0;
	uint32_t uid = uid_of(c, map);

	if (place != NULL &&
	    (strcmp(place->name, map->name) != 0 ||
	     place->wait.has_start != has_start || place->wait.uid != uid)) {
		drop_place(place);
		place = NULL;
	}
	if (place == NULL) {
		place = calloc(1, sizeof(*place));
		if (place == NULL)
			return NULL;
		place->d = c->server->d;
		place->wait_ns = map->wait_ns;
		place->wait.uid = uid;
		place->wait.has_start = has_start;
		place->wait.again = try_again;
		place->wait.name = place->name;
		memcpy(place->name, map->name, sizeof(place->name));
	}
	gm_timer_stop(place->d->loop, &place->turn);
	/* The request is in hand until it waits again. */
	place->wait.is_tried = true;
	place->connection = NULL;
	c->line = NULL;
	return place;
}

void gm_admit_map_published(struct gm_daemon *d, const char *name)
{
	struct gm_wait_place *wait;

	TAILQ_FOREACH(wait, &d->line->places, entry)
	{
		struct admission *a =
			gm_owner(wait, struct gm_admit_place, wait)->request;

		if (a != NULL && strcmp(a->map.name, name) == 0)
			a->replaces = true;
	}
}

void gm_admit_connection_dropped(struct gm_connection *c, const char *why)
{
	if (c->line != NULL)
		drop_place(c->line);
}

/* ---- checking ------------------------------------------------------------ */

/* A map of this name that the process holds itself may be from a request whose
 * answer it has not got, of an agent that has ended. */
static int check_new(const struct admission *a, char *ret_why)
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
static int may_publish(struct admission *a)
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

static int check_dropped(const struct admission *a, char *ret_why)
{
	if (!a->place->wait.is_dropped)
		return 0;
	return gm_why(ret_why, -ECANCELED,
		      "the request waited, and was dropped (gpumapctl wait "
		      "drop): ask again");
}

static int time_is_over(const struct admission *a, const char *why,
			char *ret_why)
{
	char last[GM_WHY_BYTES];

	snprintf(last, sizeof(last), "%s", why);
	return gm_why(ret_why, -ETIMEDOUT, "%llu s later still: %.220s",
		      (unsigned long long)(a->place->wait_ns / NS_PER_S), last);
}

/* Its user's other maps may end. */
static bool may_share(const struct admission *a)
{
	for (uint32_t i = 0; i < a->layers.n_rows; i++)
		if (!gm_ledger_may_share(a->change.d, a->change.uid,
					 a->charges[i].row,
					 charge_bytes(&a->charges[i])))
			return false;
	return true;
}

/* The bytes that it waits for are within its user's share. */
static int check_wanted(struct admission *a)
{
	struct gm_change *change = &a->change;
	uint32_t slot = slot_of(a);

	a->may_wait = true;
	for (uint32_t i = 0; i < a->layers.n_rows; i++) {
		const struct gm_charge_image *charge = &a->charges[i];
		int ret =
			gm_ledger_check_share(change->d, change->uid, slot,
					      charge->row, charge_bytes(charge),
					      change->why);

		if (ret != 0) {
			a->may_wait = may_share(a);
			return ret;
		}
	}
	return -ENOSPC;
}

/* A map that its client has made, on rows as it knows them. */
static int check_made(struct admission *a)
{
	struct gm_change *change = &a->change;
	int ret = 0;

	if (a->n_others != 0 && a->is_again)
		return is_over(a->place)
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

static int choose(struct admission *a)
{
	const struct gm_reserve_ask *ask = &a->reserve;
	struct gm_turn turn;
	const struct gm_reserve reserve = {
		.slot = slot_of(a),
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

	find_turn(a, &turn);
	ret = gm_reserve_choose(a->change.d, &reserve, &a->place->wait,
				a->change.why, &a->reserved);
	a->shortage = a->reserved.shortage;
	a->may_wait = a->reserved.may_wait;
	return ret;
}

/* The change may have been tried before, and be in the line. */
static int check(struct gm_change *change)
{
	struct admission *a = of(change);
	int ret;

	change->uid = a->place->wait.uid;
	a->place->wait.is_for_start = false;
	a->may_wait = false;
	change->act = GM_CHANGE_NOTHING;
	ret = check_dropped(a, change->why);
	if (ret != 0)
		return ret;
	/* Its rows are drained, and those of the next agent are not. */
	if (change->d->draining)
		return gm_why(change->why, -ESHUTDOWN,
			      "the agent is shutting down; try again when it "
			      "is back");
	ret = may_publish(a);
	if (ret == 0)
		ret = a->is_reserve ? choose(a) : check_made(a);
	return ret;
}

/* ---- admitting ----------------------------------------------------------- */

/* The client must still run to be watched; the pid of one that has ended may be
 * another process's. */
static int hold(struct admission *a)
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
static int check_turn(struct admission *a)
{
	struct gm_turn turn;
	int error = 0;

	find_turn(a, &turn);
	for (uint32_t i = 0; i < a->layers.n_rows && error != -ENOSPC; i++) {
		int ret = gm_turn_check(a->change.d, &turn, a->charges[i].row,
					charge_bytes(&a->charges[i]),
					a->change.why);

		error = ret != 0 ? ret : error;
	}
	a->may_wait = error != 0;
	a->place->wait.is_for_start = error == -EBUSY;
	return error;
}

/* Publishing checks it again; here the refusal says by how much it is too
 * large.  Where others would do as well its client makes another map. */
static int check_promise(struct admission *a)
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
	if (ret == -ENOSPC && a->n_others != 0 && a->map.wait_ns == 0)
		return -EAGAIN;
	return ret != 0 ? ret : check_turn(a);
}

static void note_left(struct admission *a)
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
static void put_reserved(struct admission *a)
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
	struct admission *a = of(change);
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
	struct admission *a = of(change);

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
static void put_rows(struct admission *a)
{
	struct gm_wait_place *place = &a->place->wait;

	memset(place->rows, 0, sizeof(place->rows));
	memset(place->claims, 0, sizeof(place->claims));
	for (uint32_t i = 0; i < a->layers.n_rows; i++) {
		gm_wait_line_add_row(place->claims, a->charges[i].row);
		place->asks[a->charges[i].row] = charge_bytes(&a->charges[i]);
	}
	for (uint32_t i = 0; i < a->n_others; i++)
		gm_wait_line_add_row(place->rows, a->others[i]);
	place->takes_all = a->n_others == 0;
	if (place->takes_all)
		memcpy(place->rows, place->claims, sizeof(place->rows));
	/* A turn can come for these alone. */
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		place->claims[i] &= place->rows[i];
}

/* A reservation of any row has its claims already. */
static void put_place(struct admission *a, int status)
{
	struct gm_wait_place *place = &a->place->wait;

	if (!a->is_reserve)
		put_rows(a);
	else if (place->takes_all)
		memcpy(place->claims, place->rows, sizeof(place->claims));
	else
		return;
	/* One that waits for its own user's maps to end keeps no row from
	 * others. */
	if (status == -EDQUOT)
		memset(place->claims, 0, sizeof(place->claims));
}

/* Is there now what it keeps from others? */
static bool could_have_it(const struct admission *a)
{
	const struct gm_daemon *d = a->change.d;
	uint32_t slot = slot_of(a);
	char why[GM_WHY_BYTES];
	struct gm_turn turn;
	bool keeps = false;

	find_turn(a, &turn);
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
static void note_turn(struct admission *a)
{
	if (a->only_waits && a->place->wait.number != 0 && could_have_it(a))
		miss_turn(a->place);
	else
		a->place->has_missed = false;
}

static void enter_line(struct admission *a, uint64_t until_ns)
{
	struct gm_wait_place *place = &a->place->wait;

	place->pid = (uint32_t)a->change.pid;
	place->until_ns = until_ns;
	place->missing_row = a->shortage.row;
	place->missing_bytes = a->shortage.bytes;
	for (uint32_t i = 0;
	     a->is_reserve && place->number == 0 && i < a->reserve.n_bytes; i++)
		place->bytes += a->tail[i];
	memcpy(a->place->why, a->change.why, sizeof(a->place->why));
	note_turn(a);
	gm_wait_line_wait(a->change.d, place);
	/* Room may have come in a turn that its client has not heard of. */
	if (a->place->is_late)
		gm_wait_line_changed(a->change.d);
	a->place->is_late = false;
}

/* One that could not be held even if there were room need not wait for it;
 * unless holders of any user have to end first. */
static int check_hold(struct admission *a)
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
	struct admission *a = of(change);
	uint64_t now = gm_loop_now(), until = now + a->map.wait_ns;
	int ret;

	if (a->map.wait_ns == 0 || !a->may_wait)
		return status;
	ret = check_hold(a);
	if (ret != 0)
		return ret;
	if (a->place->wait.number != 0)
		until = a->place->wait.until_ns;
	if (now >= until)
		return time_is_over(a, change->why, change->why);
	put_place(a, status);
	enter_line(a, until);
	return 0;
}

/* ---- the answer ---------------------------------------------------------- */

static void answer_reserve(const struct admission *a, struct gm_connection *c,
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
	const struct admission *a = of(change);
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

/* In its turn, which one that came too late does not make longer, the place
 * becomes the connection's. */
static void refuse(struct gm_change *change, struct gm_connection *c,
		   const struct gm_control *request, int status)
{
	struct admission *a = of(change);
	struct gm_admit_place *place = a->place;
	struct gm_publish_refusal refusal = {
		.missing_bytes = a->shortage.bytes,
		.missing_row = a->shortage.row,
	};

	if (status == -EAGAIN && place->wait.number != 0) {
		a->place = NULL;
		place->request = NULL;
		place->connection = c;
		c->line = place;
		if (a->is_again)
			begin_turn(place);
		else if (gm_loop_now() < place->end_ns)
			gm_timer_set(place->d->loop, &place->turn,
				     place->end_ns);
		else
			gm_wait_line_wait(place->d, &place->wait);
	}
	snprintf(refusal.refusal.text, sizeof(refusal.refusal.text), "%s",
		 change->why[0] != '\0' ? change->why : strerror(-status));
	gm_connection_refuse_with(c, request, status, &refusal,
				  sizeof(refusal));
}

static void free_admission(struct gm_change *change)
{
	struct admission *a = of(change);

	if (a->holds)
		gm_pins_let_go(change->d, a->holder);
	if (a->place != NULL)
		drop_place(a->place);
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

/* ---- the requests -------------------------------------------------------- */

int gm_admit_room_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_daemon *d = c->server->d;
	struct gm_room_row rows[GM_ROWS];
	struct gm_room_reply reply = { .rows_given = gm_room_rows_given(d) };
	struct gm_wait_place none = { .number = 0 };
	bool has_turn;
	const uint64_t *lasting;
	struct gm_turn turn;
	struct gm_room ask;
	uint32_t slot, uid;
	int ret;

	memcpy(&ask, r->body, sizeof(ask));
	ret = gm_admit_check_head(c, &ask);
	if (ret != 0)
		return ret;
	slot = gm_room_slot(d, ask.name, ask.flags);
	uid = uid_of(c, &ask);
	none.uid = uid;
	none.has_start = ask.start_ns != 0;
	has_turn = c->line != NULL && strcmp(c->line->name, ask.name) == 0;
	gm_turn_find(d, has_turn ? &c->line->wait : &none, slot,
		     !gm_room_takes_turns(ask.flags, ask.wait_ns), &turn);
	lasting = gm_wait_line_lasting(d);
	reply.n = gm_room_list(d, slot, rows);
	for (uint32_t i = 0; i < reply.n; i++) {
		uint32_t row = rows[i].row;
		uint64_t share = gm_ledger_share_left(d, uid, slot, row);

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

/* With a copy of the tail.  NULL: no memory. */
static struct admission *begin(struct gm_connection *c,
			       const struct gm_request *r,
			       const struct gm_room *map)
{
	size_t bytes = sizeof(struct admission) + r->tail_bytes;
	struct admission *a = calloc(1, bytes);

	if (a == NULL)
		return NULL;
	a->change.kind = &admission_kind;
	a->change.bytes = bytes;
	a->change.d = c->server->d;
	a->map = *map;
	if (a->map.wait_ns > WAIT_MAX)
		a->map.wait_ns = WAIT_MAX;
	memcpy(a->tail, r->tail, r->tail_bytes);
	a->replaces = slot_of(a) != GM_LEDGER_NOBODY;
	a->layers.name = a->map.name;
	if ((map->flags & GPUMAP_PLAN_COMMIT) != 0)
		a->layers.flags |= GM_OBJECT_COMMITTED;
	if ((map->flags & GPUMAP_PLAN_HELD) != 0)
		a->layers.flags |= GM_OBJECT_HELD;
	return a;
}

static int add(struct gm_connection *c, const struct gm_request *r,
	       struct admission *a, int status)
{
	if (status == 0)
		a->place = take_place(c, &a->map);
	if (status == 0 && a->place == NULL)
		status = -ENOMEM;
	if (status != 0) {
		free_admission(&a->change);
		return status;
	}
	a->place->request = a;
	return gm_transactions_add(c, &r->header, &a->change);
}

static int put_runs(struct admission *a, const struct gm_publish *ask,
		    const struct gm_plan_run *runs)
{
	uint32_t *row;

	a->change.bytes += sizeof(*row) * ask->n_layers;
	a->rows = row = malloc(sizeof(*row) * ((size_t)ask->n_layers + 1));
	if (row == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < ask->n_runs; i++)
		for (uint32_t n = runs[i].n_layers; n > 0; n--)
			*row++ = runs[i].row;
	return 0;
}

static int put_map(struct admission *a, const struct gm_publish *ask,
		   const struct gm_publish_parts *parts)
{
	struct gm_layers *layers = &a->layers;
	int ret = put_runs(a, ask, parts->runs);
	uint64_t sum = 0;

	memcpy(a->charges, parts->charges,
	       ask->n_charges * sizeof(a->charges[0]));
	for (uint32_t i = 0; i < ask->n_charges; i++)
		memset(a->charges[i].spare, 0, sizeof(a->charges[i].spare));
	layers->spec = parts->spec;
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
	layers->rows = a->rows;
	layers->bytes = parts->bytes;
	layers->charges = a->charges;
	a->rows_given = ask->rows_given;
	a->only_waits = ask->n_runs == 0;
	a->others = parts->rows;
	a->n_others = ask->n_rows;
	a->least_bytes = ask->least_bytes;
	for (uint32_t i = 0; i < ask->n_charges; i++)
		sum += charge_bytes(&a->charges[i]);
	/* No more than it keeps from others is to come before its turn. */
	if (ask->n_charges != 0 && a->least_bytes > sum)
		a->least_bytes = sum;
	a->shortage =
		(struct gm_shortage){ ask->missing_bytes, ask->missing_row };
	return ret;
}

int gm_admit_publish_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_publish_parts parts;
	struct gm_publish ask;
	struct admission *a;
	int ret;

	memcpy(&ask, r->body, sizeof(ask));
	ret = gm_admit_check_head(c, &ask.map);
	if (ret != 0)
		return ret;
	a = begin(c, r, &ask.map);
	if (a == NULL)
		return -ENOMEM;
	ret = gm_admit_check_publish(c, &ask, (const char *)a->tail,
				     r->tail_bytes, &parts);
	if (ret == 0)
		ret = put_map(a, &ask, &parts);
	if (ret == 0 && a->only_waits && ask.map.wait_ns == 0) {
		if (c->line != NULL)
			drop_place(c->line);
		free_admission(&a->change);
		gm_connection_reply(c, &r->header, NULL);
		return 0;
	}
	return add(c, r, a, ret);
}

int gm_admit_reserve_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct admission *a;
	struct gm_reserve_ask ask;
	int ret;

	memcpy(&ask, r->body, sizeof(ask));
	ret = gm_admit_check_head(c, &ask.map);
	if (ret != 0)
		return ret;
	a = begin(c, r, &ask.map);
	if (a == NULL)
		return -ENOMEM;
	ret = gm_admit_check_reserve(c, &ask, (const char *)a->tail,
				     r->tail_bytes);
	a->is_reserve = true;
	a->reserve = ask;
	a->rows = calloc(GM_ROWS, sizeof(*a->rows));
	if (ret == 0 && a->rows == NULL)
		ret = -ENOMEM;
	a->layers.setting = GPUMAP_SETTING_MANUAL;
	a->layers.dtype = ask.dtype;
	a->layers.rows = a->rows;
	a->layers.charges = a->charges;
	return add(c, r, a, ret);
}
