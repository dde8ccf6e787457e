/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * summary_read - read from the map what this node says of itself.
 *
 * Both functions leave the node's name, its address and
 * GPUMAP_CLUSTER_NO_GANGS as they are, and on failure everything.
 */
#ifndef GM_SUMMARY_READ_H
#define GM_SUMMARY_READ_H

#include "agent/sync/summary.h"

/*
 * gm_summary_read_rows - read the agent's facts and the rows
 *
 * Cards come first, then host rows, then dummies; at most
 * GPUMAP_CLUSTER_ROWS_MAX are listed, and the others counted.
 *
 * Returns	0
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-ENOMEM
 * Cost		no system call
 */
int gm_summary_read_rows(const struct gpumap *map, struct gm_summary *summary);

/*
 * gm_summary_read_shares - read the shares
 *
 * Those with a fingerprint come first, and the oldest of them, because models
 * are found by it; at most GPUMAP_CLUSTER_SHARES_MAX are listed.
 *
 * Returns	0, or the errors of gpumap_share_list()
 * Cost		two round trips on the control socket, or more for more than 32
 */
int gm_summary_read_shares(struct gpumap *map, struct gm_summary *summary);

#endif
