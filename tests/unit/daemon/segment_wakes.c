/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* segment: a change wakes the first readers at once, and the others by the
 * loop, so that no number of them keeps the loop. */

#include <dirent.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/segment/segment.h"
#include "tests/support/shm_names.h"
#include "tests/support/tap.h"

#define READERS  (2 * GM_SEGMENT_WAKES + 44)

#define LIMIT_NS UINT64_C(30000000000) /* against hanging */

static struct gm_daemon *d;
static gm_a32 n_begun, n_woken;
static pthread_t threads[READERS];

static void *read_on(void *unused)
{
	gm_a32 *generation = &d->segment->map.header->generation;
	uint32_t seen = gm_get(generation);

	(void)unused;
	gm_add_ordered(&n_begun, 1);
	while (gm_get(generation) == seen)
		syscall(SYS_futex, generation, FUTEX_WAIT, seen, NULL, NULL, 0);
	gm_add_ordered(&n_woken, 1);
	return NULL;
}

static bool sleeps(const char *task)
{
	char name[64], text[512] = "";
	FILE *file;
	size_t n;

	snprintf(name, sizeof(name), "/proc/self/task/%s/stat", task);
	file = fopen(name, "re");
	n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	if (file)
		fclose(file);
	return n > 0 && strstr(text, ") S ");
}

/* How many threads of this process sleep? */
static uint32_t count_sleepers(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *task;
	uint32_t n = 0;

	while (dir && (task = readdir(dir)))
		n += task->d_name[0] != '.' && sleeps(task->d_name);
	if (dir)
		closedir(dir);
	return n;
}

static bool begin(void)
{
	uint64_t until = gm_loop_now() + LIMIT_NS;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (uint32_t i = 0; i < READERS; i++)
		if (pthread_create(&threads[i], &attr, read_on, NULL) != 0)
			return false;
	pthread_attr_destroy(&attr);
	while ((gm_get(&n_begun) < READERS || count_sleepers() < READERS) &&
	       gm_loop_now() < until)
		usleep(1000);
	return count_sleepers() == READERS;
}

static void stop_when_all_are_woken(struct gm_loop *loop)
{
	if (gm_get(&n_woken) == READERS)
		gm_loop_stop(loop);
}

static void hangs(struct gm_timer *timer)
{
	(void)timer;
	gm_loop_stop(d->loop);
}

static void only_some_are_woken_at_once(void)
{
	uint64_t until = gm_loop_now() + LIMIT_NS;
	struct gm_timer hang = { .fired = hangs };

	gm_segment_changed(d->segment);
	/* Those that are woken sleep no more, and are counted in the end. */
	while (count_sleepers() + gm_get(&n_woken) < READERS &&
	       gm_loop_now() < until)
		usleep(1000);
	EQ(gm_get(&n_woken), GM_SEGMENT_WAKES);
	d->loop->turned = stop_when_all_are_woken;
	gm_timer_set(d->loop, &hang, gm_loop_now() + LIMIT_NS);
	EQ(gm_loop_run(d->loop), 0);
	EQ(gm_get(&n_woken), READERS);
	gm_timer_stop(d->loop, &hang);
}

TAP_CASE()
{
	struct gm_adopted_state *past = malloc(sizeof(*past));
	char instance[48], why[GM_WHY_BYTES];

	d = gm_daemon_new();
	snprintf(instance, sizeof(instance), "test-wakes.%d", (int)getpid());
	if (d == NULL || past == NULL || gm_loop_init(d->loop) != 0 ||
	    !shm_names_make(instance) ||
	    gm_segment_open(instance, 1 << 20, past, why, d->segment) != 0)
		return 99;
	shm_names_remove(instance);
	d->segment->loop = d->loop;
	if (OK(begin())) {
		only_some_are_woken_at_once();
		for (uint32_t i = 0; i < READERS; i++)
			pthread_join(threads[i], NULL);
	}
	gm_blocks_exit(&past->heap);
	free(past);
	gm_segment_close(d->segment);
	gm_loop_exit(d->loop);
	gm_daemon_free(d);
	return tap_done();
}
