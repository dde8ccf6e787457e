/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * drains: who waits for one is answered, whatever does not end or answer; what
 * was said of an earlier one counts for nothing; and without memory nothing is
 * half begun.  The watchers are this test.
 */

#include <errno.h>
#include <sys/wait.h>

#include "agent/daemon/health/cards.h"
#include "agent/daemon/health/drain.h"
#include "agent/daemon/health/watchers.h"
#include "agent/daemon/workers/supervisor.h"
#include "agent/daemon/workers/worker_child.h"
#include "tests/support/unkillable_child.h"
#include "tests/support/worker_process_rig.h"

#define SHORT_NS UINT64_C(50000000)
#define PARTS    3u

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

static int calls_left = -1; /* before one fails; -1: none does */

void *__wrap_calloc(size_t n, size_t bytes)
{
	if (calls_left == 0)
		return NULL;
	calls_left -= calls_left > 0;
	return __real_calloc(n, bytes);
}

/* ---- the watchers, and who waits ---------------------------------------- */

enum word { NOTHING, RELEASE, RESUME };

static enum word last_word; /* to the watchers */

bool __wrap_gm_watchers_release(struct gm_daemon *of, const uint8_t uuid[16]);
void __wrap_gm_watchers_resume(struct gm_daemon *of, const uint8_t uuid[16]);
void __wrap_gm_watchers_look_again(struct gm_daemon *of);

bool __wrap_gm_watchers_release(struct gm_daemon *of, const uint8_t uuid[16])
{
	(void)of;
	EQ(memcmp(uuid, d->devices->of[0]->facts.uuid, 16), 0);
	last_word = RELEASE;
	return true;
}

void __wrap_gm_watchers_resume(struct gm_daemon *of, const uint8_t uuid[16])
{
	(void)of;
	if (memcmp(uuid, d->devices->of[0]->facts.uuid, 16) == 0)
		last_word = RESUME;
}

void __wrap_gm_watchers_look_again(struct gm_daemon *of)
{
	(void)of;
}

/* The last word to the watchers since this was asked; NOTHING: none. */
static enum word hear_word(void)
{
	enum word word = last_word;

	last_word = NOTHING;
	return word;
}

static struct gm_drain_wait to_drain, to_undrain;
static int wait_status; /* of the last one that asked; 1: none yet */
static int n_cancelled;
static bool was_asked; /* the probe, to close the card */
static char wait_why[GM_WHY_BYTES];

static void has_come(struct gm_drain_wait *w, int status, const char *why)
{
	if (status == -ECANCELED) {
		EQ(w == &to_drain, true);
		n_cancelled++;
		return;
	}
	wait_status = status;
	snprintf(wait_why, sizeof(wait_why), "%s", why);
	NOTE("answered: %d %s", status, why);
}

static bool is_told(void)
{
	return wait_status <= 0;
}

static int drain(void)
{
	char why[GM_WHY_BYTES] = "";

	to_drain = (struct gm_drain_wait){ .done = has_come };
	wait_status = 1;
	was_asked = false;
	return gm_drains_begin(d, 0, &to_drain, why);
}

static int undrain(void)
{
	char why[GM_WHY_BYTES] = "";

	to_undrain = (struct gm_drain_wait){ .done = has_come };
	wait_status = 1;
	return gm_drains_undo(d, 0, &to_undrain, why);
}

/* As cards.c does when a watcher has spoken of the card. */
static void card_is_seen(void)
{
	OK(gm_drains_seen(d, 0));
	gm_supervisor_unbar(d, 0, GM_BAR_DRAIN);
}

static bool is_asked_to_close(void)
{
	was_asked |= hear_word() == RELEASE;
	return was_asked;
}

/* Slow machines take longer than the limit: then it is asked for again. */
static void finish_drain(void)
{
	OK(until(is_asked_to_close));
	if (wait_status == -ETIMEDOUT)
		EQ(drain(), -EINPROGRESS);
	gm_drains_released(d, 0);
	EQ(wait_status, 0);
}

static void serve(void)
{
	if (client.attachment.worker == NULL)
		EQ(attach_client(), 0);
	OK(until(is_back));
}

static void bring_back(void)
{
	EQ(undrain(), -EINPROGRESS);
	EQ(hear_word(), RESUME);
	card_is_seen();
	EQ(wait_status, 0);
	serve();
}

