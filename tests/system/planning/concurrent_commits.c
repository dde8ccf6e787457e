/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Many processes plan, commit by name and for life, release, and are killed, at
 * random and all at once; the agent is killed in the middle of it too.  No row
 * is ever promised for more than it has, and in the end nothing is left.
 *
 * Then the agent is killed between any two of its stores, with fewer clients:
 * what was acknowledged is there, and what is reserved is what is there.
 */

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/dice.h"
#include "tests/support/story.h"

#define CLIENTS  64
#define FEW      8 /* where the agent dies */
#define NAMES    3 /* of each client */
#define ROWS     4u
#define N_LAYERS 16u
#define GIB      (UINT64_C(1) << 30)

#define SHORT_MS 3000  /* in make check */
#define LONG_MS  60000 /* in check-torture */

static const char node[] =
	"rows:\n"
	"- { name: A, kind: cuda, count: 3, memory: 24G,\n"
	"    compute-capability: 9.0, sm-count: 100, threads-per-sm: 2048 }\n"
	"- { name: B, kind: host, cpus: 8, memory: 64G }\n";

static struct agent agent;
static struct gpumap *map;
static pid_t clients[CLIENTS];
static uint32_t n_born;
static uint64_t nap_us = 60000; /* of a client, at most */

/* Counts of all clients, in memory that they share. */
static struct tally {
	_Atomic uint32_t committed, held, refused, released, unheard, wrong;

	/* By name is what it was told last, and nothing was asked since. */
	_Atomic bool by_name[CLIENTS][NAMES];
} * tally;

static void configure(void)
{
	agent_configure_dummies(&agent, node,
				"[host]\nenabled = no\n"
				"[limits]\npins-per-uid = 1024\n");
}

/* ---- a client ------------------------------------------------------------ */

/* The agent died during the request, so its outcome is unknown. */
static bool is_unheard(int ret)
{
	return ret == -ECONNRESET || ret == -ECONNREFUSED || ret == -ESTALE;
}

static void commit_one(const char *name, _Atomic bool *by_name)
{
	static uint64_t sizes[N_LAYERS];
	bool held = dice(2) == 0;
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = name,
		.flags = GPUMAP_PLAN_COMMIT | (held ? GPUMAP_PLAN_HELD : 0),
		.setting = GPUMAP_SETTING_AUTO,
		.strategy = 1 + (uint32_t)dice(3),
		.n_layers = 1 + (uint32_t)dice(N_LAYERS),
		.layer_bytes = sizes,
	};
	struct gpumap_plan answer = { .size = sizeof(answer) };
	int ret;

	for (uint32_t i = 0; i < request.n_layers; i++)
		sizes[i] = GIB / 8 + dice(GIB / 2);
	*by_name = false;
	ret = gpumap_plan_make(map, &request, &answer, NULL, 0, NULL, 0);
	*by_name = ret == 0 && !held;
	if (ret == 0)
		(held ? &tally->held : &tally->committed)[0]++;
	else if (ret == -ENOSPC)
		tally->refused++;
	else if (is_unheard(ret))
		tally->unheard++;
	else
		tally->wrong++;
}

static void release_one(const char *name)
{
	int ret = gpumap_layers_release(map, name);

	if (ret == 0)
		tally->released++;
	else if (is_unheard(ret))
		tally->unheard++;
	else if (ret != -ENOENT)
		tally->wrong++;
}

/* Only this client and its successors use its names. */
static void live(uint32_t place)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dice_state += n_born * UINT64_C(0x9e3779b97f4a7c15);
	map = story_attach(&agent);
	while (map != NULL) {
		uint32_t i = (uint32_t)dice(NAMES);
		_Atomic bool *by_name = &tally->by_name[place][i];
		char name[32];

		snprintf(name, sizeof(name), "m%u.%u", place, i);
		if (dice(3) == 0) {
			*by_name = false;
			release_one(name);
		} else {
			commit_one(name, by_name);
		}
		story_nap((long)dice(nap_us));
	}
	tally->wrong++;
	_exit(1);
}

static void give_birth(uint32_t place)
{
	n_born++;
	fflush(stdout);
	clients[place] = fork();
	if (clients[place] == 0)
		live(place);
}

static void kill_one(uint32_t place)
{
	kill(clients[place], SIGKILL);
	waitpid(clients[place], NULL, 0);
}

