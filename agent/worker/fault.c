/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/fault.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

volatile sig_atomic_t gm_fault_seen;

static struct gm_ground *grounds;
static uintptr_t page_mask; /* address bits inside a page */

static struct gm_ground *ground_of(uintptr_t addr)
{
	for (struct gm_ground *g = grounds; g; g = g->next)
		for (int i = 0; i < GM_GROUND_PARTS; i++)
			if (addr - (uintptr_t)g->part[i].at < g->part[i].bytes)
				return g;
	return NULL;
}

/* In the handler a fault of a fault must not come back here. */
static void die_of(int sig)
{
	struct sigaction usual = { .sa_handler = SIG_DFL };

	sigaction(sig, &usual, NULL);
	/* Returning repeats the access, and the usual thing happens. */
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct gm_ground *ground = ground_of(addr);
	int saved = errno;
	void *page = (void *)(addr & ~page_mask);

	if (!ground || mmap(page, page_mask + 1, PROT_READ | PROT_WRITE,
			    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0) == MAP_FAILED) {
		die_of(sig);
	} else {
		ground->broken = 1;
		if (ground->whole)
			ground->whole->broken = 1;
		gm_fault_seen = 1;
	}
	errno = saved;
}

int gm_fault_init(void)
{
	struct sigaction act = { .sa_sigaction = on_fault,
				 .sa_flags = SA_SIGINFO };

	page_mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	return sigaction(SIGBUS, &act, NULL) == 0 ? 0 : -errno;
}

void gm_fault_watch(struct gm_ground *ground)
{
	ground->next = grounds;
	grounds = ground;
}

void gm_fault_forget(struct gm_ground *ground)
{
	struct gm_ground **at = &grounds;

	while (*at && *at != ground)
		at = &(*at)->next;
	if (*at)
		*at = ground->next;
}
