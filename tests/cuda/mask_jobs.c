/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks on CUDA rows that jobs name, and their owners: each row's jobs read its
 * own device, the next worker's too; each user has its own replicas, which
 * others cannot write; a map's masks follow it onto cards; and a mask that a
 * device has no room for is refused, with nothing published.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/cuda_agent.h"
#include "tests/support/users.h"

#define SIZE     64u /* queries, and keys */
#define N        (SIZE * SIZE)
#define STRANGER 65531

static struct cuda_scene scene;
static struct agent agent;
static struct gpumap *map;
static uint32_t cards[4], host; /* rows */

static bool find_rows(void)
{
	uint32_t n = 0;

	host = UINT32_MAX;
	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		struct gpumap_device device = story_device(map, row);

		if (device.kind == GPUMAP_DEVICE_CUDA && n < 4)
			cards[n++] = row;
		else if (device.kind == GPUMAP_DEVICE_HOST &&
			 host == UINT32_MAX)
			host = row;
	}
	return EQ(n, 4) && OK(host != UINT32_MAX);
}

static struct gpumap_mask_request request_of(const char *name, uint32_t dtype,
					     uint64_t window,
					     const uint32_t *rows, uint32_t n)
{
	return (struct gpumap_mask_request){
		.size = sizeof(struct gpumap_mask_request),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = dtype,
		.tgt_len = SIZE,
		.sliding_window = window,
		.rows = rows,
		.n_rows = n,
	};
}

static int publish(const char *name, uint32_t dtype, uint64_t window,
		   const uint32_t *rows, uint32_t n)
{
	struct gpumap_mask_request r = request_of(name, dtype, window, rows, n);
	int ret = gpumap_mask_publish(map, &r, NULL);

	if (ret != 0)
		NOTE("%s: %d: %s", name, ret, gpumap_refusal(map));
	return ret;
}

/* ---- jobs ---------------------------------------------------------------- */

static struct gpumap_session *open_session(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = UINT64_C(1) << 17 };
	struct gpumap_session *session = NULL;
	int ret = gpumap_session_open(map, &opts, &session);

	if (ret != 0)
		NOTE("%d: %s", ret, gpumap_refusal(map));
	return session;
}

static float *arena(struct gpumap_session *session)
{
	void *memory = NULL;

	if (gpumap_alloc(session, host, 2 * N * sizeof(float), &memory) != 0)
		exit(99);
	for (uint32_t i = 0; i < N; i++)
		((float *)memory)[i] = (float)i + 1;
	memset((float *)memory + N, 0, N * sizeof(float));
	return memory;
}

static int run_mask(struct gpumap_session *session, uint32_t row, float *memory,
		    uint32_t op, uint64_t mask)
{
	const struct gpumap_job job = { .op = op,
					.dtype = GPUMAP_DTYPE_F32,
					.src = memory,
					.dst = memory + N,
					.n = N,
					.mask_n = N,
					.mask_buffer = mask };
	int ret;

	memset(memory + N, 0, N * sizeof(float));
	ret = gpumap_submit(session, row, &job, 1);
	if (ret != 0) {
		NOTE("row %u: %d: %s", row, ret, gpumap_refusal(map));
		return ret;
	}
	return story_end(session);
}

static bool is_right(const float *memory, uint64_t window)
{
	for (uint32_t k = 0; k < N; k++) {
		uint32_t i = k / SIZE, j = k % SIZE;
		bool masked = j > i || j + window < i;

		if (masked ? !isinf(memory[N + k]) || memory[N + k] > 0
			   : memory[N + k] != memory[k])
			return false;
	}
	return true;
}

/* ---- stories ------------------------------------------------------------- */

