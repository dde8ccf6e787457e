/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Large masks on several cards: the first is uploaded, and the others copy it from
 * card to card, which shows where links spoil what goes over them after they have
 * been tried.  Links that lie from the beginning are found out, what a client was
 * given is never copied from, and workers may die at any moment.
 */

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "agent/mask/mask.h"
#include "tests/cuda_scene.h"

#define CARDS 4u
#define LARGE 3000u /* queries, and keys: 9000000 bytes as u8 */
#define SMALL 1000u

static struct cuda_scene scene;
static struct agent agent;
static struct gpumap *map;
static uint32_t cards[CARDS]; /* rows */
static uint64_t window = 10;  /* of the last mask: each has bytes of its own */

static bool find_rows(void)
{
	uint32_t n = 0;

	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		struct gpumap_device device = story_device(map, row);

		if (device.kind == GPUMAP_DEVICE_CUDA && n < CARDS)
			cards[n++] = row;
	}
	return EQ(n, CARDS);
}

static int publish_on(const char *name, uint32_t size, uint32_t n)
{
	const struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = size,
		.sliding_window = window,
		.rows = cards,
		.n_rows = n,
	};
	int ret = gpumap_mask_publish(map, &r, NULL);

	if (ret != 0)
		NOTE("%s: %d: %s", name, ret, gpumap_refusal(map));
	return ret;
}

static int publish(const char *name, uint32_t size)
{
	window++;
	return publish_on(name, size, CARDS);
}

/* ---- what is in a replica ------------------------------------------------- */

static const uint8_t *rule(uint32_t size)
{
	static uint8_t want[LARGE * LARGE];
	static uint64_t is_of;
	const struct gm_mask_spec spec = { .form = GM_MASK_SLIDING,
					   .tgt_len = size,
					   .sliding_window = window };

	if (is_of != (window << 32 | size))
		gm_mask_fill(&spec, GPUMAP_DTYPE_U8, 0, size, want);
	is_of = (window << 32 | size);
	return want;
}

struct import {
	uint8_t *at; /* NULL: nothing */
	uint64_t bytes;
	struct fake_reference ref;
};

/* Of a connection: what it was given counts until that ends. */
static bool import(struct gpumap *by, const struct gpumap_mask_view *view,
		   struct import *it)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1, ret = gpumap_export_fd(by, view->export_id, &info, &fd);
	void *at = MAP_FAILED;

	if (ret != 0)
		return false;
	*it = (struct import){ .bytes = view->bytes };
	fake_lock(&scene.hw);
	ret = fake_object_from(&scene.hw, fd, &it->ref);
	fake_unlock(&scene.hw);
	close(fd);
	if (ret == 0)
		at = mmap(NULL, it->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			  scene.hw.fd, (off_t)it->ref.offset);
	it->at = at != MAP_FAILED ? at : NULL;
	return it->at != NULL;
}

static void give_back(struct import *it)
{
	munmap(it->at, it->bytes);
	fake_lock(&scene.hw);
	fake_object_drop(&it->ref);
	fake_unlock(&scene.hw);
}

/* How many of its bytes are wrong; UINT64_MAX: there is none. */
static uint64_t wrong_bytes(const char *name, uint32_t row, uint32_t size)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, n = 0;
	const struct gpumap_mask_view *view = NULL;
	const uint8_t *want = rule(size);
	struct gpumap *by = story_attach(&agent);
	struct gpumap_mask *mask = NULL;
	struct import it = { .at = NULL };

	if (by == NULL || gpumap_mask_open(map, name, 0, &mask) != 0) {
		gpumap_detach(by);
		return UINT64_MAX;
	}
	/* It may be made anew just now. */
	while (story_now() < until &&
	       (gpumap_mask_get(map, mask, row, &view) != 0 ||
		!import(by, view, &it)))
		story_nap(2000);
	gpumap_mask_close(map, mask);
	gpumap_detach(by);
	if (it.at == NULL || it.bytes != (uint64_t)size * size)
		return UINT64_MAX;
	for (uint64_t i = 0; i < it.bytes; i++)
		n += it.at[i] != want[i];
	give_back(&it);
	return n;
}

static bool is_right(const char *name, uint32_t size)
{
	for (uint32_t i = 0; i < CARDS; i++) {
		uint64_t n = wrong_bytes(name, cards[i], size);

		if (n == 0)
			continue;
		NOTE("%s: row %u: %llu bytes are wrong", name, cards[i],
		     (unsigned long long)n);
		return false;
	}
	return true;
}

