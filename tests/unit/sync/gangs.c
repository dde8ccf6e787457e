/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Gangs of three nodes in one process: told stories, and thousands of steps by
 * chance in which nodes are killed and cut off, and writes come late.  The
 * properties are those of tests/model/gang.pml.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/sync/gangs.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"
#include "tests/unit/sync/gang_rig.h"

#define ALL    7u
#define SOON   (300 * RIG_MS) /* nothing that is not struck takes longer */
#define STEPS  150000
#define SLOW   (700 * RIG_MS) /* slow writes and watches add it */
#define LIMIT  (RIG_TTL + SLOW)
#define RECENT 16u

/* ---- stories ------------------------------------------------------------- */

static int hear_status(unsigned int client, const char *says)
{
	char why[GM_WHY_BYTES] = "";
	int status = rig_hear(client, NULL, why);

	if (says != NULL && !OK(strstr(why, says) != NULL))
		NOTE("%d: %s", status, why);
	return status;
}

static bool all_hold(const char *name)
{
	return rig_map(0, name) != NULL && rig_map(1, name) != NULL &&
	       rig_map(2, name) != NULL;
}

static bool none_holds(const char *name)
{
	return rig_map(0, name) == NULL && rig_map(1, name) == NULL &&
	       rig_map(2, name) == NULL;
}

/* A gang of all nodes that the process of client 0 was told of. */
static void make_one(void)
{
	rig_begin();
	rig_open(0, 0);
	rig_reserve(0, "g", ALL, 60);
	rig_settle(SOON);
	EQ(rig_hear(0, NULL, NULL), 0);
	OK(all_hold("g"));
}

static void end_one(void)
{
	rig_close(0);
	rig_settle(2 * RIG_TTL + SOON);
	OK(none_holds("g"));
	EQ(rig_count_keys(), 0);
	for (unsigned int i = 0; i < RIG_NODES; i++)
		OK(!rig_nodes[i].is_up ||
		   (LIST_EMPTY(&rig_nodes[i].sync.gangs->asked) &&
		    LIST_EMPTY(&rig_nodes[i].sync.gangs->taken)));
	rig_end();
}

static void all_or_none(void)
{
	make_one();
	rig_open(1, 1);
	rig_reserve(1, "h", 6, 41);
	rig_settle(SOON);
	EQ(hear_status(1, "node "), -ENOSPC);
	rig_reserve(1, "g", 2, 1);
	rig_settle(SOON);
	EQ(hear_status(1, "another gang"), -EEXIST);
	rig_reserve(1, "h", 6, 40);
	rig_settle(SOON);
	EQ(rig_hear(1, NULL, NULL), 0);
	rig_release(0);
	rig_settle(SOON);
	EQ(rig_hear(0, NULL, NULL), 0);
	OK(none_holds("g"));
	OK(rig_map(1, "h") != NULL && rig_map(2, "h") != NULL);
	/* Its name is free at once. */
	rig_reserve(0, "g", ALL, 60);
	rig_settle(SOON);
	EQ(rig_hear(0, NULL, NULL), 0);
	rig_reserve(0, "again", ALL, 1);
	EQ(hear_status(0, "release it"), -EALREADY);
	rig_close(1);
	end_one();
}

/* The agent may be unable to tell that its client holds the map. */
static void a_release_that_is_refused_is_tried_again(void)
{
	make_one();
	rig_nodes[1].n_refused = 2;
	end_one();
}

static void one_that_takes_none_says_so(void)
{
	rig_begin();
	rig_nodes[1].config.gangs = false;
	rig_open(0, 0);
	rig_reserve(0, "g", ALL, 1);
	rig_settle(SOON);
	EQ(hear_status(0, "node b: it takes no gangs"), -EPERM);
	OK(none_holds("g"));
	end_one();
}

static void an_agent_that_is_away_is_waited_for(void)
{
	rig_begin();
	rig_nodes[2].agent_up = false;
	rig_open(0, 0);
	rig_reserve(0, "g", ALL, 1);
	rig_settle(RIG_TTL / 4);
	EQ(rig_hear(0, NULL, NULL), -EAGAIN);
	rig_nodes[2].agent_up = true;
	rig_settle(SOON);
	EQ(rig_hear(0, NULL, NULL), 0);
	rig_nodes[2].agent_up = false;
	rig_release(0);
	rig_settle(SOON);
	EQ(rig_hear(0, NULL, NULL), 0);
	rig_reserve(0, "h", ALL, 1);
	/* Those that hold wait for half as long as the node that asks may. */
	rig_settle(RIG_TTL / 2 - SOON);
	EQ(rig_hear(0, NULL, NULL), -EAGAIN);
	OK(rig_map(0, "h") != NULL && rig_map(1, "h") != NULL);
	rig_settle(2 * SOON);
	EQ(hear_status(0, "node c"), -ETIMEDOUT);
	OK(none_holds("h"));
	OK(rig_map(2, "g") != NULL);
	rig_nodes[2].agent_up = true;
	end_one();
}

