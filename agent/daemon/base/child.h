/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * child - supervises a process that this one has started: hears it, ends it in
 * time, and tells its owner once when it has ended, behind all that it said.
 *
 *	NONE     no process; it may be started
 *	RUNNING
 *	ENDING   it was sent SIGKILL and has not ended
 *	STUCK    nor has it GM_CHILD_STUCK_NS later
 *
 * The process has a socket (spawn.h): records of one size, or, for a program
 * that knows no descriptors of ours, its standard output and error.  Nothing
 * follows from a closed socket; the end of the process counts.
 *
 * A child is a member of its owner.  Its bytes are 0 before the first start.
 * Callbacks come from the loop, and may start, kill and drop the child.
 */
#ifndef GM_DAEMON_BASE_CHILD_H
#define GM_DAEMON_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/spawn.h"

#define GM_CHILD_STUCK_NS UINT64_C(5000000000) /* from SIGKILL to the end */

enum gm_child_state {
	GM_CHILD_NONE,
	GM_CHILD_RUNNING,
	GM_CHILD_ENDING,
	GM_CHILD_STUCK
};

struct gm_child;

struct gm_child_kind {
	/* The size of each record, at most GM_CHILD_RECORD_BYTES; 0: the child
	 * prints text. */
	size_t record_bytes;

	/* A record, in a buffer that is aligned for any.  A child that returns
	 * false is killed.  NULL for a child that prints text. */
	bool (*said)(struct gm_child *child, void *record);

	/* The process has ended: how, such as "killed by SIGKILL", and its exit
	 * status, -1 where a signal ended it.  The state is NONE again. */
	void (*ended)(struct gm_child *child, const char *how, int status);

	/* The process is STUCK; NULL: its end is waited for. */
	void (*stuck)(struct gm_child *child);
};

#define GM_CHILD_RECORD_BYTES 4096u

struct gm_child {
	struct gm_loop *loop;
	const struct gm_child_kind *kind;
	enum gm_child_state state;
	struct gm_spawned process;
	struct gm_source pidfd;
	struct gm_source socket; /* -1: the child has closed its end */
	struct gm_timer timer;   /* the limit, or that of ENDING */
	uint64_t began_ns;       /* gm_loop_now() */
	const char *limit_why;
	char why[GM_WHY_BYTES]; /* why it was killed; empty: it was not */
	char line[512];         /* of text, the last line */
	uint32_t n_line;
	bool line_ends;
};

/*
 * gm_child_start - start a program and supervise it
 *
 * argv, env	argv[0] is the program's path; NULL-terminated
 *
 * Returns	0, or as gm_spawn(), with the state NONE
 */
int gm_child_start(struct gm_child *child, struct gm_loop *loop,
		   const struct gm_child_kind *kind, const char *const argv[],
		   char *const env[]);

/* Supervise a process that was started already, and end it if that fails.
 * Returns 0, or a negative errno. */
int gm_child_adopt(struct gm_child *child, struct gm_loop *loop,
		   const struct gm_child_kind *kind,
		   const struct gm_spawned *process);

/* Supervise it no more: its descriptors are the caller's. */
struct gm_spawned gm_child_hand_over(struct gm_child *child);

/* Does a process exist, for all that we know? */
static inline bool gm_child_exists(const struct gm_child *child)
{
	return child->state != GM_CHILD_NONE;
}

/* Kill it, @ns from now or at once; a limit's reason is constant text. */
void gm_child_limit(struct gm_child *child, uint64_t ns, const char *why);
void gm_child_kill(struct gm_child *child, const char *why);

/* Close the socket, and kill it when it has not ended in time. */
void gm_child_hang_up(struct gm_child *child, uint64_t ns, const char *why);

/* Send a record.  Returns 0, or a negative errno: it does not listen. */
int gm_child_send(struct gm_child *child, const void *record, size_t bytes);

/* Has it said anything that said() has not heard?  This process may be late
 * itself. */
bool gm_child_is_unheard(const struct gm_child *child);

/* Kill it and wait for nothing; ended() is not called.  Allowed for NONE. */
void gm_child_drop(struct gm_child *child);

/* Likewise one that is STUCK: its memory is freed (gm_spawn_abandon()). */
void gm_child_abandon(struct gm_child *child);

/* Likewise, and wait for its end, until @until_ns: this process ends. */
void gm_child_exit(struct gm_child *child, uint64_t until_ns);

/* The rest after the @n-th failure in a row: @first_ns, then @factor times as
 * long each time, up to @most_ns. */
uint64_t gm_child_rest(uint64_t first_ns, uint32_t factor, uint32_t n,
		       uint64_t most_ns);

#endif
