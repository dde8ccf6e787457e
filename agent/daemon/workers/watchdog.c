/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/watchdog.h"

#include <inttypes.h>
#include <stdio.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/worker_child.h"

#define MS          UINT64_C(1000000)
#define SECOND      UINT64_C(1000000000)

#define JOINT_NS    (60 * SECOND)
#define BESIDE_NS   (60 * SECOND) /* short jobs that follow each other */
#define STALL_NS    (10 * SECOND) /* of an excuse by a client's memory */
#define PIN_NS      (60 * SECOND) /* of an excuse by other workers' pages */
#define STOPPED_MAX 2u            /* looks, a second apart */
#define LOST_MAX    2u            /* likewise */

static const struct limit {
	uint64_t ns;
	const char *what; /* took too long */
	bool is_the_cards;
} limits[] = {
	[GM_CALL_LOOP] = { 5 * SECOND, "a turn of its loop", false },
	[GM_CALL_DEVICE] = { 30 * SECOND, "one slice of work", true },
	[GM_CALL_ALLOC] = { 60 * SECOND, "an allocation", true },
	[GM_CALL_FREE] = { 60 * SECOND, "giving memory back", true },
	/* A gigabyte of pages takes up to a second. */
	[GM_CALL_REGISTER] = { 900 * SECOND, "a registration", true },
	[GM_CALL_FORGET] = { 60 * SECOND, "the end of a registration", true },
	[GM_CALL_EXPORT] = { 30 * SECOND, "an export", true },
	[GM_CALL_IMPORT] = { 30 * SECOND, "an import", true },
	/* The administrator says, below. */
	[GM_CALL_PROGRAM] = { 0, "a program", false },
	[GM_CALL_START] = { 0, "a program's start", false },
	[GM_CALL_REMOTE_COPY] = { 30 * SECOND, "a copy between rows", true },
	[GM_CALL_ALLOC_LARGE] = { 900 * SECOND, "a large allocation", true },
	/* The worker has a limit of its own, below this. */
	[GM_CALL_MEET] = { 2 * GM_NCCL_GROUP_LIMIT_NS, "meeting other cards",
			   false },
	/* An abort may hang, and only the end of the process helps then.  An
	 * abort joins NCCL's threads and frees memory of the card, which waits
	 * for all work there, so some seconds are no hang. */
	[GM_CALL_ABORT] = { 10 * SECOND, "the abort of a communicator", true },
	/* A half-made communicator looks for the abort only at some points. */
	[GM_CALL_GIVE_UP] = { 10 * SECOND, "giving up to meet other cards",
			      true },
};

/* ---- signs --------------------------------------------------------------- */

static uint64_t read_sign(const struct gm_journal *journal, uint32_t sign)
{
	switch (sign) {
	case GM_SIGN_BEAT:
		return gm_get(&journal->beat);
	case GM_SIGN_SLOW:
		return gm_get(&journal->slow);
	case GM_SIGN_IN_FLIGHT:
		return gm_get(&journal->in_flight);
	case GM_SIGN_JOINT:
		return gm_get(&journal->joint);
	case GM_SIGN_STALLED:
		return gm_get(&journal->stalled);
	default:
		return gm_get(&journal->clique[sign - GM_SIGN_CLIQUE]);
	}
}

void gm_watchdog_begin(struct gm_worker_process *worker)
{
	for (uint32_t i = 0; i < GM_SIGNS; i++)
		worker->signs[i] =
			(struct gm_sign){ .word = read_sign(worker->journal,
							    i) };
}

static void look_at_signs(struct gm_worker_process *worker, uint64_t now)
{
	for (uint32_t i = 0; i < GM_SIGNS; i++) {
		uint64_t word = read_sign(worker->journal, i);

		if (worker->signs[i].word != word)
			worker->signs[i] = (struct gm_sign){ word, now };
	}
}

/* How long the sign says the same; -1: nothing of this worker. */
static int64_t age_of(const struct gm_sign *sign, uint64_t now)
{
	return sign->word != 0 && sign->since_ns != 0
		       ? (int64_t)(now - sign->since_ns)
		       : -1;
}

/* The call that a thread of this worker is in. */
static uint32_t call_of(const struct gm_sign *beat)
{
	return beat->since_ns != 0 ? (uint32_t)(beat->word >> 56)
				   : GM_CALL_IDLE;
}

