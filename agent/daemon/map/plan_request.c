/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/plan_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/layer_maps.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/plan_form.h"
#include "agent/daemon/map/reserve.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/segment/directory.h"
#include "agent/files/topology_file.h"
#include "gpumap.h"
#include "lib/model/plan/plan.h"

struct plan_change {
	struct gm_change change;
	struct gm_control_plan body;
	bool is_reserve;

	/* The I/O thread's, from check() to settle(). */
	struct gm_plan_device devices[GM_ROWS];
	uint32_t drained[GM_ROWS];
	/* Bytes of each row that it may have before others get theirs; and
	 * those that it could have one day. */
	uint64_t most[GM_ROWS];
	uint64_t lasting[GM_ROWS];
	struct gm_plan_request q;
	struct gm_topology topology;
	struct gm_plan plan;
	struct gm_plan wanted; /* of a model that fits nowhere now, one day */
	struct gm_plan_error error;

	struct gm_layers layers; /* the map, and what it charges */
	struct gm_charge_image charges[GM_ROWS];
	struct gm_shortage shortage;
	bool holds; /* a place among the holders */
	uint32_t place;

	struct gm_wait_place wait;
	struct gm_reserved reserved;
	bool may_wait; /* with a refusal: another time there may be room */

	struct gm_plan_reply reply;

	uint64_t tail[]; /* the request's */
};

static struct plan_change *of(struct gm_change *change)
{
	return gm_owner(change, struct plan_change, change);
}

/* Maps that are committed for good are the administrator's, who need not queue
 * for them. */
static bool takes_turns(const struct gpumap_plan_request *ask)
{
	return (ask->flags & GPUMAP_PLAN_HELD) != 0 || ask->wait_ns != 0;
}

/* The layers may go to any of the rows; a topology names devices of some, or of
 * none. */
static bool takes_any(const struct gpumap_plan_request *ask)
{
	return ask->setting == GPUMAP_SETTING_AUTO ||
	       ask->setting == GPUMAP_SETTING_TOPOLOGY;
}

static bool to_publish(const struct gpumap_plan_request *ask)
{
	return (ask->flags & (GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT)) != 0;
}

/* ---- judging: what there is to plan on ---------------------------------- */

static struct gm_plan_device device_of(const struct gm_daemon *d, uint32_t row,
				       uint32_t slot)
{
	const struct gm_device *device = d->devices->of[row];
	const struct gm_row_image *facts = &device->facts;
	uint64_t free_bytes = device->moving.free_bytes;
	bool is_host = (facts->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0;

	return (struct gm_plan_device){
		.row = row,
		.is_host = is_host,
		.is_cuda = (facts->known & GPUMAP_KNOWN_CC) != 0,
		.is_integrated = (facts->flags & GPUMAP_DEVICE_INTEGRATED) != 0,
		.is_drained = device->moving.state == GPUMAP_DEVICE_DRAINING ||
			      (facts->flags & GPUMAP_DEVICE_CORDONED) != 0,
		.is_dummy = !gm_device_can(device, GPUMAP_DEVICE_SERVES),
		.cc_major = facts->cc_major,
		.cc_minor = facts->cc_minor,
		.avail = gm_ledger_avail(d, row, slot),
		.total = facts->total_bytes,
		.speed = gm_plan_speed(is_host, facts->units, free_bytes,
				       facts->cc_major),
	};
}

/* The place of the map that this one would replace. */
static uint32_t slot_of(const struct plan_change *plan)
{
	const struct gm_daemon *d = plan->change.d;
	const struct gm_block *block = NULL;

	if (to_publish(&plan->q.ask))
		block = gm_directory_find(d, GM_KIND_LAYERS, plan->q.ask.name);
	return block != NULL ? (uint32_t)(block - d->directory->objects)
			     : GM_LEDGER_NOBODY;
}

/* Unless there is nothing else. */
static void leave_out_hosts(struct plan_change *plan)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < plan->q.n_devices; i++) {
		if (!plan->devices[i].is_host)
			plan->devices[kept++] = plan->devices[i];
	}
	if (kept != 0)
		plan->q.n_devices = kept;
}

