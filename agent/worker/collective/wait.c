/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Decides, while no part can go on, how long to poll and which rows wake the
 * worker. */

#include "agent/worker/collective/collective.h"

#include "agent/worker/collective/member.h"
#include "agent/worker/collective/nccl_group.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/accounting.h"
#include "agent/worker/queue/async_exec.h"
#include "agent/worker/queue/dependency.h"
#include "agent/worker/queue/heartbeat.h"
#include "shm/point.h"
#include "shm/queue.h"

/* Does the worker poll on a CPU that another rank of the group runs on? */
static bool is_in_the_way(const struct gm_worker *w,
			  const struct gm_worker_session *s)
{
	const struct gm_collective_member *m = s->part.member;
	GM_ACCESSES(&s->mapping);

	for (uint32_t i = 0; i < m->comm.ranks; i++) {
		uint32_t row = gm_member_row(m, i);
		struct gm_queue *queue;

		if (i == m->comm.rank || row >= s->n_rows)
			continue;
		queue = (void *)(s->queues +
				 gm_queue_at(row, s->entries.mask + 1));
		if (gm_get(&queue->cpu) == w->cpu)
			return true;
	}
	return false;
}

/* Returns whether a bit was set: then the parts need another poll. */
static bool arm(struct gm_worker *w, const struct gm_worker_session *s)
{
	const struct gm_collective_member *m = s->part.member;
	uint64_t bit = UINT64_C(1) << w->row % 64;
	bool is_new = false;

	for (uint32_t i = 0; i < m->comm.ranks; i++) {
		gm_a64 *by = &w->group_page->awaited[gm_member_row(m, i)]
				      .by[w->row / 64];

		if (i == m->comm.rank || (gm_get(by) & bit))
			continue;
		gm_or_ordered(by, bit); /* WAIT.tell */
		is_new = true;
	}
	GM_POINT("group_waits");
	return is_new;
}

static uint64_t budget_of(struct gm_worker *w)
{
	const struct gm_worker_session *s;

	if (!w->may_spin)
		return 0;
	TAILQ_FOREACH(s, &w->parts.list, part.entry)
	{
		if (is_in_the_way(w, s))
			return 0;
	}
	return gm_spin_begin(&w->parts.spin);
}

static bool is_worth_watching(struct gm_worker *w, uint64_t now_ns)
{
	struct gm_parts *all = &w->parts;

	if (all->since_ns == 0) {
		all->since_ns = now_ns;
		all->budget_ns = budget_of(w);
	}
	if (now_ns - all->since_ns < all->budget_ns)
		return true;
	if (all->budget_ns)
		gm_spin_miss(&all->spin);
	all->budget_ns = 0;
	return false;
}

/* Set bits for all parts. Returns whether a part may have gone on since
 * @now_ns. */
static bool arm_all(struct gm_worker *w, uint64_t now_ns)
{
	struct gm_parts *all = &w->parts;
	const struct gm_worker_session *s;
	bool is_new = false;

	/* The last wakeup brought no progress here: it was for another part. */
	if (all->told)
		all->arm_ns = now_ns + GM_WAIT_PACE_NS;
	all->told = false;
	if (now_ns < all->arm_ns)
		return false;
	TAILQ_FOREACH(s, &all->list, part.entry)
	is_new |= arm(w, s);
	return is_new;
}

/* Does the round last until the device has ended a slice, which wakes the
 * worker? */
static bool is_round_long(const struct gm_worker *w)
{
	return w->dev->backend->start && gm_async_exec_is_owed(w, NULL);
}

bool gm_collective_may_sleep(struct gm_worker *worker, uint64_t *ret_ns)
{
	struct gm_parts *all = &worker->parts;
	uint64_t now_ns = gm_now_ns(), until_ns = now_ns + GM_WAIT_LOOK_NS;
	struct gm_worker_session *s;

	gm_collective_look(worker);
	TAILQ_FOREACH(s, &all->list, part.entry)
	{
		if (gm_charge_left(worker, s) ? !s->part.waits
					      : !is_round_long(worker))
			return false;
		if (s->part.deadline_ns && s->part.deadline_ns < until_ns)
			until_ns = s->part.deadline_ns;
		if (gm_nccl_group_runs(s) &&
		    now_ns + GM_NCCL_GROUP_LOOK_NS < until_ns)
			until_ns = now_ns + GM_NCCL_GROUP_LOOK_NS;
	}
	if (worker->n_active || is_worth_watching(worker, now_ns))
		return false;
	gm_dependency_want_waker(worker);
	if (arm_all(worker, now_ns))
		return false;
	/* Poll all parts again, because one pass polls only some of them. */
	for (uint32_t n = 0; n < all->n; n += GM_GROUP_LOOKS)
		if (gm_collective_pass(worker))
			return false;
	if (now_ns < all->arm_ns && all->arm_ns < until_ns)
		until_ns = all->arm_ns;
	*ret_ns = until_ns > now_ns ? until_ns - now_ns : 1;
	return true;
}

void gm_collective_notified(struct gm_worker *worker)
{
	worker->parts.told = true;
}
