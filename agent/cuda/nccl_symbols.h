/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nccl_symbols - every function of NCCL that gpumap calls.
 *
 * A table without a guard: who includes it defines
 *
 *	SYMBOL(name, arguments)
 *
 * All of them are there since 2.19, or it is no NCCL that we take.
 */

/* One table, one shape. */
/* clang-format off */

SYMBOL(ncclGetVersion, (int *ret_version))
SYMBOL(ncclGetUniqueId, (struct gm_nccl_id *ret_id))
SYMBOL(ncclCommInitRankConfig,
       (struct ncclComm **ret_comm, int n, struct gm_nccl_id id, int rank,
	struct gm_nccl_config *config))
SYMBOL(ncclCommGetAsyncError,
       (struct ncclComm *comm, gm_nccl_result *ret_result))
SYMBOL(ncclCommAbort, (struct ncclComm *comm))
SYMBOL(ncclAllReduce,
       (const void *send, void *recv, size_t n, unsigned int type,
	unsigned int op, struct ncclComm *comm, struct CUstream_st *stream))
SYMBOL(ncclAllGather,
       (const void *send, void *recv, size_t n, unsigned int type,
	struct ncclComm *comm, struct CUstream_st *stream))
SYMBOL(ncclReduceScatter,
       (const void *send, void *recv, size_t n, unsigned int type,
	unsigned int op, struct ncclComm *comm, struct CUstream_st *stream))
SYMBOL(ncclBroadcast,
       (const void *send, void *recv, size_t n, unsigned int type, int root,
	struct ncclComm *comm, struct CUstream_st *stream))
SYMBOL(ncclSend,
       (const void *send, size_t n, unsigned int type, int peer,
	struct ncclComm *comm, struct CUstream_st *stream))
SYMBOL(ncclRecv,
       (void *recv, size_t n, unsigned int type, int peer,
	struct ncclComm *comm, struct CUstream_st *stream))

/* clang-format on */

#undef SYMBOL
