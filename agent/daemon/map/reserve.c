/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/reserve.h"

#include <errno.h>
#include <stdio.h>

#include "lib/model/plan/size_text.h"

static int check(const struct gm_reserve *r, char *ret_why)
{
	if (r->n != 1 && r->n != r->n_devices)
		return gm_why(ret_why, -EINVAL,
			      "a reservation has bytes of %u rows and names "
			      "%u: name each row once, or one size for any",
			      r->n, r->n_devices);
	for (uint32_t i = 0; i < r->n && !r->may_be_none; i++)
		if (r->bytes[i] == 0)
			return gm_why(
				ret_why, -EINVAL,
				"a reservation of 0 bytes that no process "
				"holds: ask for 1 at least");
	return 0;
}

static int never_fits(const struct gm_plan_device *device, uint64_t bytes,
		      char *ret_why, struct gm_reserved *ret)
{
	if (ret->shortage.bytes == 0 ||
	    bytes - device->total < ret->shortage.bytes)
		ret->shortage = (struct gm_shortage){ bytes - device->total,
						      device->row };
	return gm_why(ret_why, -ENOSPC,
		      "row %u has %s in all, the reservation takes %s: ask for "
		      "less, or for another row",
		      ret->shortage.row,
		      gm_size_down(bytes - ret->shortage.bytes).text,
		      gm_size_up(bytes).text);
}

/* Room is looked for later, with that of all other maps. */
static int choose_all(const struct gm_reserve *r, struct gm_wait_place *place,
		      char *ret_why, struct gm_reserved *ret)
{
	size_t at = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		const struct gm_plan_device *device = &r->devices[i];

		if (r->bytes[i] > device->total)
			return never_fits(device, r->bytes[i], ret_why, ret);
		gm_wait_line_add_row(place->rows, device->row);
		place->asks[device->row] = r->bytes[i];
		at += (size_t)snprintf(ret->spec + at, sizeof(ret->spec) - at,
				       "%s%u:1", at != 0 ? ";" : "",
				       device->row);
	}
	place->takes_all = true;
	return 0;
}

/* Those whose memory would do, if all of it were free, and of which the uid may
 * have so much.  A row is claimed unless the uid's maps have too much of it. */
static int find_rows(const struct gm_daemon *d, const struct gm_reserve *r,
		     struct gm_wait_place *place, char *ret_why,
		     struct gm_reserved *ret)
{
	int error = gm_why(ret_why, -ENODEV,
			   "there is no row to reserve memory of: gpumapctl "
			   "devices shows which can be used");
	bool has_any = false;

	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct gm_plan_device *device = &r->devices[i];
		int status;

		if (device->total < r->bytes[0]) {
			error = never_fits(device, r->bytes[0], ret_why, ret);
			continue;
		}
		status = gm_ledger_check_share(d, r->uid, r->turn->slot,
					       device->row, r->bytes[0],
					       ret_why);
		if (status != 0 &&
		    !gm_ledger_may_share(d, r->uid, device->row, r->bytes[0])) {
			error = status;
			continue;
		}
		if (status == 0)
			gm_wait_line_add_row(place->claims, device->row);
		place->asks[device->row] = r->bytes[0];
		gm_wait_line_add_row(place->rows, device->row);
		has_any = true;
	}
	if (has_any || error != -ENOSPC)
		ret->shortage = (struct gm_shortage){ 0 };
	return has_any ? 0 : error;
}

/* The reasons why it gets no row, as far as rows have been looked at. */
struct obstacle {
	uint32_t row;  /* with room, which others are to have */
	int error;     /* and how: see gm_turn_check(); 0: there is none */
	uint64_t most; /* bytes that are free of a row that it may take */
	uint32_t most_row;
};

