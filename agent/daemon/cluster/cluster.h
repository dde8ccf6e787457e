/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster - publish what gpumap-sync tells of the nodes of a cluster.
 *
 * One connection publishes at a time, the one that began last: it sends all
 * nodes first, and changes from then on.  The object has no state file: it
 * stays in the segment when that connection or this agent ends, and readers
 * see its age.
 *
 * A request changes the agent's own copies, and the last one of a series
 * publishes them; one that only says that all is known stores its time in
 * place.  All are answered at once, whatever the disk does, except the first
 * publication: it has its turn among the changes of the directory
 * (map/transaction.h).
 */
#ifndef GM_DAEMON_CLUSTER_H
#define GM_DAEMON_CLUSTER_H

#include "agent/daemon/cluster/nodes.h"

struct gm_connection;
struct gm_daemon;
struct gm_request;

struct gm_cluster_copies {
	struct gm_connection *publisher; /* NULL: none */
	char cluster[GM_NAME_BYTES];     /* as it began */
	char node[GM_NAME_BYTES];
	struct gm_cluster_list list;
	bool is_changed; /* since it was published */
};

/* CLUSTER; for dispatch.c. */
int gm_cluster_handle(struct gm_connection *c, const struct gm_request *r);

/* Event; see base/events.h. */
void gm_cluster_connection_dropped(struct gm_connection *c);

/* Free the copies. */
void gm_cluster_exit(struct gm_daemon *d);

#endif
