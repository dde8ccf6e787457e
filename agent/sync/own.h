/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * own - what this node says of itself: its key, under its lease.
 *
 * Objects, states, shares and the agent are said at once, but for the 200 ms
 * after what was said last; bytes that have merely moved wait for a second, and
 * longer in a cluster of more than 50 nodes.
 *
 * A key is written only as it was seen.  Where another machine has this node's
 * name, the one that comes later says nothing until the other's key is gone.
 * The predecessor on this machine is replaced at once.
 */
#ifndef GM_SYNC_OWN_H
#define GM_SYNC_OWN_H

#include <stdbool.h>

#include "agent/sync/sync.h"

/* Is the name of this node this machine's, and is the summary in the store? */
bool gm_own_is_said(const struct gm_own *own);

#endif
