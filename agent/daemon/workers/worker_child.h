/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_child - the process of a row: its state, its socket, its end, and what
 * the row shows of it.
 */
#ifndef GM_DAEMON_WORKERS_WORKER_CHILD_H
#define GM_DAEMON_WORKERS_WORKER_CHILD_H

#include "agent/daemon/workers/worker_process.h"

/* Enter a state.  Its timer fires after @limit_ns, 0: never. */
void gm_worker_child_enter(struct gm_worker_process *worker,
			   enum gm_worker_process_state state,
			   uint64_t limit_ns);

/* Publish this state of the row, if the row shows this process. */
void gm_worker_child_show(const struct gm_worker_process *worker,
			  uint32_t state, const char *reason, int error);

/* Show the pid of the row's worker, or 0, likewise. */
void gm_worker_child_show_pid(const struct gm_worker_process *worker,
			      pid_t pid);

/* Fill in its name for the log and the path of its lock.  Returns 0 or
 * -ENAMETOOLONG. */
int gm_worker_child_name(struct gm_worker_process *worker);

/* Has the worker all cards of CUDA open, by NCCL, or may it be about to? */
bool gm_worker_child_has_cards(const struct gm_worker_process *worker);

/* Is any of those, or the whole of one that is split, drained? */
bool gm_worker_child_drains_card(const struct gm_daemon *d);

/* May its device not be used? */
bool gm_worker_child_is_barred(const struct gm_worker_process *worker);

/* Does its back-off last so long that a client had better take another row? */
bool gm_worker_child_rests_long(const struct gm_worker_process *worker);

/* End the child: @why is what the row will say. */
void gm_worker_child_kill(struct gm_worker_process *worker, const char *why);

/* The other end of the socket is closed, or broken. */
void gm_worker_child_hung_up(struct gm_worker_process *worker);

/* Say this to the child.  Returns 0, or a negative errno: -EAGAIN when there is
 * no room. */
int gm_worker_child_send(struct gm_worker_process *worker,
			 const struct gm_wire *wire, const int *fds,
			 size_t n_fds);

/* The time to wait after so many early deaths, in nanoseconds. */
uint64_t gm_worker_child_back_off(uint32_t deaths);

/* No session needs the worker any more: it ends when it has been idle for long
 * enough. */
void gm_worker_child_unneeded(struct gm_worker_process *worker);

/* The first sign of its death, where there is one before the exit. */
void gm_worker_child_failing(struct gm_worker_process *worker);

#endif
