/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Connects the devices of a group, in threads that may wait for other
 * devices. */

#include "agent/worker/collective/nccl_group.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/common/running_clock.h"
#include "agent/worker/queue/heartbeat.h"

#define NAP_NS 1000000 /* between polls for the other ranks */

_Static_assert(GM_NCCL_GROUP_ID_BYTES == GM_COMM_CLIQUE_ID_BYTES, "one name");

/* ---- threads ------------------------------------------------------------- */

static struct gm_nccl_group_thread *find_free(struct gm_worker *w)
{
	for (uint32_t i = 0; i < GM_JOURNAL_NCCL_GROUPS; i++)
		if (!w->cliques[i].is_taken)
			return &w->cliques[i];
	return NULL;
}

struct gm_nccl_group_thread *gm_nccl_group_thread_take(struct gm_worker *worker)
{
	struct gm_worker *w = worker;
	struct gm_nccl_group_thread *t = find_free(w);

	if (!t)
		return NULL;
	if (!t->runs)
		t->runs = gm_blocking_thread_start(
				  &t->slow, w->dev,
				  &w->journal->clique[t - w->cliques],
				  w->slow.fd) == 0;
	t->is_taken = t->runs;
	return t->runs ? t : NULL;
}

struct gm_blocking_job *gm_nccl_group_done(struct gm_worker *worker)
{
	struct gm_blocking_job *job = NULL;

	for (uint32_t i = 0; !job && i < GM_JOURNAL_NCCL_GROUPS; i++)
		if (worker->cliques[i].runs)
			job = gm_blocking_thread_take(&worker->cliques[i].slow);
	return job;
}

bool gm_nccl_group_is_busy(const struct gm_worker *worker)
{
	for (uint32_t i = 0; i < GM_JOURNAL_NCCL_GROUPS; i++)
		if (worker->cliques[i].slow.n)
			return true;
	return false;
}

void gm_nccl_group_stop(struct gm_worker *worker)
{
	for (uint32_t i = 0; i < GM_JOURNAL_NCCL_GROUPS; i++)
		if (worker->cliques[i].runs)
			gm_blocking_thread_stop(&worker->cliques[i].slow);
}

/* ---- the outcome, for all ranks ------------------------------------------ */

static struct gm_comm_rank *rank_of(const struct gm_collective_member *m,
				    uint32_t rank)
{
	return &m->comm.page->by_rank[rank];
}

/* Publish the outcome.  Returns the outcome that counts, which another rank may
 * have published before. */
static uint32_t decide(const struct gm_collective_member *m, uint32_t met)
{
	uint32_t before = 0;

	return gm_try_ordered(&m->comm.page->met, &before, met) /* COMM.met */
		       ? met
		       : before;
}

void gm_nccl_group_cannot(const struct gm_collective_member *member)
{
	decide(member, GM_COMM_NOT_MET);
}

/* How long the other ranks are waited for. */
struct patience {
	struct gm_running_clock clock;
	uint64_t until_ns; /* on the clock */
};

static struct patience begin_patience(uint64_t limit_ns)
{
	struct patience patience = { .until_ns = limit_ns };

	patience.until_ns +=
		gm_running_clock_read(&patience.clock, gm_now_ns());
	return patience;
}

static void nap(struct patience *patience)
{
	const struct timespec time = { 0, NAP_NS };

	gm_running_clock_sleep(&patience->clock, NAP_NS);
	nanosleep(&time, NULL);
}

/* Has waiting become pointless: the group failed or the time is over? */
static bool is_late(const struct gm_collective_member *m,
		    struct patience *patience)
{
	const struct gm_comm_page *page = m->comm.page;

	return gm_get_ordered(&page->met) == GM_COMM_NOT_MET || /* COMM.met */
	       gm_comm_broken_by(page) ||
	       gm_running_clock_read(&patience->clock, gm_now_ns()) >=
		       patience->until_ns;
}

/* ---- the NCCL id --------------------------------------------------------- */

static bool all_have(const struct gm_collective_member *m, uint64_t version,
		     struct patience *patience)
{
	for (uint32_t i = 0; i < m->comm.ranks; i++) {
		gm_a64 *word = &rank_of(m, i)->version;
		uint64_t there;

		while ((there = gm_get_acquire(word)) == 0) { /* COMM.clique */
			if (is_late(m, patience))
				return false;
			nap(patience);
		}
		if (there != version)
			return false;
	}
	return true;
}

