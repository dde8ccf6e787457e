/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Every fault of a card or its driver ends as it should: the row says what it
 * was, each job ends once, the row comes back when it can and is left alone
 * when it cannot; and a session on another row gets its results all the while.
 *
 * Row 1 is what befalls it, row 0 is the neighbour.
 */

#include <sys/wait.h>

#include "tests/support/cuda_agent.h"
#include "tests/support/cuda_session.h"

static struct agent agent;
static struct cuda_scene scene;
static struct gpumap *map;

/* ---- the neighbour ------------------------------------------------------- */

static struct side neighbour;
static uint32_t its_restarts, its_failures;
static uint64_t its_times[4096]; /* ns, of its round trips */
static uint32_t n_times;

/* Its round trips, while something befalls the other one. */
static void neighbour_works(void)
{
	static uint32_t salt;

	for (int i = 0; i < 8; i++) {
		uint64_t began = story_now();

		its_failures += !works(&neighbour, salt++);
		if (n_times < sizeof(its_times) / sizeof(its_times[0]))
			its_times[n_times++] = story_now() - began;
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The 99th percentile of its times until now, which begin anew. */
static double its_p99_ms(void)
{
	double ms = 0;

	qsort(its_times, n_times, sizeof(its_times[0]), by_size);
	if (n_times)
		ms = (double)its_times[n_times - 1 - n_times / 100] / 1e6;
	n_times = 0;
	return ms;
}

/* ---- what is waited for -------------------------------------------------- */

static bool row_becomes(uint32_t state)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_device(map, 1).state != state) {
		if (story_now() > until) {
			NOTE("row 1 is %u: %s", story_device(map, 1).state,
			     story_device(map, 1).reason);
			return false;
		}
		neighbour_works();
		story_nap(1000);
	}
	return true;
}

static bool worker_is_gone(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_device(map, 1).worker_pid != 0) {
		if (story_now() > until)
			return false;
		story_nap(1000);
	}
	return true;
}

static uint32_t card(void)
{
	struct gpumap_device device = story_device(map, 1);

	return cuda_scene_gpu(&scene, &device);
}

static bool says(const char *state, const char *reason)
{
	char text[160];

	snprintf(text, sizeof(text), "row_state row=1 state=%s reason=\"%s",
		 state, reason);
	return agent_wait_log(&agent, text);
}

/* ---- sticky errors ------------------------------------------------------- */

static void poisoned(const char *on, uint32_t code, const char *reason)
{
	uint32_t restarts = story_device(map, 1).restarts;
	bool by_copy = strcmp(on, "copy") == 0;
	struct side side;
	struct tally t;
	uint64_t n;

	if (!OK(open_side(map, &side, 1)) || !OK(works(&side, 1)))
		return;
	n = by_copy ? cuda_scene_copies(&scene, card())
		    : cuda_scene_launches(&scene, card());
	cuda_scene_add(&scene, "row %u: %s %u: sticky %u", card(), on,
		       (uint32_t)n + (by_copy ? 1 : JOBS / 2), code);
	if (by_copy) {
		struct gpumap_job copy = { .op = GPUMAP_OP_COPY,
					   .dtype = GPUMAP_DTYPE_F32,
					   .dst = side.dst,
					   .src = side.src,
					   .n = ELEMENTS };

		EQ(gpumap_submit(side.session, 1, &copy, 1), 0);
		t = collect(&side, 1);
		EQ(t.io, 1);
	} else {
		EQ(submit(&side, JOBS, 2), 0);
		t = collect(&side, JOBS);
		EQ(t.done + t.io, JOBS);
		OK(t.io > 0);
	}
	EQ(t.wrong + t.twice + t.lost, 0);
	OK(says("FAILED", reason));
	OK(story_back(map, 1, restarts));
	EQ(story_device(map, 1).restarts, restarts + 1);
	cuda_scene_mend(&scene);
	OK(works(&side, 3)); /* the same session */
	close_side(&side);
	neighbour_works();
}

