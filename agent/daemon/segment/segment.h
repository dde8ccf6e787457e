/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * segment - the map segment as a file: created, adopted, retired.
 *
 * The caller holds the instance's lock (lock.h), so there is one writer, and
 * the instance's folder (folder.h) is there.  The segment of a previous agent
 * is validated whole (validate.h) and taken over in place, because readers have
 * it mapped; a segment that fails is marked RETIRED, so that readers look for
 * the new one, and unlinked.  The file is never truncated and never shrinks.
 *
 * Edges
 *
 *   SEGMENT.changed	state, generation, tick and heartbeat are stored after
 *			the data that they speak of, so that a reader that loads
 *			one with acquire finds the data
 */
#ifndef GM_DAEMON_SEGMENT_SEGMENT_H
#define GM_DAEMON_SEGMENT_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/segment/validate.h"
#include "shm/check.h"
#include "shm/names.h"

struct gm_segment {
	int fd; /* read and write */
	char path[GM_NAMES_BYTES];
	struct gm_map map;
	bool adopted; /* an agent before us has written it */
	uint64_t epoch;
	/* To be set by the caller: whose timers wake the readers behind the
	 * first ones; NULL: they are not woken. */
	struct gm_loop *loop;
	struct gm_timer wake;
	uint64_t wake_until_ns;
};

/* Readers that are woken at once, and in each millisecond after that. */
#define GM_SEGMENT_WAKES 256

/*
 * gm_segment_open - adopt what is there, or make it anew
 *
 * bytes	of a new segment; one that is adopted keeps its size
 * past		receives what the segment holds; give its heap back
 * ret_why	what went wrong and what to do about it
 *
 * A new segment is STARTING and empty.  An adopted one is STARTING, and as it
 * was left but for epoch, agent_pid and agent_start.
 *
 * Returns	0
 *		-EPERM		the name is taken by something that is not ours:
 *				a link, no regular file, another owner, or
 *				writable by others
 *		-ENOSPC		/dev/shm is too small
 *		and what open, fstat and mmap return
 */
int gm_segment_open(const char *instance, uint64_t bytes,
		    struct gm_adopted_state *past, char ret_why[GM_WHY_BYTES],
		    struct gm_segment *ret_segment);

/* Unmap and close; the segment stays for the next agent. */
void gm_segment_close(struct gm_segment *segment);

/* Likewise for a segment that is of no use: it is removed.  A client that has
 * attached already finds it RETIRED. */
void gm_segment_discard(struct gm_segment *segment, const char *why);

/* Mark what is there RETIRED, wake its readers, and unlink it.  Returns 0,
 * -ENOENT, and -EPERM as gm_segment_open(). */
int gm_segment_remove(const char *instance, char ret_why[GM_WHY_BYTES]);

/* Tell readers what state we are in; wakes those who wait for a change. */
void gm_segment_state(struct gm_segment *segment, enum gm_state state);

/*
 * Objects or states have changed: wakes those who wait for that.
 *
 * Any user that can read the map can wait there any number of times, so only
 * GM_SEGMENT_WAKES are woken at once, and the others by a timer, for a second:
 * in that time a waiting library has looked by itself.
 */
void gm_segment_changed(struct gm_segment *segment);

/* We live; to be said every 500 ms. */
void gm_segment_heartbeat(struct gm_segment *segment);

/* Does the header still say what we have written into it? */
bool gm_segment_is_ours(const struct gm_segment *segment);

#endif
