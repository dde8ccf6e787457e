/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* worker_process: a CUDA row's processes, from the first session to the last
 * and over every kind of death.  The processes are this program. */

#include <errno.h>
#include <signal.h>

#include "agent/cuda/abi.h"
#include "agent/daemon/workers/watchdog.h"
#include "agent/daemon/workers/worker_child.h"
#include "tests/support/worker_process_rig.h"

/* ---- what is waited for -------------------------------------------------- */

static bool standby_rests(void)
{
	return worker->standby.state == GM_STANDBY_RESTING;
}

static bool is_failed(void)
{
	return row()->moving.state == GPUMAP_DEVICE_FAILED;
}

static bool is_idle(void)
{
	return worker->state == GM_PROCESS_IDLE;
}

static bool is_barred_and_empty(void)
{
	return worker->state == GM_PROCESS_BARRED &&
	       !gm_standby_runs(&worker->standby);
}

static bool is_denied(void)
{
	return gm_get(&play->recovery_status) == (uint32_t)-ENODEV;
}

static uint32_t seen;

static bool another_recovery(void)
{
	return gm_get(&play->recoveries) > seen &&
	       worker->state == GM_PROCESS_BARRED;
}

static bool rests_long(void)
{
	return gm_worker_child_rests_long(worker);
}

/* ---- stories ------------------------------------------------------------- */

static void nobody_needs_a_worker_yet(void)
{
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
	EQ(row()->moving.worker_pid, 0);
	EQ(worker->state, GM_PROCESS_IDLE);
	OK(no_process());
}

static void first_attachment_starts_a_worker(void)
{
	EQ(attach_client(), 0);
	OK(until(is_answered));
	EQ(client.status, 0);
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
	EQ(row()->moving.worker_pid, worker->child.pid);
	EQ(row()->moving.restarts, 0);
	EQ(gm_get(&play->workers), 1);
	OK(until(standby_waits));
	EQ(gm_get(&play->wrong), 0);
	STR(play->what_is_wrong, "");
}

static void poisoned_worker_is_replaced_by_the_standby(void)
{
	pid_t standby = worker->standby.child.process.pid;
	uint32_t workers = gm_get(&play->workers);
	uint32_t recoveries = gm_get(&play->recoveries);
	uint32_t restarts = row()->moving.restarts;

	OK(until(standby_waits));
	gm_put_release(&play->recovery_status, 1);
	gm_put_release(&play->hesitates, 1);
	gm_put_release(&play->fails_now, GM_CU_ILLEGAL_ADDRESS);
	OK(until(is_failed));
	gm_put_release(&play->hesitates, 0);
	EQ(row()->moving.error, GM_CU_ILLEGAL_ADDRESS);
	STR(row()->moving.reason, "CUDA 700 ILLEGAL_ADDRESS: a launch failed");
	OK(until(is_back));
	EQ(worker->child.pid, standby);
	EQ(row()->moving.worker_pid, standby);
	EQ(row()->moving.restarts, restarts + 1);
	EQ(gm_get(&play->workers), workers); /* no other was started */
	EQ(gm_get(&play->recoveries), recoveries + 1);
	EQ(gm_get(&play->recovery_status), 0); /* so -EIO */
	EQ(worker->times.failed_ns, 0);
	OK(until(standby_waits));
	OK(worker->standby.child.process.pid != standby);
}

static void standbys_death_is_its_own(void)
{
	uint32_t restarts = row()->moving.restarts;
	pid_t child = worker->child.pid;

	kill(worker->standby.child.process.pid, SIGKILL);
	OK(until(standby_rests));
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
	EQ(row()->moving.restarts, restarts);
	EQ(worker->child.pid, child);
	OK(until(standby_waits)); /* another, after a rest */
}

static void lost_card_has_no_worker_until_it_is_seen(void)
{
	uint32_t workers, gos;

	gm_put_release(&play->fails_now, GM_CU_NO_DEVICE);
	OK(until(is_barred_and_empty));
	EQ(row()->moving.state, GPUMAP_DEVICE_LOST);
	EQ(row()->moving.error, GM_CU_NO_DEVICE);
	OK(is_denied());
	workers = gm_get(&play->workers);
	gos = gm_get(&play->gos);

	/* Jobs of its sessions are refused again and again. */
	seen = gm_get(&play->recoveries);
	OK(until(another_recovery));
	EQ(gm_get(&play->workers), workers);
	EQ(gm_get(&play->gos), gos);

	gm_supervisor_unbar(d, 0, GM_BAR_HEALTH | GM_BAR_LOST);
	row()->present = true;
	OK(until(is_back));
	EQ(gm_get(&play->workers), workers + 1);
	gm_put_release(&play->recovery_status, 1);
}

