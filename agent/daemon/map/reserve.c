/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/reserve.h"

#include <errno.h>
#include <stdio.h>

#include "agent/daemon/map/room.h"
#include "lib/model/plan/size_text.h"

/* The rows that it may take, as they are now. */
struct candidates {
	uint32_t n;
	struct gm_room_row of[GM_ROWS];
	uint64_t has[GM_ROWS]; /* that its uid has reserved, by row */
};

/* ---- candidates ---------------------------------------------------------- */

static int find_named(const struct gm_daemon *d, const struct gm_reserve *r,
		      const struct candidates *all, char *ret_why,
		      struct candidates *ret)
{
	for (uint32_t i = 0; i < r->n_rows; i++) {
		int error = gm_room_check_row(d, r->rows[i], ret_why);
		uint32_t at = 0;

		if (error != 0)
			return error;
		while (all->of[at].row != r->rows[i])
			at++;
		ret->of[ret->n++] = all->of[at];
	}
	return 0;
}

/* Those that are not drained, and have none of these flags. */
static void keep_without(const struct candidates *all, uint32_t flags,
			 struct candidates *ret)
{
	for (uint32_t i = 0; i < all->n; i++)
		if ((all->of[i].flags & (flags | GM_ROOM_DRAINED)) == 0)
			ret->of[ret->n++] = all->of[i];
}

static int find_candidates(const struct gm_daemon *d,
			   const struct gm_reserve *r, char *ret_why,
			   struct candidates *ret)
{
	static const uint32_t unwanted[] = { GM_ROOM_DUMMY | GM_ROOM_HOST,
					     GM_ROOM_DUMMY, GM_ROOM_HOST, 0 };
	struct candidates all;

	all.n = gm_room_list(d, r->turn->slot, all.of);
	ret->n = 0;
	if (r->n_rows != 0)
		return find_named(d, r, &all, ret_why, ret);
	for (uint32_t i = 0; i < 4 && ret->n == 0; i++)
		keep_without(&all, unwanted[i], ret);
	return 0;
}

/* ---- choosing ------------------------------------------------------------ */

static int check(const struct gm_reserve *r, const struct candidates *c,
		 char *ret_why)
{
	if (r->n != 1 && r->n != c->n)
		return gm_why(ret_why, -EINVAL,
			      "a reservation has bytes of %u rows and names "
			      "%u: name each row once, or one size for any",
			      r->n, c->n);
	for (uint32_t i = 0; i < r->n && !r->may_be_none; i++)
		if (r->bytes[i] == 0)
			return gm_why(
				ret_why, -EINVAL,
				"a reservation of 0 bytes that no process "
				"holds: ask for 1 at least");
	return 0;
}

static int never_fits(const struct gm_room_row *device, uint64_t bytes,
		      char *ret_why, struct gm_reserved *ret)
{
	if (ret->shortage.bytes == 0 ||
	    bytes - device->total_bytes < ret->shortage.bytes)
		ret->shortage =
			(struct gm_shortage){ bytes - device->total_bytes,
					      device->row };
	return gm_why(ret_why, -ENOSPC,
		      "row %u has %s in all, the reservation takes %s: ask for "
		      "less, or for another row",
		      ret->shortage.row,
		      gm_size_down(bytes - ret->shortage.bytes).text,
		      gm_size_up(bytes).text);
}

/* Room is looked for later, with that of all other maps. */
static int choose_all(const struct gm_reserve *r, const struct candidates *c,
		      struct gm_wait_place *place, char *ret_why,
		      struct gm_reserved *ret)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct gm_room_row *device = &c->of[i];

		if (r->bytes[i] > device->total_bytes)
			return never_fits(device, r->bytes[i], ret_why, ret);
		gm_wait_line_add_row(place->rows, device->row);
		gm_wait_line_add_row(place->claims, device->row);
		place->asks[device->row] = r->bytes[i];
		ret->of[ret->n++] =
			(struct gm_reserved_bytes){ device->row, r->bytes[i] };
	}
	place->takes_all = true;
	return 0;
}

/* Those whose memory would do, if all of it were free, and of which the uid may
 * have so much.  A row is claimed unless the uid's maps have too much of it. */
