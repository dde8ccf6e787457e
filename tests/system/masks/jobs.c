/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Jobs that name a published mask: each row takes its own replica, a handle
 * means one publication whatever becomes of the name, also to the next worker,
 * and what cannot be is refused.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/raw.h"
#include "tests/support/story.h"
#include "tests/support/users.h"

#define SIZE 64u /* queries, and keys; a mask of that has SIZE * SIZE */
#define N    (SIZE * SIZE)

static struct agent agent;
static struct gpumap *map;
static const uint32_t both[] = { 0, 1 };

/* A causal one; past moves where it begins. */
static int publish(const char *name, uint32_t dtype, uint64_t past,
		   uint32_t n_rows)
{
	struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = dtype,
		.tgt_len = SIZE,
		.sliding_window = past,
		.rows = both,
		.n_rows = n_rows,
	};

	return gpumap_mask_publish(map, &r, NULL);
}

/* The elements that the mask hides. */
static bool is_masked(uint32_t i, uint32_t j, uint64_t past)
{
	return j > i || j + past < i;
}

static struct gpumap_session *open_session(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = UINT64_C(1) << 16 };
	struct gpumap_session *session = NULL;
	int ret = gpumap_session_open(map, &opts, &session);

	if (ret != 0)
		NOTE("%d: %s", ret, gpumap_refusal(map));
	return session;
}

static float *arena(struct gpumap_session *session)
{
	void *memory = NULL;

	if (gpumap_alloc(session, 0, 2 * N * sizeof(float), &memory) != 0)
		exit(99);
	for (uint32_t i = 0; i < N; i++)
		((float *)memory)[i] = (float)i + 1;
	memset((float *)memory + N, 0, N * sizeof(float));
	return memory;
}

static struct gpumap_job job_of(float *memory, uint32_t op, uint64_t mask)
{
	return (struct gpumap_job){ .op = op,
				    .dtype = GPUMAP_DTYPE_F32,
				    .src = memory,
				    .dst = memory + N,
				    .n = N,
				    .mask_n = N,
				    .mask_buffer = mask };
}

static bool is_right(const float *memory, uint64_t past)
{
	for (uint32_t i = 0; i < N; i++) {
		bool masked = is_masked(i / SIZE, i % SIZE, past);

		if (masked ? !isinf(memory[N + i]) || memory[N + i] > 0
			   : memory[N + i] != memory[i])
			return false;
	}
	return true;
}

static void each_row_takes_its_own(void)
{
	struct gpumap_session *session = open_session();
	float *memory = arena(session);
	uint64_t adds = 0, bytes = 0, version = 0;
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = both,
					    .n_rows = 2 };
	struct gpumap_job job;

	EQ(publish("adds", GPUMAP_DTYPE_F32, 9, 2), 0);
	EQ(publish("bytes", GPUMAP_DTYPE_U8, 5, 2), 0);
	EQ(gpumap_buffer_register_mask(session, "adds", &adds, &version), 0);
	OK(adds != 0 && version != 0);
	EQ(gpumap_buffer_register_mask(session, "bytes", &bytes, NULL), 0);
	EQ(story_buffer(session, bytes).kind, GPUMAP_BUFFER_MASK);
	EQ(story_buffer(session, bytes).row, UINT32_MAX);
	EQ(story_buffer(session, bytes).flags, GPUMAP_BUFFER_READ_ONLY);
	for (uint32_t row = 0; row < 2; row++) {
		job = job_of(memory, GPUMAP_OP_MASK_ADD, adds);
		EQ(story_run(session, row, &job), 0);
		OK(is_right(memory, 9));
		job = job_of(memory, GPUMAP_OP_MASK_BOOL, bytes);
		EQ(story_run(session, row, &job), 0);
		OK(is_right(memory, 5));
	}
	memset(memory + N, 0, N * sizeof(float));
	job = job_of(memory, GPUMAP_OP_MASK_ADD, adds);
	EQ(gpumap_scatter(session, &job, &opts, NULL, 0), 2);
	OK(is_right(memory, 9));

	/* Half of it, from a row in the middle. */
	job.mask_at = SIZE / 2 * SIZE * sizeof(float);
	job.mask_n = N / 2;
	job.n = N / 2;
	job.src = memory + N / 2;
	job.dst = memory + N + N / 2;
	EQ(story_run(session, 1, &job), 0);
	OK(is_right(memory, 9));

	/* As a source it is memory like other. */
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .src_buffer = adds,
				   .dst = memory + N,
				   .n = N };
	EQ(story_run(session, 0, &job), 0);
	OK(memory[N] == 0 && isinf(memory[N + 1]));
	EQ(gpumap_buffer_unregister(session, adds), 0);
	EQ(gpumap_buffer_unregister(session, adds), -ESTALE);
	EQ(gpumap_buffer_unregister(session, bytes), 0);
	gpumap_session_close(session);
	EQ(gpumap_mask_release(map, "bytes"), 0);
}