static void each_row_reads_its_own(void)
{
	const uint32_t rows[] = { cards[0], cards[3], host };
	struct gpumap_session *session = open_session();
	float *memory = arena(session);
	uint64_t adds = 0, bytes = 0;

	EQ(publish("adds", GPUMAP_DTYPE_F32, 9, rows, 3), 0);
	EQ(publish("bytes", GPUMAP_DTYPE_U8, 5, rows, 3), 0);
	EQ(gpumap_buffer_register_mask(session, "adds", &adds, NULL), 0);
	EQ(gpumap_buffer_register_mask(session, "bytes", &bytes, NULL), 0);
	for (uint32_t i = 0; i < 3; i++) {
		EQ(run_mask(session, rows[i], memory, GPUMAP_OP_MASK_ADD, adds),
		   0);
		OK(is_right(memory, 9));
		EQ(run_mask(session, rows[i], memory, GPUMAP_OP_MASK_BOOL,
			    bytes),
		   0);
		OK(is_right(memory, 5));
	}
	EQ(run_mask(session, cards[1], memory, GPUMAP_OP_MASK_ADD, adds),
	   -ENOENT);
	OK(strstr(gpumap_refusal(map), "no replica on row") != NULL);
	/* The mapped replica stays the same, whatever becomes of the name. */
	EQ(publish("adds", GPUMAP_DTYPE_F32, 20, rows, 3), 0);
	EQ(gpumap_mask_release(map, "bytes"), 0);
	EQ(run_mask(session, cards[0], memory, GPUMAP_OP_MASK_ADD, adds), 0);
	OK(is_right(memory, 9));
	EQ(run_mask(session, cards[3], memory, GPUMAP_OP_MASK_BOOL, bytes), 0);
	OK(is_right(memory, 5));
	EQ(gpumap_buffer_unregister(session, adds), 0);
	EQ(run_mask(session, cards[0], memory, GPUMAP_OP_MASK_ADD, adds),
	   -ESTALE);
	EQ(run_mask(session, cards[0], memory, GPUMAP_OP_MASK_BOOL, bytes), 0);
	gpumap_session_close(session);
	EQ(gpumap_mask_release(map, "adds"), 0);
}

static void the_next_worker_reads_it_too(void)
{
	const uint32_t rows[] = { cards[1], host };
	struct gpumap_session *session = open_session();
	float *memory = arena(session);
	uint64_t mask = 0;

	EQ(publish("lives", GPUMAP_DTYPE_F32, 7, rows, 2), 0);
	EQ(gpumap_buffer_register_mask(session, "lives", &mask, NULL), 0);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 2; k++) {
			struct gpumap_device device;

			EQ(run_mask(session, rows[k], memory,
				    GPUMAP_OP_MASK_ADD, mask),
			   0);
			OK(is_right(memory, 7));
			device = story_device(map, rows[k]);
			kill((pid_t)device.worker_pid, SIGKILL);
			OK(story_back(map, rows[k], device.restarts));
		}
		/* Only jobs keep it now. */
		if (i == 0)
			EQ(gpumap_mask_release(map, "lives"), 0);
	}
	EQ(run_mask(session, cards[1], memory, GPUMAP_OP_MASK_ADD, mask), 0);
	OK(is_right(memory, 7));
	gpumap_session_close(session);
}

/* ---- whose they are ------------------------------------------------------ */

#define IMPORTS 8u

static struct fake_reference imports[IMPORTS]; /* which keep the memory */
static uint32_t n_imports;

/* A pointer into the stand-in's memory, for who has the descriptor. */
static float *map_fd(int fd, uint64_t bytes)
{
	struct fake_reference *ref = &imports[n_imports];
	int ret = -ENOSPC;
	void *at;

	fake_lock(&scene.hw);
	if (n_imports < IMPORTS)
		ret = fake_object_from(&scene.hw, fd, ref);
	fake_unlock(&scene.hw);
	if (ret != 0)
		return NULL;
	n_imports++;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, scene.hw.fd,
		  (off_t)ref->offset);
	return at != MAP_FAILED ? at : NULL;
}

static void give_imports_back(void)
{
	fake_lock(&scene.hw);
	while (n_imports > 0)
		fake_object_drop(&imports[--n_imports]);
	fake_unlock(&scene.hw);
}

static float *import(const char *name, uint32_t row, int *ret_error)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	float *memory = NULL;
	int fd = -1, ret = gpumap_mask_open(map, name, 0, &mask);

	if (ret == 0)
		ret = gpumap_mask_get(map, mask, row, &view);
	if (ret == 0)
		ret = gpumap_export_fd(map, view->export_id, &info, &fd);
	if (ret == 0) {
		memory = map_fd(fd, info.bytes);
		close(fd);
	}
	gpumap_mask_close(map, mask);
	*ret_error = ret;
	return memory;
}

