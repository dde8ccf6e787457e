/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * open_cards - cards that workers of other rows have open.
 *
 * NCCL opens every card of the node by NVML when a process's first clique
 * begins, whichever cards that process may use, and closes none (NCCL 2.30.7,
 * src/misc/nvmlwrap.cc).  RCCL has no NVML, and what follows is of CUDA's
 * cards.  The driver resets no card that a process has open.  A
 * card that is drained is therefore not closed before every worker that has
 * begun a clique, or was asked to join a group and has not answered, has ended
 * or answered that it did not: such a worker ends soon after its last session
 * has, and no other one begins a clique meanwhile.
 */
#ifndef GM_DAEMON_MESHES_OPEN_CARDS_H
#define GM_DAEMON_MESHES_OPEN_CARDS_H

#include "agent/daemon/workers/worker_users.h"

extern const struct gm_worker_user gm_open_cards_worker_user;

#endif
