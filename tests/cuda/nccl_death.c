/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A process dies, hangs or leaves while cards do collectives among themselves,
 * by the stand-in for NCCL: a rank, the client, the agent, NCCL itself.  No
 * rank waits for ever, nothing is left over, and a new communicator can be
 * opened.
 */

#define STAGE_CUDA 1

#include <sys/wait.h>

#include "tests/support/collective_nccl.h"
#include "tests/support/process.h"

/* The sender has ended before its receivers. */
static const struct shape spread = { .op = GPUMAP_OP_BROADCAST,
				     .dtype = GPUMAP_DTYPE_I32,
				     .n = MIB / 4 + 3 };

/* Two of them are at it, the others are not. */
static const struct shape pair = { .op = GPUMAP_OP_SEND,
				   .dtype = GPUMAP_DTYPE_I32,
				   .n = MIB / 4 + 3,
				   .root = 1,
				   .peer = 2 };

/* ---- what goes wrong ----------------------------------------------------- */

/* The first that goes by NCCL fails, so others did not: those of memory that is
 * not the cards' own. */
static void an_error_ends_it(const struct shape *s)
{
	struct ranks g;

	if (!nccl_begin("async=1", "nccl = yes\n"))
		return;
	for (int i = 0; i < 2 && nccl_open(session, "cards", 10 * MIB, &g);
	     i++) {
		EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
		EQ(collective_once(&g, &whole, 97), 0);
		EQ(collective_once(&g, &pair, 97), 0);
		EQ(cards_submit(&g, s, 1), 0);
		EQ(collective_end(session, 1), -EIO);
		EQ(cards_submit(&g, &whole, 1), -ESTALE);
		nccl_close(&g);
	}
	nccl_end();
}

/* gpumapd ends who does not come back from an abort. */
static void an_abort_hangs(void)
{
	uint32_t restarts;
	struct ranks g;

	if (!nccl_begin("async=1 abort=60000", "nccl = yes\n"))
		return;
	restarts = story_device(map, 1).restarts;
	if (nccl_open(session, "two", 10 * MIB, &g)) {
		EQ(cards_submit(&g, &whole, 1), 0);
		EQ(collective_end(session, 1), -EIO);
		OK(story_back(map, 1, restarts));
		nccl_close(&g);
	}
	if (nccl_open(session, "two", 10 * MIB, &g)) {
		EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
		nccl_close(&g);
	}
	nccl_end();
}

/* In a life of the agent in which an abort ends when all ranks have begun
 * theirs: a rank that is stopped, or has ended, does not begin its abort, and
 * the others wait until gpumapd ends them. */
static bool one_stays(const char *fault, const struct shape *s,
		      uint32_t slow_ms, int status)
{
	bool stayed = true;
	struct ranks g;

	if (!nccl_begin(fault, "nccl = yes\n"))
		return true;
	if (nccl_open(session, "cards", 20 * MIB, &g)) {
		EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
		if (slow_ms) {
			nccl_slow_down(1, slow_ms);
			g.deadline_ns = story_now() + 100000000;
		}
		EQ(cards_submit(&g, s, 3), 0);
		EQ(collective_end(session, 3), status);
		cuda_scene_mend(&stage_scene);
		stayed = nccl_one_stays();
		nccl_close(&g);
	}
	nccl_end();
	return stayed;
}

/* gpumapd gives an abort ten seconds: a machine that stands still for so long
 * may make it end one of those that wait, but not always. */
static void all_leave_together(const char *fault, const struct shape *s,
			       uint32_t slow_ms, int status)
{
	int tries = 0;

	while (tries < 5 && one_stays(fault, s, slow_ms, status))
		tries++;
	OK(tries < 5);
}

