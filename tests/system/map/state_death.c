/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks maps after the agent was killed while clients publish, commit, hold
 * and release.  Acknowledged changes are there after the next start, also on a
 * new machine; only held maps end with their holders.  A change without an
 * answer is either as before or as requested, and whole.  Rows reserve exactly
 * what the committed maps charge.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/dice.h"
#include "tests/support/story.h"

#define CLIENTS 3
#define NAMES   4 /* of each client */
#define LAYERS  6

/* No map is published under the name. */
#define NOTHING UINT32_MAX

/* One client's knowledge of one name.  The client writes it; the test reads it
 * when the client is dead. */
struct known {
	volatile uint32_t told; /* acknowledged content, or NOTHING */
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

static struct {
	int unready, lost, unknown, sums, killed, answered;
} sum;

static const char *const points[] = {
	"publish_reserved", "publish_filled", "state_created",
	"state_written",    "state_synced",   "state_renamed",
	"state_lasting",    "publish_key",    "publish_visible",
	"control_replied",  "state_removed",  "state_forgotten",
	"state_moved",
};

#define POINTS (sizeof(points) / sizeof(points[0]))

static void name_of(int client, int n, char ret_name[32])
{
	snprintf(ret_name, 32, "c%d.n%d", client, n);
}

/* ---- contents ---------------------------------------------------------- */

/* All of a map follows from one number, so a part of another map shows. */
static void spell(uint32_t content, char ret_spec[64], uint64_t bytes[LAYERS])
{
	uint32_t first = 1 + content % (LAYERS - 1);

	snprintf(ret_spec, 64, "%u:%u;%u:%u", content % 2, first,
		 1 - content % 2, LAYERS - first);
	for (uint32_t i = 0; i < LAYERS; i++)
		bytes[i] = UINT64_C(4096) * (content % 1000) + i;
}

static bool is_committed(uint32_t content)
{
	return content % 3 == 0;
}

/* Does a map of this content end with its client? */
static bool is_held(uint32_t content)
{
	return content != NOTHING && content % 6 == 0;
}

static uint32_t after_death(uint32_t content)
{
	return is_held(content) ? NOTHING : content;
}

static int publish(struct gpumap *to, const char *name, uint32_t content)
{
	struct gpumap_plan plan = { .size = sizeof(plan) };
	uint64_t bytes[LAYERS];
	char spec[64];
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = spec,
						 .n_layers = LAYERS,
						 .layer_bytes = bytes,
						 .other_bytes = content };
	struct gpumap_plan_request commit = { .size = sizeof(commit),
					      .name = name,
					      .flags = GPUMAP_PLAN_COMMIT,
					      .setting = GPUMAP_SETTING_MANUAL,
					      .text = spec,
					      .n_layers = LAYERS,
					      .layer_bytes = bytes,
					      .other_bytes = content,
					      .dtype = GPUMAP_DTYPE_F16 };

	spell(content, spec, bytes);
	if (is_held(content))
		commit.flags |= GPUMAP_PLAN_HELD;
	return is_committed(content)
		       ? gpumap_plan_make(to, &commit, &plan, NULL, 0, NULL, 0)
		       : gpumap_layers_publish(to, &request);
}

/* Is the map under the name this content, and all of it? */
static bool is_content(const char *name, uint32_t content)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	uint64_t bytes[LAYERS], want[LAYERS];
	uint32_t rows[LAYERS];
	char spec[64];
	int ret = gpumap_layers_read(map, name, &layers, rows, bytes, LAYERS,
				     NULL, 0);

	if (content == NOTHING)
		return ret == -ENOENT;
	spell(content, spec, want);
	if (ret != 0 || layers.other_bytes != content ||
	    strcmp(layers.spec, spec) != 0 ||
	    memcmp(bytes, want, sizeof(want)) != 0 ||
	    ((layers.flags & GPUMAP_LAYERS_COMMITTED) != 0) !=
		    is_committed(content))
		return false;
	for (uint32_t i = 0; i < LAYERS; i++) {
		if (rows[i] != (i < 1 + content % (LAYERS - 1)
					? content % 2
					: 1 - content % 2))
			return false;
	}
	return true;
}

/* ---- clients ----------------------------------------------------------- */

/* Send requests, and note each before and after, until the agent is gone. */
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
		ret = content == NOTHING ? gpumap_layers_release(mine, name)
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

static void end_clients(void)
{
	for (int i = 0; i < CLIENTS; i++)
		waitpid(clients[i], NULL, 0);
}

