/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_users - the modules that have something of a row's worker besides its
 * service to sessions: masks and the sharing of buffers, which this folder does
 * not know.
 *
 * They are listed in agent/daemon/subscribers.c and asked in that order.  A
 * function that a module has no use for is NULL.
 */
#ifndef GM_DAEMON_WORKERS_WORKER_USERS_H
#define GM_DAEMON_WORKERS_WORKER_USERS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"

struct gm_daemon;
struct gm_worker_process;
struct gm_wire;

struct gm_worker_user {
	/* Is the row to have a worker? */
	bool (*wants_worker)(const struct gm_worker_process *worker);
	/* Is a worker that no session needs to stay? */
	bool (*keeps_worker)(const struct gm_worker_process *worker);
	/* Is one that is to end waited for? */
	bool (*awaits_worker)(const struct gm_worker_process *worker);
	/* Does another row's worker have the device open for it? */
	bool (*uses_row)(const struct gm_daemon *d, uint32_t row);
	/* Which, if there is one, and what the administrator can do. */
	void (*explain_use)(const struct gm_daemon *d, uint32_t row,
			    char ret_why[GM_WHY_BYTES]);
	/* Send what there is to send.  Returns 0, or a negative errno of the
	 * socket. */
	int (*say)(struct gm_worker_process *worker);
	/* A record from it.  Returns whether it was for this module, which has
	 * the descriptor then. */
	bool (*on_message)(struct gm_worker_process *worker,
			   const struct gm_wire *wire, int fd);
	/* The worker has ended; @well: it was asked to. */
	void (*worker_gone)(struct gm_worker_process *worker, bool well);
	/* No answer can come from it, or be sent. */
	void (*hung_up)(struct gm_worker_process *worker);
	/* There will be none soon. */
	void (*refused)(struct gm_worker_process *worker, int status,
			const char *why);
	/* The row is taken out of service. */
	void (*row_closing)(struct gm_daemon *d, uint32_t row);
};

/* Each asks all of them: is there one that does, the first error, or all in
 * turn. */
bool gm_worker_users_wants_worker(const struct gm_worker_process *worker);
bool gm_worker_users_keeps_worker(const struct gm_worker_process *worker);
bool gm_worker_users_awaits_worker(const struct gm_worker_process *worker);
bool gm_worker_users_uses_row(const struct gm_daemon *d, uint32_t row);
void gm_worker_users_explain_use(const struct gm_daemon *d, uint32_t row,
				 char ret_why[GM_WHY_BYTES]);
int gm_worker_users_send(struct gm_worker_process *worker);
bool gm_worker_users_on_message(struct gm_worker_process *worker,
				const struct gm_wire *wire, int fd);
void gm_worker_users_worker_gone(struct gm_worker_process *worker, bool well);
void gm_worker_users_hung_up(struct gm_worker_process *worker);
void gm_worker_users_refused(struct gm_worker_process *worker, int status,
			     const char *why);
void gm_worker_users_row_closing(struct gm_daemon *d, uint32_t row);

#endif
