/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gang_stories - three nodes whose processes reserve on all of them.
 *
 * Each node has two planned cards, rows 0 and 1, of GANG_CARD bytes.
 */
#ifndef GM_TEST_GANG_STORIES_H
#define GM_TEST_GANG_STORIES_H

#include "tests/support/nodes/sync_nodes.h"

#define GANG_NODES 3u
#define GANG_CARD  (UINT64_C(16) << 30)

/* A lease that ends where its node dies, and by no load of the machine. */
#define GANG_TTL_MS 6000

extern struct sync_node gang_nodes[GANG_NODES];

/* Name the nodes: a test may need their directories for the place. */
void gang_make(uint32_t ttl_ms);

/* Start the nodes, and wait until each sees all. */
void gang_begin(struct sync_place *place);
void gang_end(void);

/* Reserve bytes of row 0 on some nodes, a bit for each, within the lease's
 * time. */
int gang_reserve(struct gpumap_sync *sync, const char *name, uint32_t nodes,
		 uint64_t bytes);

/* The bytes that node @i reserves for a map; 0: it has none. */
uint64_t gang_held(unsigned int i, const char *name);

/* Gangs that are made, refused, released and lost. */
void gang_stories_tell(void);

#endif
