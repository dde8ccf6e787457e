/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the system after a process died while memory is allocated, filled,
 * shared and scattered: a worker, the agent or the client, at each marked
 * instant, and in a build without marks at random ones.  All memory of the
 * client is given back, and the next client can have all of it and gets right
 * results.
 *
 *	kill_points [MARK]
 *
 *	GM_ROUNDS	as of check-torture: times at each mark instead of once
 *
 * With STAGE_CUDA the rows are cards, and their marks come first.
 */

#include <sys/wait.h>

#include "tests/support/story_rows.h"
#include "tests/support/dice.h"
#include "tests/support/kill_points_client.h"
#include "tests/support/raw.h"

#define LOAD      "[load]\ndepth = 2\nread = 64K\n"
#define WORKER_IS "[worker]\nuser = root\n"

#define ROUNDS    1 /* at each mark in make check */

#ifdef STAGE_CUDA
#define CONFIG "[agent]\nrefresh = 100ms\n[host]\nenabled = no\n" LOAD WORKER_IS
#else
#define CONFIG "[host]\nrows = 2\n" LOAD WORKER_IS
#endif

enum who { WORKER, AGENT, CLIENT };

struct mark {
	const char *name;
	enum who who;
	bool may_miss; /* reached or not, depending on timing */
	bool behind;   /* reached only after the worker of row 1 was killed */
	bool offends;  /* reached only after a client broke the contract */
	bool of_cards; /* reached on cards alone */
	const char *fault; /* fault of the card of row 1 */
	const char *says;  /* text that the agent must have logged */
};

static const struct mark marks[] = {
#ifdef STAGE_CUDA
	{ "flight_taken", .who = WORKER, .of_cards = true },
	{ "flight_sliced", .who = WORKER, .of_cards = true },
	{ "load_copying", .who = WORKER, .of_cards = true },
	/* The agent must log the worker's last report. */
	{ "worker_failed", .who = WORKER, .of_cards = true,
	  .fault = "copy: sticky 716",
	  .says = "row=1 state=FAILED reason=\"CUDA 716 MISALIGNED_ADDRESS" },
	{ "cuda_row_out", .who = AGENT, .of_cards = true, .fault = "lost" },
	{ "standby_ready", .who = AGENT, .of_cards = true, .behind = true },
#else
	{ "worker_taken", .who = WORKER },
	{ "worker_sliced", .who = WORKER },
	{ "worker_sent", .who = WORKER },
#endif
	{ "worker_opened", .who = WORKER },
	{ "worker_incarnate", .who = WORKER },
	{ "worker_adopted", .who = WORKER },
	{ "worker_stalled", .who = WORKER },
	{ "worker_given", .who = WORKER },
	{ "worker_advanced", .who = WORKER },
	{ "worker_half_published", .who = WORKER },
	{ "worker_published", .who = WORKER },
	{ "worker_violated", .who = WORKER, .offends = true },
	{ "worker_wake_counted", .who = WORKER, .may_miss = true },
	{ "worker_waits", .who = WORKER, .may_miss = true },
	{ "worker_told", .who = WORKER, .may_miss = true },
	{ "worker_detached", .who = WORKER },
	{ "load_begun", .who = WORKER },
	{ "load_reading", .who = WORKER },
	{ "load_copied", .who = WORKER },
	{ "load_ending", .who = WORKER },
	{ "worker_lent", .who = WORKER },
	{ "worker_borrowed", .who = WORKER },
	{ "worker_fetches", .who = WORKER },
	{ "worker_fetched", .who = WORKER },
	{ "worker_stored", .who = WORKER },
	{ "export_held", .who = AGENT },
	{ "export_abandoned", .who = AGENT },
	{ "peer_mapping_open", .who = AGENT },
	{ "peer_mapping_gone", .who = AGENT },
	{ "peer_fetch_begun", .who = AGENT },
	{ "worker_request_asked", .who = AGENT },
	{ "attachment_offered", .who = AGENT },
	{ "share_claimed", .who = AGENT },
	{ "share_made", .who = AGENT },
	{ "share_opened", .who = AGENT },
	{ "share_ended", .who = AGENT },
	{ "session_opened", .who = AGENT },
	{ "session_queue_opened", .who = AGENT },
	{ "session_ended", .who = AGENT },
	{ "session_gone", .who = AGENT },
	{ "session_released", .who = AGENT },
	{ "registration_held", .who = AGENT },
	{ "registration_gone", .who = AGENT },
	{ "submit_entry_visible", .who = CLIENT },
	{ "submit_second_visible", .who = CLIENT },
	{ "submit_done", .who = CLIENT },
	{ "cancel_visible", .who = CLIENT },
	{ "cancel_job_visible", .who = CLIENT },
	{ "model_submitted", .who = CLIENT },
	/* The recovery process, or the next worker. */
	{ "worker_ready", .who = WORKER, .behind = true },
	{ "recover_posted", .who = WORKER, .behind = true },
	{ "end_given", .who = WORKER, .behind = true },
	{ "recover_advanced", .who = WORKER, .behind = true },
	{ "worker_recovered", .who = WORKER, .behind = true },
	{ "supervise_died", .who = AGENT, .behind = true },
	{ "supervise_recovering", .who = AGENT, .behind = true },
	{ "attachment_recovered", .who = AGENT, .behind = true },
	{ "supervise_recovered", .who = AGENT, .behind = true },
	{ "supervise_spawned", .who = AGENT, .behind = true },
	{ "supervise_ready", .who = AGENT, .behind = true },
	{ "row_state_visible", .who = AGENT, .behind = true },
};

