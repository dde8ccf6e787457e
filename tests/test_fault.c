/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fault: memory that is missing ends nobody but whose it is, in whatever thread
 * it is met, while the grounds of others come and go and the loop looks.
 */

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/worker/fault.h"
#include "shm/atomic.h"
#include "tap.h"

#define FAULTS 20000
#define FEW    8

static gm_a32 done;
static struct gm_ground whole; /* a session's, and the first that breaks */
static long unmarked;          /* faults seen before whose they are */
static int missing;            /* a file without a page */
static size_t page;

static void *fault_often(void *nothing)
{
	struct gm_ground own = { 0 };
	long broken = 0;

	for (int i = 0; i < FAULTS; i++) {
		struct gm_ground ground = { .whole = i % 2 ? &own : &whole };
		char *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED,
				missing, 0);

		if (at == MAP_FAILED)
			break;
		ground.part[1].at = at;
		ground.part[1].bytes = page;
		gm_fault_watch(&ground);
		*(volatile char *)at = 1;
		broken +=
			gm_get(&ground.broken) && gm_get(&ground.whole->broken);
		gm_put(&own.broken, 0);
		gm_fault_forget(&ground);
		munmap(at, page);
	}
	gm_put_release(&done, 1);
	(void)nothing;
	return (void *)broken;
}

/* Each on a page of its own, which is gone once it is forgotten. */
static void come_and_go(struct gm_ground *grounds[FEW])
{
	for (int i = 0; i < FEW; i++) {
		grounds[i] = mmap(NULL, page, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (grounds[i] == MAP_FAILED)
			exit(99);
		gm_fault_watch(grounds[i]);
	}
	for (int i = 0; i < FEW; i++) {
		gm_fault_forget(grounds[i]);
		munmap(grounds[i], page);
	}
}

/* As the loop does.  Returns whether anything was seen. */
static bool look(void)
{
	if (!gm_get(&gm_fault_seen))
		return false;
	gm_swap_ordered(&gm_fault_seen, 0); /* GROUND.seen */
	if (!gm_get(&whole.broken))
		unmarked++;
	return true;
}

int main(void)
{
	struct gm_ground *grounds[FEW];
	long seen = 0;
	void *broken = NULL;
	pthread_t thread;

	page = (size_t)sysconf(_SC_PAGESIZE);
	missing = memfd_create("test-fault", MFD_CLOEXEC);
	OK(missing >= 0);
	EQ(gm_fault_init(), 0);
	if (EQ(pthread_create(&thread, NULL, fault_often, NULL), 0)) {
		while (!gm_get_acquire(&done)) {
			come_and_go(grounds);
			seen += look();
		}
		pthread_join(thread, &broken);
		seen += look();
	}
	EQ((long)broken, FAULTS);
	OK(seen > 0);
	EQ(unmarked, 0);
	close(missing);
	return tap_done();
}