/* ---- stories -------------------------------------------------------------- */

/* What NVML says of the links comes after the rows; then each path is tried. */
static void paths_are_tried(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	char line[64];
	uint32_t good = 0;

	while (good < CARDS - 1 && story_now() < until) {
		if (!EQ(publish("try", LARGE), 0) ||
		    !OK(is_right("try", LARGE)))
			return;
		good = 0;
		for (uint32_t i = 1; i < CARDS; i++) {
			snprintf(line, sizeof(line),
				 "event=peers_good row=%u from=%u ", cards[i],
				 cards[0]);
			good += agent_logged(&agent, line);
		}
	}
	EQ(good, CARDS - 1);
	OK(agent_logged(&agent, "way=peer"));
	OK(agent_logged(&agent, "way=upload"));
	OK(!agent_logged(&agent, "event=peers_bad"));
	EQ(gpumap_mask_release(map, "try"), 0);
}

static void all_links_spoil(void)
{
	for (uint32_t i = 0; i < scene.hw.board->n_gpus; i++)
		cuda_scene_add(&scene, "row %u: peer copies corrupt", i);
}

static void links_again(void)
{
	cuda_scene_mend(&scene);
	for (uint32_t i = 0; i < CARDS; i++) {
		for (uint32_t j = 0; j < i; j++)
			cuda_scene_add(&scene, "row %u: link to %u", i, j);
	}
}

/* Tried, they are relied on: so what they spoil is to be seen, in all but one. */
static void large_ones_go_over_the_links(void)
{
	uint32_t spoilt = 0, right = 0;

	all_links_spoil();
	EQ(publish("over", LARGE), 0);
	for (uint32_t i = 0; i < CARDS; i++) {
		uint64_t n = wrong_bytes("over", cards[i], LARGE);

		right += n == 0;
		spoilt += n == 1;
	}
	EQ(right, 1);
	EQ(spoilt, CARDS - 1);
	EQ(publish("over", SMALL), 0);
	OK(is_right("over", SMALL));
	EQ(gpumap_mask_release(map, "over"), 0);
	links_again();
}

/* Whoever was given a replica may have written there. */
static void what_is_lent_is_not_copied(void)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	struct import it;

	window++;
	EQ(publish_on("lent", LARGE, 1), 0);
	if (!EQ(gpumap_mask_open(map, "lent", 0, &mask), 0))
		return;
	if (EQ(gpumap_mask_get(map, mask, cards[0], &view), 0) &&
	    OK(import(map, view, &it))) {
		memset(it.at, 0x77, it.bytes);
		EQ(publish_on("twin", LARGE, CARDS), 0);
		for (uint32_t i = 1; i < CARDS; i++)
			EQ(wrong_bytes("twin", cards[i], LARGE), 0);
		give_back(&it);
		EQ(gpumap_mask_release(map, "twin"), 0);
	}
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "lent"), 0);
}

static void workers_die(void)
{
	int published = 0;

	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_device device =
			story_device(map, cards[(uint32_t)round % CARDS]);
		pid_t killer = fork();
		int ret;

		if (killer == 0) {
			story_nap(story_moment(round, 8000));
			if (device.worker_pid != 0)
				kill((pid_t)device.worker_pid, SIGKILL);
			_exit(0);
		}
		ret = publish("dies", LARGE);
		waitpid(killer, NULL, 0);
		published += ret == 0;
		if (ret == 0 && !OK(is_right("dies", LARGE)))
			break;
		/* A row whose workers die all the time may be refused. */
		if (ret != 0 && ret != -EIO && ret != -ENODEV) {
			EQ(ret, 0);
			break;
		}
	}
	OK(published > 0);
}

/* The next agent knows no path. */
static void links_that_lie_are_found_out(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	all_links_spoil();
	OK(agent_start(&agent));
	map = story_attach(&agent);
	do {
		if (!EQ(publish("lies", LARGE), 0) ||
		    !OK(is_right("lies", LARGE)))
			return;
	} while (!agent_logged(&agent, "event=peers_bad") &&
		 story_now() < until);
	OK(agent_logged(&agent, "event=peers_bad"));
	EQ(gpumap_mask_release(map, "lies"), 0);
}

int main(void)
{
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return tap_done();
	links_again();
	cuda_scene_agent(&scene, &agent, "",
			 "[host]\nrows = 1\n[masks]\nbytes = 256M\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    find_rows()) {
		paths_are_tried();
		large_ones_go_over_the_links();
		what_is_lent_is_not_copied();
		workers_die();
		links_that_lie_are_found_out();
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}
