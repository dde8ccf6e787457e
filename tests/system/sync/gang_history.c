/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/sync/gang_history.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/dice.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/support/story.h"
#include "tests/support/tap.h"

#define CLIENTS 4u
#define NAMES   64u  /* that are held at one time */
#define LOOK_US 1000 /* from one look to the next */
/* Against holding for ever: unit/sync/gangs.c has the limit that pages promise,
 * and a clock of its own. */
#define LIMIT_NS (SYNC_LIMIT_MS * UINT64_C(1000000))
#define MIB      (UINT64_C(1) << 20)

/* Shared by the processes. */
struct record {
	_Atomic unsigned int told, refused, lost, cut;
	_Atomic unsigned int kills, looks;
	_Atomic unsigned int one_sided, above, unreadable;
	_Atomic uint64_t longest_ns;      /* that a node has held alone */
	_Atomic bool is_down[GANG_NODES]; /* the agent */
	_Atomic bool ends;
};

static struct record *record;
static pid_t clients[CLIENTS], checker;

/* ---- a process ----------------------------------------------------------- */

/* Hold the gang until a moment that the dice choose, or it is lost. */
static void keep(struct gpumap_sync *sync)
{
	struct pollfd at = { .fd = gpumap_sync_fd(sync), .events = POLLIN };
	int ms = (int)dice(dice(4) == 0 ? 4000 : 200);

	if (poll(&at, 1, ms) == 1) {
		if (gpumap_sync_check(sync) == -ENOLINK)
			record->lost++;
		return;
	}
	if (dice(2) == 0)
		gpumap_gang_release(sync);
}

/* The name says which nodes, and how much of each. */
static void ask(struct gpumap_sync *sync, unsigned int number)
{
	uint32_t nodes = (uint32_t)dice((1u << GANG_NODES) - 1) + 1;
	uint64_t mib = 512 + dice(6 * 1024);
	char name[64];
	int ret;

	snprintf(name, sizeof(name), "g-%u-%u-%d-%u", nodes, (unsigned)mib,
		 (int)getpid(), number);
	ret = gang_reserve(sync, name, nodes, mib * MIB);
	if (ret == 0) {
		record->told++;
		keep(sync);
	} else if (ret == -ECONNRESET) {
		record->cut++;
	} else {
		record->refused++;
	}
}

static void __attribute__((noreturn)) be_client(unsigned int k)
{
	static unsigned int number;
	struct gpumap_sync *sync = NULL;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dice_state += (uint64_t)getpid() * 1000 + k;
	while (!record->ends) {
		if (sync == NULL &&
		    gpumap_sync_open(gang_nodes[dice(GANG_NODES)].socket,
				     &sync) != 0) {
			story_nap(10000);
			continue;
		}
		ask(sync, ++number);
		if (gpumap_sync_check(sync) != 0 || dice(3) == 0) {
			gpumap_sync_close(sync);
			sync = NULL;
		}
	}
	gpumap_sync_close(sync);
	_exit(0);
}

/* ---- the one that looks -------------------------------------------------- */

struct seen {
	char name[64];
	uint32_t nodes;
	uint32_t held;
	uint64_t bytes;
	uint64_t alone_ns[GANG_NODES]; /* since then */
};

static struct seen seen[NAMES];

static struct seen *find(const char *name)
{
	struct seen *free = NULL;

	for (unsigned int i = 0; i < NAMES; i++) {
		if (strcmp(seen[i].name, name) == 0)
			return &seen[i];
		if (seen[i].name[0] == '\0')
			free = &seen[i];
	}
	if (free != NULL) {
		unsigned int mib = 0;

		*free = (struct seen){ 0 };
		snprintf(free->name, sizeof(free->name), "%s", name);
		sscanf(name, "g-%u-%u-", &free->nodes, &mib);
		free->bytes = mib * MIB;
	}
	return free;
}

/* Take one look at all agents. */
static void look(struct gpumap *const maps[GANG_NODES])
{
	struct gpumap_holder holder = { .size = sizeof(holder) };

	for (unsigned int k = 0; k < NAMES; k++)
		seen[k].held = 0;
	for (unsigned int i = 0; i < GANG_NODES; i++) {
		uint32_t cursor = 0;
		uint64_t sum = 0;

		while (gpumap_holder_next(maps[i], &cursor, &holder) == 1) {
			struct seen *one = find(holder.name);

			if (one == NULL) {
				record->unreadable++;
				continue;
			}
			one->held |= 1u << i;
			sum += one->bytes;
		}
		if (sum > GANG_CARD ||
		    story_device(maps[i], 0).reserved_bytes > GANG_CARD)
			record->above++;
	}
	record->looks++;
}