/* ---- limits -------------------------------------------------------------- */

/* The last time at which a call of the loop may have waited for a lock of the
 * driver's. */
static uint64_t locked_ns(const struct gm_worker_process *worker,
			  uint64_t since, uint64_t now)
{
	uint64_t pinned = worker->d->supervisor->pinned_ns;

	if (!worker->is_card || now - since > PIN_NS ||
	    pinned < worker->locked_ns)
		return worker->locked_ns;
	return pinned;
}

static bool is_over(const struct gm_worker_process *worker, uint32_t call,
		    uint64_t limit_ns, uint64_t since, uint64_t now)
{
	bool leaves = call == GM_CALL_ABORT || call == GM_CALL_GIVE_UP;
	bool is_the_loops = call == GM_CALL_LOOP || call == GM_CALL_DEVICE;
	uint64_t idle = since, calm = since;

	if (limits[call].is_the_cards && idle < worker->computed_ns)
		idle = worker->computed_ns;
	if (idle < worker->stalled_ns)
		idle = worker->stalled_ns;
	if (is_the_loops && idle < locked_ns(worker, since, now))
		idle = locked_ns(worker, since, now);
	if (calm < worker->computed_long_ns)
		calm = worker->computed_long_ns;
	return now - idle > limit_ns || (leaves && now - calm > BESIDE_NS);
}

static bool compiles(const struct gm_worker_process *worker)
{
	return worker->d->devices->of[worker->row]->facts.kind ==
	       GPUMAP_DEVICE_OPENCL;
}

static void check(struct gm_worker_process *worker, const struct gm_sign *beat,
		  uint64_t now)
{
	uint32_t call = call_of(beat);
	const struct limit *limit;
	uint64_t limit_ns;
	char why[GM_WHY_BYTES];

	if (call >= sizeof(limits) / sizeof(limits[0]))
		return;
	limit = &limits[call];
	limit_ns = limit->ns;
	if (call == GM_CALL_PROGRAM || call == GM_CALL_START)
		limit_ns = worker->d->config->program_limit_ns;
	/* gpumap-build has limits of its own for the compiler. */
	if (limit_ns != 0 && call == GM_CALL_START && compiles(worker))
		limit_ns += GM_BUILD_WAIT_S * SECOND;
	if (limit_ns == 0 ||
	    !is_over(worker, call, limit_ns, beat->since_ns, now))
		return;
	snprintf(why, sizeof(why), "%s took over %" PRIu64 " %s%s", limit->what,
		 limit_ns / (limit_ns < SECOND ? MS : SECOND),
		 limit_ns < SECOND ? "ms" : "s",
		 limit->ns ? "" : ", the limit in [programs]");
	gm_worker_child_kill(worker, why);
}

/* Device code that has been at it for a while. */
static bool computes(const struct gm_worker_process *worker, uint64_t now)
{
	return age_of(&worker->signs[GM_SIGN_IN_FLIGHT], now) > (int64_t)SECOND;
}

/* A program that goes on although no session wants it any more.  Such a program
 * need never end by itself, and no other user's work depends on it. */
static void check_orphaned(struct gm_worker_process *worker, uint64_t now)
{
	const struct gm_attachment *attachment;

	if (!worker->group->runs_programs ||
	    !gm_worker_process_has_attachments(worker) ||
	    (call_of(&worker->signs[GM_SIGN_BEAT]) != GM_CALL_PROGRAM &&
	     call_of(&worker->signs[GM_SIGN_SLOW]) != GM_CALL_START &&
	     !computes(worker, now)))
		return;
	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->state < GM_ATTACHMENT_LEAVING)
			return;
	}
	gm_worker_child_kill(worker, "no client wants its program any more");
}

/* A collective of several cards belongs to the others, too: no limit of one row
 * ends it.  As an excuse it counts for a limited time. */
static void look_at_joint(struct gm_worker_process *worker, uint64_t now)
{
	int64_t age = age_of(&worker->signs[GM_SIGN_JOINT], now);

	if (age >= 0 && age <= (int64_t)JOINT_NS)
		worker->computed_ns = worker->computed_long_ns = now;
}

