/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stall_guard - frees a thread that waits for memory which a client withholds.
 *
 * An access to shared memory waits while another process punches a hole there,
 * and again during the next punch.  The wait cannot be interrupted, so a client
 * could keep the worker's loop from all other sessions.  One thread, the guard,
 * looks at the threads that access clients' memory.  When they have waited for
 * one session's memory for GM_STALL_NS within a second, the guard replaces all
 * memory of that session by pages of zeroes and marks the session, which is
 * ended like one whose memory is missing (sigbus.h).
 *
 * - A thread says whose memory it accesses, by GM_ACCESSES().  Waits outside of
 *   that are not counted against any session.
 * - Only waits inside of the kernel's shmem functions count.  Nothing but the
 *   punching of holes causes these: swapping or a busy CPU ends no session.
 * - The guard sleeps while all threads sleep.
 * - A thread waits at least until the punch in progress has ended.  Meanwhile
 *   the journal names the session, see agent/daemon/workers/watchdog.h.
 *
 *   GUARD.awake	a thread that wakes sees that the guard sleeps, or the
 *			guard sees that a thread is awake; the end of the guard
 *			counts as such a thread
 */
#ifndef GM_WORKER_MEMORY_STALL_GUARD_H
#define GM_WORKER_MEMORY_STALL_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/worker/memory/sigbus.h"
#include "shm/journal.h"

#define GM_STALL_NS UINT64_C(100000000)

/* A thread that accesses clients' memory. */
struct gm_guarded {
	LIST_ENTRY(gm_guarded) entry;
	gm_a64 mapping; /* address of the mapping that it accesses, or 0 */
	gm_a32 awake;
	bool is_watched;
	int wchan; /* /proc file of the function that it waits in */
};

/* The calling thread. */
extern _Thread_local struct gm_guarded gm_guarded_self;

/* 1 while the guard sleeps because all threads do. */
extern gm_a32 gm_stall_guard_sleeps;

/* Watch the calling thread, which has to call the second before it ends.  A
 * kernel that does not show where a thread waits leaves it unwatched. */
void gm_stall_guard_watch(void);
void gm_stall_guard_forget(void);

/* Start the guard, which publishes stalls in @journal.  Returns 0 or -errno.
 * On return the thread has finished its set-up. */
int gm_stall_guard_start(struct gm_journal *journal);

/* End the guard, if it runs. */
void gm_stall_guard_stop(void);

/* Wake the guard, if it sleeps; see gm_guarded_wakes(). */
void gm_stall_guard_wake(void);

/* The access before, which goes on afterwards. */
struct gm_access {
	uint64_t before;
};

static inline struct gm_access gm_access_begin(const struct gm_mapping *mapping)
{
	struct gm_access access = { gm_get(&gm_guarded_self.mapping) };

	gm_put(&gm_guarded_self.mapping, (uintptr_t)mapping);
	return access;
}

static inline void gm_access_end(const struct gm_access *access)
{
	gm_put(&gm_guarded_self.mapping, access->before);
}

/* A declaration: the thread accesses this mapping until the end of the block,
 * or of a GM_ACCESSES() within. */
#define GM_ACCESSES(mapping)                                      \
	const struct gm_access access_                            \
		__attribute__((cleanup(gm_access_end), unused)) = \
			gm_access_begin(mapping)

/* The thread is about to sleep, without access to any memory of clients. */
static inline void gm_guarded_sleeps(void)
{
	gm_put(&gm_guarded_self.awake, 0);
}

/* Either the guard sees that the thread is awake, or the thread sees that the
 * guard sleeps. */
static inline void gm_guarded_wakes(void)
{
	gm_put_ordered(&gm_guarded_self.awake, 1);  /* GUARD.awake */
	if (gm_get_ordered(&gm_stall_guard_sleeps)) /* GUARD.awake */
		gm_stall_guard_wake();
}

#endif
