/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/memory/sigbus.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define WINDOW_NS UINT64_C(1000000000)

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

/* The first cause stays. */
static void mark(struct gm_mapping *mapping, enum gm_mapping_fault why)
{
	if (!gm_get(&mapping->broken))
		gm_put(&mapping->broken, why);
}

/* Mark the memory that contains the address.  Returns whether there is any. */
static bool find_broken(uintptr_t addr)
{
	struct gm_mapping *g;

	lock();
	for (g = grounds; g && !contains(g, addr); g = g->next)
		;
	if (g) {
		mark(g, GM_MAPPING_MISSING);
		if (g->whole)
			mark(g->whole, GM_MAPPING_MISSING);
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
	while (mapping->n_pinned) {
		unlock();
		sched_yield();
		lock();
	}
	while (*at && *at != mapping)
		at = &(*at)->next;
	if (*at)
		*at = mapping->next;
	unlock();
}

/* ---- for the guard ------------------------------------------------------- */

/* The memory of the session that the mapping belongs to, or NULL if the mapping
 * is not registered.  The lock is held. */
static struct gm_mapping *whole_of(const struct gm_mapping *mapping)
{
	struct gm_mapping *g = grounds;

	while (g && g != mapping)
		g = g->next;
	return g && g->whole ? g->whole : g;
}

uint64_t gm_sigbus_withheld(const struct gm_mapping *mapping, uint64_t now_ns,
			    uint64_t passed_ns, uint32_t *ret_place)
{
	struct gm_mapping *whole;
	uint64_t waited_ns = 0;

	lock();
	whole = whole_of(mapping);
	if (whole) {
		if (now_ns - whole->window_ns > WINDOW_NS) {
			whole->window_ns = now_ns;
			whole->withheld_ns = 0;
		}
		whole->withheld_ns += passed_ns;
		waited_ns = whole->withheld_ns;
		*ret_place = whole->place;
	}
	unlock();
	return waited_ns;
}

static void replace(struct gm_mapping *mapping)
{
	for (int i = 0; i < GM_MAPPING_PARTS; i++)
		if (mapping->part[i].at)
			mmap(mapping->part[i].at, mapping->part[i].bytes,
			     PROT_READ | PROT_WRITE,
			     MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS |
				     MAP_NORESERVE,
			     -1, 0);
}

static struct gm_mapping *next_to_replace(const struct gm_mapping *whole)
{
	struct gm_mapping *g = grounds;

	while (g && (g->is_replaced || (g != whole && g->whole != whole)))
		g = g->next;
	return g;
}

void gm_sigbus_take_away(const struct gm_mapping *mapping)
{
	struct gm_mapping *whole, *g;

	lock();
	whole = whole_of(mapping);
	if (whole) {
		whole->n_pinned++;
		mark(whole, GM_MAPPING_WITHHELD);
	}
	while (whole && (g = next_to_replace(whole)) != NULL) {
		g->n_pinned++;
		g->is_replaced = true;
		mark(g, GM_MAPPING_WITHHELD);
		/* A thread that leaves the wait meanwhile may need the lock. */
		unlock();
		replace(g);
		lock();
		g->n_pinned--;
	}
	if (whole)
		whole->n_pinned--;
	unlock();
	gm_put_release(&gm_sigbus_seen, 1); /* GROUND.seen */
}