static void refusals_say_why(void)
{
	struct gpumap_session *session = open_session();
	float *memory = arena(session);
	struct gpumap_job job;
	uint64_t one = 0, mask = 0;
	struct gpumap_mask_request none = { .size = sizeof(none),
					    .name = "none",
					    .kind = GPUMAP_MASK_NONE,
					    .rows = both,
					    .n_rows = 2 };

	EQ(gpumap_buffer_register_mask(session, "nothing", &mask, NULL),
	   -ENOENT);
	EQ(gpumap_buffer_register_mask(session, "", &mask, NULL), -EINVAL);
	EQ(gpumap_mask_publish(map, &none, NULL), 0);
	EQ(gpumap_buffer_register_mask(session, "none", &mask, NULL), -EINVAL);
	OK(strstr(gpumap_refusal(map), "no tensor") != NULL);
	EQ(gpumap_mask_release(map, "none"), 0);
	EQ(mask, 0);

	EQ(publish("one", GPUMAP_DTYPE_F32, 3, 1), 0);
	EQ(gpumap_buffer_register_mask(session, "one", &one, NULL), 0);
	job = job_of(memory, GPUMAP_OP_MASK_ADD, one);
	EQ(story_run(session, 1, &job), -ENOENT);
	OK(strstr(gpumap_refusal(map), "row 1") != NULL);
	EQ(story_run(session, 0, &job), 0);
	OK(is_right(memory, 3));
	job.dtype = GPUMAP_DTYPE_BF16;
	EQ(story_run(session, 0, &job), -EINVAL);
	OK(strstr(gpumap_refusal(map), "dtype") != NULL);
	job = job_of(memory, GPUMAP_OP_MASK_BOOL, one);
	EQ(story_run(session, 0, &job), -EINVAL);
	OK(strstr(gpumap_refusal(map), "u8") != NULL);
	job = job_of(memory, GPUMAP_OP_MASK_ADD, one);
	job.mask_at = 4;
	EQ(story_run(session, 0, &job), -ERANGE);
	job = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
				   .dtype = GPUMAP_DTYPE_F32,
				   .dst_buffer = one,
				   .n = 1 };
	EQ(story_run(session, 0, &job), -EACCES);
	EQ(gpumap_buffer_free(session, one), -EINVAL);
	gpumap_session_close(session);
	EQ(gpumap_mask_release(map, "one"), 0);
}

/* Everything that is free is written to, each span by a mask of its own. */
static void write_over_what_is_free(void)
{
	int ret = 0;
	char name[8];
	struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_U8,
		.rows = both,
		.n_rows = 2,
	};

	for (uint32_t i = 0; i < 20 && ret == 0; i++) {
		snprintf(name, sizeof(name), "w%u", i);
		r.tgt_len = 200 + i;
		ret = gpumap_mask_publish(map, &r, NULL);
	}
	EQ(ret, -ENOSPC);
	for (uint32_t i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "w%u", i);
		gpumap_mask_release(map, name);
	}
}