static int n_closed;

static void is_closed(struct gm_daemon *daemon, uint32_t of)
{
	(void)daemon;
	EQ(of, 0);
	OK(no_process());
	n_closed++;
}

static bool closed(void)
{
	return n_closed > 0;
}

static void drained_row_has_nothing_open(void)
{
	uint32_t ends = gm_get(&play->ends);
	uint32_t restarts = row()->moving.restarts;
	struct gm_attachment *before = &client.attachment;

	n_closed = 0;
	gm_devices_state(d, 0, GPUMAP_DEVICE_DRAINING, "by hand", 0);
	gm_supervisor_bar(d, 0, GM_BAR_DRAIN, true, "by hand", is_closed);
	EQ(n_closed, 0);
	OK(until(closed));
	EQ(n_closed, 1);
	EQ(gm_get(&play->ends), ends + 1);
	EQ(row()->moving.state, GPUMAP_DEVICE_DRAINING);
	EQ(row()->moving.worker_pid, 0);
	EQ(row()->moving.restarts, restarts);
	OK(is_denied());
	EQ(before->state, GM_ATTACHMENT_WAITING);

	/* Another reason keeps it so. */
	gm_supervisor_bar(d, 0, GM_BAR_HEALTH, false, "ECC", NULL);
	gm_supervisor_unbar(d, 0, GM_BAR_DRAIN);
	EQ(worker->state, GM_PROCESS_BARRED);
	gm_supervisor_unbar(d, 0, GM_BAR_HEALTH | GM_BAR_LOST);
	OK(until(is_back));
	OK(leave());

	/* Newcomers are told at once. */
	gm_supervisor_bar(d, 0, GM_BAR_DRAIN, true, "by hand", NULL);
	EQ(attach_client(), -ENODEV);
	gm_supervisor_unbar(d, 0, GM_BAR_DRAIN);
	EQ(attach_client(), 0);
	OK(until(is_answered));
	EQ(client.status, 0);
}

static void idle_worker_ends(void)
{
	uint32_t ends = gm_get(&play->ends);
	uint32_t restarts = row()->moving.restarts;

	OK(until(is_back));
	d->config->cuda_idle_ns = 1000000;
	OK(leave());
	OK(until(no_process));
	EQ(worker->state, GM_PROCESS_IDLE);
	EQ(gm_get(&play->ends), ends + 1);
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
	EQ(row()->moving.worker_pid, 0);
	EQ(row()->moving.restarts, restarts);
}

static bool drain_sent(void)
{
	return worker->drain_sent;
}

/* The one that ends serves it no more, and the next one does. */
static void attachment_may_come_while_the_worker_ends(void)
{
	uint32_t workers = gm_get(&play->workers);

	EQ(attach_client(), 0);
	OK(until(is_answered));
	gm_put_release(&play->hesitates, 1);
	OK(leave());
	OK(until(drain_sent));
	d->config->cuda_idle_ns = LIMIT_NS;
	EQ(attach_client(), 0);
	EQ(client.status, 1);
	gm_put_release(&play->hesitates, 0);
	OK(until(is_answered));
	EQ(client.status, 0);
	EQ(gm_get(&play->workers), workers + 2);
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
}

/* The worker was asked to end, and has not ended by itself. */
static void a_worker_killed_while_it_ends_has_died(void)
{
	uint32_t restarts = worker->restarts;

	gm_put_release(&play->hesitates, 1);
	d->config->cuda_idle_ns = 1000000;
	OK(leave());
	OK(until(drain_sent));
	EQ(kill(worker->child.pid, SIGKILL), 0);
	OK(until(is_idle));
	EQ(worker->restarts, restarts + 1);
	gm_put_release(&play->hesitates, 0);
	d->config->cuda_idle_ns = LIMIT_NS;
	EQ(attach_client(), 0);
	OK(until(is_answered));
	EQ(client.status, 0);
}

/* The present time of the checks, long after the machine has booted, because
 * there is no time before that. */
static uint64_t look_ns;

static gm_a64 *word_of(enum gm_sign_of sign)
{
	struct gm_journal *signs = worker->journal;

	switch (sign) {
	case GM_SIGN_BEAT:
		return &signs->beat;
	case GM_SIGN_SLOW:
		return &signs->slow;
	case GM_SIGN_IN_FLIGHT:
		return &signs->in_flight;
	case GM_SIGN_JOINT:
		return &signs->joint;
	case GM_SIGN_STALLED:
		return &signs->stalled;
	default:
		return &signs->clique[sign - GM_SIGN_CLIQUE];
	}
}