static void limit(uint64_t ns)
{
	d->config->drain_row_ns = ns;
}

/* Drain, until the waiting client is told that the probe is silent; before that
 * the worker may have been slow. */
static void wait_for_probe(void)
{
	limit(SHORT_NS);
	do {
		EQ(drain(), -EINPROGRESS);
		if (!OK(until(is_told)) || !EQ(wait_status, -ETIMEDOUT))
			return;
	} while (strstr(wait_why, "the probe does not answer") == NULL);
}

/* ---- stories ------------------------------------------------------------- */

static bool is_being_recovered(void)
{
	return worker->state == GM_PROCESS_RECOVERING;
}

/* The worker was asked to end, has no work, and does not end. */
static void idle_worker_that_stays_is_killed(void)
{
	uint32_t ends = gm_get(&play->ends);

	limit(SHORT_NS);
	serve();
	gm_put_release(&play->hesitates, 1);
	EQ(drain(), -EINPROGRESS);
	OK(until(is_being_recovered));
	EQ(gm_get(&play->ends), ends);
	gm_put_release(&play->hesitates,
		       0); /* the recovery process would, too */
	OK(until(is_asked_to_close));
	OK(no_process());
	finish_drain();
	EQ(row()->moving.state, GPUMAP_DEVICE_DRAINING);
	bring_back();
}

static void worker_that_works_on_is_left(void)
{
	uint32_t ends = gm_get(&play->ends);

	gm_put_release(&play->hesitates, 1);
	gm_put(&worker->journal->in_flight, gm_loop_now());
	EQ(drain(), -EINPROGRESS);
	OK(until(is_told));
	EQ(wait_status, -ETIMEDOUT);
	OK(strstr(wait_why, "the worker of row 0") != NULL);
	OK(strstr(wait_why, "ask again") != NULL);
	EQ(row()->moving.state, GPUMAP_DEVICE_DRAINING);
	EQ(worker->state, GM_PROCESS_SERVING);
	/* A client that asks again is told again. */
	EQ(drain(), -EINPROGRESS);
	OK(until(is_told));
	EQ(wait_status, -ETIMEDOUT);
	EQ(worker->state, GM_PROCESS_SERVING);

	EQ(drain(), -EINPROGRESS);
	gm_put_release(&play->hesitates, 0);
	finish_drain();
	gm_put(&worker->journal->in_flight, 0);
	EQ(gm_get(&play->ends), ends + 1);
	bring_back();
}

/* The card is brought back before it was closed. */
static void drain_that_was_cancelled_is_over(void)
{
	limit(LIMIT_NS);
	EQ(drain(), -EINPROGRESS);
	OK(until(is_asked_to_close));
	EQ(n_cancelled, 0);
	EQ(undrain(), -EINPROGRESS);
	EQ(n_cancelled, 1);
	EQ(hear_word(), RESUME);
	gm_drains_released(d, 0);
	EQ(wait_status, 1);
	card_is_seen();
	serve();
	EQ(drain(), -EINPROGRESS);
	OK(until(is_asked_to_close));
	gm_drains_released(d, 0);
	EQ(wait_status, 0);
	EQ(drain(), 0);
	bring_back();
}

/* As long as a process may have the card open, nothing is drained. */
static void watchers_that_are_silent_are_told_of(void)
{
	wait_for_probe();
	EQ(drain(), -EINPROGRESS);
	OK(until(is_told));
	EQ(wait_status, -ETIMEDOUT);
	EQ(drain(), -EINPROGRESS);
	gm_drains_released(d, 0);
	EQ(wait_status, 0);
	hear_word();
	bring_back();
}

static void card_that_is_not_seen_is_lost(void)
{
	EQ(drain(), -EINPROGRESS);
	finish_drain();
	limit(SHORT_NS);
	EQ(undrain(), -EINPROGRESS);
	OK(until(is_told));
	EQ(wait_status, -ETIMEDOUT);
	OK(!gm_drains_has(d, 0));
	EQ(row()->moving.state, GPUMAP_DEVICE_LOST);
	EQ(hear_word(), RESUME);
	/* The row can be drained all the same, and brought back. */
	limit(LIMIT_NS);
	EQ(drain(), -EINPROGRESS);
	finish_drain();
	EQ(undrain(), -EINPROGRESS);
	EQ(hear_word(), RESUME);
	row()->present = true;
	card_is_seen();
	gm_supervisor_unbar(d, 0, GM_BAR_HEALTH | GM_BAR_LOST);
	serve();
}

