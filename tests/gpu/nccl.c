/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * NCCL with one rank, which is all that one card has: that the library takes
 * the declarations that we call it by, that a sum comes back, and what its
 * rendezvous begins with.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>

#include "tests/gpu/gpu.h"

#define N 262144u

struct ncclComm;
typedef struct {
	char internal[128];
} ncclUniqueId;

enum { NCCL_FLOAT32 = 7, NCCL_SUM = 0 };

static struct {
	int (*ncclGetVersion)(int *version);
	int (*ncclGetUniqueId)(ncclUniqueId *id);
	int (*ncclCommInitRank)(struct ncclComm **comm, int ranks,
				ncclUniqueId id, int rank);
	int (*ncclAllReduce)(const void *from, void *to, size_t n, int type,
			     int op, struct ncclComm *comm, CUstream stream);
	int (*ncclCommGetAsyncError)(struct ncclComm *comm, int *result);
	int (*ncclCommDestroy)(struct ncclComm *comm);
} nccl;

/* Where Python's packages have it; the system's own is looked for first. */
static void *open_package(void)
{
	static const char *const patterns[] = {
		"/opt/*/.venv/lib/python3*/site-packages/nvidia/nccl/lib/"
		"libnccl.so.2",
		"/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/"
		"libnccl.so.2",
		"/opt/*/lib/python3*/site-packages/nvidia/nccl/lib/"
		"libnccl.so.2",
	};
	void *library = NULL;

	for (size_t i = 0; i < 3 && !library; i++) {
		glob_t found;

		if (glob(patterns[i], 0, NULL, &found) == 0 && found.gl_pathc)
			library = dlopen(found.gl_pathv[0],
					 RTLD_NOW | RTLD_LOCAL);
		globfree(&found);
	}
	return library;
}

static bool load(void)
{
	const char *path = getenv("GPU_NCCL");
	void *library =
		dlopen(path ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

	if (!library && !path)
		library = open_package();
	if (!library) {
		LACK("nccl", 1, "no libnccl.so.2; $GPU_NCCL may say where");
		return false;
	}
#define LOAD(name) *(void **)&nccl.name = dlsym(library, #name)
	LOAD(ncclGetVersion);
	LOAD(ncclGetUniqueId);
	LOAD(ncclCommInitRank);
	LOAD(ncclAllReduce);
	LOAD(ncclCommGetAsyncError);
	LOAD(ncclCommDestroy);
#undef LOAD
	return OK(nccl.ncclGetVersion && nccl.ncclGetUniqueId &&
		  nccl.ncclCommInitRank && nccl.ncclAllReduce &&
		  nccl.ncclCommGetAsyncError && nccl.ncclCommDestroy);
}

/* A magic number and a socket's address, since 2.14. */
static void tell_of_the_rendezvous(const ncclUniqueId *id)
{
	uint16_t family, port;
	uint64_t magic;

	memcpy(&magic, id->internal, sizeof(magic));
	memcpy(&family, id->internal + 8, sizeof(family));
	memcpy(&port, id->internal + 10, sizeof(port));
	FACT("\"rendezvous_magic\":\"%#" PRIx64 "\",\"family\":%u,\"port\":%u",
	     magic, family, (unsigned int)(port >> 8 | (port & 0xff) << 8));
	OK(family == AF_INET || family == AF_INET6);
}

static void reduce(struct ncclComm *comm)
{
	static float in[N], out[N];
	CUdeviceptr at = 0;
	CUstream stream = NULL;
	unsigned int wrong = 0;
	int result = -1;

	for (uint32_t i = 0; i < N; i++)
		in[i] = (float)i;
	GOOD(cu.cuMemAlloc_v2(&at, 2 * sizeof(in)));
	GOOD(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	GOOD(cu.cuMemcpyHtoD_v2(at, in, sizeof(in)));
	EQ(nccl.ncclAllReduce((void *)(uintptr_t)at,
			      (void *)(uintptr_t)(at + sizeof(in)), N,
			      NCCL_FLOAT32, NCCL_SUM, comm, stream),
	   0);
	GOOD(cu.cuStreamSynchronize(stream));
	EQ(nccl.ncclCommGetAsyncError(comm, &result), 0);
	EQ(result, 0);
	GOOD(cu.cuMemcpyDtoH_v2(out, at + sizeof(in), sizeof(out)));
	for (uint32_t i = 0; i < N; i++)
		wrong += out[i] != in[i];
	EQ(wrong, 0);
	GOOD(cu.cuStreamDestroy_v2(stream));
	GOOD(cu.cuMemFree_v2(at));
}

static void one_rank_is_a_group(void)
{
	struct ncclComm *comm = NULL;
	double from = contract_now_ms();
	ncclUniqueId id;
	int version = 0;

	EQ(nccl.ncclGetVersion(&version), 0);
	if (!EQ(nccl.ncclGetUniqueId(&id), 0))
		return;
	tell_of_the_rendezvous(&id);
	if (!contract_context())
		return;
	from = contract_now_ms();
	if (EQ(nccl.ncclCommInitRank(&comm, 1, id, 0), 0)) {
		FACT("\"nccl\":%d,\"init_ms\":%.1f", version,
		     contract_now_ms() - from);
		reduce(comm);
		EQ(nccl.ncclCommDestroy(comm), 0);
	}
	contract_end_context();
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	setenv("NCCL_SOCKET_IFNAME", "lo", 0);
	setenv("NCCL_IB_DISABLE", "1", 0);
	if (!gpu_begin(argv))
		return tap_done();
	if (!gpu_is_real())
		SKIP(1, "no NCCL stands in for NCCL yet");
	else if (load())
		one_rank_is_a_group();
	return tap_done();
}
