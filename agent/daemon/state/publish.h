/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * publish - put objects of any kind into the directory, with what they reserve.
 *
 * An object is the words of its block, which begin with a struct
 * gm_object_image: name, owner and flags are in there.  A version and, where it
 * is 0, the time are put in when there is room.
 */
#ifndef GM_DAEMON_STATE_PUBLISH_H
#define GM_DAEMON_STATE_PUBLISH_H

#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/state.h"

/*
 * gm_publish_prepare - all of a publication that can fail
 *
 * words	owner_uid is the client's: 0 and the agent's own uid may replace
 *		anything, others only their own objects.  The version will be
 *		above theirs.
 * ret_put	pay it back with gm_publish_store() or gm_directory_abandon()
 *
 * Returns	0
 *		-EINVAL, -EACCES, -EDQUOT	as gm_directory_may_replace()
 *		-ENOSPC, -ENOMEM	as gm_directory_prepare()
 *		and what the kind's promise() returns
 */
int gm_publish_prepare(struct gm_daemon *d, const struct gm_state_kind *kind,
		       uint64_t *words, char ret_why[GM_WHY_BYTES],
		       struct gm_put *ret_put);

/* Store the slot.  A held map's holder has been stored before,
 * gm_pins_keep(). */
void gm_publish_store(struct gm_daemon *d, const struct gm_state_kind *kind,
		      const uint64_t *words, const struct gm_put *put);

/*
 * gm_publish_restore - publish an object of a state file, likewise
 *
 * Limits of users do not apply: they did when the object was acknowledged.  The
 * memory that it reserves must still fit into the rows.
 *
 * Returns	0, -ENODEV, -ENOSPC, -ENOMEM
 */
int gm_publish_restore(struct gm_daemon *d, const struct gm_state_kind *kind,
		       uint64_t *words, char ret_why[GM_WHY_BYTES]);

#endif
