/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/usage.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/account/quota.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/workers/worker_process.h"

/* ---- what workers say -------------------------------------------------- */

static uint64_t said_bytes(const struct gm_seat *seat)
{
	return gm_get(
		&gm_journal_at(seat->keeper->journal, seat->place)->bytes);
}

/* What a program's worker says, a program may have said. */
static bool is_believed(const struct gm_keeper *keeper)
{
	return !keeper->crew->runs_programs;
}

/* A worker that has been told of a seat has begun from nothing. */
uint64_t gm_usage_of_seat(const struct gm_seat *seat)
{
	const struct gm_keeper *keeper = seat->keeper;

	if (!keeper || keeper->is_undertaker || !gm_keeper_has_child(keeper) ||
	    seat->state <= GM_SEAT_OFFERED)
		return 0;
	return said_bytes(seat);
}

uint64_t gm_usage_within_reach(const struct gm_keeper *keeper, uint32_t uid)
{
	const struct gm_seat *seat;
	uint64_t bytes = 0;

	TAILQ_FOREACH(seat, &keeper->seats, entry)
	{
		if (seat->uid == uid ||
		    (seat->state >= GM_SEAT_LEAVING && is_believed(keeper)))
			bytes += gm_usage_of_seat(seat);
	}
	return bytes;
}

void gm_usage_leaves(const struct gm_seat *seat)
{
	const struct gm_keeper *keeper = seat->keeper;

	if (!keeper->is_undertaker && is_believed(keeper) &&
	    seat->state == GM_SEAT_LEFT)
		gm_quota_back(keeper->d, keeper->row, said_bytes(seat));
}

void gm_usage_ends(const struct gm_keeper *keeper)
{
	const struct gm_seat *seat;

	if (!is_believed(keeper))
		return;
	TAILQ_FOREACH(seat, &keeper->seats, entry)
	{
		if (seat->state == GM_SEAT_TAKEN ||
		    seat->state == GM_SEAT_LEAVING)
			gm_quota_back(keeper->d, keeper->row, said_bytes(seat));
	}
}
