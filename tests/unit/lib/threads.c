/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Threads of one process that share an attachment or a session, as the headers
 * allow it, against a peer in a thread.  ThreadSanitizer looks for races.
 */

#include <pthread.h>

#include "tests/support/peer/peer_session.h"

#define ROUNDS 60
#define MADE   7u

static gm_a32 over; /* the readers may end */

/* ---- reading ------------------------------------------------------------- */

/* Another may have been published between two steps of a call. */
static bool may_be(int ret)
{
	return ret >= 0 || ret == -EAGAIN;
}

static bool reads_devices(void)
{
	struct gpumap_device device = { .size = sizeof(device) };
	struct gpumap_health health = { .size = sizeof(health) };
	uint32_t rows[4];

	return gpumap_device_count(map) == 3 &&
	       may_be(gpumap_device_read(map, 0, &device)) &&
	       may_be(gpumap_device_find(map, device.uuid)) &&
	       may_be(gpumap_device_visible(map, NULL, NULL, rows, 4)) &&
	       gpumap_health(map, &health) == 0;
}

static bool reads_layers(struct gpumap_view *view)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t rows[2], cursor = 0;
	int row = gpumap_view_get(view, 0);

	if (row == -EAGAIN && !may_be(gpumap_view_refresh(map, view)))
		return false;
	return may_be(row) && gpumap_layers_next(map, &cursor, name) >= 0 &&
	       may_be(gpumap_layers_read(map, "model", &layers, rows, NULL, 2,
					 NULL, 0));
}

static bool reads_mask(struct gpumap_mask *mask)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask_info info = { .size = sizeof(info) };

	if (!may_be(gpumap_mask_get(map, mask, 0, &view)) ||
	    !may_be(gpumap_mask_read(map, "mask", &info, NULL, 0)))
		return false;
	return view == NULL || ((const unsigned char *)view->data)[1] == 'a' ||
	       gpumap_mask_holds(mask) == 0;
}

/* Returns how often it has read, or -1. */
static void *read_all(void *unused)
{
	uint32_t seen = gpumap_generation(map);
	struct gpumap_mask *mask = NULL;
	struct gpumap_view view;
	intptr_t n = 0;
	int ret;

	(void)unused;
	while ((ret = gpumap_layers_view(map, "model", &view)) == -EAGAIN)
		;
	if (ret == 0)
		while ((ret = gpumap_mask_open(map, "mask", 0, &mask)) ==
		       -EAGAIN)
			;
	while (ret == 0 && (gm_get(&over) == 0 || n == 0)) {
		if (!reads_devices() || !reads_layers(&view) ||
		    !reads_mask(mask))
			ret = -1;
		gpumap_wait_change(map, seen, 0);
		n++;
	}
	gpumap_mask_close(map, mask);
	return (void *)(ret == 0 ? n : -1);
}

/* ---- asking -------------------------------------------------------------- */

/* The agent of this test keeps no pinned block: another object may lie there by
 * the time that the view is made. */
static bool pins(void)
{
	struct gpumap_view view;
	uint64_t pin = 0;
	int ret = gpumap_layers_pin(map, "model", &view, &pin);

	if (ret == 0)
		return gpumap_unpin(map, pin) == 0;
	return ret == -EPROTO;
}

/* Returns how many rounds were right. */
static void *ask(void *unused)
{
	intptr_t good = 0;

	(void)unused;
	for (int i = 0; i < ROUNDS; i++)
		good += gpumap_layers_release(map, "mine") == 0 &&
			gpumap_layers_release(map, "theirs") == -EPERM &&
			strcmp(gpumap_refusal(map), "not yours") == 0 &&
			gpumap_session_list(map, NULL, 0) == 100 && pins();
	return (void *)good;
}

/* ---- working ------------------------------------------------------------- */

static bool works(struct gpumap_session *s, uint32_t row)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_F32,
				  .n = 16,
				  .cookie = 5 };
	struct gpumap_done done;
	uint64_t buffer = 0;
	void *memory;

	if (gpumap_alloc(s, row, 64, &memory) != 0 ||
	    gpumap_buffer_alloc(s, row, 64, 0, GPUMAP_NO_DEADLINE, &buffer) !=
		    0)
		return false;
	job.dst = memory;
	if (gpumap_submit(s, row, &job, 1) != 0 ||
	    gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE) != 1 ||
	    done.status != 0 || done.cookie != 5)
		return false;
	job.dst_buffer = buffer;
	if (gpumap_submit(s, row, &job, 1) != 0 ||
	    gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE) != 1 ||
	    done.status != 0)
		return false;
	job.dst_buffer = UINT64_MAX;
	return gpumap_submit(s, row, &job, 1) == -ERANGE &&
	       strstr(gpumap_refusal(map), "no such buffer") != NULL &&
	       gpumap_buffer_free(s, buffer) == 0 &&
	       gpumap_free(s, memory) == 0;
}

