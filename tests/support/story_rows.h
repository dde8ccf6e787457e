/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * story_rows - what rows a story plays on.
 *
 * Stories of two rows and more do not care what computes.  Compiled with
 * STAGE_CUDA, the same story plays on four stand-in cards, which come before
 * the host rows that it asks for.
 */
#ifndef GM_TEST_SUPPORT_STORY_ROWS_H
#define GM_TEST_SUPPORT_STORY_ROWS_H

#include "tests/support/agent.h"
#include "tests/support/story.h"
#include "tests/support/tap.h"

#ifdef STAGE_CUDA

#include "tests/support/cuda_agent.h"

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

/* The story is over.  Returns what main() does. */
static inline int stage_finish(struct agent *a, struct gpumap *map)
{
	story_finish(a, map);
	stage_end(a);
	return tap_done();
}

/* ---- deaths at marked points --------------------------------------------- */

static inline bool stage_has_points(void)
{
	if (tap_has_points() && geteuid() == 0)
		return true;
	SKIP(1, "needs --enable-testpoints, and root");
	return false;
}

/* How often at each point: in the torture target GM_ROUNDS times. */
static inline int stage_strikes(void)
{
	return getenv("GM_ROUNDS") ? story_rounds() : 2;
}

/* From now on each process that comes there dies. */
static inline void stage_ticket(const char *ticket)
{
	FILE *file = fopen(ticket, "w");

	if (file != NULL)
		fclose(file);
}

/*
 * stage_death - prepare the agent's next start, in which one process dies
 *
 * config	has to make workers root's: another user's could not take the
 *		ticket
 * point	the mark at which the first process that comes there dies
 * ret_ticket	the name of a file that is there until then
 */
static inline void stage_death(struct agent *a, const char *config,
			       const char *point, char ret_ticket[128])
{
	static char what[96], ticket[160];

	snprintf(ret_ticket, 128, "%s/ticket", a->dir);
	snprintf(what, sizeof(what), "GM_POINT=%s:kill", point);
	snprintf(ticket, sizeof(ticket), "GM_POINT_TICKET=%s", ret_ticket);
	stage_make(a, config);
	a->env[STAGE_ENV] = what;
	a->env[STAGE_ENV + 1] = ticket;
	a->env[STAGE_ENV + 2] = NULL;
	stage_ticket(ret_ticket);
	NOTE("at %s", point);
}

/* End that agent. */
static inline void stage_recovered(struct agent *a, struct gpumap *map,
				   const char *ticket)
{
	gpumap_detach(map);
	EQ(agent_kill(a, SIGTERM), 0);
	a->env[STAGE_ENV] = NULL;
	unlink(ticket);
}

#endif
