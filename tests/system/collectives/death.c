/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks collectives while a process they need dies or stops: the worker of a
 * rank, the client, or the agent.  No client waits past its deadline, status 0
 * comes only with right data, every other status is one of the expected errors,
 * and the communicator can be renewed.
 */

#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/story_rows.h"
#include "tests/support/collective.h"

#define RANKS 3u
#define BATCH 6u /* collectives under way at once */

static struct agent agent;
static struct gpumap *map;
static struct gpumap_session *session;
static struct ranks group;

/* The batch mixes small collectives and collectives of many slices. */
static const struct shape shapes[] = {
	{ .op = GPUMAP_OP_ALL_REDUCE, .dtype = GPUMAP_DTYPE_I32, .n = 200 },
	{ .op = GPUMAP_OP_ALL_REDUCE, .dtype = GPUMAP_DTYPE_I32, .n = 300001 },
	{ .op = GPUMAP_OP_ALL_GATHER, .dtype = GPUMAP_DTYPE_I32, .n = 90001 },
	{ .op = GPUMAP_OP_REDUCE_SCATTER,
	  .dtype = GPUMAP_DTYPE_I32,
	  .n = 90001 },
	{ .op = GPUMAP_OP_BROADCAST, .dtype = GPUMAP_DTYPE_I32, .n = 300001 },
	{ .op = GPUMAP_OP_SEND,
	  .dtype = GPUMAP_DTYPE_I32,
	  .n = 300001,
	  .peer = 2 },
};

#define BYTES (UINT64_C(4) << 20) /* of a rank, for each of a batch */

static struct {
	int unborn, lost, wrong, odd, disturbed, ended[2];
	struct story_times back;
} sum;

static void close_all(void)
{
	gpumap_comm_close(group.comm);
	group.comm = NULL;
	gpumap_session_close(session);
}

static pid_t worker_of(uint32_t row)
{
	return (pid_t)story_device(map, row).worker_pid;
}

/* ---- a batch ------------------------------------------------------------- */

static struct ranks part_of(uint32_t i)
{
	struct ranks g = group;

	for (uint32_t r = 0; r < g.n; r++)
		g.memory[r] += i * BYTES;
	g.bytes = BYTES;
	return g;
}

static int32_t *words(char *memory)
{
	return (int32_t *)(void *)memory;
}

/* Rank r contributes round + r + i. */
static void fill(uint32_t i, int round)
{
	struct ranks g = part_of(i);
	const struct shape *s = &shapes[i];
	uint64_t n = parts_given(s, g.n) * s->n;

	for (uint32_t r = 0; r < g.n; r++)
		for (uint64_t k = 0; k < n; k++)
			words(given(&g, s, r))[k] =
				round + (int32_t)r + (int32_t)i;
}

static int32_t want(const struct shape *s, uint32_t i, int round, uint64_t k)
{
	int32_t base = round + (int32_t)i, n = (int32_t)group.n;

	switch (s->op) {
	case GPUMAP_OP_ALL_GATHER:
		return base + (int32_t)(k / s->n);
	case GPUMAP_OP_BROADCAST:
	case GPUMAP_OP_SEND:
		return base;
	default:
		return n * base + n * (n - 1) / 2;
	}
}

static bool is_right(uint32_t i, int round)
{
	struct ranks g = part_of(i);
	const struct shape *s = &shapes[i];
	uint64_t n = parts_gotten(s, g.n) * s->n;

	for (uint32_t r = 0; r < g.n; r++)
		for (uint64_t k = 0; is_gotten(s, r) && k < n; k++)
			if (words(gotten(&g, s, r))[k] != want(s, i, round, k))
				return false;
	return true;
}

static void submit_all(int round, uint64_t deadline_ns)
{
	for (uint32_t i = 0; i < BATCH; i++) {
		struct ranks g = part_of(i);

		g.deadline_ns = deadline_ns;
		fill(i, round);
		sum.unborn += collective_submit(&g, &shapes[i], i) != 0;
	}
}

static bool may_say(int32_t status, bool has_deadline)
{
	return status == 0 || status == -EIO || status == -ESTALE ||
	       (has_deadline && status == -ETIME);
}

/* Take all completions of the batch.  Each collective ends once. */
static void collect_all(int round, uint64_t deadline_ns)
{
	uint64_t patience = story_now() + STORY_LIMIT_NS;
	int32_t status[BATCH];
	uint32_t n = 0, seen = 0;

	while (n < BATCH) {
		struct gpumap_done done;

		if (gpumap_wait(session, &done, 1, patience) != 1) {
			sum.lost++;
			return;
		}
		if (done.cookie >= BATCH || (seen >> done.cookie & 1)) {
			sum.odd++;
			continue;
		}
		seen |= 1u << done.cookie;
		status[done.cookie] = done.status;
		n++;
	}
	for (uint32_t i = 0; i < BATCH; i++) {
		sum.odd += !may_say(status[i], deadline_ns != 0);
		sum.ended[status[i] == 0]++;
		if (status[i] == 0 && !is_right(i, round)) {
			NOTE("round %d: collective %u is wrong", round, i);
			sum.wrong++;
		}
	}
}

