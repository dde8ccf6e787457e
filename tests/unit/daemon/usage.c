/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * usage: memory that sessions have taken and given back since the free bytes
 * were read counts at once, each session for itself: for quotas, for what may
 * be reserved, and for what a holder's own sessions have.
 */

#include "agent/daemon/account/quota.h"
#include "agent/daemon/account/usage.h"
#include "agent/daemon/workers/worker_process.h"
#include "tests/support/credit_rig.h"

#define SESSIONS 3u

static struct gm_supervisor supervisor;
static struct gm_worker_process worker;
static struct gm_attachment sessions[SESSIONS];
static alignas(
	4096) char journal[4096 + SESSIONS * sizeof(struct gm_journal_queue)];

static void set_up(void)
{
	worker.d = d;
	worker.group = &supervisor.rows;
	worker.pidfd.fd = 0; /* a child runs */
	worker.journal = (struct gm_journal *)(void *)journal;
	TAILQ_INIT(&worker.attachments);
	supervisor.rows.workers[0] = &worker;
	d->supervisor = &supervisor;
	d->devices->of[0]->facts.kind = GPUMAP_DEVICE_CUDA; /* is looked at */
}

/* The worker says what a session has. */
static void has(uint32_t i, uint64_t bytes)
{
	gm_put(&gm_journal_at(worker.journal, i)->bytes, bytes);
}

static void comes(uint32_t i, uint32_t uid, pid_t pid)
{
	sessions[i] = (struct gm_attachment){ .uid = uid,
					      .pid = pid,
					      .place = i,
					      .worker = &worker,
					      .state = GM_ATTACHMENT_TAKEN };
	TAILQ_INSERT_TAIL(&worker.attachments, &sessions[i], entry);
	has(i, 0);
}

/* As attachment.c does. */
static void leaves(uint32_t i)
{
	sessions[i].state = GM_ATTACHMENT_LEFT;
	gm_usage_leaves(&sessions[i]);
	TAILQ_REMOVE(&worker.attachments, &sessions[i], entry);
	gm_credit_recount(d, 0);
}

static void look(uint64_t free_bytes)
{
	look_begin(0, free_bytes);
	look_end();
}

static uint64_t avail(void)
{
	return gm_ledger_avail(d, 0, GM_LEDGER_NOBODY);
}

static void what_is_given_back_counts_at_once(void)
{
	comes(0, OTHER, 1);
	has(0, 300);
	look(700);
	look(700);
	EQ(gm_usage_free(d, 0, false), 700);
	leaves(0);
	EQ(gm_usage_free(d, 0, false), 1000);
	EQ(gm_usage_free(d, 0, true), 1000);
	EQ(gm_quota_of(d, 0, OTHER, 0), 500);
	EQ(avail(), 1000);
	look(1000);
	EQ(gm_usage_free(d, 0, false), 1000);
}

/* Memory that no look has found taken is not given back. */
static void what_came_and_went_between_two_looks(void)
{
	look(700);
	for (int round = 0; round < 3; round++) {
		comes(0, OTHER, 1);
		has(0, 200);
		EQ(gm_usage_free(d, 0, false), 500);
		EQ(avail(), 500);
		leaves(0);
		EQ(gm_usage_free(d, 0, false), 700);
		EQ(avail(), 700);
	}
	look(1000);
}

/* Others' takings count too, and a look that comes between two sessions' ends
 * drops the first one's memory alone. */
static void each_session_counts_for_itself(void)
{
	uint64_t between;

	comes(0, OTHER, 1);
	comes(1, OTHER, 2);
	has(0, 100);
	has(1, 200);
	look(700);
	look(700);
	leaves(0);
	EQ(avail(), 800);
	comes(2, OTHER, 3);
	has(2, 50);
	EQ(avail(), 750);
	look_begin(0, 750);
	between = told.moving.looked_ns;
	leaves(1);
	EQ(avail(), 950);
	look_end(); /* read before the second one left */
	EQ(gm_usage_free(d, 0, false), 950);
	OK(between > 0);
	leaves(2);
	look(1000);
	EQ(avail(), 1000);
}

