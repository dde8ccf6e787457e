/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/memory/sigbus.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

gm_a32 gm_sigbus_seen;

static struct gm_mapping *grounds;
static gm_a32 busy;         /* lock of the list */
static uintptr_t page_mask; /* address bits inside a page */

/* No thread faults while it holds the lock, so the handler waits for another
 * thread only, and briefly. */
static void lock(void)
{
	while (gm_swap_ordered(&busy, 1)) /* GROUND.list */
		gm_pause();
}

static void unlock(void)
{
	gm_put_release(&busy, 0); /* GROUND.list */
}

static bool contains(const struct gm_mapping *g, uintptr_t addr)
{
	for (int i = 0; i < GM_MAPPING_PARTS; i++)
		if (addr - (uintptr_t)g->part[i].at < g->part[i].bytes)
			return true;
	return false;
}

/* Mark the memory that contains the address.  Returns whether there is any. */
static bool find_broken(uintptr_t addr)
{
	struct gm_mapping *g;

	lock();
	for (g = grounds; g && !contains(g, addr); g = g->next)
		;
	if (g) {
		gm_put(&g->broken, 1);
		if (g->whole)
			gm_put(&g->whole->broken, 1);
	}
	unlock();
	return g;
}

/* Restore the default action, so that the repeated access ends the process and
 * does not call the handler again. */
static void die_of(int sig)
{
	struct sigaction usual = { .sa_handler = SIG_DFL };

	sigaction(sig, &usual, NULL);
	/* Returning repeats the access, and the default action follows. */
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	int saved = errno;
	void *page = (void *)(addr & ~page_mask);

	if (!find_broken(addr) ||
	    mmap(page, page_mask + 1, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		die_of(sig);
	else
		gm_put_release(&gm_sigbus_seen, 1); /* GROUND.seen */
	errno = saved;
}

int gm_sigbus_init(void)
{
	struct sigaction act = { .sa_sigaction = on_fault,
				 .sa_flags = SA_SIGINFO };

	page_mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	return sigaction(SIGBUS, &act, NULL) == 0 ? 0 : -errno;
}

void gm_sigbus_watch(struct gm_mapping *mapping)
{
	lock();
	mapping->next = grounds;
	grounds = mapping;
	unlock();
}

void gm_sigbus_unregister(struct gm_mapping *mapping)
{
	struct gm_mapping **at = &grounds;

	lock();
	while (*at && *at != mapping)
		at = &(*at)->next;
	if (*at)
		*at = mapping->next;
	unlock();
}