/* The agent may not know yet that the node's last gpumap-sync has ended. */
static void a_young_node_waits_for_a_name(void)
{
	rig_begin();
	rig_open(0, 0);
	rig_nodes[1].is_taken = true;
	rig_reserve(0, "g", ALL, 1);
	rig_settle(SOON);
	EQ(hear_status(0, "node b: another process"), -EEXIST);
	rig_kill(1);
	rig_nodes[1].lapse_ns = rig_now;
	rig_start(1);
	rig_reserve(0, "g", ALL, 1);
	rig_settle(SOON);
	EQ(rig_hear(0, NULL, NULL), -EAGAIN);
	rig_nodes[1].is_taken = false;
	rig_settle(SOON);
	EQ(rig_hear(0, NULL, NULL), 0);
	OK(all_hold("g"));
	end_one();
}

/* Let time pass without an answer of the store to node a. */
static void settle_without_a(uint64_t ns)
{
	uint64_t until_ns = rig_now + ns;

	while (rig_now < until_ns) {
		for (unsigned int i = 0; i < RIG_NODES; i++) {
			while (i != 0 && rig_deliver(i))
				;
			rig_watch(i);
		}
		rig_pass(5 * RIG_MS);
	}
}

static void no_process_waits_longer_than_the_lease(void)
{
	rig_begin();
	rig_open(0, 0);
	rig_timeout_ns = 10 * RIG_TTL;
	rig_reserve(0, "g", ALL, 1);
	settle_without_a(RIG_TTL + SOON);
	EQ(hear_status(0, "the store does not answer"), -EHOSTUNREACH);
	rig_timeout_ns = RIG_TTL / 4;
	rig_settle(SOON);
	rig_reserve(0, "g", ALL, 1);
	settle_without_a(RIG_TTL / 4 + SOON);
	EQ(hear_status(0, "the store does not answer"), -EHOSTUNREACH);
	rig_timeout_ns = 0;
	end_one();
}

/* A process asks just before its node knows that the lease is lost. */
static void a_node_that_is_cut_off_says_so(void)
{
	rig_begin();
	rig_open(0, 0);
	rig_cut(0, true);
	settle_without_a(RIG_TTL / 2);
	rig_reserve(0, "g", ALL, 1);
	settle_without_a(RIG_TTL / 2 + SOON);
	EQ(hear_status(0, "cut off"), -EHOSTUNREACH);
	rig_cut(0, false);
	end_one();
}

static void a_dead_member_is_told(void)
{
	char why[GM_WHY_BYTES];
	uint16_t type = 0;

	make_one();
	rig_kill(1);
	rig_settle(RIG_TTL / 2);
	OK(rig_map(0, "g") != NULL && rig_map(2, "g") != NULL);
	EQ(rig_hear(0, NULL, NULL), -EAGAIN);
	rig_settle(RIG_TTL / 2 + SOON);
	EQ(rig_hear(0, &type, why), -ENOLINK);
	EQ(type, GM_SYNC_EVENT);
	OK(strstr(why, "node b") != NULL);
	OK(none_holds("g"));
	end_one();
}

static void a_member_that_returns_holds_again(void)
{
	make_one();
	rig_kill(1);
	OK(rig_map(1, "g") == NULL);
	rig_start(1);
	/* Its old lease has to lapse before it has another here. */
	rig_nodes[1].lapse_ns = rig_now;
	rig_settle(2 * RIG_TTL);
	OK(rig_map(1, "g") != NULL || none_holds("g"));
	end_one();
}

static void what_the_coordinator_leaves_ends(void)
{
	make_one();
	rig_kill(0);
	rig_kill(1);
	rig_settle(RIG_TTL + SOON);
	OK(none_holds("g"));
	rig_start(0);
	end_one();
}

/* Members end what they have by themselves: here the store does not do what
 * node a asks it to. */
static void members_watch_each_other(void)
{
	make_one();
	rig_kill(1);
	settle_without_a(RIG_TTL + SOON);
	OK(none_holds("g"));
	EQ(hear_status(0, "node b is gone"), -ENOLINK);
	end_one();
}

