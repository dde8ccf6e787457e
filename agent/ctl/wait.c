/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Wait until the agent's map is READY, its socket answers and its rows have
 * their workers. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "agent/ctl/clock.h"

#define SECOND  UINT64_C(1000000000)
#define LOOK_NS (SECOND / 20)

static int report(const struct gm_ctl *ctl, const struct gpumap_health *health)
{
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack(
		"{s:s, s:s, s:I, s:I}", "instance", ctl->instance, "state",
		gm_ctl_state(health->state), "epoch", (json_int_t)health->epoch,
		"agent_pid", (json_int_t)health->agent_pid));
}

static int timed_out(const struct gm_ctl *ctl, int error,
		     const struct gpumap_health *health)
{
	bool serves = health->state == GPUMAP_READY && !health->stale;

	if (ctl->map == NULL)
		return gm_ctl_not_attached(error);
	if (serves && error != -ETIME)
		return gm_ctl_fail(ctl, error, "wait");
	fprintf(stderr, "gpumapctl: the agent does not serve after %llu s: ",
		(unsigned long long)GM_NUMBER(ctl, TIMEOUT));
	if (serves)
		fprintf(stderr, "%s\n", gpumap_refusal(ctl->map));
	else
		fprintf(stderr, "its map is %s%s\n",
			gm_ctl_state(health->state),
			health->stale ? ", and the agent has not been seen for "
					"two seconds; is gpumapd running?"
				      : "");
	return GM_EXIT_UNWELL;
}

int gm_ctl_wait(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = ctl->instance,
					   .runtime_dir = ctl->runtime_dir };
	const struct timespec nap = { .tv_nsec = LOOK_NS };
	uint64_t deadline_ns = UINT64_MAX;
	int ret;

	if (GM_GIVEN(ctl, TIMEOUT) &&
	    GM_NUMBER(ctl, TIMEOUT) < UINT64_MAX / SECOND / 2)
		deadline_ns = gm_clock_ns() + GM_NUMBER(ctl, TIMEOUT) * SECOND;
	for (;;) {
		struct gpumap_health health = { .size = sizeof(health) };

		ret = gpumap_attach(&opts, &ctl->map);
		if (ret == 0)
			ret = gpumap_wait_ready(ctl->map, deadline_ns);
		if (ctl->map != NULL)
			gpumap_health(ctl->map, &health);
		if (ret == 0)
			return report(ctl, &health);
		/* A new agent will make the map, or has made another. */
		if ((ret != -ENOENT && ret != -ESTALE) ||
		    gm_clock_ns() >= deadline_ns)
			return timed_out(ctl, ret, &health);
		gpumap_detach(ctl->map);
		ctl->map = NULL;
		nanosleep(&nap, NULL);
	}
}