/* A client withholds memory from a thread of the worker, which ends that
 * session itself as soon as the kernel lets it.  After a second this process
 * ends the session.  No limit ends the worker meanwhile, until other sessions
 * are better served by another worker. */
static void look_at_stall(struct gm_worker_process *worker, uint64_t now)
{
	uint64_t place = gm_get(&worker->journal->stalled_place);
	int64_t age = age_of(&worker->signs[GM_SIGN_STALLED], now);

	if (age < 0 || place == 0)
		return;
	if (age <= (int64_t)STALL_NS)
		worker->stalled_ns = now;
	if (age > (int64_t)SECOND)
		gm_attachments_stalled(worker, (uint32_t)(place - 1));
}

/* The process was killed, and a call of it does not end, such as a read of a
 * file system that never answers.  No process has hung up then. */
static void look_at_guard(struct gm_worker_process *worker)
{
	uint64_t guard = gm_get(&worker->journal->guard);

	if (worker->is_card || guard == 0 ||
	    !gm_spawn_lost(&worker->child, (pid_t)guard))
		worker->times_lost = 0;
	else if (++worker->times_lost >= LOST_MAX)
		gm_worker_child_kill(worker, "it was killed, and does not end");
}

/*
 * The driver holds locks during calls of the blocking threads: the context's,
 * until the card is done with what is under way, and those of the node while it
 * pins and unpins pages.  Calls of the loop wait for these.  A loop that hangs
 * hands nothing over any more, so that the blocking threads have nothing to do
 * soon.
 */
static void look_at_locks(struct gm_worker_process *worker, uint64_t now)
{
	uint32_t slow = call_of(&worker->signs[GM_SIGN_SLOW]);
	bool is_in_one = slow != GM_CALL_IDLE;

	for (uint32_t i = GM_SIGN_CLIQUE; i < GM_SIGNS; i++)
		is_in_one |= call_of(&worker->signs[i]) != GM_CALL_IDLE;
	if (worker->is_card && is_in_one)
		worker->locked_ns = now;
	if (worker->is_card &&
	    (slow == GM_CALL_REGISTER || slow == GM_CALL_FORGET))
		worker->d->supervisor->pinned_ns = now;
}

static void check_jobs(struct gm_worker_process *worker, uint64_t now)
{
	const struct gm_config *config = worker->d->config;
	uint64_t limit = config->cuda_kernel_limit_ns;
	int64_t age = age_of(&worker->signs[GM_SIGN_IN_FLIGHT], now);
	bool by_programs = worker->group->runs_programs &&
			   config->program_limit_ns > 0 &&
			   (limit == 0 || config->program_limit_ns < limit);

	if (age < 0)
		return;
	worker->computed_ns = now;
	if (computes(worker, now))
		worker->computed_long_ns = now;
	if (by_programs)
		limit = config->program_limit_ns;
	if (limit == 0 || !worker->is_card || (uint64_t)age <= limit)
		return;
	gm_worker_child_kill(worker,
			     by_programs ? "a job ran longer than the limit in "
					   "[programs] allows"
					 : "a job ran longer than kernel-limit "
					   "allows");
}

void gm_watchdog_check(struct gm_worker_process *worker, uint64_t now_ns)
{
	if (!gm_worker_process_has_child(worker) ||
	    worker->state == GM_PROCESS_ENDING ||
	    worker->state == GM_PROCESS_STUCK)
		return;
	if (!gm_spawn_stopped(&worker->child))
		worker->times_stopped = 0;
	else if (++worker->times_stopped >= STOPPED_MAX)
		gm_worker_child_kill(worker, "stopped by a signal");
	if (worker->state == GM_PROCESS_SERVING) {
		look_at_signs(worker, now_ns);
		look_at_joint(worker, now_ns);
		look_at_stall(worker, now_ns);
		look_at_guard(worker);
		look_at_locks(worker, now_ns);
		check_jobs(worker, now_ns);
		check(worker, &worker->signs[GM_SIGN_BEAT], now_ns);
		check(worker, &worker->signs[GM_SIGN_SLOW], now_ns);
		for (uint32_t i = GM_SIGN_CLIQUE; i < GM_SIGNS; i++)
			check(worker, &worker->signs[i], now_ns);
		check_orphaned(worker, now_ns);
	}
	gm_attachments_flush(worker);
}
