/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Records about nodes that no library would send: cut anywhere, with numbers
 * that lie, texts without end, and bits that are flipped.  Each is refused, or
 * means something that the next agent believes too; what was published stays
 * until then.
 */

#include <errno.h>

#include "shm/cluster.h"
#include "shm/control_cluster.h"
#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/dice.h"
#include "tests/support/raw.h"
#include "tests/support/story.h"

#define N_DEVICES 2u
#define N_SHARES  2u

static struct agent agent;
static struct gpumap *map;
static struct raw raw;

/* A node as it goes over the socket, with room for lies. */
struct tail {
	struct gm_cluster_node_image node;
	struct gm_cluster_device_image devices[N_DEVICES];
	struct gm_cluster_share_image shares[N_SHARES];
	uint64_t more[8];
};

#define TAIL_BYTES ((uint32_t)offsetof(struct tail, more))

static struct tail good_tail(void)
{
	struct tail t = { .node = { .name = "h",
				    .address = "a",
				    .state = GPUMAP_CLUSTER_LIVE,
				    .n_devices = N_DEVICES,
				    .n_shares = N_SHARES } };

	for (uint32_t i = 0; i < N_DEVICES; i++) {
		t.devices[i].row = i;
		t.devices[i].kind = GPUMAP_DEVICE_HOST;
		t.devices[i].state = GPUMAP_DEVICE_READY;
		strcpy(t.devices[i].name, "d");
	}
	for (uint32_t i = 0; i < N_SHARES; i++)
		strcpy(t.shares[i].name, "s");
	return t;
}

static struct gm_cluster_publish good_body(void)
{
	return (struct gm_cluster_publish){ .cluster = "c",
					    .node = "h",
					    .limit_ns = 1000000000,
					    .n_entries = 1,
					    .flags = GPUMAP_CLUSTER_BEGIN };
}

static bool connect_raw(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	return raw_open(&raw, path) == 0;
}

static int send_tail(const struct gm_cluster_publish *body, const void *tail,
		     uint32_t bytes)
{
	return raw_ask_tail(&raw, GM_CONTROL_CLUSTER, body, sizeof(*body), tail,
			    bytes);
}

static void refused(const struct gm_cluster_publish *body,
		    const struct tail *tail, uint32_t bytes, const char *what)
{
	int ret = send_tail(body, tail, bytes);

	if (!tap_check(ret == -EINVAL && raw.refusal[0] != '\0', what, __FILE__,
		       __LINE__))
		NOTE("%d: %s", ret, raw.refusal);
}

static void a_good_one_is_accepted(void)
{
	const struct gm_cluster_publish body = good_body();
	const struct tail tail = good_tail();
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };

	EQ(send_tail(&body, &tail, TAIL_BYTES), 0);
	EQ(gpumap_cluster_read(map, &cluster), 0);
	OK(cluster.n_nodes == 1 && cluster.n_devices == N_DEVICES &&
	   cluster.n_shares == N_SHARES);
}

static void it_is_cut_anywhere(void)
{
	const struct gm_cluster_publish body = good_body();
	const struct tail tail = good_tail();
	uint32_t n = 0, wrong = 0;

	for (uint32_t bytes = 0; bytes < sizeof(tail); bytes += 4, n++)
		if (bytes != TAIL_BYTES)
			wrong += send_tail(&body, &tail, bytes) != -EINVAL;
	OK(n > 100);
	EQ(wrong, 0);
}

static void numbers_lie(void)
{
	struct gm_cluster_publish body = good_body();
	struct tail tail = good_tail();

	body.n_entries = 2;
	refused(&body, &tail, TAIL_BYTES, "one node for two");
	body.n_entries = 0;
	refused(&body, &tail, TAIL_BYTES, "one node for none");
	body.flags = GPUMAP_CLUSTER_HEARD;
	refused(&body, &tail, TAIL_BYTES, "one node, and only a time to store");
	EQ(send_tail(&body, NULL, 0), 0);
	body.n_entries = UINT32_MAX;
	EQ(send_tail(&body, &tail, TAIL_BYTES), -E2BIG);
	body = good_body();
	body.limit_ns = UINT64_MAX;
	refused(&body, &tail, TAIL_BYTES, "a limit without end");
	body = good_body();
	tail.node.n_devices = UINT32_MAX;
	refused(&body, &tail, TAIL_BYTES, "devices without end");
	tail.node.n_devices = GM_CLUSTER_ROWS + 1;
	refused(&body, &tail, TAIL_BYTES, "too many devices");
	tail.node.n_devices = GM_CLUSTER_ROWS;
	refused(&body, &tail, TAIL_BYTES, "devices that are not there");
	tail = good_tail();
	tail.node.n_shares = GM_CLUSTER_SHARES;
	refused(&body, &tail, TAIL_BYTES, "shares that are not there");
	tail = good_tail();
	tail.node.first_device = 1;
	refused(&body, &tail, TAIL_BYTES, "a place among the devices");
	tail = good_tail();
	tail.node.first_share = 1;
	refused(&body, &tail, TAIL_BYTES, "a place among the shares");
	tail = good_tail();
	tail.devices[0].node = 1;
	refused(&body, &tail, TAIL_BYTES, "a device of another node");
	tail = good_tail();
	tail.shares[0].node = 1;
	refused(&body, &tail, TAIL_BYTES, "a share of another node");
	tail = good_tail();
	tail.node.since = UINT64_MAX;
	refused(&body, &tail, TAIL_BYTES, "an age without end");
	tail = good_tail();
	tail.node.state = 0;
	refused(&body, &tail, TAIL_BYTES, "devices of a node that goes");
}

