/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent is killed while clients publish and release meshes, and while it
 * brings them back.  An answer that a client got is true after the next start,
 * also on a new machine; without an answer the mesh is as before or as asked,
 * and whole.
 */

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/dice.h"
#include "tests/support/story.h"

#define CLIENTS 2
#define NAMES   3 /* of each client */
#define ROWS    2u

/* No client has published under the name. */
#define NOTHING UINT32_MAX

/* One client's knowledge of one name; the client writes it, and the test reads
 * it when the client is dead. */
struct known {
	volatile uint32_t told; /* content, or NOTHING */
	volatile uint32_t asked;
	volatile int is_asking;
};

static struct known (*known)[NAMES]; /* of each client, shared */
static volatile int *unwell;         /* answers that no client should get */

static struct agent agent;
static struct gpumap *map;
static pid_t clients[CLIENTS];
static bool has_points;
static const char *scene; /* of this round */
static int unready, lost, unknown, killed, answered;

static const char *const points[] = {
	"publish_reserved", "publish_filled", "state_created",
	"state_written",    "state_synced",   "state_renamed",
	"state_lasting",    "publish_key",    "publish_visible",
	"control_replied",  "state_removed",  "state_forgotten",
};

#define POINTS (sizeof(points) / sizeof(points[0]))

/* ---- what a content is --------------------------------------------------- */

/* All of a mesh follows from a number: its shape, its rows and two groups. */
static int publish(struct gpumap *to, const char *name, uint32_t content)
{
	const uint32_t rows[ROWS] = { content % 2, 1 - content % 2 };
	const uint32_t ranks[ROWS] = { content / 2 % 2, 1 - content / 2 % 2 };
	char group[32];
	const struct gpumap_mesh_added added = { .name = group,
						 .ranks = ranks,
						 .n = ROWS,
						 .backend = GPUMAP_MESH_GLOO };
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = name,
		.topology = content % 3 == 0 ? GPUMAP_MESH_TENSOR
					     : GPUMAP_MESH_PIPELINE,
		.tp = content % 3 == 0 ? 1 + content / 3 % 2 : 1,
		.pp = content % 3 == 0 ? 1 : 1 + content / 3 % 2,
		.dp = 1,
		.rows = rows,
		.n_rows = ROWS,
		.added = &added,
		.n_added = 1,
	};

	snprintf(group, sizeof(group), "g%u", content);
	return gpumap_mesh_publish(to, &request);
}

static bool is_content(const char *name, uint32_t content)
{
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	uint32_t rows[ROWS], ranks[ROWS];
	char group[32];
	int ret = gpumap_mesh_read(map, name, &mesh, rows, ROWS);

	if (content == NOTHING)
		return ret == -ENOENT;
	snprintf(group, sizeof(group), "g%u", content);
	return ret == 0 && mesh.n_added == 1 && rows[0] == content % 2 &&
	       rows[1] == 1 - content % 2 &&
	       mesh.expected == 1 + content / 3 % 2 &&
	       (mesh.topology == GPUMAP_MESH_TENSOR) == (content % 3 == 0) &&
	       gpumap_mesh_group(map, name, group, NULL, ranks, rows, ROWS) ==
		       0 &&
	       ranks[0] == content / 2 % 2 &&
	       rows[0] == (ranks[0] + content) % 2;
}

/* ---- clients ------------------------------------------------------------- */

static void name_of(int client, int n, char ret_name[32])
{
	snprintf(ret_name, 32, "c%d.n%d", client, n);
}

/* Ask, and note it before and after, until the agent is gone. */
static void be_client(int client, uint64_t seed)
{
	struct gpumap *mine = story_attach(&agent);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dice_state = seed;
	while (mine != NULL) {
		int n = (int)dice(NAMES);
		struct known *k = &known[client][n];
		uint32_t content = dice(4) ? (uint32_t)dice(1u << 30) : NOTHING;
		char name[32];
		int ret;

		name_of(client, n, name);
		k->asked = content;
		k->is_asking = 1;
		ret = content == NOTHING ? gpumap_mesh_release(mine, name)
					 : publish(mine, name, content);
		if (ret == -ECONNRESET || ret == -ECONNREFUSED)
			break;
		if (ret == 0)
			k->told = content;
		else if (ret != -ENOENT || k->told != NOTHING)
			*unwell = ret;
		k->is_asking = 0;
	}
	_exit(0);
}

