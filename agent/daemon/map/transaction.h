/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * transaction - change the directory for clients, one change after another.
 *
 * A change goes through these steps, on the loop or on the I/O thread, and the
 * next one begins when its client has been answered:
 *
 *	check	loop	is it allowed, as things are now?
 *	plan	I/O	only for kinds that have one
 *	settle	loop	likewise: the last check, with the plan at hand
 *	room	loop	name, owner, quota, space: a block, filled
 *	file	I/O	the state file is on the disk, or gone from it
 *	show	loop	the slot, and the answer
 *
 * A heavy kind takes long for its plan and more.  Such changes leave the queue
 * for it, one at a time and with an I/O thread of their own, while others have
 * their turns.  When one returns it is checked again.
 *
 * A change may also wait for a worker; others have their turns, and may be
 * heavy ones.  And one that is refused, for want of room for instance, may be
 * postponed by its kind: it begins again later, with "check".
 *
 * Readers see nothing of a change before "show", and a step that refuses leaves
 * everything as it was.  While the I/O thread works the loop goes on: moving
 * facts, pins, sessions and the ends of processes do not wait for a change.
 *
 * Turns: the uid that was served least recently is next, with its oldest
 * change.  A client has at most one change, because its connection waits for
 * the answer.  A client that hangs up before its turn gives its change up; in
 * the middle, the change is completed without an answer.  Waiting changes take
 * the agent's memory, which is limited for each uid.
 *
 * Dates: as there is one change at a time, the part of the directory that
 * check() has seen stays the same until show, or until the change leaves the
 * queue, with one exception: an object whose holder ends is removed at once.
 * Its slot's version grows by one then, for which room was left
 * (segment/directory.c).
 */
#ifndef GM_DAEMON_MAP_TRANSACTION_H
#define GM_DAEMON_MAP_TRANSACTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "agent/daemon/base/io_thread.h"
#include "agent/common/refusal.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/state.h"
#include "shm/control.h"

struct gm_change;
struct gm_connection;
struct gm_daemon;

#define GM_CHANGES_BYTES      (UINT64_C(32) << 20) /* of one uid's that wait */
#define GM_CHANGES_AT_WORKERS 32u /* heavy ones begin while there are fewer */

/* The next step of a change, which its kind decides. */
enum gm_change_act {
	GM_CHANGE_NOTHING, /* answer, no more: a plan that is only asked for */
	GM_CHANGE_PUT,     /* publish change->words, or write change->file */
	GM_CHANGE_TAKE,    /* take change->name out of the directory */
	GM_CHANGE_OWN      /* what proceed() does */
};

/* Each returns 0, or a negative status to refuse with and change->why. */
struct gm_change_kind {
	/* On the loop, when its turn has come. */
	int (*check)(struct gm_change *change);

	/* On the I/O thread: it uses only the values that check() has put
	 * into the change.  May be NULL. */
	int (*plan)(struct gm_change *change);

	/* On the loop, after plan().  May be NULL. */
	int (*settle)(struct gm_change *change);

	/* On the loop, where check(), plan() or settle() refuses with @status a
	 * client that has not hung up: returns 0 to let the change wait for
	 * gm_transactions_again(), or what to refuse with.  May be NULL. */
	int (*postpone)(struct gm_change *change, int status);

	/* On the loop, for GM_CHANGE_OWN: room, file and show are the kind's
	 * own.  They may take any time, by gm_transactions_give(), and end with
	 * gm_transactions_end(). */
	void (*proceed)(struct gm_change *change);

	/* On the loop, right before the slot is stored: stores that must be
	 * seen before it; of a file without objects, which is on the disk,
	 * all of them.
	 * Cannot refuse any more.  May be NULL. */
	void (*before_show)(struct gm_change *change);

	bool is_heavy; /* plan() is done away, see above */

	/* On the loop: gm_connection_reply() to @request.  NULL: without a
	 * body. */
	void (*answer)(struct gm_change *change, struct gm_connection *c,
		       const struct gm_control *request);

	/* Likewise: gm_connection_refuse() with more than status and why.  May
	 * be NULL. */
	void (*refuse)(struct gm_change *change, struct gm_connection *c,
		       const struct gm_control *request, int status);

	/* Give back the change and what it has. */
	void (*free)(struct gm_change *change);
};