/* Renew the communicator, again whenever a worker ends meanwhile, and run a
 * barrier on it. */
static bool renew(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	const struct shape barrier = { .op = GPUMAP_OP_BARRIER };
	int ret;

	do
		ret = gpumap_comm_renew(group.comm);
	while ((ret == -ESTALE || ret == -ENODEV) && story_now() < until);
	if (!EQ(ret, 0)) {
		NOTE("%s", gpumap_refusal(map));
		return false;
	}
	return EQ(collective_submit(&group, &barrier, 99), 0) &&
	       EQ(collective_end(session, 99), 0);
}

static void tell(const char *what)
{
	EQ(sum.unborn, 0);
	EQ(sum.lost, 0);
	EQ(sum.odd, 0);
	EQ(sum.wrong, 0);
	EQ(sum.disturbed, 0);
	NOTE("%s: %d ended well, %d did not", what, sum.ended[1], sum.ended[0]);
	story_tell(&sum.back, "the group was there again");
	memset(&sum, 0, sizeof(sum));
}

/* ---- workers ------------------------------------------------------------- */

static void a_worker_is_killed(void)
{
	for (int round = 0; round < story_rounds(); round++) {
		uint32_t row = (uint32_t)round % RANKS;
		uint32_t next = (row + 1) % RANKS;
		pid_t pid = worker_of(row), other = worker_of(next);
		uint64_t killed;

		submit_all(round, 0);
		story_nap(story_moment(round, 1500));
		kill(pid, SIGKILL);
		killed = story_now();
		collect_all(round, 0);
		/* The batch may have ended before the worker died. */
		while (story_lives(pid))
			story_nap(1000);
		if (!renew())
			return;
		story_time(&sum.back, killed);
		sum.disturbed += worker_of(next) != other;
	}
	tell("a worker was killed");
}

/* A worker stops for good, or for a moment.  The deadline holds in both cases:
 * all have ended while the worker stands, and before gpumapd kills it for that.
 * A machine that is held up may be late, but not in every round. */
static void a_worker_stops(void)
{
	int stopped = 0, in_time = 0;

	for (int round = 0; round < story_rounds(); round++) {
		pid_t pid = worker_of((uint32_t)round % RANKS);
		bool for_good = round % 4 == 3;
		uint64_t deadline = story_now() + UINT64_C(400000000);

		/* The worker stops before its part begins, or somewhere in the
		 * middle. */
		if (round % 2)
			OK(process_stop(pid));
		submit_all(round, deadline);
		story_nap(story_moment(round, 1500));
		kill(pid, SIGSTOP);
		if (!for_good) {
			story_nap(story_moment(round, 20000));
			kill(pid, SIGCONT);
		}
		collect_all(round, deadline);
		stopped += for_good;
		in_time += for_good && process_state(pid) == 'T';
		if (for_good)
			kill(pid, round % 8 == 3 ? SIGCONT : SIGKILL);
		if (!renew())
			return;
	}
	NOTE("%d of %d ended in time", in_time, stopped);
	OK(stopped == 0 || in_time > 0);
	tell("a worker stopped");
}

/* ---- the client ---------------------------------------------------------- */

static void be_killed(int ready)
{
	const struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
				 .dtype = GPUMAP_DTYPE_I32,
				 .n = 100000,
				 .in_place = true };
	struct gpumap *own = story_attach(&agent);
	struct gpumap_session *mine;
	struct gpumap_done done[8];
	struct ranks g;

	/* The child reports through the pipe alone, so its checks print
	 * nothing. */
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	if (!own || gpumap_session_open(own, NULL, &mine) != 0 ||
	    !collective_open(mine, "ranks", 1 << 20, &g))
		_exit(1);
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;) {
		if (collective_submit(&g, &s, 1) == -EAGAIN)
			gpumap_wait(mine, done, 8, UINT64_MAX);
	}
}

/* Count the pages of communicators that the agent holds, and those of its
 * workers that this process may look at.  The page that all workers share has
 * a longer name and does not count. */
static int pages_held(void)
{
	int n = story_holds(agent.pid, "gpumap-comm ");

	for (uint32_t row = 0; row < RANKS; row++) {
		int held = story_holds(worker_of(row), "gpumap-comm ");

		n += held > 0 ? held : 0;
	}
	return n;
}

