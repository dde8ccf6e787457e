/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Checks what gpumapctl doctor says of a cluster: each fault by its own
 * check. */

#include "tests/support/sysfs_tree.h"
#include "tests/unit/doctor/examine.h"

#define SECOND_NS UINT64_C(1000000000)
#define SOCKET    "run/gpumap-sync/node"

static struct gpumap_cluster_node nodes[6]; /* three, or a crowd */
static struct gm_doctor doctor = { .root = tree.root, .nodes = nodes };
static struct examined well;

static void make_well(void)
{
	memset(nodes, 0, sizeof(nodes));
	for (uint32_t i = 0; i < 3; i++) {
		nodes[i] = (struct gpumap_cluster_node){
			.name = { (char)('a' + i) },
			.state = GPUMAP_CLUSTER_LIVE,
			.flags = i == 1 ? GPUMAP_CLUSTER_SELF : 0,
			.agent_version = GPUMAP_VERSION,
			.age_ns = 100 * SECOND_NS,
			.n_devices = 64,
		};
	}
	/* None of this is a fault. */
	nodes[0].flags = GPUMAP_CLUSTER_NO_GANGS;
	nodes[2].flags = GPUMAP_CLUSTER_DRAINING;
	doctor.n_nodes = 3;
	doctor.cluster = (struct gpumap_cluster){
		.size = sizeof(doctor.cluster),
		.name = "c",
		.node = "b",
		.age_ns = 6 * SECOND_NS,
		.limit_ns = 6 * SECOND_NS,
		.n_nodes = 3,
	};
	doctor.health.agent_version = GPUMAP_VERSION;
	/* No check of a cluster looks into the map. */
	doctor.map = (struct gpumap *)(uintptr_t)nodes;
}

static bool is(const char *id, enum gm_verdict verdict, const char *text,
	       const char *remedy)
{
	bool ret = OK(breaks(&well, &doctor, id, verdict, text, remedy));

	make_well();
	return ret;
}

static void an_old_one(void)
{
	doctor.cluster.stale = 1;
	doctor.cluster.age_ns = 7 * SECOND_NS;
	is("cluster.age", GM_VERDICT_FAIL,
	   "7 s ago, the limit is 6 s: gpumap-sync runs", "journalctl");
	doctor.cluster.stale = 1;
	doctor.cluster.age_ns = UINT64_MAX;
	is("cluster.age", GM_VERDICT_FAIL, "never seen as a whole",
	   "journalctl");
	tree_unlink(SOCKET);
	is("cluster.age", GM_VERDICT_PASS, "cluster c", "");
	doctor.cluster.stale = 1;
	is("cluster.age", GM_VERDICT_FAIL, "does not run, or not at /run/",
	   "systemctl start gpumap-sync");
	tree_file(SOCKET, "");
}

static void this_node(void)
{
	nodes[1].flags = 0;
	is("cluster.self", GM_VERDICT_FAIL, "do not see this one, b",
	   "gpumap-sync.conf");
	nodes[1].state = GPUMAP_CLUSTER_GONE;
	is("cluster.self", GM_VERDICT_FAIL, "as gone or refused", "journalctl");
	nodes[1].state = GPUMAP_CLUSTER_REFUSED;
	is("cluster.self", GM_VERDICT_FAIL, "as gone or refused", "journalctl");
}

static void other_nodes(void)
{
	nodes[0].state = nodes[2].state = GPUMAP_CLUSTER_GONE;
	is("cluster.gone", GM_VERDICT_WARN,
	   "2 of 3 nodes gone: a (for 100 s), c (for 100 s)",
	   "systemctl status gpumap-sync");
	nodes[0].state = GPUMAP_CLUSTER_REFUSED;
	is("cluster.refused", GM_VERDICT_WARN, "1 of 3 nodes refused: a",
	   "one release");
	nodes[2].more_devices = 3;
	is("cluster.left_out", GM_VERDICT_WARN,
	   "1 of 3 nodes with more than they tell of: c (3 rows", "64");
	nodes[1].more_shares = 1;
	is("cluster.left_out", GM_VERDICT_WARN, "b (0 rows, 1 share)", "64");
	nodes[0].agent_version = 10203;
	is("cluster.version", GM_VERDICT_WARN, "a (1.2.3)", "one release");
	/* One that has been refused or is gone says nothing of its version. */
	nodes[0].state = GPUMAP_CLUSTER_GONE;
	nodes[0].agent_version = 0;
	is("cluster.gone", GM_VERDICT_WARN, "1 of 3 nodes gone", "network");
}

static void without(void)
{
	struct gm_doctor none = { .root = tree.root };

	for (size_t i = 0; i < well.n; i++)
		EQ(look(&well.table[i], &none).verdict, GM_VERDICT_SKIP);
	/* gpumap-sync runs beside an agent, and publishes nothing. */
	none.map = doctor.map;
	EQ(look(&gm_doctor_cluster[0], &none).verdict, GM_VERDICT_FAIL);
	tree_unlink(SOCKET);
	EQ(look(&gm_doctor_cluster[0], &none).verdict, GM_VERDICT_SKIP);
	tree_file(SOCKET, "");
}

/* A long list is cut, and counts all the same. */
static void many(void)
{
	struct gm_finding f;

	doctor.n_nodes = 6;
	for (uint32_t i = 0; i < 6; i++) {
		nodes[i].flags = 0;
		nodes[i].state = GPUMAP_CLUSTER_GONE;
		memset(nodes[i].name, 'x', sizeof(nodes[i].name) - 1);
	}
	f = look(&gm_doctor_cluster[2], &doctor);
	OK(strncmp(f.text, "6 of 6 nodes gone: xxx", 22) == 0);
	OK(strlen(f.text) < 320);
	make_well();
}

TAP_CASE()
{
	if (!tree_begin())
		return tap_done();
	tree_file(SOCKET, "");
	make_well();
	well = examine(gm_doctor_cluster, &doctor);
	EQ(well.n, 6);
	for (size_t i = 0; i < well.n; i++)
		if (!EQ(well.verdicts[i], GM_VERDICT_PASS))
			NOTE("%s", well.table[i].id);
	an_old_one();
	this_node();
	other_nodes();
	without();
	many();
	tree_end();
	return tap_done();
}
