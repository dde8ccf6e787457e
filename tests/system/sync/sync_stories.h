/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sync_stories - what nodes see of each other, wherever they meet.
 *
 * Two nodes, "a" and "b", are there for all of them.
 */
#ifndef GM_TEST_SYNC_STORIES_H
#define GM_TEST_SYNC_STORIES_H

#include "tests/support/nodes/sync_nodes.h"

/* Start both nodes; the place is made. */
void stories_begin(struct sync_place *place);

/* End both, and remove what they have. */
void stories_end(void);

/* The nodes, and a store of the test's own. */
extern struct sync_node stories_a, stories_b;
extern struct gm_store *stories_store;

/* All that do not depend on the place. */
void stories_tell(void);

/* A node that starts while its store cannot be reached waits for it.  @cut and
 * @heal take the store away, and give it back. */
void stories_start_without(void (*cut)(void), void (*heal)(void));

#endif
