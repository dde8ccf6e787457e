/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/user_queue.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/daemon/workers/worker_process.h"

int gm_askers_join(struct gm_keeper *keeper, struct gm_seat *seat)
{
	struct gm_asker *asker;

	LIST_FOREACH(asker, &keeper->askers, entry)
	{
		if (asker->uid == seat->uid)
			break;
	}
	if (!asker) {
		asker = calloc(1, sizeof(*asker));
		if (!asker)
			return -ENOMEM;
		asker->uid = seat->uid;
		LIST_INSERT_HEAD(&keeper->askers, asker, entry);
	}
	asker->n_seats++;
	seat->asker = asker;
	seat->asked = 0;
	return 0;
}

void gm_askers_leave(struct gm_seat *seat)
{
	struct gm_asker *asker = seat->asker;

	seat->asker = NULL;
	if (--asker->n_seats)
		return;
	LIST_REMOVE(asker, entry);
	free(asker);
}

bool gm_askers_have_place(const struct gm_keeper *keeper,
			  const struct gm_seat *seat, bool is_fetch)
{
	if (keeper->n_asked >= GM_ASKERS_MOST)
		return false;
	if (!is_fetch)
		return true;
	return keeper->n_fetches < GM_ASKERS_FETCHES &&
	       seat->asker->n_fetches < GM_ASKERS_FETCHES / 2;
}

bool gm_askers_are_before(const struct gm_seat *seat,
			  const struct gm_seat *other)
{
	const struct gm_asker *a = seat->asker, *b = other->asker;

	if (a->n_asked != b->n_asked)
		return a->n_asked < b->n_asked;
	if (a->asked != b->asked)
		return a->asked < b->asked;
	return seat->asked < other->asked;
}

void gm_askers_asked(struct gm_keeper *keeper, struct gm_seat *seat,
		     bool is_fetch)
{
	keeper->n_asked++;
	keeper->n_fetches += is_fetch;
	seat->asker->n_asked++;
	seat->asker->n_fetches += is_fetch;
	seat->asker->asked = seat->asked = ++keeper->asked;
}

static void take_from(uint32_t *n, uint32_t one)
{
	if (*n)
		*n -= one;
}

void gm_askers_answered(struct gm_keeper *keeper, struct gm_seat *seat,
			bool is_fetch)
{
	take_from(&keeper->n_asked, 1);
	take_from(&keeper->n_fetches, is_fetch);
	if (!seat)
		return;
	take_from(&seat->asker->n_asked, 1);
	take_from(&seat->asker->n_fetches, is_fetch);
}

void gm_askers_silence(struct gm_keeper *keeper)
{
	struct gm_asker *asker;

	keeper->n_asked = keeper->n_fetches = 0;
	LIST_FOREACH(asker, &keeper->askers, entry)
	asker->n_asked = asker->n_fetches = 0;
}