#define MARKS (sizeof(marks) / sizeof(marks[0]))

static struct agent agent;
static char socket_path[160];
static bool marked; /* kill at marks, not at random instants */
static int died[MARKS], lives[MARKS];

/* Descriptors of the agent and of the workers, after a client in a run without
 * a death. */
static int held, held_by[ROWS];

/* ---- the client ---------------------------------------------------------- */

/* May a client get this status when its worker or agent has died? */
static bool is_known(int ret)
{
	static const int known[] = { 0,       -EIO,          -ESTALE,
				     -ENODEV, -ECONNRESET,   -ESHUTDOWN,
				     -ENOENT, -ECONNREFUSED, -EAGAIN };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (ret == known[i])
			return true;
	return false;
}

/* Post an entry that no client may submit.  The entry ends once: with the
 * session, or with the status of a dead worker's entries. */
static bool offend(struct raw *c)
{
	struct gm_entry e;
	int32_t status;
	uint32_t at;

	if (raw_open_queue(c, socket_path, 0, 16, GM_PAGE) != 0)
		return false;
	e = raw_entry(&c->row[0], 0xee);
	status = raw_do(c, &c->row[0], &e);
	if ((status == -ECONNRESET || status == -EIO) &&
	    !raw_take(&c->row[0], &at, &status))
		return true;
	NOTE("who broke the contract was told %d", status);
	return false;
}

/* Run the client, in a process of its own, which may be killed. */
static int live(const struct mark *m, const char *point, const char *ticket)
{
	struct raw offender;
	struct player p;
	struct gpumap *map;
	int ret;

	if (point) {
		setenv("GM_POINT", point, 1);
		setenv("GM_POINT_TICKET", ticket, 1);
	}
	raw_init(&offender);
	if (marked && m->offends && !offend(&offender))
		return 4;
	map = story_attach(&agent);
	/* The card's fault may end the agent before this client attaches. */
	if (!map)
		return marked && m->who == AGENT && m->fault ? 0 : 2;
	ret = play(map, &p, marked && m->behind ? ticket : NULL);
	gpumap_detach(map);
	raw_close(&offender);
	if (!is_known(ret))
		NOTE("%s: %d", p.at, ret);
	if (ret == 0 && !p.right)
		NOTE("not all bytes are right");
	if (p.odd)
		NOTE("an entry did not end as it should");
	if (marked && m->behind && !p.widowed)
		return 3;
	return is_known(ret) && p.odd == 0 && (ret != 0 || p.right) ? 0 : 1;
}

/* ---- after the death ----------------------------------------------------- */

