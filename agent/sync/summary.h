/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * summary - what a node says of itself to the other nodes.
 *
 * The value of the node's key in the store is one JSON object of at most
 * GM_STORE_VALUE_BYTES.  Members that a reader does not know are ignored.
 * Rows come first, in their order, then shares; those that find no room are
 * counted.
 *
 *   - Another node wrote the value: gm_summary_decode() believes nothing.
 *   - A summary is all zeros before the first use, and its lists end with
 *     gm_summary_free().
 */
#ifndef GM_SUMMARY_H
#define GM_SUMMARY_H

#include <stddef.h>

#include "agent/common/refusal.h"
#include "agent/store/store.h"
#include "agent/sync/sync.h"
#include "gpumap/cluster.h"

struct gm_summary {
	/* Its @n_devices and @n_shares are those of the lists. */
	struct gpumap_cluster_node node;
	char instance[GM_SYNC_INSTANCE_BYTES]; /* of its gpumap-sync */
	char boot[GM_SYNC_BOOT_BYTES];
	struct gpumap_cluster_device *devices; /* NULL: none */
	struct gpumap_cluster_share *shares;
};

/* Free the lists; the summary has none then. */
void gm_summary_free(struct gm_summary *summary);

/*
 * gm_summary_encode - write the value of a node's key
 *
 * Returns	its bytes, without a NUL, or -ENOMEM
 * Threads	any
 */
int gm_summary_encode(const struct gm_summary *summary,
		      char ret_value[GM_STORE_VALUE_BYTES]);

/*
 * gm_summary_decode - check the value of a node's key, and read it
 *
 * name		of the node: the value must be its own
 * ret_summary	its lists are new, and node.state is GPUMAP_CLUSTER_LIVE
 * ret_why	what is wrong with the value: one printable line
 *
 * Returns	0
 *		-EPROTO		the value is refused
 *		-ENOMEM
 * Threads	any
 */
int gm_summary_decode(const void *value, size_t bytes, const char *name,
		      struct gm_summary *ret_summary,
		      char ret_why[GM_WHY_BYTES]);

enum gm_summary_difference {
	GM_SUMMARY_SAME = 0,
	GM_SUMMARY_FIGURES, /* bytes that are free or used have moved */
	GM_SUMMARY_FACTS    /* anything else has changed */
};

/*
 * gm_summary_compare - is there anything that other nodes must know?
 *
 * old		as it was written last
 *
 * A figure counts when it has moved by more than 1/256 of its row's total.
 * Reserved bytes are a fact, because they show that maps have come and gone.
 *
 * Threads	any
 */
enum gm_summary_difference gm_summary_compare(const struct gm_summary *old,
					      const struct gm_summary *now);

#endif