static void start_clients(int round)
{
	fflush(stdout);
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = fork();
		if (clients[i] == 0)
			be_client(i,
				  UINT64_C(0x9e3779b97f4a7c15) *
					  (uint64_t)(round * CLIENTS + i + 1));
	}
}

/* ---- what is looked at --------------------------------------------------- */

static void look_at(struct known *k, const char *name)
{
	if (!is_content(name, k->told)) {
		if (!k->is_asking || !is_content(name, k->asked)) {
			lost++;
			NOTE("%s: %s was told %u, asking for %u: %d", scene,
			     name, k->told, k->asked, k->is_asking);
			return;
		}
		k->told = k->asked;
		answered++;
	}
	k->is_asking = 0;
}

static void look_at_all(void)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;
	int n = 0;

	for (int i = 0; i < CLIENTS; i++) {
		for (int j = 0; j < NAMES; j++) {
			name_of(i, j, name);
			look_at(&known[i][j], name);
			n += known[i][j].told != NOTHING;
		}
	}
	while (gpumap_mesh_next(map, &cursor, name) == 1)
		n--;
	unknown += n != 0;
}

/* ---- rounds -------------------------------------------------------------- */

/* At a point of the code where there are points, else at any instant. */
static void set_point(int round, int nth)
{
	static char env[64];
	const char *point = points[(size_t)round % POINTS];

	agent.env[0] = NULL;
	scene = "any instant";
	if (!has_points)
		return;
	snprintf(env, sizeof(env), "GM_POINT=%s:kill:%d", point, nth);
	agent.env[0] = env;
	scene = point;
}

static bool start(void)
{
	if (!agent_start_until(&agent, "open"))
		return false;
	map = story_attach(&agent);
	return map != NULL;
}

/* While it brings them back: rows are published as well, by the same steps. */
static void die_starting(int round)
{
	unlink(agent.segment);
	set_point(round, 3 + round % 5);
	if (!has_points)
		return;
	agent_spawn(&agent, NULL);
	agent_wait_log(&agent, "event=open");
	agent_kill(&agent, SIGKILL);
}

/* Every second time the machine goes down with it, and every fourth the next
 * agent dies as well. */
static void one_round(int round)
{
	int status;

	set_point(round, 5 + round / (int)POINTS % 20);
	if (!start()) {
		unready++;
		return;
	}
	start_clients(round);
	if (has_points) {
		status = agent_wait(&agent);
	} else {
		story_nap(2000 + story_moment(round, 20000));
		status = agent_kill(&agent, SIGKILL);
	}
	killed += status == -SIGKILL;
	for (int i = 0; i < CLIENTS; i++)
		waitpid(clients[i], NULL, 0);
	gpumap_detach(map);
	if (round % 2)
		unlink(agent.segment);
	if (round % 4 == 3)
		die_starting(round);
	agent.env[0] = NULL;
	if (!start()) {
		unready++;
		return;
	}
	look_at_all();
	gpumap_detach(map);
	if (agent_kill(&agent, SIGTERM) != 0)
		unready++;
}

TAP_CASE()
{
	size_t bytes = sizeof(*known) * CLIENTS + sizeof(*unwell);
	int rounds = story_rounds();

	has_points = tap_has_points();
	known = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (known == MAP_FAILED)
		return 99;
	unwell = (volatile int *)(void *)(known + CLIENTS);
	for (int i = 0; i < CLIENTS * NAMES; i++)
		known[i / NAMES][i % NAMES].told = NOTHING;
	agent_make(&agent, "[host]\nrows = 2\n");
	for (int round = 0; round < rounds && unready == 0; round++)
		one_round(round);
	EQ(unready, 0);
	EQ(killed, rounds);
	EQ(lost, 0);
	EQ(unknown, 0);
	EQ(*unwell, 0);
	NOTE("%d changes were made that nobody was told of", answered);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
