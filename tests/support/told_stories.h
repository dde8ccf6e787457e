/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * told_stories.h - the agent is killed while clients publish and release
 * objects of a kind, and while it brings them back.  An answer that a client
 * got is true after the next start, also on a new machine, and a change without
 * an answer was made whole or not at all.
 */
#ifndef GM_TEST_SUPPORT_TOLD_STORIES_H
#define GM_TEST_SUPPORT_TOLD_STORIES_H

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/dice.h"
#include "tests/support/story.h"

#define TOLD_CLIENTS 3
#define TOLD_NAMES   4 /* of each client */

/* No object is published under the name. */
#define NOTHING UINT32_MAX

static struct agent agent;
static struct gpumap *map;

/* The kind of the objects.  All of an object follows from a number, its
 * content, so a part of another one shows. */
struct told_kind {
	int (*publish)(struct gpumap *to, const char *name, uint32_t content);
	int (*release)(struct gpumap *to, const char *name);
	bool (*is_content)(const char *name, uint32_t content);
	int (*next)(const struct gpumap *map, uint32_t *cursor,
		    char name[GPUMAP_NAME_MAX + 1]);

	/* Does it end with its client?  And: is the rest as it should be?
	 * Either may be NULL. */
	bool (*is_held)(uint32_t content);
	bool (*is_well)(void);
};

static const struct told_kind *told_kind;

/* One client's knowledge of one name.  The client writes it; the test reads it
 * when the client is dead. */
struct told {
	volatile uint32_t told; /* acknowledged content, or NOTHING */
	volatile uint32_t asked;
	volatile int is_asking;
};

static struct told (*told)[TOLD_NAMES]; /* of each client, shared */
static volatile int *told_unwell;       /* answers that no client should get */
static pid_t told_clients[TOLD_CLIENTS];
static const char *told_scene; /* of this round */

static struct {
	int unready, lost, unknown, unwell, killed, answered;
} told_sum;

static const char *const told_points[] = {
	"publish_reserved", "publish_filled", "state_created",
	"state_written",    "state_synced",   "state_renamed",
	"state_lasting",    "publish_key",    "publish_visible",
	"control_replied",  "state_removed",  "state_forgotten",
	"state_moved", /* of what is held alone */
};

#define TOLD_POINTS (sizeof(told_points) / sizeof(told_points[0]))

static inline void told_name(int client, int n, char ret_name[32])
{
	snprintf(ret_name, 32, "c%d.n%d", client, n);
}

/* ---- clients ------------------------------------------------------------- */

/* Send requests, and note each before and after, until the agent is gone. */
static inline void told_be_client(int client, uint64_t seed)
{
	struct gpumap *mine = story_attach(&agent);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dice_state = seed;
	while (mine != NULL) {
		int n = (int)dice(TOLD_NAMES);
		struct told *k = &told[client][n];
		uint32_t content = dice(4) ? (uint32_t)dice(1u << 30) : NOTHING;
		char name[32];
		int ret;

		told_name(client, n, name);
		k->asked = content;
		k->is_asking = 1;
		ret = content == NOTHING
			      ? told_kind->release(mine, name)
			      : told_kind->publish(mine, name, content);
		if (ret == -ECONNRESET || ret == -ECONNREFUSED)
			break;
		if (ret == 0)
			k->told = content;
		else if (ret != -ENOENT || k->told != NOTHING)
			*told_unwell = ret;
		k->is_asking = 0;
	}
	_exit(0);
}

static inline void told_start_clients(int round)
{
	fflush(stdout);
	for (int i = 0; i < TOLD_CLIENTS; i++) {
		told_clients[i] = fork();
		if (told_clients[i] == 0)
			told_be_client(i,
				       UINT64_C(0x9e3779b97f4a7c15) *
					       (uint64_t)(round * TOLD_CLIENTS +
							  i + 1));
	}
}

/* ---- checks -------------------------------------------------------------- */

static inline uint32_t told_after_death(uint32_t content)
{
	return content != NOTHING && told_kind->is_held != NULL &&
			       told_kind->is_held(content)
		       ? NOTHING
		       : content;
}

