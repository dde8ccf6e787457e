/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_process - the life of one row's worker, and its undertakers between.
 *
 *	LOCKED     the worker of an agent before us has not ended yet
 *	IDLE       nobody needs a worker (rows that have one on need)
 *	BARRED     its device may not be used now
 *	RESTING    back-off
 *	STARTING   a worker runs, and has not said READY
 *	SERVING    it has
 *	ENDING     it was sent SIGKILL; its pidfd has not spoken yet
 *	STUCK      not even SIGKILL has ended it in time
 *	BURYING    an undertaker runs
 *	OFF        no worker and none to come
 *
 *	LOCKED -> STARTING -> SERVING -> (exit) -> BURYING -> RESTING
 *	RESTING -> STARTING
 *
 * An exit leads to BURYING from any state in which a worker was told of a seat;
 * without seats that are owed anything it is passed over, as is RESTING where
 * there is nothing to wait for.
 *
 * A host row has a worker as long as the agent runs.  A CUDA row has one while
 * a session has a seat there or a mask is to have a replica, and for cuda.idle
 * after the last has left, and with
 * it a spare: a process that has initialised the driver and takes the place of
 * a worker that dies.  Between two workers the row is IDLE, and READY for
 * readers.
 *
 * The programs of clients run in workers of their own, one for each row and
 * uid, with keepers of their own (worker_group.h): they come with the first
 * session of the uid that wants one there, and go with the last. What becomes
 * of them the row does not show.
 *
 * While a row is BARRED, what its sessions submit is ended with -ENODEV once a
 * second.
 *
 * A worker that is to end says when it has DRAINED.  As long as others that are
 * to end, and have not, have crossings out of its memory, it goes on to lend,
 * for config.drain_row_ns at most; then it is to LEAVE.
 *
 * Of worker_process.c: states. Of worker_group.c: who they are. Of demand.c:
 * whether there is to be a worker. Of death.c: what is said of one. Of exec.c:
 * what a child is started as. Of watchdog.c: how long what may take. Of
 * standby.c: the spare. Of attachment.c: what is said over the socket.
 */
#ifndef GM_DAEMON_WORKERS_WORKER_PROCESS_H
#define GM_DAEMON_WORKERS_WORKER_PROCESS_H

#include "agent/common/wire.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/pauses.h"
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
	GM_PROCESS_BURYING
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

struct gm_worker_process {
	TAILQ_ENTRY(gm_worker_process) entry; /* of all that there are */
	struct gm_daemon *d;
	struct gm_worker_group *group;
	uint32_t row;
	char of[32]; /* for the log, after the row: " programs_of=UID" or "" */
	enum gm_worker_process_state state;
	bool draining;
	bool on_need; /* no worker without a seat */
	bool is_card; /* a driver's device, not a host row */
	char lock_path[160];

	/* The child, a worker or an undertaker; pidfd.fd is -1 without one. */
	struct gm_child child;
	struct gm_source pidfd;
	struct gm_source socket; /* fd -1 once the child has closed its end */
	bool is_recovery;
	bool wants_room;        /* EPOLLOUT is asked for */
	bool drain_requested;   /* DRAIN is to be sent */
	bool drain_sent;        /* and was */
	bool is_drained;        /* it has finished, and lends its memory */
	bool may_leave;         /* nobody is waited for: LEAVE is to be sent */
	bool leave_sent;        /* and was */
	bool is_shown;          /* as READY, with every seat taken */
	int code;               /* the driver's number behind why, or 0 */
	char why[GM_WHY_BYTES]; /* why it is ending, when that is known */

	struct gm_timer timer;    /* of the state */
	struct gm_timer idle;     /* nobody has had a seat for long enough */
	uint64_t since_ns;        /* when the state was entered */
	uint64_t completed;       /* journal->completed at the spawn */
	uint32_t early_deaths;    /* in a row, before a job was completed */
	uint32_t recovery_deaths; /* undertakers, since the last burial */
	uint32_t restarts;
	uint32_t times_stopped;    /* looks in a row that found it stopped */
	uint64_t completed_before; /* at the last look whether it works on */
	uint64_t computed_ns;      /* last look that found a job under way, */
	uint64_t computed_long_ns; /* and for over a second */
	struct gm_worker_process_times times;

	struct gm_standby standby;

