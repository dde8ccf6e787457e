/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The nodes of a cluster: published in portions and by changes, refused in
 * words, read one by one, stale by age, there again after the agent, and
 * unknown to a new one until all are sent.
 */

#include <errno.h>
#include <sys/wait.h>

#include "shm/device_kinds.h"
#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/story.h"
#include "tests/support/users.h"

#define SYNC  65534 /* of a user that each machine has */
#define OTHER 54332

static struct agent agent;
static struct gpumap *map;

/* Until its row is READY: from then on the generation stands still. */
static bool start(void)
{
	if (!agent_start(&agent))
		return false;
	map = story_attach(&agent);
	return map != NULL;
}

static struct gpumap_cluster read_cluster(void)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };

	if (gpumap_cluster_read(map, &cluster) != 0)
		memset(&cluster, 0, sizeof(cluster));
	return cluster;
}

static int ask(const struct gpumap_cluster_entry *entries, uint32_t n,
	       uint32_t flags)
{
	struct gpumap_cluster_request request =
		cluster_request(entries, n, flags);

	return gpumap_cluster_publish(map, &request);
}

/* ---- what is published --------------------------------------------------- */

static void a_node_alone_is_in_no_cluster(void)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	struct gpumap_cluster_device device = { .size = sizeof(device) };
	struct gpumap_cluster_share share = { .size = sizeof(share) };
	uint32_t cursor = 0;

	EQ(gpumap_cluster_read(map, &cluster), -ENOENT);
	EQ(gpumap_cluster_next_node(map, &cursor, &node), -ENOENT);
	EQ(gpumap_cluster_next_device(map, GPUMAP_CLUSTER_ANY, &cursor,
				      &device),
	   -ENOENT);
	EQ(gpumap_cluster_next_share(map, GPUMAP_CLUSTER_ANY, NULL, &cursor,
				     &share),
	   -ENOENT);
	EQ(ask(NULL, 0, 0), -ESTALE);
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), -ESTALE);
	OK(strstr(gpumap_refusal(map), "GPUMAP_CLUSTER_BEGIN") != NULL);
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_BEGIN), 0);
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), 0);
	EQ(gpumap_cluster_read(map, &cluster), -ENOENT);
}

static void nodes_are_what_was_sent(void)
{
	static const struct cluster_nodes few = { 3, 2, 1, 7 };
	static const struct cluster_nodes many = { 200, 8, 4, 8 };
	struct gpumap_cluster before, after;

	EQ(cluster_nodes_publish(map, &few, 0), 0);
	EQ(cluster_nodes_check(map, &few), 0);
	before = read_cluster();
	OK(before.version > 0 && before.published_ns > 0);
	OK(before.stale == 1 && before.age_ns == UINT64_MAX);
	EQ(cluster_nodes_publish(map, &many, GPUMAP_CLUSTER_HEARD), 0);
	EQ(cluster_nodes_check(map, &many), 0);
	after = read_cluster();
	OK(after.version > before.version);
	OK(after.stale == 0 && after.age_ns < after.limit_ns);
	EQ(after.limit_ns, 6000000000);
}

