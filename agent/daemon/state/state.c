/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state/state.h"

#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"

/* The daemon in a unit test may have no kinds. */
#define FOR_EACH_KIND(i, d) \
	for (unsigned i = 0; (d)->state_kinds && (d)->state_kinds[i]; i++)

int gm_state_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	TAILQ_INIT(&d->state->maps);
	TAILQ_INIT(&d->state->meshes);
	TAILQ_INIT(&d->state->masks);
	return gm_state_dir_open(d->state_dir, d->instance, ret_why,
				 &d->state->dir);
}

void gm_state_exit(struct gm_daemon *d)
{
	FOR_EACH_KIND(i, d)
	d->state_kinds[i]->exit(d);
	gm_state_dir_close(&d->state->dir);
}

int gm_state_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	int ret = 0;

	FOR_EACH_KIND(i, d)
	{
		ret = d->state_kinds[i]->restore(d, ret_why);
		if (ret != 0)
			break;
	}
	return ret;
}

const struct gm_state_kind *gm_state_kind(const struct gm_daemon *d,
					  uint32_t kind)
{
	FOR_EACH_KIND(i, d)
	{
		if (d->state_kinds[i]->kind == kind)
			return d->state_kinds[i];
	}
	return NULL;
}

void gm_state_recheck(struct gm_daemon *d)
{
	FOR_EACH_KIND(i, d)
	d->state_kinds[i]->recheck(d);
}

bool gm_state_row_used(const struct gm_daemon *d, uint32_t row)
{
	FOR_EACH_KIND(i, d)
	{
		if (d->state_kinds[i]->names(d,
					     d->devices->of[row]->facts.uuid))
			return true;
	}
	return false;
}
