/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mesh_agent.h - a mesh of four rows, and its groups as they are when whole.
 */
#ifndef GM_TEST_SUPPORT_MESH_AGENT_H
#define GM_TEST_SUPPORT_MESH_AGENT_H

#include <errno.h>

#include "tests/support/story.h"

#define NCCL_NOW 22809u

/* World, where @name is NULL; waited for until all its rows are READY. */
struct gpumap_mesh_group mesh_group(struct gpumap *at, const char *name);

/* "m", again where it is there. */
int mesh_publish(struct gpumap *at);

#endif
