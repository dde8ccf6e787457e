/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_process - the states of the process that serves a row.
 *
 *	LOCKED     the worker of a previous agent has not ended yet
 *	IDLE       no session and no mask needs a worker (rows of cards)
 *	BARRED     the row's device may not be used now
 *	RESTING    back-off after early deaths
 *	STARTING   a worker runs and has not said READY
 *	SERVING    it has said READY
 *	ENDING     it was sent SIGKILL, and has not ended
 *	STUCK      it does not end by SIGKILL in time
 *	RECOVERING    recovery: a process ends what a dead worker owed
 *	OFF        there is no worker, and there will be none
 *
 *	LOCKED -> STARTING -> SERVING -> (exit) -> RECOVERING -> RESTING
 *	RESTING -> STARTING
 *
 * An exit leads to recovery from each state in which a worker was told of a
 * session.  The row skips recovery when no session is owed anything, and
 * RESTING when there is no back-off.
 *
 * A host row has a worker as long as the agent runs.  A card has one while
 * a session is attached or a mask is to have a replica there, and for cuda.idle
 * afterwards.  Beside the worker it has a standby if the configuration asks for
 * one: a process that has initialised the driver and replaces a worker that
 * dies.  Between two workers the row is IDLE, and READY for readers.
 *
 * Programs of clients run in workers of their own, one for each row and uid
 * (program_workers.h).  The row does not show what becomes of these.
 *
 * While a row is BARRED, a recovery process ends the jobs of its sessions with
 * -ENODEV once a second.
 *
 * A worker that is to end says DRAINED when its rings are empty.  While other
 * rows that drain copy out of its memory, it lends that memory, for
 * config.drain_row_ns at most; then it is told to LEAVE.
 *
 * Files, each of which calls those after it: supervisor.c (all rows),
 * watchdog.c (limits), program_workers.c, worker_process.c (states),
 * worker_messages.c
 * (what the process says), demand.c (whether there is to be a worker),
 * attachment.c (sessions), worker_request.c (what they ask of it), standby.c,
 * death.c (reasons and log lines), wakeup.c, worker_child.c (the process, its
 * socket, its row), exec.c (command lines), worker_group.c, user_queue.c.
 */
#ifndef GM_DAEMON_WORKERS_WORKER_PROCESS_H
#define GM_DAEMON_WORKERS_WORKER_PROCESS_H

#include "agent/common/wire.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/spawn.h"
#include "agent/daemon/base/spin.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/sharing/peer_access.h"
#include "agent/daemon/workers/standby.h"
#include "agent/daemon/workers/supervisor.h"
#include "agent/daemon/workers/user_queue.h"
#include "agent/daemon/workers/worker_group.h"
#include "agent/daemon/workers/worker_users.h"
#include "shm/journal.h"
#include "shm/names.h"

#define GM_ATTACHMENTS_OFFERED 16u /* ATTACHes that a child has not answered */

enum gm_worker_process_state {
	GM_PROCESS_OFF,
	GM_PROCESS_LOCKED,
	GM_PROCESS_IDLE,
	GM_PROCESS_BARRED,
	GM_PROCESS_RESTING,
	GM_PROCESS_STARTING,
	GM_PROCESS_SERVING,
	GM_PROCESS_ENDING,
	GM_PROCESS_STUCK,
	GM_PROCESS_RECOVERING
};

TAILQ_HEAD(gm_attachment_list, gm_attachment);
TAILQ_HEAD(gm_worker_process_list, gm_worker_process);

/* When the last death was noticed, and what followed it, for the log. */
struct gm_worker_process_times {
	uint64_t failed_ns; /* 0: no worker has died since the row was READY */
	uint64_t gone_ns;
	uint64_t recovered_ns;
	uint64_t started_ns;
};

/* Words of the journal that change with each call. */
enum gm_sign_of {
	GM_SIGN_BEAT,
	GM_SIGN_SLOW,
	GM_SIGN_IN_FLIGHT,
	GM_SIGN_JOINT,
	GM_SIGN_STALLED,
	GM_SIGN_CLIQUE, /* and those behind it */
	GM_SIGNS = GM_SIGN_CLIQUE + GM_JOURNAL_NCCL_GROUPS
};

/* One of them, as the watchdog saw it last. */
struct gm_sign {
	uint64_t word;
	uint64_t since_ns; /* first seen; 0: it is of an earlier worker */
};

/* The journal's figures that the row's words in the segment have. */
struct gm_jobs_seen {
	uint64_t jobs;
	uint64_t failed;
	uint64_t ns;
	uint64_t loaded_bytes;
	uint64_t times[GM_JOB_TIMES];
};

/* A trace of the row's jobs (row_trace.h). */
struct gm_row_trace {
	const void *reader; /* NULL: there is none */
	int fd;
};

struct gm_worker_process {
	TAILQ_ENTRY(gm_worker_process) entry; /* of all that there are */
	struct gm_daemon *d;
	struct gm_worker_group *group;
	uint32_t row;
	char of[32]; /* for the log, after the row: " programs_of=UID" or "" */
	enum gm_worker_process_state state;
	bool draining;
	bool on_need; /* no worker without a session */
	bool is_card; /* a driver's device, not a host row */
	char lock_path[GM_NAMES_BYTES];

