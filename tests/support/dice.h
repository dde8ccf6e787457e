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

static uint64_t dice_state = UINT64_C(0x9e3779b97f4a7c15);

static inline uint64_t dice(uint64_t n)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (dice_state >> 16) % n;
}

#endif