/* A report that is late may be of a time before the memory was taken: one look
 * alone does not make it free for a reservation. */
static void one_look_is_not_sure(void)
{
	comes(0, OTHER, 1);
	has(0, 300);
	look(700);
	leaves(0);
	EQ(gm_usage_free(d, 0, false), 1000);
	EQ(gm_usage_free(d, 0, true), 700);
	EQ(avail(), 700);
	look(1000);
	EQ(avail(), 1000);
}

static void many_that_leave_are_not_forgotten_too_late(void)
{
	uint64_t at;

	look(500);
	for (uint32_t i = 0; i < 2 * GM_RECENT_FREES; i++)
		gm_quota_freed(d, 0, 5);
	EQ(gm_usage_free(d, 0, false), 500 + 10 * GM_RECENT_FREES);
	at = gm_node_clock_now();
	gm_quota_freed(d, 0, 7);
	gm_devices_memory_read(d->devices->of[0], at);
	EQ(gm_usage_free(d, 0, false), 507);
	look(500);
	gm_quota_freed(d, 0, 100);
	at = gm_node_clock_now();
	for (uint32_t i = 0; i < GM_RECENT_FREES; i++)
		gm_quota_freed(d, 0, 5);
	EQ(gm_usage_free(d, 0, false), 600 + 5 * GM_RECENT_FREES);
	gm_devices_memory_read(d->devices->of[0], at);
	EQ(gm_usage_free(d, 0, false), 500 + 5 * (GM_RECENT_FREES - 1));
	look(1000);
}

static void workers_that_end_give_all_back(void)
{
	comes(0, OTHER, 1);
	comes(1, OTHER, 2);
	has(0, 100);
	has(1, 200);
	look(700);
	look(700);
	sessions[1].state = GM_ATTACHMENT_LEAVING;
	gm_usage_ends(&worker);
	has(0, 0);
	has(1, 0);
	EQ(avail(), 1000);
	leaves(0);
	leaves(1);
	EQ(avail(), 1000);
	look(1000);
}

/* Memory of a holder's session is not to be kept free for it once more. */
static void sessions_of_holders_are_credited(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line = { .start = 0 };

	EQ(gm_lineage_stat(holder, &line), 0);
	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	comes(0, 0, holder);
	comes(1, 0, holder + 1);
	has(0, 400);
	has(1, 100);
	EQ(avail(), 0); /* 500 of 1000 are free; 600 are to be kept */
	look(500);
	look(500);
	EQ(used(0), 400);
	EQ(avail(), 300);
	EQ(gm_quota_of(d, 0, OTHER, 0), 300);
	/* The session takes more, and as much less is to be kept free. */
	has(0, 500);
	EQ(avail(), 200);
	look(400);
	look(400);
	EQ(used(0), 500);
	EQ(avail(), 300);
	/* With what its process has itself it has more than it reserved. */
	look_begin(0, 100);
	look_at(300, 300, &line, 1);
	look_end();
	EQ(used(0), 600);
	EQ(avail(), 100);
	look(400);
	/* The session gives all back, and the holder may take it again. */
	leaves(0);
	EQ(used(0), 0);
	EQ(reserved(0), 600);
	EQ(avail(), 300);
	look(900);
	EQ(avail(), 300);
	end_child(holder);
	hear_of_deaths();
	EQ(avail(), 900);
	leaves(1);
	look(1000);
}

TAP_CASE()
{
	if (!ledger_begin("test-usage"))
		return 99;
	make_cards();
	set_up();
	what_is_given_back_counts_at_once();
	what_came_and_went_between_two_looks();
	each_session_counts_for_itself();
	one_look_is_not_sure();
	many_that_leave_are_not_forgotten_too_late();
	workers_that_end_give_all_back();
	sessions_of_holders_are_credited();
	d->supervisor = NULL;
	ledger_end();
	return tap_done();
}
