/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fault: missing memory ends only its owner's jobs, whichever thread meets it,
 * while other sessions' memory comes and goes and the loop looks.
 */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/worker/memory/sigbus.h"
#include "shm/atomic.h"
#include "tests/support/tap.h"

#define FAULTS   4000u
#define FEW      8
#define LIMIT_NS UINT64_C(60000000000) /* and then something is wrong */

static gm_a32 done;
static gm_a32 looked;              /* faults that the loop has seen */
static struct gm_mapping whole[2]; /* sessions', each broken by every other */
static uint32_t unmarked;          /* seen before whose they are */
static int missing;                /* a file without a page */
static size_t page;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Until the loop has seen so many: each mark is of one fault. */
static bool is_seen(uint32_t n)
{
	uint64_t until = now() + LIMIT_NS;

	while (gm_get_acquire(&looked) < n && now() < until)
		sched_yield();
	return gm_get_acquire(&looked) == n;
}

static void *fault_often(void *nothing)
{
	uintptr_t broken = 0;

	for (uint32_t i = 0; i < FAULTS; i++) {
		struct gm_mapping ground = { .whole = &whole[i % 2] };
		char *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED,
				missing, 0);

		if (at == MAP_FAILED)
			break;
		ground.part[1].at = at;
		ground.part[1].bytes = page;
		gm_sigbus_watch(&ground);
		*(volatile char *)at = 1;
		broken += gm_get(&ground.broken) == 1;
		if (!is_seen(i + 1))
			break;
		gm_sigbus_unregister(&ground);
		munmap(at, page);
	}
	gm_put_release(&done, 1);
	(void)nothing;
	return (void *)broken;
}

/* Each on a page of its own, which is gone once it is forgotten. */
static void come_and_go(struct gm_mapping *grounds[FEW])
{
	for (int i = 0; i < FEW; i++) {
		grounds[i] = mmap(NULL, page, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (grounds[i] == MAP_FAILED)
			exit(99);
		gm_sigbus_watch(grounds[i]);
	}
	for (int i = 0; i < FEW; i++) {
		gm_sigbus_unregister(grounds[i]);
		munmap(grounds[i], page);
	}
}

/* As the loop does, and makes the session whole again. */
static void look(void)
{
	uint32_t n = gm_get(&looked);
	struct gm_mapping *own = &whole[n % 2], *other = &whole[!(n % 2)];

	if (!gm_get(&gm_sigbus_seen))
		return;
	gm_swap_ordered(&gm_sigbus_seen, 0); /* GROUND.seen */
	unmarked += !gm_get(&own->broken) || gm_get(&other->broken);
	gm_put(&own->broken, 0);
	gm_put_release(&looked, n + 1);
}

TAP_CASE()
{
	struct gm_mapping *grounds[FEW];
	void *broken = NULL;
	pthread_t thread;

	page = (size_t)sysconf(_SC_PAGESIZE);
	missing = memfd_create("test-fault", MFD_CLOEXEC);
	OK(missing >= 0);
	EQ(gm_sigbus_init(), 0);
	if (EQ(pthread_create(&thread, NULL, fault_often, NULL), 0)) {
		while (!gm_get_acquire(&done)) {
			come_and_go(grounds);
			look();
		}
		pthread_join(thread, &broken);
	}
	EQ((uintptr_t)broken, FAULTS);
	EQ(gm_get(&looked), FAULTS);
	EQ(unmarked, 0);
	close(missing);
	return tap_done();
}
