/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpu_cases - what every driver's rows must do, on a bench that is open.
 *
 *	gpu_cases.c		results, slices, and the order of what is under
 *				way
 *	gpu_memory_cases.c	memory of the device and of clients
 */
#ifndef GM_TEST_SUPPORT_GPU_CASES_H
#define GM_TEST_SUPPORT_GPU_CASES_H

#include "tests/support/gpu_bench.h"

void gpu_cases_work(struct bench *bench);
void gpu_cases_large(struct bench *bench); /* of megabytes */
void gpu_cases_memory(struct bench *bench);

/* A client takes away memory that a job is to read. */
void gpu_cases_taken_away(struct bench *bench);

/* A device that was lost by what returned @rc is so then and ever after, with
 * this code. */
void gpu_cases_lost(struct bench *bench, int rc, int code);

#endif
