/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * score - compute a row's share of the work, and the memory that jobs may use
 * on it.
 *
 * Both formulas are those of the gam runtime, so that a node that migrates
 * keeps its ranking: more free memory, more multiprocessors and a newer
 * architecture score higher.  Every product below is by a power of two and so
 * exact: a compiler that fuses it with the addition changes no bit.
 */
#ifndef GM_SCORE_H
#define GM_SCORE_H

#include <stdint.h>

/*
 * gm_score - a row's weight against the node's other rows
 *
 * sm_count	multiprocessors; for host rows the number that the agent
 *		publishes
 * free_bytes	memory free now, so the score changes with the load
 * cc_major	major compute capability, 0 for a row that has none
 *
 * Returns	the score, in no unit; below zero only if @sm_count is
 * Threads	any
 */
double gm_score(int32_t sm_count, uint64_t free_bytes, int32_t cc_major);

/*
 * gm_budget - bytes that jobs may take on a row without a reservation
 *
 * Returns	the free bytes, but never more than half of @total_bytes
 * Threads	any
 */
uint64_t gm_budget(uint64_t free_bytes, uint64_t total_bytes);

#endif
