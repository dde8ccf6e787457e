/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Somebody dies while memory is had, filled, shared and spread: a worker, the agent
 * or the client, at each instant that is marked, and in a build without marks at
 * any.  Whatever the client had is given back, and the next one has all of it and
 * finds everything right.
 *
 * At every mark ROUNDS times, which takes some ten seconds of a CPU; GM_ROUNDS
 * times in the torture target.
 */

#include <sys/wait.h>

#include "dice.h"
#include "shards.h"
#include "stage.h"

#define ROWS   2u
#define BYTES  (UINT64_C(300) << 10) /* more than a slice, and no power of two */
#define BUSY   200u
#define ROUNDS 4
#define CONFIG                                              \
	"[host]\nrows = 2\n[load]\ndepth = 2\nread = 64K\n" \
	"[worker]\nuser = root\n"

enum who { WORKER, AGENT, CLIENT };

static const struct {
	const char *name;
	enum who who;
	bool may_miss; /* it is a matter of time whether anybody comes there */
	int after; /* a worker's death: at which pass, 0 for no such death */
} marks[] = {
	{ "worker_opened", WORKER, false, 0 },
	{ "worker_incarnate", WORKER, false, 0 },
	{ "worker_adopted", WORKER, false, 0 },
	{ "worker_stalled", WORKER, false, 0 },
	{ "worker_taken", WORKER, false, 0 },
	{ "worker_sliced", WORKER, false, 0 },
	{ "worker_given", WORKER, false, 0 },
	{ "worker_advanced", WORKER, false, 0 },
	{ "worker_half_published", WORKER, false, 0 },
	{ "worker_published", WORKER, false, 0 },
	{ "worker_wake_counted", WORKER, true, 0 },
	{ "worker_waits", WORKER, true, 0 },
	{ "worker_told", WORKER, true, 0 },
	{ "worker_detached", WORKER, false, 0 },
	{ "load_begun", WORKER, false, 0 },
	{ "load_reading", WORKER, false, 0 },
	{ "load_copied", WORKER, false, 0 },
	{ "load_ending", WORKER, false, 0 },
	{ "worker_lent", WORKER, false, 0 },
	{ "worker_borrowed", WORKER, false, 0 },
	{ "worker_fetches", WORKER, false, 0 },
	{ "worker_fetched", WORKER, false, 0 },
	{ "worker_stored", WORKER, false, 0 },
	{ "export_held", AGENT, false, 0 },
	{ "export_abandoned", AGENT, false, 0 },
	{ "crossing_open", AGENT, false, 0 },
	{ "crossing_gone", AGENT, false, 0 },
	{ "crossing_fetches", AGENT, false, 0 },
	{ "claim_asked", AGENT, false, 0 },
	{ "seat_offered", AGENT, false, 0 },
	{ "share_claimed", AGENT, false, 0 },
	{ "share_made", AGENT, false, 0 },
	{ "share_opened", AGENT, false, 0 },
	{ "share_ended", AGENT, false, 0 },
	{ "session_opened", AGENT, false, 0 },
	{ "session_queue_opened", AGENT, false, 0 },
	{ "session_ended", AGENT, false, 0 },
	{ "session_gone", AGENT, false, 0 },
	{ "registration_held", AGENT, false, 0 },
	{ "registration_gone", AGENT, false, 0 },
	{ "submit_entry_visible", CLIENT, false, 0 },
	{ "submit_second_visible", CLIENT, false, 0 },
	{ "submit_done", CLIENT, false, 0 },
	{ "cancel_visible", CLIENT, false, 0 },
	{ "model_submitted", CLIENT, false, 0 },
	/* Each row has had a worker at the start, and been shown once or, by
	 * what the last life has left, twice; after a death it is three
	 * times. */
	{ "worker_ready", WORKER, false, 1 },
	{ "supervise_died", AGENT, false, 1 },
	{ "supervise_burying", AGENT, false, 1 },
	{ "seat_buried", AGENT, false, 1 },
	{ "supervise_buried", AGENT, false, 1 },
	{ "supervise_spawned", AGENT, false, ROWS + 1 },
	{ "supervise_ready", AGENT, false, ROWS + 1 },
	{ "row_state_visible", AGENT, false, 2 * ROWS + 1 },
};

#define MARKS (sizeof(marks) / sizeof(marks[0]))

static const struct shard_tensor tensors[] = {
	{ "a", "U8", "[5]", 5, 0, false },
	{ "b", "U8", "[200000]", 200000, 0, false },
};

static struct agent agent;
static int file; /* of BYTES */
static struct shards model;

