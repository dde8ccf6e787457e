/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Memory of a device and of the host: had, copied, filled, pinned. */

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define KIB  ((size_t)1 << 10)
#define MIB  ((size_t)1 << 20)
#define PAGE ((size_t)4096)

static size_t free_bytes(void)
{
	size_t bytes = 0, total = 0;

	GOOD(cu.cuMemGetInfo_v2(&bytes, &total));
	return bytes;
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 31 + (i >> 8));
}

static void set_pattern(uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = pattern(i);
}

static size_t spoilt(const uint8_t *at, size_t n)
{
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += at[i] != pattern(i);
	return wrong;
}

static void what_is_had_is_gone_from_free(void)
{
	size_t before = free_bytes();
	CUdeviceptr at = 0;

	GOOD(cu.cuMemAlloc_v2(&at, 64 * MIB));
	OK(at != 0 && at % 256 == 0);
	OK(free_bytes() + 64 * MIB <= before);
	GOOD(cu.cuMemFree_v2(at));
	PRESUME(free_bytes() == before);
}

static void memory_has_an_end(void)
{
	size_t left = free_bytes(), all = 0;
	CUdeviceptr at = 0;

	GOOD(cu.cuMemAlloc_v2(&at, 64 * MIB));
	GOOD(cu.cuMemFree_v2(at));
	GOOD(cu.cuDeviceTotalMem_v2(&all, 0));
	at = 12345;
	EQ(cu.cuMemAlloc_v2(&at, all), CUDA_ERROR_OUT_OF_MEMORY);
	PRESUME(at == 12345);
	/* Want of memory is not sticky. */
	GOOD(cu.cuCtxSynchronize());
	PRESUME(free_bytes() == left);
}

static void misuse_is_refused(void)
{
	CUdeviceptr at = 0;

	EQ(cu.cuMemAlloc_v2(&at, 0), CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemAlloc_v2(NULL, 16), CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuMemFree_v2(0));
	GOOD(cu.cuMemAlloc_v2(&at, 4 * MIB));
	EQ(cu.cuMemFree_v2(at + MIB), CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuMemFree_v2(at));
	EQ(cu.cuMemFree_v2(at), CUDA_ERROR_INVALID_VALUE);
}

static void bytes_come_back_as_they_went(void)
{
	static uint8_t here[3 * MIB + 7], there[sizeof(here)];
	CUdeviceptr a = 0, b = 0;

	set_pattern(here, sizeof(here));
	GOOD(cu.cuMemAlloc_v2(&a, sizeof(here)));
	GOOD(cu.cuMemAlloc_v2(&b, sizeof(here)));
	GOOD(cu.cuMemcpyHtoD_v2(a, here, sizeof(here)));
	GOOD(cu.cuMemcpyDtoD_v2(b, a, sizeof(here)));
	GOOD(cu.cuMemcpyDtoH_v2(there, b, sizeof(there)));
	EQ(spoilt(there, sizeof(there)), 0);

	/* From the middle to the middle, at odd addresses. */
	memset(there, 0, sizeof(there));
	GOOD(cu.cuMemcpyDtoH_v2(there + 5, a + 3, 1001));
	EQ(memcmp(there + 5, here + 3, 1001), 0);
	EQ(there[4] | there[5 + 1001], 0);
	GOOD(cu.cuMemcpyHtoD_v2(a, here, 0));
	GOOD(cu.cuMemFree_v2(a));
	GOOD(cu.cuMemFree_v2(b));
}

