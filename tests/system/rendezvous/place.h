/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * place - where the processes of these tests meet: some gpumap-syncs, in a
 * directory or in etcd.  Their nodes have no agents.
 */
#ifndef GM_TEST_PLACE_H
#define GM_TEST_PLACE_H

#include "tests/support/story.h"
#include "tests/support/nodes/sync_nodes.h"

#define PLACE_NODES 3

struct place {
	struct sync_place where;
	struct sync_node nodes[PLACE_NODES];
};

/* Start a gpumap-sync, and wait until its lease is held. */
bool place_start(struct place *place, int node);

/* Run @story in a directory, then in etcd.  @ttl_ms is that of the leases:
 * short where they are to end, else as long as a busy machine may take. */
void place_each(void (*story)(struct place *place), uint32_t ttl_ms);

/* Connect to a node's gpumap-sync, or return NULL after a failed check. */
struct gpumap_sync *place_connect(const struct place *place, int node);

/* The text of a value, "" for none, as a connection of its own reads it. */
const char *place_text(struct gpumap_sync *sync, const char *key);

/* Write a text, NULL to delete.  Returns as gpumap_value_cas(). */
int place_put(struct gpumap_sync *sync, const char *key, const char *text,
	      uint64_t expected, uint32_t flags, uint64_t *ret_revision);

/* Wait until a value has a text, "" for none. */
bool place_sees(struct gpumap_sync *sync, const char *key, const char *text);

/* CLOCK_MONOTONIC, so many milliseconds from now. */
uint64_t place_in(uint32_t ms);

#endif
