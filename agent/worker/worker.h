/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker - the state of a worker process, which serves one row, and the entry
 * points that its modules share.
 */
#ifndef GM_WORKER_H
#define GM_WORKER_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/close_thread.h"
#include "agent/common/node_clock.h"
#include "agent/common/running_clock.h"
#include "agent/common/wire.h"
#include "agent/device/device.h"
#include "agent/worker/control/blocking_thread.h"
#include "agent/worker/control/send_queue.h"
#include "agent/worker/io/load.h"
#include "agent/worker/io/remote_copy_queue.h"
#include "agent/worker/queue/dependency.h"
#include "agent/worker/queue/session.h"
#include "shm/journal.h"

/* A user, from the first attached session to the last. */
struct gm_row_user {
	/* In the worker's list while any session of the user is awake. */
	TAILQ_ENTRY(gm_row_user) entry;
	/* The user's awake sessions, in the order of their turns. */
	TAILQ_HEAD(, gm_worker_session) active;
	struct gm_deficit deficit; /* by the rounds between all users */
	uint32_t round; /* number of the round between its sessions */
	uint32_t n_sessions;
	uint32_t uid;
	uint64_t carried; /* bytes in progress, see io/remote_copy_queue.h */
};

/* Parts of collectives that are in progress, see collective/collective.h. */
struct gm_parts {
	TAILQ_HEAD(, gm_worker_session) list;
	uint32_t n;
	/* Parts polled since a part last went on or was held. */
	uint32_t n_seen;
	/* Some parts are held until the next round, because their users have
	 * used up this one. */
	bool held;
	/* A wakeup came since a part last went on. */
	bool told;
	/* No bit is set in another row's line before this time. */
	uint64_t arm_ns;
	/* Since when no part can go on; 0: not known yet. */
	uint64_t since_ns;
	/* How long to poll after since_ns before the worker sleeps. */
	uint64_t budget_ns;
	struct gm_doorbell_spin spin;
};

/* A thread for calls that wait for other devices, see
 * collective/nccl_group.h. */
struct gm_nccl_group_thread {
	struct gm_blocking_thread slow;
	bool runs;     /* started with its first NCCL group */
	bool is_taken; /* a member uses it */
};

/* A completion of the io_uring. */
struct gm_io_event {
	uint64_t user_data;
	int res;
	bool more; /* the request goes on */
};

/* Completions that were taken out of the ring before their turn. */
struct gm_io_backlog {
	struct gm_io_event *event; /* NULL until the first one */
	uint32_t size;
	uint32_t first; /* the next to handle */
	uint32_t n;
};

static inline bool gm_io_backlog_waits(const struct gm_io_backlog *backlog)
{
	return backlog->first != backlog->n;
}

struct gm_worker {
	/* Set by main.c. */
	uint32_t row;
	int node; /* NUMA node of the arena ranges, -1 for none */
	int pair; /* to gpumapd */
	struct gm_journal *journal;
	struct gm_group_page *group_page;
	struct gm_backend_device *dev;
	struct gm_close_thread close_thread;
	struct gm_blocking_thread slow;
	struct gm_nccl_group_thread cliques[GM_JOURNAL_NCCL_GROUPS];
	bool has_cliques;
	/* How long the devices of a group may take to connect. */
	uint64_t clique_limit_ns;
	/* Limits of the drain are on this clock, see gm_worker_drain_now(). */
	struct gm_running_clock drain_clock;
	/* NCCL groups may delay the drain until this time, on drain_clock. */
	uint64_t clique_drain_ns;
	/* Records that the loop sends to gpumapd.  The close thread does not
	 * use this queue: it blocks until the socket has room. */
	struct gm_send_queue outbox;
	struct io_uring ring;

	/* Used by the loop only. */
	struct gm_io_backlog backlog;
	TAILQ_HEAD(, gm_row_user)
	users; /* users with sessions that are awake */
	struct gm_user_budget
		*budgets;  /* budgets of all uids, see memory/buffers.h */
	uint32_t n_active; /* sessions that are awake */
	/* Awake sessions whose ring was empty at the last poll. */
	uint32_t n_idle;
	/* Sessions whose doorbell is ignored, see queue/doorbell_limit.h. */
	uint32_t n_muted;
	/* CPU that the loop last ran on, plus 1. */
	uint32_t cpu;
	uint32_t quiet;  /* passes without work since the clock was read */
	uint32_t busy;   /* turns served since the clock was read */
	uint64_t now_ns; /* when the clock was read */
	/* When the rings of sessions with an ignored doorbell were last
	 * polled. */
	uint64_t looked_ns;
	uint64_t pass;
	uint32_t round;  /* number of the round between all users */
	uint32_t serial; /* number of the last attachment */
	/* FORGETs that wait for work in progress. */
	uint32_t n_forgets;
	/* Sessions that have slices at the device or wait to start some. */
	TAILQ_HEAD(, gm_async_execs) flying;
	/* Slices in flight, of all sessions. */
	uint32_t n_in_flight;
	/* Slices that have ended so far. */
	uint64_t landed;
	/* Copies from other rows in progress, see io/remote_copy.h. */
	TAILQ_HEAD(, gm_remote_copy)
	carried;
	TAILQ_HEAD(, gm_alloc_wait) alloc_waits; /* see memory/alloc.h */
	struct gm_waiting waiting;
	struct gm_wakeup_list wakeups;
	struct gm_job_clock clock;
	struct gm_loader loader;
	struct gm_remote_copy_queue remote_copies;
	struct gm_parts parts;
	LIST_HEAD(, gm_collective_member)
	cliqued; /* see collective/nccl_group.h */
	bool may_spin;
	bool draining;
	/* DRAINED was sent: no session gets a turn any more. */
	bool drained;
	bool dismissed;
	bool leaving;
	struct gm_worker_session *place[GM_JOURNAL_PLACES];
};

/*
 * gm_uring_open - open a ring with the best flags that this kernel accepts
 *
 * The ring can poll, read and close descriptors and cancel these requests.  The
 * kernel refuses every other operation.
 *
 * ret_why	receives the cause of a refusal and the remedy, constant text
 *
 * Returns	0 or -errno
 */
int gm_uring_open(struct io_uring *ring, const char **ret_why);

/* gm_worker_run - serve until gpumapd closes its socket or has the worker drain
 * and leave.  Returns the exit status. */
int gm_worker_run(struct gm_worker *worker);

/* gm_recover_run - end the entries that a dead worker of this row left, queue
 * by queue.  Returns the exit status. */
int gm_recover_run(struct gm_worker *worker);

/* The time for the limits of the drain, which stands still while the machine
 * does.  The loop reads it in each tick of a drain. */
static inline uint64_t gm_worker_drain_now(struct gm_worker *worker)
{
	return gm_running_clock_read(&worker->drain_clock, gm_node_clock_now());
}

#endif