static void a_node_that_is_cut_off_ends_what_it_has(void)
{
	make_one();
	rig_cut(2, true);
	rig_settle(RIG_TTL + SOON);
	OK(none_holds("g"));
	EQ(hear_status(0, "node c"), -ENOLINK);
	rig_cut(2, false);
	end_one();
	make_one();
	rig_cut(0, true);
	rig_settle(RIG_TTL + SOON);
	OK(none_holds("g"));
	EQ(hear_status(0, "cut off"), -ENOLINK);
	rig_cut(0, false);
	end_one();
}

/* The key of a node's answer about the only gang. */
static const char *answer_of(unsigned int node)
{
	static char key[GM_GANG_KEY_BYTES];
	const struct gm_keys *seen = &rig_nodes[node].sync.gangs->seen;

	key[0] = '\0';
	for (size_t i = 0; i < seen->n; i++)
		if (seen->list[i]->key[strlen(GM_GANG_ANSWERS)] ==
		    rig_nodes[node].config.node[0])
			snprintf(key, sizeof(key), "%.80s", seen->list[i]->key);
	return key;
}

/* A node cannot end the gang of another by a record of the same number. */
static void the_number_of_another_gang_is_of_no_use(void)
{
	char key[GM_GANG_KEY_BYTES];

	make_one();
	snprintf(key, sizeof(key), GM_GANG_RECORDS "c%.20s",
		 strrchr(answer_of(1), '/'));
	rig_put(key, "{\"format\":1,\"name\":\"g\",\"uid\":0,"
		     "\"members\":[{\"node\":\"b\",\"parts\":[{\"uuid\":"
		     "\"00000000000000000000000000000000\",\"bytes\":1}]}]}");
	rig_settle(SOON);
	EQ(rig_hear(0, NULL, NULL), -EAGAIN);
	OK(all_hold("g"));
	end_one();
}

/* The store says no to a write, and why; the watch has not told of it. */
static void an_answer_replaces_what_was_written_meanwhile(void)
{
	make_one();
	rig_put(answer_of(2), "{}");
	rig_nodes[2].maps[0].version = 0;
	for (int i = 0; i < 300; i++) {
		rig_deliver(2);
		rig_pass(5 * RIG_MS);
	}
	rig_settle(SOON);
	EQ(hear_status(0, "node c: the map was released"), -ENOLINK);
	end_one();
}

static void records_that_nobody_wants_go(void)
{
	rig_begin();
	rig_put("gangs/a/0123456789abcdef",
		"{\"format\":1,\"name\":\"g\",\"uid\":0,\"members\":[{\"node\":"
		"\"b\",\"parts\":[{\"uuid\":"
		"\"00000000000000000000000000000000\",\"bytes\":1}]}]}");
	rig_put("holds/b/aaaaaaaaaaaaaaaa", "{}");
	rig_put("gangs/a/nothing", "{}");
	rig_settle(SOON);
	OK(none_holds("g"));
	EQ(rig_count_keys(), 1); /* it is no gang's */
	rig_put("gangs/c/0123456789abcdef", "{]");
	rig_settle(SOON);
	EQ(rig_count_keys(), 1);
	rig_end();
}

/* ---- by chance ----------------------------------------------------------- */

/* A gang that a process asked for, and its answer. */
static struct ask {
	char name[64];
	uint32_t nodes;
	uint32_t held; /* by these, at some moment since */
	bool is_told;
	bool is_wanted;
	bool was_whole; /* all have held at the same time */
	uint64_t alone_ns[RIG_NODES][RIG_NODES]; /* one holds, another not */
	uint64_t untold_ns[RIG_NODES];
	uint64_t stays_ns[RIG_NODES];
} asks[RIG_CLIENTS][RECENT];

static struct ask *asked[RIG_CLIENTS]; /* NULL: it has none */
static uint64_t cut_ns[RIG_NODES];     /* when it was cut off last, or healed */
static uint64_t killed_ns[RIG_NODES];  /* when it was killed last */
static unsigned int n_told, n_refused, n_lost, wrong;
static bool may_cut;

static void note_reserve(unsigned int node, const char *name)
{
	for (unsigned int k = 0; k < RIG_CLIENTS; k++)
		if (asked[k] != NULL && strcmp(asked[k]->name, name) == 0)
			asked[k]->held |= 1u << node;
}

