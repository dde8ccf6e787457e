/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * dice.h - numbers by chance, the same in every run.
 *
 * A property is tried on what dice(n), 0 to n - 1, makes up.  Failing cases
 * are found again because the order of throws is fixed.
 */
#ifndef GM_TEST_SUPPORT_DICE_H
#define GM_TEST_SUPPORT_DICE_H

#include <stdint.h>

extern uint64_t dice_state; /* the seed; not 0 */

uint64_t dice(uint64_t n);

#endif
