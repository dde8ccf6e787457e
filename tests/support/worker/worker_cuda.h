/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_cuda.h - worker_row.h for the first CUDA card of the machine.
 *
 * Under $CONTRACT_UNDER the cards are the stand-in's.  The worker loads the
 * driver by itself, as it would a real one.
 */
#ifndef GM_TEST_SUPPORT_WORKER_WORKER_CUDA_H
#define GM_TEST_SUPPORT_WORKER_WORKER_CUDA_H

#include "agent/cuda/driver.h"
#include "tests/support/worker/worker_row.h"

/* In a process of its own: a driver that is initialised does not survive a
 * fork.  Returns whether there is a card. */
bool ask_uuid(void);
void cuda_row(struct row *row);

#endif
