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

#define GM_SEATS_OFFERED 16u /* ATTACHes that a child has not answered */

enum gm_keeper_state {
	GM_KEEPER_OFF,
	GM_KEEPER_LOCKED,
	GM_KEEPER_IDLE,
	GM_KEEPER_BARRED,
	GM_KEEPER_RESTING,
	GM_KEEPER_STARTING,
	GM_KEEPER_SERVING,
	GM_KEEPER_ENDING,
	GM_KEEPER_STUCK,
	GM_KEEPER_BURYING
};

TAILQ_HEAD(gm_seat_list, gm_seat);
TAILQ_HEAD(gm_keeper_list, gm_keeper);

/* When the last death was noticed, and what followed it, for the log. */
struct gm_keeper_times {
	uint64_t failed_ns; /* 0: no worker has died since the row was READY */
	uint64_t gone_ns;
	uint64_t buried_ns;
	uint64_t started_ns;
};

struct gm_keeper {
	TAILQ_ENTRY(gm_keeper) entry; /* of all that there are */
	struct gm_daemon *d;
	struct gm_crew *crew;
	uint32_t row;
	char of[32]; /* for the log, after the row: " programs_of=UID" or "" */
	enum gm_keeper_state state;
	bool draining;
	bool on_need; /* no worker without a seat */
	bool is_card; /* a driver's device, not a host row */
	char lock_path[160];

	/* The child, a worker or an undertaker; pidfd.fd is -1 without one. */
	struct gm_child child;
	struct gm_source pidfd;
	struct gm_source socket; /* fd -1 once the child has closed its end */
	bool is_undertaker;
	bool wants_room;        /* EPOLLOUT is asked for */
	bool wants_end;         /* DRAIN is to be sent */
	bool told_end;          /* and was */
	bool is_drained;        /* it has finished, and lends its memory */
	bool may_leave;         /* nobody is waited for: LEAVE is to be sent */
	bool told_leave;        /* and was */
	bool is_shown;          /* as READY, with every seat taken */
	int code;               /* the driver's number behind why, or 0 */
	char why[GM_WHY_BYTES]; /* why it is ending, when that is known */

	struct gm_timer timer;  /* of the state */
	struct gm_timer idle;   /* nobody has had a seat for long enough */
	uint64_t since_ns;      /* when the state was entered */
	uint64_t completed;     /* journal->completed at the spawn */
	uint32_t early_deaths;  /* in a row, before a job was completed */
	uint32_t burial_deaths; /* undertakers, since the last burial */
	uint32_t restarts;
	uint32_t times_stopped;    /* looks in a row that found it stopped */
	uint64_t completed_before; /* at the last look whether it works on */
	uint64_t computed_ns;      /* last look that found a job under way, */
	uint64_t computed_long_ns; /* and for over a second */
	struct gm_keeper_times times;

	struct gm_spare spare;

	/* Of BARRED: whom to tell, once, that no process of the row runs. */
	void (*closed)(struct gm_daemon *d, uint32_t row);

	/* Of LOCKED: who holds the row's lock, and when we lose patience. */
	pid_t orphan;
	uint64_t orphan_due_ns;

	int journal_fd;
	struct gm_journal *journal;
	int waker; /* an eventfd of the row's workers; -1 until asked for */
	struct gm_seat_list seats;
	uint32_t n_offered;
	struct gm_fetch_list fetched; /* answers to FETCH, to be told */
	struct gm_asker_list askers;
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
	struct gm_crew rows;          /* their own workers */
	struct gm_crew_list programs; /* those of uids */
	struct gm_keeper_list all;
	char no_mps[160]; /* an empty directory, "" until a row needs it */
	struct gm_spin spin;
	struct gm_timer tick;
	struct gm_timer parting; /* look whom rows that have drained wait for */
	bool draining;
};

/* worker_process.c */

/* A keeper for one row, in its crew whatever is returned; does not start the
 * worker.  Returns 0, or a negative errno. */
int gm_keeper_make(struct gm_daemon *d, struct gm_crew *crew, uint32_t row);
void gm_keeper_start(struct gm_keeper *keeper);
void gm_keeper_free(struct gm_keeper *keeper);

/* Have the worker finish, and start no other. */
void gm_keeper_drain(struct gm_keeper *keeper);

/* Is there a worker or an undertaker?  The spare is none. */
static inline bool gm_keeper_has_child(const struct gm_keeper *keeper)
{
	return keeper->pidfd.fd >= 0;
}

/* Is it of those whom the row shows?  Of clients' programs it shows nothing. */
static inline bool gm_keeper_is_shown(const struct gm_keeper *keeper)
{
	return !keeper->crew->runs_programs;
}

/* Show the row so, if it shows this keeper's. */
void gm_keeper_show(const struct gm_keeper *keeper, uint32_t state,
		    const char *reason, int error);

/* That its worker is this process, or 0, likewise. */
void gm_keeper_show_worker(const struct gm_keeper *keeper, pid_t pid);

/* What the log calls it, and where its lock is.  Returns 0 or -ENAMETOOLONG. */
int gm_keeper_name(struct gm_keeper *keeper);

/* May its device not be used? */
bool gm_keeper_is_barred(const struct gm_keeper *keeper);

static inline bool gm_keeper_has_seats(const struct gm_keeper *keeper)
{
	return !TAILQ_EMPTY(&keeper->seats);
}

