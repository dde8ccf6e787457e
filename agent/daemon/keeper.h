/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * keeper - the life of one row's worker, and its undertakers between.
 *
 *	LOCKED     the worker of an agent before us has not ended yet
 *	RESTING    back-off
 *	STARTING   a worker runs, and has not said READY
 *	SERVING    it has
 *	ENDING     it was sent SIGKILL; its pidfd has not spoken yet
 *	STUCK      not even SIGKILL has ended it in time
 *	BURYING    an undertaker runs
 *	OFF        no worker and none to come
 *
 *	LOCKED -> STARTING -> SERVING -> (exit) -> BURYING -> RESTING -> STARTING
 *
 * An exit leads to BURYING from any state in which a worker was told of a seat;
 * without seats that are owed anything it is passed over, as is RESTING where
 * there is nothing to wait for.
 *
 * Of keeper.c: states and deaths.  Of seats.c: what is said over the socket.
 */
#ifndef GM_KEEPER_H
#define GM_KEEPER_H

#include "agent/common/wire.h"
#include "agent/daemon/loop.h"
#include "agent/daemon/spawn.h"
#include "agent/daemon/spin.h"
#include "agent/daemon/supervise.h"
#include "shm/journal.h"

#define GM_SEATS_OFFERED 16u /* ATTACHes that a child has not answered */

enum gm_keeper_state {
	GM_KEEPER_OFF,
	GM_KEEPER_LOCKED,
	GM_KEEPER_RESTING,
	GM_KEEPER_STARTING,
	GM_KEEPER_SERVING,
	GM_KEEPER_ENDING,
	GM_KEEPER_STUCK,
	GM_KEEPER_BURYING
};

TAILQ_HEAD(gm_seat_list, gm_seat);

struct gm_keeper {
	struct gm_daemon *d;
	uint32_t row;
	enum gm_keeper_state state;
	bool draining;
	char lock_path[160];

	/* The child, a worker or an undertaker; pidfd.fd is -1 without one. */
	struct gm_child child;
	struct gm_source pidfd;
	struct gm_source socket; /* fd -1 once the child has closed its end */
	bool is_undertaker;
	bool wants_room;        /* EPOLLOUT is asked for */
	bool told_end;          /* DRAIN was sent */
	bool is_shown;          /* as READY, with every seat taken */
	char why[GM_WHY_BYTES]; /* why it is ending, when that is known */

	struct gm_timer timer;  /* of the state */
	uint64_t since_ns;      /* when the state was entered */
	uint64_t completed;     /* journal->completed at the spawn */
	uint32_t early_deaths;  /* in a row, before a job was completed */
	uint32_t burial_deaths; /* undertakers, since the last burial */
	uint32_t restarts;
	uint32_t times_stopped; /* looks in a row that found it stopped */

	/* Of LOCKED: who holds the row's lock, and when we lose patience. */
	pid_t orphan;
	uint64_t orphan_due_ns;

	int journal_fd;
	struct gm_journal *journal;
	struct gm_seat_list seats;
	uint32_t n_offered;
	uint32_t n_free; /* places */
	uint16_t free[GM_JOURNAL_PLACES];
};

struct gm_supervisor {
	struct gm_daemon *d;
	struct gm_keeper *keepers[GM_ROWS]; /* NULL: a row without a worker */
	int commons_fd;
	struct gm_commons *commons;
	struct gm_spin spin;
	struct gm_timer tick;
	bool draining;
};

/* keeper.c */

/* A keeper for one row; does not start the worker.  Returns 0, or a negative
 * errno. */
int gm_keeper_make(struct gm_daemon *d, uint32_t row,
		   struct gm_keeper **ret_keeper);
void gm_keeper_start(struct gm_keeper *keeper);
void gm_keeper_free(struct gm_keeper *keeper);

/* Have the worker finish, and start no other. */
void gm_keeper_drain(struct gm_keeper *keeper);

/* Look for a worker that makes no progress; to be called once a second. */
void gm_keeper_look(struct gm_keeper *keeper);

/* Does its back-off last so long that a client had better take another row? */
bool gm_keeper_rests_long(const struct gm_keeper *keeper);

/* End the child: @why is what the row will say. */
void gm_keeper_kill(struct gm_keeper *keeper, const char *why);

/* The worker has said READY. */
void gm_keeper_ready(struct gm_keeper *keeper);

/* Every seat that waited has been taken: the row is READY. */
void gm_keeper_settled(struct gm_keeper *keeper);

/* The other end of the socket is closed, or broken. */
void gm_keeper_hung_up(struct gm_keeper *keeper);

/* seats.c */

/* Say what there is to say, as far as there is room. */
void gm_seats_pump(struct gm_keeper *keeper);

/* Take in what the child has said.  Returns 1 when there may be more, 0 when
 * there is not, -EPIPE once it has hung up. */
int gm_seats_listen(struct gm_keeper *keeper);

/* The child is gone: who was leaving has left, all others wait again, and what
 * a worker was told of is owed.  Returns whether anything is. */
bool gm_seats_child_gone(struct gm_keeper *keeper);

/* Tell those who wait for their first seat that it will be long. */
void gm_seats_refuse_newcomers(struct gm_keeper *keeper);

/* Ask the child to end when it has nothing more to do; it may be told of no
 * seat afterwards. */
void gm_seats_tell_end(struct gm_keeper *keeper);

#endif
