/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * publish - put layer maps into the directory, with what they reserve.
 */
#ifndef GM_DAEMON_MAP_PUBLISH_H
#define GM_DAEMON_MAP_PUBLISH_H

#include <stdint.h>

#include "agent/daemon/segment/directory.h"
#include "shm/layers.h"

/*
 * gm_publish_layers - publish a layer map, or replace the one of its name
 *
 * layers	owner_uid is the client's: 0 and the agent's own uid may replace
 *		anything, others only their own maps.  published may be 0: now.
 *		Not GM_OBJECT_HELD: that takes two steps.
 * ret_why	the error and its remedy
 *
 * Returns	0
 *		-EINVAL		the name is empty, too long, or has blanks or
 *				control characters in it
 *		-EACCES		the name belongs to another user
 *		-EDQUOT		the uid has as much as it may have
 *		-ENOSPC		the directory or the heap is full, or it is to
 *				be committed and a row has not so much left
 *		-ENODEV, -EOVERFLOW	as gm_ledger_admit(),
 *					gm_ledger_reservation()
 *		-ENOMEM
 */
int gm_publish_layers(struct gm_daemon *d, const struct gm_layers *layers,
		      char ret_why[GM_WHY_BYTES], uint64_t *ret_version);

/*
 * gm_publish_prepare - all of gm_publish_layers() that can fail
 *
 * ret_put	pay it back with gm_publish_store() or gm_directory_abandon()
 *
 * Returns	as gm_publish_layers()
 */
int gm_publish_prepare(struct gm_daemon *d, const struct gm_layers *layers,
		       char ret_why[GM_WHY_BYTES], struct gm_put *ret_put);

/* Store the slot.  A held map's holder has been stored before,
 * gm_pins_keep(). */
void gm_publish_store(struct gm_daemon *d, const struct gm_put *put);

/*
 * gm_publish_restore - publish a map of a state file
 *
 * version	the map's version will be above this, too
 *
 * Limits of users do not apply: they did when the map was acknowledged.  The
 * memory that it reserves must still fit into the rows.
 *
 * Returns	0, -ENODEV, -ENOSPC, -ENOMEM
 */
int gm_publish_restore(struct gm_daemon *d, const struct gm_layers *layers,
		       uint64_t version, char ret_why[GM_WHY_BYTES]);

#endif