/* ---- a client's life ----------------------------------------------------- */

struct player {
	struct gpumap_session *own, *other;
	uint64_t file, buffers[ROWS], export_id, imported;
	struct gpumap_model *loaded, *found;
	char *from, *to, *seen; /* BYTES each, the last in the other's arena */
	bool right;             /* all bytes were */
	bool widowed;           /* the worker has been killed */
	const char *at;         /* what it was about */
};

static struct gpumap_session *opened(struct gpumap *map, int *ret)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;

	*ret = gpumap_session_open(map, &opts, &session);
	return session;
}

static int have(struct player *p, struct gpumap *map)
{
	void *memory[3] = { 0 };
	int ret = 0;

	p->at = "to have";
	p->own = opened(map, &ret);
	if (ret == 0)
		p->other = opened(map, &ret);
	for (int i = 0; ret == 0 && i < 3; i++)
		ret = gpumap_alloc(i < 2 ? p->own : p->other, 0, BYTES,
				   &memory[i]);
	for (uint32_t row = 0; ret == 0 && row < ROWS; row++)
		ret = gpumap_buffer_alloc(
			p->own, row, BYTES,
			row == 1 ? GPUMAP_BUFFER_EXPORTABLE : 0,
			story_now() + STORY_LIMIT_NS, &p->buffers[row]);
	p->from = memory[0];
	p->to = memory[1];
	p->seen = memory[2];
	return ret;
}

/* Row 0 is busy for so long that row 1, which waits for it, has to be told. */
static int wait_for_another(struct player *p)
{
	struct gpumap_job jobs[BUSY], after = { .op = GPUMAP_OP_NOP };
	struct gpumap_time time;
	int ret;

	p->at = "to wait";
	for (uint32_t i = 0; i < BUSY; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
					       .dst = p->to,
					       .n = BYTES };
	ret = gpumap_submit(p->own, 0, jobs, BUSY);
	if (ret == 0)
		ret = gpumap_submitted(p->own, 0, &time);
	after.waits = &time;
	after.n_waits = 1;
	if (ret == 0)
		ret = gpumap_submit(p->own, 1, &after, 1);
	for (uint32_t left = BUSY + 1; ret == 0 && left > 0; left--) {
		struct gpumap_done done;
		int got = gpumap_wait(p->own, &done, 1,
				      story_now() + STORY_LIMIT_NS);

		ret = got < 0 ? got : done.status;
	}
	return ret;
}

/* The file, to the first row, and from there to the other. */
static int fill(struct player *p)
{
	struct gpumap_job job = load_job(0, 0, BYTES, NULL);
	int ret = gpumap_register_file(p->own, file, 0, &p->file);

	p->at = "to fill";
	job.src_buffer = p->file;
	job.dst_buffer = p->buffers[0];
	if (ret == 0)
		ret = load_run(p->own, 0, &job);
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .n = BYTES,
				   .src_buffer = p->buffers[0],
				   .dst_buffer = p->buffers[1] };
	if (ret == 0)
		ret = load_run(p->own, 1, &job);
	return ret;
}

/* What has been given up ends as well. */
static int give_up(struct player *p)
{
	struct gpumap_job jobs[4];
	int ret;

	p->at = "to give up";
	for (uint32_t i = 0; i < 4; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
					       .dst = p->to,
					       .n = BYTES };
	ret = gpumap_submit(p->own, 0, jobs, 4);
	if (ret == 0)
		ret = gpumap_cancel(p->own, 0);
	for (uint32_t left = 4; ret == 0 && left > 0; left--) {
		struct gpumap_done done;
		int got = gpumap_wait(p->own, &done, 1,
				      story_now() + STORY_LIMIT_NS);

		ret = got < 0 ? got : done.status;
		if (ret == -ECANCELED)
			ret = 0;
	}
	return ret;
}

static int share(struct player *p)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .n = BYTES,
				  .dst = p->seen };
	int ret = gpumap_buffer_export(p->own, p->buffers[1], &p->export_id);

	p->at = "to share";
	if (ret == 0)
		ret = gpumap_buffer_import(p->other, p->export_id,
					   GPUMAP_BUFFER_READ_ONLY,
					   &job.src_buffer);
	p->imported = job.src_buffer;
	if (ret == 0)
		ret = load_run(p->other, 1, &job);
	if (ret == 0)
		p->right = load_matches(p->seen, 0, BYTES);
	return ret;
}