static void sticky_errors_end_the_worker_alone(void)
{
	poisoned("launch", 700, "CUDA 700 ILLEGAL_ADDRESS");
	poisoned("launch", 719, "CUDA 719 LAUNCH_FAILED");
	poisoned("copy", 716, "CUDA 716 MISALIGNED_ADDRESS");
}

/* ---- cards that leave ---------------------------------------------------- */

static void card_leaves(const char *format)
{
	uint32_t restarts;
	struct side side;
	struct tally t;
	uint64_t n;

	if (!OK(open_side(map, &side, 1)) || !OK(works(&side, 4)))
		return;
	restarts = story_device(map, 1).restarts;
	n = cuda_scene_launches(&scene, card());
	if (strstr(format, "launch"))
		cuda_scene_add(&scene, "row %u: launch %u: xid 79", card(),
			       (uint32_t)n + 2);
	else
		cuda_scene_add(&scene, "row %u: lost", card());
	EQ(submit(&side, JOBS, 5), 0);
	t = collect(&side, JOBS);
	EQ(t.wrong + t.twice + t.lost + t.other, 0);
	OK(row_becomes(GPUMAP_DEVICE_LOST));
	OK(worker_is_gone());

	/* gpumapd starts no worker beside it; jobs that are submitted end with
	 * that reason. */
	EQ(submit(&side, 1, 6), 0);
	t = collect(&side, 1);
	EQ(t.gone, 1);
	OK(story_device(map, 1).restarts <= restarts + 2);
	neighbour_works();

	cuda_scene_mend(&scene);
	cuda_scene_add(&scene, "row %u: back", card());
	OK(row_becomes(GPUMAP_DEVICE_READY));
	OK(works(&side, 7));
	close_side(&side);
}

static void lost_cards_are_waited_for(void)
{
	card_leaves("lost");
	card_leaves("launch: xid 79");
}

static void strangers_xids_are_counted(void)
{
	uint64_t xids = story_device(map, 1).xids;

	cuda_scene_add(&scene, "row %u: xid 31", card());
	STORY_WAIT_WHILE(story_device(map, 1).xids == xids);
	EQ(story_device(map, 1).xids, xids + 1);
	EQ(story_device(map, 1).last_xid, 31);
	EQ(story_device(map, 1).state, GPUMAP_DEVICE_READY);
}

/* ---- jobs that do not end ------------------------------------------------ */

/* Returns how many NOPs fit. */
static uint32_t fill_up(struct side *s, uint32_t row)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	uint32_t n = 0;
	int ret;

	while ((ret = gpumap_submit(s->session, row, &nop, 1)) == 0 && n < 4096)
		n++;
	EQ(ret, -EAGAIN);
	return n;
}

static uint32_t take(struct side *s, uint32_t n, int status)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done[JOBS];
	uint32_t taken = 0, right = 0;

	while (taken < n) {
		int got = gpumap_wait(s->session, done, JOBS, until);

		if (got < 0)
			break;
		taken += (uint32_t)got;
		for (int i = 0; i < got; i++)
			right += done[i].status == status;
	}
	return right;
}

/* No deadline ends it: the limit that the administrator has set does.
 * Until then its queue has no credit, and others of the session have. */
static void hanging_job_ends_at_the_administrators_limit(void)
{
	uint32_t restarts = story_device(map, 1).restarts, behind;
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done;
	struct side side;
	uint64_t n;

	if (!OK(open_side(map, &side, 1)) || !OK(works(&side, 8)))
		return;
	n = cuda_scene_launches(&scene, card());
	cuda_scene_add(&scene, "row %u: launch %u: hang", card(),
		       (uint32_t)n + 1);
	EQ(submit(&side, 2, 9), 0);
	behind = fill_up(&side, 1);
	OK(behind > 0);
	EQ(gpumap_wait(side.session, &done, 1, story_now() + 1000000), -ETIME);
	EQ(gpumap_submit(side.session, 2, &nop, 1), 0);
	EQ(take(&side, 1, 0), 1);
	neighbour_works();
	EQ(take(&side, behind + 2, -EIO), behind + 2);
	OK(says("FAILED", "a job ran longer than kernel-limit allows"));
	cuda_scene_mend(&scene);
	OK(story_back(map, 1, restarts));
	OK(works(&side, 10));
	close_side(&side);
}