/* The worker gave the sign, and a look found it first @ago_ns ago. */
static void beat(enum gm_sign_of sign, uint32_t call, uint64_t ago_ns)
{
	uint64_t word = (uint64_t)call << 56 | (look_ns - ago_ns);

	gm_put(word_of(sign), word);
	worker->signs[sign] = (struct gm_sign){ word, look_ns - ago_ns };
}

static bool was_killed_over(const char *why)
{
	bool was;

	gm_watchdog_check(worker, look_ns);
	was = worker->state == GM_PROCESS_ENDING &&
	      strstr(worker->why, why) != NULL;
	gm_put(&worker->journal->beat, 0);
	gm_put(&worker->journal->slow, 0);
	gm_put(&worker->journal->in_flight, 0);
	gm_put(&worker->journal->clique[3], 0);
	return was && until(is_back);
}

static bool is_borne(void)
{
	gm_watchdog_check(worker, look_ns);
	return worker->state == GM_PROCESS_SERVING;
}

static void each_call_has_its_own_limit(void)
{
	struct gm_journal *signs = worker->journal;
	const uint64_t second = 1000000000;

	OK(until(is_back));
	look_ns = gm_loop_now() + 36000 * second;
	/* A job may take as long as it takes, and what waits for it too. */
	beat(GM_SIGN_IN_FLIGHT, 0, 7200 * second);
	beat(GM_SIGN_SLOW, GM_CALL_ALLOC, 3600 * second);
	gm_watchdog_check(worker, look_ns);
	EQ(worker->state, GM_PROCESS_SERVING);
	gm_put(&signs->in_flight, 0);
	look_ns += 59 * second; /* from the end of the job it counts */
	gm_watchdog_check(worker, look_ns);
	EQ(worker->state, GM_PROCESS_SERVING);
	look_ns += 2 * second;
	OK(was_killed_over("an allocation took over 60 s"));

	/* A larger allocation has a longer limit. */
	beat(GM_SIGN_SLOW, GM_CALL_ALLOC_LARGE, 899 * second);
	gm_watchdog_check(worker, look_ns);
	EQ(worker->state, GM_PROCESS_SERVING);
	beat(GM_SIGN_SLOW, GM_CALL_ALLOC_LARGE, 901 * second);
	OK(was_killed_over("a large allocation took over 900 s"));

	beat(GM_SIGN_BEAT, GM_CALL_LOOP, 4 * second);
	gm_watchdog_check(worker, look_ns);
	EQ(worker->state, GM_PROCESS_SERVING);
	beat(GM_SIGN_BEAT, GM_CALL_LOOP, 6 * second);
	OK(was_killed_over("a turn of its loop took over 5 s"));

	/* A limit counts from the look that finds the call, whatever the
	 * worker's clock says. */
	gm_put(&signs->beat, (uint64_t)GM_CALL_LOOP << 56 | 1);
	OK(is_borne());
	look_ns += 5 * second;
	OK(is_borne());
	look_ns += 1;
	OK(was_killed_over("a turn of its loop took over 5 s"));

	/* The calls of an earlier worker do not count. */
	gm_put(&signs->beat, (uint64_t)GM_CALL_LOOP << 56 | 2);
	gm_watchdog_begin(worker);
	look_ns += 60 * second;
	OK(is_borne());
	gm_put(&signs->beat, 0);

	d->config->cuda_kernel_limit_ns = 10 * second;
	beat(GM_SIGN_IN_FLIGHT, 0, 9 * second);
	gm_watchdog_check(worker, look_ns);
	EQ(worker->state, GM_PROCESS_SERVING);
	beat(GM_SIGN_IN_FLIGHT, 0, 11 * second);
	OK(was_killed_over("kernel-limit"));
	d->config->cuda_kernel_limit_ns = 0;
}

/* Where texts are compiled apart, the compiler has its own limit. */
static void a_compiler_has_its_own_limit(void)
{
	uint32_t *kind = &d->devices->of[worker->row]->facts.kind;
	const uint32_t kept = *kind;
	const uint64_t second = 1000000000;

	d->config->program_limit_ns = 60 * second;
	beat(GM_SIGN_SLOW, GM_CALL_START, 61 * second);
	OK(was_killed_over("a program's start took over 60 s"));
	*kind = GPUMAP_DEVICE_OPENCL;
	beat(GM_SIGN_SLOW, GM_CALL_START, 659 * second);
	OK(is_borne());
	beat(GM_SIGN_SLOW, GM_CALL_START, 661 * second);
	gm_watchdog_check(worker, look_ns);
	*kind = kept;
	OK(was_killed_over("a program's start took over 660 s"));
}

