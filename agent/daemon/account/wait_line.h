/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wait_line - reservations that wait for room on their rows.
 *
 * A place in the line asks for bytes of some rows and keeps them from the
 * places behind it.  These may pass it where both could stand there together:
 * their bytes, its bytes, and those of all that passed it already, are no more
 * than the row has once everything has ended that is held.  So a place gets its
 * rows at the latest when all have ended that came before it, and small ones
 * run meanwhile.
 *
 * A place keeps nothing from others if it asks for more than its rows will ever
 * have, or waits for maps of its own user to end.  Other users wait for one
 * place of a user on each row, the first that claims it; the user's own places
 * wait for all of them.  Start windows are not shared: one that is to start
 * waits behind those that wait for a window alone.
 *
 * The line does not know what is free now.  A place is told to try again
 * whenever something may have changed and the place may move, one of a user in
 * each turn of the loop, and the owner either leaves the line then or says that
 * it still waits.  The agent has
 * events of most changes; of the others, such as memory that a host's processes
 * free, it hears within GM_WAIT_LINE_LOOK_NS, because the line looks that often
 * while it is not empty.
 *
 * The line lives in the agent's memory: places end with their connections, and
 * an agent that starts has none.
 */
#ifndef GM_DAEMON_ACCOUNT_WAIT_LINE_H
#define GM_DAEMON_ACCOUNT_WAIT_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/daemon/base/loop.h"
#include "shm/control.h"

struct gm_daemon;

#define GM_WAIT_LINE_LOOK_NS  UINT64_C(1000000000)
#define GM_WAIT_LINE_START_NS UINT64_C(100000000) /* for start windows */
#define GM_WAIT_LINE_FRESH_NS UINT64_C(10000000)
#define GM_WAIT_LINE_FREED_NS UINT64_C(3000000000)

/* The most that a request may have beside those before it. */
struct gm_wait_limits {
	uint64_t bytes[GM_ROWS];       /* of each row */
	uint64_t starts[GM_ROW_WORDS]; /* rows that others wait to start on */
};

/* Embedded in its owner, which sets the fields of the first part. */
struct gm_wait_place {
	/* Try again; the place stays in the line.  Also when its time is
	 * over, or it is dropped.  Returns false where a glance showed that
	 * there is no room: then it waits on. */
	bool (*again)(struct gm_wait_place *place);
	const char *name;
	uint32_t uid; /* set before the first of all calls */
	uint32_t pid;
	uint64_t bytes; /* 0: a plan decides */
	uint64_t until_ns;
	/* May change at each attempt: */
	uint64_t rows[GM_ROW_WORDS];
	/* of them, those that it keeps from the places behind it, */
	uint64_t claims[GM_ROW_WORDS];
	uint64_t asks[GM_ROWS]; /* and the bytes of each */
	bool takes_all;
	bool takes_one;    /* any that it claims; else all of these */
	bool has_start;    /* it is to be in a start window; set once */
	bool is_for_start; /* and waits for that only */
	uint32_t missing_row;
	uint64_t missing_bytes; /* 0: not known */

	/* The line's own. */
	TAILQ_ENTRY(gm_wait_place) entry;
	uint64_t number; /* grows along the line; 0: not in it */
	uint64_t since_ns;
	uint64_t n_changes; /* of the line, when it was tried last, */
	uint64_t tried_ns;  /* and the time */
	bool is_dropped;
	bool is_tried;                   /* at present */
	bool is_to_try;                  /* in this look at the line */
	uint64_t came_ns;                /* as gm_node_clock_now() */
	struct gm_wait_place *previous;  /* of the same uid, or NULL */
	uint64_t own_bars[GM_ROW_WORDS]; /* rows that it keeps from its user, */
	uint64_t bars[GM_ROW_WORDS];     /* and from all; */
	uint64_t user_bars[GM_ROW_WORDS]; /* that its user's keep, up to it */
	struct gm_wait_limits behind;     /* for its user's next */
};

struct gm_wait_line {
	TAILQ_HEAD(gm_wait_place_list, gm_wait_place) places;
	struct gm_timer timer; /* look at them */
	struct gm_daemon *d;
	uint64_t last; /* number */
	uint64_t n_changes;
	uint64_t look_ns;  /* the last one for which nothing had changed */
	bool is_due;       /* a look, as soon as possible */
	uint64_t fresh_ns; /* when it was found who keeps what; 0: anew */
	/* The least that strangers had of each row in the last seconds, and
	 * when: the memory of a process that has ended is free somewhat
	 * later. */
	uint64_t strange[GM_ROWS];
	uint64_t strange_ns[GM_ROWS];
	uint64_t lasting
		[GM_ROWS]; /* what it has once all that is held has ended */
};

void gm_wait_line_init(struct gm_daemon *d);

static inline void gm_wait_line_add_row(uint64_t rows[GM_ROW_WORDS],
					uint32_t row)
{
	rows[row / 64] |= UINT64_C(1) << row % 64;
}

static inline bool gm_wait_line_has_row(const uint64_t rows[GM_ROW_WORDS],
					uint32_t row)
{
	return (rows[row / 64] >> row % 64 & 1) != 0;
}

/* Let a place wait: at the end of the line, or where it is in it already. */
void gm_wait_line_wait(struct gm_daemon *d, struct gm_wait_place *place);

/* A place waits no more.  Allowed for one that is not in the line. */
void gm_wait_line_leave(struct gm_daemon *d, struct gm_wait_place *place);

/*
 * gm_wait_line_limits - what a place may have before those that came before it
 *
 * place	one that is not in the line comes after all that are
 */
void gm_wait_line_limits(struct gm_daemon *d, const struct gm_wait_place *place,
			 struct gm_wait_limits *ret_limits);

/* Bytes that each row has once everything has ended that is held; GM_ROWS of
 * them, until the next call. */
const uint64_t *gm_wait_line_lasting(struct gm_daemon *d);

/* Count the places before each of @n that keep one of its rows from it, as was
 * found when the line was last looked at.  @places are in the line's order. */
void gm_wait_line_before(const struct gm_daemon *d,
			 const struct gm_wait_place *const places[], uint32_t n,
			 uint32_t ret_before[]);

/* Have the places of a name give up, those of one uid or all.  Returns how many
 * there were. */
uint32_t gm_wait_line_drop(struct gm_daemon *d, const char *name, uint32_t uid,
			   bool of_all);

/* There may be room, or an end of a start window: look soon. */
void gm_wait_line_changed(struct gm_daemon *d);

/* After all places. */
void gm_wait_line_exit(struct gm_daemon *d);

#endif