/* The time of all is up while one is at it. */
static void time_is_up(const struct shape *s)
{
	struct ranks g;

	if (!nccl_open(session, "cards", 20 * MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	nccl_slow_down(s->root, 400);
	g.deadline_ns = story_now() + 100000000;
	EQ(cards_submit(&g, s, 2), 0);
	EQ(collective_end(session, 2), -ETIME);
	EQ(cards_submit(&g, &whole, 3), -ESTALE);
	cuda_scene_mend(&stage_scene);
	g.deadline_ns = 0;
	EQ(gpumap_comm_renew(g.comm), 0);
	nccl_is_well(&g);
	nccl_close(&g);
}

/* The sender or the receiver is stopped: the other one waits for no longer than
 * its limit. */
static void one_of_two_hangs(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);
	struct ranks g;

	if (!nccl_open(session, "cards", 20 * MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	OK(process_stop((pid_t)device.worker_pid));
	g.deadline_ns = story_now() + 100000000;
	EQ(cards_submit(&g, &pair, 2), 0);
	EQ(collective_end(session, 2), -ETIME);
	EQ(cards_submit(&g, &whole, 3), -ESTALE);
	/* gpumapd ends who stands. */
	OK(story_back(map, row, device.restarts));
	nccl_close(&g);
	if (!nccl_open(session, "cards", 20 * MIB, &g))
		return;
	nccl_is_well(&g);
	nccl_close(&g);
}

/* Under way between two others or not. */
static void one_dies_of_a_pair(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);
	struct ranks g;
	int status;

	if (!nccl_open(session, "cards", 20 * MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	nccl_slow_down(pair.root, 8000);
	EQ(cards_submit(&g, &pair, 1), 0);
	story_nap(20000);
	kill((pid_t)device.worker_pid, SIGKILL);
	status = collective_end(session, 1);
	OK(status == -EIO || status == -ESTALE);
	EQ(cards_submit(&g, &pair, 3), -ESTALE);
	cuda_scene_mend(&stage_scene);
	OK(story_back(map, row, device.restarts));
	nccl_close(&g);
}

static void a_worker_is_killed(const struct shape *s)
{
	int odd = 0, well = 0;

	for (int round = 0; round < story_rounds(); round++) {
		uint32_t row = (uint32_t)round % 4;
		struct gpumap_device device = story_device(map, row);
		struct ranks g;
		int status;

		if (!nccl_open(session, "cards", 20 * MIB, &g))
			return;
		EQ(cards_submit(&g, s, 1), 0);
		story_nap(story_moment(round, 6000));
		kill((pid_t)device.worker_pid, SIGKILL);
		status = collective_end(session, 1);
		odd += status != 0 && status != -EIO && status != -ESTALE;
		well += status == 0;
		OK(story_back(map, row, device.restarts));
		nccl_close(&g);
	}
	EQ(odd, 0);
	NOTE("%d of %d were over before", well, story_rounds());
}

/* ---- who leaves ---------------------------------------------------------- */

static void is_back(uint32_t row)
{
	STORY_WAIT_WHILE(story_device(map, row).state != GPUMAP_DEVICE_READY);
	EQ(story_device(map, row).state, GPUMAP_DEVICE_READY);
}

/* Work under way has a second, and then the row leaves all the same, and NCCL
 * gives back all of its card. */
static void a_card_is_drained(const struct shape *s, uint32_t ms)
{
	struct nccl_drain drain;
	struct ranks g;
	int status;

	NOTE("drained beside a card that takes %u ms", ms);
	if (!nccl_open(session, "cards", 20 * MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	if (ms)
		nccl_slow_down(s->peer, ms);
	EQ(cards_submit(&g, s, 1), 0);
	story_nap(20000);
	if (!nccl_drain_begin(1, &drain))
		return;
	status = collective_end(session, 1);
	nccl_is_left(1);
	/* A rank may be through with it while others are not, which it waits
	 * for: of a pair the one that gives. */
	OK(status == -EIO || (status == 0 && (ms == 0 || s == &pair)));
	cuda_scene_mend(&stage_scene);
	EQ(gpumap_comm_renew(g.comm), -ENODEV);
	EQ(gpumap_comm_flags(g.comm), 0);
	EQ(gpumap_device_undrain(map, 1), 0);
	EQ(nccl_drain_end(&drain), -ECANCELED);
	is_back(1);
	nccl_close(&g);
	if (!nccl_open(session, "cards", 20 * MIB, &g))
		return;
	nccl_is_well(&g);
	nccl_close(&g);
}

/* Another program opens a group of all cards, says so, and is at it until it is
 * killed. */
static void be_killed(int ready)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE,
					    .arena_bytes = 4 * MIB };
	const struct shape all = { .op = GPUMAP_OP_ALL_REDUCE,
				   .dtype = GPUMAP_DTYPE_I32,
				   .n = 10000 };
	const struct shape two = { .op = GPUMAP_OP_SEND,
				   .dtype = GPUMAP_DTYPE_I32,
				   .n = 10000,
				   .root = 3 };
	struct gpumap_done done[8];
	struct ranks g;

	/* The process reports by the pipe alone. */
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	map = story_attach(&agent);
	if (map == NULL || gpumap_session_open(map, &opts, &session) != 0 ||
	    write(ready, "", 1) != 1 || !nccl_open(session, "cards", MIB, &g) ||
	    gpumap_comm_flags(g.comm) != GPUMAP_COMM_NCCL ||
	    write(ready, "", 1) != 1)
		_exit(1);
	for (int i = 0;; i++) {
		if (cards_submit(&g, i % 2 ? &two : &all, 1) == -EAGAIN)
			gpumap_wait(session, done, 8, UINT64_MAX);
	}
}

/* While its cards meet, or while they are at it. */
static void a_client_is_killed(bool meets)
{
	int unborn = 0, rounds = story_rounds();

	for (int round = 0; round < rounds; round++) {
		uint64_t until = story_now() + STORY_LIMIT_NS;
		bool has_nccl = false;
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
		for (int i = meets ? 1 : 0; i < 2; i++)
			unborn += read(ready[0], &byte, 1) != 1;
		story_nap(story_moment(round, meets ? 60000 : 4000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(ready[0]);
		/* No session has the rows soon. */
		while (!has_nccl && story_now() < until) {
			struct ranks g;

			if (!nccl_open(session, "cards", 10 * MIB, &g))
				return;
			has_nccl = gpumap_comm_flags(g.comm);
			EQ(cards_once(&g, &whole, 97), 0);
			nccl_close(&g);
		}
		OK(has_nccl);
	}
	EQ(unborn, 0);
}

/* ---- the agent ----------------------------------------------------------- */

static bool is_over(const uint32_t pids[4])
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	for (uint32_t row = 0; row < 4; row++)
		while (story_lives((pid_t)pids[row]))
			if (story_now() > until)
				return false;
			else
				story_nap(1000);
	return true;
}

/* One that drains gives all back before it ends.  "strict" has NCCL look. */
static void nothing_is_left(void)
{
	struct ranks g;

	if (!nccl_begin("strict", "nccl = yes\n") ||
	    !nccl_open(session, "cards", 10 * MIB, &g))
		return;
	nccl_is_well(&g);
	EQ(agent_kill(&agent, SIGTERM), 0);
	OK(agent_logged(&agent, "event=worker_ended"));
	OK(!agent_logged(&agent, "exited with status 77"));
	EQ(gpumap_comm_close(g.comm), -ECONNRESET);
	gpumap_session_close(session);
	gpumap_detach(map);
}

/* With a group that rests or is at it.  Nothing is left on the cards, and the
 * next agent's meet. */
static void the_agent_dies(bool is_busy)
{
	uint32_t pids[4];
	struct ranks g;
	int status;

	if (!nccl_begin("", "nccl = yes\n") ||
	    !nccl_open(session, "cards", 10 * MIB, &g))
		return;
	nccl_is_well(&g);
	for (uint32_t row = 0; row < 4; row++)
		pids[row] = story_device(map, row).worker_pid;
	if (is_busy) {
		nccl_slow_down(2, 8000);
		EQ(cards_submit(&g, &whole, 5), 0);
		story_nap(20000);
	}
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	if (is_busy) {
		status = collective_end(session, 5);
		OK(status == -ECONNRESET || status == -EIO);
	}
	OK(is_over(pids));
	cuda_scene_mend(&stage_scene);
	EQ(stage_scene.hw.board->n_notes, 0);
	EQ(gpumap_comm_renew(g.comm), -ECONNRESET);
	EQ(gpumap_comm_close(g.comm), -ECONNRESET);
	gpumap_session_close(session);
	gpumap_detach(map);
	if (!nccl_start())
		return;
	if (nccl_open(session, "cards", 10 * MIB, &g)) {
		nccl_is_well(&g);
		nccl_close(&g);
	}
	nccl_end();
}

/* ---- marked points ------------------------------------------------------- */

/* Open and use it until a process has died and the result is as it should be:
 * right, or an error that is the same for each rank. */
static void use_until_right(const char *ticket, const struct shape *s,
			    bool fails)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	bool right = false;

	while ((!right || access(ticket, F_OK) == 0) && story_now() < until) {
		struct ranks g;
		int status;

		if (!nccl_open(session, "cards", 20 * MIB, &g))
			break;
		status = cards_submit(&g, s, 1);
		if (status == 0)
			status = collective_end(session, 1);
		right = status == (fails ? -EIO : 0);
		nccl_close(&g);
	}
	OK(right && access(ticket, F_OK) != 0);
}

/* A worker that dies where it meets, begins, or is to abort. */
static void a_worker_may_die_at_any_point(void)
{
	static const struct {
		const char *point, *fault;
		const struct shape *shape;
	} marks[] = { { "clique_met", "", &whole },
		      { "clique_starts", "", &whole },
		      { "clique_starts", "", &pair },
		      { "clique_parted", "", &whole },
		      { "clique_parted", "", &pair },
		      { "clique_aborts", "async=1", &whole },
		      { "clique_aborts", "async=1", &pair },
		      { "clique_follows", "async=1", &pair },
		      { "clique_aborted", "", &whole },
		      { "clique_aborted", "async=1", &whole } };

	if (!stage_has_points())
		return;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		char what[96], file[128], ticket[160];
		FILE *made;

		if (!nccl_prepare(marks[i].fault, "nccl = yes\n",
				  "[host]\nrows = 1\n[worker]\nuser = root\n"))
			return;
		NOTE("at %s", marks[i].point);
		snprintf(file, sizeof(file), "%s/ticket", agent.dir);
		snprintf(what, sizeof(what), "GM_POINT=%s:kill",
			 marks[i].point);
		snprintf(ticket, sizeof(ticket), "GM_POINT_TICKET=%s", file);
		agent.env[STAGE_ENV + 1] = what;
		agent.env[STAGE_ENV + 2] = ticket;
		agent.env[STAGE_ENV + 3] = NULL;
		made = fopen(file, "w");
		if (made != NULL)
			fclose(made);
		if (!nccl_start())
			return;
		use_until_right(file, marks[i].shape,
				marks[i].fault[0] != '\0');
		unlink(file);
		nccl_end();
	}
}

TAP_CASE()
{
	if (!nccl_begin("", "nccl = yes\n"))
		return tap_done();
	time_is_up(&whole);
	time_is_up(&pair);
	one_of_two_hangs(pair.root);
	one_of_two_hangs(pair.peer);
	a_worker_is_killed(&whole);
	a_worker_is_killed(&pair);
	one_dies_of_a_pair(pair.root);
	one_dies_of_a_pair(pair.peer);
	one_dies_of_a_pair(0);
	a_card_is_drained(&whole, 0);
	a_card_is_drained(&whole, 4000);
	a_card_is_drained(&pair, 4000);
	a_client_is_killed(false);
	nccl_end();
	if (nccl_begin("slow=30", "nccl = yes\n")) {
		a_client_is_killed(true);
		nccl_end();
	}
	an_error_ends_it(&whole);
	an_error_ends_it(&pair);
	an_abort_hangs();
	all_leave_together("together tells", &spread, 600, -ETIME);
	all_leave_together("async=1 together tells", &pair, 0, -EIO);
	nothing_is_left();
	the_agent_dies(false);
	the_agent_dies(true);
	a_worker_may_die_at_any_point();
	stage_end(&agent);
	return tap_done();
}
