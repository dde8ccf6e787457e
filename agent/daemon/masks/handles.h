/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * handles - masks that jobs of a session name.
 *
 * MASK_USE gives a handle to a publication, and MASK_SHOW has the worker of a
 * row map that row's replica, as if it were memory that the session had
 * registered read-only: sessions/register.h keeps the handle, and asks the next
 * worker of a host's row again; on a device it is a replica for the session's
 * uid, see device_replicas.h.
 * What is here is which publication it is.  Its spans stay as long as the
 * handle, or as a worker has them mapped, whatever becomes of the name.
 */
#ifndef GM_DAEMON_MASKS_HANDLES_H
#define GM_DAEMON_MASKS_HANDLES_H

#include "agent/daemon/base/connection.h"

struct gm_daemon;
struct gm_mask_held;
struct gm_replica_image;

/* The replica of a row, whose span is there; of a CUDA row its id says nothing.
 * Returns 0, or -ENOENT: the row has none. */
int gm_mask_held_find(const struct gm_mask_held *held, uint32_t row,
		      char ret_why[GM_WHY_BYTES],
		      const struct gm_replica_image **ret_replica);

/* A descriptor of its node's segment, which stays ours.  Returns 0, or why
 * there is none. */
int gm_mask_held_open(const struct gm_mask_held *held,
		      const struct gm_replica_image *replica,
		      char ret_why[GM_WHY_BYTES], int *ret_fd);

/* NULL is allowed. */
void gm_mask_held_free(struct gm_mask_held *held);

/* Handlers, see sessions/dispatch.h. */
int gm_mask_use_handle(struct gm_connection *c, const struct gm_request *r);
int gm_mask_show_handle(struct gm_connection *c, const struct gm_request *r);

#endif
