/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The node segments of masks that an attachment has mapped: threads look up
 * masks of their own, and find or add entries of one list. */

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "gpumap.h"
#include "tests/support/segment_file.h"
#include "tests/support/tap.h"

#define NODES   4u
#define THREADS 2u
#define ROUNDS  400
#define MADE    7u

static struct segment_file file;
static gm_a32 ready; /* threads that wait for the start of their round */

static int attach_to(struct gpumap **ret_map)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = file.instance,
					   .runtime_dir = "/nonexistent" };

	return gpumap_attach(&opts, ret_map);
}

/* Mappings of node segments that this process has. */
static int mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], name[GM_NAMES_BYTES];
	int n = 0;

	if (maps == NULL)
		return -1;
	shm_names_file(name, file.instance, "node");
	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, name) != NULL;
	fclose(maps);
	return n;
}

/* Does the mask have the bytes of each row's node? */
static bool reads_all(struct gpumap *map, struct gpumap_mask *mask)
{
	bool good = true;

	for (uint32_t row = 0; row < NODES; row++) {
		const struct gpumap_mask_view *view = NULL;
		const unsigned char *bytes;

		if (gpumap_mask_get(map, mask, row, &view) != 0)
			return false;
		bytes = view->data;
		good &= bytes[0] == row + 1 &&
			bytes[SEGMENT_MASK_BYTES - 1] == row + 1;
	}
	return good;
}

static void *open_and_read(void *arg)
{
	struct gpumap_mask *mask = NULL;
	struct gpumap *map = arg;
	bool good;

	gm_add_ordered(&ready, 1); /* a test's own: no edge of the product */
	while (gm_get(&ready) < THREADS)
		gm_pause();
	good = gpumap_mask_open(map, "m", 0, &mask) == 0 &&
	       reads_all(map, mask);
	gpumap_mask_close(map, mask);
	return good ? arg : NULL;
}

/* Returns whether both threads have read, and their attachment has unmapped
 * what they mapped. */
static bool round_of_two(void)
{
	pthread_t threads[THREADS];
	struct gpumap *map = NULL;
	bool good = true;

	gm_put(&ready, 0);
	if (attach_to(&map) != 0)
		return false;
	for (uint32_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, open_and_read, map) != 0)
			abort();
	for (uint32_t i = 0; i < THREADS; i++) {
		void *ret = NULL;

		pthread_join(threads[i], &ret);
		good &= ret != NULL;
	}
	good &= mapped() == (int)NODES;
	gpumap_detach(map);
	return good && mapped() == 0;
}

static void threads_map_each_node_once(void)
{
	int good = 0;

	for (int i = 0; i < ROUNDS; i++)
		good += round_of_two();
	EQ(good, ROUNDS);
}

/* A child reads masks too, whatever another thread was doing at the fork. */
static void a_child_goes_on_reading(void)
{
	struct gpumap_mask *mask = NULL;
	struct gpumap *map = NULL;
	int status = -1;
	pid_t child;

	if (!EQ(attach_to(&map), 0))
		return;
	EQ(gpumap_mask_open(map, "m", 0, &mask), 0);
	child = fork();
	if (child == 0) {
		struct gpumap_mask *own = NULL;

		_exit(!(reads_all(map, mask) &&
			gpumap_mask_renew(map, mask) == -EAGAIN &&
			gpumap_mask_open(map, "m", 0, &own) == 0 &&
			reads_all(map, own)));
	}
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	gpumap_mask_close(map, mask);
	gpumap_detach(map);
}

TAP_CASE()
{
	bool made;

	if (segment_file_make("mask_nodes", &file) != 0) {
		SKIP(1, "no segment in /dev/shm");
		return tap_done();
	}
	made = true;
	for (uint32_t i = 0; i < NODES; i++)
		made &= segment_file_node(&file, MADE,
					  (unsigned char)(i + 1)) == 0;
	segment_mask(&file.segment, 3, "m", MADE, NODES);
	if (OK(made)) {
		threads_map_each_node_once();
		a_child_goes_on_reading();
	}
	segment_file_remove(&file);
	return tap_done();
}