static void check_times(struct seen *one)
{
	uint64_t now_ns = story_now();

	for (unsigned int i = 0; i < GANG_NODES; i++) {
		bool holds = (one->held >> i & 1) != 0;

		/* An agent that is down promises nothing to others. */
		if (!holds || record->is_down[i] ||
		    (one->held & one->nodes) == one->nodes ||
		    one->alone_ns[i] == 0)
			one->alone_ns[i] = now_ns;
		if (now_ns - one->alone_ns[i] > record->longest_ns)
			record->longest_ns = now_ns - one->alone_ns[i];
		if (now_ns - one->alone_ns[i] > LIMIT_NS) {
			record->one_sided++;
			printf("# %s: only %x hold, %u for too long\n",
			       one->name, one->held, i);
			one->alone_ns[i] = now_ns;
		}
	}
	if (one->held == 0)
		one->name[0] = '\0';
}

static void __attribute__((noreturn)) be_checker(void)
{
	struct gpumap *maps[GANG_NODES];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned int i = 0; i < GANG_NODES; i++)
		maps[i] = story_attach(&gang_nodes[i].agent);
	while (!record->ends) {
		look(maps);
		for (unsigned int k = 0; k < NAMES; k++)
			if (seen[k].name[0] != '\0')
				check_times(&seen[k]);
		story_nap(LOOK_US);
	}
	fflush(stdout);
	_exit(0);
}

static pid_t spawn(void (*be)(unsigned int k), unsigned int k)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0 && be != NULL)
		be(k);
	if (pid == 0)
		be_checker();
	return pid;
}

/* ---- the one that kills -------------------------------------------------- */

static uint64_t back_ns[GANG_NODES]; /* when its gpumap-sync starts; 0: now */

static void kill_one(void)
{
	unsigned int i = (unsigned int)dice(GANG_NODES), k;

	record->kills++;
	switch (dice(6)) {
	case 0:
	case 1:
		k = (unsigned int)dice(CLIENTS);
		kill(clients[k], SIGKILL);
		waitpid(clients[k], NULL, 0);
		clients[k] = spawn(be_client, k);
		break;
	case 2:
		record->is_down[i] = true;
		EQ(agent_kill(&gang_nodes[i].agent, SIGKILL), -SIGKILL);
		OK(agent_start(&gang_nodes[i].agent));
		record->is_down[i] = false;
		break;
	default:
		sync_node_kill(&gang_nodes[i], SIGKILL);
		back_ns[i] =
			story_now() + dice(2) * dice(2 * SYNC_TTL_MS) * 1000000;
		break;
	}
}

static void start_again(struct sync_place *place, bool all)
{
	for (unsigned int i = 0; i < GANG_NODES; i++)
		if (gang_nodes[i].pid == 0 &&
		    (all || story_now() >= back_ns[i]))
			sync_node_spawn(&gang_nodes[i], place);
}

static void nothing_is_left(struct sync_place *place)
{
	struct gm_store *store = sync_place_open(place);
	uint64_t until_ns = story_now() + SYNC_LIMIT_MS * UINT64_C(1000000);
	bool is_left = true;

	while (is_left && story_now() < until_ns) {
		is_left = rig_count(store, "gangs/") != 0 ||
			  rig_count(store, "holds/") != 0;
		for (unsigned int i = 0; i < GANG_NODES; i++) {
			struct gpumap_holder holder = { .size = sizeof(
								holder) };
			uint32_t cursor = 0;

			is_left = is_left ||
				  gpumap_holder_next(gang_nodes[i].map, &cursor,
						     &holder) == 1;
		}
		story_nap(20000);
	}
	OK(!is_left);
	gm_store_close(store);
}

void gang_history_tell(struct sync_place *place, unsigned int gangs)
{
	record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!OK(record != MAP_FAILED))
		return;
	checker = spawn(NULL, 0);
	for (unsigned int k = 0; k < CLIENTS; k++)
		clients[k] = spawn(be_client, k);
	while (record->told < gangs) {
		story_nap((long)dice(400000));
		kill_one();
		start_again(place, false);
	}
	record->ends = true;
	for (unsigned int k = 0; k < CLIENTS; k++)
		waitpid(clients[k], NULL, 0);
	start_again(place, true);
	for (unsigned int i = 0; i < GANG_NODES; i++)
		OK(sync_node_wait_log(&gang_nodes[i], "event=ready "));
	waitpid(checker, NULL, 0);
	nothing_is_left(place);
	NOTE("%u gangs held, %u refused, %u lost, %u asked in vain; %u kills",
	     record->told, record->refused, record->lost, record->cut,
	     record->kills);
	NOTE("%u looks; a node held alone for %d ms at most", record->looks,
	     (int)(record->longest_ns / 1000000));
	EQ(record->one_sided, 0);
	EQ(record->above, 0);
	EQ(record->unreadable, 0);
	munmap(record, sizeof(*record));
}
