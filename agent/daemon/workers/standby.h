/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * standby - a process that has initialised the driver and waits to be needed.
 *
 * Initialising the driver takes half a second and more.  While the worker of a
 * card serves, another process does that in advance.  When the worker dies,
 * the standby gets GO and becomes the worker.  Until then it has no context, no
 * lock and no session.
 *
 *	NONE      none runs and none is wanted
 *	RESTING   one is wanted; the last one died not long ago
 *	STARTING  it runs
 *	STANDBY   it has said that it is ready
 *	ENDING    its socket is closed, then it is killed
 *
 * The death of a standby does not change the row.
 */
#ifndef GM_DAEMON_WORKERS_STANDBY_H
#define GM_DAEMON_WORKERS_STANDBY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/child.h"
#include "agent/daemon/base/loop.h"

struct gm_worker_process;

enum gm_standby_state {
	GM_STANDBY_NONE,
	GM_STANDBY_RESTING,
	GM_STANDBY_STARTING,
	GM_STANDBY_STANDBY,
	GM_STANDBY_ENDING
};

/* Embedded in its gm_worker_process. */
struct gm_standby {
	enum gm_standby_state state;
	bool wanted;
	bool drain_sent; /* its socket was closed */
	struct gm_child child;
	struct gm_timer timer; /* of the state */
	void (*gone)(struct gm_worker_process *worker);
	uint64_t since_ns;
	uint32_t deaths; /* since the last one that stood by */
	int code;        /* the driver's number behind why, or 0 */
	char why[120];   /* its last words */
};

/* @gone is called when the process has ended. */
void gm_standby_init(struct gm_standby *standby,
		     void (*gone)(struct gm_worker_process *worker));

/* Have one, from now on. */
void gm_standby_want(struct gm_worker_process *worker);

/*
 * gm_standby_take - make it the worker
 *
 * Its descriptors are the caller's from now on; GO has been sent.
 *
 * Returns	0
 *		-ENOENT		there is none, or it does not listen any more
 */
int gm_standby_take(struct gm_worker_process *worker,
		    struct gm_spawned *ret_process);

/* Have none, from now on.  gone() follows when one ran. */
void gm_standby_end(struct gm_worker_process *worker);

/* Does a process of it still run? */
static inline bool gm_standby_runs(const struct gm_standby *standby)
{
	return gm_child_exists(&standby->child);
}

/* Forget it; what still runs has been killed. */
void gm_standby_free(struct gm_worker_process *worker);

#endif