/* A session of this thread's own in each round. */
static void *work(void *row)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = 16,
					    .arena_bytes = 65536 };
	intptr_t good = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct gpumap_session *s = NULL;

		good += gpumap_session_open(map, &opts, &s) == 0 &&
			works(s, (uint32_t)(uintptr_t)row);
		gpumap_session_close(s);
	}
	return (void *)good;
}

/* ---- all at once --------------------------------------------------------- */

static struct gpumap_session *shared;
static pthread_mutex_t in_turn = PTHREAD_MUTEX_INITIALIZER;

static void *work_in_turn(void *row)
{
	intptr_t good = 0;

	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&in_turn);
		good += works(shared, (uint32_t)(uintptr_t)row);
		pthread_mutex_unlock(&in_turn);
	}
	return (void *)good;
}

static pthread_t begin(void *(*what)(void *), uintptr_t with)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, what, (void *)with) != 0)
		abort();
	return thread;
}

static intptr_t end(pthread_t thread)
{
	void *ret = NULL;

	pthread_join(thread, &ret);
	return (intptr_t)ret;
}

/* All of them: the segment's places are used in turn, whatever is there. */
static void publish_all(void)
{
	for (uint32_t row = 0; row < 3; row++)
		segment_row(&file.segment, row, "host");
	moving(0, GPUMAP_DEVICE_READY, 3);
	publish_model();
	segment_mask(&file.segment, 9, "mask", MADE, 1);
}

/* The first requests of an attachment, sessions and reads, while the map is
 * published anew all the time. */
static void an_attachment_is_for_all_threads(void)
{
	pthread_t readers[2], askers[2], workers[2];

	gm_put(&over, 0);
	for (int i = 0; i < 2; i++) {
		readers[i] = begin(read_all, 0);
		workers[i] = begin(work, (uintptr_t)i);
		askers[i] = begin(ask, 0);
	}
	for (int i = 0; i < 20 * ROUNDS; i++)
		publish_all();
	for (int i = 0; i < 2; i++) {
		EQ(end(askers[i]), ROUNDS);
		EQ(end(workers[i]), ROUNDS);
	}
	gm_put(&over, 1);
	for (int i = 0; i < 2; i++)
		OK(end(readers[i]) > 0);
}

static void a_session_is_handed_on(void)
{
	pthread_t threads[2];

	shared = open_session(16, GPUMAP_SESSION_POLLABLE);
	for (int i = 0; i < 2; i++)
		threads[i] = begin(work_in_turn, (uintptr_t)i);
	for (int i = 0; i < 2; i++)
		EQ(end(threads[i]), ROUNDS);
	gpumap_session_close(shared);
}

/* An attachment for each thread, of the same map. */
static void *attach_and_detach(void *unused)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = file.instance,
					   .runtime_dir = peer.dir };
	intptr_t good = 0;

	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		struct gpumap *own = NULL;

		good += gpumap_attach(&opts, &own) == 0 &&
			gpumap_session_list(own, NULL, 0) == 100;
		gpumap_detach(own);
		opts.instance = "nobody";
		good += gpumap_attach(&opts, &own) == -ENOENT &&
			strstr(gpumap_refusal(NULL), "nobody") != NULL;
		opts.instance = file.instance;
	}
	return (void *)good;
}

static void threads_attach_on_their_own(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		threads[i] = begin(attach_and_detach, 0);
	for (int i = 0; i < 2; i++)
		EQ(end(threads[i]), 2 * ROUNDS);
}

TAP_CASE()
{
	if (!client_begin("threads"))
		return tap_done();
	if (EQ(segment_file_node(&file, MADE, 'a'), 0)) {
		publish_all();
		an_attachment_is_for_all_threads();
		a_session_is_handed_on();
		threads_attach_on_their_own();
	}
	return client_end();
}
