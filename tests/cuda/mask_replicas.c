/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks on CUDA rows: a replica in the memory of each, shared where masks are
 * equal, but not between users; made anew after a worker's death and by the
 * next agent, gone while a row is drained, refused where there is no room; and
 * taken by jobs.  The test reads replicas from the stand-in's own memory.
 */

#include <errno.h>
#include <grp.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/mask/mask.h"
#include "tests/support/cuda_agent.h"
#include "tests/support/ctl.h"

#define SIZE     300u /* queries, and keys: more than one granule as f32 */
#define N        (SIZE * SIZE)
#define STRANGER 65531

static struct cuda_scene scene;
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

static struct gpumap_mask_request request_of(const char *name, uint64_t window,
					     const uint32_t *rows, uint32_t n)
{
	return (struct gpumap_mask_request){
		.size = sizeof(struct gpumap_mask_request),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = GPUMAP_DTYPE_F32,
		.tgt_len = SIZE,
		.sliding_window = window,
		.rows = rows,
		.n_rows = n,
	};
}

static int publish(const char *name, uint64_t window, const uint32_t *rows,
		   uint32_t n, struct gpumap_mask_result *ret_result)
{
	struct gpumap_mask_result result = { .size = sizeof(result) };
	struct gpumap_mask_request r = request_of(name, window, rows, n);
	int ret = gpumap_mask_publish(map, &r, &result);

	if (ret != 0)
		NOTE("%s: %d: %s", name, ret, gpumap_refusal(map));
	if (ret_result != NULL)
		*ret_result = result;
	return ret;
}

/* ---- what is in a replica ------------------------------------------------ */

static const float *rule(uint64_t window)
{
	static float want[N];
	const struct gm_mask_spec spec = { .form = GM_MASK_SLIDING,
					   .tgt_len = SIZE,
					   .sliding_window = window };

	gm_mask_fill(&spec, GPUMAP_DTYPE_F32, 0, SIZE, want);
	return want;
}

/* An imported replica that a client holds. */
struct import {
	float *at; /* NULL: nothing */
	uint64_t bytes;
	struct fake_reference ref;
};

static struct import import_fd(int fd, uint64_t bytes)
{
	struct import it = { .bytes = bytes };
	void *at;
	int ret;

	fake_lock(&scene.hw);
	ret = fake_object_from(&scene.hw, fd, &it.ref);
	fake_unlock(&scene.hw);
	if (ret != 0)
		return it;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, scene.hw.fd,
		  (off_t)it.ref.offset);
	if (at != MAP_FAILED)
		it.at = at;
	return it;
}

static void give_back(struct import *it)
{
	if (it->at == NULL)
		return;
	munmap(it->at, it->bytes);
	fake_lock(&scene.hw);
	fake_object_drop(&it->ref);
	fake_unlock(&scene.hw);
	it->at = NULL;
}

/* A view's, through a descriptor of the agent's. */
static struct import import(const struct gpumap_mask_view *view)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1, ret = gpumap_export_fd(map, view->export_id, &info, &fd);
	struct import it = { .at = NULL };

	if (ret != 0) {
		NOTE("%d: %s", ret, gpumap_refusal(map));
		return it;
	}
	if (EQ(info.bytes, view->bytes) && EQ(info.row, view->row))
		it = import_fd(fd, view->bytes);
	close(fd);
	return it;
}

static bool is_right(const struct gpumap_mask_view *view, uint64_t window)
{
	const float *want = rule(window);
	struct import it;
	bool right;

	if (view->bytes != N * sizeof(float))
		return false;
	if (view->data != NULL)
		return view->export_id == 0 &&
		       memcmp(view->data, want, view->bytes) == 0;
	if (view->export_id == 0 || view->at != 0)
		return false;
	it = import(view);
	right = it.at != NULL && memcmp(it.at, want, view->bytes) == 0;
	give_back(&it);
	return right;
}

/* Waits until a row has a replica, and what it has is of @window. */
static bool comes_back(struct gpumap_mask *mask, uint32_t row, uint64_t window,
		       uint64_t not_this)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	const struct gpumap_mask_view *view;

	while (story_now() < until) {
		int ret = gpumap_mask_get(map, mask, row, &view);

		if (ret == 0 && view->export_id != not_this)
			return is_right(view, window);
		if (ret != 0 && ret != -EAGAIN && ret != -ENOENT)
			return false;
		story_nap(5000);
	}
	return false;
}

static uint64_t id_of(const char *name, uint32_t row)
{
	const struct gpumap_mask_view *view;
	struct gpumap_mask *mask = NULL;
	uint64_t id = 0;

	if (gpumap_mask_open(map, name, 0, &mask) != 0)
		return 0;
	if (gpumap_mask_get(map, mask, row, &view) == 0)
		id = view->export_id;
	gpumap_mask_close(map, mask);
	return id;
}

/* ---- stories ------------------------------------------------------------- */