static void nobody_has_anything(struct gpumap *map)
{
	STORY_WAIT_WHILE(gpumap_usage_list(map, NULL, 0) != 0);
	EQ(gpumap_usage_list(map, NULL, 0), 0);
}

/* Wait until a process holds at most @most descriptors, for a closed one may
 * take a moment. */
static void holds_no_more(pid_t pid, int most, const char *who)
{
	STORY_WAIT_WHILE(story_holds(pid, NULL) > most);
	if (!OK(story_holds(pid, NULL) <= most))
		NOTE("%s has %d descriptors, %d without a death", who,
		     story_holds(pid, NULL), most);
}

static void nothing_more_is_held(const struct gpumap *map)
{
	bool is_first = held == 0;

	if (is_first)
		held = story_holds_at_rest(agent.pid);
	holds_no_more(agent.pid, held, "the agent");
	for (uint32_t row = 0; row < ROWS; row++) {
		pid_t pid = (pid_t)story_device(map, row).worker_pid;

		if (!story_sees(pid, 1))
			continue;
		if (is_first)
			held_by[row] = story_holds_at_rest(pid);
		holds_no_more(pid, held_by[row], "a worker");
	}
}

/* The next client finds everything in order. */
static void all_is_well(bool worker_died)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap *map = story_attach(&agent);
	uint32_t ready = 0, restarts = 0;
	struct player p;

	if (!OK(map))
		return;
	while (story_now() < until &&
	       (ready < ROWS || (worker_died && restarts == 0))) {
		ready = restarts = 0;
		for (uint32_t row = 0; row < ROWS; row++) {
			struct gpumap_device d = story_device(map, row);

			ready += d.state == GPUMAP_DEVICE_READY;
			restarts += d.restarts;
		}
		story_nap(500);
	}
	if (!EQ(play(map, &p, NULL), 0))
		NOTE("%s: %s", p.at, gpumap_refusal(map));
	OK(p.right);
	nobody_has_anything(map);
	for (uint32_t row = 0; row < ROWS; row++)
		story_lets_go((pid_t)story_device(map, row).worker_pid,
			      "agent-load.");
	shards_let_go(map);
	EQ(gpumap_share_list(map, NULL, 0), 0);
	nothing_more_is_held(map);
	gpumap_detach(map);
}

/* ---- runs ---------------------------------------------------------------- */

/*
 * Kill the worker of a row, the agent, or the client.  Returns when the kernel
 * has finished with the process: an agent that is still exiting counts as
 * alive, and would not be started again.
 */
static void kill_somebody(int round, pid_t client)
{
	struct gpumap *map = story_attach(&agent);
	pid_t whom = client;

	if (map && round % 3 == WORKER)
		whom = (pid_t)story_device(map, (uint32_t)dice(ROWS))
			       .worker_pid;
	else if (round % 3 == AGENT)
		whom = agent.pid;
	gpumap_detach(map);
	story_nap(story_moment(round, 30000));
	if (whom > 0)
		kill(whom, SIGKILL);
	while (whom > 0 && story_lives(whom))
		story_nap(100);
}

#ifdef STAGE_CUDA

static uint32_t card_of_row_1;

static void befall(const char *fault)
{
	struct gpumap *map = fault ? story_attach(&agent) : NULL;
	struct gpumap_device device;
	uint64_t copies;
	char plan[64];

	if (!fault || !OK(map))
		return;
	device = story_device(map, 1);
	card_of_row_1 = cuda_scene_gpu(&stage_scene, &device);
	copies = cuda_scene_copies(&stage_scene, card_of_row_1);
	if (strstr(fault, "copy"))
		snprintf(plan, sizeof(plan), "row %u: copy %u: %s",
			 card_of_row_1, (uint32_t)copies + 1,
			 strstr(fault, "sticky"));
	else
		snprintf(plan, sizeof(plan), "row %u: %s", card_of_row_1,
			 fault);
	cuda_scene_add(&stage_scene, "%s", plan);
	gpumap_detach(map);
}

static void mend(const char *fault)
{
	if (!fault)
		return;
	cuda_scene_mend(&stage_scene);
	cuda_scene_add(&stage_scene, "row %u: back", card_of_row_1);
}

