/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cliques - cards that do collectives among themselves, by NCCL.
 *
 * Jobs of two sessions may come to two cards in two orders, and each card would
 * wait for the other.  So a row serves the cliques of one session at a time,
 * whose own order is the same everywhere.  Groups of other sessions use
 * windows.
 *
 * NCCL opens every card of the node by NVML when a process's first clique
 * begins, whichever cards that process may use, and closes none (NCCL 2.30.7,
 * src/misc/nvmlwrap.cc).  The driver resets no card that a process has open.  A
 * card that is drained is therefore not closed before every worker that has
 * begun a clique has ended: such a worker ends soon after its last session has,
 * and no other one begins a clique meanwhile.
 */
#ifndef GM_DAEMON_MESHES_CLIQUES_H
#define GM_DAEMON_MESHES_CLIQUES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/workers/worker_users.h"

struct gm_session;

/* Are all @n rows cards that may meet, is none of them in use by another
 * session, and is no card drained? */
bool gm_cliques_may_meet(const struct gm_session *session, const uint32_t *rows,
			 uint32_t n);

/* A clique of the session has these rows, and has them no more. */
void gm_cliques_take(const struct gm_session *session, uint32_t row);
void gm_cliques_give_back(const struct gm_session *session, uint32_t row);

extern const struct gm_worker_user gm_clique_worker_user;

#endif
