/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stage - what rows a story plays on.
 *
 * Stories of two rows and more do not care what computes.  Compiled with
 * STAGE_CUDA, the same story plays on four stand-in cards, which come before the
 * host rows that it asks for.
 */
#ifndef STAGE_H
#define STAGE_H

#include "tests/agent.h"

#ifdef STAGE_CUDA

#define STORY_ROUNDS 6

#include "tests/cuda_scene.h"

#define STAGE_ROWS 4u

static struct cuda_scene stage_scene;

/* As agent_make(), or as agent_configure() for an agent that is made. */
static inline void stage_make(struct agent *a, const char *config)
{
	if (a->kept == NULL &&
	    !cuda_scene_make(&stage_scene, "mixed.yaml", NULL))
		exit(99);
	cuda_scene_agent(&stage_scene, a, "", config);
}

static inline void stage_end(struct agent *a)
{
	agent_remove(a);
	cuda_scene_end(&stage_scene);
}

/* Address space that a worker may keep: the allocator reserves much for each
 * thread that there is beside a card. */
#define STAGE_KIB (512 * 1024)

/* How many variables of its own the agent's environment has already. */
#define STAGE_ENV 2

#else

#define STAGE_ROWS 2u
#define STAGE_ENV  0
#define STAGE_KIB  1024

static inline void stage_make(struct agent *a, const char *config)
{
	if (a->kept == NULL)
		agent_make(a, config);
	else
		agent_configure(a, config);
}

static inline void stage_end(struct agent *a)
{
	agent_remove(a);
}

#endif
#endif
