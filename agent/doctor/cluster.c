/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <inttypes.h>
#include <stdio.h>

#include "agent/doctor/doctor.h"

#define SOCKET "/run/gpumap-sync/node"
#define NS     UINT64_C(1000000000)

/* Is there something the matter with the node?  Then a word about it. */
typedef bool node_fault(const struct gm_doctor *d,
			const struct gpumap_cluster_node *node,
			char ret_word[96]);

/* List the nodes with this fault, "b (for 20 s), c (for 3 s)".  Returns how
 * many they are. */
static uint32_t list_nodes(const struct gm_doctor *d, node_fault *fault,
			   char *ret_list, size_t bytes)
{
	uint32_t n = 0;
	size_t at = 0;

	ret_list[0] = '\0';
	for (uint32_t i = 0; i < d->n_nodes; i++) {
		char word[96] = "";

		if (!fault(d, &d->nodes[i], word))
			continue;
		n++;
		if (at >= bytes)
			continue;
		at += (size_t)snprintf(ret_list + at, bytes - at,
				       word[0] != '\0' ? "%s%s (%s)" : "%s%s",
				       n > 1 ? ", " : "", d->nodes[i].name,
				       word);
	}
	return n;
}

/* Report on a fault of nodes, or @fine. */
static void look_at_nodes(const struct gm_doctor *d, struct gm_finding *f,
			  node_fault *fault, const char *fine,
			  const char *remedy, const char *text)
{
	char list[200];
	uint32_t n;

	if (d->cluster.size == 0) {
		gm_finding_skip(f, "this node is in no cluster");
		return;
	}
	n = list_nodes(d, fault, list, sizeof(list));
	if (n > 0)
		gm_finding_warn(f, remedy, "%u of %u nodes %s: %s", n,
				d->n_nodes, text, list);
	else
		gm_finding_pass(f, "%s", fine);
}

/* ---- this node ----------------------------------------------------------- */

static void look_at_age(const struct gm_doctor *d, struct gm_finding *f)
{
	const char *elsewhere = "does not run, or not at " SOCKET;
	bool runs = gm_doctor_exists(d, SOCKET);
	const char *remedy = runs ? "journalctl -u gpumap-sync says why it "
				    "does not reach the store"
				  : "systemctl start gpumap-sync";

	if (d->cluster.size == 0 && runs && d->map != NULL)
		gm_finding_fail(f, "journalctl -u gpumap-sync",
				"gpumap-sync runs, and has published nothing");
	else if (d->cluster.size == 0)
		gm_finding_skip(f, "this node is in no cluster");
	else if (d->cluster.stale == 0)
		gm_finding_pass(f, "cluster %s was seen as a whole %.1f s ago",
				d->cluster.name,
				(double)d->cluster.age_ns / NS);
	else if (d->cluster.age_ns == UINT64_MAX)
		gm_finding_fail(f, remedy,
				"cluster %s was never seen as a whole: "
				"gpumap-sync %s",
				d->cluster.name, runs ? "runs" : elsewhere);
	else
		gm_finding_fail(f, remedy,
				"cluster %s was seen as a whole %" PRIu64
				" s ago, the limit is %" PRIu64
				" s: gpumap-sync %s",
				d->cluster.name, d->cluster.age_ns / NS,
				d->cluster.limit_ns / NS,
				runs ? "runs" : elsewhere);
}

/* Without its own entry other nodes do not see it. */
static void look_at_self(const struct gm_doctor *d, struct gm_finding *f)
{
	const struct gpumap_cluster_node *self = NULL;

	for (uint32_t i = 0; i < d->n_nodes; i++)
		if ((d->nodes[i].flags & GPUMAP_CLUSTER_SELF) != 0)
			self = &d->nodes[i];
	if (d->cluster.size == 0)
		gm_finding_skip(f, "this node is in no cluster");
	else if (self == NULL)
		gm_finding_fail(f,
				"another machine may have the name: node in "
				"[cluster] of gpumap-sync.conf; journalctl -u "
				"gpumap-sync",
				"other nodes do not see this one, %s",
				d->cluster.node);
	else if (self->state != GPUMAP_CLUSTER_LIVE)
		gm_finding_fail(f, "journalctl -u gpumap-sync",
				"other nodes see this one, %s, as gone or "
				"refused",
				d->cluster.node);
	else
		gm_finding_pass(f, "other nodes see this one, %s",
				d->cluster.node);
}

/* ---- all nodes ----------------------------------------------------------- */

static bool is_gone(const struct gm_doctor *d,
		    const struct gpumap_cluster_node *node, char ret_word[96])
{
	snprintf(ret_word, 96, "for %" PRIu64 " s", node->age_ns / NS);
	return node->state == GPUMAP_CLUSTER_GONE &&
	       (node->flags & GPUMAP_CLUSTER_SELF) == 0;
}

static void look_at_gone(const struct gm_doctor *d, struct gm_finding *f)
{
	look_at_nodes(d, f, is_gone, "no node is gone",
		      "systemctl status gpumap-sync there, and the network to "
		      "the store",
		      "gone");
}

static bool is_refused(const struct gm_doctor *d,
		       const struct gpumap_cluster_node *node,
		       char ret_word[96])
{
	return node->state == GPUMAP_CLUSTER_REFUSED &&
	       (node->flags & GPUMAP_CLUSTER_SELF) == 0;
}

static void look_at_refused(const struct gm_doctor *d, struct gm_finding *f)
{
	look_at_nodes(d, f, is_refused, "each node was understood",
		      "journalctl -u gpumap-sync says why; install one release "
		      "everywhere",
		      "refused");
}

static bool leaves_out(const struct gm_doctor *d,
		       const struct gpumap_cluster_node *node,
		       char ret_word[96])
{
	snprintf(ret_word, 96, "%u row%s, %u share%s", node->more_devices,
		 node->more_devices == 1 ? "" : "s", node->more_shares,
		 node->more_shares == 1 ? "" : "s");
	return node->more_devices != 0 || node->more_shares != 0;
}

static void look_at_left_out(const struct gm_doctor *d, struct gm_finding *f)
{
	look_at_nodes(d, f, leaves_out, "each node tells of all that it has",
		      "a node tells of 64 rows and 64 shares, cards first: "
		      "fewer rows in its [host] and [dummy], or fewer shares",
		      "with more than they tell of");
}

static bool is_other(const struct gm_doctor *d,
		     const struct gpumap_cluster_node *node, char ret_word[96])
{
	snprintf(ret_word, 96, "%u.%u.%u", node->agent_version / 10000,
		 node->agent_version / 100 % 100, node->agent_version % 100);
	return node->state == GPUMAP_CLUSTER_LIVE &&
	       node->agent_version != d->health.agent_version;
}

static void look_at_versions(const struct gm_doctor *d, struct gm_finding *f)
{
	look_at_nodes(d, f, is_other, "all nodes run one version",
		      "install one release everywhere",
		      "of another version than this one");
}

const struct gm_check gm_doctor_cluster[] = {
	{ "cluster.age", look_at_age },
	{ "cluster.self", look_at_self },
	{ "cluster.gone", look_at_gone },
	{ "cluster.refused", look_at_refused },
	{ "cluster.left_out", look_at_left_out },
	{ "cluster.version", look_at_versions },
	{ NULL, NULL },
};