static void it_stays_what_it_was(void)
{
	struct gpumap_session *session = open_session();
	float *memory = arena(session);
	uint64_t old = 0, now = 0, before = 0, after = 0;
	struct gpumap_job job;

	EQ(publish("turn", GPUMAP_DTYPE_F32, 7, 2), 0);
	EQ(gpumap_buffer_register_mask(session, "turn", &old, &before), 0);
	EQ(publish("turn", GPUMAP_DTYPE_F32, 11, 2), 0);
	EQ(gpumap_buffer_register_mask(session, "turn", &now, &after), 0);
	OK(after > before);
	EQ(gpumap_mask_release(map, "turn"), 0);
	EQ(gpumap_mask_read(map, "turn", NULL, NULL, 0), -ENOENT);
	write_over_what_is_free();
	for (uint32_t row = 0; row < 2; row++) {
		job = job_of(memory, GPUMAP_OP_MASK_ADD, old);
		EQ(story_run(session, row, &job), 0);
		OK(is_right(memory, 7));
		job = job_of(memory, GPUMAP_OP_MASK_ADD, now);
		EQ(story_run(session, row, &job), 0);
		OK(is_right(memory, 11));
	}
	EQ(gpumap_buffer_unregister(session, old), 0);
	job.mask_buffer = old;
	EQ(story_run(session, 0, &job), -ESTALE);
	write_over_what_is_free();
	job.mask_buffer = now;
	memset(memory + N, 0, N * sizeof(float));
	EQ(story_run(session, 1, &job), 0);
	OK(is_right(memory, 11));
	gpumap_session_close(session);
}

static void the_next_worker_knows_it(void)
{
	struct gpumap_session *session = open_session();
	float *memory = arena(session);
	struct gpumap_device device = story_device(map, 1);
	uint64_t mask = 0;
	struct gpumap_job job;

	EQ(publish("lives", GPUMAP_DTYPE_F32, 4, 2), 0);
	EQ(gpumap_buffer_register_mask(session, "lives", &mask, NULL), 0);
	job = job_of(memory, GPUMAP_OP_MASK_ADD, mask);
	EQ(story_run(session, 1, &job), 0);
	EQ(gpumap_mask_release(map, "lives"), 0);
	kill((pid_t)device.worker_pid, SIGKILL);
	if (!OK(story_back(map, 1, device.restarts)))
		return;
	write_over_what_is_free();
	memset(memory + N, 0, N * sizeof(float));
	EQ(story_run(session, 1, &job), 0);
	OK(is_right(memory, 4));
	gpumap_session_close(session);
}

/* A session that is killed, or that closes, gives all of it back. */
static void it_is_given_back(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		struct gpumap_session *session;
		uint64_t mask;

		map = story_attach(&agent);
		session = open_session();
		for (uint32_t i = 0; i < 10; i++) {
			if (publish("left", GPUMAP_DTYPE_F32, 20 + i, 2) != 0 ||
			    gpumap_buffer_register_mask(session, "left", &mask,
							NULL) != 0)
				_exit(1);
		}
		raise(SIGKILL);
	}
	EQ(waitpid(pid, &status, 0), pid);
	OK(WIFSIGNALED(status));
	OK(agent_wait_log(&agent, "event=session_gone"));
	EQ(gpumap_mask_release(map, "left"), 0);
	{
		uint64_t until = story_now() + STORY_LIMIT_NS;
		struct gpumap_mask_request r = {
			.size = sizeof(r),
			.name = "all",
			.kind = GPUMAP_MASK_CUSTOM,
			.form = GPUMAP_MASK_CAUSAL,
			.dtype = GPUMAP_DTYPE_U8,
			.tgt_len = 4,
			.past_kv_len = (14 << 16) / 4,
			.rows = both,
			.n_rows = 2,
		};
		int ret;

		while ((ret = gpumap_mask_publish(map, &r, NULL)) == -ENOSPC &&
		       story_now() < until)
			story_nap(1000);
		EQ(ret, 0);
		EQ(gpumap_mask_release(map, "all"), 0);
	}
}

#define STRANGER 65531

static int be_stranger(void)
{
	struct gpumap_session *session;
	struct gpumap_job job;
	uint64_t mask = 0;
	float *memory;

	map = story_attach(&agent);
	session = map != NULL ? open_session() : NULL;
	if (session == NULL)
		return 2;
	if (gpumap_buffer_register_mask(session, "ours", &mask, NULL) !=
		    -EACCES ||
	    strstr(gpumap_refusal(map), "mode to 0660") == NULL)
		return 3;
	/* But their own. */
	if (publish("theirs", GPUMAP_DTYPE_F32, 6, 2) != 0 ||
	    gpumap_buffer_register_mask(session, "theirs", &mask, NULL) != 0)
		return 4;
	memory = arena(session);
	job = job_of(memory, GPUMAP_OP_MASK_ADD, mask);
	if (story_run(session, 0, &job) != 0 || !is_right(memory, 6))
		return 5;
	/* Their arenas may have two megabytes, a handle counts 16 KiB. */
	for (uint32_t i = 0; i < 200; i++)
		if (gpumap_buffer_register_mask(session, "theirs", &mask,
						NULL) == -EDQUOT)
			mask = 0;
	if (mask != 0 || strstr(gpumap_refusal(map), "arena-per-uid") == NULL)
		return 6;
	if (gpumap_mask_release(map, "theirs") != 0)
		return 7;
	gpumap_session_close(session);
	gpumap_detach(map);
	return 0;
}