/* A change comes, and every node that it does not name stays. */
static void changes_are_published_alone(void)
{
	static const struct cluster_nodes few = { 3, 2, 1, 9 };
	static const struct cluster_nodes other = { 3, 2, 1, 10 };
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	struct gpumap_cluster_device device = { .size = sizeof(device) };
	struct gpumap_cluster_share share = { .size = sizeof(share) };
	struct gpumap_cluster_entry entry;
	struct cluster_node made = { .node = { .size = 0 } };
	uint32_t cursor = 1;

	EQ(cluster_nodes_publish(map, &few, GPUMAP_CLUSTER_HEARD), 0);
	entry = cluster_node_make(&other, 1, &made);
	made.node.state = GPUMAP_CLUSTER_GONE;
	made.node.age_ns = UINT64_C(5000000000);
	EQ(ask(&entry, 1, 0), 0);
	EQ(gpumap_cluster_next_node(map, &cursor, &node), 1);
	STR(node.name, "n0001");
	EQ(node.state, GPUMAP_CLUSTER_GONE);
	OK(node.age_ns >= made.node.age_ns &&
	   node.age_ns < made.node.age_ns + STORY_LIMIT_NS);
	EQ(read_cluster().n_gone, 1);

	cursor = 1;
	EQ(gpumap_cluster_next_device(map, 1, &cursor, &device), 1);
	OK(device.node == 1 && device.row == 1 && device.free_bytes == 10);
	EQ(gpumap_cluster_next_device(map, 1, &cursor, &device), 0);
	cursor = 0;
	EQ(gpumap_cluster_next_device(map, 2, &cursor, &device), 1);
	OK(device.node == 2 && device.row == 0 && device.free_bytes == 9);
	cursor = 0;
	EQ(gpumap_cluster_next_device(map, 3, &cursor, &device), -ERANGE);
	EQ(gpumap_cluster_next_share(map, 3, NULL, &cursor, &share), -ERANGE);
	EQ(gpumap_cluster_next_share(map, 1, "share0", &cursor, &share), 1);
	OK(share.node == 1 && share.uid == 1);
	EQ(gpumap_cluster_next_share(map, 1, "share0", &cursor, &share), 0);
	cursor = 0;
	EQ(gpumap_cluster_next_share(map, GPUMAP_CLUSTER_ANY, "share1", &cursor,
				     &share),
	   0);
	EQ(gpumap_cluster_next_share(map, GPUMAP_CLUSTER_ANY, "", &cursor,
				     &share),
	   -EINVAL);

	entry.remove = 1;
	EQ(ask(&entry, 1, 0), 0);
	EQ(ask(&entry, 1, 0), 0); /* it is gone already */
	EQ(read_cluster().n_nodes, 2);
	entry = cluster_node_make(&few, 1, &made);
	EQ(ask(&entry, 1, 0), 0);
	EQ(cluster_nodes_check(map, &few), 0);
}

/* Readers see nothing of a series before its end, and nothing of one that does
 * not end. */
static void a_series_is_seen_as_a_whole(void)
{
	static const struct cluster_nodes few = { 3, 2, 1, 11 };
	static const struct cluster_nodes other = { 2, 1, 1, 12 };
	struct gpumap_cluster_entry entries[2];
	struct cluster_node made[2] = { { .node = { .size = 0 } } };

	EQ(cluster_nodes_publish(map, &few, 0), 0);
	for (uint32_t i = 0; i < 2; i++)
		entries[i] = cluster_node_make(&other, i, &made[i]);
	EQ(ask(&entries[0], 1, GPUMAP_CLUSTER_BEGIN | GPUMAP_CLUSTER_MORE), 0);
	EQ(cluster_nodes_check(map, &few), 0);
	EQ(ask(&entries[1], 1, GPUMAP_CLUSTER_MORE), 0);
	EQ(cluster_nodes_check(map, &few), 0);
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), 0);
	EQ(cluster_nodes_check(map, &other), 0);
}

/* The word is stored in place: no reader wakes, and no version changes. */
static void being_heard_publishes_nothing(void)
{
	struct gpumap_cluster before = read_cluster(), after;
	uint32_t generation = gpumap_generation(map);
	uint64_t since;

	while (read_cluster().age_ns < 20000000)
		story_nap(1000);
	since = story_now();
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), 0);
	after = read_cluster();
	OK(after.age_ns <= story_now() - since);
	EQ(after.version, (intmax_t)before.version);
	EQ(gpumap_generation(map), generation);
}

static void an_old_cluster_is_stale(void)
{
	struct gpumap_cluster_request request =
		cluster_request(NULL, 0, GPUMAP_CLUSTER_HEARD);

	request.limit_ns = UINT64_C(600000000000);
	EQ(gpumap_cluster_publish(map, &request), 0);
	EQ(read_cluster().stale, 0);
	request.flags = 0;
	while (read_cluster().age_ns < 20000000)
		story_nap(1000);
	EQ(gpumap_cluster_publish(map, &request), 0);
	OK(read_cluster().age_ns >= 20000000);
	request.limit_ns = 1000;
	EQ(gpumap_cluster_publish(map, &request), 0);
	STORY_WAIT_WHILE(read_cluster().stale == 0);
	EQ(read_cluster().stale, 1);
}

