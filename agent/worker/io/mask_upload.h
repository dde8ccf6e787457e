/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_upload - masks in memory of the device.
 *
 * gpumapd hands over the bytes in a node's memory and gets a descriptor for a
 * copy of them on the device, uploaded or copied from another card.  It keeps
 * that, and so the copy; nothing of it stays with the worker, and no session is
 * asked.
 */
#ifndef GM_WORKER_IO_MASK_UPLOAD_H
#define GM_WORKER_IO_MASK_UPLOAD_H

#include "agent/worker/worker.h"

/* A MASK of gpumapd's.  It is answered, now or later; @fd is taken over, and
 * @peer, which stands for another card's copy where it is none of -1: what
 * cannot be had of that is uploaded. */
void gm_replica_make(struct gm_worker *worker, const struct gm_wire *wire,
		     int fd, int peer);

#endif
