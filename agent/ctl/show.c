/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show the status, the sessions and the shares; wait until the agent's map is
 * READY, its socket answers and its rows have their workers; and take a share's
 * name back. */

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/fields.h"
#include "agent/ctl/progress.h"
#include "agent/reader/list.h"

/* ---- status -------------------------------------------------------------- */

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {
		[GPUMAP_STARTING] = "STARTING",
		[GPUMAP_READY] = "READY",
		[GPUMAP_DRAINING] = "DRAINING",
		[GPUMAP_RETIRED] = "RETIRED",
	};

	return state < sizeof(names) / sizeof(names[0]) && names[state] != NULL
		       ? names[state]
		       : "unknown";
}

#define HEALTH(name, member, ...) \
	GM_FIELD(gpumap_health, name, member, __VA_ARGS__)
#define CLUSTER(name, member, ...) \
	GM_FIELD(gpumap_cluster, name, member, __VA_ARGS__)

static const struct gm_ctl_field health_fields[] = {
	HEALTH("state", state, .word = state_name),
	HEALTH("stale", stale, GM_SET(1)),
	GM_MEMBERS(gpumap_health, age_ns, epoch, generation, tick, agent_pid,
		   bytes),
	{ 0 },
};

static const struct gm_ctl_field cluster_fields[] = {
	CLUSTER("name", name),
	CLUSTER("node", node),
	CLUSTER("nodes", n_nodes),
	CLUSTER("gone", n_gone),
	CLUSTER("refused", n_refused),
	CLUSTER("stale", stale, GM_SET(1)),
	{ 0 },
};

void gm_ctl_status(struct gm_ctl *ctl)
{
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	uint32_t rows = gpumap_device_count(ctl->map), maps = 0, cursor = 0;
	int ret = gpumap_health(ctl->map, &health);
	bool has_cluster = gpumap_cluster_read(ctl->map, &cluster) == 0;
	char size[32], name[GPUMAP_NAME_MAX + 1];

	if (ret != 0)
		gm_ctl_fail(ctl, ret, "status");
	while (gpumap_layers_next(ctl->map, &cursor, name) == 1)
		maps++;
	if (ctl->json) {
		json_t *object = json_pack("{s:s}", "instance", ctl->instance);

		gm_ctl_fields_json(ctl, health_fields, &health, object);
		json_object_update_new(
			object,
			json_pack("{s:I, s:I, s:o}", "rows", (json_int_t)rows,
				  "maps", (json_int_t)maps, "cluster",
				  has_cluster ? gm_ctl_fields_json(
							ctl, cluster_fields,
							&cluster, NULL)
					      : json_null()));
		gm_ctl_print(object);
	} else {
		printf("instance    %s\n", ctl->instance);
		printf("state       %s%s\n", state_name(health.state),
		       health.stale ? ", STALE: the agent has not been seen; "
				      "is gpumapd running?"
				    : "");
		printf("heartbeat   %.1f s ago\n", (double)health.age_ns / 1e9);
		printf("agent       pid %u, epoch %llu\n", health.agent_pid,
		       (unsigned long long)health.epoch);
		printf("generation  %u\n", health.generation);
		printf("segment     %s\n", gm_size_text(health.bytes, size));
		printf("devices     %u\n", rows);
		printf("layer maps  %u\n", maps);
		if (has_cluster)
			printf("cluster     %s, this node is %s; %u nodes, %u "
			       "gone, %u refused%s\n",
			       cluster.name, cluster.node, cluster.n_nodes,
			       cluster.n_gone, cluster.n_refused,
			       cluster.stale
				       ? "; STALE: what they have now is not "
					 "known; is gpumap-sync running?"
				       : "");
	}
	if (health.state != GPUMAP_READY || health.stale)
		gm_ctl_exit(GM_EXIT_UNWELL);
}

/* ---- wait ---------------------------------------------------------------- */

static const struct gm_ctl_field wait_fields[] = {
	HEALTH("state", state, .word = state_name),
	GM_MEMBERS(gpumap_health, epoch, agent_pid),
	{ 0 },
};

static _Noreturn void timed_out(const struct gm_ctl *ctl, int error,
				const struct gpumap_health *health)
{
	bool serves = health->state == GPUMAP_READY && !health->stale;

	if (ctl->map == NULL)
		gm_ctl_not_attached(error);
	if (serves && error != -ETIME)
		gm_ctl_fail(ctl, error, "wait");
	gm_ctl_end(GM_EXIT_UNWELL,
		   "the agent does not serve after %llu s: %s%s%s",
		   (unsigned long long)GM_NUMBER(ctl, TIMEOUT),
		   serves ? gpumap_refusal(ctl->map) : "its map is ",
		   serves ? "" : state_name(health->state),
		   !serves && health->stale
			   ? ", and the agent has not been seen for two "
			     "seconds; is gpumapd running?"
			   : "");
}

void gm_ctl_wait(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = gm_ctl_where(ctl);
	const struct timespec nap = { .tv_nsec = GM_CLOCK_SECOND / 20 };
	uint64_t deadline_ns = UINT64_MAX;
	int ret;

	if (GM_GIVEN(ctl, TIMEOUT))
		deadline_ns = gm_clock_ns() +
			      gm_clock_of_seconds(GM_NUMBER(ctl, TIMEOUT));
	for (;;) {
		struct gpumap_health health = { .size = sizeof(health) };

		ret = gpumap_attach(&opts, &ctl->map);
		if (ret == 0)
			ret = gpumap_wait_ready(ctl->map, deadline_ns);
		if (ctl->map != NULL)
			gpumap_health(ctl->map, &health);
		if (ret == 0 && ctl->json)
			gm_ctl_print(gm_ctl_fields_json(
				ctl, wait_fields, &health,
				json_pack("{s:s}", "instance", ctl->instance)));
		if (ret == 0)
			return;
		/* A new agent will make the map, or has made another. */
		if ((ret != -ENOENT && ret != -ESTALE) ||
		    gm_clock_ns() >= deadline_ns)
			timed_out(ctl, ret, &health);
		gpumap_detach(ctl->map);
		ctl->map = NULL;
		nanosleep(&nap, NULL);
	}
}

