/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The result of function number i of tests/support/tiny/driver.c. */
#ifndef GM_TEST_SUPPORT_TINY_DRIVER_H
#define GM_TEST_SUPPORT_TINY_DRIVER_H

#define TINY_RESULT(i) ((gm_cu_result)(5000 + (i)))

#endif