static inline void told_look_at(struct told *k, const char *name)
{
	uint32_t was = told_after_death(k->told);
	uint32_t is = told_after_death(k->asked);

	if (!told_kind->is_content(name, was)) {
		if (!k->is_asking || !told_kind->is_content(name, is)) {
			told_sum.lost++;
			NOTE("%s: %s was told %u, asking for %u: %d",
			     told_scene, name, k->told, k->asked, k->is_asking);
			return;
		}
		was = is;
		told_sum.answered++;
	}
	k->told = was;
	k->is_asking = 0;
}

static inline void told_look_at_all(void)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;
	int n = 0;

	for (int i = 0; i < TOLD_CLIENTS; i++) {
		for (int j = 0; j < TOLD_NAMES; j++) {
			told_name(i, j, name);
			told_look_at(&told[i][j], name);
			n += told[i][j].told != NOTHING;
		}
	}
	while (told_kind->next(map, &cursor, name) == 1)
		n--;
	told_sum.unknown += n != 0;
	if (told_kind->is_well != NULL && !told_kind->is_well()) {
		told_sum.unwell++;
		NOTE("%s: the rest is wrong", told_scene);
	}
}

/* ---- rounds -------------------------------------------------------------- */

/* The agent dies at a marked point where there are points, else at any
 * instant. */
static inline void told_set_point(int round, int nth)
{
	size_t points = TOLD_POINTS - (told_kind->is_held == NULL);
	const char *point = told_points[(size_t)round % points];
	static char env[64];

	agent.env[0] = NULL;
	told_scene = "any instant";
	if (!tap_has_points())
		return;
	snprintf(env, sizeof(env), "GM_POINT=%s:kill:%d", point, nth);
	agent.env[0] = env;
	told_scene = point;
}

static inline bool told_start(void)
{
	if (!agent_start_until(&agent, "open"))
		return false;
	map = story_attach(&agent);
	return map != NULL;
}

/* While it brings them back: rows are published as well, by the same steps. */
static inline void told_die_starting(int round)
{
	unlink(agent.segment);
	told_set_point(round, 3 + round % 5);
	if (!tap_has_points())
		return;
	agent_spawn(&agent, NULL);
	agent_wait_log(&agent, "event=open");
	agent_kill(&agent, SIGKILL);
}

/* Every second time the machine goes down with it, and every fourth the next
 * agent dies as well. */
static inline void told_round(int round)
{
	int status;

	told_set_point(round, 5 + round / (int)TOLD_POINTS % 20);
	if (!told_start()) {
		told_sum.unready++;
		return;
	}
	told_start_clients(round);
	if (tap_has_points()) {
		status = agent_wait(&agent);
	} else {
		story_nap(2000 + story_moment(round, 20000));
		status = agent_kill(&agent, SIGKILL);
	}
	told_sum.killed += status == -SIGKILL;
	for (int i = 0; i < TOLD_CLIENTS; i++)
		waitpid(told_clients[i], NULL, 0);
	gpumap_detach(map);
	if (round % 2)
		unlink(agent.segment);
	if (round % 4 == 3)
		told_die_starting(round);
	agent.env[0] = NULL;
	if (!told_start()) {
		told_sum.unready++;
		return;
	}
	told_look_at_all();
	gpumap_detach(map);
	if (agent_kill(&agent, SIGTERM) != 0)
		told_sum.unready++;
}

/* The whole case.  Returns its exit status. */
static inline int told_case(const struct told_kind *kind)
{
	size_t bytes = sizeof(*told) * TOLD_CLIENTS + sizeof(*told_unwell);
	int rounds = story_rounds();

	told_kind = kind;
	told = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		return 99;
	told_unwell = (volatile int *)(void *)(told + TOLD_CLIENTS);
	for (int i = 0; i < TOLD_CLIENTS * TOLD_NAMES; i++)
		told[i / TOLD_NAMES][i % TOLD_NAMES].told = NOTHING;
	agent_make(&agent, "[host]\nrows = 2\n");
	for (int round = 0; round < rounds && told_sum.unready == 0; round++)
		told_round(round);
	EQ(told_sum.unready, 0);
	EQ(told_sum.killed, rounds);
	EQ(told_sum.lost, 0);
	EQ(told_sum.unknown, 0);
	EQ(told_sum.unwell, 0);
	EQ(*told_unwell, 0);
	NOTE("%d changes were made that nobody was told of", told_sum.answered);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}

#endif