	/* The child, a worker or a recovery process; pidfd.fd is -1 without
	 * one. */
	struct gm_spawned child;
	struct gm_source pidfd;
	struct gm_source socket; /* fd -1 once the child has closed its end */
	bool is_recovery;
	bool wants_room;      /* EPOLLOUT is asked for */
	bool drain_requested; /* DRAIN is to be sent */
	bool drain_sent;      /* and was */
	bool is_drained;      /* it has finished, and lends its memory */
	bool may_leave;  /* no other row is waited for: LEAVE is to be sent */
	bool leave_sent; /* and was */
	bool is_shown;   /* as READY, with every attachment taken */
	int code;        /* the driver's number behind why, or 0 */
	char why[GM_WHY_BYTES]; /* why it is ending, when that is known */

	struct gm_timer timer; /* of the state */
	struct gm_timer idle; /* no session has been attached for long enough */
	uint64_t since_ns;    /* when the state was entered */
	uint64_t completed;   /* journal->completed at the spawn */
	struct gm_sign signs[GM_SIGNS];
	uint32_t early_deaths;    /* in a row, before a job was completed */
	uint32_t recovery_deaths; /* since the last recovery that succeeded */
	uint32_t restarts;
	uint32_t times_stopped;    /* looks in a row that found it stopped */
	uint32_t times_lost;       /* looks in a row without its guard thread */
	uint64_t completed_before; /* at the last look whether it works on */
	uint64_t computed_ns;      /* last look that found a job under way, */
	uint64_t computed_long_ns; /* and for over a second */
	uint64_t stalled_ns; /* last look at which a client's memory kept it
			      * waiting */
	uint64_t locked_ns;  /* last look at which a call of a blocking thread
			      * may have held the driver's locks */
	struct gm_worker_process_times times;

	struct gm_standby standby;

	/* LOCKED: the process that holds the row's lock, and when it is
	 * killed. */
	pid_t stale_pid;
	uint64_t stale_due_ns;
	bool stale_was_killed;

	int journal_fd;
	struct gm_journal *journal;
	struct gm_jobs_seen jobs_seen;
	struct gm_row_trace trace;
	int waker; /* an eventfd of the row's workers; -1 until asked for */
	struct gm_attachment_list attachments;
	uint32_t n_offered;
	struct gm_fetch_list fetched; /* answers to FETCH, to be told */
	struct gm_user_queue_list user_queue;
	uint32_t n_asked;   /* of requests, without an answer */
	uint32_t n_joining; /* of these, how many JOINs */
	uint32_t n_fetches; /* of these */
	uint32_t n_masks;   /* likewise, of replicas of masks */
	struct gm_mask_question masks[GM_MASK_QUESTIONS];
	uint64_t asked;  /* questions about requests, ever */
	uint32_t n_free; /* places */
	uint16_t free[GM_JOURNAL_PLACES];
};

struct gm_supervisor {
	struct gm_daemon *d;
	struct gm_worker_group rows;          /* their own workers */
	struct gm_worker_group_list programs; /* those of uids */
	struct gm_worker_process_list all;
	/* an empty directory, "" until a row needs it */
	char no_mps[GM_NAMES_BYTES];
	struct gm_spin spin;
	uint64_t pinned_ns; /* last look at which a card's worker may have held
			     * the driver's locks of the node */
	struct gm_timer tick;
	struct gm_timer parting; /* look for what rows that drain wait for */
	bool draining;
};

/* Make one for a row, which is in its group even if this fails; its process is
 * not started yet.  Returns 0, or a negative errno. */
int gm_worker_process_make(struct gm_daemon *d, struct gm_worker_group *group,
			   uint32_t row);
void gm_worker_process_start(struct gm_worker_process *worker);
void gm_worker_process_free(struct gm_worker_process *worker);

/* Have the worker finish, and start no other. */
void gm_worker_process_drain(struct gm_worker_process *worker);

/* Is there a worker or a recovery process?  The standby does not count. */
static inline bool
gm_worker_process_has_child(const struct gm_worker_process *worker)
{
	return worker->pidfd.fd >= 0;
}

/* Does the row show this worker?  Rows do not show those of clients'
 * programs. */
static inline bool
gm_worker_process_is_shown(const struct gm_worker_process *worker)
{
	return !worker->group->runs_programs;
}

static inline bool
gm_worker_process_has_attachments(const struct gm_worker_process *worker)
{
	return !TAILQ_EMPTY(&worker->attachments);
}

/* Does a session need its worker, or a mask that is to be on the device? */
static inline bool
gm_worker_process_is_needed(const struct gm_worker_process *worker)
{
	return gm_worker_process_has_attachments(worker) ||
	       gm_worker_users_wants_worker(worker);
}

/* A session or a mask needs the worker. */
void gm_worker_process_need(struct gm_worker_process *worker);

/* The row's device may not be used, or may again; see gm_supervisor_bar(). */
void gm_worker_process_bar(struct gm_worker_process *worker, bool finish,
			   const char *why);
void gm_worker_process_unbar(struct gm_worker_process *worker);

/* No child runs: start the next worker, wait with it, or have none. */
void gm_worker_process_rest(struct gm_worker_process *worker);

#endif