static void texts_have_no_end(void)
{
	struct gm_cluster_publish body = good_body();
	struct tail tail = good_tail();

	memset(body.cluster, 'x', sizeof(body.cluster));
	refused(&body, &tail, TAIL_BYTES, "the cluster's");
	body = good_body();
	body.node[63] = 'x';
	refused(&body, &tail, TAIL_BYTES, "the node's, padded with text");
	body = good_body();
	memset(tail.node.name, 'x', sizeof(tail.node.name));
	refused(&body, &tail, TAIL_BYTES, "a node's");
	tail = good_tail();
	tail.node.address[62] = 'x';
	refused(&body, &tail, TAIL_BYTES, "an address, padded with text");
	tail = good_tail();
	memset(tail.devices[1].name, 'x', sizeof(tail.devices[1].name));
	refused(&body, &tail, TAIL_BYTES, "a device's");
	tail = good_tail();
	memset(tail.shares[1].name, 'x', sizeof(tail.shares[1].name));
	refused(&body, &tail, TAIL_BYTES, "a share's");
	tail = good_tail();
	tail.devices[1].name[0] = (char)0xff;
	refused(&body, &tail, TAIL_BYTES, "no UTF-8");
}

/* The records are small, so bits of each part are hit often. */
static void bits_are_flipped(void)
{
	uint32_t taken = 0, turned = 0, other = 0;

	dice_state = 20261128;
	for (int i = 0; i < 3000; i++) {
		struct gm_cluster_publish body = good_body();
		struct tail tail = good_tail();

		for (uint64_t k = dice(3) + 1; k > 0; k--) {
			uint64_t at = dice(TAIL_BYTES + sizeof(body));
			unsigned char *byte =
				at < TAIL_BYTES ? (unsigned char *)&tail + at
						: (unsigned char *)&body +
							  (at - TAIL_BYTES);

			*byte ^= (unsigned char)(1u << dice(8));
		}
		switch (send_tail(&body, &tail, TAIL_BYTES)) {
		case 0:
			taken++;
			break;
		case -EINVAL:
		case -E2BIG:
		case -ESTALE:
			turned++;
			break;
		default:
			other++;
		}
	}
	NOTE("%u taken, %u refused", taken, turned);
	OK(taken > 0 && turned > 0);
	EQ(other, 0);
}

/* Whatever was accepted is right for the next agent. */
static void the_next_agent_believes_it(void)
{
	struct gpumap_cluster before = { .size = sizeof(before) };
	struct gpumap_cluster after = { .size = sizeof(after) };
	int ret = gpumap_cluster_read(map, &before);

	raw_close(&raw);
	gpumap_detach(map);
	agent_kill(&agent, SIGKILL);
	OK(agent_start_until(&agent, "open"));
	EQ(agent_count_log(&agent, "segment_retired"), 0);
	map = story_attach(&agent);
	EQ(gpumap_cluster_read(map, &after), ret);
	EQ(after.version, (intmax_t)before.version);
}

/* Its end in the middle leaves nothing that the next one would continue. */
static void a_series_ends_with_its_connection(void)
{
	struct gm_cluster_publish body = good_body();
	const struct tail tail = good_tail();
	struct gpumap_cluster before = { .size = sizeof(before) };
	struct gpumap_cluster after = { .size = sizeof(after) };

	EQ(gpumap_cluster_read(map, &before), 0);
	for (int i = 0; i < 100; i++) {
		body.flags = GPUMAP_CLUSTER_BEGIN | GPUMAP_CLUSTER_MORE;
		EQ(send_tail(&body, &tail, TAIL_BYTES), 0);
		raw_close(&raw);
		OK(connect_raw());
		body.flags = GPUMAP_CLUSTER_HEARD;
		EQ(send_tail(&body, &tail, TAIL_BYTES), -ESTALE);
	}
	EQ(gpumap_cluster_read(map, &after), 0);
	EQ(after.version, (intmax_t)before.version);
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	raw_init(&raw);
	if (!agent_start_until(&agent, "open") ||
	    (map = story_attach(&agent)) == NULL || !connect_raw()) {
		OK(!"the agent starts");
		return tap_done();
	}
	a_good_one_is_accepted();
	it_is_cut_anywhere();
	numbers_lie();
	texts_have_no_end();
	a_series_ends_with_its_connection();
	bits_are_flipped();
	the_next_agent_believes_it();
	story_finish(&agent, map);
	return tap_done();
}