static void each_row_has_one(void)
{
	const uint32_t rows[] = { cards[0], cards[2], host };
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask_info info = { .size = sizeof(info) };
	struct gpumap_mask_result result;
	struct gpumap_mask *mask = NULL;
	uint32_t listed[8];

	EQ(publish("all", 40, rows, 3, &result), 0);
	EQ(result.bytes, N * sizeof(float));
	EQ(result.n_copies, 3);
	EQ(result.n_shared, 0);
	EQ(gpumap_mask_read(map, "all", &info, listed, 8), 0);
	EQ(info.n_rows, 3);
	if (!EQ(gpumap_mask_open(map, "all", 0, &mask), 0))
		return;
	for (uint32_t i = 0; i < 3; i++) {
		if (EQ(gpumap_mask_get(map, mask, rows[i], &view), 0))
			OK(is_right(view, 40));
		EQ(view->version, result.version);
		EQ(view->row, rows[i]);
	}
	EQ(gpumap_mask_get(map, mask, cards[1], &view), -ENOENT);

	/* The same once more, by another name and for more rows. */
	EQ(publish("twin", 40, cards, 4, &result), 0);
	EQ(result.n_copies, 2);
	EQ(result.n_shared, 3);
	EQ(id_of("twin", cards[0]), id_of("all", cards[0]));
	EQ(id_of("twin", cards[2]), id_of("all", cards[2]));
	OK(id_of("twin", cards[1]) != 0);
	EQ(gpumap_mask_release(map, "all"), 0);
	EQ(gpumap_mask_get(map, mask, cards[0], &view), -ENOENT);
	gpumap_mask_close(map, mask);
	OK(id_of("twin", cards[0]) != 0);
	if (!EQ(gpumap_mask_open(map, "twin", 0, &mask), 0))
		return;
	for (uint32_t i = 0; i < 4; i++)
		OK(comes_back(mask, cards[i], 40, 0));

	/* And replaced: who looks is told, and sees what is there now. */
	EQ(gpumap_mask_get(map, mask, cards[3], &view), 0);
	EQ(publish("twin", 50, cards, 4, NULL), 0);
	EQ(gpumap_mask_get(map, mask, cards[3], &view), -EAGAIN);
	EQ(gpumap_mask_get(map, mask, cards[3], &view), 0);
	OK(is_right(view, 50));
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "twin"), 0);
}

/* A replica without a name is given back; a client that imported it keeps
 * it. */
static void memory_is_given_back(void)
{
	struct gpumap_device device = story_device(map, cards[0]);
	uint32_t gpu = cuda_scene_gpu(&scene, &device);
	const struct gpumap_mask_view *view = NULL;
	uint64_t until = story_now() + STORY_LIMIT_NS, before, id;
	struct gpumap_export_info info = { .size = sizeof(info) };
	struct gpumap_mask *mask = NULL;
	int fd = -1;

	/* Which starts the worker, and stays. */
	EQ(publish("first", 59, cards, 1, NULL), 0);
	before = cuda_scene_free(&scene, gpu);
	EQ(publish("gone", 60, cards, 1, NULL), 0);
	OK(cuda_scene_free(&scene, gpu) + 2 * MIB <= before);
	id = id_of("gone", cards[0]);
	if (!EQ(gpumap_mask_open(map, "gone", GPUMAP_MASK_PIN, &mask), 0))
		return;
	EQ(gpumap_mask_release(map, "gone"), 0);
	/* Pinned, it can be imported all the same. */
	if (EQ(gpumap_mask_get(map, mask, cards[0], &view), 0))
		OK(is_right(view, 60));
	EQ(gpumap_export_fd(map, id, &info, &fd), 0);
	close(fd);
	gpumap_mask_close(map, mask);
	gpumap_detach(map); /* what it was given counts until then */
	map = story_attach(&agent);
	while (cuda_scene_free(&scene, gpu) < before && story_now() < until)
		story_nap(5000);
	OK(cuda_scene_free(&scene, gpu) >= before);
	EQ(gpumap_export_fd(map, id, &info, &fd), -ENOENT);
	EQ(gpumap_mask_release(map, "first"), 0);
}

static void kill_worker(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (device.worker_pid == 0 && story_now() < until) {
		story_nap(5000);
		device = story_device(map, row);
	}
	if (!OK(device.worker_pid != 0))
		return;
	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(map, row, device.restarts));
}

static void the_next_worker_makes_it_anew(void)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	struct import old;
	uint64_t id;

	EQ(publish("lives", 70, cards, 2, NULL), 0);
	if (!EQ(gpumap_mask_open(map, "lives", 0, &mask), 0))
		return;
	for (int i = 0; i < 3; i++) {
		uint64_t version;

		while (gpumap_mask_get(map, mask, cards[0], &view) == -EAGAIN)
			;
		id = view->export_id;
		version = view->version;
		old = import(view);
		kill_worker(cards[0]);
		OK(comes_back(mask, cards[0], 70, id));
		EQ(gpumap_mask_get(map, mask, cards[0], &view), 0);
		OK(view->version > version);
		EQ(gpumap_mask_get(map, mask, cards[1], &view), 0);
		OK(is_right(view, 70));
		/* A client that has the old replica reads on. */
		OK(old.at != NULL && memcmp(old.at, rule(70), old.bytes) == 0);
		give_back(&old);
	}
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "lives"), 0);
}

