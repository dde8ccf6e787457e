/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Pins of one attachment, against a peer in a thread: several threads make and
 * end them, and a forked child has none. */

#include <sys/wait.h>

#include "tests/support/peer/peer_session.h"

#define ROUNDS 300
#define MADE   7u

/* Pins of this thread that are still there at the end, of a kind of its own. */
static void *pin_maps(void *arg)
{
	struct gpumap_view view;
	uint64_t pin = 0;
	intptr_t good = 0;

	for (int i = 0; i < ROUNDS; i++) {
		good += gpumap_layers_pin(map, "model", &view, &pin) == 0;
		if (i % 2 == 0)
			good -= gpumap_unpin(map, pin) != 0;
	}
	(void)arg;
	return (void *)good;
}

static void *pin_masks(void *arg)
{
	struct gpumap_mask **masks = arg;
	intptr_t good = 0;

	for (int i = 0; i < ROUNDS; i++) {
		good += gpumap_mask_open(map, "mask", GPUMAP_MASK_PIN,
					 &masks[i]) == 0;
		if (i % 2 != 0)
			continue;
		gpumap_mask_close(map, masks[i]);
		masks[i] = NULL;
	}
	return (void *)good;
}

/* Each function by one thread at a time, as a program may read "one at a time".
 * Detaching gives back what is left. */
static void threads_lose_no_pin(void)
{
	static struct gpumap_mask *masks[ROUNDS];
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };
	uint32_t before = gm_get(&peer.pinned) - gm_get(&peer.unpinned);
	struct gpumap *other = map;
	void *ret = NULL;
	pthread_t thread;

	opts.instance = file.instance;
	opts.runtime_dir = peer.dir;
	if (!EQ(gpumap_attach(&opts, &map), 0) ||
	    !EQ(pthread_create(&thread, NULL, pin_maps, NULL), 0))
		return;
	EQ((intptr_t)pin_masks(masks), ROUNDS);
	pthread_join(thread, &ret);
	EQ((intptr_t)ret, ROUNDS);
	EQ(gm_get(&peer.pinned) - gm_get(&peer.unpinned) - before, ROUNDS);
	gpumap_detach(map);
	map = other;
	EQ(gm_get(&peer.pinned) - gm_get(&peer.unpinned), before);
	for (int i = 0; i < ROUNDS; i++)
		free(masks[i]); /* their attachment is gone */
}

struct pinned {
	struct gpumap_view view;
	uint64_t pin;
	struct gpumap_mask *mask;
};

static int child_says(struct pinned *p)
{
	const struct gpumap_mask_view *of_row = NULL;
	struct gpumap_view before = p->view;
	struct gpumap_view own;

	if (gpumap_view_get(&p->view, 1) != -EAGAIN)
		return 1;
	if (gpumap_view_refresh(map, &p->view) != -EOWNERDEAD ||
	    memcmp(&before, &p->view, sizeof(before)) != 0)
		return 2;
	if (gpumap_mask_get(map, p->mask, 0, &of_row) != -EOWNERDEAD ||
	    gpumap_mask_holds(p->mask) != 0)
		return 3;
	if (gpumap_unpin(map, p->pin) != -EOWNERDEAD)
		return 4;
	/* A child reads the map as before. */
	if (gpumap_layers_view(map, "model", &own) != 0 ||
	    gpumap_view_get(&own, 1) != 1)
		return 5;
	gpumap_mask_close(map, p->mask);
	return 0;
}

/* The pins are the parent's: they end with it, and the blocks are used again
 * while the child still runs. */
static void a_child_has_no_pins(void)
{
	const struct gpumap_mask_view *of_row = NULL;
	uint32_t unpinned = gm_get(&peer.unpinned);
	struct pinned p = { .pin = 0 };
	int status = -1;
	pid_t child;

	EQ(gpumap_layers_pin(map, "model", &p.view, &p.pin), 0);
	EQ(gpumap_mask_open(map, "mask", GPUMAP_MASK_PIN, &p.mask), 0);
	child = fork();
	if (child == 0)
		_exit(child_says(&p));
	EQ(waitpid(child, &status, 0), child);
	OK(WIFEXITED(status));
	EQ(WEXITSTATUS(status), 0);
	EQ(gm_get(&peer.unpinned), unpinned);
	EQ(gpumap_view_get(&p.view, 1), 1);
	EQ(gpumap_view_refresh(map, &p.view), 0);
	EQ(gpumap_mask_get(map, p.mask, 0, &of_row), 0);
	EQ(((const unsigned char *)of_row->data)[0], 'a');
	EQ(gpumap_mask_holds(p.mask), 1);
	gpumap_mask_close(map, p.mask);
	EQ(gpumap_unpin(map, p.pin), 0);
}

/* Its views never change, also if its caller has them renewed. */
static void a_pinned_mask_stays_as_it_is(void)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;

	EQ(gpumap_mask_open(map, "mask", GPUMAP_MASK_PIN, &mask), 0);
	EQ(gpumap_mask_get(map, mask, 0, &view), 0);
	segment_mask(&file.segment, 9, "mask", MADE, 1);
	EQ(gpumap_mask_get(map, mask, 0, &view), 0);
	EQ(view->version, 1);
	EQ(gpumap_mask_renew(map, mask), -EAGAIN);
	EQ(gpumap_mask_get(map, mask, 0, &view), 0);
	EQ(view->version, 1);
	gpumap_mask_close(map, mask);
}

TAP_CASE()
{
	if (!client_begin("pins"))
		return tap_done();
	if (EQ(segment_file_node(&file, MADE, 'a'), 0)) {
		segment_mask(&file.segment, 9, "mask", MADE, 1);
		threads_lose_no_pin();
		a_child_has_no_pins();
		a_pinned_mask_stays_as_it_is();
	}
	return client_end();
}