	/* Of BARRED: whom to tell, once, that no process of the row runs. */
	void (*closed)(struct gm_daemon *d, uint32_t row);

	/* Of LOCKED: who holds the row's lock, and when we lose patience. */
	pid_t stale_pid;
	uint64_t stale_due_ns;

	int journal_fd;
	struct gm_journal *journal;
	int waker; /* an eventfd of the row's workers; -1 until asked for */
	struct gm_attachment_list attachments;
	uint32_t n_offered;
	struct gm_fetch_list fetched; /* answers to FETCH, to be told */
	struct gm_user_queue_list user_queue;
	uint32_t n_asked;   /* of claims, without an answer */
	uint32_t n_fetches; /* of these */
	uint32_t n_masks;   /* likewise, of replicas of masks */
	struct gm_mask_question masks[GM_MASK_QUESTIONS];
	uint64_t asked;  /* questions about claims, ever */
	uint32_t n_free; /* places */
	uint16_t free[GM_JOURNAL_PLACES];
};

struct gm_supervisor {
	struct gm_daemon *d;
	struct gm_worker_group rows;          /* their own workers */
	struct gm_worker_group_list programs; /* those of uids */
	struct gm_worker_process_list all;
	char no_mps[160]; /* an empty directory, "" until a row needs it */
	struct gm_spin spin;
	struct gm_pauses pauses;
	struct gm_timer tick;
	struct gm_timer parting; /* look whom rows that have drained wait for */
	bool draining;
};

/* worker_process.c */

/* A keeper for one row, in its crew whatever is returned; does not start the
 * worker.  Returns 0, or a negative errno. */
int gm_worker_process_make(struct gm_daemon *d, struct gm_worker_group *group,
			   uint32_t row);
void gm_worker_process_start(struct gm_worker_process *worker);
void gm_worker_process_free(struct gm_worker_process *worker);

/* Have the worker finish, and start no other. */
void gm_worker_process_drain(struct gm_worker_process *worker);

/* Is there a worker or an undertaker?  The spare is none. */
static inline bool
gm_worker_process_has_child(const struct gm_worker_process *worker)
{
	return worker->pidfd.fd >= 0;
}

/* Is it of those whom the row shows?  Of clients' programs it shows nothing. */
static inline bool
gm_worker_process_is_shown(const struct gm_worker_process *worker)
{
	return !worker->group->runs_programs;
}

/* Show the row so, if it shows this keeper's. */
void gm_worker_process_show(const struct gm_worker_process *worker,
			    uint32_t state, const char *reason, int error);

/* That its worker is this process, or 0, likewise. */
void gm_worker_process_show_worker(const struct gm_worker_process *worker,
				   pid_t pid);

/* What the log calls it, and where its lock is.  Returns 0 or -ENAMETOOLONG. */
int gm_worker_process_name(struct gm_worker_process *worker);

/* May its device not be used? */
bool gm_worker_process_is_barred(const struct gm_worker_process *worker);

static inline bool
gm_worker_process_has_seats(const struct gm_worker_process *worker)
{
	return !TAILQ_EMPTY(&worker->attachments);
}

/* Does anybody need its worker: a seat, or a mask that is to be on the
 * device? */
static inline bool
gm_worker_process_is_needed(const struct gm_worker_process *worker)
{
	return gm_worker_process_has_seats(worker) ||
	       gm_worker_users_wants_worker(worker);
}

/* No child runs: start the next worker, wait with it, or have none. */
void gm_worker_process_rest(struct gm_worker_process *worker);

/* Does its back-off last so long that a client had better take another row? */
bool gm_worker_process_rests_long(const struct gm_worker_process *worker);

/* End the child: @why is what the row will say. */
void gm_worker_process_kill(struct gm_worker_process *worker, const char *why);

/* The worker has said READY, and what took how long. */
void gm_worker_process_ready(struct gm_worker_process *worker,
			     const char *took);

/* Every seat that waited has been taken: the row is READY. */
void gm_worker_process_settled(struct gm_worker_process *worker);

/* The other end of the socket is closed, or broken. */
void gm_worker_process_hung_up(struct gm_worker_process *worker);

/* demand.c */

/* A seat was taken, or the last one given up. */
void gm_demand_begins(struct gm_worker_process *worker);
void gm_demand_ends(struct gm_worker_process *worker);