/* ---- sessions ------------------------------------------------------------ */

#define SESSION(name, member, ...) \
	GM_FIELD(gpumap_session_info, name, member, __VA_ARGS__)

static const struct gm_ctl_field session_fields[] = {
	SESSION("id", id, GM_COLUMN("session", 8)),
	SESSION("pid", pid, GM_COLUMN("pid", 8)),
	SESSION("uid", uid),
	GM_FIELD_COMMAND(gpumap_session_info, NULL, uid, pid,
			 GM_COLUMN("command", -15)),
	GM_FIELD_USER(gpumap_session_info, NULL, uid, GM_COLUMN("user", -12)),
	SESSION("queues", n_queues, GM_COLUMN("queues", 6)),
	SESSION("depth", depth, GM_COLUMN("depth", 6)),
	SESSION("arena_bytes", arena_bytes, GM_COLUMN("arena", 10),
		.as = GM_AS_SIZE),
	SESSION("age_ns", age_ns, GM_COLUMN("age", 9), .as = GM_AS_AGE),
	GM_MEMBERS(gpumap_session_info, load_bytes, load_total_bytes, rows),
	GM_FIELD_USER(gpumap_session_info, "user", uid),
	GM_FIELD_COMMAND(gpumap_session_info, "command", uid, pid),
	{ 0 },
};

void gm_ctl_sessions(struct gm_ctl *ctl)
{
	struct gpumap_session_info *all = NULL;
	int n = gm_list_session(ctl->map, &all);

	gm_ctl_list_all(ctl, "sessions", session_fields, all, n, sizeof(*all));
}

/* ---- shares -------------------------------------------------------------- */

static const char *access_of(uint32_t flags)
{
	return (flags & GPUMAP_SHARE_READ_ONLY) != 0 ? "read-only"
						     : "read-write";
}

static void fingerprint(const struct gm_ctl *ctl, const void *share,
			char ret_text[GM_CTL_CELL])
{
	const struct gpumap_share_info *info = share;
	uint8_t any = 0;

	for (size_t i = 0; i < sizeof(info->fingerprint); i++) {
		any |= info->fingerprint[i];
		snprintf(ret_text + 2 * i, 3, "%02x", info->fingerprint[i]);
	}
	if (any == 0)
		ret_text[0] = '\0';
}

static void fingerprint_begin(const struct gm_ctl *ctl, const void *share,
			      char ret_text[GM_CTL_CELL])
{
	fingerprint(ctl, share, ret_text);
	ret_text[12] = '\0';
}

#define SHARE(name, member, ...) \
	GM_FIELD(gpumap_share_info, name, member, __VA_ARGS__)

static const struct gm_ctl_field share_fields[] = {
	SHARE("share", share),
	SHARE("name", name, GM_COLUMN("name", -24)),
	SHARE("uid", uid),
	GM_FIELD_USER(gpumap_share_info, NULL, uid, GM_COLUMN("user", -12)),
	SHARE("pid", pid, GM_COLUMN("pid", 8), .as = GM_AS_OR_NULL),
	GM_FIELD_COMMAND(gpumap_share_info, NULL, uid, pid,
			 GM_COLUMN("command", -15)),
	SHARE("access", flags, GM_COLUMN("access", -10), .word = access_of),
	SHARE("any_user", flags, GM_SET(GPUMAP_SHARE_ANY_USER)),
	SHARE("kept", flags, GM_COLUMN("kept", -4), GM_SET(GPUMAP_SHARE_KEEP)),
	SHARE("buffers", n_buffers, GM_COLUMN("buffers", 7)),
	SHARE("holders", n_holders, GM_COLUMN("holders", 7)),
	SHARE("bytes", bytes, GM_COLUMN("size", 10), .as = GM_AS_SIZE),
	SHARE("about_bytes", about_bytes),
	SHARE("age_ns", age_ns, GM_COLUMN("age", 9), .as = GM_AS_AGE),
	SHARE("fingerprint", fingerprint, .text = fingerprint),
	SHARE(NULL, fingerprint, GM_COLUMN(" fingerprint", 0),
	      .text = fingerprint_begin),
	SHARE("rows", rows),
	GM_FIELD_USER(gpumap_share_info, "user", uid),
	GM_FIELD_COMMAND(gpumap_share_info, "command", uid, pid),
	{ 0 },
};

void gm_ctl_shares(struct gm_ctl *ctl)
{
	struct gpumap_share_info *all = NULL;
	int n = gm_list_share(ctl->map, &all);

	gm_ctl_list_all(ctl, "shares", share_fields, all, n, sizeof(*all));
}

void gm_ctl_shares_release(struct gm_ctl *ctl)
{
	const char *name = ctl->args[0];
	struct gm_progress progress = { .look = NULL };
	int ret;

	gm_progress_begin(&progress, ctl, "release", name, "names", 1);
	ret = gpumap_share_release(ctl->map, name);
	gm_progress_end(&progress, ret == 0);
	if (ret != 0 || ctl->json)
		gm_ctl_released(ctl, ret, "share", "shares");
	else
		printf("released \"%s\"\n", name);
}
