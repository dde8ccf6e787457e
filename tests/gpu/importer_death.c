/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Death beside shared memory: an importer whose kernel faults leaves its
 * exporter as it was; an exporter that is killed leaves its importer the
 * memory, whose bytes come back with the last of them.  And what each call
 * returns after each kind of fault, for the record.
 */

#include <fcntl.h>

#include "tests/gpu/gpu.h"

#define BYTES (64 * GPU_MIB)
#define WORDS (BYTES / 4)

static CUmodule module;
static CUstream stream;

static bool start(void)
{
	CUcontext context;

	return !cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&context, 0) &&
	       !cu.cuCtxSetCurrent(context) &&
	       !cu.cuModuleLoadData(&module, CONTRACT_KERNELS) &&
	       !cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static bool stop(void)
{
	return !cu.cuStreamDestroy_v2(stream) && !cu.cuModuleUnload(module) &&
	       !cu.cuCtxSetCurrent(NULL) && !cu.cuDevicePrimaryCtxRelease_v2(0);
}

static CUresult launch(const char *name, void **params)
{
	CUfunction f = NULL;
	CUresult result = cu.cuModuleGetFunction(&f, module, name);

	return result ? result
		      : cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream,
					  params, NULL);
}

static CUresult store(CUdeviceptr at, uint32_t value)
{
	void *params[] = { &at, &value };

	return launch("contract_store", params);
}

/* ---- memory ------------------------------------------------------------- */

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

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access;
	CUdeviceptr at = 0;

	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	if (cu.cuMemAddressReserve(&at, BYTES, 0, 0, 0) ||
	    cu.cuMemMap(at, BYTES, 0, handle, 0) ||
	    cu.cuMemSetAccess(at, BYTES, &access, 1))
		return 0;
	return at;
}

static bool unmap(CUdeviceptr at, CUmemGenericAllocationHandle handle)
{
	return !cu.cuMemUnmap(at, BYTES) && !cu.cuMemAddressFree(at, BYTES) &&
	       !cu.cuMemRelease(handle);
}

