/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * standing_clock - CLOCK_MONOTONIC by a test's own hand, in a suite that is
 * linked with --wrap=clock_gettime.
 */
#ifndef GM_TEST_SUPPORT_STANDING_CLOCK_H
#define GM_TEST_SUPPORT_STANDING_CLOCK_H

#include <stdint.h>

extern uint64_t standing_ns; /* the time that it is; 0: time goes on */

#endif
