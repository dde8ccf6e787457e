/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * standby - a process that has initialised the driver and waits to be needed.
 *
 * Initialising the driver takes half a second and more.  While the worker of a
 * CUDA row serves, another process does that in advance; when the worker dies,
 * it gets the word and becomes the worker.  It has no context, no lock and no
 * session before.
 *
 *	NONE      none runs and none is wanted
 *	RESTING   one is wanted; the last one died not long ago
 *	STARTING  it runs
 *	STANDBY   it has said that it is ready
 *	ENDING    its socket is closed, then it is killed
 *
 * Its death is nobody's but its own: the row does not change.
 */
#ifndef GM_DAEMON_WORKERS_STANDBY_H
#define GM_DAEMON_WORKERS_STANDBY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/spawn.h"

struct gm_keeper;

enum gm_spare_state {
	GM_SPARE_NONE,
	GM_SPARE_RESTING,
	GM_SPARE_STARTING,
	GM_SPARE_STANDBY,
	GM_SPARE_ENDING
};

/* Embedded in its keeper. */
struct gm_spare {
	enum gm_spare_state state;
	bool wanted;
	bool told_end; /* its socket was closed */
	bool killed;
	struct gm_child child;
	struct gm_source pidfd;  /* fd -1: none runs */
	struct gm_source socket; /* fd -1 once it is closed */
	struct gm_timer timer;   /* of the state */
	uint64_t since_ns;
	uint32_t deaths; /* since the last one that stood by */
	int code;        /* the driver's number behind why, or 0 */
	char why[120];   /* its last words */
};

void gm_spare_init(struct gm_spare *spare);

/* Have one, from now on. */
void gm_spare_want(struct gm_keeper *keeper);

/*
 * gm_spare_take - make it the worker
 *
 * Its descriptors are the caller's from now on; GO has been sent.
 *
 * Returns	0
 *		-ENOENT		there is none, or it does not listen any more
 */
int gm_spare_take(struct gm_keeper *keeper, struct gm_child *ret_child);

/* Have none, from now on.  gm_need_spare_gone() follows when one ran. */
void gm_spare_end(struct gm_keeper *keeper);

/* Does a process of it still run? */
static inline bool gm_spare_runs(const struct gm_spare *spare)
{
	return spare->pidfd.fd >= 0;
}

/* Forget it; what still runs has been killed. */
void gm_spare_free(struct gm_keeper *keeper);

#endif