static void the_next_agent_makes_it_anew(void)
{
	const uint32_t rows[] = { cards[1], host };
	struct gpumap_mask *mask = NULL;
	uint64_t a, b;

	EQ(publish("stays", 80, rows, 2, NULL), 0);
	EQ(publish("alone", 81, cards, 2, NULL), 0);
	a = id_of("stays", cards[1]);
	b = id_of("alone", cards[0]);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	OK(agent_start(&agent));
	map = story_attach(&agent);
	if (!EQ(gpumap_mask_open(map, "stays", 0, &mask), 0))
		return;
	OK(comes_back(mask, cards[1], 80, a));
	OK(comes_back(mask, host, 80, UINT64_MAX));
	gpumap_mask_close(map, mask);
	if (!EQ(gpumap_mask_open(map, "alone", 0, &mask), 0))
		return;
	OK(comes_back(mask, cards[0], 81, b));
	OK(comes_back(mask, cards[1], 81, 0));
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "stays"), 0);
	EQ(gpumap_mask_release(map, "alone"), 0);
}

/* The file with the bytes that replicas were made from is another one: what the
 * mask names there is not believed, and the mask is made from its rule. */
static void the_bytes_are_lost(void)
{
	struct gpumap_mask *mask = NULL;
	char path[128];
	uint64_t id;

	EQ(publish("lost", 85, cards, 2, NULL), 0);
	id = id_of("lost", cards[0]);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	shm_names_file(path, agent.instance, "node0");
	EQ(unlink(path), 0);
	OK(agent_start(&agent));
	OK(agent_logged(&agent, "event=mask_lost name=lost"));
	map = story_attach(&agent);
	if (!EQ(gpumap_mask_open(map, "lost", 0, &mask), 0))
		return;
	OK(comes_back(mask, cards[0], 85, id));
	OK(comes_back(mask, cards[1], 85, 0));
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "lost"), 0);
}

static void a_drained_row_has_none(void)
{
	struct gpumap_device device = story_device(map, cards[0]);
	uint32_t gpu = cuda_scene_gpu(&scene, &device);
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask_info info = { .size = sizeof(info) };
	struct gpumap_mask *mask = NULL;
	uint64_t until = story_now() + STORY_LIMIT_NS, before;
	uint32_t rows[4];
	int ret;

	before = cuda_scene_free(&scene, gpu);
	EQ(publish("drained", 90, cards, 2, NULL), 0);
	if (!EQ(gpumap_mask_open(map, "drained", 0, &mask), 0))
		return;
	EQ(gpumap_device_drain(map, cards[0]), 0);
	while ((ret = gpumap_mask_get(map, mask, cards[0], &view)) != -ENOENT &&
	       story_now() < until)
		story_nap(5000);
	EQ(ret, -ENOENT);
	if (EQ(gpumap_mask_get(map, mask, cards[1], &view), 0))
		OK(is_right(view, 90));
	EQ(gpumap_mask_read(map, "drained", &info, rows, 4), 0);
	EQ(info.n_rows, 1);
	EQ(rows[0], cards[1]);
	while (cuda_scene_free(&scene, gpu) < before && story_now() < until)
		story_nap(5000);
	OK(cuda_scene_free(&scene, gpu) >= before);
	EQ(cuda_scene_users(&scene, gpu), 0);
	/* No client can publish a mask there. */
	EQ(publish("no", 91, cards, 1, NULL), -ENODEV);
	OK(strstr(gpumap_refusal(map), "row") != NULL);
	EQ(gpumap_mask_read(map, "no", NULL, NULL, 0), -ENOENT);

	EQ(gpumap_device_undrain(map, cards[0]), 0);
	OK(comes_back(mask, cards[0], 90, 0));
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "drained"), 0);
}

/* gpumapctl takes every row that can have one, and draws one that it can
 * see. */
static void gpumapctl_knows_them(void)
{
	struct gpumap_mask_info info = { .size = sizeof(info) };
	uint32_t rows[8], n = gpumap_device_count(map);

	EQ(CTL("mask", "publish", "ctl", "--kind", "causal", "--size", "16"),
	   DONE);
	EQ(gpumap_mask_read(map, "ctl", &info, rows, 8), 0);
	EQ(info.n_rows, n);
	EQ(CTL("mask", "show", "ctl"), DONE);
	OK(strstr(out, ".####") != NULL);
	EQ(CTL("mask", "show", "ctl", "--rows", "0"), DONE);
	OK(strstr(out, ".####") == NULL);
	EQ(CTL("mask", "release", "ctl"), DONE);
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return tap_done();
	cuda_scene_agent(&scene, &agent, "",
			 "[host]\nrows = 2\n[socket]\nmode = 0666\n"
			 "[masks]\nbytes = 16M\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    find_rows()) {
		memory_is_given_back();
		each_row_has_one();
		the_next_worker_makes_it_anew();
		the_next_agent_makes_it_anew();
		the_bytes_are_lost();
		gpumapctl_knows_them();
		a_drained_row_has_none();
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}
