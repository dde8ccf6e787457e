/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * publish - publish and replace masks.
 *
 *	check	loop	what is requested, for which rows, and is it allowed?
 *	plan	I/O	the tensor, made or read into own memory, and its hash
 *	settle	loop	spans for it: those of a mask that has the same, or new
 *	copy	I/O	a span that is there is compared in full, others written
 *	block	loop	of no slot yet
 *	file	I/O	the state file is on the disk
 *	show	loop	the slot, and the answer
 *
 * An agent that dies before "file" has published nothing, and the next one
 * finds the spans free.  After "file" the next agent makes the mask again.
 */
#ifndef GM_DAEMON_MASKS_PUBLISH_H
#define GM_DAEMON_MASKS_PUBLISH_H

#include "agent/daemon/base/connection.h"

/* MASK_PUBLISH. */
int gm_mask_change_publish(struct gm_connection *c, const struct gm_request *r);

#endif
