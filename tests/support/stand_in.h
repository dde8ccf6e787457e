/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* stand_in - run a test again on the stand-in's cards. */
#ifndef GM_TEST_SUPPORT_STAND_IN_H
#define GM_TEST_SUPPORT_STAND_IN_H

/* Run this test again under $CONTRACT_UNDER, which gives a machine its cards
 * and their kernels.  Returns where there is none, where the test runs there
 * already, and where $GM_CUDA_LIBRARY names the folder of another driver. */
void stand_in_exec(char **argv);

#endif