/* ---- who watches --------------------------------------------------------- */

/* Returns false when a row is promised for more than it has. */
static bool within(void)
{
	for (uint32_t row = 0; row < ROWS; row++) {
		struct gpumap_device device = story_device(map, row);

		if (device.reserved_bytes > device.total_bytes)
			return false;
	}
	return true;
}

static uint64_t all_reserved(void)
{
	uint64_t sum = 0;

	for (uint32_t row = 0; row < ROWS; row++)
		sum += story_device(map, row).reserved_bytes;
	return sum;
}

/* The bytes that the published maps charge while no client changes them. */
static uint64_t all_charged(uint32_t *ret_held)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	uint32_t cursor = 0, held = 0;
	uint64_t sum = 0;

	while (gpumap_holder_next(map, &cursor, &holder) == 1) {
		struct gpumap_charge charges[ROWS];
		struct gpumap_layers head = { .size = sizeof(head) };

		held += holder.pid != 0;
		if (gpumap_layers_read(map, holder.name, &head, NULL, NULL, 0,
				       charges, ROWS) != 0)
			return UINT64_MAX;
		for (uint32_t i = 0; i < head.n_rows; i++)
			sum += charges[i].weight_bytes + charges[i].kv_bytes +
			       charges[i].activation_bytes +
			       charges[i].reserve_bytes;
	}
	*ret_held = held;
	return sum;
}

/* A map that was acknowledged by name and not touched since is there. */
static bool all_are_there(void)
{
	bool good = true;

	for (uint32_t place = 0; place < CLIENTS; place++) {
		for (uint32_t i = 0; i < NAMES; i++) {
			struct gpumap_layers head = { .size = sizeof(head) };
			char name[32];

			if (!tally->by_name[place][i])
				continue;
			snprintf(name, sizeof(name), "m%u.%u", place, i);
			gpumap_layers_read(map, name, &head, NULL, NULL, 0,
					   NULL, 0);
			if (head.flags == GPUMAP_LAYERS_COMMITTED)
				continue;
			NOTE("%s is lost", name);
			good = false;
		}
	}
	return good;
}

/* All clients have ended, and their ephemeral maps go.  The last request of one
 * may still be carried out, and a map be shown between two readings: wait until
 * what is reserved is what the maps charge. */
static bool calms_down(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	bool is_calm = false;

	while (!is_calm && story_now() < until) {
		uint32_t seen = gpumap_generation(map), held;
		uint64_t charged = all_charged(&held);

		is_calm = held == 0 && all_reserved() == charged;
		if (!is_calm)
			gpumap_wait_change(map, seen, story_now() + 100000000);
	}
	return is_calm;
}

static void release_all(void)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0, wrong = 0;

	while (gpumap_layers_next(map, &cursor, name) == 1)
		wrong += gpumap_layers_release(map, name) != 0;
	EQ(wrong, 0);
}

/* Whether each kind of answer was given at least once. */
static bool has_met_all(void)
{
	return tally->committed > 0 && tally->held > 0 && tally->refused > 0 &&
	       tally->released > 0;
}

/* Kill a client now and then, and the agent once; longer where the machine is
 * slow. */
static void watch(uint64_t for_ms)
{
	uint64_t start = story_now(), until = start + for_ms * 1000000;
	uint64_t next = start, middle = start + for_ms * 500000;
	uint64_t looks = 0, over = 0, most = 0, now;
	bool killed = false;

	while ((now = story_now()) < until ||
	       (!(killed && has_met_all()) && now < start + STORY_LIMIT_NS)) {
		uint64_t sum = all_reserved();

		looks++;
		over += !within();
		most = sum > most ? sum : most;
		if (now > next) {
			uint32_t place = (uint32_t)dice(CLIENTS);

			kill_one(place);
			give_birth(place);
			next = now + dice(20000000);
		}
		if (now > middle && !killed) {
			agent_kill(&agent, SIGKILL);
			OK(agent_start(&agent));
			killed = true;
		}
		story_nap(500);
	}
	EQ(over, 0);
	OK(killed);
	NOTE("%u clients; of 136 GiB at most %u reserved, in %u looks", n_born,
	     (uint32_t)(most / GIB), (uint32_t)looks);
}