/* The agent that has ended leaves nothing on the cards. */
static void nothing_is_left(void)
{
	STORY_WAIT_WHILE(cuda_scene_leaks(&stage_scene));
	EQ(cuda_scene_leaks(&stage_scene), 0);
}

#else

static void befall(const char *fault)
{
	(void)fault;
}

static void mend(const char *fault)
{
	(void)fault;
}

static void nothing_is_left(void)
{
}

#endif

/* Nor does a worker of it fail, a leak checker's word included. */
static void end_well(void)
{
	unsigned int n_died = agent_count_log(&agent, "event=worker_died");

	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(agent_count_log(&agent, "event=worker_died"), n_died);
}

/* Prepare the next agent, with a mark or without. */
static void prepare(const struct mark *m, char point[96], char ticket[160])
{
	stage_make(&agent, CONFIG);
	snprintf(point, 96, "GM_POINT=%s:kill", m->name);
	snprintf(ticket, 160, "GM_POINT_TICKET=%s/ticket", agent.dir);
	agent.env[STAGE_ENV] = agent.env[STAGE_ENV + 1] = NULL;
	agent.env[STAGE_ENV + 2] = NULL;
	if (!marked)
		return;
	agent.env[STAGE_ENV + 1] = ticket;
	if (!m->behind)
		close(open(ticket + 16, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	if (m->who != CLIENT)
		agent.env[STAGE_ENV] = point;
}

/* Wait for the client, which ends well or is killed at its mark, and then for
 * another process to reach its mark.  Returns whether a process died at the
 * mark; always true without marks. */
static bool somebody_died(const struct mark *m, pid_t client,
			  const char *ticket)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int status = -1;
	bool is_well;

	waitpid(client, &status, 0);
	is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	OK(is_well || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
		       (!marked || m->who == CLIENT)));
	if (!marked)
		return true;
	while (m->who != CLIENT && !m->may_miss && access(ticket, F_OK) == 0 &&
	       story_now() < until)
		story_nap(1000);
	return access(ticket, F_OK) != 0;
}

/* Returns whether a process died at the mark. */
static bool one_life(int round, const struct mark *m)
{
	char point[96], ticket[160];
	bool has_died;
	pid_t child;

	prepare(m, point, ticket);
	if (!OK(agent_start(&agent)))
		return false;
	befall(m->fault);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		int status =
			live(m, marked && m->who == CLIENT ? point + 9 : NULL,
			     ticket + 16);

		fflush(stdout); /* the client prints notes alone */
		_exit(status);
	}
	if (!marked)
		kill_somebody(round, child);
	has_died = somebody_died(m, child, ticket + 16);
	while (marked && has_died && m->who == AGENT && story_lives(agent.pid))
		story_nap(100);
	unlink(ticket + 16);
	if (marked && has_died && m->says)
		OK(agent_wait_log(&agent, m->says));
	mend(m->fault);
	agent.env[STAGE_ENV] = agent.env[STAGE_ENV + 1] = NULL;
	if (!story_lives(agent.pid)) {
		EQ(agent_wait(&agent), -SIGKILL);
		OK(agent_start(&agent));
	}
	all_is_well(marked && has_died && m->who == WORKER);
	end_well();
	nothing_is_left();
	return has_died;
}

/* A job of row 1 waits for one of row 0, whose worker is stopped until row 1
 * has asked to be told of the end. */
static int wait_until_told(struct gpumap_session *session, pid_t teller)
{
	struct gpumap_job job = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done[2];
	struct gpumap_time time;
	int ret = process_stop(teller) ? 0 : -ESRCH;

	if (ret == 0)
		ret = gpumap_submit(session, 0, &job, 1);
	if (ret == 0)
		ret = gpumap_submitted(session, 0, &time);
	job.waits = &time;
	job.n_waits = 1;
	if (ret == 0)
		ret = gpumap_submit(session, 1, &job, 1);
	story_nap(20000);
	kill(teller, SIGCONT);
	for (int n = 0; ret == 0 && n < 2;) {
		int got = gpumap_wait(session, done, 2,
				      story_now() + STORY_LIMIT_NS);

		ret = got < 0 ? got : 0;
		n += got;
	}
	return ret;
}