/* Nothing was heard of the nodes of another cluster. */
static void another_cluster_begins_anew(void)
{
	static const struct cluster_nodes one = { 1, 1, 1, 13 };
	struct cluster_node made = { .node = { .size = 0 } };
	struct gpumap_cluster_entry entry = cluster_node_make(&one, 0, &made);
	struct gpumap_cluster_request request =
		cluster_request(&entry, 1, GPUMAP_CLUSTER_BEGIN);

	EQ(cluster_nodes_publish(map, &one, GPUMAP_CLUSTER_HEARD), 0);
	EQ(gpumap_cluster_publish(map, &request), 0);
	OK(read_cluster().age_ns != UINT64_MAX);
	request.name = "other";
	EQ(gpumap_cluster_publish(map, &request), 0);
	STR(read_cluster().name, "other");
	EQ(read_cluster().stale, 1);
	OK(read_cluster().age_ns == UINT64_MAX);
}

static void the_last_node_takes_the_object_along(void)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };

	EQ(ask(NULL, 0, GPUMAP_CLUSTER_BEGIN), 0);
	EQ(gpumap_cluster_read(map, &cluster), -ENOENT);
}

/* ---- refusals ------------------------------------------------------------ */

static const struct cluster_nodes two = { 2, 2, 2, 20 };

/* One thing is wrong with the second node of a request. */
struct wrong {
	const char *what;
	int error;
	void (*make)(struct gpumap_cluster_request *request,
		     struct gpumap_cluster_entry *entry,
		     struct cluster_node *node);
};

#define WRONG(name)                                              \
	static void name(struct gpumap_cluster_request *request, \
			 struct gpumap_cluster_entry *entry,     \
			 struct cluster_node *node)

WRONG(no_name)
{
	(void)entry;
	(void)node;
	request->name = NULL;
}

WRONG(blank_name)
{
	(void)entry;
	(void)node;
	request->name = "a b";
}

WRONG(no_node_name)
{
	(void)entry;
	(void)node;
	request->node = "";
}

WRONG(no_limit)
{
	(void)entry;
	(void)node;
	request->limit_ns = 0;
}

WRONG(other_flags)
{
	(void)entry;
	(void)node;
	request->flags |= 8;
}

WRONG(too_many_nodes)
{
	(void)entry;
	(void)node;
	request->n_entries = GPUMAP_CLUSTER_NODES_MAX + 1;
}

WRONG(no_entries)
{
	(void)entry;
	(void)node;
	request->entries = NULL;
}

WRONG(no_node)
{
	(void)request;
	(void)node;
	entry->node = NULL;
}

WRONG(no_devices)
{
	(void)request;
	(void)node;
	entry->devices = NULL;
}

WRONG(no_shares)
{
	(void)request;
	(void)node;
	entry->shares = NULL;
}

WRONG(removed_twice)
{
	(void)request;
	(void)node;
	entry->remove = 2;
}

WRONG(too_many_devices)
{
	(void)request;
	(void)node;
	entry->n_devices = GPUMAP_CLUSTER_ROWS_MAX + 1;
}

WRONG(too_many_shares)
{
	(void)request;
	(void)node;
	entry->n_shares = GPUMAP_CLUSTER_SHARES_MAX + 1;
}

WRONG(node_of_no_size)
{
	(void)request;
	(void)entry;
	node->node.size = 0;
}

WRONG(device_of_no_size)
{
	(void)request;
	(void)entry;
	node->devices[0].size = 0;
}

WRONG(endless_name)
{
	(void)request;
	(void)entry;
	memset(node->node.name, 'x', sizeof(node->node.name));
}

WRONG(nameless_node)
{
	(void)request;
	(void)entry;
	node->node.name[0] = '\0';
}

WRONG(blank_node)
{
	(void)request;
	(void)entry;
	node->node.name[1] = ' ';
}

WRONG(same_node)
{
	(void)request;
	(void)entry;
	strcpy(node->node.name, "n0000");
}

WRONG(odd_address)
{
	(void)request;
	(void)entry;
	node->node.address[1] = '\n';
}

WRONG(no_state)
{
	(void)request;
	(void)entry;
	node->node.state = 0;
}