/* Wait until at most @most pages are held.  Returns how many are held. */
static int pages_left(int most)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int held = pages_held();

	while (held > most && story_now() < until) {
		story_nap(1000);
		held = pages_held();
	}
	return held;
}

/* gpumapd closes pages in a thread of its own, so the first count may include a
 * page of the communicator before.  A page leaked in each round would exceed
 * that. */
static void a_client_is_killed(void)
{
	int held = pages_held(), unborn = 0, left = 0;

	if (story_sees(worker_of(0), 1))
		OK(held > 0);
	for (int round = 0; round < story_rounds(); round++) {
		int ready[2];
		pid_t pid;
		char byte;

		if (pipe(ready) != 0)
			return;
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			be_killed(ready[1]);
		close(ready[1]);
		unborn += read(ready[0], &byte, 1) != 1;
		close(ready[0]);
		story_nap(story_moment(round, 4000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		/* Another session on the same rows must be able to continue. */
		submit_all(round, 0);
		collect_all(round, 0);
		left += pages_left(held) > held;
	}
	EQ(unborn, 0);
	EQ(left, 0);
	EQ(sum.ended[0], 0);
	tell("a client was killed");
}

/* ---- the agent ----------------------------------------------------------- */

static void the_agent_is_killed(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done;
	struct gpumap_device device;
	int n = 0, odd = 0, well = 0;
	pid_t pid = worker_of(1);
	bool was_ended;

	/* This process becomes the parent of the agent's children when the
	 * agent dies.  Otherwise their process group would be orphaned, and the
	 * kernel continues the stopped members of an orphaned group. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	OK(process_stop(pid));
	submit_all(1, 0);
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	/* On a machine that was held up for seconds, the agent may have ended
	 * the stopped worker before the agent was killed.  No other process
	 * could have ended it. */
	device = story_device(map, 1);
	was_ended = device.state != GPUMAP_DEVICE_READY ||
		    (pid_t)device.worker_pid != pid;
	if (was_ended)
		NOTE("row 1 was in state %u: %s", device.state, device.reason);
	while (n < (int)BATCH && gpumap_wait(session, &done, 1, until) == 1) {
		odd += done.status != 0 && done.status != -ECONNRESET &&
		       done.status != -EIO &&
		       !(was_ended && done.status == -ESTALE);
		well += done.status == 0;
		n++;
	}
	kill(pid, SIGCONT); /* to notice that its agent is gone */
	OK(waitpid(pid, NULL, 0) == pid || was_ended);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	EQ(n, (int)BATCH);
	EQ(well, 0);
	EQ(odd, 0);
	EQ(gpumap_comm_close(group.comm), -ECONNRESET);
	gpumap_session_close(session);
	gpumap_detach(map);
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))) ||
	    !EQ(gpumap_session_open(map, NULL, &session), 0) ||
	    !collective_open(session, "ranks", BATCH * BYTES, &group))
		return;
	submit_all(2, 0);
	collect_all(2, 0);
	EQ(sum.ended[1], (int)BATCH);
	tell("the agent was killed");
}

/* ---- marked points ------------------------------------------------------- */

static bool begin(void)
{
	return OK((map = story_attach(&agent))) &&
	       EQ(gpumap_session_open(map, NULL, &session), 0) &&
	       collective_open(session, "ranks", BATCH * BYTES, &group);
}

/* Use the communicator until a process has died at the marked point and two
 * batches after that have ended well. */
static void use_until_right(const char *ticket)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int well = 0;

	for (int round = 0; well < 2 && story_now() < until; round++) {
		memset(&sum, 0, sizeof(sum));
		submit_all(round, 0);
		collect_all(round, 0);
		EQ(sum.unborn + sum.lost + sum.odd + sum.wrong, 0);
		well = sum.ended[0] == 0 && access(ticket, F_OK) != 0 ? well + 1
								      : 0;
		if (!renew())
			break;
	}
	EQ(access(ticket, F_OK), -1);
	OK(well >= 2);
}

/* Opening a communicator may be refused while a worker of it dies. */
static bool begin_at(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret;

	group = (struct ranks){ 0 };
	if (!OK((map = story_attach(&agent))) ||
	    !EQ(gpumap_session_open(map, NULL, &session), 0))
		return false;
	do
		ret = gpumap_comm_open(session, "ranks", NULL, &group.comm);
	while (ret == -ESTALE && story_now() < until);
	group.session = session;
	group.n = RANKS;
	for (uint32_t r = 0; r < RANKS; r++) {
		void *memory = NULL;

		EQ(gpumap_alloc(session, r, BATCH * BYTES, &memory), 0);
		group.memory[r] = memory;
	}
	return EQ(ret, 0);
}