static int list_devices(struct plan_change *plan)
{
	const struct gm_daemon *d = plan->change.d;
	uint32_t slot = slot_of(plan), n = 0, wrong = 0;
	bool takes_dummies = plan->q.ask.setting == GPUMAP_SETTING_MANUAL &&
			     !plan->is_reserve;

	for (uint32_t row = 0; row < d->devices->n; row++) {
		const struct gm_device *device = d->devices->of[row];

		if (device->present &&
		    device->moving.state != GPUMAP_DEVICE_FAILED &&
		    device->moving.state != GPUMAP_DEVICE_LOST)
			plan->devices[n++] = device_of(d, row, slot);
	}
	if (gm_plan_choose(&plan->q, plan->devices, n, plan->drained,
			   takes_dummies, &wrong) != 0)
		return gm_why(plan->change.why, -ENODEV,
			      gm_plan_is_drained(&plan->q, wrong)
				      ? "row %u is drained or cordoned: "
					"gpumapctl undrain or uncordon brings "
					"it back; or leave it out"
				      : "row %u is not there, is lost or has "
					"failed: gpumapctl devices shows which "
					"can be used",
			      wrong);
	if (plan->is_reserve && plan->q.ask.n_rows == 0)
		leave_out_hosts(plan);
	return 0;
}

static void find_turn(const struct plan_change *plan, struct gm_turn *ret_turn)
{
	gm_turn_find(plan->change.d, &plan->wait, slot_of(plan),
		     !takes_turns(&plan->q.ask), ret_turn);
}

static void find_most(struct plan_change *plan)
{
	struct gm_daemon *d = plan->change.d;
	const uint64_t *lasting = gm_wait_line_lasting(d);
	struct gm_turn turn;

	find_turn(plan, &turn);
	for (uint32_t i = 0; i < plan->q.n_devices; i++) {
		uint32_t row = plan->devices[i].row;
		uint64_t share = gm_ledger_share_left(d, plan->change.uid,
						      slot_of(plan), row);

		plan->most[row] = gm_turn_most(d, &turn, row);
		plan->lasting[row] =
			lasting[row] < share ? lasting[row] : share;
	}
}

static int check_reserve(struct plan_change *plan)
{
	const struct gpumap_plan_request *ask = &plan->q.ask;
	struct gm_turn turn;
	const struct gm_reserve reserve = {
		.devices = plan->devices,
		.n_devices = plan->q.n_devices,
		.bytes = plan->q.ask.layer_bytes,
		.n = ask->n_layers,
		.uid = plan->change.uid,
		.may_be_none = (ask->flags & GPUMAP_PLAN_HELD) != 0 ||
			       !to_publish(ask),
		.turn = &turn,
	};
	int ret;

	find_turn(plan, &turn);
	ret = gm_reserve_choose(plan->change.d, &reserve, &plan->wait,
				plan->change.why, &plan->reserved);
	plan->shortage = plan->reserved.shortage;
	plan->may_wait = plan->reserved.may_wait;
	plan->q.ask.text = plan->reserved.spec;
	return ret;
}

/* A map of this name that the process holds itself may be from a request whose
 * answer it has not got, of an agent that has ended. */