/* A model, which the other session finds by its name. */
static int name(struct player *p)
{
	static const uint32_t row;
	struct gpumap_model_opts opts = {
		.size = sizeof(opts),
		.path = model.path,
		.rows = &row,
		.n_rows = 1,
		.name = "points",
		.share_flags = GPUMAP_SHARE_READ_ONLY,
	};
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_job job = { .op = GPUMAP_OP_COPY, .dst = p->seen };
	int ret = gpumap_load_model(p->own, &opts, &p->loaded);

	p->at = "to name";
	if (ret == 0)
		ret = gpumap_model_wait(p->loaded,
					story_now() + STORY_LIMIT_NS);
	if (ret == 0)
		ret = gpumap_model_open(p->other, "points",
					GPUMAP_SHARE_READ_ONLY, &p->found);
	if (ret == 0)
		ret = gpumap_model_find(p->found, "b", &t);
	job.n = t.bytes;
	job.src_buffer = t.buffer;
	job.src_at = t.at;
	if (ret == 0)
		ret = load_run(p->other, 0, &job);
	if (ret == 0)
		p->right &= shards_match(&model, 1, p->seen, 0, t.bytes);
	return ret;
}

/* Out to the rows, and back. */
static int spread(struct player *p)
{
	static const uint32_t rows[ROWS] = { 0, 1 };
	static const double weights[ROWS] = { 2, 3 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .weights = weights,
					    .n_rows = ROWS,
					    .deadline_ns = story_now() +
							   STORY_LIMIT_NS,
					    .dst_buffers = p->buffers };
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .n = BYTES,
				  .src = p->from };
	int ret;

	p->at = "to spread";
	load_fill(p->from, 77, BYTES);
	ret = gpumap_scatter(p->own, &job, &opts, NULL, 0);
	if (ret < 0)
		return ret;
	opts.dst_buffers = NULL;
	opts.src_buffers = p->buffers;
	job.src = NULL;
	job.dst = p->to;
	ret = gpumap_scatter(p->own, &job, &opts, NULL, 0);
	if (ret < 0)
		return ret;
	p->right &= load_matches(p->to, 77, BYTES);
	return 0;
}

static int give_back(struct player *p)
{
	int ret = gpumap_buffer_free(p->other, p->imported);

	p->at = "to give back";
	if (ret == 0)
		ret = gpumap_model_free(p->loaded);
	p->loaded = NULL;
	if (ret == 0)
		ret = gpumap_model_free(p->found);
	p->found = NULL;
	if (ret == 0)
		ret = gpumap_forget(p->own, p->file);
	for (uint32_t row = 0; ret == 0 && row < ROWS; row++)
		ret = gpumap_buffer_free(p->own, p->buffers[row]);
	return ret;
}

/* Puts the ticket out first, and sees who has it: nobody comes to a mark of
 * burial for sessions that have ended. */
static void kill_worker(const struct gpumap *map, const char *ticket)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	close(open(ticket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	kill((pid_t)story_device(map, 1).worker_pid, SIGKILL);
	while (access(ticket, F_OK) == 0 && story_now() < until)
		story_nap(500);
}

/*
 * Returns 0 or the error that it came to, with everything closed.  With a
 * @ticket, the worker of row 1 is killed on the way.
 */
static int play(struct gpumap *map, struct player *p, const char *ticket)
{
	int ret;

	*p = (struct player){ .right = true };
	ret = have(p, map);
	if (ret == 0)
		ret = fill(p);
	if (ret == 0)
		ret = wait_for_another(p);
	if (ret == 0)
		ret = give_up(p);
	if (ret == 0 && ticket) {
		kill_worker(map, ticket);
		p->widowed = true;
	}
	if (ret == 0)
		ret = share(p);
	if (ret == 0)
		ret = name(p);
	if (ret == 0)
		ret = spread(p);
	if (ret == 0)
		ret = give_back(p);
	gpumap_session_close(p->other);
	gpumap_session_close(p->own);
	gpumap_model_free(p->found);
	gpumap_model_free(p->loaded);
	return ret;
}

/* What a client may be told whose worker or agent has died. */
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

/* In a process of its own, which may be killed. */
static int live(const char *point, const char *ticket)
{
	struct player p;
	struct gpumap *map;
	int ret;

	if (point) {
		setenv("GM_POINT", point, 1);
		setenv("GM_POINT_TICKET", agent.env[STAGE_ENV + 1] + 16, 1);
	}
	map = story_attach(&agent);
	if (!map)
		return 2;
	ret = play(map, &p, ticket);
	gpumap_detach(map);
	if (!is_known(ret))
		NOTE("%s: %d", p.at, ret);
	if (ret == 0 && !p.right)
		NOTE("not all bytes are right");
	if (ticket && !p.widowed)
		return 3;
	return is_known(ret) && (ret != 0 || p.right) ? 0 : 1;
}

/* ---- who is left --------------------------------------------------------- */

static bool has_marks(void)
{
	const char *build = getenv("GM_BUILD");

	return build && strstr(build, "testpoints") && geteuid() == 0;
}

static void nobody_has_anything(struct gpumap *map)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (gpumap_usage(map, NULL, 0) != 0 && story_now() < until)
		story_nap(1000);
	EQ(gpumap_usage(map, NULL, 0), 0);
}

