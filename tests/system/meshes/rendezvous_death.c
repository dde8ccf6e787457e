/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Ranks that meet while the agent, or one of them, dies at each marked point of
 * the meeting.  The agent tells no rank an id that the others do not get, no
 * rank waits for a dead one or for as long as the dead one would have waited,
 * and all of them meet again.  A rank is dead also where a child that it has
 * forked holds its connection.
 */

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/mesh_agent.h"
#include "tests/support/process.h"
#include "tests/support/raw.h"

#ifdef GM_TESTPOINTS
#define POINTS 1
#else
#define POINTS 0
#endif

#define RANKS    4u
#define LONG_NS  (UINT64_C(60) * 1000000000)
#define SHORT_NS (UINT64_C(2) * 1000000000)

/* Ranks that a uid's processes may be, and meshes with groups for more. */
#define MOST   1024
#define MESHES 18
#define GROUPS 60

static struct agent agent;
static struct gpumap *map;
static char path[160];
static struct raw ranks[RANKS];

static struct gm_join a_rank(uint32_t rank, uint64_t epoch, uint64_t timeout_ns)
{
	return (struct gm_join){ .mesh = "m",
				 .group = "world",
				 .epoch = epoch,
				 .timeout_ns = timeout_ns,
				 .rank = rank,
				 .version = NCCL_NOW };
}

/* Be a rank, and do not wait for the answer. */
static void join(uint32_t rank, uint64_t epoch, uint64_t timeout_ns)
{
	static const char id[GM_JOIN_ID_BYTES] = "an id";
	const uint32_t bytes = rank == 0 ? sizeof(id) : 0;
	struct gm_join body = a_rank(rank, epoch, timeout_ns);
	struct raw *c = &ranks[rank];

	raw_init(c);
	if (raw_open(c, path) == 0)
		raw_send(c,
			 &(struct raw_record){
				 .header = raw_header(c, GM_CONTROL_JOIN,
						      sizeof(body), bytes),
				 .body = &body,
				 .body_bytes = sizeof(body),
				 .tail = id,
				 .tail_bytes = bytes },
			 0);
}

static void join_all(void)
{
	uint64_t epoch = mesh_group(map, NULL).epoch;

	for (uint32_t i = 0; i < RANKS; i++)
		join(i, epoch, LONG_NS);
}

/* A rank's answer; 1 for the id of rank 0. */
static int told(uint32_t rank)
{
	struct gm_join_reply reply = { .n = 0 };
	struct gm_control header;
	int fds[GM_CONTROL_FDS_MAX];
	int ret =
		raw_receive(&ranks[rank], &header, &reply, sizeof(reply), fds);

	if (ret < 0 || header.status != 0)
		return ret < 0 ? ret : header.status;
	return strcmp((const char *)reply.id, "an id") == 0 && reply.n == RANKS;
}

static int all_told(int what)
{
	int n = 0;

	for (uint32_t i = 0; i < RANKS; i++)
		n += ranks[i].socket >= 0 && told(i) == what;
	return n;
}

static void leave_all(void)
{
	for (uint32_t i = 0; i < RANKS; i++)
		raw_close(&ranks[i]);
}

/* Until the group's epoch is another one. */
static bool has_moved(uint64_t epoch)
{
	STORY_WAIT_WHILE(mesh_group(map, NULL).epoch == epoch);
	return mesh_group(map, NULL).epoch > epoch;
}

static void they_meet(void)
{
	uint64_t epoch = mesh_group(map, NULL).epoch;

	join_all();
	EQ(all_told(1), RANKS);
	EQ(mesh_group(map, NULL).epoch, (intmax_t)epoch);
	leave_all();
	OK(has_moved(epoch));
}

/* ---- the dead ------------------------------------------------------------ */

/* Whether a process has this rank.  Asks with a version that no other process
 * has. */
static bool is_there(uint32_t rank, uint64_t epoch)
{
	struct gm_join body = a_rank(rank, epoch, LONG_NS);
	struct raw c;
	int ret;

	body.version = 1;
	raw_init(&c);
	raw_open(&c, path);
	ret = raw_ask(&c, GM_CONTROL_JOIN, &body, sizeof(body), NULL, 0, NULL);
	raw_close(&c);
	return ret == -EBUSY;
}

/* Rank 1 would wait for two seconds, and is gone before they are over; rank 2
 * would wait for longer.  Returns when rank 1's seconds are over, or 0 if rank
 * 1 was not gone in time. */
static uint64_t one_dies_who_was_short_of_time(uint64_t epoch)
{
	uint64_t until;

	join(2, epoch, LONG_NS);
	while (!is_there(2, epoch))
		story_nap(1000);
	until = raw_now() + SHORT_NS;
	join(1, epoch, SHORT_NS);
	while (!is_there(1, epoch) && raw_now() < until)
		story_nap(1000);
	raw_close(&ranks[1]);
	while (is_there(1, epoch) && raw_now() < until)
		story_nap(1000);
	return raw_now() < until ? until : 0;
}

