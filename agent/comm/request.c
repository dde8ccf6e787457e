/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The request of a rank: how many bytes, and where they may lie. */

#include "agent/comm/comm.h"

#include "gpumap.h"
#include "shm/ops.h"

uint64_t gm_comm_given(const struct gm_comm_ask *ask, uint32_t rank,
		       uint32_t ranks)
{
	switch (ask->op) {
	case GM_COMM_ALL_REDUCE:
	case GM_COMM_ALL_GATHER:
	case GM_COMM_SEND:
		return ask->n;
	case GM_COMM_REDUCE_SCATTER:
		return ask->n * ranks;
	case GM_COMM_BROADCAST:
		return rank == ask->peer ? ask->n : 0;
	default:
		return 0;
	}
}

uint64_t gm_comm_gotten(const struct gm_comm_ask *ask, uint32_t rank,
			uint32_t ranks)
{
	switch (ask->op) {
	case GM_COMM_ALL_REDUCE:
	case GM_COMM_REDUCE_SCATTER:
	case GM_COMM_RECV:
		return ask->n;
	case GM_COMM_ALL_GATHER:
		return ask->n * ranks;
	case GM_COMM_BROADCAST:
		return rank == ask->peer ? 0 : ask->n;
	default:
		return 0;
	}
}

uint32_t gm_comm_each(uint32_t dtype)
{
	return gm_ops_takes(GPUMAP_OP_ALL_REDUCE, dtype, 0) == 0
		       ? gm_ops_dtype_bytes(dtype)
		       : 0;
}

bool gm_comm_is_aligned(const struct gm_comm_ask *ask, uint64_t send,
			uint64_t recv)
{
	return (send | recv) % gm_comm_each(ask->dtype) == 0;
}

/* One's own memory in both roles: apart, or where they may lie upon each
 * other. */
bool gm_comm_lie_well(const struct gm_comm_ask *ask, uint32_t rank,
		      uint32_t ranks, uint64_t send, uint64_t recv)
{
	uint32_t each = gm_comm_each(ask->dtype);
	uint64_t gives = gm_comm_given(ask, rank, ranks) * each;
	uint64_t gets = gm_comm_gotten(ask, rank, ranks) * each;
	uint64_t part = rank * ask->n * each;

	if (!send || !recv || recv + gets <= send || send + gives <= recv)
		return true;
	switch (ask->op) {
	case GM_COMM_ALL_GATHER:
		return send == recv + part;
	case GM_COMM_REDUCE_SCATTER:
		return recv == send + part;
	default:
		return send == recv;
	}
}