/* The next client finds all as it should be. */
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
	for (uint32_t row = 0; row < ROWS; row++) {
		pid_t worker = (pid_t)story_device(map, row).worker_pid;

		while (story_holds(worker, "agent-load.") > 0 &&
		       story_now() < until)
			story_nap(1000);
		EQ(story_holds(worker, "agent-load."), 0);
	}
	OK(shards_let_go(map));
	EQ(gpumap_shares(map, NULL, 0), 0);
	gpumap_detach(map);
}

/* ---- lives --------------------------------------------------------------- */

/*
 * The worker of a row, the agent, or the client; returns when the kernel is
 * done with whom it was.  An agent that is still being taken apart looks
 * alive, and nobody would start it again.
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

/* Returns whether somebody has died of it. */
static bool one_life(int round)
{
	size_t k = (size_t)round % MARKS;
	bool marked = has_marks(), died = true, worker_died;
	char point[96], ticket[160];
	int status = -1;
	pid_t child;

	stage_make(&agent, CONFIG);
	snprintf(ticket, sizeof(ticket), "GM_POINT_TICKET=%s/ticket",
		 agent.dir);
	snprintf(point, sizeof(point), "GM_POINT=%s:kill:%d", marks[k].name,
		 marks[k].after ? marks[k].after : 1);
	agent.env[STAGE_ENV] = agent.env[STAGE_ENV + 1] = NULL;
	if (marked) {
		agent.env[STAGE_ENV + 1] = ticket;
		if (!marks[k].after)
			close(open(ticket + 16, O_CREAT | O_WRONLY | O_CLOEXEC,
				   0600));
		if (marks[k].who != CLIENT)
			agent.env[STAGE_ENV] = point;
	}
	if (!OK(agent_start(&agent)))
		return false;
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(live(marked && marks[k].who == CLIENT ? point + 9 : NULL,
			   marked && marks[k].after ? ticket + 16 : NULL));
	if (!marked)
		kill_somebody(round, child);
	waitpid(child, &status, 0);
	OK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	if (marked && marks[k].who != CLIENT && !marks[k].may_miss) {
		uint64_t until = story_now() + 2000000000;

		/* It may be about to. */
		while (access(ticket + 16, F_OK) == 0 && story_now() < until)
			story_nap(1000);
	}
	if (marked)
		died = access(ticket + 16, F_OK) != 0 &&
		       (WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	worker_died = marked && died && marks[k].who == WORKER;
	while (marked && died && marks[k].who == AGENT &&
	       story_lives(agent.pid))
		story_nap(100);
	unlink(ticket + 16);
	agent.env[STAGE_ENV] = agent.env[STAGE_ENV + 1] = NULL;
	if (!story_lives(agent.pid)) {
		EQ(agent_wait(&agent), -SIGKILL);
		OK(agent_start(&agent));
	}
	all_is_well(worker_died);
	EQ(agent_kill(&agent, SIGTERM), 0);
	return died;
}

int main(void)
{
	int rounds = story_rounds(), died = 0, missed = 0;

	if (has_marks())
		rounds = (getenv("GM_ROUNDS") ? rounds : ROUNDS) * (int)MARKS;
	stage_make(&agent, CONFIG);
	file = load_file(".", BYTES);
	model = shards_make(tensors, 2, 1);
	for (int round = 0; round < rounds; round++) {
		int failures = tap_failures;
		size_t k = (size_t)round % MARKS;

		if (one_life(round)) {
			died++;
		} else if (!marks[k].may_miss) {
			missed++;
			NOTE("nobody came to %s", marks[k].name);
		}
		if (tap_failures != failures) {
			NOTE("round %d, %s", round,
			     has_marks() ? marks[k].name : "at any instant");
			agent_show_log(&agent);
			break;
		}
	}
	EQ(missed, 0);
	NOTE("somebody died in %d of %d lives", died, rounds);
	close(file);
	shards_remove(&model);
	stage_end(&agent);
	return tap_done();
}
