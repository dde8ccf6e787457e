/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* What function number i of tests/tiny/driver.c returns. */
#ifndef TINY_DRIVER_H
#define TINY_DRIVER_H

#define TINY_RESULT(i) ((gm_cu_result)(5000 + (i)))

#endif