/* Does anybody need its worker: a seat, or a mask that is to be on the
 * device? */
static inline bool gm_keeper_is_needed(const struct gm_keeper *keeper)
{
	return gm_keeper_has_seats(keeper) ||
	       gm_worker_users_wants_worker(keeper);
}

/* No child runs: start the next worker, wait with it, or have none. */
void gm_keeper_rest(struct gm_keeper *keeper);

/* Does its back-off last so long that a client had better take another row? */
bool gm_keeper_rests_long(const struct gm_keeper *keeper);

/* End the child: @why is what the row will say. */
void gm_keeper_kill(struct gm_keeper *keeper, const char *why);

/* The worker has said READY, and what took how long. */
void gm_keeper_ready(struct gm_keeper *keeper, const char *took);

/* Every seat that waited has been taken: the row is READY. */
void gm_keeper_settled(struct gm_keeper *keeper);

/* The other end of the socket is closed, or broken. */
void gm_keeper_hung_up(struct gm_keeper *keeper);

/* demand.c */

/* A seat was taken, or the last one given up. */
void gm_need_begins(struct gm_keeper *keeper);
void gm_need_ends(struct gm_keeper *keeper);

/* keeper->idle: nobody has had a seat for long enough. */
void gm_need_idle(struct gm_timer *timer);

/* Have the worker finish what is in its rings, and exit. */
void gm_need_end(struct gm_keeper *keeper);

/* It was to have ended by now: look whether it works on, or kill it. */
void gm_need_overdue(struct gm_keeper *keeper);

/* It has finished, and others that drain may copy out of its memory yet. */
void gm_need_drained(struct gm_keeper *keeper);

/* A worker or a crossing is gone: look, soon, who is waited for no more.  NULL
 * is allowed. */
void gm_need_look(struct gm_supervisor *s);

/* supervisor->parting */
void gm_need_part(struct gm_timer *timer);

/* Tell it, where it may leave. */
void gm_need_tell_leave(struct gm_keeper *keeper);

/* The row's device may not be used, or may again; see gm_supervisor_bar(). */
void gm_need_bar(struct gm_keeper *keeper, bool finish, const char *why);
void gm_need_unbar(struct gm_keeper *keeper);

/* The row is barred, or a process of it has ended: tell who waits for both. */
void gm_need_closed(struct gm_keeper *keeper);

/* The spare has ended. */
void gm_need_spare_gone(struct gm_keeper *keeper);

/* death.c */

/* The first sign of it, when there is one before the exit. */
void gm_death_begins(struct gm_keeper *keeper);

/* Show the row as it is after it, and bar it if its device is lost. */
void gm_death_show(struct gm_keeper *keeper, const char *why);

/* The row's process does not end by SIGKILL. */
void gm_death_stuck(struct gm_keeper *keeper);

/* @well: the worker had been asked to end. */
void gm_death_log(const struct gm_keeper *keeper, bool well, const char *why);

/* The row is READY again: log how long it was away, and with what. */
void gm_death_over(struct gm_keeper *keeper);

/* exec.c */

enum gm_launch_part { GM_LAUNCH_WORKER, GM_LAUNCH_SPARE, GM_LAUNCH_UNDERTAKER };

/* Start a process for the row.  Returns as gm_spawn(), or -E2BIG. */
int gm_launch(const struct gm_keeper *keeper, enum gm_launch_part part,
	      struct gm_child *ret_child);

/* watchdog.c */

/* From the spawn to READY. */
uint64_t gm_patience_ready(const struct gm_keeper *keeper);

/* Look for a worker that makes no progress; to be called once a second, with
 * the loop's time. */
void gm_patience_look(struct gm_keeper *keeper, uint64_t now_ns);

/* wakeup.c */

/* Hand the keeper's worker what wakes that of @row. */
void gm_wakers_hand(struct gm_keeper *keeper, uint32_t row);

/* attachment.c */

/* Say this to the child.  Returns 0, or a negative errno: -EAGAIN when there is
 * no room. */
int gm_seats_say(struct gm_keeper *keeper, const struct gm_wire *wire,
		 const int *fds, size_t n_fds);

/* Say what there is to say, as far as there is room. */
void gm_seats_pump(struct gm_keeper *keeper);

/* Take in what the child has said.  Returns 1 when there may be more, 0 when
 * there is not, -EPIPE once it has hung up. */
int gm_seats_listen(struct gm_keeper *keeper);

/* The child is gone: who was leaving has left, all others wait again, and what
 * a worker was told of is owed.  Returns whether anything is. */
bool gm_seats_child_gone(struct gm_keeper *keeper);

/* May anybody new come to it?  Returns 0, or -ENODEV. */
int gm_seats_judge(const struct gm_keeper *keeper, char ret_why[GM_WHY_BYTES]);

/* Tell those who wait for their first seat that they get none, and why. */
void gm_seats_refuse_newcomers(struct gm_keeper *keeper, const char *why);

/* The same, where the row's state is what they get none for; nobody new may
 * come to it as long as that is so. */
void gm_seats_refuse(struct gm_keeper *keeper);

/* What any session has submitted is owed, although no worker has heard of it.
 * Returns whether there is a session. */
bool gm_seats_owe_all(struct gm_keeper *keeper);

/* Ask the child to end when it has nothing more to do; it may be told of no
 * seat afterwards. */
void gm_seats_tell_end(struct gm_keeper *keeper);

#endif