static void copies_stay_within_what_was_had(void)
{
	uint8_t here[64] = { 0 };
	CUdeviceptr at = 0;
	int any_memory = 0;

	/* Such a device takes any address for the process's own. */
	GOOD(cu.cuDeviceGetAttribute(
		&any_memory, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
	if (any_memory) {
		SKIP(1, "attribute 88 is 1: the device reads any memory");
		return;
	}
	GOOD(cu.cuMemAlloc_v2(&at, 4 * MIB));
	GOOD(cu.cuMemFree_v2(at));
	OK(cu.cuMemcpyHtoD_v2(at, here, sizeof(here)) != CUDA_SUCCESS);
	OK(cu.cuMemcpyDtoH_v2(here, at, sizeof(here)) != CUDA_SUCCESS);
	/* Neither is an accident on the device. */
	GOOD(cu.cuCtxSynchronize());
}

static void fills_fill_as_much_as_asked(void)
{
	uint32_t words[16];
	uint8_t bytes[64];
	CUdeviceptr at = 0;

	GOOD(cu.cuMemAlloc_v2(&at, 4 * KIB));
	GOOD(cu.cuMemsetD8_v2(at, 0x11, 64));
	GOOD(cu.cuMemsetD32_v2(at + 16, 0xdeadbeef, 4));
	GOOD(cu.cuMemsetD8_v2(at + 33, 0x22, 3));
	GOOD(cu.cuMemsetD16_v2(at + 40, 0x3344, 2));
	GOOD(cu.cuMemcpyDtoH_v2(bytes, at, sizeof(bytes)));
	memcpy(words, bytes, sizeof(words));
	EQ(words[3], 0x11111111);
	EQ(words[4], 0xdeadbeef);
	EQ(words[7], 0xdeadbeef);
	EQ(bytes[32], 0x11);
	EQ(bytes[33], 0x22);
	EQ(bytes[35], 0x22);
	EQ(bytes[36], 0x11);
	EQ(words[10], 0x33443344);
	EQ(words[11], 0x11111111);
	EQ(cu.cuMemsetD32_v2(at + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuMemFree_v2(at));
}

static void pinned_memory_is_the_devices_too(void)
{
	CUdeviceptr seen = 0, at = 0;
	unsigned int type = 0;
	void *pinned = NULL;

	GOOD(cu.cuMemHostAlloc(&pinned, MIB, CU_MEMHOSTALLOC_PORTABLE));
	set_pattern(pinned, MIB);
	GOOD(cu.cuMemHostGetDevicePointer_v2(&seen, pinned, 0));
	EQ(seen, (uintptr_t)pinned);
	GOOD(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				      (uintptr_t)pinned));
	EQ(type, CU_MEMORYTYPE_HOST);
	GOOD(cu.cuMemAlloc_v2(&at, MIB));
	GOOD(cu.cuMemcpyHtoD_v2(at, pinned, MIB));
	memset(pinned, 0, MIB);
	GOOD(cu.cuMemcpyDtoH_v2(pinned, at, MIB));
	EQ(spoilt(pinned, MIB), 0);
	GOOD(cu.cuMemFree_v2(at));
	GOOD(cu.cuMemFreeHost(pinned));
	EQ(cu.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
}

static void pointers_say_what_they_are(void)
{
	CUpointer_attribute which[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					CU_POINTER_ATTRIBUTE_DEVICE_POINTER };
	unsigned int type = 77;
	CUdeviceptr at = 0, base = 0, device = 77;
	void *data[] = { &type, &device };
	int ordinal = -1;
	size_t bytes = 0;

	GOOD(cu.cuMemAlloc_v2(&at, 4 * MIB));
	GOOD(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				      at + 100));
	EQ(type, CU_MEMORYTYPE_DEVICE);
	GOOD(cu.cuPointerGetAttribute(&ordinal,
				      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
	EQ(ordinal, 0);
	GOOD(cu.cuMemGetAddressRange_v2(&base, &bytes, at + 100));
	EQ(base, at);
	EQ(bytes, 4 * MIB);
	GOOD(cu.cuMemFree_v2(at));

	EQ(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				    (uintptr_t)&at),
	   CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuPointerGetAttributes(2, which, data, (uintptr_t)&at));
	EQ(type, 0);
	EQ(device, 0);
}

static void what_was_mapped_can_be_pinned(void)
{
	uint8_t *at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr seen = 0, there = 0;

	EQ(cu.cuMemHostUnregister(at), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	GOOD(cu.cuMemHostRegister_v2(at, 4 * PAGE,
				     CU_MEMHOSTREGISTER_DEVICEMAP));
	EQ(cu.cuMemHostRegister_v2(at, 4 * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	EQ(cu.cuMemHostRegister_v2(at + 3 * PAGE, 2 * PAGE, 0),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	GOOD(cu.cuMemHostRegister_v2(at + 4 * PAGE, 4 * PAGE, 0));
	GOOD(cu.cuMemHostGetDevicePointer_v2(&seen, at, 0));
	OK(seen != 0);
	GOOD(cu.cuMemHostUnregister(at + 4 * PAGE));

	/* Through the card's address for it, whichever that is. */
	set_pattern(at, 4 * PAGE);
	GOOD(cu.cuMemAlloc_v2(&there, 4 * PAGE));
	GOOD(cu.cuMemcpyDtoD_v2(there, seen, 4 * PAGE));
	memset(at, 0, 4 * PAGE);
	GOOD(cu.cuMemcpyDtoH_v2(at, there, 4 * PAGE));
	EQ(spoilt(at, 4 * PAGE), 0);
	GOOD(cu.cuMemFree_v2(there));
	GOOD(cu.cuMemHostUnregister(at));
	EQ(cu.cuMemHostUnregister(at), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	munmap(at, 8 * PAGE);
}

static void only_what_is_there_can_be_pinned(void)
{
	uint8_t *at = mmap(NULL, 4 * PAGE, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int supported = 0;

	EQ(cu.cuMemHostRegister_v2(NULL, PAGE, 0), CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemHostRegister_v2(at, 0, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuMemHostRegister_v2(at, 4 * PAGE, 0) != CUDA_SUCCESS);
	GOOD(cu.cuDeviceGetAttribute(
		&supported,
		CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0));
	if (supported) {
		GOOD(cu.cuMemHostRegister_v2(at, 4 * PAGE,
					     CU_MEMHOSTREGISTER_READ_ONLY));
		GOOD(cu.cuMemHostUnregister(at));
	} else {
		SKIP(2, "this device cannot");
	}
	munmap(at, 4 * PAGE);
	OK(cu.cuMemHostRegister_v2(at, 4 * PAGE, 0) != CUDA_SUCCESS);
	GOOD(cu.cuCtxSynchronize());
}

/* Two processes, one memfd: each pins its own mapping. */
static void a_strangers_memfd_can_be_pinned(void)
{
	int fd = memfd_create("contract", MFD_CLOEXEC);
	CUdeviceptr there = 0;
	uint8_t *at;
	pid_t pid;

	EQ(ftruncate(fd, (off_t)(16 * PAGE)), 0);
	pid = fork();
	if (pid == 0) {
		at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			  fd, 0);
		set_pattern(at, 16 * PAGE);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	GOOD(cu.cuMemHostRegister_v2(at, 16 * PAGE,
				     CU_MEMHOSTREGISTER_DEVICEMAP |
					     CU_MEMHOSTREGISTER_PORTABLE));
	GOOD(cu.cuMemAlloc_v2(&there, 16 * PAGE));
	GOOD(cu.cuMemcpyHtoD_v2(there, at, 16 * PAGE));
	memset(at, 0, 16 * PAGE);
	GOOD(cu.cuMemcpyDtoH_v2(at, there, 16 * PAGE));
	EQ(spoilt(at, 16 * PAGE), 0);
	GOOD(cu.cuMemFree_v2(there));
	GOOD(cu.cuMemHostUnregister(at));
	munmap(at, 16 * PAGE);
	close(fd);
}

static void pinning_asks_no_rlimit(void)
{
	const struct rlimit little = { 65536, 65536 };
	uint8_t *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit saved;

	getrlimit(RLIMIT_MEMLOCK, &saved);
	EQ(setrlimit(RLIMIT_MEMLOCK,
		     &(struct rlimit){ little.rlim_cur, saved.rlim_max }),
	   0);
	GOOD(cu.cuMemHostRegister_v2(at, MIB, 0));
	GOOD(cu.cuMemHostUnregister(at));
	setrlimit(RLIMIT_MEMLOCK, &saved);
	munmap(at, MIB);
}

/* Memory that two registrations cover is not one piece, though it is one
 * mapping. */
static void a_copy_over_two_registrations_fails(void)
{
	uint8_t *at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr there = 0;

	GOOD(cu.cuMemAlloc_v2(&there, 8 * PAGE));
	GOOD(cu.cuMemHostRegister_v2(at, 4 * PAGE, 0));
	GOOD(cu.cuMemHostRegister_v2(at + 4 * PAGE, 4 * PAGE, 0));
	OK(cu.cuMemcpyHtoD_v2(there, at, 8 * PAGE) != CUDA_SUCCESS);
	GOOD(cu.cuMemcpyHtoD_v2(there, at, 4 * PAGE));
	GOOD(cu.cuMemHostUnregister(at));
	GOOD(cu.cuMemHostUnregister(at + 4 * PAGE));
	GOOD(cu.cuMemFree_v2(there));
	munmap(at, 8 * PAGE);
}

static void memory_needs_a_context(void)
{
	CUcontext context = NULL;
	CUdeviceptr at;

	GOOD(cu.cuCtxGetCurrent(&context));
	GOOD(cu.cuCtxSetCurrent(NULL));
	EQ(cu.cuMemAlloc_v2(&at, 16), CUDA_ERROR_INVALID_CONTEXT);
	GOOD(cu.cuCtxSetCurrent(context));
}

TAP_CASE_ARGS(argc, argv)
{
	if (contract_begin_devices(argv, 1) && contract_context()) {
		what_is_had_is_gone_from_free();
		memory_has_an_end();
		misuse_is_refused();
		bytes_come_back_as_they_went();
		copies_stay_within_what_was_had();
		fills_fill_as_much_as_asked();
		pinned_memory_is_the_devices_too();
		pointers_say_what_they_are();
		what_was_mapped_can_be_pinned();
		only_what_is_there_can_be_pinned();
		a_strangers_memfd_can_be_pinned();
		pinning_asks_no_rlimit();
		a_copy_over_two_registrations_fails();
		memory_needs_a_context();
		contract_end_context();
	}
	return tap_done();
}
