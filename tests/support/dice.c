/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/dice.h"

uint64_t dice_state = UINT64_C(0x9e3779b97f4a7c15);

uint64_t dice(uint64_t n)
{
	uint64_t state = dice_state;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	dice_state = state;
	state >>= 16;
	/* The same without a division, which takes longest. */
	return n & (n - 1) ? state % n : state & (n - 1);
}