static const char root_config[] = "[host]\nrows = 3\n"
				  "[worker]\nuser = root\n";

static void a_worker_dies_at(const char *point)
{
	char ticket[128];

	stage_death(&agent, root_config, point, ticket);
	if (OK(agent_start(&agent)) && begin_at())
		use_until_right(ticket);
	close_all();
	stage_recovered(&agent, map, ticket);
}

static void workers_may_die_at_any_point(void)
{
	static const char *const points[] = {
		"group_came_on",      "group_waits",   "group_ending",
#ifdef STAGE_CUDA
		"group_windows_made", "relay_fetched", "relay_stored",
		"group_windows_gone",
#else
		"group_joined",  "group_forgotten",
#endif
	};

	if (!stage_has_points())
		return;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		for (int n = stage_strikes(); n > 0; n--)
			a_worker_dies_at(points[i]);
	memset(&sum, 0, sizeof(sum));
}

/* A client opens a communicator and closes it, or loses a worker while it uses
 * one.  Each collective ends once.  None has status 0 unless it ended before
 * the death. */
static void use_while_the_agent_dies(const char *point)
{
	bool opens = strcmp(point, "comm_open") == 0;
	bool breaks = strcmp(point, "comm_broken") == 0;
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done;
	uint32_t n = 0;

	group = (struct ranks){ 0 };
	if (!OK((map = story_attach(&agent))) ||
	    !EQ(gpumap_session_open(map, NULL, &session), 0))
		return;
	if (!breaks) {
		EQ(gpumap_comm_open(session, "ranks", NULL, &group.comm),
		   opens ? -ECONNRESET : 0);
	} else if (collective_open(session, "ranks", BATCH * BYTES, &group)) {
		submit_all(4, 0);
		kill(worker_of(1), SIGKILL);
		for (; n < BATCH && gpumap_wait(session, &done, 1, until) == 1;
		     n++)
			sum.odd += !may_say(done.status, false) &&
				   done.status != -ECONNRESET;
		EQ(n, BATCH);
		EQ(sum.odd + sum.unborn, 0);
		/* All collectives may have ended before the agent learns of the
		 * worker's death. */
		while (story_lives(agent.pid) && story_now() < until)
			story_nap(1000);
	}
	EQ(gpumap_comm_close(group.comm), opens ? 0 : -ECONNRESET);
	EQ(agent_wait(&agent), -SIGKILL);
	gpumap_session_close(session);
	gpumap_detach(map);
}

/* The next agent has no communicator, page or descriptor of the one before. */
static void the_agent_dies_at(const char *point)
{
	char ticket[128];
	uint64_t until;

	stage_death(&agent, root_config, point, ticket);
	memset(&sum, 0, sizeof(sum));
	if (!OK(agent_start(&agent)))
		return;
	use_while_the_agent_dies(point);
	EQ(access(ticket, F_OK), -1);
	agent.env[STAGE_ENV] = NULL;
	if (!OK(agent_start(&agent)) || !begin())
		return;
	if (story_sees(worker_of(0), 1))
		OK(pages_held() > 0);
	memset(&sum, 0, sizeof(sum));
	submit_all(3, 0);
	collect_all(3, 0);
	EQ(sum.ended[1], (int)BATCH);
	memset(&sum, 0, sizeof(sum));
	close_all();
	until = story_now() + STORY_LIMIT_NS;
	while (pages_held() != 0 && story_now() < until)
		story_nap(1000);
	EQ(pages_held(), 0);
	stage_recovered(&agent, map, ticket);
}

static void the_agent_may_die_at_any_point(void)
{
	static const char *const points[] = { "comm_open", "comm_gone",
					      "comm_broken" };

	if (!stage_has_points())
		return;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		for (int n = stage_strikes(); n > 0; n--)
			the_agent_dies_at(points[i]);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 3\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))) ||
	    !EQ(collective_mesh(map, "ranks", RANKS), 0) ||
	    !EQ(gpumap_session_open(map, NULL, &session), 0) ||
	    !collective_open(session, "ranks", BATCH * BYTES, &group)) {
		agent_show_log(&agent);
		return tap_done();
	}
	submit_all(0, 0);
	collect_all(0, 0);
	EQ(sum.ended[1], (int)BATCH);
	memset(&sum, 0, sizeof(sum));
	a_worker_is_killed();
	a_worker_stops();
	a_client_is_killed();
	the_agent_is_killed();
	close_all();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	workers_may_die_at_any_point();
	the_agent_may_die_at_any_point();
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}