static void blame(const char *what, const struct ask *ask, unsigned int node)
{
	if (wrong++ < 10)
		NOTE("%s: %s of nodes %x on %u at %llu ms", what, ask->name,
		     ask->nodes, node, (unsigned long long)(rig_now / RIG_MS));
}

/* An agent that is away promises nothing to others. */
static bool holds(unsigned int node, const struct ask *ask)
{
	return rig_nodes[node].agent_up && rig_map(node, ask->name) != NULL;
}

/* Twice the time where a node was cut off within it. */
static uint64_t limit(void)
{
	for (unsigned int i = 0; i < RIG_NODES; i++)
		if (may_cut && rig_now < cut_ns[i] + 2 * LIMIT)
			return 2 * LIMIT;
	return LIMIT;
}

/* The time of a node whose agent is away begins anew when it is killed: the
 * others learn of that by its lease. */
static uint64_t limit_of(unsigned int node, uint64_t from_ns)
{
	return (from_ns > killed_ns[node] ? from_ns : killed_ns[node]) +
	       limit();
}

static void check_ask(struct ask *ask)
{
	uint32_t held = 0;

	for (unsigned int i = 0; i < RIG_NODES; i++)
		held |= (uint32_t)holds(i, ask) << i;
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		bool is_mine = (held >> i & 1) != 0;

		if ((ask->nodes >> i & 1) == 0)
			continue;
		ask->was_whole = ask->was_whole || held == ask->nodes;
		if (is_mine || !ask->is_told)
			ask->untold_ns[i] = rig_now;
		for (unsigned int j = 0; j < RIG_NODES; j++)
			if (!is_mine || ((ask->nodes & ~held) >> j & 1) == 0)
				ask->alone_ns[i][j] = rig_now;
			else if (rig_now >
				 limit_of(j, ask->alone_ns[i][j]) +
					 (ask->was_whole ? 0 : RIG_TTL / 2))
				blame("one-sided", ask, i);
		if (rig_now > limit_of(i, ask->untold_ns[i]))
			blame("untold", ask, i);
		if (!is_mine || ask->is_wanted)
			ask->stays_ns[i] = rig_now;
		if (rig_now > ask->stays_ns[i] + limit())
			blame("stays", ask, i);
	}
}

static void check_all(void)
{
	for (unsigned int k = 0; k < RIG_CLIENTS; k++)
		for (unsigned int i = 0; i < RECENT; i++)
			if (asks[k][i].nodes != 0)
				check_ask(&asks[k][i]);
	for (unsigned int i = 0; i < RIG_NODES; i++)
		if (rig_promised(i) > RIG_ROOM && wrong++ < 10)
			NOTE("node %u has promised %llu", i,
			     (unsigned long long)rig_promised(i));
}

static void stop_wanting(unsigned int k)
{
	if (asked[k] == NULL)
		return;
	asked[k]->is_wanted = asked[k]->is_told = false;
	asked[k] = NULL;
}

static void hear(unsigned int k)
{
	struct ask *ask = asked[k];
	uint16_t type;
	int status = rig_hear(k, &type, NULL);

	if (status == -EAGAIN || ask == NULL)
		return;
	if (type == GM_SYNC_GANG_RESERVE && status == 0) {
		n_told++;
		ask->is_told = true;
		if (ask->held != ask->nodes)
			blame("not held", ask, ask->held);
	} else if (type == GM_SYNC_GANG_RESERVE) {
		n_refused++;
		stop_wanting(k);
	} else if (type == GM_SYNC_EVENT) {
		n_lost++;
		stop_wanting(k);
	}
}

static void ask(unsigned int k)
{
	static unsigned int number;
	struct ask *ask = &asks[k][0];
	uint32_t nodes = (uint32_t)dice(ALL) + 1;

	/* Those before may be ending still. */
	memmove(ask + 1, ask, (RECENT - 1) * sizeof(*ask));
	*ask = (struct ask){ .nodes = nodes, .is_wanted = true };
	snprintf(ask->name, sizeof(ask->name), "g%u", ++number);
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		ask->untold_ns[i] = ask->stays_ns[i] = rig_now;
		for (unsigned int j = 0; j < RIG_NODES; j++)
			ask->alone_ns[i][j] = rig_now;
	}
	asked[k] = ask;
	rig_reserve(k, ask->name, nodes, 1 + dice(60));
}

static void act(unsigned int k)
{
	struct rig_client *client = &rig_clients[k];
	unsigned int node = (unsigned int)dice(RIG_NODES);

	if (!client->is_open) {
		stop_wanting(k);
		if (rig_nodes[node].is_up)
			rig_open(k, node);
	} else if (dice(50) == 0) {
		stop_wanting(k);
		rig_close(k);
	} else if (asked[k] == NULL) {
		ask(k);
	} else if (asked[k]->is_told && dice(10) == 0) {
		stop_wanting(k);
		rig_release(k);
	}
}