WRONG(other_state)
{
	(void)request;
	(void)entry;
	node->node.state = GPUMAP_CLUSTER_REFUSED + 1;
}

WRONG(endless_age)
{
	(void)request;
	(void)entry;
	node->node.age_ns = UINT64_MAX;
}

WRONG(other_kind)
{
	(void)request;
	(void)entry;
	node->devices[1].kind = GM_DEVICE_KINDS;
}

WRONG(large_kind)
{
	(void)request;
	(void)entry;
	node->devices[1].kind = 65536 + 2;
}

WRONG(other_device_state)
{
	(void)request;
	(void)entry;
	node->devices[1].state = 0;
}

WRONG(other_row)
{
	(void)request;
	(void)entry;
	node->devices[1].row = GPUMAP_ROWS_MAX;
}

WRONG(same_row)
{
	(void)request;
	(void)entry;
	node->devices[1].row = 0;
}

WRONG(odd_device_name)
{
	(void)request;
	(void)entry;
	node->devices[1].name[0] = '\x1b';
}

WRONG(nameless_device)
{
	(void)request;
	(void)entry;
	node->devices[1].name[0] = '\0';
}

WRONG(nameless_share)
{
	(void)request;
	(void)entry;
	node->shares[1].name[0] = '\0';
}

WRONG(blank_share)
{
	(void)request;
	(void)entry;
	node->shares[1].name[2] = ' ';
}

static const struct wrong wrongs[] = {
	{ "no name", -EINVAL, no_name },
	{ "a name with a blank", -EINVAL, blank_name },
	{ "no name of the node", -EINVAL, no_node_name },
	{ "no limit", -EINVAL, no_limit },
	{ "a flag that is not known", -EINVAL, other_flags },
	{ "too many nodes", -E2BIG, too_many_nodes },
	{ "no entries", -EINVAL, no_entries },
	{ "no node", -EINVAL, no_node },
	{ "no devices", -EINVAL, no_devices },
	{ "no shares", -EINVAL, no_shares },
	{ "remove is 2", -EINVAL, removed_twice },
	{ "too many devices", -E2BIG, too_many_devices },
	{ "too many shares", -E2BIG, too_many_shares },
	{ "a node without size", -EINVAL, node_of_no_size },
	{ "a device without size", -EINVAL, device_of_no_size },
	{ "a name without end", -EINVAL, endless_name },
	{ "a node without name", -EINVAL, nameless_node },
	{ "a node's name with a blank", -EINVAL, blank_node },
	{ "one node twice", -EINVAL, same_node },
	{ "a new line in an address", -EINVAL, odd_address },
	{ "no state", -EINVAL, no_state },
	{ "another state", -EINVAL, other_state },
	{ "an age beyond 2^63", -EINVAL, endless_age },
	{ "another kind", -EINVAL, other_kind },
	{ "a kind beyond 16 bits", -EINVAL, large_kind },
	{ "another state of a device", -EINVAL, other_device_state },
	{ "a row that there is not", -EINVAL, other_row },
	{ "one row twice", -EINVAL, same_row },
	{ "an escape in a device's name", -EINVAL, odd_device_name },
	{ "a device without name", -EINVAL, nameless_device },
	{ "a share without name", -EINVAL, nameless_share },
	{ "a blank in a share's name", -EINVAL, blank_share },
};

static void refusals_leave_all_as_it_was(void)
{
	EQ(cluster_nodes_publish(map, &two, 0), 0);
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		struct gpumap_cluster_entry entries[2];
		struct gpumap_cluster_request request;
		struct cluster_node made[2] = { { .node = { .size = 0 } } };
		int ret;

		for (uint32_t k = 0; k < 2; k++)
			entries[k] = cluster_node_make(&two, k, &made[k]);
		made[0].node.epoch = 1; /* would be seen */
		request = cluster_request(entries, 2, 0);
		wrongs[i].make(&request, &entries[1], &made[1]);
		ret = gpumap_cluster_publish(map, &request);
		if (ret != wrongs[i].error)
			NOTE("%s: %d, %s", wrongs[i].what, ret,
			     gpumap_refusal(map));
		EQ(ret, wrongs[i].error);
		OK(gpumap_refusal(map)[0] != '\0');
		EQ(cluster_nodes_check(map, &two), 0);
	}
}

