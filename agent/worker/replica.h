/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * replica - masks in memory of the device.
 *
 * gpumapd hands over the bytes in a node's memory and gets a descriptor for a
 * copy of them on the device.  It keeps that, and so the copy; nothing of it stays
 * with the worker, and no session is asked.
 */
#ifndef GM_REPLICA_H
#define GM_REPLICA_H

#include "agent/worker/worker.h"

/* A MASK of gpumapd's.  It is answered, now or later; @fd is taken over. */
void gm_replica_make(struct gm_worker *worker, const struct gm_wire *wire,
		     int fd);

#endif