static void kill_node(unsigned int i)
{
	if (rig_nodes[i].is_up)
		killed_ns[i] = rig_now;
	rig_kill(i);
}

static void strike(unsigned int i)
{
	struct rig_node *node = &rig_nodes[i];

	switch (dice(may_cut ? 6 : 4)) {
	case 0:
		if (!node->is_up && rig_now >= node->lapse_ns)
			rig_start(i);
		else
			kill_node(i);
		if (dice(3) == 0) /* two at once */
			kill_node((i + 1) % RIG_NODES);
		break;
	case 1:
		node->agent_up = !node->agent_up;
		break;
	case 2:
		node->rival =
			dice(RIG_ROOM - rig_promised(i) + node->rival + 1);
		break;
	case 3:
		rig_deliver_late(i);
		break;
	default:
		if (node->is_cut || dice(4) == 0) {
			rig_cut(i, !node->is_cut);
			cut_ns[i] = rig_now;
		}
		break;
	}
}

/* A node is not down for ever: neither is its agent. */
static void mend(void)
{
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		struct rig_node *node = &rig_nodes[i];

		if (!node->is_up && rig_now >= node->lapse_ns && dice(150) == 0)
			rig_start(i);
		if (!node->agent_up && dice(30) == 0)
			node->agent_up = true;
		if (node->is_cut)
			cut_ns[i] = rig_now;
		if (node->is_cut && dice(200) == 0)
			rig_cut(i, false);
	}
}

static void step(void)
{
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		if (dice(2) == 0)
			rig_deliver(i);
		if (dice(2) == 0)
			rig_watch(i);
	}
	for (unsigned int k = 0; k < RIG_CLIENTS; k++) {
		if (rig_clients[k].is_open)
			hear(k);
		if (dice(30) == 0)
			act(k);
		if (!rig_clients[k].is_open)
			stop_wanting(k);
	}
	if (dice(25) == 0)
		strike((unsigned int)dice(RIG_NODES));
	mend();
	rig_pass(dice(20) * RIG_MS);
	check_all();
}

static void nothing_is_left(void)
{
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		rig_cut(i, false);
		rig_nodes[i].agent_up = true;
	}
	for (unsigned int k = 0; k < RIG_CLIENTS; k++)
		rig_close(k);
	rig_settle(2 * RIG_TTL);
	for (unsigned int i = 0; i < RIG_NODES; i++)
		if (!rig_nodes[i].is_up)
			rig_start(i);
	rig_settle(2 * RIG_TTL);
	EQ(rig_count_keys(), 0);
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		EQ(rig_promised(i), rig_nodes[i].rival);
		OK(LIST_EMPTY(&rig_nodes[i].sync.gangs->asked));
		OK(LIST_EMPTY(&rig_nodes[i].sync.gangs->taken));
	}
}

static void holds_by_chance(bool cuts)
{
	may_cut = cuts;
	n_told = n_refused = n_lost = wrong = 0;
	memset(asks, 0, sizeof(asks));
	memset(asked, 0, sizeof(asked));
	rig_begin();
	rig_on_reserve = note_reserve;
	rig_fails = true;
	for (int i = 0; i < STEPS; i++)
		step();
	NOTE("%u told, %u refused, %u lost", n_told, n_refused, n_lost);
	EQ(wrong, 0);
	OK(n_told > 100 && n_refused > 100 && n_lost > 30);
	nothing_is_left();
	rig_on_reserve = NULL;
	rig_fails = false;
	rig_end();
}

TAP_CASE()
{
	all_or_none();
	one_that_takes_none_says_so();
	an_agent_that_is_away_is_waited_for();
	a_young_node_waits_for_a_name();
	no_process_waits_longer_than_the_lease();
	a_node_that_is_cut_off_says_so();
	a_dead_member_is_told();
	members_watch_each_other();
	a_member_that_returns_holds_again();
	what_the_coordinator_leaves_ends();
	a_node_that_is_cut_off_ends_what_it_has();
	the_number_of_another_gang_is_of_no_use();
	an_answer_replaces_what_was_written_meanwhile();
	records_that_nobody_wants_go();
	holds_by_chance(false);
	holds_by_chance(true);
	a_release_that_is_refused_is_tried_again();
	return tap_done();
}
