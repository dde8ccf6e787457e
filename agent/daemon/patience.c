/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * How long what may take, by the signs of life that a worker leaves in its
 * journal: what each of its threads is inside of, and since when.
 *
 * A device that computes for a client may take as long as it takes: the calls
 * that wait for it are not judged meanwhile, and only the administrator's limit
 * ends a worker over a client's job.
 */

#include <inttypes.h>
#include <stdio.h>

#include "agent/daemon/daemon.h"
#include "agent/daemon/keeper.h"

#define SECOND        UINT64_C(1000000000)

#define READY_NS      (10 * SECOND)
#define READY_CARD_NS (120 * SECOND) /* the driver starts one at a time */
#define STOPPED_MAX   2u             /* looks, a second apart */

static const struct limit {
	uint64_t ns;
	const char *what; /* took too long */
	bool is_the_cards;
} limits[] = {
	[GM_CALL_LOOP] = { 5 * SECOND, "a turn of its loop", false },
	[GM_CALL_DEVICE] = { 30 * SECOND, "one slice of work", true },
	[GM_CALL_ALLOC] = { 60 * SECOND, "an allocation", true },
	[GM_CALL_FREE] = { 60 * SECOND, "giving memory back", true },
	/* A gigabyte of pages takes up to a second. */
	[GM_CALL_REGISTER] = { 900 * SECOND, "a registration", true },
	[GM_CALL_FORGET] = { 60 * SECOND, "the end of a registration", true },
	[GM_CALL_EXPORT] = { 30 * SECOND, "an export", true },
	[GM_CALL_IMPORT] = { 30 * SECOND, "an import", true },
	[GM_CALL_ACROSS] = { 30 * SECOND, "a copy between rows", true },
};

uint64_t gm_patience_ready(const struct gm_keeper *keeper)
{
	return keeper->on_need ? READY_CARD_NS : READY_NS;
}

/* Signs from before this worker are not judged. */
static void judge(struct gm_keeper *keeper, uint64_t beat, uint64_t now)
{
	uint64_t since = beat & ~(UINT64_C(0xff) << 56);
	uint32_t call = (uint32_t)(beat >> 56);
	const struct limit *limit;
	char why[GM_WHY_BYTES];

	if (call >= sizeof(limits) / sizeof(limits[0]) ||
	    since < keeper->since_ns || now < since)
		return;
	limit = &limits[call];
	if (limit->ns == 0)
		return;
	if (limit->is_the_cards && since < keeper->computed_ns)
		since = keeper->computed_ns;
	if (now - since <= limit->ns)
		return;
	snprintf(why, sizeof(why), "%s took over %" PRIu64 " s", limit->what,
		 limit->ns / SECOND);
	gm_keeper_kill(keeper, why);
}

static void judge_jobs(struct gm_keeper *keeper, uint64_t now)
{
	uint64_t limit = keeper->d->config.cuda_kernel_limit_ns;
	uint64_t since = gm_get(&keeper->journal->aloft);
	char why[GM_WHY_BYTES];

	if (since < keeper->since_ns || now < since)
		return;
	keeper->computed_ns = now;
	if (limit == 0 || !keeper->on_need || now - since <= limit)
		return;
	snprintf(why, sizeof(why), "a job ran longer than kernel-limit allows");
	gm_keeper_kill(keeper, why);
}

void gm_patience_look(struct gm_keeper *keeper, uint64_t now_ns)
{
	if (!gm_keeper_has_child(keeper) || keeper->state == GM_KEEPER_ENDING ||
	    keeper->state == GM_KEEPER_STUCK)
		return;
	if (!gm_spawn_stopped(&keeper->child))
		keeper->times_stopped = 0;
	else if (++keeper->times_stopped >= STOPPED_MAX)
		gm_keeper_kill(keeper, "stopped by a signal");
	if (keeper->state == GM_KEEPER_SERVING) {
		judge_jobs(keeper, now_ns);
		judge(keeper, gm_get(&keeper->journal->beat), now_ns);
		judge(keeper, gm_get(&keeper->journal->slow), now_ns);
	}
	gm_seats_pump(keeper);
}
