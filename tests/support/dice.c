/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/dice.h"

uint64_t dice_state = UINT64_C(0x9e3779b97f4a7c15);

uint64_t dice(uint64_t n)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (dice_state >> 16) % n;
}