static bool is_of(const float *memory, uint64_t window)
{
	for (uint32_t k = 0; memory != NULL && k < N; k++) {
		uint32_t i = k / SIZE, j = k % SIZE;
		bool masked = j > i || j + window < i;

		if (masked ? !isinf(memory[k]) || memory[k] > 0
			   : memory[k] != 0)
			return false;
	}
	return memory != NULL;
}

/* A user of the group that may read masks has a copy, and overwrites it. */
static int be_reader(gid_t group)
{
	struct gpumap_session *session;
	float *memory, *work;
	uint64_t mask = 0;
	int ret;

	if (!user_become(STRANGER, group))
		return 1;
	map = story_attach(&agent);
	if (map == NULL)
		return 2;
	memory = import("shared", cards[0], &ret);
	if (memory == NULL) {
		NOTE("%d: %s", ret, gpumap_refusal(map));
		return 3;
	}
	if (!is_of(memory, 11))
		return 4;
	memset(memory, 0, N * sizeof(float));
	/* The user's own jobs read its overwritten replica; jobs of another row
	 * do not. */
	session = open_session();
	work = arena(session);
	if (gpumap_buffer_register_mask(session, "shared", &mask, NULL) != 0)
		return 5;
	if (run_mask(session, cards[0], work, GPUMAP_OP_MASK_ADD, mask) != 0 ||
	    memcmp(work, work + N, N * sizeof(float)) != 0)
		return 6;
	if (run_mask(session, cards[1], work, GPUMAP_OP_MASK_ADD, mask) != 0 ||
	    !is_right(work, 11))
		return 7;
	gpumap_session_close(session);
	gpumap_detach(map);
	return 0;
}

static int in_a_child(int (*be)(gid_t group), gid_t group)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(be(group));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void each_user_has_his_own(void)
{
	struct gpumap_session *session = open_session();
	float *work = arena(session), *memory;
	uint64_t mask = 0;
	int ret;

	if (geteuid() != 0) {
		SKIP(1, "only root can become another user");
		gpumap_session_close(session);
		return;
	}
	EQ(publish("shared", GPUMAP_DTYPE_F32, 11, cards, 2), 0);
	memory = import("shared", cards[0], &ret);
	OK(is_of(memory, 11));
	EQ(gpumap_buffer_register_mask(session, "shared", &mask, NULL), 0);
	EQ(in_a_child(be_reader, STRANGER), 0);
	OK(is_of(memory, 11));
	EQ(run_mask(session, cards[0], work, GPUMAP_OP_MASK_ADD, mask), 0);
	OK(is_right(work, 11));
	gpumap_session_close(session);
	EQ(gpumap_mask_release(map, "shared"), 0);
}

/* Every user may connect: then only the owner reads a mask. */
static int be_stranger(gid_t group)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1;

	if (!user_become(STRANGER, STRANGER))
		return 1;
	(void)group;
	map = story_attach(&agent);
	if (map == NULL)
		return 2;
	/* A number that was overheard. */
	if (gpumap_export_fd(map, strtoull(getenv("OVERHEARD"), NULL, 0), &info,
			     &fd) != -EACCES)
		return 3;
	if (strstr(gpumap_refusal(map), "mode to 0660") == NULL)
		return 4;
	gpumap_detach(map);
	return 0;
}

static void strangers_are_given_nothing(void)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	char number[32];

	if (geteuid() != 0) {
		SKIP(1, "only root can become a stranger");
		return;
	}
	EQ(publish("ours", GPUMAP_DTYPE_F32, 12, cards, 1), 0);
	if (!EQ(gpumap_mask_open(map, "ours", 0, &mask), 0))
		return;
	if (EQ(gpumap_mask_get(map, mask, cards[0], &view), 0)) {
		snprintf(number, sizeof(number), "%llu",
			 (unsigned long long)view->export_id);
		setenv("OVERHEARD", number, 1);
	}
	EQ(in_a_child(be_stranger, 0), 0);
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "ours"), 0);
}

/* ---- maps, and room ------------------------------------------------------ */

static int publish_map(const char *spec)
{
	uint64_t bytes[4] = { 1, 1, 1, 1 };
	struct gpumap_layers_request r = { .size = sizeof(r),
					   .name = "model",
					   .spec = spec,
					   .n_layers = 4,
					   .layer_bytes = bytes };

	return gpumap_layers_publish(map, &r);
}