/* The head of every change; a kind has more behind it. */
struct gm_change {
	const struct gm_change_kind *kind;
	struct gm_daemon *d;
	size_t bytes; /* that the change takes while it waits */
	uint32_t uid; /* who asks, as the kernel says; or for whom */
	pid_t pid;
	struct gm_connection *connection; /* NULL: it has hung up, or the
					   * agent asks itself */

	enum gm_change_act act;
	const struct gm_state_kind *object; /* what is put or taken */
	uint64_t *words; /* GM_CHANGE_PUT: of its block, from malloc() */
	struct gm_state_file *file; /* likewise, where there is no block */
	const char *name;           /* GM_CHANGE_TAKE: lives in the change */
	uint64_t version;           /* as published, for answer() */
	char why[GM_WHY_BYTES];

	/* transaction.c's own. */
	TAILQ_ENTRY(gm_change) entry;
	struct gm_io_job job;
	void (*back)(struct gm_io_job *job); /* once it is */
	struct gm_put put;
	bool has_aside; /* a file was set aside */
	bool is_put;    /* its block names rows */
	bool is_at_worker;
	bool is_postponed;
	bool is_back;      /* from the I/O thread, or from a worker */
	uint32_t n_reused; /* devices.n_reused, at the time of check() */
	int status;        /* of the I/O thread's part */
};

TAILQ_HEAD(gm_change_list, gm_change);

struct gm_changes {
	struct gm_change_list waiting; /* oldest first */
	struct gm_change *in_hand;
	struct gm_change *away;          /* of a heavy kind, or NULL */
	struct gm_change_list at_worker; /* those that wait for a worker */
	uint32_t n_at_worker;
	struct gm_change_list postponed;
	uint64_t turn;   /* counts those that were begun */
	uint64_t served; /* the last of our own that are heavy */
	bool is_beginning;
	bool is_ending;
	bool rows_came; /* since the files that wait were rechecked */
};

void gm_transactions_init(struct gm_changes *changes);

/*
 * gm_transactions_add - ask for a change
 *
 * c		waits for the answer from here on
 * request	its header
 * change	zeroed but for kind, bytes and what the kind has of its own; is
 *		ours, and may be free when this returns
 *
 * Returns	0
 *		-EDQUOT	so much of the uid waits already; the connection does
 *			not, and its refusal has the words
 */
int gm_transactions_add(struct gm_connection *c,
			const struct gm_control *request,
			struct gm_change *change);

/* Begin a change of the agent's own, which has no answer.  Such a change goes
 * before those of clients, unless it is heavy: then the agent has turns as a
 * uid has.  The change may be free when this returns. */
void gm_transactions_add_own(struct gm_daemon *d, struct gm_change *change);

/* From proceed(): have the I/O thread do a part; the change is over, and may be
 * free when this returns. */
void gm_transactions_give(struct gm_change *change,
			  void (*work)(struct gm_io_job *job),
			  void (*done)(struct gm_io_job *job));
void gm_transactions_end(struct gm_change *change, int status);

/* For a heavy kind in its turn: likewise, but out of the queue; @done has its
 * turn again. */
void gm_transactions_give_away(struct gm_change *change,
			       void (*work)(struct gm_io_job *job),
			       void (*done)(struct gm_io_job *job));

/* Likewise, but wait for another module, which then calls
 * gm_transactions_return(). */
void gm_transactions_go(struct gm_change *change,
			void (*done)(struct gm_io_job *job));
void gm_transactions_return(struct gm_change *change);

/* One that was postponed waits for its turn again, as if it had just come. */
void gm_transactions_again(struct gm_change *change);

/* Its connection is being dropped. */
void gm_transactions_leave(struct gm_change *change);
void gm_transactions_connection_dropped(struct gm_connection *c,
					const char *why);

/* Event; see base/events.h: publish the objects of state files that waited for
 * the device, now or after the transaction that is in the middle of its
 * steps. */
void gm_transactions_row_came(struct gm_daemon *d);

/* Is one in the middle of its steps that will show an object with this row? */
bool gm_transactions_name(const struct gm_daemon *d, uint32_t row);

/* Is none in the middle of its steps, nor away? */
bool gm_transactions_drained(const struct gm_daemon *d);

/* Complete the present change and drop the others; the I/O threads end with it.
 * Returns 0, or -ETIMEDOUT if that was not over at @until_ns: then no memory of
 * a change may be freed. */
int gm_transactions_exit(struct gm_daemon *d, uint64_t until_ns);

#endif
