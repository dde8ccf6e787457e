/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks on a CUDA row, while the row's worker or the agent is killed at any
 * moment of their making: a mask that was reported published is found whole on
 * every row; one that was there before is there after; and none of the device's
 * memory is left behind.  Before that, as many masks as a small card may hold.
 */

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/support/cuda_agent.h"

#define SIZE 128u
#define N    (SIZE * SIZE)

static struct cuda_scene scene;
static struct agent agent;
static struct gpumap *map;
static uint32_t rows[2]; /* a card and a host */

static bool find_rows(void)
{
	rows[0] = rows[1] = UINT32_MAX;
	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		struct gpumap_device device = story_device(map, row);
		uint32_t i = device.kind == GPUMAP_DEVICE_HOST;

		if (rows[i] == UINT32_MAX)
			rows[i] = row;
	}
	return OK(rows[0] != UINT32_MAX) && OK(rows[1] != UINT32_MAX);
}

static int publish(const char *name, uint64_t window)
{
	const struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = SIZE,
		.sliding_window = window,
		.rows = rows,
		.n_rows = 2,
	};

	return gpumap_mask_publish(map, &r, NULL);
}

static bool is_of(const uint8_t *memory, uint64_t window)
{
	for (uint32_t k = 0; k < N; k++) {
		uint32_t i = k / SIZE, j = k % SIZE;

		if (memory[k] != (j > i || j + window < i))
			return false;
	}
	return true;
}

/* Copy out of the mask by a job of a row.  Returns 0, or the status of the
 * job. */
static int copy_out(struct gpumap_session *session, uint32_t row, uint64_t mask,
		    uint8_t *memory)
{
	const struct gpumap_job job = { .op = GPUMAP_OP_COPY,
					.dtype = GPUMAP_DTYPE_U8,
					.src_buffer = mask,
					.dst = memory,
					.n = N };

	memset(memory, 0xee, N);
	return story_run(session, row, &job);
}

/* On both rows, whatever has died: not at once, perhaps. */
static bool is_there(const char *name, uint64_t window)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 1 << 17 };
	uint64_t until = story_now() + STORY_LIMIT_NS, mask = 0;
	struct gpumap_session *session = NULL;
	void *memory = NULL;
	bool right = false;

	if (gpumap_session_open(map, &opts, &session) != 0 ||
	    gpumap_alloc(session, rows[1], N, &memory) != 0 ||
	    gpumap_buffer_register_mask(session, name, &mask, NULL) != 0)
		NOTE("%s: %s", name, gpumap_refusal(map));
	for (int i = 0; i < 2 && mask != 0; i++) {
		int ret = copy_out(session, rows[i], mask, memory);

		while (ret != 0 && story_now() < until) {
			story_nap(2000);
			ret = copy_out(session, rows[i], mask, memory);
		}
		right = ret == 0 && is_of(memory, window) && (i == 0 || right);
	}
	if (session != NULL)
		gpumap_session_close(session);
	return right;
}

/* Has the card's row a replica that can be had? */
static bool has_replica(const char *name)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	const struct gpumap_mask_view *view;
	struct gpumap_mask *mask = NULL;
	int ret = gpumap_mask_open(map, name, 0, &mask), fd = -1;

	while (ret == 0 && fd < 0 && story_now() < until) {
		struct gpumap_export_info info = { .size = sizeof(info) };

		if (gpumap_mask_get(map, mask, rows[0], &view) != 0 ||
		    gpumap_export_fd(map, view->export_id, &info, &fd) != 0)
			story_nap(2000);
	}
	gpumap_mask_close(map, mask);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* A user has half of a card at most, masks and all. */
static void a_card_is_not_overfilled(void)
{
	struct gpumap_mask_request r = {
		.size = sizeof(r),
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = 4,
		.past_kv_len = (40 << 20) / 4 - 4,
		.rows = rows,
		.n_rows = 1,
	};
	char names[9][8];
	int ret = 0, n = 0;

	for (; n < 9 && ret == 0; n++) {
		snprintf(names[n], sizeof(names[n]), "big%d", n);
		r.name = names[n];
		r.past_kv_len++; /* each has bytes of its own */
		ret = gpumap_mask_publish(map, &r, NULL);
	}
	NOTE("the %d. of 40 MiB: %d %s", n, ret, gpumap_refusal(map));
	OK(ret == -EDQUOT || ret == -ENOSPC || ret == -ENOMEM);
	OK(n > 2);
	OK(strstr(gpumap_refusal(map), "row ") != NULL);
	EQ(gpumap_mask_read(map, names[n - 1], NULL, NULL, 0), -ENOENT);
	while (--n > 0)
		EQ(gpumap_mask_release(map, names[n - 1]), 0);
	/* And it is given back. */
	EQ(publish("small", 5), 0);
	EQ(gpumap_mask_release(map, "small"), 0);
}