/* The agent makes the eventfds by which rows are told of others' ends at their
 * first use, and keeps them.  Have them made before the count, so that a run
 * that first uses them later does not seem to leak. */
static void have_wakers(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap *map = story_attach(&agent);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_session *session;
	int before, ret = -ENODEV;

	if (map && EQ(gpumap_session_open(map, NULL, &session), 0)) {
		pid_t teller;

		EQ(story_run(session, 0, &nop), 0);
		EQ(story_run(session, 1, &nop), 0);
		teller = (pid_t)story_device(map, 0).worker_pid;
		before = story_holds(agent.pid, "[eventfd]");
		do {
			ret = wait_until_told(session, teller);
			story_nap(20000);
		} while (ret == 0 && story_now() < until &&
			 story_holds(agent.pid, "[eventfd]") == before);
		gpumap_session_close(session);
	}
	EQ(ret, 0);
	gpumap_detach(map);
}

/* Count what is held when no process has died. */
static void look_at_peace(void)
{
	stage_make(&agent, CONFIG);
	if (OK(agent_start(&agent))) {
		have_wakers();
		all_is_well(false);
	}
	end_well();
}

static void tell(void)
{
	int n_died = 0, n_lives = 0;

	for (size_t k = 0; k < MARKS; k++) {
		n_died += died[k];
		n_lives += lives[k];
		/* In make check a line for each mark would be too many. */
		if (marked && lives[k] && getenv("GM_ROUNDS"))
			NOTE("%s: a process died in %d of %d lives",
			     marks[k].name, died[k], lives[k]);
	}
	NOTE("a process died in %d of %d lives", n_died, n_lives);
}

/* Returns whether all was well. */
static bool live_at(int round, size_t k)
{
	int failures = tap_failures;

	lives[k]++;
	if (one_life(round, &marks[k]))
		died[k]++;
	else if (!marks[k].may_miss)
		NOTE("nobody came to %s", marks[k].name);
	if (tap_failures == failures)
		return true;
	NOTE("round %d, %s", round, marked ? marks[k].name : "at any instant");
	agent_show_log(&agent);
	return false;
}

/* Marks that host rows have, too, are tested often enough there. */
static bool is_due(int round, size_t k)
{
#ifdef STAGE_CUDA
	return !marked || getenv("GM_ROUNDS") != NULL || marks[k].of_cards ||
	       round < (int)MARKS;
#else
	(void)round;
	(void)k;
	return true;
#endif
}

/* A mark that depends on timing may be missed.  Such marks get up to twice as
 * many runs. */
static bool try_again(size_t k)
{
	int each = lives[k];
	bool goes_on = true;

	while (goes_on && marked && marks[k].may_miss && died[k] < each &&
	       lives[k] < 2 * each)
		goes_on = live_at(lives[k], k);
	return goes_on;
}

TAP_CASE_ARGS(argc, argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	int rounds = story_rounds(), missed = 0;
	bool goes_on = true;

	stage_make(&agent, CONFIG);
	snprintf(socket_path, sizeof(socket_path), "%s/%s.sock", agent.dir,
		 agent.instance);
	file = load_file(".", BYTES);
	model = shards_make(tensors, 2, 1);
	marked = stage_has_points();
	if (marked)
		rounds = (getenv("GM_ROUNDS") ? rounds : ROUNDS) * (int)MARKS;
	look_at_peace();
	for (int round = 0; round < rounds && goes_on; round++) {
		size_t k = (size_t)round % MARKS;

		if (is_due(round, k) &&
		    (!only || strcmp(only, marks[k].name) == 0))
			goes_on = live_at(round, k);
	}
	for (size_t k = 0; k < MARKS && goes_on; k++)
		goes_on = try_again(k);
	for (size_t k = 0; k < MARKS; k++)
		missed += !marks[k].may_miss && died[k] < lives[k];
	EQ(missed, 0);
	tell();
	close(file);
	shards_remove(&model);
	stage_end(&agent);
	return tap_done();
}