static void sizes_are_checked(void)
{
	struct gpumap_cluster cluster = { .size = 8 };
	struct gpumap_cluster_node node = { .size = SIZE_MAX };
	struct gpumap_cluster_device device = { .size = 8 };
	uint32_t cursor = 0;

	EQ(gpumap_cluster_read(map, &cluster), -EINVAL);
	EQ(gpumap_cluster_read(map, NULL), -EINVAL);
	EQ(gpumap_cluster_next_node(map, &cursor, &node), -E2BIG);
	EQ(gpumap_cluster_next_device(map, 0, &cursor, &device), -EINVAL);
	EQ(gpumap_cluster_next_share(map, 0, NULL, &cursor, NULL), -EINVAL);
	EQ(gpumap_cluster_publish(map, NULL), -EINVAL);
	EQ(cursor, 0);
}

static void another_name_needs_a_beginning(void)
{
	struct gpumap_cluster_request request =
		cluster_request(NULL, 0, GPUMAP_CLUSTER_HEARD);

	request.node = "n0001";
	EQ(gpumap_cluster_publish(map, &request), -EINVAL);
	OK(strstr(gpumap_refusal(map), "GPUMAP_CLUSTER_BEGIN") != NULL);
	EQ(cluster_nodes_check(map, &two), 0);
}

static void a_large_request_is_refused_at_once(void)
{
	static struct gpumap_cluster_entry entries[200];
	static struct cluster_node node;
	static const struct cluster_nodes large = { 1, 64, 64, 1 };

	for (uint32_t i = 0; i < 200; i++)
		entries[i] = cluster_node_make(&large, 0, &node);
	EQ(ask(entries, 200, GPUMAP_CLUSTER_BEGIN), -EMSGSIZE);
	OK(strstr(gpumap_refusal(map), "GPUMAP_CLUSTER_MORE") != NULL);
	EQ(cluster_nodes_check(map, &two), 0);
}

static void there_is_a_limit_of_nodes(void)
{
	static const struct cluster_nodes all = { GPUMAP_CLUSTER_NODES_MAX, 1,
						  0, 3 };
	static struct cluster_node made;
	struct gpumap_cluster_entry entry;

	EQ(cluster_nodes_publish(map, &all, 0), 0);
	entry = cluster_node_make(&all, GPUMAP_CLUSTER_NODES_MAX, &made);
	EQ(ask(&entry, 1, 0), -E2BIG);
	EQ(cluster_nodes_check(map, &all), 0);
	/* Where another goes there is room. */
	EQ(cluster_nodes_publish(map, &two, 0), 0);
}

/* 64 rows and shares of 1024 nodes take more than the segment has; what was
 * published stays, and so does the agent. */
static void a_full_segment_is_no_end(void)
{
	static const struct cluster_nodes vast = { GPUMAP_CLUSTER_NODES_MAX, 64,
						   64, 4 };
	static const struct cluster_nodes small = { 4, 1, 1, 5 };

	EQ(cluster_nodes_publish(map, &vast, GPUMAP_CLUSTER_HEARD), -ENOSPC);
	OK(strstr(gpumap_refusal(map), "size in [segment]") != NULL);
	EQ(cluster_nodes_check(map, &two), 0);
	EQ(read_cluster().stale, 1);
	/* Otherwise old nodes would pass for all that there are. */
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), -ENOSPC);
	EQ(read_cluster().stale, 1);
	EQ(cluster_nodes_publish(map, &small, GPUMAP_CLUSTER_HEARD), 0);
	EQ(cluster_nodes_check(map, &small), 0);
}

/* ---- users, processes, agents -------------------------------------------- */

static int publish_as(void)
{
	struct gpumap *mine = story_attach(&agent);

	return mine == NULL ? 100 : -cluster_nodes_publish(mine, &two, 0);
}

static int publish_map_as(void)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = "m",
						 .spec = "0:1" };
	struct gpumap *mine = story_attach(&agent);

	return mine == NULL ? 100 : -gpumap_layers_publish(mine, &request);
}

