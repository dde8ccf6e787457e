/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * register - memory and files of a client's own that jobs of its session
 * may name, and programs, and masks.
 *
 * Memory comes as a memfd with REGISTER, is judged here, and mapped by the
 * workers of the rows that it is registered for; a file to load from comes so,
 * too, is judged by readable.h, and kept open by them.  Its descriptor is kept
 * for workers to come, and given back when no worker has it any more: by
 * FORGET, or with the session.
 *
 * What a client sends may be any descriptor at all, of a file system that never
 * answers for instance.  So nothing is asked of it that could wait before it is
 * known to be a memfd, and what is refused goes into the gutter, as do files
 * that are given back.
 */
#ifndef GM_DAEMON_SESSIONS_REGISTER_H
#define GM_DAEMON_SESSIONS_REGISTER_H

#include "agent/daemon/base/connection.h"

struct gm_mask_held;
struct gm_registration;

TAILQ_HEAD(gm_registration_list, gm_registration);

/* Of a session that is being freed. */
void gm_registrations_free(struct gm_session *session);

/* Let go of what has this handle, and answer @request then.  Returns 0, or
 * -ENOENT: the session has registered nothing of the kind. */
int gm_registration_forget(struct gm_connection *c,
			   const struct gm_control *request, uint64_t handle);

/* Handlers of programs, see dispatch.h.  The program is made known to a row,
 * for whose worker to come it is kept like the rest. */
int gm_registration_program_handle(struct gm_connection *c,
				   const struct gm_request *r);
int gm_registration_image_handle(struct gm_connection *c,
				 const struct gm_request *r);

/* A mask that a session has, which is judged by mask_handles.h: no row knows of
 * it yet. @held is the registration's where it is not refused. Returns 0 or
 * the refusal. */
int gm_registration_mask(struct gm_connection *c, uint64_t handle,
			 struct gm_mask_held *held, uint64_t bytes,
			 uint64_t charged);

/* It, made known to a row that the session has a queue on.  @c waits for the
 * answer.  Returns 0, -ENOENT, or the refusal. */
int gm_registration_reach_mask(struct gm_connection *c,
			       const struct gm_control *request,
			       uint64_t handle, uint32_t row);

/* Handler, see dispatch.h. */
int gm_registration_handle(struct gm_connection *c, const struct gm_request *r);

#endif
