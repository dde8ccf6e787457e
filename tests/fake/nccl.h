/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nccl - one process's state of the stand-in for NCCL.
 *
 * Ranks are processes that meet at a socket of the one that made the id, which
 * ends with that process, and then have a socket for each pair of them.  A
 * collective is three steps in its stream: copies out of device memory, a
 * function on the host that moves bytes between the ranks, copies back.  A
 * reduction of elements that are not aligned faults, as its kernel would.  Each
 * waits for its peers as a kernel would: for ever, until the communicator is
 * aborted; a peer's death does not end it.  One collective of a device runs at
 * a time, so that ranks that begin two of them in different orders wait for
 * each other.
 *
 * $FAKE_NCCL lists the faults of a process, words with blanks between:
 *
 *	version=21903	the version that it reports
 *	absent		its ranks never come
 *	refuse		their init ends in an error at once
 *	slow=MS		its ranks come so much later
 *	async=N		its Nth collective ends in an asynchronous error
 *	abort=MS	an abort takes so long
 *	together	an abort waits for those of all other ranks
 *	tells		each operation of a stream is a line on stderr, and so
 *			are an id and the end of an abort
 *	strict		a process that ends by exit() with a communicator
 *			does so with status 77
 *	only=UUID	the words behind it count for the process of that card
 *
 * Built with FAKE_RCCL it is RCCL: that opens no cards by NVML, and where
 * NCCL_CUMEM_ENABLE asks for memory that RCCL cannot make, it has no clique
 * (RCCL 2.21.5, src/transport/p2p.cc).
 *			alone
 */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/stubs/nccl.h"
#include "tests/support/cuda_abi.h"

#ifdef FAKE_RCCL
#define FAKE_NCCL_VERSION 22005 /* of ROCm 6.2 */
#else
#define FAKE_NCCL_VERSION 22809
#endif
#define FAKE_NCCL_RANKS  256
#define FAKE_NCCL_MEMORY (UINT64_C(8) << 20) /* of its card, each rank */

/* In an ncclUniqueId. */
struct fake_nccl_id {
	char magic[8]; /* "fakenccl" */
	uint64_t number[2];
};

struct ncclComm {
	struct fake_nccl_id id;
	int rank, n, device;
	bool blocking;
	CUuuid gpu;
	CUmemGenericAllocationHandle memory; /* taken, and never used */
	CUfunction store;                    /* a word, to an address */
	int peers[FAKE_NCCL_RANKS];          /* sockets, -1 of this rank */
	pthread_t thread;                    /* of the init */
	bool has_thread;
	_Atomic int state; /* ncclResult_t */
	atomic_bool aborted;
	_Atomic int under_way; /* collectives that were begun and not ended */
	unsigned int begun;
};

/* The calls of the driver that we need. */
struct fake_nccl_cu {
	__typeof__(&cuCtxGetCurrent) ctx_get_current;
	__typeof__(&cuCtxGetDevice) ctx_get_device;
	__typeof__(&cuDeviceGetUuid_v2) device_get_uuid;
	__typeof__(&cuMemHostAlloc) host_alloc;
	__typeof__(&cuMemCreate) create;
	__typeof__(&cuMemRelease) release;
	__typeof__(&cuMemcpyDtoHAsync_v2) copy_out;
	__typeof__(&cuMemcpyHtoDAsync_v2) copy_in;
	__typeof__(&cuLaunchHostFunc) host_func;
	__typeof__(&cuModuleLoadData) load;
	__typeof__(&cuModuleGetFunction) get_function;
	__typeof__(&cuLaunchKernel) launch;
};

/* NULL where this process has no driver. */
const struct fake_nccl_cu *fake_nccl_cu(void);

/* The number of a fault of $FAKE_NCCL, 1 for one without; -1: it has none. */
long fake_nccl_fault(const char *name);
void fake_nccl_nap(long ms);

/* ---- nccl_wire.c --------------------------------------------------------- */

/* A new id, and the thread where its ranks meet. */
ncclResult_t fake_nccl_root(struct fake_nccl_id *ret_id);

/* Meet the others and have a socket to each.  Waits. */
ncclResult_t fake_nccl_meet(ncclComm_t comm);
void fake_nccl_part(ncclComm_t comm);

/* Wait until every other rank has parted, or is dead. */
void fake_nccl_await_others(ncclComm_t comm);

/* Bytes that one rank sends to another, and expects from it: NULL with no
 * bytes. */
struct fake_nccl_parcel {
	const void *out;
	void *in;
	uint64_t out_bytes, in_bytes;
	bool sends, receives;
};

/*
 * fake_nccl_exchange - with every other rank what there is for it
 *
 * what		both ends must mean the same
 *
 * Returns	ncclSuccess, ncclInvalidUsage when they do not, ncclRemoteError
 *		once it has been aborted
 */
ncclResult_t fake_nccl_exchange(ncclComm_t comm, uint64_t what,
				const struct fake_nccl_parcel *parcels);

/* ---- nccl_reduce.c ------------------------------------------------------- */

size_t fake_nccl_bytes(ncclDataType_t type); /* 0: no such type */

/* into[i] = into[i] op with[i]; an average is a sum that is divided at last. */
void fake_nccl_combine(ncclDataType_t type, ncclRedOp_t op, void *into,
		       const void *with, size_t count);
void fake_nccl_divide(ncclDataType_t type, void *values, size_t count, int n);

#endif