/* ---- drivers that do not start ------------------------------------------- */

static void drivers_that_do_not_start_are_tried_again(void)
{
	struct side side;

	OK(worker_is_gone()); /* idle */
	cuda_scene_add(&scene, "init fails 802");
	if (!OK(!open_side(map, &side, 1)))
		close_side(&side);
	OK(says("FAILED", "CUDA 802 SYSTEM_NOT_READY"));
	neighbour_works();
	cuda_scene_mend(&scene);
	OK(row_becomes(GPUMAP_DEVICE_READY));
	if (OK(open_side(map, &side, 1)))
		OK(works(&side, 11));
	close_side(&side);
}

/* Without its compiler a driver copies all the same, and says what it lacks. */
static void missing_compiler_costs_the_operators_alone(void)
{
	struct gpumap_job copy = { .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .n = ELEMENTS };
	struct gpumap_done done;
	struct side side;
	struct tally t;

	OK(worker_is_gone());
	cuda_scene_add(&scene, "row %u: jit fails 221", card());
	if (!OK(open_side(map, &side, 1)))
		return;
	OK(agent_wait_log(&agent, "code=221"));
	EQ(submit(&side, JOBS, 11), 0);
	t = collect(&side, JOBS);
	EQ(t.other, JOBS);
	copy.dst = side.dst;
	copy.src = side.src;
	EQ(gpumap_submit(side.session, 1, &copy, 1), 0);
	EQ(gpumap_wait(side.session, &done, 1, story_now() + STORY_LIMIT_NS),
	   1);
	EQ(done.status, 0);
	EQ(memcmp(side.dst, side.src, ELEMENTS * 4), 0);
	close_side(&side);
	cuda_scene_mend(&scene);
}

/* ---- what makes nothing fail --------------------------------------------- */

static void is_borne(const char *where, const char *what)
{
	struct side side;

	NOTE("%s", what);
	OK(worker_is_gone());
	if (*where)
		cuda_scene_add(&scene, "%s %u: %s", where, card(), what);
	else
		cuda_scene_add(&scene, "%s", what);
	if (OK(open_side(map, &side, 1)))
		OK(works(&side, 12));
	close_side(&side);
	cuda_scene_mend(&scene);
	neighbour_works();
}

static void oddities_are_borne(void)
{
	is_borne("row", "attribute 122 is 0");
	is_borne("row", "attribute 99 is 0");
	is_borne("row", "launches take 5 ms");
	is_borne("row", "copies take 5 ms");
	is_borne("row", "peer copies corrupt");
	is_borne("", "init takes 200 ms");
	is_borne("", "driver 12.2");
	is_borne("", "symbol missing cuMemcpyBatchAsync");
	is_borne("", "symbol missing cuStreamWriteValue64");
}

static void memory_may_run_out(void)
{
	uint64_t buffer = 0, small = 0;
	struct side side;

	/* A session's limit is computed when it comes to the row. */
	if (!OK(open_side(map, &side, 1)))
		return;
	cuda_scene_add(&scene, "row %u: out of memory after 1 GiB", card());
	EQ(gpumap_buffer_alloc(side.session, 1, UINT64_C(2) << 30, 0,
			       story_now() + STORY_LIMIT_NS, &buffer),
	   -ENOMEM);
	EQ(gpumap_buffer_alloc(side.session, 1, UINT64_C(1) << 20, 0,
			       story_now() + STORY_LIMIT_NS, &small),
	   0);
	EQ(gpumap_buffer_free(side.session, small), 0);
	OK(works(&side, 13));
	close_side(&side);
	cuda_scene_mend(&scene);
}

/* ---- compute modes ------------------------------------------------------- */