static pid_t killer_of(pid_t target, int round)
{
	pid_t pid = fork();

	if (pid == 0) {
		story_nap(story_moment(round, 8000));
		if (target > 0)
			kill(target, SIGKILL);
		_exit(0);
	}
	return pid;
}

static void workers_die(void)
{
	int published = 0;

	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_device device = story_device(map, rows[0]);
		pid_t killer = killer_of((pid_t)device.worker_pid, round);
		int ret = publish("new", 1 + (uint64_t)round % 100);

		waitpid(killer, NULL, 0);
		/* A row whose workers die all the time may be refused. */
		published += ret == 0;
		if (ret == 0 && !is_there("new", 1 + (uint64_t)round % 100)) {
			OK(!"a mask that was published is right");
			break;
		}
		if (ret != 0 && ret != -EIO && ret != -ENODEV) {
			EQ(ret, 0);
			break;
		}
	}
	OK(published > 0);
	OK(is_there("old", 3));
	OK(has_replica("old"));
	NOTE("%d published, %u workers died", published,
	     story_device(map, rows[0]).restarts);
	OK(story_device(map, rows[0]).restarts > 0);
}

static void agents_die(void)
{
	for (int round = 0; round < story_rounds(); round++) {
		uint64_t window = 101 + (uint64_t)round % 20;
		pid_t killer = killer_of(agent.pid, round);
		int ret = publish("new", window);

		waitpid(killer, NULL, 0);
		agent_wait(&agent);
		gpumap_detach(map);
		map = NULL;
		if (!OK(agent_start(&agent)) ||
		    !OK((map = story_attach(&agent)) != NULL))
			return;
		if (!is_there("old", 3) ||
		    (ret == 0 && !is_there("new", window))) {
			OK(!"a mask that was published is right");
			break;
		}
	}
	OK(has_replica("old"));
}

/* ---- at a point ---------------------------------------------------------- */

static bool start(const char *worker)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "[host]\nrows = 1\n[masks]\nbytes = 448M\n%s", worker);
	cuda_scene_agent(&scene, &agent, "", text);
	return OK(agent_start(&agent)) &&
	       OK((map = story_attach(&agent)) != NULL);
}

/* One process alone dies there: of the row's workers one, or the agent. */
static void die_at(const char *point, uint64_t window)
{
	char env[96], ticket[160];
	int ret;

	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	snprintf(env, sizeof(env), "GM_POINT=%s:kill", point);
	snprintf(ticket, sizeof(ticket), "GM_POINT_TICKET=%s/ticket",
		 agent.dir);
	close(open(ticket + 16, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	agent.env[2] = env;
	agent.env[3] = ticket;
	agent.env[4] = NULL;
	agent_spawn(&agent, NULL);
	while (story_lives(agent.pid) && access(ticket + 16, F_OK) == 0 &&
	       !agent_logged(&agent, "event=ready "))
		story_nap(1000);
	map = story_attach(&agent);
	ret = map != NULL ? publish("new", window) : -ESTALE;
	/* The replica of the one that was there is made at the start. */
	OK(access(ticket + 16, F_OK) != 0);
	unlink(ticket + 16);
	gpumap_detach(map);
	agent_kill(&agent, SIGKILL);
	agent.env[2] = NULL;
	if (!OK(agent_start(&agent)) ||
	    !OK((map = story_attach(&agent)) != NULL))
		return;
	OK(is_there("old", 3));
	OK(has_replica("old"));
	OK(ret != 0 || is_there("new", window));
	NOTE("%s: %d", point, ret);
}

static void every_point_is_survived(void)
{
	static const char *const points[] = {
		"mask_device_asked",
		"mask_device_ready",
		"worker_mask_stored",
		"worker_mask_made",
	};
	uint64_t strikes = getenv("GM_ROUNDS") ? (uint64_t)story_rounds() : 2;

	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	/* The user that removes the ticket must be allowed to. */
	if (!start("[worker]\nuser = root\n"))
		return;
	for (uint64_t i = 0; i < 4 * strikes; i++)
		die_at(points[i % 4], 70 + i % 50);
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "small.yaml", NULL))
		return tap_done();
	if (start("") && find_rows() && EQ(publish("old", 3), 0)) {
		a_card_is_not_overfilled();
		workers_die();
		agents_die();
		if (tap_has_points() && geteuid() == 0)
			every_point_is_survived();
		else
			SKIP(1, "needs --enable-testpoints, and root");
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}
