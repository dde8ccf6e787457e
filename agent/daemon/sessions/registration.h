/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * registration - what the files that make registrations share.
 *
 *	register.c		memory and files; the end of all
 *	registration_mask.c	masks
 *	registration_program.c	programs
 */
#ifndef GM_DAEMON_SESSIONS_REGISTRATION_H
#define GM_DAEMON_SESSIONS_REGISTRATION_H

#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/sessions/programs.h"
#include "agent/daemon/sessions/register.h"
#include "agent/daemon/workers/worker_request.h"

/* One row's part in it. */
struct gm_registered {
	TAILQ_ENTRY(gm_registered) entry;
	struct gm_registration *of;
	struct gm_worker_request request;
	uint32_t row;
	/* For a mask on a device: the replica that the worker imports.  The
	 * request is made when the replica exists. */
	struct gm_mask_device *device;
	struct gm_mask_wait wait;
};

struct gm_registration {
	TAILQ_ENTRY(gm_registration) entry;
	struct gm_session *session;
	uint64_t handle;
	uint64_t at;
	uint64_t bytes;
	uint64_t charged; /* whole pages */
	uint32_t flags;
	/* The first is the file; a program has one of each form.  -1: it is
	 * not opened. */
	int fds[GM_PROGRAM_FORMS];
	char program[64]; /* its name; "": none */
	char kernel[64];  /* of device code: its entry point */
	/* Device code of the client's own, GM_PROGRAM_IMAGE's on any card. */
	bool is_brought;
	struct gm_mask_held *mask; /* or NULL; it has no descriptor then */
	bool is_forgotten;         /* its client waits for the last row */
	TAILQ_HEAD(, gm_registered)
	reaches; /* empty for a moment only, but a
					 * mask's */
};

/* The registration with this handle, or NULL. */
struct gm_registration *gm_registration_find(const struct gm_session *session,
					     uint64_t handle);

/* Make one, of a checked file; @charged bytes count with the arenas.  Takes @fd
 * over unless it fails.  Returns 0, -EDQUOT, -ENOMEM. */
int gm_registration_keep(struct gm_connection *c, const struct gm_register *ask,
			 int fd, uint64_t charged,
			 struct gm_registration **ret_reg);

/* Bytes in whole pages of this kernel, which may be larger than the
 * layout's. */
uint64_t gm_registration_charge(uint64_t at, uint64_t bytes);

/* The one of a program's files that the row gets. */
enum gm_program_form gm_registration_form(const struct gm_registration *reg,
					  uint32_t row);

/* Free one that no row has any more. */
void gm_registration_drop(struct gm_registration *reg);

/* Make it known to a row.  @c waits for the answer.  Returns 0 or the
 * refusal. */
int gm_registration_reach(struct gm_connection *c, struct gm_registration *reg,
			  uint32_t row, const struct gm_control *request);

/* Is it new to the row?  Returns 0, -EALREADY. */
int gm_registration_check_row(struct gm_connection *c, uint32_t row,
			      const struct gm_registration *reg);

/* A row's part, not asked for; NULL: no memory. */
struct gm_registered *gm_registered_new(struct gm_registration *reg,
					uint32_t row);

/* Ask the row's worker.  @c waits for the answer; where this fails the part is
 * freed and it does not. */
int gm_registered_ask(struct gm_registered *reach, struct gm_connection *c,
		      const struct gm_control *request);

/* Free a part whose request is on no attachment's list. */
void gm_registered_free(struct gm_registered *reach);

/* Register a mask that a session has, which mask_handles.h has checked: no row
 * knows of it yet.  @held is the registration's unless this fails.  Returns 0
 * or the refusal. */
int gm_registration_mask(struct gm_connection *c, uint64_t handle,
			 struct gm_mask_held *held, uint64_t bytes,
			 uint64_t charged);

/* Make that mask known to a row that the session has a queue on.  @c waits for
 * the answer.  Returns 0, -ENOENT, or the refusal. */
int gm_registration_reach_mask(struct gm_connection *c,
			       const struct gm_control *request,
			       uint64_t handle, uint32_t row);

/* Handlers of programs, see dispatch.h.  The program is made known to a row,
 * for whose worker to come it is kept like the rest. */
int gm_registration_program_handle(struct gm_connection *c,
				   const struct gm_request *r);

#endif