/* The worker waits for a client's memory: that is no hang of the worker, for a
 * while, and after a second it is the end of the client's session. */
static void withheld_memory_ends_its_session(void)
{
	struct gm_journal *signs = worker->journal;
	const uint64_t second = 1000000000;

	client.n_stalls = 0;
	gm_put(&signs->stalled_place, client.attachment.place + 1);
	beat(GM_SIGN_STALLED, 0, second / 2);
	beat(GM_SIGN_BEAT, GM_CALL_LOOP, 9 * second);
	OK(is_borne());
	EQ(client.n_stalls, 0);
	beat(GM_SIGN_STALLED, 0, 9 * second);
	OK(is_borne());
	EQ(client.n_stalls, 1);
	gm_put(&signs->stalled_place, GM_JOURNAL_PLACES);
	OK(is_borne());
	EQ(client.n_stalls, 1);

	/* The usual limit counts from the end of the excuse. */
	look_ns += 2 * second;
	OK(is_borne());
	look_ns += 4 * second;
	OK(was_killed_over("a turn of its loop took over 5 s"));
	gm_put(&signs->stalled, 0);
	gm_put(&signs->stalled_place, 0);
}

/* Calls of the loop wait for the driver's locks, which a call of another thread
 * holds; that call has its limit. */
static void locks_of_the_driver_are_no_hang(void)
{
	struct gm_journal *signs = worker->journal;
	const uint64_t second = 1000000000;

	beat(GM_SIGN_BEAT, GM_CALL_LOOP, 600 * second);
	beat(GM_SIGN_SLOW, GM_CALL_REGISTER, 600 * second);
	OK(is_borne());
	gm_put(&signs->slow, 0);
	look_ns += 4 * second; /* from the end of that call it counts */
	OK(is_borne());
	look_ns += 2 * second;
	OK(was_killed_over("a turn of its loop took over 5 s"));

	beat(GM_SIGN_BEAT, GM_CALL_DEVICE, 40 * second);
	beat(GM_SIGN_CLIQUE + 3, GM_CALL_MEET, 40 * second);
	OK(is_borne());
	gm_put(&signs->clique[3], 0);
	look_ns += 31 * second;
	OK(was_killed_over("one slice of work took over 30 s"));

	/* The limit of the call that holds the lock. */
	beat(GM_SIGN_BEAT, GM_CALL_LOOP, 90 * second);
	beat(GM_SIGN_SLOW, GM_CALL_FREE, 61 * second);
	OK(was_killed_over("giving memory back took over 60 s"));
}

/* A registration of another row's worker holds locks of the whole node, for as
 * long as that takes and a minute at most. */
static void locks_of_the_node_are_no_hang(void)
{
	struct gm_journal *signs = worker->journal;
	const uint64_t second = 1000000000;

	beat(GM_SIGN_BEAT, GM_CALL_LOOP, 30 * second);
	d->supervisor->pinned_ns = look_ns - second;
	OK(is_borne());
	look_ns += 31 * second;
	d->supervisor->pinned_ns = look_ns - second;
	OK(was_killed_over("a turn of its loop took over 5 s"));
	d->supervisor->pinned_ns = 0;

	/* This worker's registrations count, and its other calls do not. */
	beat(GM_SIGN_SLOW, GM_CALL_ALLOC, second);
	OK(is_borne());
	EQ(d->supervisor->pinned_ns, 0);
	beat(GM_SIGN_SLOW, GM_CALL_FORGET, second);
	OK(is_borne());
	EQ(d->supervisor->pinned_ns, look_ns);
	gm_put(&signs->slow, 0);
	d->supervisor->pinned_ns = 0;
}