static void nobody_waits_as_long_as_the_dead_would(void)
{
	struct pollfd answer = { .events = POLLIN };
	uint64_t epoch, until;
	int tries = 0;

	/* If the machine paused for so long, rank 1 may have been late. */
	do {
		leave_all();
		epoch = mesh_group(map, NULL).epoch;
		until = one_dies_who_was_short_of_time(epoch);
	} while (until == 0 && ++tries < 10);
	if (until == 0) {
		SKIP(2, "the machine is too slow");
		return;
	}
	while (raw_now() < until + SHORT_NS / 4)
		story_nap(10000);
	answer.fd = ranks[2].socket;
	EQ(poll(&answer, 1, 0), 0);
	EQ(mesh_group(map, NULL).epoch, (intmax_t)epoch);
	leave_all();
}

/* ---- forked children ----------------------------------------------------- */

/* Be rank 0, have a child that holds the connection, and tell when both are
 * so; for ever. */
static void live_as_rank_0(int ready, uint64_t epoch)
{
	setpgid(0, 0);
	join(0, epoch, LONG_NS);
	if (told(0) != 1)
		_exit(1);
	if (fork() != 0 && write(ready, "r", 1) != 1)
		_exit(1);
	close(ready);
	for (;;)
		pause();
}

static void a_killed_rank_has_left_a_child(void)
{
	uint64_t epoch = mesh_group(map, NULL).epoch;
	int ready[2], n = 0;
	char byte;
	pid_t pid;

	for (uint32_t i = 1; i < RANKS; i++)
		join(i, epoch, LONG_NS);
	EQ(pipe(ready), 0);
	pid = fork();
	if (pid == 0)
		live_as_rank_0(ready[1], epoch);
	close(ready[1]);
	EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	for (uint32_t i = 1; i < RANKS; i++)
		n += told(i);
	EQ(n, RANKS - 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	OK(has_moved(epoch));
	leave_all();
	they_meet();
	EQ(kill(-pid, SIGKILL), 0); /* the child has been there all the time */
}

static void a_detached_rank_has_left_a_child(void)
{
	uint64_t epoch = mesh_group(map, NULL).epoch, ticket = 0;
	uint8_t id[GPUMAP_MESH_ID_BYTES] = "an id";
	const struct gpumap_mesh_join ask = { .size = sizeof(ask),
					      .mesh = "m",
					      .group = "world",
					      .epoch = epoch,
					      .deadline_ns =
						      story_now() + LONG_NS,
					      .version = NCCL_NOW,
					      .id = id };
	struct gpumap *own = story_attach(&agent);
	pid_t child;

	for (uint32_t i = 1; i < RANKS; i++)
		join(i, epoch, LONG_NS);
	EQ(gpumap_mesh_join(own, &ask, id, &ticket), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	gpumap_detach(own);
	OK(has_moved(epoch));
	EQ(waitpid(child, NULL, WNOHANG), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	leave_all();
}

/* ---- many ---------------------------------------------------------------- */

/* The ids of many groups, each of rank 0 alone. */
static int publish_many(uint32_t i)
{
	static const uint32_t rank = 0;
	char name[16], names[GROUPS][16];
	struct gpumap_mesh_added added[GROUPS];
	struct gpumap_mesh_request request = { .size = sizeof(request),
					       .name = name,
					       .topology = GPUMAP_MESH_DATA,
					       .tp = 1,
					       .pp = 1,
					       .dp = 4,
					       .added = added,
					       .n_added = GROUPS };

	snprintf(name, sizeof(name), "many%u", i);
	for (uint32_t k = 0; k < GROUPS; k++) {
		snprintf(names[k], sizeof(names[k]), "g%u", k);
		added[k] =
			(struct gpumap_mesh_added){ .name = names[k],
						    .ranks = &rank,
						    .n = 1,
						    .backend =
							    GPUMAP_MESH_GLOO };
	}
	return gpumap_mesh_publish(map, &request);
}

static int be_one_more(uint32_t i, uint64_t *ret_ticket)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	uint8_t id[GPUMAP_MESH_ID_BYTES] = { 1 };
	char mesh[16], name[16];
	const struct gpumap_mesh_join ask = { .size = sizeof(ask),
					      .mesh = mesh,
					      .group = name,
					      .deadline_ns =
						      story_now() + LONG_NS,
					      .version = NCCL_NOW,
					      .id = id };
	struct gpumap_mesh_join now = ask;

	snprintf(mesh, sizeof(mesh), "many%u", i / GROUPS);
	snprintf(name, sizeof(name), "g%u", i % GROUPS);
	if (gpumap_mesh_group(map, mesh, name, &group, NULL, NULL, 0) != 0)
		return -ENOENT;
	now.epoch = group.epoch;
	return gpumap_mesh_join(map, &now, id, ret_ticket);
}

/* A client that moves an epoch as fast as it can wakes the others less often:
 * each wake is one turn of all clients that sleep until the map changes. */
static void few_are_woken(uint64_t *ticket)
{
	uint32_t before = gpumap_generation(map), seen;
	uint64_t since = story_now();
	int ret = 0, n = 0;

	for (; ret == 0 && n < 1000; n++) {
		ret = gpumap_mesh_leave(map, *ticket, GPUMAP_MESH_BROKEN);
		if (ret == 0)
			ret = be_one_more(0, ticket);
	}
	EQ(ret, 0);
	seen = gpumap_generation(map) - before;
	OK(seen > 0);
	since = story_now() - since;
	NOTE("%d moves, %u wakes in %" PRIu64 " us", n, seen, since / 1000);
	/* Once in five milliseconds, and now and then for other reasons. */
	OK(seen < since / 4000000 + 6);
	/* The last is told, too. */
	before = gpumap_generation(map);
	EQ(gpumap_mesh_leave(map, *ticket, GPUMAP_MESH_BROKEN), 0);
	EQ(gpumap_wait_change(map, before, story_now() + STORY_LIMIT_NS), 0);
	EQ(be_one_more(0, ticket), 0);
}

static void one_uid_is_so_many(void)
{
	static uint64_t tickets[MESHES * GROUPS + 1];
	uint32_t n = 0;
	int ret = 0;

	for (uint32_t i = 0; i < MESHES && ret == 0; i++)
		ret = publish_many(i);
	EQ(ret, 0);
	while (ret == 0 && n < MESHES * GROUPS) {
		ret = be_one_more(n, &tickets[n]);
		n += ret == 0;
	}
	EQ(n, MOST);
	EQ(ret, -EDQUOT);
	OK(strstr(gpumap_refusal(map), "leave some") != NULL);
	EQ(gpumap_mesh_leave(map, tickets[0], GPUMAP_MESH_BROKEN), 0);
	EQ(be_one_more(0, &tickets[0]), 0);
	EQ(be_one_more(n, &tickets[n]), -EDQUOT);
	few_are_woken(&tickets[0]);
	/* All that a mesh had is over with it, and counts no more. */
	for (uint32_t i = 0; i < MESHES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "many%u", i);
		ret = gpumap_mesh_release(map, name);
		EQ(ret, 0);
	}
	they_meet();
}

/* ---- points -------------------------------------------------------------- */

static bool start_with(const char *point)
{
	static char env[128];

	agent.env[0] = NULL;
	if (point != NULL) {
		snprintf(env, sizeof(env), "GM_POINT=%s", point);
		agent.env[0] = env;
	}
	return OK(agent_start(&agent));
}

/* None of them has been told when it dies, so none has the id. */
static void the_agent_dies_at(const char *point)
{
	uint64_t epoch;

	NOTE("%s", point);
	if (!start_with(point))
		return;
	epoch = mesh_group(map, NULL).epoch;
	join_all();
	EQ(agent_wait(&agent), -SIGKILL);
	EQ(all_told(1), 0);
	leave_all();
	if (!start_with(NULL))
		return;
	OK(mesh_group(map, NULL).epoch > epoch);
	they_meet();
	EQ(agent_kill(&agent, SIGTERM), 0);
}

/* All are there, and before any of them is told one is gone: the others are
 * told, and know by the epoch. */
static void a_rank_dies_at(const char *point, uint32_t rank, int n_told)
{
	uint64_t epoch;

	NOTE("%s, rank %u", point, rank);
	if (!start_with(point))
		return;
	epoch = mesh_group(map, NULL).epoch;
	join_all();
	if (OK(process_stopped(agent.pid))) {
		raw_close(&ranks[rank]);
		kill(agent.pid, SIGCONT);
		EQ(all_told(1), n_told);
		OK(has_moved(epoch));
	}
	leave_all();
	they_meet();
	EQ(agent_kill(&agent, SIGTERM), 0);
}

static void points(void)
{
	char point[64];

	for (uint32_t i = 1; i <= RANKS; i++) {
		snprintf(point, sizeof(point), "rendezvous_joined:kill:%u", i);
		the_agent_dies_at(point);
	}
	the_agent_dies_at("rendezvous_formed:kill");
	for (uint32_t i = 0; i < RANKS; i++) {
		a_rank_dies_at("rendezvous_formed:stop", i, RANKS - 1);
		snprintf(point, sizeof(point), "rendezvous_joined:stop:%u",
			 RANKS);
		a_rank_dies_at(point, i, RANKS - 1);
	}
}

TAP_CASE()
{
	int n;

	for (uint32_t i = 0; i < RANKS; i++)
		raw_init(&ranks[i]);
	agent_make(&agent, "[host]\nrows = 4\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent)) &&
	    OK((map = story_attach(&agent)) != NULL) &&
	    EQ(mesh_publish(map), 0)) {
		they_meet();
		nobody_waits_as_long_as_the_dead_would();
		a_killed_rank_has_left_a_child();
		a_detached_rank_has_left_a_child();
		one_uid_is_so_many();
		EQ(agent_kill(&agent, SIGTERM), 0);
		/* In the torture target GM_ROUNDS times. */
		n = getenv("GM_ROUNDS") ? story_rounds() : 1;
		for (int i = 0; POINTS && i < n; i++)
			points();
		if (!POINTS)
			SKIP(1, "needs --enable-testpoints");
	}
	gpumap_detach(map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