static void the_sum_never_exceeds_a_row(void)
{
	uint32_t held;

	for (uint32_t place = 0; place < CLIENTS; place++)
		give_birth(place);
	watch(story_rounds() > STORY_ROUNDS ? LONG_MS : SHORT_MS);
	for (uint32_t place = 0; place < CLIENTS; place++)
		kill_one(place);
	NOTE("committed %u by name, %u for life; refused %u, released %u, "
	     "unheard %u",
	     tally->committed, tally->held, tally->refused, tally->released,
	     tally->unheard);
	EQ(tally->wrong, 0);
	OK(has_met_all());
	OK(calms_down());

	/* Names outlive all clients; another agent finds the same ones. */
	gpumap_detach(map);
	agent_kill(&agent, SIGKILL);
	OK(agent_start(&agent));
	map = story_attach(&agent);
	OK(calms_down());
	OK(within());
	OK(all_are_there());
	release_all();
	memset(tally->by_name, 0, sizeof(tally->by_name));
	EQ(all_reserved(), 0);
	EQ(all_charged(&held), 0);
}

/* ---- the agent dies ------------------------------------------------------ */

static const char *const points[] = {
	"publish_reserved",     "publish_filled",     "state_created",
	"state_renamed",        "state_lasting",      "publish_key",
	"pin_filled",           "pin_visible",        "publish_visible",
	"row_reserved_visible", "generation_visible", "unpin_visible",
	"state_forgotten",      "control_replied",
};

#define POINTS (sizeof(points) / sizeof(points[0]))

static int n_at_points; /* deaths */

/* Fewer of them, and quicker, until the agent is dead; one was so before. */
static void run_few(int round)
{
	uint64_t until = story_now() + 3000000000;

	for (uint32_t place = 0; place < FEW; place++)
		give_birth(place);
	if (!tap_has_points())
		until = story_now() + 10000000 +
			(uint64_t)story_moment(round, 50000) * 1000;
	kill_one(0);
	while (story_now() < until && story_lives(agent.pid))
		story_nap(1000);
	n_at_points += !story_lives(agent.pid);
	agent_kill(&agent, SIGKILL);
	for (uint32_t place = 1; place < FEW; place++)
		kill_one(place);
}

/* An agent may reach its point before its socket is open.  Returns false where
 * the agent neither opens its socket nor dies at the point. */
static bool one_life(int round)
{
	agent_spawn(&agent, NULL);
	if (agent_wait_log(&agent, "event=open ")) {
		run_few(round);
		return true;
	}
	if (!tap_has_points() || story_lives(agent.pid)) {
		agent_show_log(&agent);
		return false;
	}
	n_at_points++;
	return agent_wait(&agent) == -SIGKILL;
}

/* Returns whether all is as it should be. */
static bool one_death(int round)
{
	char env[64];
	bool good;

	snprintf(env, sizeof(env), "GM_POINT=%s:kill:%d",
		 points[(size_t)round % POINTS], 5 + (int)dice(45));
	agent.env[0] = tap_has_points() ? env : NULL;
	if (!one_life(round)) {
		NOTE("round %d, %s, was not open", round,
		     tap_has_points() ? env : "");
		return false;
	}
	agent.env[0] = NULL;
	if (!agent_start(&agent)) {
		NOTE("round %d, %s, left what nobody could open", round,
		     tap_has_points() ? env : "");
		return false;
	}
	map = story_attach(&agent);
	good = map != NULL && calms_down() && within() && all_are_there();
	if (!good)
		NOTE("round %d, %s", round, tap_has_points() ? env : "");
	gpumap_detach(map);
	agent_kill(&agent, round % 2 ? SIGKILL : SIGTERM);
	return good;
}

static void no_death_loses_a_promise(void)
{
	int rounds = story_rounds(), wrong = 0;

	nap_us = 2000;
	for (int round = 0; round < rounds && wrong == 0; round++)
		wrong += !one_death(round);
	EQ(wrong, 0);
	EQ(tally->wrong, 0);
	NOTE("%d of %d agents died at a point", n_at_points, rounds);
	OK(!tap_has_points() || n_at_points > 0);
}

TAP_CASE()
{
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		return 99;
	agent_make(&agent, NULL);
	configure();
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}
	map = story_attach(&agent);
	the_sum_never_exceeds_a_row();
	gpumap_detach(map);
	agent_kill(&agent, SIGTERM);
	no_death_loses_a_promise();
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