/* The abort frees memory of the card, which waits for work of others there. */
static void aborts_wait_for_the_card(void)
{
	struct gm_journal *signs = worker->journal;
	const uint64_t second = 1000000000;

	beat(GM_SIGN_IN_FLIGHT, 0, 7200 * second);
	beat(GM_SIGN_CLIQUE + 3, GM_CALL_ABORT, 3600 * second);
	OK(is_borne());
	gm_put(&signs->in_flight, 0);
	look_ns += 10 * second;
	OK(is_borne());
	look_ns += second;
	OK(was_killed_over("the abort of a communicator took over 10 s"));

	/* Nor is it ended beside a collective, for a minute. */
	beat(GM_SIGN_JOINT, 0, 59 * second);
	beat(GM_SIGN_CLIQUE + 3, GM_CALL_ABORT, 30 * second);
	OK(is_borne());
	look_ns += 12 * second;
	OK(was_killed_over("the abort of a communicator took over 10 s"));
	gm_put(&signs->joint, 0);

	/* Short jobs that follow each other do not hold it up for ever. */
	beat(GM_SIGN_CLIQUE + 3, GM_CALL_ABORT, 0);
	for (int i = 0; i < 20; i++) {
		look_ns += 3 * second;
		beat(GM_SIGN_IN_FLIGHT, 0, second / 2);
		if (!OK(is_borne()))
			break;
	}
	look_ns += second;
	beat(GM_SIGN_IN_FLIGHT, 0, second / 2);
	OK(was_killed_over("the abort of a communicator"));

	beat(GM_SIGN_CLIQUE + 3, GM_CALL_GIVE_UP, 9 * second);
	OK(is_borne());
	beat(GM_SIGN_CLIQUE + 3, GM_CALL_GIVE_UP, 11 * second);
	OK(was_killed_over("giving up to meet other cards took over 10 s"));
}

static uint32_t next_restart;

static bool is_restarted(void)
{
	return row()->moving.restarts == next_restart && is_back();
}

static void next_worker_has_nccl(uint32_t config, bool has)
{
	d->config->nccl.may = config;
	gm_put_release(&play->has_nccl, has);
	next_restart = row()->moving.restarts + 1;
	kill(worker->child.pid, SIGKILL);
	OK(until(is_restarted));
	EQ(gm_get(&play->wrong), 0);
	STR(play->what_is_wrong, "");
}

/* Where it is not told, a card that is alone or a part of one has no NCCL. */
static void nccl_is_for_cards_that_may_meet(void)
{
	struct gm_device *second;

	/* All processes have looked at what they were started with. */
	OK(until(is_back));
	OK(until(standby_waits));
	d->config->cuda_standby = false;
	gm_standby_end(worker);
	next_worker_has_nccl(GM_CONFIG_NCCL_YES, true);
	next_worker_has_nccl(GM_CONFIG_NCCL_AUTO, false);
	make_row(1);
	second = d->devices->of[1];
	next_worker_has_nccl(GM_CONFIG_NCCL_AUTO, true);
	next_worker_has_nccl(GM_CONFIG_NCCL_NO, false);
	second->facts.flags &= ~GPUMAP_DEVICE_CLIQUES;
	next_worker_has_nccl(GM_CONFIG_NCCL_AUTO, false);
}

/* A driver that will not start is tried less and less often. */
static void failing_driver_is_not_stormed(void)
{
	OK(until(is_back));
	OK(leave());
	d->config->cuda_standby = false;
	gm_standby_end(worker);
	kill(worker->child.pid, SIGKILL);
	OK(until(is_idle));
	gm_put_release(&play->fails_at_once, GM_CU_SYSTEM_NOT_READY);
	EQ(attach_client(), 0);
	OK(until(is_answered));
	EQ(client.status, -ENODEV);
	OK(rests_long());
	EQ(row()->moving.error, GM_CU_SYSTEM_NOT_READY);
	STR(row()->moving.reason, "CUDA 802 SYSTEM_NOT_READY: a launch failed");
	EQ(attach_client(), -ENODEV);
	gm_put_release(&play->fails_at_once, 0);
}

TAP_CASE_ARGS(argc, argv)
{
	play_if_child(argc, argv);
	if (begin()) {
		nobody_needs_a_worker_yet();
		first_attachment_starts_a_worker();
		poisoned_worker_is_replaced_by_the_standby();
		standbys_death_is_its_own();
		lost_card_has_no_worker_until_it_is_seen();
		drained_row_has_nothing_open();
		idle_worker_ends();
		attachment_may_come_while_the_worker_ends();
		a_worker_killed_while_it_ends_has_died();
		each_call_has_its_own_limit();
		a_compiler_has_its_own_limit();
		withheld_memory_ends_its_session();
		locks_of_the_driver_are_no_hang();
		locks_of_the_node_are_no_hang();
		aborts_wait_for_the_card();
		nccl_is_for_cards_that_may_meet();
		failing_driver_is_not_stormed();
		end();
	}
	return tap_done();
}
