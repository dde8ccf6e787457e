/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* uring - may we use io_uring, and if not, which setting forbids it? */
#ifndef GM_DAEMON_BASE_URING_H
#define GM_DAEMON_BASE_URING_H

#include "agent/common/refusal.h"

/*
 * gm_uring_check - set a ring up and take it down again
 *
 * ret_why	what refuses, and the remedy
 *
 * Returns	0, or what io_uring_setup returns
 */
int gm_uring_check(char ret_why[GM_WHY_BYTES]);

#endif