/* The limits of objects are not for this one, which belongs to the agent. */
static void only_some_users_may(void)
{
	if (getuid() != 0) {
		SKIP(4, "only root can be other users");
		return;
	}
	EQ(user_run(OTHER, publish_as), EPERM);
	EQ(user_run(SYNC, publish_as), 0);
	EQ(user_run(SYNC, publish_map_as), EDQUOT);
	EQ(user_run(0, publish_as), 0);
}

/* The one that began last publishes; the other is told to begin again. */
static void the_last_to_begin_publishes(void)
{
	EQ(cluster_nodes_publish(map, &two, 0), 0);
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), 0);
	EQ(user_run(0, publish_as), 0);
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), -ESTALE);
	EQ(cluster_nodes_publish(map, &two, 0), 0);
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), 0);
}

static int child_tries(void)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	struct gpumap_cluster_request request = cluster_request(NULL, 0, 0);

	if (gpumap_cluster_read(map, &cluster) != 0)
		return 1;
	return gpumap_cluster_publish(map, &request) == -EOWNERDEAD ? 0 : 2;
}

static void a_forked_child_reads_and_does_not_publish(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(child_tries());
	waitpid(child, &status, 0);
	EQ(status, 0);
}

static void it_cannot_be_pinned_or_released(void)
{
	EQ(gpumap_mesh_release(map, "cluster"), -ENOENT);
	EQ(gpumap_layers_release(map, "cluster"), -ENOENT);
	EQ(cluster_nodes_check(map, &two), 0);
}

/* Readers keep it, and see it age; a new agent knows nothing of what came
 * before. */
static void it_outlives_an_agent(int signal)
{
	struct gpumap_cluster before, after;
	struct gpumap_cluster_entry entry;
	struct cluster_node made = { .node = { .size = 0 } };

	EQ(cluster_nodes_publish(map, &two, GPUMAP_CLUSTER_HEARD), 0);
	before = read_cluster();
	agent_kill(&agent, signal);
	EQ(cluster_nodes_check(map, &two), 0);
	gpumap_detach(map);
	if (!start()) {
		OK(!"the next agent starts");
		return;
	}
	EQ(agent_count_log(&agent, "segment_retired"), 0);
	EQ(cluster_nodes_check(map, &two), 0);
	after = read_cluster();
	EQ(after.version, (intmax_t)before.version);
	OK(after.age_ns > before.age_ns);
	entry = cluster_node_make(&two, 1, &made);
	EQ(ask(&entry, 1, 0), -ESTALE);
	EQ(ask(NULL, 0, GPUMAP_CLUSTER_HEARD), -ESTALE);
	after = read_cluster();
	EQ(after.version, (intmax_t)before.version);
	/* Without being heard its age goes on. */
	EQ(cluster_nodes_publish(map, &two, 0), 0);
	after = read_cluster();
	OK(after.version > before.version && after.age_ns > before.age_ns &&
	   after.age_ns != UINT64_MAX);
}

TAP_CASE()
{
	char config[128];

	snprintf(config, sizeof(config),
		 "[socket]\nmode = 0666\n[limits]\nobjects-per-uid = 0\n"
		 "%s",
		 getuid() == 0 ? "[cluster]\nuser = nobody\n" : "");
	agent_make(&agent, config);
	if (!start()) {
		OK(!"the agent starts");
		return tap_done();
	}
	a_node_alone_is_in_no_cluster();
	nodes_are_what_was_sent();
	changes_are_published_alone();
	a_series_is_seen_as_a_whole();
	being_heard_publishes_nothing();
	an_old_cluster_is_stale();
	another_cluster_begins_anew();
	the_last_node_takes_the_object_along();
	refusals_leave_all_as_it_was();
	sizes_are_checked();
	another_name_needs_a_beginning();
	a_large_request_is_refused_at_once();
	there_is_a_limit_of_nodes();
	a_full_segment_is_no_end();
	only_some_users_may();
	the_last_to_begin_publishes();
	a_forked_child_reads_and_does_not_publish();
	it_cannot_be_pinned_or_released();
	it_outlives_an_agent(SIGTERM);
	it_outlives_an_agent(SIGKILL);
	story_finish(&agent, map);
	return tap_done();
}
