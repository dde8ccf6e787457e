/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* agent_map - the segment of a test's own agent, mapped for writing, so that
 * what an agent left can be looked at and be damaged. */
#ifndef GM_TEST_SUPPORT_AGENT_SEGMENT_H
#define GM_TEST_SUPPORT_AGENT_SEGMENT_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/layers.h"
#include "shm/rows.h"
#include "tests/support/agent.h"

struct agent_map {
	struct gm_map map;
	ino_t inode;
};

/* Returns whether there is a segment that this build can read. */
bool agent_map_open(const struct agent *a, struct agent_map *m);
void agent_map_close(struct agent_map *m);
uint32_t agent_map_state(const struct agent_map *m);
uint64_t agent_map_epoch(const struct agent_map *m);

/* Returns the version of a layer map, 0 when there is none. */
uint64_t agent_map_version(const struct agent_map *m, const char *name);

#endif
