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

#endif