static int export(CUmemGenericAllocationHandle handle)
{
	int fd = -1;

	if (cu.cuMemExportToShareableHandle(
		    &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
		return -1;
	return fd;
}

static CUmemGenericAllocationHandle import(int fd)
{
	CUmemGenericAllocationHandle handle = 0;

	if (cu.cuMemImportFromShareableHandle(
		    &handle, (void *)(intptr_t)fd,
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return 0;
	return handle;
}

static size_t free_bytes(void)
{
	size_t bytes = 0, total = 0;

	cu.cuMemGetInfo_v2(&bytes, &total);
	return bytes;
}

static uint32_t last_word(CUdeviceptr at)
{
	uint32_t got = 0;

	GOOD(cu.cuMemcpyDtoH_v2(&got, at + BYTES - 4, 4));
	return got;
}

/* ---- parts -------------------------------------------------------------- */

/* Imports, writes, and dies of a fault. */
static int import_and_fault(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	CUresult error;
	char byte;
	int fd;

	WANT(start() && gpu_hear(GPU_PART_SOCKET, &byte, 1, &fd) && fd >= 0);
	handle = import(fd);
	WANT(handle && (at = map(handle)));
	WANT(!store(at, 99) && !cu.cuStreamSynchronize(stream));
	WANT(!store(0x10, 1));
	error = cu.cuStreamSynchronize(stream);
	WANT(gpu_tell(GPU_PART_SOCKET, &error, sizeof(error), -1));
	return 0;
}

/* Exports, and waits to be killed. */
static int export_and_wait(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	char byte = 0;
	int fd;

	WANT(start() && (handle = create()) && (at = map(handle)));
	WANT(!cu.cuMemsetD32_v2(at, 0xfeed, WORDS) && !cu.cuCtxSynchronize());
	WANT((fd = export(handle)) >= 0);
	WANT(gpu_tell(GPU_PART_SOCKET, &byte, 1, fd));
	for (;;)
		pause();
}

/* The error of every call after a fault. */
struct record {
	CUresult launched, synchronize, query, alloc, free, info, event, copy,
		load, register_, unregister, again;
	uint32_t is_written; /* the word behind the fault */
};

static CUresult strike(uint64_t which, CUdeviceptr at)
{
	return which == 0   ? store(0x10, 1)
	       : which == 1 ? store(at + 1, 1)
			    : launch("contract_trap", NULL);
}

static int fault_and_ask(uint64_t which)
{
	static char page[8192];
	struct record r = { .launched = CUDA_ERROR_UNKNOWN };
	CUdeviceptr at = 0, seen = 0, other = 0;
	uint64_t *word = NULL;
	size_t bytes, total;
	CUevent event;
	CUmodule m;
	char *host;

	host = (char *)(((uintptr_t)page + 4095) & ~(uintptr_t)4095);
	WANT(start() && !cu.cuMemAlloc_v2(&at, 4096));
	WANT(!cu.cuMemHostAlloc((void **)&word, 4096, 0));
	WANT(!cu.cuMemHostGetDevicePointer_v2(&seen, word, 0));
	*word = 0;
	r.launched = strike(which, at);
	(void)cu.cuStreamWriteValue64_v2(stream, seen, 1, 0);
	r.synchronize = cu.cuStreamSynchronize(stream);
	contract_rest_ms(5);
	r.is_written = *(volatile uint64_t *)word != 0;
	r.query = cu.cuStreamQuery(stream);
	r.alloc = cu.cuMemAlloc_v2(&other, 4096);
	r.free = cu.cuMemFree_v2(at);
	r.info = cu.cuMemGetInfo_v2(&bytes, &total);
	r.event = cu.cuEventCreate(&event, 0);
	r.copy = cu.cuMemcpyDtoH_v2(host, at, 4);
	r.load = cu.cuModuleLoadData(&m, CONTRACT_KERNELS);
	r.register_ = cu.cuMemHostRegister_v2(host, 4096, 0);
	r.unregister = cu.cuMemHostUnregister(host);
	r.again = cu.cuCtxSynchronize();
	WANT(gpu_tell(GPU_PART_SOCKET, &r, sizeof(r), -1));
	_exit(0);
}

static int play(char **argv)
{
	if (contract_load(argv))
		return 251;
	if (strcmp(argv[1], "import") == 0)
		return import_and_fault();
	if (strcmp(argv[1], "export") == 0)
		return export_and_wait();
	return fault_and_ask(strtoull(argv[2], NULL, 10));
}

/* ---- tests -------------------------------------------------------------- */

static void an_exporter_survives_its_importers_fault(void)
{
	CUmemGenericAllocationHandle handle = create();
	CUdeviceptr at = handle ? map(handle) : 0;
	int fd = handle ? export(handle) : -1;
	CUresult error = CUDA_SUCCESS;
	struct gpu_part part = { .socket = -1 };
	uint32_t got = 0;

	if (!OK(at && fd >= 0))
		return;
	GOOD(cu.cuMemsetD32_v2(at, 7, WORDS));
	GOOD(cu.cuCtxSynchronize());
	if (OK(gpu_part_begin("import", 0, &part))) {
		OK(gpu_tell(part.socket, "m", 1, fd));
		OK(gpu_hear(part.socket, &error, sizeof(error), NULL));
		gpu_part_end(&part);
	}
	EQ(error, CUDA_ERROR_ILLEGAL_ADDRESS);
	GOOD(cu.cuCtxSynchronize());
	GOOD(cu.cuMemcpyDtoH_v2(&got, at, 4));
	EQ(got, 99);
	EQ(last_word(at), 7);
	GOOD(store(at, 8));
	GOOD(cu.cuStreamSynchronize(stream));
	close(fd);
	OK(unmap(at, handle));
}

static bool comes_back(size_t wanted)
{
	double from = contract_now_ms();

	while (free_bytes() < wanted && contract_now_ms() - from < 20e3)
		contract_rest_ms(2);
	return free_bytes() >= wanted;
}

static void memory_lives_as_long_as_an_importer(void)
{
	CUmemGenericAllocationHandle handle = 0;
	size_t before = free_bytes(), left;
	struct gpu_part part = { .socket = -1 };
	CUdeviceptr at = 0;
	char byte;
	int fd = -1;

	if (!OK(gpu_part_begin("export", 0, &part)))
		return;
	OK(gpu_hear(part.socket, &byte, 1, &fd) && fd >= 0);
	handle = fd < 0 ? 0 : import(fd);
	at = handle ? map(handle) : 0;
	close(fd);
	kill(part.pid, SIGKILL);
	EQ(gpu_part_end(&part), -SIGKILL);
	if (!OK(at != 0))
		return;
	EQ(last_word(at), 0xfeed);
	OK(comes_back(before - BYTES));
	left = free_bytes();
	OK(left < before);
	EQ(last_word(at), 0xfeed);
	OK(unmap(at, handle));
	OK(comes_back(left + BYTES));
	FACT("\"mib_before\":%zu,\"exporter_dead\":%zu,\"importer_done\":%zu",
	     before >> 20, left >> 20, free_bytes() >> 20);
}

static void every_call_is_recorded(void)
{
	static const char *const names[] = { "nowhere", "askew", "trap" };

	for (uint64_t i = 0; i < 3; i++) {
		struct record r = { .launched = CUDA_ERROR_UNKNOWN };
		struct gpu_part part = { .socket = -1 };

		if (!OK(gpu_part_begin("fault", i, &part)))
			continue;
		OK(gpu_hear(part.socket, &r, sizeof(r), NULL));
		EQ(gpu_part_end(&part), 0);
		EQ(r.launched, CUDA_SUCCESS);
		OK(r.synchronize != CUDA_SUCCESS);
		EQ(r.again, r.synchronize);
		EQ(r.is_written, 0);
		FACT("\"fault\":\"%s\",\"synchronize\":%d,\"query\":%d,"
		     "\"alloc\":%d,\"free\":%d,\"info\":%d,\"event\":%d,"
		     "\"copy\":%d,\"load\":%d,\"register\":%d,"
		     "\"unregister\":%d,\"again\":%d",
		     names[i], r.synchronize, r.query, r.alloc, r.free, r.info,
		     r.event, r.copy, r.load, r.register_, r.unregister,
		     r.again);
	}
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc == 3)
		return play(argv);
	if (!gpu_begin(argv))
		return tap_done();
	every_call_is_recorded();
	if (!OK(start()))
		return tap_done();
	if (gpu_attribute(
		    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) ==
	    1) {
		an_exporter_survives_its_importers_fault();
		memory_lives_as_long_as_an_importer();
	} else {
		SKIP(1, "no memory by descriptors on this device");
	}
	OK(stop());
	return tap_done();
}
