/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * oom - which of the agent's processes the kernel kills for want of memory.
 *
 * The end of a worker ends its sessions' jobs; the end of gpumapd ends every
 * session.  Sessions' memory makes both look large, and their clients small:
 * also a client that binds its memory to a node that it has filled, and has a
 * worker touch it.
 */
#ifndef GM_DAEMON_BASE_OOM_H
#define GM_DAEMON_BASE_OOM_H

#include <sys/types.h>

/* gpumapd is killed last, if it may say so (root may) and the administrator has
 * not set a score of gpumapd's. */
void gm_oom_protect(void);

/* A child of gpumapd is killed before it, and after most others. */
void gm_oom_offer(pid_t child);

#endif