/* ---- checks ------------------------------------------------------------ */

static void look_at(int client, int n)
{
	struct known *k = &known[client][n];
	char name[32];

	name_of(client, n, name);
	if (is_content(name, after_death(k->told))) {
		k->told = after_death(k->told);
		k->is_asking = 0;
		return;
	}
	if (k->is_asking && is_content(name, after_death(k->asked))) {
		k->told = after_death(k->asked);
		k->is_asking = 0;
		sum.answered++;
		return;
	}
	sum.lost++;
	NOTE("%s: %s was told %u, asking for %u: %d", scene, name, k->told,
	     k->asked, k->is_asking);
}

static int count_maps(void)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;
	int n = 0;

	while (gpumap_layers_next(map, &cursor, name) == 1)
		n++;
	return n;
}

/* Do the charges of the committed maps add up to each row's reservation? */
static bool adds_up(void)
{
	uint64_t charged[2] = { 0, 0 };
	struct gpumap_holder who = { .size = sizeof(who) };
	uint32_t cursor = 0;

	while (gpumap_holder_next(map, &cursor, &who) == 1) {
		struct gpumap_layers layers = { .size = sizeof(layers) };
		struct gpumap_charge charges[2];

		if (gpumap_layers_read(map, who.name, &layers, NULL, NULL, 0,
				       charges, 2) != 0)
			return false;
		for (uint32_t i = 0; i < layers.n_rows; i++)
			charged[charges[i].row] += charges[i].weight_bytes +
						   charges[i].kv_bytes +
						   charges[i].activation_bytes +
						   charges[i].reserve_bytes;
	}
	return story_device(map, 0).reserved_bytes == charged[0] &&
	       story_device(map, 1).reserved_bytes == charged[1];
}

static void look_at_all(void)
{
	int n = 0;

	for (int i = 0; i < CLIENTS; i++) {
		for (int j = 0; j < NAMES; j++) {
			look_at(i, j);
			n += known[i][j].told != NOTHING;
		}
	}
	sum.unknown += count_maps() != n;
	if (!adds_up()) {
		sum.sums++;
		NOTE("%s: the sums are wrong", scene);
	}
}

/* ---- rounds ------------------------------------------------------------ */

/* The agent dies at a marked point where there are points, else at any
 * instant. */
static void set_scene(int round)
{
	static char env[64];
	const char *point = points[(size_t)round % POINTS];

	agent.env[0] = NULL;
	scene = "any instant";
	if (!has_points)
		return;
	snprintf(env, sizeof(env), "GM_POINT=%s:kill:%d", point,
		 5 + round / (int)POINTS % 20);
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

/* Every second time the machine goes down with the agent. */
static void one_round(int round)
{
	int status;

	set_scene(round);
	if (!start()) {
		sum.unready++;
		return;
	}
	start_clients(round);
	if (has_points) {
		status = agent_wait(&agent);
	} else {
		story_nap(2000 + story_moment(round, 20000));
		status = agent_kill(&agent, SIGKILL);
	}
	sum.killed += status == -SIGKILL;
	end_clients();
	gpumap_detach(map);
	if (round % 2)
		unlink(agent.segment);
	agent.env[0] = NULL;
	if (!start()) {
		sum.unready++;
		return;
	}
	look_at_all();
	gpumap_detach(map);
	if (agent_kill(&agent, SIGTERM) != 0)
		sum.unready++;
}

static void what_was_told_is_so(void)
{
	int rounds = story_rounds();

	for (int round = 0; round < rounds && sum.unready == 0; round++)
		one_round(round);
	EQ(sum.unready, 0);
	EQ(sum.killed, rounds);
	EQ(sum.lost, 0);
	EQ(sum.unknown, 0);
	EQ(sum.sums, 0);
	EQ(*unwell, 0);
	NOTE("%d changes were made that nobody was told of", sum.answered);
}

TAP_CASE()
{
	size_t bytes = sizeof(*known) * CLIENTS + sizeof(*unwell);

	has_points = tap_has_points();
	known = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (known == MAP_FAILED)
		return 99;
	unwell = (volatile int *)(void *)(known + CLIENTS);
	for (int i = 0; i < CLIENTS; i++) {
		for (int j = 0; j < NAMES; j++)
			known[i][j].told = NOTHING;
	}
	agent_make(&agent, "[host]\nrows = 2\n");
	what_was_told_is_so();
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