static bool is_stuck(void)
{
	return worker->state == GM_PROCESS_STUCK;
}

static void worker_that_does_not_die_is_told_of(void)
{
	pid_t tracer;
	int held = hold(worker->child.pid, &tracer);

	if (held < 0) {
		SKIP(1, "this needs ptrace");
		return;
	}
	limit(SHORT_NS);
	gm_worker_child_kill(worker, "by hand");
	/* As if the five seconds were over. */
	gm_timer_set(d->loop, &worker->timer, gm_loop_now());
	OK(until(is_stuck));
	EQ(drain(), -EINPROGRESS);
	OK(until(is_told));
	EQ(wait_status, -ETIMEDOUT);
	OK(strstr(wait_why, "not even by SIGKILL") != NULL);
	EQ(row()->moving.state, GPUMAP_DEVICE_DRAINING);

	/* The row may be brought back: then it shows its fault. */
	EQ(undrain(), -EINPROGRESS);
	EQ(hear_word(), RESUME);
	card_is_seen();
	EQ(wait_status, 0);
	EQ(row()->moving.state, GPUMAP_DEVICE_FAILED);
	OK(strstr(row()->moving.reason, "does not end by SIGKILL") != NULL);

	/* And drained again, which is done when it has died. */
	EQ(drain(), -EINPROGRESS);
	close(held);
	waitpid(tracer, NULL, 0);
	finish_drain();
	bring_back();
}

/* ---- instances ----------------------------------------------------------- */

static uint32_t n_drained(void)
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < d->devices->n; at++)
		n += d->devices->of[at]->drain != NULL;
	return n;
}

static void without_memory_nothing_is_begun(void)
{
	limit(LIMIT_NS);
	OK(until(is_back));
	for (uint32_t at = 1; at <= PARTS; at++) {
		make_row(at);
		memcpy(d->devices->of[at]->parent, row()->facts.uuid, 16);
	}
	for (int i = 0; i <= (int)PARTS; i++) {
		calls_left = i;
		EQ(drain(), -ENOMEM);
		calls_left = -1;
		EQ(n_drained(), 0);
		EQ(row()->bars, 0);
		EQ(d->devices->of[1]->bars, 0);
		EQ(row()->moving.state, GPUMAP_DEVICE_READY);
		EQ(d->devices->of[1]->moving.state, GPUMAP_DEVICE_PROBING);
	}
	EQ(drain(), -EINPROGRESS);
	EQ(n_drained(), PARTS + 1);
	for (uint32_t at = 1; at <= PARTS; at++)
		EQ(d->devices->of[at]->moving.state, GPUMAP_DEVICE_DRAINING);
	finish_drain();
}

/* The instance is no row of its own before its card is back. */
static void instance_that_comes_late_is_drained(void)
{
	char why[GM_WHY_BYTES] = "";
	uint32_t at = d->devices->n;

	make_row(at);
	memcpy(d->devices->of[at]->parent, row()->facts.uuid, 16);
	gm_drains_came(d, at);
	OK(gm_drains_has(d, at));
	EQ(d->devices->of[at]->present, false);
	EQ(d->devices->of[at]->moving.state, GPUMAP_DEVICE_DRAINING);
	EQ(gm_drains_undo(d, at, &to_drain, why), -EBUSY);
	OK(strstr(why, "undrain row 0") != NULL);
	EQ(undrain(), -EINPROGRESS);
	OK(!gm_drains_has(d, at));
	gm_drains_came(d, at);
	EQ(d->devices->of[at]->moving.state, GPUMAP_DEVICE_DRAINING);
	for (uint32_t part = 1; part < at; part++)
		OK(gm_drains_seen(d, part));
	card_is_seen();
	EQ(wait_status, 0);
	EQ(n_drained(), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	play_if_child(argc, argv);
	if (begin()) {
		d->config->cuda_standby = false;
		d->cards->is_open = true;
		idle_worker_that_stays_is_killed();
		worker_that_works_on_is_left();
		drain_that_was_cancelled_is_over();
		watchers_that_are_silent_are_told_of();
		card_that_is_not_seen_is_lost();
		worker_that_does_not_die_is_told_of();
		without_memory_nothing_is_begun();
		instance_that_comes_late_is_drained();
		gm_drains_exit(d);
		end();
	}
	return tap_done();
}