static void taken_cards_have_no_worker(void)
{
	struct side side;

	OK(worker_is_gone());
	cuda_scene_add(&scene, "row %u: prohibited", card());
	OK(row_becomes(GPUMAP_DEVICE_FAILED));
	OK(!open_side(map, &side, 1));
	EQ(story_device(map, 1).worker_pid, 0);
	cuda_scene_mend(&scene);
	cuda_scene_add(&scene, "row %u: exclusive process", card());
	OK(!open_side(map, &side, 1));
	EQ(story_device(map, 1).worker_pid, 0);
	neighbour_works();
}

/* ---- exits --------------------------------------------------------------- */

/* Make a process take long to die, as a driver does.  Only root may do so, for
 * workers forbid other processes to trace them. */
static bool detain(pid_t pid, uint64_t ns)
{
	const char *build = getenv("abs_top_builddir");
	char path[PATH_MAX], who[16], how_long[24];
	int status = -1;
	pid_t child;

	snprintf(path, sizeof(path), "%s/tests/fake/stand-in",
		 build != NULL ? build : ".");
	snprintf(who, sizeof(who), "%d", (int)pid);
	snprintf(how_long, sizeof(how_long), "%" PRIu64, ns);
	child = fork();
	if (child == 0) {
		execl(path, "stand-in", "linger", who, how_long, (char *)NULL);
		_exit(127);
	}
	return waitpid(child, &status, 0) == child && status == 0;
}

/* Until the process has gone the card may still write: no job ends before, and
 * no worker is started before. */
static void exit_takes(uint64_t ns, bool is_stuck)
{
	struct gpumap_device device;
	struct gpumap_done done;
	struct side side;
	struct tally t;
	uint64_t n;

	if (!OK(open_side(map, &side, 1)) || !OK(works(&side, 14)))
		return;
	device = story_device(map, 1);
	if (!detain((pid_t)device.worker_pid, ns)) {
		SKIP(1, "no worker can be traced here");
		close_side(&side);
		return;
	}
	n = cuda_scene_launches(&scene, card());
	cuda_scene_add(&scene, "row %u: launch %u: hang", card(),
		       (uint32_t)n + 1);
	EQ(submit(&side, 2, 15), 0);
	if (is_stuck) /* it is the agent that kills: of kernel-limit */
		OK(says("FAILED", "stuck in driver"));
	else
		kill((pid_t)device.worker_pid, SIGKILL);
	EQ(gpumap_wait(side.session, &done, 1, story_now() + ns / 4), -ETIME);
	neighbour_works();
	t = collect(&side, 2);
	EQ(t.io, 2);
	cuda_scene_mend(&scene);
	OK(story_back(map, 1, device.restarts));
	EQ(story_device(map, 1).restarts, device.restarts + 1);
	OK(works(&side, 16));
	close_side(&side);
}

static void slow_exits_are_waited_for(void)
{
	exit_takes(UINT64_C(300000000), false);
	if (getenv("GM_ROUNDS"))
		exit_takes(UINT64_C(8000000000), true);
	else
		SKIP(1, "takes seven seconds: make check-torture");
}

static void stories(void)
{
	double quiet, beside;

	its_restarts = story_device(map, 0).restarts;
	for (int i = 0; i < 25; i++)
		neighbour_works();
	quiet = its_p99_ms();

	sticky_errors_end_the_worker_alone();
	lost_cards_are_waited_for();
	strangers_xids_are_counted();
	hanging_job_ends_at_the_administrators_limit();
	drivers_that_do_not_start_are_tried_again();
	missing_compiler_costs_the_operators_alone();
	oddities_are_borne();
	memory_may_run_out();
	slow_exits_are_waited_for();
	taken_cards_have_no_worker();

	EQ(its_failures, 0);
	EQ(story_device(map, 0).restarts, its_restarts);
	beside = its_p99_ms();
	NOTE("p99 of the neighbour's sixteen jobs: %.1f ms in peace, %.1f ms "
	     "beside faults, %.1f times",
	     quiet, beside, beside / quiet);
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return tap_done();
	cuda_scene_agent(&scene, &agent,
			 "idle = 50ms\n"
			 "kernel-limit = 2s\n",
			 "[agent]\nrefresh = 100ms\n[host]\nenabled = no\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    OK(open_side(map, &neighbour, 0))) {
		stories();
		close_side(&neighbour);
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}