static bool has_rows(const char *name, const uint32_t *rows, uint32_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_mask_info info = { .size = sizeof(info) };
	uint32_t got[8];

	while (story_now() < until) {
		if (gpumap_mask_read(map, name, &info, got, 8) == 0 &&
		    info.n_rows == n && memcmp(got, rows, 4 * n) == 0)
			return true;
		story_nap(5000);
	}
	return false;
}

static void a_mask_follows_its_map(void)
{
	struct gpumap_mask_request r =
		request_of("follows", GPUMAP_DTYPE_F32, 13, NULL, 0);
	const uint32_t one[] = { cards[0], cards[1] };
	const uint32_t two[] = { cards[2], cards[0] };
	char spec[32];
	int ret;

	snprintf(spec, sizeof(spec), "%u:2;%u:2", cards[0], cards[1]);
	EQ(publish_map(spec), 0);
	r.map = "model";
	EQ(gpumap_mask_publish(map, &r, NULL), 0);
	OK(has_rows("follows", one, 2));
	snprintf(spec, sizeof(spec), "%u:1;%u:3", cards[2], cards[0]);
	EQ(publish_map(spec), 0);
	OK(has_rows("follows", two, 2));
	OK(is_of(import("follows", cards[2], &ret), 13));
	OK(is_of(import("follows", cards[0], &ret), 13));
	EQ(gpumap_mask_release(map, "follows"), 0);
}

/* Take all that the driver has, or give it back.  Returns how much it was. */
static uint64_t reserve(uint32_t gpu, uint64_t back)
{
	uint64_t left;

	fake_lock(&scene.hw);
	left = back ? 0 : fake_free_bytes(&scene.hw, gpu);
	scene.hw.board->gpus[gpu].reserved += left - back;
	fake_unlock(&scene.hw);
	return left;
}

/* The row says what the last look found: not yet that there is room again. */
static int publish_with_room(const uint32_t *rows, uint32_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret = publish("full", GPUMAP_DTYPE_F32, 14, rows, n);

	while (ret == -ENOSPC && story_now() < until) {
		story_nap(20000);
		ret = publish("full", GPUMAP_DTYPE_F32, 14, rows, n);
	}
	return ret;
}

/* The driver has nothing left, whatever the row says: once more where a look
 * at the card came first, and the row says it, too. */
static void a_full_device_refuses(void)
{
	struct gpumap_device device = story_device(map, cards[2]);
	uint32_t gpu = cuda_scene_gpu(&scene, &device);
	const uint32_t rows[] = { cards[1], cards[2] };
	int ret = -ENOSPC;
	uint64_t left = 0;

	for (int tries = 0; ret == -ENOSPC && tries < 20; tries++) {
		if (tries > 0) {
			reserve(gpu, left);
			EQ(publish_with_room(rows, 2), 0);
			EQ(gpumap_mask_release(map, "full"), 0);
		}
		left = reserve(gpu, 0);
		ret = publish("full", GPUMAP_DTYPE_F32, 14, rows, 2);
	}
	EQ(ret, -ENOMEM);
	OK(strstr(gpumap_refusal(map), "no memory left") != NULL);
	EQ(gpumap_mask_read(map, "full", NULL, NULL, 0), -ENOENT);
	EQ(publish("full", GPUMAP_DTYPE_F32, 14, rows, 1), 0);
	reserve(gpu, left);
	EQ(publish_with_room(rows, 2), 0);
	EQ(gpumap_mask_release(map, "full"), 0);
}

static bool start(const char *mode)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "[host]\nrows = 1\n[socket]\nmode = %s\ngroup = %u\n"
		 "[masks]\nbytes = 16M\n",
		 mode, geteuid() == 0 ? STRANGER : getegid());
	cuda_scene_agent(&scene, &agent, "", text);
	if (!OK(agent_start(&agent)))
		return false;
	if (geteuid() == 0)
		chmod(agent.dir, 0711);
	map = story_attach(&agent);
	return OK(map != NULL) && find_rows();
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return tap_done();
	if (start(geteuid() == 0 ? "0660" : "0600")) {
		each_row_reads_its_own();
		the_next_worker_reads_it_too();
		each_user_has_his_own();
		a_mask_follows_its_map();
		a_full_device_refuses();
	}
	story_finish(&agent, map);
	if (start("0666"))
		strangers_are_given_nothing();
	story_finish(&agent, map);
	agent_remove(&agent);
	give_imports_back();
	cuda_scene_end(&scene);
	return tap_done();
}