static int say(const struct gm_daemon *d, const struct gm_reserve *r,
	       const struct obstacle *obstacle, struct gm_wait_place *place,
	       char *ret_why, struct gm_reserved *ret)
{
	ret->may_wait = true;
	place->is_for_start = obstacle->error == -EBUSY;
	if (obstacle->error != 0)
		return gm_turn_check(d, r->turn, obstacle->row, r->bytes[0],
				     ret_why);
	ret->shortage = (struct gm_shortage){ r->bytes[0] - obstacle->most,
					      obstacle->most_row };
	return gm_why(
		ret_why, -ENOSPC,
		"row %u, which has the most, has %s that no map reserves, "
		"the reservation takes %s: release one that gpumapctl who "
		"shows, or ask for less",
		obstacle->most_row, gm_size_down(obstacle->most).text,
		gm_size_up(r->bytes[0]).text);
}

static bool has_claim(const struct gm_wait_place *place)
{
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		if (place->claims[i] != 0)
			return true;
	return false;
}

/* Maps of the same user have to end first. */
static int say_share(const struct gm_daemon *d, const struct gm_reserve *r,
		     const struct gm_wait_place *place, char *ret_why,
		     struct gm_reserved *ret)
{
	uint32_t i = 0;

	while (!gm_wait_line_has_row(place->rows, r->devices[i].row))
		i++;
	ret->may_wait = true;
	return gm_ledger_check_share(d, r->uid, r->turn->slot,
				     r->devices[i].row, r->bytes[0], ret_why);
}

/* The row that has the fewest bytes left then. */
static int choose_one(const struct gm_daemon *d, const struct gm_reserve *r,
		      struct gm_wait_place *place, char *ret_why,
		      struct gm_reserved *ret)
{
	const struct gm_plan_device *best = NULL;
	struct obstacle obstacle = { .row = GM_ROWS };

	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct gm_plan_device *device = &r->devices[i];
		int error;

		if (!gm_wait_line_has_row(place->rows, device->row))
			continue;
		if (device->avail >= obstacle.most) {
			obstacle.most = device->avail;
			obstacle.most_row = device->row;
		}
		if (device->avail < r->bytes[0] ||
		    !gm_wait_line_has_row(place->claims, device->row))
			continue;
		error = gm_turn_check(d, r->turn, device->row, r->bytes[0],
				      ret_why);
		if (error == 0) {
			if (best == NULL || device->avail < best->avail)
				best = device;
		} else if (obstacle.error != -EBUSY) {
			obstacle.error = error;
			obstacle.row = device->row;
		}
	}
	if (best == NULL && !has_claim(place))
		return say_share(d, r, place, ret_why, ret);
	if (best == NULL)
		return say(d, r, &obstacle, place, ret_why, ret);
	snprintf(ret->spec, sizeof(ret->spec), "%u:1", best->row);
	return 0;
}

int gm_reserve_choose(const struct gm_daemon *d, const struct gm_reserve *r,
		      struct gm_wait_place *place, char ret_why[GM_WHY_BYTES],
		      struct gm_reserved *ret_reserved)
{
	int ret = check(r, ret_why);

	*ret_reserved = (struct gm_reserved){ .may_wait = false };
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		place->rows[i] = place->claims[i] = 0;
	place->takes_all = place->takes_one = false;
	place->is_for_start = false;
	if (ret != 0)
		return ret;
	if (r->n == r->n_devices)
		return choose_all(r, place, ret_why, ret_reserved);
	place->takes_one = true;
	ret = find_rows(d, r, place, ret_why, ret_reserved);
	return ret == 0 ? choose_one(d, r, place, ret_why, ret_reserved) : ret;
}

void gm_reserve_charge(struct gm_plan *plan,
		       const struct gm_plan_device *devices, uint32_t n)
{
	plan->missing_bytes = 0;
	for (uint32_t i = 0; i < plan->n_charges; i++) {
		struct gpumap_plan_charge *charge = &plan->charges[i];
		uint64_t avail = 0, bytes = charge->weight_bytes;

		for (uint32_t k = 0; k < n; k++)
			if (devices[k].row == charge->row)
				avail = devices[k].avail;
		charge->kv_bytes = 0;
		charge->activation_bytes = 0;
		charge->reserve_bytes = 0;
		charge->left_bytes = avail > bytes ? avail - bytes : 0;
		if (bytes > avail && bytes - avail > plan->missing_bytes) {
			plan->missing_bytes = bytes - avail;
			plan->missing_row = charge->row;
		}
	}
}