static void strangers_learn_nothing(void)
{

	if (geteuid() != 0) {
		SKIP(1, "only root can become a stranger");
		return;
	}
	EQ(publish("ours", GPUMAP_DTYPE_F32, 8, 2), 0);
	chmod(agent.dir, 0711);
	EQ(user_run(STRANGER, be_stranger), 0);
	EQ(gpumap_mask_release(map, "ours"), 0);
}

static int use(struct raw *c, uint64_t handle, const char *name)
{
	struct gm_mask_use ask = { .handle = handle };
	struct gm_mask_use_reply reply;
	int fds[GM_CONTROL_FDS_MAX];

	memset(ask.name, name[0] != '\0' ? 0 : 'x', sizeof(ask.name));
	memcpy(ask.name, name, strlen(name));
	return raw_ask(c, GM_CONTROL_MASK_USE, &ask, sizeof(ask), &reply,
		       sizeof(reply), fds);
}

static int show(struct raw *c, uint64_t handle, uint32_t row)
{
	struct gm_mask_show ask = { .handle = handle, .row = row };
	int fds[GM_CONTROL_FDS_MAX];

	return raw_ask(c, GM_CONTROL_MASK_SHOW, &ask, sizeof(ask), NULL, 0,
		       fds);
}

/* Requests that the library never sends. */
static void records_are_checked(void)
{
	const uint64_t good = gm_handle_make(1, GM_BUFFER_REGISTERED, 0, 1);
	struct raw c;
	char path[160];

	EQ(publish("raw", GPUMAP_DTYPE_F32, 3, 1), 0);
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	raw_init(&c);
	EQ(raw_open(&c, path), 0);
	EQ(use(&c, good, "raw"), -EINVAL);
	raw_close(&c);
	if (!EQ(raw_open_queue(&c, path, 0, 16, 1 << 16), 0))
		return;
	EQ(use(&c, 0, "raw"), -EINVAL);
	EQ(use(&c, gm_handle_make(1, GM_BUFFER_DEVICE, 0, 1), "raw"), -EINVAL);
	EQ(use(&c, gm_handle_make(1, GM_BUFFER_REGISTERED, 2, 1), "raw"),
	   -EINVAL);
	EQ(use(&c, gm_handle_make(1, GM_BUFFER_REGISTERED, 0, GM_BUFFERS_MAX),
	       "raw"),
	   -EINVAL);
	EQ(use(&c, good, ""), -ENOENT);
	EQ(show(&c, good, 0), -ENOENT);
	EQ(use(&c, good, "raw"), 0);
	EQ(use(&c, good, "raw"), -EEXIST);
	EQ(show(&c, good, 1), -ENODEV);
	EQ(show(&c, good, 4000000000u), -ENODEV);
	EQ(show(&c, good, 0), 0);
	EQ(show(&c, good, 0), -EALREADY);
	EQ(raw_queue(&c, 1), 0);
	EQ(show(&c, good, 1), -ENOENT);
	EQ(raw_forget(&c, good), 0);
	EQ(raw_forget(&c, good), -ENOENT);
	EQ(show(&c, good, 0), -ENOENT);
	EQ(use(&c, good, "raw"), 0);
	EQ(raw_forget(&c, good), 0);
	raw_close(&c);
	EQ(gpumap_mask_release(map, "raw"), 0);
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 2\n[socket]\nmode = 0666\n"
			   "[masks]\nbytes = 1M\n"
			   "[limits]\narena-per-uid = 2M\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		each_row_takes_its_own();
		EQ(gpumap_mask_release(map, "adds"), 0);
		refusals_say_why();
		it_stays_what_it_was();
		the_next_worker_knows_it();
		it_is_given_back();
		strangers_learn_nothing();
		records_are_checked();
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
