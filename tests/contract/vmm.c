/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Memory by handles: addresses, access, and descriptors across processes. */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"
#include "tests/contract/send_fd.h"

static size_t granule;

static CUmemAllocationProp prop_of(bool is_shareable)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = 0;
	if (is_shareable)
		prop.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return prop;
}

static CUmemAccessDesc access_of(CUmemAccess_flags flags)
{
	CUmemAccessDesc access;

	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = 0;
	access.flags = flags;
	return access;
}

static CUmemGenericAllocationHandle make(size_t bytes)
{
	CUmemAllocationProp prop = prop_of(true);
	CUmemGenericAllocationHandle handle = 0;

	GOOD(cu.cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

/* An address for a handle, with access for the device. */
static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes)
{
	CUmemAccessDesc access = access_of(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUdeviceptr at = 0;

	if (cu.cuMemAddressReserve(&at, bytes, 0, 0, 0) ||
	    cu.cuMemMap(at, bytes, 0, handle, 0) ||
	    cu.cuMemSetAccess(at, bytes, &access, 1))
		return 0;
	return at;
}

static bool unmap(CUdeviceptr at, size_t bytes)
{
	return !cu.cuMemUnmap(at, bytes) && !cu.cuMemAddressFree(at, bytes);
}

static size_t free_bytes(void)
{
	size_t bytes = 0, total = 0;

	cu.cuMemGetInfo_v2(&bytes, &total);
	return bytes;
}

static void sizes_are_granular(void)
{
	CUmemAllocationProp prop = prop_of(true);
	CUmemGenericAllocationHandle handle = 0;
	size_t recommended = 0;
	CUdeviceptr at = 0;

	GOOD(cu.cuMemGetAllocationGranularity(
		&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	OK(granule && (granule & (granule - 1)) == 0);
	OK(recommended >= granule);
	EQ(cu.cuMemCreate(&handle, granule / 2, &prop, 0),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemCreate(&handle, granule, &prop, 1),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemAddressReserve(&at, granule, 3, 0, 0),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemAddressReserve(&at, granule, 0, 0, 1),
	   CUDA_ERROR_INVALID_VALUE);
	prop.location.id = 9999;
	OK(cu.cuMemCreate(&handle, granule, &prop, 0) != CUDA_SUCCESS);
}

static void memory_and_address_are_two_things(void)
{
	size_t before = free_bytes();
	CUmemGenericAllocationHandle handle = make(2 * granule);
	uint32_t got = 0;
	CUdeviceptr at = 0;

	OK(free_bytes() + 2 * granule <= before);
	at = map(handle, 2 * granule);
	OK(at != 0);
	GOOD(cu.cuMemsetD32_v2(at, 77, granule / 2));
	GOOD(cu.cuMemcpyDtoH_v2(&got, at + 2 * granule - 4, 4));
	EQ(got, 77);

	/* A mapping keeps the memory though its handle is gone. */
	GOOD(cu.cuMemRelease(handle));
	PRESUME(cu.cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
	got = 0;
	GOOD(cu.cuMemcpyDtoH_v2(&got, at, 4));
	EQ(got, 77);
	OK(free_bytes() + 2 * granule <= before);
	OK(unmap(at, 2 * granule));
	PRESUME(free_bytes() == before);
}

static void an_address_has_rules(void)
{
	CUmemGenericAllocationHandle handle = make(2 * granule);
	CUdeviceptr at = 0;

	GOOD(cu.cuMemAddressReserve(&at, 2 * granule, 0, 0, 0));
	EQ(at % granule, 0);
	EQ(cu.cuMemMap(at, 4 * granule, 0, handle, 0),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemMap(at, 2 * granule, 0, handle, 1),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemMap(at + granule / 2, granule, 0, handle, 0),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemUnmap(at, 2 * granule), CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuMemMap(at, 2 * granule, 0, handle, 0));
	OK(cu.cuMemMap(at, 2 * granule, 0, handle, 0) != CUDA_SUCCESS);
	OK(cu.cuMemUnmap(at, granule) != CUDA_SUCCESS);
	OK(cu.cuMemAddressFree(at, 2 * granule) != CUDA_SUCCESS);
	GOOD(cu.cuMemUnmap(at, 2 * granule));
	OK(cu.cuMemAddressFree(at, granule) != CUDA_SUCCESS);
	GOOD(cu.cuMemAddressFree(at, 2 * granule));
	EQ(cu.cuMemMap(at, 2 * granule, 0, handle, 0),
	   CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuMemRelease(handle));
}

static void access_is_not_there_by_itself(void)
{
	CUmemAccessDesc read_only = access_of(CU_MEM_ACCESS_FLAGS_PROT_READ),
			all = access_of(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUmemGenericAllocationHandle handle = make(granule);
	unsigned long long flags = 99;
	CUdeviceptr at = 0;

	GOOD(cu.cuMemAddressReserve(&at, granule, 0, 0, 0));
	OK(cu.cuMemSetAccess(at, granule, &all, 1) != CUDA_SUCCESS);
	GOOD(cu.cuMemMap(at, granule, 0, handle, 0));
	GOOD(cu.cuMemGetAccess(&flags, &all.location, at));
	EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	GOOD(cu.cuMemSetAccess(at, granule, &all, 1));
	GOOD(cu.cuMemGetAccess(&flags, &all.location, at));
	EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	GOOD(cu.cuMemsetD8_v2(at, 1, granule));
	GOOD(cu.cuMemSetAccess(at, granule, &read_only, 1));
	GOOD(cu.cuMemGetAccess(&flags, &all.location, at));
	EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
	OK(unmap(at, granule));
	GOOD(cu.cuMemRelease(handle));
}

static void a_handle_says_what_it_is(void)
{
	CUmemGenericAllocationHandle handle = make(granule), same = 0;
	CUmemAllocationProp prop;
	CUdeviceptr at = map(handle, granule);

	memset(&prop, 0, sizeof(prop));
	GOOD(cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
	EQ(prop.type, CU_MEM_ALLOCATION_TYPE_PINNED);
	EQ(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
	EQ(prop.location.id, 0);
	EQ(prop.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	GOOD(cu.cuMemRetainAllocationHandle(
		&same, (void *)(uintptr_t)(at + granule / 2)));
	EQ(same, handle);
	GOOD(cu.cuMemRelease(same));
	GOOD(cu.cuMemRelease(handle));
	OK(unmap(at, granule));
}

/* One memory, one way of sharing it. */
static void legacy_handles_are_for_other_memory(void)
{
	CUmemGenericAllocationHandle handle = make(granule);
	CUdeviceptr at = map(handle, granule);
	CUipcMemHandle legacy;

	OK(cu.cuIpcGetMemHandle(&legacy, at) != CUDA_SUCCESS);
	GOOD(cu.cuCtxSynchronize());
	OK(unmap(at, granule));
	GOOD(cu.cuMemRelease(handle));
}

static void what_was_not_asked_to_be_shareable_is_not(void)
{
	CUmemAllocationProp prop = prop_of(false);
	CUmemGenericAllocationHandle handle = 0;
	int fd = -1;

	GOOD(cu.cuMemCreate(&handle, granule, &prop, 0));
	OK(cu.cuMemExportToShareableHandle(
		   &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) !=
	   CUDA_SUCCESS);
	EQ(fd, -1);
	GOOD(cu.cuMemRelease(handle));
}

static void a_strangers_descriptor_is_no_memory(void)
{
	CUmemGenericAllocationHandle handle = 0;
	int fd = memfd_create("contract", MFD_CLOEXEC);

	OK(cu.cuMemImportFromShareableHandle(
		   &handle, (void *)(intptr_t)fd,
		   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS);
	close(fd);
	OK(cu.cuMemImportFromShareableHandle(
		   &handle, (void *)(intptr_t)-1,
		   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS);
	GOOD(cu.cuCtxSynchronize());
}

/*
 * The other process: owns memory with a pattern in it, sends its descriptor,
 * and then does what it is told: 'r'ead a word and answer it, 'e'nd as one
 * should, or be killed.
 */
static int own(int socket)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop = prop_of(true);
	CUcontext context;
	CUdeviceptr at;
	uint32_t word;
	char order;
	int fd = -1;

	if (cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) ||
	    cu.cuCtxSetCurrent(context) ||
	    cu.cuMemGetAllocationGranularity(
		    &granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ||
	    cu.cuMemCreate(&handle, 4 * granule, &prop, 0))
		return 2;
	at = map(handle, 4 * granule);
	if (!at || cu.cuMemsetD32_v2(at, 0xabcd, granule) ||
	    cu.cuMemExportToShareableHandle(
		    &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ||
	    !send_fd(socket, fd))
		return 3;
	close(fd);
	while (read(socket, &order, 1) == 1 && order == 'r') {
		if (cu.cuMemcpyDtoH_v2(&word, at, 4) ||
		    write(socket, &word, 4) != 4)
			return 4;
	}
	if (!unmap(at, 4 * granule) || cu.cuMemRelease(handle) ||
	    cu.cuDevicePrimaryCtxRelease_v2(0))
		return 5;
	return 0;
}

static pid_t start_owner(int *ret_socket)
{
	int pair[2];
	char text[16];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -1;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		snprintf(text, sizeof(text), "%d", pair[1]);
		execl("/proc/self/exe", "vmm", "own", text, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	*ret_socket = pair[0];
	return pid;
}

static CUmemGenericAllocationHandle import(int fd)
{
	CUmemGenericAllocationHandle handle = 0;

	GOOD(cu.cuMemImportFromShareableHandle(
		&handle, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	return handle;
}

static void two_processes_see_one_memory(void)
{
	CUmemGenericAllocationHandle handle;
	int socket = -1, status = -1, fd;
	pid_t pid = start_owner(&socket);
	CUdeviceptr at;
	uint32_t word = 0;

	fd = receive_fd(socket);
	OK(fd >= 0);
	handle = import(fd);
	close(fd);
	at = map(handle, 4 * granule);
	GOOD(cu.cuMemcpyDtoH_v2(&word, at + 4 * granule - 4, 4));
	EQ(word, 0xabcd);
	/* An importer may write: there is no such thing as a loan to look at.
	 */
	GOOD(cu.cuMemsetD32_v2(at, 0x1234, 1));
	EQ(write(socket, "r", 1), 1);
	EQ(read(socket, &word, 4), 4);
	EQ(word, 0x1234);
	EQ(write(socket, "e", 1), 1);
	waitpid(pid, &status, 0);
	EQ(status, 0);

	/* Released by its maker, it lives as long as we do. */
	word = 0;
	GOOD(cu.cuMemcpyDtoH_v2(&word, at, 4));
	EQ(word, 0x1234);
	OK(unmap(at, 4 * granule));
	GOOD(cu.cuMemRelease(handle));
	close(socket);
}

/* Memory whose descriptor only a socket has still exists. */
static void memory_outlives_a_killed_exporter(void)
{
	size_t before = free_bytes(), left;
	CUmemGenericAllocationHandle handle;
	int socket = -1, status = -1, fd;
	pid_t pid = start_owner(&socket);
	CUdeviceptr at;
	uint32_t word = 0;
	char byte;

	/* The message is there, and no process has received it. */
	EQ(recv(socket, &byte, 1, MSG_PEEK), 1);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	OK(WIFSIGNALED(status));
	for (int i = 0; i < 1500 && free_bytes() + 4 * granule < before; i++)
		contract_rest_ms(20);
	left = free_bytes();
	PRESUME(before - left == 4 * granule);
	fd = receive_fd(socket);
	OK(fd >= 0);
	handle = import(fd);
	close(fd);
	close(socket);
	at = map(handle, 4 * granule);
	GOOD(cu.cuMemcpyDtoH_v2(&word, at, 4));
	EQ(word, 0xabcd);
	OK(unmap(at, 4 * granule));
	PRESUME(free_bytes() == left);
	GOOD(cu.cuMemRelease(handle));
	PRESUME(free_bytes() == before);
}

static void a_killed_process_gives_all_back(void)
{
	size_t before = free_bytes();
	int socket = -1, status = -1, fd;
	pid_t pid = start_owner(&socket);

	fd = receive_fd(socket);
	OK(fd >= 0);
	OK(free_bytes() + 4 * granule < before);
	close(fd);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	for (int i = 0; i < 1500 && free_bytes() < before; i++)
		contract_rest_ms(20);
	PRESUME(free_bytes() == before);
	close(socket);
}

/* Buffers may belong to a process that has no context at all. */
static void memory_needs_no_context(void)
{
	CUcontext context = NULL;
	CUmemGenericAllocationHandle handle = 0;
	int fd = -1;

	GOOD(cu.cuCtxGetCurrent(&context));
	GOOD(cu.cuCtxSetCurrent(NULL));
	handle = make(granule);
	GOOD(cu.cuMemExportToShareableHandle(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(fd);
	GOOD(cu.cuMemRelease(handle));
	GOOD(cu.cuCtxSetCurrent(context));
}

TAP_CASE_ARGS(argc, argv)
{
	CUmemAllocationProp prop = prop_of(true);
	int can = 0;

	if (argc == 3 && strcmp(argv[1], "own") == 0)
		return contract_load(argv) ? 1 : own(atoi(argv[2]));
	if (!contract_begin_devices(argv, 1) || !contract_context())
		return tap_done();
	cu.cuDeviceGetAttribute(
		&can,
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		0);
	if (!can) {
		SKIP(1, "no memory by handles on this device");
	} else if (GOOD(cu.cuMemGetAllocationGranularity(
			   &granule, &prop,
			   CU_MEM_ALLOC_GRANULARITY_MINIMUM))) {
		sizes_are_granular();
		memory_and_address_are_two_things();
		an_address_has_rules();
		access_is_not_there_by_itself();
		a_handle_says_what_it_is();
		legacy_handles_are_for_other_memory();
		what_was_not_asked_to_be_shareable_is_not();
		a_strangers_descriptor_is_no_memory();
		two_processes_see_one_memory();
		memory_outlives_a_killed_exporter();
		a_killed_process_gives_all_back();
		memory_needs_no_context();
	}
	contract_end_context();
	return tap_done();
}