/* worker->idle: nobody has had a seat for long enough. */
void gm_demand_idle(struct gm_timer *timer);

/* Have the worker finish what is in its rings, and exit. */
void gm_demand_end(struct gm_worker_process *worker);

/* It was to have ended by now: look whether it works on, or kill it. */
void gm_demand_overdue(struct gm_worker_process *worker);

/* It has finished, and others that drain may copy out of its memory yet. */
void gm_demand_drained(struct gm_worker_process *worker);

/* A worker or a crossing is gone: look, soon, who is waited for no more.  NULL
 * is allowed. */
void gm_demand_recheck(struct gm_supervisor *s);

/* supervisor->parting */
void gm_demand_part(struct gm_timer *timer);

/* Tell it, where it may leave. */
void gm_demand_send_leave(struct gm_worker_process *worker);

/* The row's device may not be used, or may again; see gm_supervisor_bar(). */
void gm_demand_bar(struct gm_worker_process *worker, bool finish,
		   const char *why);
void gm_demand_unbar(struct gm_worker_process *worker);

/* The row is barred, or a process of it has ended: tell who waits for both. */
void gm_demand_closed(struct gm_worker_process *worker);

/* The spare has ended. */
void gm_demand_standby_gone(struct gm_worker_process *worker);

/* death.c */

/* The first sign of it, when there is one before the exit. */
void gm_death_begins(struct gm_worker_process *worker);

/* Show the row as it is after it, and bar it if its device is lost. */
void gm_death_show(struct gm_worker_process *worker, const char *why);

/* The row's process does not end by SIGKILL. */
void gm_death_stuck(struct gm_worker_process *worker);

/* @well: the worker had been asked to end. */
void gm_death_log(const struct gm_worker_process *worker, bool well,
		  const char *why);

/* The row is READY again: log how long it was away, and with what. */
void gm_death_over(struct gm_worker_process *worker);

/* exec.c */

enum gm_exec_part { GM_EXEC_WORKER, GM_EXEC_STANDBY, GM_EXEC_RECOVERY };

/* Start a process for the row.  Returns as gm_spawn(), or -E2BIG. */
int gm_worker_exec(const struct gm_worker_process *worker,
		   enum gm_exec_part part, struct gm_child *ret_child);

/* watchdog.c */

/* From the spawn to READY. */
uint64_t gm_watchdog_ready_limit(const struct gm_worker_process *worker);

/* Look for a worker that makes no progress; to be called once a second, with
 * the loop's time. */
void gm_watchdog_check(struct gm_worker_process *worker, uint64_t now_ns);

/* wakeup.c */

/* Hand the keeper's worker what wakes that of @row. */
void gm_wakeup_send(struct gm_worker_process *worker, uint32_t row);

/* attachment.c */

/* Say this to the child.  Returns 0, or a negative errno: -EAGAIN when there is
 * no room. */
int gm_attachments_send(struct gm_worker_process *worker,
			const struct gm_wire *wire, const int *fds,
			size_t n_fds);

/* Say what there is to say, as far as there is room. */
void gm_attachments_flush(struct gm_worker_process *worker);

/* Take in what the child has said.  Returns 1 when there may be more, 0 when
 * there is not, -EPIPE once it has hung up. */
int gm_attachments_receive(struct gm_worker_process *worker);

/* The child is gone: who was leaving has left, all others wait again, and what
 * a worker was told of is owed.  Returns whether anything is. */
bool gm_attachments_child_gone(struct gm_worker_process *worker);

/* May anybody new come to it?  Returns 0, or -ENODEV. */
int gm_attachments_admit(const struct gm_worker_process *worker,
			 char ret_why[GM_WHY_BYTES]);

/* Tell those who wait for their first seat that they get none, and why. */
void gm_attachments_refuse_newcomers(struct gm_worker_process *worker,
				     const char *why);

/* The same, where the row's state is what they get none for; nobody new may
 * come to it as long as that is so. */
void gm_attachments_refuse(struct gm_worker_process *worker);

/* What any session has submitted is owed, although no worker has heard of it.
 * Returns whether there is a session. */
bool gm_attachments_owe_all(struct gm_worker_process *worker);

/* Ask the child to end when it has nothing more to do; it may be told of no
 * seat afterwards. */
void gm_attachments_send_drain(struct gm_worker_process *worker);

#endif
