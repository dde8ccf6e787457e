/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The summary of a node, read from the map of an agent: rows in their order,
 * shares with a fingerprint first, and what changes count.
 */

#include "agent/sync/summary_read.h"

#include "tests/support/share_sessions.h"

#define DUMMIES 70

static const char node[] =
	"name: many\n"
	"rows:\n"
	"- { name: H100, kind: cuda, count: 70, memory: 80G, free: 79G,\n"
	"    compute-capability: 9.0 }\n";

static struct gm_summary summary = {
	.node = { .name = "a",
		  .address = "a",
		  .flags = GPUMAP_CLUSTER_NO_GANGS },
	.instance = "0123456789abcdef",
	.boot = "01234567-89ab-cdef-0123-456789abcdef",
};

static void read_all(void)
{
	EQ(gm_summary_read_rows(map, &summary), 0);
	EQ(gm_summary_read_shares(map, &summary), 0);
}

/* Other nodes take it, and see the same.  Returns what they have. */
static struct gm_summary pass_on(void)
{
	static char value[GM_STORE_VALUE_BYTES];
	struct gm_summary other = { 0 };
	char why[GM_WHY_BYTES] = "";
	int n = gm_summary_encode(&summary, value);

	OK(n > 0);
	if (!EQ(gm_summary_decode(value, (size_t)n, "a", &other, why), 0))
		NOTE("%s", why);
	return other;
}

static void the_rows_are_read(void)
{
	struct gpumap_health health = { .size = sizeof(health) };
	const struct gpumap_cluster_node *n = &summary.node;
	uint32_t hosts = 0;

	EQ(gpumap_health(map, &health), 0);
	read_all();
	EQ(n->epoch, health.epoch);
	EQ(n->agent_version, GPUMAP_VERSION);
	EQ(n->flags, GPUMAP_CLUSTER_NO_GANGS);
	STR(n->name, "a");
	EQ(n->n_devices, GPUMAP_CLUSTER_ROWS_MAX);
	EQ(n->n_devices + n->more_devices, gpumap_device_count(map));
	while (summary.devices[hosts].kind == GPUMAP_DEVICE_HOST)
		hosts++;
	OK(hosts >= 1);
	for (uint32_t i = 0; i < n->n_devices; i++) {
		const struct gpumap_cluster_device *d = &summary.devices[i];
		struct gpumap_device want = story_device(map, d->row);

		EQ(d->kind,
		   i < hosts ? GPUMAP_DEVICE_HOST : GPUMAP_DEVICE_DUMMY);
		OK(memcmp(d->uuid, want.uuid, sizeof(d->uuid)) == 0);
		STR(d->name, want.name);
		EQ(d->cc_major, want.cc_major);
		OK(d->total_bytes == want.total_bytes);
		OK(i == 0 || i == hosts || d->row > d[-1].row);
	}
}

static void others_see_the_same(void)
{
	struct gm_summary other = pass_on();

	OK(other.node.n_devices > 40);
	OK(memcmp(other.devices, summary.devices,
		  other.node.n_devices * sizeof(*other.devices)) == 0);
	gm_summary_free(&other);
}

/* The kind of a difference that a change of the map makes. */
static enum gm_summary_difference change(void)
{
	struct gm_summary before = summary;
	enum gm_summary_difference by;

	summary.devices = NULL;
	summary.shares = NULL;
	read_all();
	by = gm_summary_compare(&before, &summary);
	gm_summary_free(&before);
	return by;
}

static void a_cordon_is_a_fact(void)
{
	EQ(gpumap_device_cordon(map, 0), 0);
	EQ(change(), GM_SUMMARY_FACTS);
	OK((summary.devices[0].flags & GPUMAP_DEVICE_CORDONED) != 0);
	EQ(gpumap_device_uncordon(map, 0), 0);
	EQ(change(), GM_SUMMARY_FACTS);
}

static void shares_are_read(void)
{
	struct gpumap_session *session = session_open(map);
	struct gpumap_fingerprint print = { .size = sizeof(print),
					    .hash = { 1, 2, 3 } };
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = "model",
						.n_buffers = 1,
						.fingerprint = &print };
	uint64_t buffers[2], shares[2];

	EQ(make(session, 0, 1, &buffers[0]), 0);
	EQ(make(session, 0, 2, &buffers[1]), 0);
	EQ(share(session, "plain", &buffers[0], 1, 0, &shares[0]), 0);
	request.buffers = &buffers[1];
	EQ(gpumap_share_publish(session, &request, &shares[1]), 0);
	EQ(change(), GM_SUMMARY_FACTS);
	if (EQ(summary.node.n_shares, 2)) {
		const struct gpumap_cluster_share *s = summary.shares;

		STR(s[0].name, "model");
		OK(memcmp(s[0].fingerprint, print.hash, 32) == 0);
		OK(s[0].bytes == BYTES && s[0].rows[0] == 1);
		EQ(s[0].uid, getuid());
		STR(s[1].name, "plain");
		EQ(s[1].fingerprint[0], 0);
	}
	EQ(summary.node.more_shares, 0);
	EQ(gpumap_share_close(session, shares[1]), 0);
	EQ(change(), GM_SUMMARY_FACTS);
	EQ(summary.node.n_shares, 1);
	gpumap_session_close(session);
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, node, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	the_rows_are_read();
	others_see_the_same();
	a_cordon_is_a_fact();
	shares_are_read();
	gm_summary_free(&summary);
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
