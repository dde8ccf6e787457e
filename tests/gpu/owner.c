/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * An owner without a context: a process that creates memory, never maps it and
 * never makes a context.  A worker that writes to it dies under a kernel; the
 * owner has it still, and the next worker reads what the first one wrote, and
 * copies it within the card to memory of its own, as rows copy from each other.
 */

#include <fcntl.h>

#include "tests/gpu/gpu.h"

#define BYTES (64 * GPU_MIB)
#define WORDS (BYTES / 4)

static CUmemGenericAllocationHandle create(void)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return cu.cuMemCreate(&handle, BYTES, &prop, 0) ? 0 : handle;
}

/* ---- parts -------------------------------------------------------------- */

/* Sends its memory's descriptor once for each byte that it receives. */
static int own(void)
{
	CUmemGenericAllocationHandle handle;
	CUcontext context = NULL;
	char byte;

	WANT(!cu.cuInit(0) && (handle = create()));
	while (gpu_hear(GPU_PART_SOCKET, &byte, 1, NULL) && byte == 'm') {
		int fd = -1;

		WANT(!cu.cuMemExportToShareableHandle(
			&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
			0));
		WANT(gpu_tell(GPU_PART_SOCKET, &byte, 1, fd));
		close(fd);
	}
	WANT(!cu.cuCtxGetCurrent(&context) && !context);
	WANT(!cu.cuMemRelease(handle));
	return 0;
}

static CUdeviceptr import(int fd, CUmemGenericAllocationHandle *ret_handle)
{
	CUmemAccessDesc access;
	CUdeviceptr at = 0;

	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	if (cu.cuMemImportFromShareableHandle(
		    ret_handle, (void *)(intptr_t)fd,
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
	    cu.cuMemAddressReserve(&at, BYTES, 0, 0, 0) ||
	    cu.cuMemMap(at, BYTES, 0, *ret_handle, 0) ||
	    cu.cuMemSetAccess(at, BYTES, &access, 1))
		return 0;
	return at;
}

/* A worker's readings at both ends, and the rate of its copy. */
struct found {
	uint32_t ends[2];
	double gbs;
};

/* By way of memory of its own. */
static void read_copy(CUdeviceptr at, struct found *found)
{
	const size_t rounds = (size_t)gpu_rounds(200, 2);
	CUdeviceptr own = 0;
	CUstream stream;
	double from;

	WANT(!cu.cuMemAlloc_v2(&own, BYTES));
	WANT(!cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	from = contract_now_ms();
	for (size_t i = 0; i < rounds; i++)
		WANT(!cu.cuMemcpyDtoDAsync_v2(own, at, BYTES, stream));
	WANT(!cu.cuStreamSynchronize(stream));
	found->gbs =
		(double)(rounds * BYTES) / 1e6 / (contract_now_ms() - from);
	WANT(!cu.cuMemcpyDtoH_v2(&found->ends[0], own, 4));
	WANT(!cu.cuMemcpyDtoH_v2(&found->ends[1], own + BYTES - 4, 4));
	WANT(!cu.cuStreamDestroy_v2(stream) && !cu.cuMemFree_v2(own));
}

/* Writes @seed, or for 0 reads what is there; with a kernel that never ends
 * where it wrote. */
static int work(uint64_t seed)
{
	struct found found = { .gbs = 0 };
	CUdeviceptr at, word = 0;
	CUmemGenericAllocationHandle handle = 0;
	void *params[] = { &word };
	CUcontext context;
	CUmodule module;
	CUfunction f;
	char byte;
	int fd;

	WANT(gpu_hear(GPU_PART_SOCKET, &byte, 1, &fd) && fd >= 0);
	WANT(!cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&context, 0) &&
	     !cu.cuCtxSetCurrent(context) && (at = import(fd, &handle)));
	close(fd);
	if (seed) {
		WANT(!cu.cuMemsetD32_v2(at, (uint32_t)seed, WORDS));
		WANT(!cu.cuModuleLoadData(&module, CONTRACT_KERNELS));
		WANT(!cu.cuModuleGetFunction(&f, module, "contract_spin"));
		WANT(!cu.cuMemAlloc_v2(&word, 4096) &&
		     !cu.cuMemsetD32_v2(word, 0, 1024) &&
		     !cu.cuCtxSynchronize());
		WANT(!cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params,
					NULL));
	} else {
		read_copy(at, &found);
	}
	WANT(gpu_tell(GPU_PART_SOCKET, &found, sizeof(found), -1));
	while (seed)
		pause();
	WANT(!cu.cuMemUnmap(at, BYTES) && !cu.cuMemAddressFree(at, BYTES) &&
	     !cu.cuMemRelease(handle));
	WANT(!cu.cuCtxSetCurrent(NULL) && !cu.cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

static int play(char **argv)
{
	if (contract_load(argv))
		return 251;
	return strcmp(argv[1], "own") == 0 ? own()
					   : work(strtoull(argv[2], NULL, 10));
}

/* ---- the test ----------------------------------------------------------- */

/* A worker with the owner's memory. */
static bool begin_work(struct gpu_part *owner, uint64_t seed,
		       struct gpu_part *ret_worker, struct found *ret_found)
{
	bool is_begun;
	int fd = -1;
	char byte;

	if (!gpu_tell(owner->socket, "m", 1, -1) ||
	    !gpu_hear(owner->socket, &byte, 1, &fd) || fd < 0)
		return false;
	is_begun = gpu_part_begin("work", seed, ret_worker) &&
		   gpu_tell(ret_worker->socket, "m", 1, fd) &&
		   gpu_hear(ret_worker->socket, ret_found, sizeof(*ret_found),
			    NULL);
	close(fd);
	return is_begun;
}

static void memory_survives_the_workers(void)
{
	struct gpu_part owner = { .socket = -1 }, worker = owner;
	struct found found;

	if (!OK(gpu_part_begin("own", 0, &owner)))
		return;
	for (uint32_t seed = 1; seed <= 3; seed++) {
		double from;

		if (!OK(begin_work(&owner, 1000 + seed, &worker, &found)))
			break;
		from = contract_now_ms();
		kill(worker.pid, SIGKILL);
		EQ(gpu_part_end(&worker), -SIGKILL);
		if (!OK(begin_work(&owner, 0, &worker, &found)))
			break;
		FACT("\"worker_killed_next_reads_ms\":%.1f,"
		     "\"copy_within_card_gb_s\":%.1f",
		     contract_now_ms() - from, found.gbs);
		EQ(found.ends[0], 1000 + seed);
		EQ(found.ends[1], 1000 + seed);
		EQ(gpu_part_end(&worker), 0);
	}
	OK(gpu_tell(owner.socket, "e", 1, -1));
	EQ(gpu_part_end(&owner), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc == 3)
		return play(argv);
	if (!gpu_begin(argv))
		return tap_done();
	if (gpu_attribute(
		    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) !=
	    1)
		SKIP(1, "no memory by descriptors on this device");
	else
		memory_survives_the_workers();
	return tap_done();
}
