/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * register - a client's memory, files, programs and masks that jobs of its
 * session may name.
 *
 * Memory comes as a memfd with REGISTER, is checked here, and is mapped by the
 * workers of the rows that it is registered for.  A file to load from comes the
 * same way, is checked by readable.h, and is kept open by the workers.  The
 * agent keeps the descriptor for later workers, and closes it when no worker
 * has it any more: after FORGET, or with the session.
 *
 * A client may send any descriptor, of a file system that never answers for
 * instance.  So no call that could wait is made on it before it is known to be
 * a memfd, and the closing thread closes refused descriptors and files.
 */
#ifndef GM_DAEMON_SESSIONS_REGISTER_H
#define GM_DAEMON_SESSIONS_REGISTER_H

#include "agent/daemon/base/connection.h"

struct gm_mask_held;
struct gm_registration;

TAILQ_HEAD(gm_registration_list, gm_registration);

/* Drop those of a session that is being freed. */
void gm_registrations_free(struct gm_session *session);

/* Let go of what has this handle, and answer @request then.  Returns 0, or
 * -ENOENT: the session has registered nothing of the kind. */
int gm_registration_forget(struct gm_connection *c,
			   const struct gm_control *request, uint64_t handle);

/* Handler, see dispatch.h. */
int gm_registration_handle(struct gm_connection *c, const struct gm_request *r);

#endif
