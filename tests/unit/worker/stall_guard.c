/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stall_guard: a thread that a client keeps waiting goes on, by pages of
 * zeroes, and only that client's session is marked; threads that wait for
 * anything else, or for nothing, end no session.
 */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/heartbeat.h"
#include "tests/support/hole_punch.h"
#include "tests/support/tap.h"

#define BYTES    (UINT64_C(64) << 10)
#define LIMIT_NS UINT64_C(60000000000) /* and then something is wrong */

/* A session's memory: its own, and a registered part. */
struct session {
	int fd;
	struct gm_mapping own;
	struct gm_mapping registered;
};

static struct session hostile, honest;
static struct gm_journal journal;
static gm_a64 touches;
static gm_a32 done;

static void map(struct gm_mapping *mapping, int fd)
{
	mapping->part[1].at =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mapping->part[1].bytes = BYTES;
	OK(mapping->part[1].at != MAP_FAILED);
}

static void open_session(struct session *s, uint32_t place)
{
	*s = (struct session){ .fd = memfd_create("session", MFD_CLOEXEC) };
	OK(ftruncate(s->fd, BYTES) == 0);
	s->own.place = place;
	s->registered.whole = &s->own;
	map(&s->own, s->fd);
	map(&s->registered, s->fd);
	gm_sigbus_watch(&s->own);
	gm_sigbus_watch(&s->registered);
}

static void close_session(struct session *s)
{
	gm_sigbus_unregister(&s->registered);
	gm_sigbus_unregister(&s->own);
	munmap(s->own.part[1].at, BYTES);
	munmap(s->registered.part[1].at, BYTES);
	close(s->fd);
}

static void touch(const struct gm_mapping *mapping)
{
	GM_ACCESSES(mapping);
	volatile char *at = mapping->part[1].at;

	at[gm_get(&touches) % BYTES]++;
	gm_put(&touches, gm_get(&touches) + 1);
}

/* As the loop does. */
static void *serve_both(void *nothing)
{
	gm_stall_guard_watch();
	while (!gm_get(&done)) {
		touch(&honest.own);
		touch(&hostile.own);
		touch(&hostile.registered);
		touch(&honest.registered);
	}
	gm_stall_guard_forget();
	return nothing;
}

static bool is_marked(const struct session *s)
{
	uint64_t until = gm_now_ns() + LIMIT_NS;

	while (!gm_get(&s->own.broken) && gm_now_ns() < until)
		sched_yield();
	return gm_get(&s->own.broken) == GM_MAPPING_WITHHELD;
}

static bool goes_on(void)
{
	uint64_t from = gm_get(&touches), until = gm_now_ns() + LIMIT_NS;

	while (gm_get(&touches) - from < 100000 && gm_now_ns() < until)
		sched_yield();
	return gm_get(&touches) - from >= 100000;
}

/* Private pages: a store there does not reach the file. */
static bool is_replaced(const struct session *s, const struct gm_mapping *m)
{
	char before = 0, after = 0;

	OK(pread(s->fd, &before, 1, BYTES - 1) == 1);
	m->part[1].at[BYTES - 1] = (char)(before + 1);
	OK(pread(s->fd, &after, 1, BYTES - 1) == 1);
	m->part[1].at[BYTES - 1] = before;
	return after == before;
}

static void who_withholds_memory_loses_it(void)
{
	pthread_t thread;
	pid_t puncher;

	open_session(&hostile, 7);
	open_session(&honest, 3);
	gm_put(&done, 0);
	puncher = hole_punch_start(hostile.fd, BYTES);
	if (puncher < 0 || !hole_punch_is_shown()) {
		SKIP(1, "this needs vm.max_map_count and /proc/PID/wchan");
		if (puncher > 0)
			hole_punch_stop(puncher);
		return;
	}
	EQ(gm_stall_guard_start(&journal), 0);
	OK(pthread_create(&thread, NULL, serve_both, NULL) == 0);
	OK(is_marked(&hostile));
	/* The holes are still being punched. */
	OK(goes_on());
	gm_put(&done, 1);
	pthread_join(thread, NULL);
	hole_punch_stop(puncher);
	EQ(gm_get(&hostile.registered.broken), GM_MAPPING_WITHHELD);
	OK(is_replaced(&hostile, &hostile.own));
	OK(is_replaced(&hostile, &hostile.registered));
	EQ(gm_get(&honest.own.broken), 0);
	EQ(gm_get(&honest.registered.broken), 0);
	OK(!is_replaced(&honest, &honest.own));
	EQ(gm_get(&gm_sigbus_seen), 1);
	gm_stall_guard_stop();
	close_session(&hostile);
	close_session(&honest);
}

static void waits_add_up_within_a_second(void)
{
	const uint64_t ms = 1000000, second = 1000 * ms;
	uint32_t place = 0;

	open_session(&honest, 9);
	EQ(gm_sigbus_withheld(&honest.own, 5 * second, 40 * ms, &place),
	   40 * ms);
	EQ(place, 9);
	EQ(gm_sigbus_withheld(&honest.registered, 5 * second + 900 * ms,
			      40 * ms, &place),
	   80 * ms);
	EQ(gm_sigbus_withheld(&honest.own, 6 * second + 1, 40 * ms, &place),
	   40 * ms);
	gm_sigbus_unregister(&honest.registered);
	EQ(gm_sigbus_withheld(&honest.registered, 6 * second, 40 * ms, &place),
	   0);
	close_session(&honest);
}

/* The guard sleeps while all threads do, and the first to wake wakes it. */
static void the_guard_sleeps(void)
{
	uint64_t until = gm_now_ns() + LIMIT_NS;

	gm_stall_guard_watch();
	gm_guarded_sleeps();
	EQ(gm_stall_guard_start(&journal), 0);
	while (!gm_get_ordered(&gm_stall_guard_sleeps) && gm_now_ns() < until)
		sched_yield();
	EQ(gm_get(&gm_stall_guard_sleeps), 1);
	gm_guarded_wakes();
	EQ(gm_get(&gm_stall_guard_sleeps), 0);
	gm_guarded_sleeps();
	gm_stall_guard_stop();
	gm_stall_guard_forget();
}

TAP_CASE()
{
	waits_add_up_within_a_second();
	the_guard_sleeps();
	who_withholds_memory_loses_it();
	return tap_done();
}
