/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#define STAGE_CUDA 1
#include "tests/system/jobs/trace.c"
