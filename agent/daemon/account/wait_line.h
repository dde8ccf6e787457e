/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wait_line - reservations that wait for room on their rows, first in, first
 * out.
 *
 * A place in the line has a set of rows.  One that takes all of its rows may
 * move when no place before it claims one of them, one that takes any of them
 * when a row is left that no place before it claims.  So on each row the first
 * comes first, and none waits for ever behind others that come later.  A place
 * claims all of its rows, unless it waits for maps of its own user to end.  One
 * that needs no room comes after those alone that wait for a start window.
 *
 * The line does not know what there is room for.  A place is told to try again
 * whenever something may have changed and the place may move, and the owner
 * either leaves the line then or says that it still waits.  The agent has
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

/* Embedded in its owner, which sets the fields of the first part. */
struct gm_wait_place {
	/* Try again; the place stays in the line.  Also when its time is
	 * over. */
	void (*again)(struct gm_wait_place *place);
	const char *name;
	uint32_t uid;
	uint32_t pid;
	uint64_t bytes; /* 0: a plan decides */
	uint64_t until_ns;
	/* May change at each attempt: */
	uint64_t rows[GM_ROW_WORDS];
	/* of them, those that it keeps from the places behind it */
	uint64_t claims[GM_ROW_WORDS];
	bool takes_all;
	bool takes_none;   /* of the memory; set once */
	bool is_for_start; /* it waits for a start window only */
	uint32_t missing_row;
	uint64_t missing_bytes; /* 0: not known */

	/* The line's own. */
	TAILQ_ENTRY(gm_wait_place) entry;
	uint64_t number; /* grows along the line; 0: not in it */
	uint64_t since_ns;
	uint64_t n_changes; /* of the line, when it was tried last */
	bool is_tried;      /* at present */
	bool is_to_try;     /* in this look at the line */
};

struct gm_wait_line {
	TAILQ_HEAD(gm_wait_place_list, gm_wait_place) places;
	struct gm_timer timer; /* look at them */
	struct gm_daemon *d;
	uint64_t last; /* number */
	uint64_t n_changes;
	bool is_due; /* a look, as soon as possible */
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
 * gm_wait_line_before - the rows that those before @place claim, as far as it
 * comes after them
 *
 * place	one that is not in the line comes after all that are
 *
 * Returns	how many places are before it
 */
uint32_t gm_wait_line_before(const struct gm_daemon *d,
			     const struct gm_wait_place *place,
			     uint64_t ret_rows[GM_ROW_WORDS]);

/* There may be room, or an end of a start window: look soon. */
void gm_wait_line_changed(struct gm_daemon *d);

/* After all places. */
void gm_wait_line_exit(struct gm_daemon *d);

#endif