static int find_rows(const struct gm_daemon *d, const struct gm_reserve *r,
		     const struct candidates *c, struct gm_wait_place *place,
		     char *ret_why, struct gm_reserved *ret)
{
	int error = gm_why(ret_why, -ENODEV,
			   "there is no row to reserve memory of: gpumapctl "
			   "devices shows which can be used");
	bool has_any = false;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct gm_room_row *device = &c->of[i];
		int status;

		if (device->total_bytes < r->bytes[0]) {
			error = never_fits(device, r->bytes[0], ret_why, ret);
			continue;
		}
		status = gm_ledger_check_share(d, r->uid, device->row,
					       r->bytes[0], c->has[device->row],
					       ret_why);
		if (status != 0 &&
		    r->bytes[0] >
			    gm_ledger_share_left(d, r->uid, device->row, 0)) {
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
	       const struct obstacle *obstacle, char *ret_why,
	       struct gm_reserved *ret)
{
	ret->may_wait = true;
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
		     const struct candidates *c,
		     const struct gm_wait_place *place, char *ret_why,
		     struct gm_reserved *ret)
{
	uint32_t i = 0;

	while (!gm_wait_line_has_row(place->rows, c->of[i].row))
		i++;
	ret->may_wait = true;
	return gm_ledger_check_share(d, r->uid, c->of[i].row, r->bytes[0],
				     c->has[c->of[i].row], ret_why);
}

/* The row that has the fewest bytes left then. */
static int choose_one(const struct gm_daemon *d, const struct gm_reserve *r,
		      const struct candidates *c, struct gm_wait_place *place,
		      char *ret_why, struct gm_reserved *ret)
{
	const struct gm_room_row *best = NULL;
	struct obstacle obstacle = { .row = GM_ROWS };

	for (uint32_t i = 0; i < c->n; i++) {
		const struct gm_room_row *device = &c->of[i];
		int error;

		if (!gm_wait_line_has_row(place->rows, device->row))
			continue;
		if (device->avail_bytes >= obstacle.most) {
			obstacle.most = device->avail_bytes;
			obstacle.most_row = device->row;
		}
		if (device->avail_bytes < r->bytes[0] ||
		    !gm_wait_line_has_row(place->claims, device->row))
			continue;
		error = gm_turn_check(d, r->turn, device->row, r->bytes[0],
				      ret_why);
		if (error == 0) {
			if (best == NULL ||
			    device->avail_bytes < best->avail_bytes)
				best = device;
		} else if (obstacle.error != -EBUSY) {
			obstacle.error = error;
			obstacle.row = device->row;
		}
	}
	if (best == NULL && !has_claim(place))
		return say_share(d, r, c, place, ret_why, ret);
	if (best == NULL)
		return say(d, r, &obstacle, ret_why, ret);
	ret->of[ret->n++] =
		(struct gm_reserved_bytes){ best->row, r->bytes[0] };
	return 0;
}

static void put_spec(struct gm_reserved *ret)
{
	size_t at = 0;

	for (uint32_t i = 0; i < ret->n; i++)
		at += (size_t)snprintf(ret->spec + at, sizeof(ret->spec) - at,
				       "%s%u:1", at != 0 ? ";" : "",
				       ret->of[i].row);
}

int gm_reserve_choose(struct gm_daemon *d, const struct gm_reserve *r,
		      struct gm_wait_place *place, char ret_why[GM_WHY_BYTES],
		      struct gm_reserved *ret_reserved)
{
	struct candidates c;
	int ret = find_candidates(d, r, ret_why, &c);

	*ret_reserved = (struct gm_reserved){ .may_wait = false };
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		place->rows[i] = place->claims[i] = 0;
	place->takes_all = place->takes_one = false;
	if (ret == 0)
		ret = check(r, &c, ret_why);
	if (ret == 0 && r->n == c.n) {
		ret = choose_all(r, &c, place, ret_why, ret_reserved);
	} else if (ret == 0) {
		place->takes_one = true;
		gm_ledger_shares(d, r->uid, r->turn->slot, c.has);
		ret = find_rows(d, r, &c, place, ret_why, ret_reserved);
		if (ret == 0)
			ret = choose_one(d, r, &c, place, ret_why,
					 ret_reserved);
	}
	put_spec(ret_reserved);
	return ret;
}
