/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Wait until the agent's map is READY and its socket answers. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "agent/ctl/clock.h"

#define SECOND  UINT64_C(1000000000)
#define LOOK_NS (SECOND / 20)

/* Wait for a change of the map, or a while where there is none. */
static void nap(const struct gm_ctl *ctl, uint32_t seen, uint64_t deadline_ns)
{
	uint64_t until = gm_clock_ns() + LOOK_NS;
	const struct timespec while_ns = { .tv_nsec = LOOK_NS };

	if (until > deadline_ns)
		until = deadline_ns;
	if (ctl->map == NULL ||
	    gpumap_wait_change(ctl->map, seen, until) == -ESTALE)
		nanosleep(&while_ns, NULL);
}

/* Has the agent gone, or not come yet?  Any other error stays. */
static bool may_pass(int error)
{
	return error == 0 || error == -ENOENT || error == -ECONNREFUSED ||
	       error == -ECONNRESET || error == -ESHUTDOWN;
}

/* Does the agent serve?  Returns 1, 0, or the negative errno of the attempt to
 * attach or to ask. */
static int serves(const struct gm_ctl *ctl, struct gpumap_health *ret_health)
{
	int ret = gpumap_health(ctl->map, ret_health);

	if (ret != 0 || ret_health->state != GPUMAP_READY || ret_health->stale)
		return ret;
	ret = gpumap_session_list(ctl->map, NULL, 0);
	return ret < 0 ? ret : 1;
}

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
	if (ctl->map == NULL)
		return gm_ctl_not_attached(error);
	if (error != 0)
		return gm_ctl_fail(ctl, error, "wait");
	fprintf(stderr,
		"gpumapctl: the agent does not serve after %llu s: its map is "
		"%s%s\n",
		(unsigned long long)ctl->timeout_s, gm_ctl_state(health->state),
		health->stale ? ", and the agent has not been seen for two "
				"seconds; is gpumapd running?"
			      : "");
	return GM_EXIT_UNWELL;
}

int gm_ctl_wait(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = ctl->instance,
					   .runtime_dir = ctl->runtime_dir };
	uint64_t deadline_ns = UINT64_MAX;
	int ret;

	if ((ctl->given & GM_OPT_TIMEOUT) != 0 &&
	    ctl->timeout_s < UINT64_MAX / SECOND / 2)
		deadline_ns = gm_clock_ns() + ctl->timeout_s * SECOND;
	for (;;) {
		struct gpumap_health health = { .size = sizeof(health) };
		uint32_t seen = 0;

		/* Each time anew: a new agent may have replaced the map. */
		gpumap_detach(ctl->map);
		ctl->map = NULL;
		ret = gpumap_attach(&opts, &ctl->map);
		if (ret == 0) {
			seen = gpumap_generation(ctl->map);
			ret = serves(ctl, &health);
		}
		if (ret == 1)
			return report(ctl, &health);
		if (!may_pass(ret) || gm_clock_ns() >= deadline_ns)
			return timed_out(ctl, ret, &health);
		nap(ctl, seen, deadline_ns);
	}
}
