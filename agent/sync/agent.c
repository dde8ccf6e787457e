/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent of this node: attach to its map, and say when it comes and goes.
 *
 * A request to an agent that hangs returns after two seconds at most, and none
 * is made while the agent is not seen: so a lease of five seconds is renewed in
 * time whatever the agent does.
 */

#include <errno.h>
#include <stdlib.h>

#include "agent/common/log.h"
#include "agent/sync/config.h"
#include "agent/sync/parts.h"
#include "agent/sync/sync.h"

#define LOOK_NS          UINT64_C(1000000000)
#define REQUEST_LIMIT_NS UINT64_C(1000000000)

struct gm_sync_agent {
	struct gm_sync_source change;
	bool is_awaited; /* @change is the loop's */
	bool answers;
	uint64_t epoch;
	uint64_t due_ns;
	int said; /* the last error that was logged */
};

static void changed(struct gm_sync *sync, struct gm_sync_source *source)
{
	(void)source;
	sync->agent->due_ns = 0;
}

static void detach(struct gm_sync *sync)
{
	struct gm_sync_agent *agent = sync->agent;

	if (agent->is_awaited)
		gm_sync_remove(sync, &agent->change);
	agent->is_awaited = false;
	gpumap_detach(sync->map);
	sync->map = NULL;
}

/* Returns 0 or a negative errno. */
static int attach(struct gm_sync *sync)
{
	struct gm_sync_agent *agent = sync->agent;
	const struct gpumap_attach_opts opts = {
		.size = sizeof(opts),
		.instance = sync->config->instance,
		.runtime_dir = sync->config->runtime_dir,
	};
	int ret = gpumap_attach(&opts, &sync->map);

	if (ret != 0)
		return ret;
	gpumap_request_limit(sync->map, REQUEST_LIMIT_NS);
	agent->change.fd = gpumap_change_fd(sync->map);
	ret = agent->change.fd < 0 ? agent->change.fd
				   : gm_sync_add(sync, &agent->change);
	agent->is_awaited = ret == 0;
	if (ret != 0)
		detach(sync);
	return ret;
}

/* Once for each error. */
static void say(struct gm_sync_agent *agent, int error)
{
	if (error != 0 && error != agent->said)
		gm_log(GM_LOG_WARNING, "no_agent", "why=%s",
		       gm_quote(gpumap_refusal(NULL)).text);
	agent->said = error;
}

/* Have the next change wake the loop.  Returns false where the map is not that
 * of an agent any more. */
static bool arm(struct gm_sync *sync)
{
	uint32_t seen = gpumap_generation(sync->map);
	int ret;

	if (!gm_sync_agent_answers(sync))
		return true;
	do {
		ret = gpumap_change_arm(sync->map, seen);
		seen = gpumap_generation(sync->map);
	} while (ret == 1);
	return ret != -ESTALE;
}

static bool is_retired(const struct gm_sync *sync,
		       const struct gpumap_health *health)
{
	return sync->map != NULL && health->state == GPUMAP_RETIRED;
}

static void look(struct gm_sync *sync)
{
	struct gm_sync_agent *agent = sync->agent;
	struct gpumap_health health = { .size = sizeof(health) };
	const struct gpumap *before = sync->map;
	uint64_t epoch = agent->epoch;
	bool answered = agent->answers;

	if (sync->map != NULL)
		gpumap_health(sync->map, &health);
	if (is_retired(sync, &health) || (sync->map != NULL && !arm(sync)))
		detach(sync);
	if (sync->map == NULL) {
		say(agent, attach(sync));
		if (sync->map != NULL && !arm(sync))
			detach(sync);
	}
	agent->answers = gm_sync_agent_answers(sync);
	if (sync->map != NULL) {
		gpumap_health(sync->map, &health);
		agent->epoch = health.epoch;
	}
	if (sync->map == before && agent->answers == answered &&
	    agent->epoch == epoch)
		return;
	if (agent->answers != answered || agent->epoch != epoch)
		gm_log(GM_LOG_INFO, agent->answers ? "agent" : "agent_gone",
		       "epoch=%llu", (unsigned long long)agent->epoch);
	gm_sync_agent_changed(sync);
}

static uint64_t due(const struct gm_sync *sync)
{
	return sync->agent->due_ns;
}

static void tick(struct gm_sync *sync, uint64_t now_ns)
{
	sync->agent->due_ns = now_ns + LOOK_NS;
	look(sync);
}

static int open_agent(struct gm_sync *sync)
{
	sync->agent = calloc(1, sizeof(*sync->agent));
	if (sync->agent == NULL)
		return -ENOMEM;
	sync->agent->change = (struct gm_sync_source){ -1, changed };
	return 0;
}

static void close_agent(struct gm_sync *sync)
{
	detach(sync);
	free(sync->agent);
	sync->agent = NULL;
}

const struct gm_sync_part gm_sync_agent_part = {
	.open = open_agent,
	.close = close_agent,
	.due = due,
	.tick = tick,
};
