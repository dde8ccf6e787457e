/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/sync/sync_stories.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/sync/summary.h"
#include "shm/cluster.h"
#include "shm/control.h"
#include "tests/support/process.h"
#include "tests/support/story.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/support/nodes/sync_crowd.h"
#include "tests/support/tap.h"

#define LONG_TTL   60000u /* of which nothing lapses in a test */
#define CHANGES    12
#define ROW_CHANGE 1000
#define RATE_NS    UINT64_C(1000000000)
#define OLD_NS     UINT64_C(500000000)
#define ELSEWHERE  "00000000-1111-4222-8333-444444444444" /* a boot */

struct sync_node stories_a, stories_b;
struct gm_store *stories_store;

static struct sync_node *const a = &stories_a, *const b = &stories_b;
static struct sync_place *place;

/* ---- begin and end ------------------------------------------------------- */

void stories_begin(struct sync_place *at)
{
	place = at;
	stories_store = sync_place_open(place);
	if (!OK(sync_node_start(a, place)) || !OK(sync_node_start(b, place)))
		exit(tap_done());
	OK(sync_node_sees(a, "b", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(b, "a", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
}

void stories_end(void)
{
	EQ(sync_node_kill(a, SIGTERM), 0);
	EQ(sync_node_kill(b, SIGINT), 0);
	OK(!sync_node_logged(a, "level=error"));
	OK(access(a->socket, F_OK) != 0);
	gm_store_close(stories_store);
	sync_node_remove(a);
	sync_node_remove(b);
}

/* ---- what is said -------------------------------------------------------- */

/* The summary in another node's words is what this one's map has. */
static void rows_are_alike(void)
{
	struct gpumap_cluster_device said = { .size = sizeof(said) };
	struct gpumap_device device = { .size = sizeof(device) };
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	struct gpumap_cluster_node node;
	uint32_t cursor = 0;

	/* A node that is dead is gone by then. */
	EQ(gpumap_cluster_read(b->map, &cluster), 0);
	EQ(cluster.limit_ns, (SYNC_TTL_MS + 1000) * INTMAX_C(1000000));
	OK(sync_node_read(b, "a", &node));
	STR(node.address, "127.0.0.1");
	EQ(node.flags, 0);
	EQ(node.n_devices, gpumap_device_count(a->map));
	EQ(gpumap_cluster_next_device(b->map, node.index, &cursor, &said), 1);
	EQ(gpumap_device_read(a->map, said.row, &device), 0);
	STR(said.name, device.name);
	OK(memcmp(said.uuid, device.uuid, sizeof(said.uuid)) == 0);
	EQ(said.total_bytes, device.total_bytes);
	EQ(said.kind, GPUMAP_DEVICE_HOST);
	OK(sync_node_read(a, "a", &node));
	EQ(node.flags, GPUMAP_CLUSTER_SELF);
}

static void a_change_is_seen_elsewhere(void)
{
	int rounds = story_rounds_or(CHANGES), most = 0, n_late = 0;
	uint64_t much = sync_node_step(a);

	for (int i = 0; i < rounds; i++) {
		uint64_t bytes = (uint64_t)(i % 7 + 1) * much;
		int ms;

		EQ(sync_node_reserve(a, bytes), 0);
		ms = sync_node_sees_reserved(b, "a", bytes, SYNC_LIMIT_MS);
		if (!OK(ms >= 0))
			return;
		most = ms > most ? ms : most;
		n_late += ms > 300;
		/* At another moment of what the processes do by the clock, and
		 * not held back by the change before. */
		story_nap(300000 + story_moment(i, 200000));
	}
	NOTE("of %d changes %d were seen elsewhere after more than 300 ms; the "
	     "last after %d ms",
	     rounds, n_late, most);
	EQ(sync_node_reserve(a, 0), 0);
	OK(sync_node_sees_reserved(b, "a", 0, SYNC_LIMIT_MS) >= 0);
}

/* Change row 0 all the time.  Returns how often the store had something new,
 * and in *@ret_ms the time. */
static unsigned int count_writes(uint64_t bytes, uint64_t *ret_ms)
{
	char value[GM_STORE_VALUE_BYTES + 1];
	uint64_t since_ns = story_now(), revision, last = 0;
	unsigned int n = 0;

	for (uint64_t i = 0; story_now() - since_ns < 2 * RATE_NS; i++) {
		EQ(sync_node_reserve(a, (i % 2 + 1) * bytes), 0);
		EQ(rig_get(stories_store, "nodes/a", value, &revision), 0);
		n += revision != last;
		last = revision;
	}
	EQ(sync_node_reserve(a, 0), 0);
	*ret_ms = (story_now() - since_ns) / 1000000;
	return n;
}

/* Bytes that maps reserve are written five times a second at most, and those
 * of less than 1/256 of a row not for their own sake. */
static void many_changes_are_few_writes(void)
{
	unsigned int n;
	uint64_t ms;

	n = count_writes(sync_node_step(a), &ms);
	OK(n > 1);
	OK(n <= ms / 200 + 2);
	NOTE("%u writes in %llu ms", n, (unsigned long long)ms);
	n = count_writes(sync_node_step(a) / 8, &ms);
	OK(n <= ms / 1000 + 3);
	NOTE("of small ones %u in %llu ms", n, (unsigned long long)ms);
}

/* ---- nodes that come and go ---------------------------------------------- */

static void a_killed_node_is_gone_and_returns(void)
{
	struct gpumap_cluster_node gone;
	unsigned int n_published;
	struct sync_node c;
	uint64_t age_ns;
	int ms;

	sync_node_make(&c, "c", NULL);
	OK(sync_node_start(&c, place));
	OK(sync_node_sees(a, "c", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(&c, "a", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	EQ(sync_node_kill(&c, SIGKILL), -SIGKILL);
	ms = sync_node_sees(a, "c", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS);
	OK(ms >= 0);
	NOTE("killed: gone elsewhere after %d ms", ms);
	OK(sync_node_sees(b, "c", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_read(a, "c", &gone));
	EQ(gone.n_devices, 1);
	/* The next gpumap-sync of an agent recalls the node from the map, and
	 * since when it is gone. */
	for (ms = 0; ms < SYNC_LIMIT_MS && sync_node_read(b, "c", &gone) &&
		     gone.age_ns < OLD_NS;
	     ms += 10)
		story_nap(10000);
	age_ns = gone.age_ns;
	OK(age_ns >= OLD_NS);
	EQ(sync_node_kill(b, SIGKILL), -SIGKILL);
	n_published = agent_count_log(&b->agent, "event=cluster_begun");
	sync_node_spawn(b, place);
	for (ms = 0;
	     ms < SYNC_LIMIT_MS &&
	     agent_count_log(&b->agent, "event=cluster_begun") == n_published;
	     ms += 10)
		story_nap(10000);
	OK(ms < SYNC_LIMIT_MS);
	OK(sync_node_sees(b, "b", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_read(b, "c", &gone));
	EQ(gone.state, GPUMAP_CLUSTER_GONE);
	EQ(gone.n_devices, 1);
	OK(gone.age_ns > age_ns);
	OK(sync_node_start(&c, place));
	OK(sync_node_sees(a, "c", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(b, "c", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	sync_node_remove(&c);
	OK(sync_node_sees(a, "c", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS) >= 0);
}

/* A node that is gone is forgotten by those that are told to. */
static void a_node_is_forgotten(void)
{
	struct sync_node i, brief;

	sync_node_make(&i, "i", NULL);
	sync_node_make(&brief, "brief", NULL);
	i.more = "[cluster]\nforget = 1s\n";
	OK(sync_node_start(&i, place));
	OK(sync_node_start(&brief, place));
	OK(sync_node_sees(&i, "brief", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >=
	   0);
	OK(sync_node_sees(a, "brief", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	EQ(sync_node_kill(&brief, SIGTERM), 0);
	OK(sync_node_sees(&i, "brief", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS) >=
	   0);
	OK(sync_node_sees(&i, "brief", 0, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(a, "brief", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_start(&brief, place));
	OK(sync_node_sees(&i, "brief", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >=
	   0);
	sync_node_remove(&brief);
	sync_node_remove(&i);
}

/* With a lease that lapses in no test, only what is given back can go. */
static void a_node_that_ends_is_gone_at_once(void)
{
	struct sync_node d;
	int ms;

	sync_node_make(&d, "d", NULL);
	d.ttl_ms = LONG_TTL;
	OK(sync_node_start(&d, place));
	OK(sync_node_sees(a, "d", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	EQ(sync_node_kill(&d, SIGTERM), 0);
	ms = sync_node_sees(a, "d", GPUMAP_CLUSTER_GONE, LONG_TTL / 3);
	OK(ms >= 0);
	NOTE("ended: gone elsewhere after %d ms", ms);
	sync_node_remove(&d);
}

/* Its predecessor's lease has not lapsed: the key is taken over, and no other
 * node sees it go. */
static void a_successor_is_heard_at_once(void)
{
	char before[GM_STORE_VALUE_BYTES + 1], after[GM_STORE_VALUE_BYTES + 1];
	unsigned int n_gone;
	struct sync_node e;
	uint64_t revision;
	int ms;

	sync_node_make(&e, "e", NULL);
	e.ttl_ms = LONG_TTL;
	OK(sync_node_start(&e, place));
	OK(sync_node_sees(a, "e", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	n_gone = sync_node_count_log(a, "event=node_gone node=e");
	EQ(rig_get(stories_store, "nodes/e", before, &revision), 0);
	EQ(sync_node_kill(&e, SIGKILL), -SIGKILL);
	sync_node_spawn(&e, place);
	for (ms = 0; ms < (int)LONG_TTL / 3; ms += 10) {
		EQ(rig_get(stories_store, "nodes/e", after, &revision), 0);
		if (strcmp(before, after) != 0)
			break;
		story_nap(10000);
	}
	OK(strcmp(before, after) != 0);
	NOTE("its successor was heard after %d ms", ms);
	EQ(sync_node_reserve(&e, sync_node_step(&e)), 0);
	OK(sync_node_sees_reserved(a, "e", sync_node_step(&e), SYNC_LIMIT_MS) >=
	   0);
	EQ(sync_node_count_log(a, "event=node_gone node=e"), n_gone);
	EQ(sync_node_kill(&e, SIGTERM), 0);
	sync_node_remove(&e);
}

/* ---- the agent ----------------------------------------------------------- */

/* @node's agent has started anew, and has the whole cluster again. */
static void agent_is_back(struct sync_node *node, const struct sync_node *other,
			  uint64_t epoch)
{
	struct gpumap_cluster_node seen;

	sync_node_attach(node);
	OK(sync_node_sees(node, node->name, GPUMAP_CLUSTER_LIVE,
			  SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(node, other->name, GPUMAP_CLUSTER_LIVE,
			  SYNC_LIMIT_MS) >= 0);
	for (int ms = 0; ms < SYNC_LIMIT_MS; ms += 10) {
		if (sync_node_read(other, node->name, &seen) &&
		    seen.epoch == epoch && seen.flags == 0)
			break;
		story_nap(10000);
	}
	EQ(seen.epoch, epoch);
	EQ(seen.flags, 0);
}

static void an_agent_starts_anew(void)
{
	struct gpumap_cluster_node seen = { 0 };

	EQ(agent_kill(&b->agent, SIGTERM), 0);
	for (int ms = 0; ms < SYNC_LIMIT_MS; ms += 10) {
		if (sync_node_read(a, "b", &seen) &&
		    seen.flags == GPUMAP_CLUSTER_DRAINING)
			break;
		story_nap(10000);
	}
	EQ(seen.flags, GPUMAP_CLUSTER_DRAINING);
	EQ(seen.state, GPUMAP_CLUSTER_LIVE);
	OK(agent_start(&b->agent));
	agent_is_back(b, a, 2);
	EQ(agent_kill(&b->agent, SIGKILL), -SIGKILL);
	OK(agent_start(&b->agent));
	agent_is_back(b, a, 3);
}

/* Another process has the agent forget all nodes. */
static void forget_all(void)
{
	const struct gpumap_cluster_request none = {
		.size = sizeof(none),
		.name = "other",
		.node = "other",
		.limit_ns = 1,
		.flags = GPUMAP_CLUSTER_BEGIN,
	};

	EQ(gpumap_cluster_publish(a->map, &none), 0);
}

static void another_publisher_does_not_stay(void)
{
	forget_all();
	OK(sync_node_sees(a, "a", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(a, "b", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
}

/* A hung agent costs neither the lease nor what other nodes hear. */
static void a_frozen_agent_holds_nothing_up(void)
{
	struct gpumap_cluster_node seen = { 0 };
	struct sync_node f;

	sync_node_make(&f, "f", NULL);
	f.ttl_ms = 5000;
	OK(sync_node_start(&f, place));
	OK(sync_node_sees(a, "f", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	OK(process_stop(agent_main_pid(&f.agent)));
	/* News for the frozen one, for as long as its lease. */
	for (int i = 0; i < 14; i++) {
		EQ(sync_node_reserve(a,
				     (uint64_t)(i % 2 + 1) * sync_node_step(a)),
		   0);
		story_nap(500000);
	}
	EQ(sync_node_reserve(a, 0), 0);
	OK(sync_node_read(a, "f", &seen));
	EQ(seen.state, GPUMAP_CLUSTER_LIVE);
	EQ(seen.flags, GPUMAP_CLUSTER_DRAINING);
	OK(!sync_node_logged(&f, "event=lease_lost"));
	kill(agent_main_pid(&f.agent), SIGCONT);
	OK(sync_node_sees_reserved(&f, "a", 0, SYNC_LIMIT_MS) >= 0);
	sync_node_remove(&f);
}

/* ---- others in the store ------------------------------------------------- */

/* The value of a node's key as another machine would write it. */
static void say_rows(const char *name, const char *boot, uint32_t rows,
		     char *ret_value)
{
	static struct gpumap_cluster_device devices[GPUMAP_CLUSTER_ROWS_MAX];
	struct gm_summary summary = { .node = { .size = sizeof(summary.node),
						.n_devices = rows },
				      .instance = "0123456789abcdef",
				      .devices = devices };
	int bytes;

	for (uint32_t i = 0; i < rows; i++)
		devices[i] = (struct gpumap_cluster_device){
			.size = sizeof(devices[i]),
			.row = i,
			.uuid = { (uint8_t)(i + 1) },
			.name = "d",
			.kind = GPUMAP_DEVICE_CUDA,
			.state = GPUMAP_DEVICE_READY,
		};
	snprintf(summary.node.name, sizeof(summary.node.name), "%s", name);
	snprintf(summary.node.address, sizeof(summary.node.address),
		 "192.0.2.7");
	snprintf(summary.boot, sizeof(summary.boot), "%s", boot);
	summary.node.agent_version = GPUMAP_VERSION;
	bytes = gm_summary_encode(&summary, ret_value);
	OK(bytes > 0);
	ret_value[bytes] = '\0';
}

static void say(const char *name, const char *boot, char *ret_value)
{
	say_rows(name, boot, 0, ret_value);
}

static void a_taken_name_is_left_alone(void)
{
	char value[GM_STORE_VALUE_BYTES + 1], now[GM_STORE_VALUE_BYTES + 1];
	uint64_t revision;
	struct sync_node g;

	say("g", ELSEWHERE, value);
	EQ(rig_put(stories_store, "nodes/g", value, NULL, NULL), 0);
	sync_node_make(&g, "g", NULL);
	OK(agent_start(&g.agent));
	sync_node_attach(&g);
	sync_node_spawn(&g, place);
	OK(sync_node_wait_log(&g, "event=name_taken node=g"));
	/* The node sees the others, and goes on being silent. */
	OK(sync_node_sees(&g, "a", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	EQ(sync_node_reserve(&g, sync_node_step(&g)), 0);
	EQ(sync_node_reserve(a, sync_node_step(a)), 0);
	OK(sync_node_sees_reserved(&g, "a", sync_node_step(a), SYNC_LIMIT_MS) >=
	   0);
	EQ(rig_get(stories_store, "nodes/g", now, &revision), 0);
	STR(now, value);
	EQ(sync_node_count_log(&g, "event=name_taken"), 1);
	EQ(rig_put(stories_store, "nodes/g", NULL, NULL, NULL), 0);
	OK(sync_node_sees_reserved(a, "g", sync_node_step(&g), SYNC_LIMIT_MS) >=
	   0);
	EQ(sync_node_reserve(a, 0), 0);
	/* The other machine writes again, in spite of ours. */
	EQ(rig_put(stories_store, "nodes/g", value, NULL, NULL), 0);
	for (int ms = 0; ms < SYNC_LIMIT_MS &&
			 sync_node_count_log(&g, "event=name_taken") < 2;
	     ms += 10)
		story_nap(10000);
	EQ(sync_node_count_log(&g, "event=name_taken"), 2);
	EQ(rig_put(stories_store, "nodes/g", NULL, NULL, NULL), 0);
	OK(sync_node_wait_log(&g, "event=name_free"));
	sync_node_remove(&g);
}

/* Two processes of one machine do not take a name from each other for ever. */
static void a_second_process_of_a_name_ends_the_first(void)
{
	struct sync_node h, twin;
	uint64_t revision, again;
	char value[GM_STORE_VALUE_BYTES + 1];

	sync_node_make(&h, "h", NULL);
	sync_node_make(&twin, "h", NULL);
	OK(sync_node_start(&h, place));
	OK(sync_node_start(&twin, place));
	OK(sync_node_wait_log(&h, "event=name_taken node=h"));
	EQ(rig_get(stories_store, "nodes/h", value, &revision), 0);
	EQ(sync_node_reserve(&h, sync_node_step(&h)), 0);
	OK(sync_node_sees(&twin, "a", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	EQ(rig_get(stories_store, "nodes/h", value, &again), 0);
	EQ(sync_node_count_log(&twin, "event=name_taken"), 0);
	sync_node_remove(&h);
	sync_node_remove(&twin);
}

/* Values that no gpumap-sync writes. */
static const char *const hostile[] = {
	"",
	"{",
	"\xff\xfe\x01",
	"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
	"{\"format\":2,\"node\":\"evil\"}",
	"{\"format\":1,\"node\":\"a\",\"instance\":\"0123456789abcdef\"}",
	/* Its device has no name: the agent would refuse all nodes for it. */
	"{\"format\":1,\"node\":\"evil\",\"instance\":\"0123456789abcdef\","
	"\"boot\":\"01234567-89ab-cdef-0123-456789abcdef\",\"version\":200,"
	"\"epoch\":1,\"address\":\"192.0.2.7\",\"gangs\":true,"
	"\"draining\":false,\"rows\":[{\"row\":0,\"uuid\":"
	"\"00112233445566778899aabbccddeeff\",\"name\":\"\","
	"\"kind\":\"cuda\",\"state\":\"ready\",\"flags\":0,\"numa\":0,"
	"\"total\":0,\"free\":0,\"reserved\":0,\"used\":0,\"links\":0}],"
	"\"rows_more\":0,\"shares\":[],\"shares_more\":0}",
};

static void a_hostile_node_is_refused(void)
{
	unsigned int n_refused = sync_node_count_log(a, "event=node_refused");
	struct gpumap_cluster_node node;
	char good[GM_STORE_VALUE_BYTES + 1];

	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		EQ(rig_put(stories_store, "nodes/evil", hostile[i], NULL, NULL),
		   0);
		OK(sync_node_sees(a, "evil", GPUMAP_CLUSTER_REFUSED,
				  SYNC_LIMIT_MS) >= 0);
	}
	OK(sync_node_sees(b, "evil", GPUMAP_CLUSTER_REFUSED, SYNC_LIMIT_MS) >=
	   0);
	EQ(sync_node_count_log(a, "event=node_refused"), n_refused + 1);
	/* A key that no node can have is none. */
	EQ(rig_put(stories_store, "nodes/-evil", "{", NULL, NULL), 0);
	OK(sync_node_wait_log(a, "event=node_left_out node=- "));
	OK(sync_node_read(a, "evil", &node));
	EQ(node.n_devices, 0);
	/* The others are as they were. */
	EQ(sync_node_reserve(b, sync_node_step(b)), 0);
	OK(sync_node_sees_reserved(a, "b", sync_node_step(b), SYNC_LIMIT_MS) >=
	   0);
	EQ(sync_node_reserve(b, 0), 0);
	/* Reason may return. */
	say("evil", ELSEWHERE, good);
	EQ(rig_put(stories_store, "nodes/evil", good, NULL, NULL), 0);
	OK(sync_node_sees(a, "evil", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	EQ(rig_put(stories_store, "nodes/-evil", NULL, NULL, NULL), 0);
	EQ(rig_put(stories_store, "nodes/evil", NULL, NULL, NULL), 0);
	OK(sync_node_sees(a, "evil", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS) >= 0);
}

/* A value on this node's own key is replaced. */
static void a_node_keeps_its_key(void)
{
	char value[GM_STORE_VALUE_BYTES + 1] = "";
	uint64_t revision;

	EQ(rig_put(stories_store, "nodes/a", "{", NULL, NULL), 0);
	OK(sync_node_sees(b, "a", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	for (int ms = 0; ms < SYNC_LIMIT_MS; ms += 10) {
		EQ(rig_get(stories_store, "nodes/a", value, &revision), 0);
		if (strcmp(value, "{") != 0)
			break;
		story_nap(10000);
	}
	OK(strstr(value, "\"node\":\"a\"") != NULL);
	EQ(rig_put(stories_store, "nodes/a", NULL, NULL, NULL), 0);
	OK(sync_node_sees(b, "a", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
}

/* ---- growth -------------------------------------------------------------- */

static void changes_leave_nothing_behind(void)
{
	char value[GM_STORE_VALUE_BYTES + 1];
	struct gpumap_cluster before = { .size = sizeof(before) }, after;
	long sync_kb = 0, agent_kb = 0;
	uint64_t since_ns = story_now();
	int sync_fds = 0;

	after = before;
	EQ(gpumap_cluster_read(a->map, &before), 0);
	say("many", ELSEWHERE, value);
	for (int i = 0; i < 2 * ROW_CHANGE; i++) {
		char *epoch = strstr(value, "\"epoch\":");

		if (epoch != NULL)
			epoch[8] = (char)('1' + i % 9);
		if (rig_put(stories_store, "nodes/many", value, NULL, NULL) !=
		    0) {
			OK(false);
			return;
		}
		if (i == ROW_CHANGE) {
			sync_kb = crowd_resident_own(a->pid);
			agent_kb =
				crowd_resident_own(agent_main_pid(&a->agent));
			sync_fds = story_holds_at_rest(a->pid);
		}
	}
	EQ(rig_put(stories_store, "nodes/many", NULL, NULL, NULL), 0);
	OK(sync_node_sees(a, "many", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS) >= 0);
	EQ(gpumap_cluster_read(a->map, &after), 0);
	NOTE("%llu publications in %llu ms",
	     (unsigned long long)(after.version - before.version),
	     (unsigned long long)(story_now() - since_ns) / 1000000);
	OK(after.version > before.version);
	OK(after.version - before.version <=
	   (story_now() - since_ns) / 200000000 + 2);
	if (story_sees(a->pid, 1))
		OK(story_gives_back(a->pid, sync_fds));
	NOTE("gpumap-sync %ld KiB, then %ld; gpumapd %ld KiB, then %ld",
	     sync_kb, crowd_resident_own(a->pid), agent_kb,
	     crowd_resident_own(agent_main_pid(&a->agent)));
	crowd_stays(a->pid, sync_kb, 512);
	crowd_stays(agent_main_pid(&a->agent), agent_kb, 512);
}

/* ---- a store that is not there ------------------------------------------- */

void stories_start_without(void (*cut)(void), void (*heal)(void))
{
	struct sync_node late;

	sync_node_make(&late, "late", NULL);
	OK(agent_start(&late.agent));
	sync_node_attach(&late);
	cut();
	sync_node_spawn(&late, place);
	OK(sync_node_wait_log(&late, "event=agent "));
	OK(sync_node_wait_log(&late, "event=store_cut"));
	EQ(sync_node_state(&late, "late"), 0);
	heal();
	OK(sync_node_sees(&late, "late", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >=
	   0);
	OK(sync_node_sees(&late, "a", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(a, "late", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	EQ(sync_node_kill(&late, SIGTERM), 0);
	sync_node_remove(&late);
}

/* More nodes than one request to the agent may tell of. */
static void a_large_cluster_comes_in_portions(void)
{
	enum { LARGE = 120 };
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	uint64_t until_ns = story_now() + STORY_LIMIT_NS;
	char value[GM_STORE_VALUE_BYTES + 1];
	char name[16], key[32];
	int n = 0;

	for (int i = 0; i < LARGE; i++) {
		snprintf(name, sizeof(name), "large%d", i);
		snprintf(key, sizeof(key), "nodes/%s", name);
		say_rows(name, ELSEWHERE, GPUMAP_CLUSTER_ROWS_MAX, value);
		n += rig_put(stories_store, key, value, NULL, NULL) == 0;
	}
	EQ(n, LARGE);
	OK(sync_node_sees(a, name, GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	forget_all();
	while (cluster.n_devices < LARGE * GPUMAP_CLUSTER_ROWS_MAX &&
	       story_now() < until_ns) {
		gpumap_cluster_read(a->map, &cluster);
		story_nap(10000);
	}
	OK(cluster.n_devices >= LARGE * GPUMAP_CLUSTER_ROWS_MAX);
	OK(cluster.n_devices * sizeof(struct gm_cluster_device_image) >
	   GM_CONTROL_BYTES_MAX);
	EQ(sync_node_state(a, name), GPUMAP_CLUSTER_LIVE);
	for (int i = 0; i < LARGE; i++) {
		snprintf(key, sizeof(key), "nodes/large%d", i);
		n -= rig_put(stories_store, key, NULL, NULL, NULL) == 0;
	}
	EQ(n, 0);
}

void stories_tell(void)
{
	rows_are_alike();
	a_change_is_seen_elsewhere();
	many_changes_are_few_writes();
	a_killed_node_is_gone_and_returns();
	a_node_is_forgotten();
	a_node_that_ends_is_gone_at_once();
	a_successor_is_heard_at_once();
	an_agent_starts_anew();
	another_publisher_does_not_stay();
	a_frozen_agent_holds_nothing_up();
	a_taken_name_is_left_alone();
	a_second_process_of_a_name_ends_the_first();
	a_hostile_node_is_refused();
	a_node_keeps_its_key();
	changes_leave_nothing_behind();
	a_large_cluster_comes_in_portions();
}