static int check_new(const struct plan_change *plan, char *ret_why)
{
	const struct gm_daemon *d = plan->change.d;
	uint32_t slot = slot_of(plan);
	pid_t holder;

	if ((plan->q.ask.flags & GPUMAP_PLAN_NEW) == 0 ||
	    slot == GM_LEDGER_NOBODY)
		return 0;
	holder = gm_pins_holder(d, slot);
	if (holder == plan->change.pid)
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
static int may_publish(struct plan_change *plan)
{
	const struct gpumap_plan_request *ask = &plan->q.ask;
	struct gm_change *change = &plan->change;
	int ret;

	if (!to_publish(ask))
		return 0;
	ret = gm_state_may_replace(change->d, &gm_map_kind, ask->name,
				   change->uid, change->why);
	if (ret == 0)
		ret = gm_directory_may_replace(change->d, GM_KIND_LAYERS,
					       ask->name, change->uid, 0,
					       change->why);
	return ret == 0 ? check_new(plan, change->why) : ret;
}

/* The map's user is another one than the one that asks. */
static bool is_for_other(const struct gpumap_plan_request *ask)
{
	return (ask->flags & GPUMAP_PLAN_FOR) != 0 &&
	       !gm_user_is_privileged(ask->owner_uid);
}

/* The change may have been tried before, and be in the line. */
static void begin_again(struct plan_change *plan)
{
	gm_plan_free(&plan->plan);
	gm_plan_free(&plan->wanted);
	free(plan->reply.tail);
	plan->reply = (struct gm_plan_reply){ .tail = NULL };
	plan->q.n_devices = 0;
	plan->error = (struct gm_plan_error){ .code = 0 };
	plan->shortage = (struct gm_shortage){ 0 };
	plan->wait.is_for_start = false;
	plan->may_wait = false;
}

static int check_dropped(struct plan_change *plan)
{
	if (!plan->wait.is_dropped)
		return 0;
	plan->may_wait = false;
	return gm_why(plan->change.why, -ECANCELED,
		      "the request waited, and was dropped (gpumapctl wait "
		      "drop): ask again");
}

static int check(struct gm_change *change)
{
	struct plan_change *plan = of(change);
	const struct gpumap_plan_request *ask = &plan->q.ask;
	int ret;

	begin_again(plan);
	if (is_for_other(ask))
		change->uid = ask->owner_uid;
	plan->wait.uid = change->uid;
	change->act = GM_CHANGE_NOTHING;
	ret = check_dropped(plan);
	if (ret != 0)
		return ret;
	/* Its rows are drained, and those of the next agent are not. */
	if (change->d->draining)
		return gm_why(change->why, -ESHUTDOWN,
			      "the agent is shutting down; try again when it "
			      "is back");
	ret = may_publish(plan);
	if (ret == 0)
		ret = list_devices(plan);
	if (ret == 0 && takes_any(ask) && takes_turns(ask))
		find_most(plan);
	return ret == 0 && plan->is_reserve ? check_reserve(plan) : ret;
}

/* ---- planning: on the I/O thread ----------------------------------------- */

static bool is_too_much(const struct plan_change *plan)
{
	for (uint32_t i = 0; i < plan->plan.n_charges; i++) {
		const struct gpumap_plan_charge *charge =
			&plan->plan.charges[i];

		if (gm_plan_charge_bytes(charge) > plan->most[charge->row])
			return true;
	}
	return false;
}

/* Plan on rows of which there is no more than @bytes of each; rows without any
 * are left out. */
static int make_within(const struct plan_change *plan,
		       const uint64_t bytes[GM_ROWS], bool is_now,
		       struct gm_plan *ret_plan)
{
	struct gm_plan_device devices[GM_ROWS];
	struct gm_plan_request q = plan->q;
	struct gm_plan_error error;

	q.devices = devices;
	q.n_devices = 0;
	for (uint32_t i = 0; i < plan->q.n_devices; i++) {
		struct gm_plan_device device = plan->devices[i];

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
static void make_elsewhere(struct plan_change *plan)
{
	struct gm_plan other = { .rows = NULL };

	if (make_within(plan, plan->most, true, &other) != 0)
		return;
	gm_plan_free(&plan->plan);
	plan->plan = other;
}

static int read_topology(struct plan_change *plan)
{
	const char *text = plan->q.ask.text;
	int ret;

	if (plan->q.ask.setting != GPUMAP_SETTING_TOPOLOGY || text == NULL ||
	    plan->q.topology != NULL)
		return 0;
	ret = gm_topology_file_parse(text, strlen(text), &plan->topology,
				     &plan->error);
	if (ret == 0)
		plan->q.topology = &plan->topology;
	return ret;
}

static int make(struct gm_change *change)
{
	struct plan_change *plan = of(change);
	bool is_in_turn = takes_any(&plan->q.ask) && takes_turns(&plan->q.ask);
	int ret = read_topology(plan);

	if (ret == 0)
		ret = gm_plan_make(&plan->q, &plan->plan, NULL, &plan->error);
	if (ret == 0 && is_in_turn && is_too_much(plan))
		make_elsewhere(plan);
	if (ret == -ENOSPC && is_in_turn && plan->q.ask.wait_ns != 0)
		make_within(plan, plan->lasting, false, &plan->wanted);
	if (ret == 0 && plan->is_reserve)
		gm_reserve_charge(&plan->plan, plan->devices,
				  plan->q.n_devices);
	plan->may_wait = ret == -ENOSPC;
	return ret == 0 ? 0 : gm_maps_explain(change->why, ret, &plan->error);
}

/* ---- the answer ---------------------------------------------------------- */

static void answer(struct gm_change *change, struct gm_connection *c,
		   const struct gm_control *request)
{
	struct plan_change *plan = of(change);

	plan->reply.body.version = change->version;
	gm_connection_reply(
		c, request,
		&(struct gm_reply){ .body = &plan->reply.body,
				    .body_bytes = sizeof(plan->reply.body),
				    .tail = plan->reply.tail,
				    .tail_bytes = plan->reply.tail_bytes });
}

static void refuse(struct gm_change *change, struct gm_connection *c,
		   const struct gm_control *request, int status)
{
	struct gm_control_plan_refusal refusal = {
		.missing_bytes = of(change)->shortage.bytes,
		.missing_row = of(change)->shortage.row,
	};

	snprintf(refusal.refusal.text, sizeof(refusal.refusal.text), "%s",
		 change->why[0] != '\0' ? change->why : strerror(-status));
	gm_connection_refuse_with(c, request, status, &refusal,
				  sizeof(refusal));
}

/* ---- settling: what is to come of it ------------------------------------- */

/* The client must still run to be watched; the pid of one that has ended may be
 * another process's. */
static int hold(struct plan_change *plan)
{
	struct gm_change *change = &plan->change;
	int ret;

	ret = gm_pins_hold(change->d, change->pid, change->uid, change->why,
			   &plan->place);
	if (ret != 0)
		return ret;
	plan->holds = true;
	if (change->connection != NULL &&
	    gm_connection_lives(change->connection))
		return 0;
	return gm_why(change->why, -ESRCH,
		      "process %d, which connected, is gone", (int)change->pid);
}

static void note_shortage(struct plan_change *plan)
{
	if (plan->plan.missing_bytes > plan->shortage.bytes)
		plan->shortage = (struct gm_shortage){ plan->plan.missing_bytes,
						       plan->plan.missing_row };
}

static void put_layers(struct plan_change *plan)
{
	const struct gpumap_plan_request *ask = &plan->q.ask;
	const struct gm_plan *made = &plan->plan;
	struct gm_layers *layers = &plan->layers;

	for (uint32_t i = 0; i < made->n_charges; i++)
		plan->charges[i] = (struct gm_charge_image){
			.row = made->charges[i].row,
			.n_layers = made->charges[i].n_layers,
			.weight_bytes = made->charges[i].weight_bytes,
			.kv_bytes = made->charges[i].kv_bytes,
			.activation_bytes = made->charges[i].activation_bytes,
			.reserve_bytes = made->charges[i].reserve_bytes,
		};
	*layers = (struct gm_layers){
		.name = ask->name,
		.spec = made->spec != NULL ? made->spec : "",
		.owner_uid = plan->change.uid,
		.n_layers = made->n_layers,
		.n_rows = made->n_charges,
		.base = made->base_row,
		.setting = (uint16_t)ask->setting,
		.dtype = ask->dtype,
		.compute_dtype = (uint16_t)made->compute_dtype,
		.other_bytes = ask->other_bytes,
		.rows = made->rows,
		.bytes = plan->q.ask.layer_bytes,
		.charges = plan->charges,
	};
	if (ask->caches != NULL) {
		layers->max_seq_len = ask->max_seq_len != 0 ? ask->max_seq_len
							    : GM_PLAN_SEQ_LEN;
		layers->max_batch_size = ask->max_batch_size != 0
						 ? ask->max_batch_size
						 : GM_PLAN_BATCH_SIZE;
	}
	if (ask->setting == GPUMAP_SETTING_AUTO)
		layers->strategy = (uint16_t)ask->strategy;
	if ((ask->flags & GPUMAP_PLAN_COMMIT) != 0)
		layers->flags |= GM_OBJECT_COMMITTED;
	if ((ask->flags & GPUMAP_PLAN_HELD) != 0)
		layers->flags |= GM_OBJECT_HELD;
}

/* A row may have room for it, and not be its yet. */
static int check_turn(struct plan_change *plan)
{
	const struct gm_daemon *d = plan->change.d;
	struct gm_turn turn;
	int error = 0;

	find_turn(plan, &turn);
	for (uint32_t i = 0; i < plan->plan.n_charges && error != -ENOSPC;
	     i++) {
		const struct gpumap_plan_charge *charge =
			&plan->plan.charges[i];
		int ret = gm_turn_check(d, &turn, charge->row,
					gm_plan_charge_bytes(charge),
					plan->change.why);

		error = ret != 0 ? ret : error;
	}
	plan->may_wait = error != 0;
	plan->wait.is_for_start = error == -EBUSY;
	return error;
}

/* Its user's other maps may end. */
static bool may_share(const struct plan_change *plan)
{
	for (uint32_t i = 0; i < plan->plan.n_charges; i++) {
		const struct gpumap_plan_charge *charge =
			&plan->plan.charges[i];

		if (!gm_ledger_may_share(plan->change.d, plan->change.uid,
					 charge->row,
					 gm_plan_charge_bytes(charge)))
			return false;
	}
	return true;
}

/* Publishing checks it again; here the refusal says by how much it is too
 * large. */
static int check_promise(struct plan_change *plan)
{
	struct gm_change *change = &plan->change;
	struct gm_reservation *reservation;
	int ret =
		gm_ledger_reservation(&plan->layers, change->why, &reservation);

	if (ret != 0)
		return ret;
	ret = gm_ledger_admit(change->d, reservation, slot_of(plan),
			      change->why, &plan->shortage);
	plan->may_wait = ret == -ENOSPC || (ret == -EDQUOT && may_share(plan));
	free(reservation);
	return ret != 0 ? ret : check_turn(plan);
}

/* ---- waiting ------------------------------------------------------------- */

static void try_again(struct gm_wait_place *place)
{
	gm_transactions_again(
		&gm_owner(place, struct plan_change, wait)->change);
}

/* A model's plan waits for the rows of its map, or for any where it may have
 * others; and keeps the bytes of this map, or of the one that it could have one
 * day. */
static void put_rows(struct plan_change *plan)
{
	const struct gm_plan *made =
		plan->plan.n_charges != 0 ? &plan->plan : &plan->wanted;
	bool is_fixed = !takes_any(&plan->q.ask) && made->n_charges != 0;
	struct gm_wait_place *place = &plan->wait;

	memset(place->rows, 0, sizeof(place->rows));
	memset(place->claims, 0, sizeof(place->claims));
	for (uint32_t i = 0; i < made->n_charges; i++) {
		const struct gpumap_plan_charge *charge = &made->charges[i];

		gm_wait_line_add_row(place->claims, charge->row);
		place->asks[charge->row] = gm_plan_charge_bytes(charge);
	}
	if (is_fixed)
		memcpy(place->rows, place->claims, sizeof(place->rows));
	for (uint32_t i = 0; !is_fixed && i < plan->q.n_devices; i++)
		gm_wait_line_add_row(place->rows, plan->devices[i].row);
	place->takes_all = !takes_any(&plan->q.ask);
}

/* A reservation of any row has its claims already. */
static void put_place(struct plan_change *plan, int status)
{
	struct gm_wait_place *place = &plan->wait;

	if (!plan->is_reserve)
		put_rows(plan);
	else if (place->takes_all)
		memcpy(place->claims, place->rows, sizeof(place->claims));
	else
		return;
	/* One that waits for its own user's maps to end keeps no row from
	 * others. */
	if (status == -EDQUOT)
		memset(place->claims, 0, sizeof(place->claims));
}

static void enter_line(struct plan_change *plan, uint64_t until_ns)
{
	struct gm_wait_place *place = &plan->wait;

	place->again = try_again;
	place->name = plan->q.ask.name;
	place->pid = (uint32_t)plan->change.pid;
	place->until_ns = until_ns;
	place->missing_row = plan->shortage.row;
	place->missing_bytes = plan->shortage.bytes;
	for (uint32_t i = 0;
	     plan->is_reserve && place->number == 0 && i < plan->q.ask.n_layers;
	     i++)
		place->bytes += plan->q.ask.layer_bytes[i];
	gm_wait_line_wait(plan->change.d, place);
}

/* One that could not be held even if there were room need not wait for it;
 * unless holders of any user have to end first. */
static int check_hold(struct plan_change *plan)
{
	int ret;

	if ((plan->q.ask.flags & GPUMAP_PLAN_HELD) == 0 ||
	    plan->wait.number != 0)
		return 0;
	ret = hold(plan);
	if (plan->holds)
		gm_pins_let_go(plan->change.d, plan->place);
	plan->holds = false;
	return ret != -ENOSPC ? ret : 0;
}

/* Room may come, or the end of a start window. */
static int postpone(struct gm_change *change, int status)
{
	struct plan_change *plan = of(change);
	uint64_t now = gm_loop_now(), until = now + plan->q.ask.wait_ns;
	char why[GM_WHY_BYTES];
	int ret;

	if (plan->q.ask.wait_ns == 0 || !plan->may_wait)
		return status;
	ret = check_hold(plan);
	if (ret != 0)
		return ret;
	if (plan->wait.number != 0)
		until = plan->wait.until_ns;
	if (now < until) {
		put_place(plan, status);
		enter_line(plan, until);
		return 0;
	}
	memcpy(why, change->why, sizeof(why));
	return gm_why(change->why, -ETIMEDOUT, "%llu s later still: %.220s",
		      (unsigned long long)(plan->q.ask.wait_ns / 1000000000),
		      why);
}

static int settle(struct gm_change *change)
{
	struct plan_change *plan = of(change);
	int ret;

	note_shortage(plan);
	ret = check_dropped(plan);
	if (ret != 0)
		return ret;
	ret = gm_plan_form_reply(&plan->plan, &plan->shortage, change->why,
				 &plan->reply);
	if (ret != 0 || !to_publish(&plan->q.ask))
		return ret;
	plan->shortage.bytes = 0;
	change->act = GM_CHANGE_PUT;
	change->object = &gm_map_kind;
	put_layers(plan);
	if ((plan->layers.flags & GM_OBJECT_COMMITTED) != 0)
		ret = check_promise(plan);
	if (ret == 0 && (plan->layers.flags & GM_OBJECT_HELD) != 0)
		ret = hold(plan);
	plan->may_wait |= ret == -ENOSPC;
	if (ret != 0)
		return ret;
	change->words = gm_map_kind_words(&plan->layers);
	return change->words != NULL
		       ? 0
		       : gm_why(change->why, -ENOMEM, "out of memory");
}

static void before_show(struct gm_change *change)
{
	struct plan_change *plan = of(change);

	if (change->put.reservation != NULL)
		change->put.reservation->came_ns = plan->wait.came_ns;
	if (!plan->holds)
		return;
	if (plan->q.ask.start_ns != 0)
		gm_pins_set_start(change->d, plan->place, plan->q.ask.start_ns);
	gm_pins_keep(change->d, plan->place, &change->put.block);
	plan->holds = false;
}

static void free_plan(struct gm_change *change)
{
	struct plan_change *plan = of(change);

	if (plan->holds)
		gm_pins_let_go(change->d, plan->place);
	gm_wait_line_leave(change->d, &plan->wait);
	gm_plan_free(&plan->plan);
	gm_plan_free(&plan->wanted);
	gm_topology_free(&plan->topology);
	free(plan->reply.tail);
	free(plan);
}

static const struct gm_change_kind plan_kind = {
	.check = check,
	.plan = make,
	.settle = settle,
	.postpone = postpone,
	.before_show = before_show,
	.answer = answer,
	.refuse = refuse,
	.free = free_plan,
};

/* ---- the request --------------------------------------------------------- */

static int check_rows(struct gm_connection *c, const struct plan_change *plan)
{
	for (uint32_t i = 0; i < plan->q.ask.n_rows; i++) {
		for (uint32_t j = 0; j < i; j++) {
			if (plan->q.ask.rows[i] == plan->q.ask.rows[j])
				return gm_connection_bad(
					c, -EINVAL,
					"row %u is among the rows twice",
					plan->q.ask.rows[i]);
		}
	}
	return 0;
}

int gm_plan_change_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct plan_change *plan;
	struct gm_control_plan ask;
	int ret;

	memcpy(&ask, r->body, sizeof(ask));
	ret = gm_plan_form_check(c, &ask, r);
	if (ret != 0)
		return ret;
	plan = calloc(1, sizeof(*plan) + r->tail_bytes);
	if (plan == NULL)
		return -ENOMEM;
	plan->body = ask;
	memcpy(plan->tail, r->tail, r->tail_bytes);
	gm_plan_form_read(&plan->body, (const char *)plan->tail, &plan->q.ask);
	/* A reservation is planned as a spec that is made for it. */
	plan->is_reserve = ask.setting == GPUMAP_SETTING_RESERVE;
	if (plan->is_reserve)
		plan->q.ask.setting = GPUMAP_SETTING_MANUAL;
	ret = check_rows(c, plan);
	if (ret != 0) {
		free(plan);
		return ret;
	}
	plan->wait.has_start = plan->q.ask.start_ns != 0;
	plan->change.kind = &plan_kind;
	plan->change.bytes = sizeof(*plan) + r->tail_bytes;
	return gm_transactions_add(c, &r->header, &plan->change);
}