/*
 * NCCL creates a detached thread and a listening socket for each id.  They wait
 * for a greeting of each rank, and end with the last greeting, or with one that
 * contradicts another.  No NCCL call withdraws an id, and an abort stops the
 * rank but not this thread, which checks no flag (bootstrapRoot() of NCCL
 * 2.28).  So the id is created as late as possible: all ranks have arrived
 * then, and agree.  If a rank fails nevertheless before its greeting, rank 0
 * keeps thread and socket until its process exits.
 */
static bool have_name(const struct gm_collective_member *m,
		      struct gm_backend_device *dev, struct patience *patience)
{
	struct gm_comm_page *page = m->comm.page;

	if (m->comm.rank == 0) {
		if (dev->backend->clique_id(dev, page->clique_id) < 0)
			return false;
		gm_put_release(&page->has_id, 1); /* COMM.clique */
		return true;
	}
	while (gm_get_acquire(&page->has_id) == 0) { /* COMM.clique */
		if (is_late(m, patience))
			return false;
		nap(patience);
	}
	return true;
}

static bool agree(const struct gm_collective_member *m,
		  struct gm_backend_device *dev, struct patience *patience)
{
	int version = dev->backend->clique_version(dev);

	if (version <= 0)
		return false;
	gm_put_release(&rank_of(m, m->comm.rank)->version,
		       (uint64_t)version); /* COMM.clique */
	if (!all_have(m, (uint64_t)version, patience))
		return false;
	gm_put(&m->session->signs->has_cards, 1); /* ordered by JOINED */
	return have_name(m, dev, patience);
}

/* ---- connecting ---------------------------------------------------------- */

static bool are_all_ready(const struct gm_collective_member *m)
{
	for (uint32_t i = 0; i < m->comm.ranks; i++)
		if (!gm_get_acquire(&rank_of(m, i)->is_ready)) /* COMM.clique */
			return false;
	return true;
}

/* Publish that this rank is ready and wait for the others.  Returns whether all
 * ranks are; every rank gets the same result. */
static bool await_all(const struct gm_collective_member *m,
		      struct patience *patience)
{
	gm_put_release(&rank_of(m, m->comm.rank)->is_ready,
		       1); /* COMM.clique */
	while (!are_all_ready(m)) {
		if (is_late(m, patience))
			return decide(m, GM_COMM_NOT_MET) == GM_COMM_MET;
		nap(patience);
	}
	return decide(m, GM_COMM_MET) == GM_COMM_MET;
}

/* Returns 1: the device is connected to the others; or -errno. */
static int become_ready(const struct gm_collective_member *m,
			struct gm_backend_device *dev,
			struct patience *patience,
			struct gm_nccl_group **ret_clique)
{
	const struct gm_backend *backend = dev->backend;
	int rc = backend->clique_begin(dev, m->comm.page->clique_id,
				       m->comm.rank, m->comm.ranks, ret_clique);

	while (rc == 0) {
		rc = backend->clique_ready(dev, *ret_clique);
		if (rc == 0 && is_late(m, patience))
			rc = -ETIME;
		else if (rc == 0)
			nap(patience);
	}
	return rc;
}

/* Free bytes of the device's memory, 0 if not known. */
static uint64_t bytes_left(struct gm_backend_device *dev)
{
	struct gm_device_memory memory;

	return dev->backend->memory(dev, &memory) < 0 ? 0 : memory.free;
}

void gm_nccl_group_come(struct gm_collective_member *member,
			struct gm_backend_device *dev, uint64_t limit_ns)
{
	struct patience patience = begin_patience(limit_ns);
	struct gm_collective_member *m = member;
	struct gm_nccl_group *clique = NULL;
	uint64_t before, after;

	if (!agree(m, dev, &patience)) {
		gm_nccl_group_cannot(m);
		return;
	}
	before = bytes_left(dev);
	if (become_ready(m, dev, &patience, &clique) == 1 &&
	    await_all(m, &patience)) {
		after = bytes_left(dev);
		m->taken = before > after ? before - after : 0;
		m->formed = clique;
		return;
	}
	/* Publish the failure first, because an abort may wait until all ranks
	 * abort. */
	gm_nccl_group_cannot(m);
	gm_blocking_thread_sign(&m->thread->slow, GM_CALL_GIVE_UP);
	dev->backend->clique_abort(dev, clique);
}
