/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Registration of memory that another process owns: by two processes at once,
 * read-only, without the right to lock pages, after a hole was punched, and
 * what it costs per GiB with small pages and with huge ones.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/gpu/gpu.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

#define BYTES (8 * GPU_MIB)
#define WORDS (BYTES / 4)
#define FLAGS (CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE)

static int make(size_t bytes, unsigned int flags)
{
	int fd = memfd_create("gpumap-register",
			      MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd >= 0 && (ftruncate(fd, (off_t)bytes) ||
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void *map(int fd, size_t bytes, int protection)
{
	void *at =
		mmap(NULL, bytes, protection, MAP_SHARED | MAP_POPULATE, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Whether a round trip through the device brings back what was there. */
static bool goes_through(uint32_t *at, size_t words, uint32_t seed)
{
	CUdeviceptr device = 0;
	CUstream stream = NULL;
	bool is_same = true;

	for (size_t i = 0; i < words; i++)
		at[i] = (uint32_t)i * 2654435761u + seed;
	if (cu.cuMemAlloc_v2(&device, 4 * words) ||
	    cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
	    cu.cuMemcpyHtoDAsync_v2(device, at, 4 * words, stream) ||
	    cu.cuStreamSynchronize(stream))
		return false;
	memset(at, 0, 4 * words);
	if (cu.cuMemcpyDtoHAsync_v2(at, device, 4 * words, stream) ||
	    cu.cuStreamSynchronize(stream))
		return false;
	for (size_t i = 0; i < words; i++)
		is_same &= at[i] == (uint32_t)i * 2654435761u + seed;
	return !cu.cuStreamDestroy_v2(stream) && !cu.cuMemFree_v2(device) &&
	       is_same;
}

/* ---- parts -------------------------------------------------------------- */

static bool start(void)
{
	CUcontext context;

	return !cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&context, 0) &&
	       !cu.cuCtxSetCurrent(context);
}

/* Registers what the test registered, and uses its half of it. */
static int be_second(uint64_t number)
{
	uint32_t *at;
	char byte = 0;
	int fd;

	(void)number;
	WANT(gpu_hear(GPU_PART_SOCKET, &byte, 1, &fd) && fd >= 0);
	at = map(fd, BYTES, PROT_READ | PROT_WRITE);
	WANT(at && start());
	WANT(!cu.cuMemHostRegister_v2(at, BYTES, FLAGS));
	WANT(goes_through(at + WORDS / 2, WORDS / 2, 7));
	WANT(gpu_tell(GPU_PART_SOCKET, &byte, 1, -1));
	WANT(gpu_hear(GPU_PART_SOCKET, &byte, 1, NULL));
	WANT(!cu.cuMemHostUnregister(at));
	WANT(!cu.cuCtxSetCurrent(NULL) && !cu.cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

/* May lock 64 KiB by its limit, and as @uid has no right to lock more. */
static int lock_little(uint64_t uid)
{
	struct rlimit limit = { 65536, 65536 };
	CUresult result;
	uint32_t *at;
	int fd = make(BYTES, 0);

	WANT(fd >= 0 && (at = map(fd, BYTES, PROT_READ | PROT_WRITE)));
	WANT(!setrlimit(RLIMIT_MEMLOCK, &limit));
	WANT(!uid || !setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid));
	WANT(start());
	result = cu.cuMemHostRegister_v2(at, BYTES, FLAGS);
	WANT(gpu_tell(GPU_PART_SOCKET, &result, sizeof(result), -1));
	WANT(result || goes_through(at, WORDS, 3));
	WANT(result || !cu.cuMemHostUnregister(at));
	WANT(!cu.cuCtxSetCurrent(NULL) && !cu.cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

static int play(char **argv)
{
	uint64_t number = strtoull(argv[2], NULL, 10);

	if (contract_load(argv))
		return 251;
	return strcmp(argv[1], "second") == 0 ? be_second(number)
					      : lock_little(number);
}

/* ---- tests -------------------------------------------------------------- */

static void two_processes_register_one_memory(void)
{
	struct gpu_part second = { .socket = -1 };
	int fd = make(BYTES, 0);
	uint32_t *at = fd < 0 ? NULL : map(fd, BYTES, PROT_READ | PROT_WRITE);
	char byte = 0;

	if (!OK(at != NULL))
		return;
	GOOD(cu.cuMemHostRegister_v2(at, BYTES, FLAGS));
	if (OK(gpu_part_begin("second", 0, &second))) {
		OK(gpu_tell(second.socket, &byte, 1, fd));
		OK(gpu_hear(second.socket, &byte, 1, NULL));
		OK(goes_through(at, WORDS / 2, 5));
		/* The other's half came back to where we see it. */
		EQ(at[WORDS / 2 + 1], 2654435761u + 7);
		OK(gpu_tell(second.socket, &byte, 1, -1));
		EQ(gpu_part_end(&second), 0);
	}
	OK(goes_through(at, WORDS, 9));
	GOOD(cu.cuMemHostUnregister(at));
	munmap(at, BYTES);
	close(fd);
}

static void memory_may_be_read_only(void)
{
	const unsigned int read_only = CU_MEMHOSTREGISTER_READ_ONLY;
	int fd = make(BYTES, 0);
	uint32_t *at = fd < 0 ? NULL : map(fd, BYTES, PROT_READ | PROT_WRITE);
	uint32_t *ro = fd < 0 ? NULL : map(fd, BYTES, PROT_READ);
	CUdeviceptr device = 0;
	CUresult plain;
	uint32_t got = 0;

	if (!OK(at && ro))
		return;
	at[WORDS - 1] = 4711;
	plain = cu.cuMemHostRegister_v2(ro, BYTES, FLAGS);
	FACT("\"read_only_mapping_without_flag\":%d", plain);
	if (!plain)
		GOOD(cu.cuMemHostUnregister(ro));
	if (gpu_attribute(
		    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) !=
	    1) {
		SKIP(1, "attribute 113 is 0: no read-only registration");
		return;
	}
	GOOD(cu.cuMemHostRegister_v2(ro, BYTES, FLAGS | read_only));
	GOOD(cu.cuMemAlloc_v2(&device, BYTES));
	GOOD(cu.cuMemcpyHtoD_v2(device, ro, BYTES));
	GOOD(cu.cuMemcpyDtoH_v2(&got, device + BYTES - 4, 4));
	EQ(got, 4711);
	GOOD(cu.cuMemFree_v2(device));
	GOOD(cu.cuMemHostUnregister(ro));
	munmap(ro, BYTES);
	munmap(at, BYTES);
	close(fd);
}

/* A client can do that to us at any time: nothing may come of it but that it
 * no longer sees what we copy. */
static void a_hole_hurts_nobody(void)
{
	int fd = make(BYTES, 0);
	uint32_t *at = fd < 0 ? NULL : map(fd, BYTES, PROT_READ | PROT_WRITE);
	CUdeviceptr device = 0;
	uint32_t got = 0;

	if (!OK(at != NULL))
		return;
	at[0] = 1;
	GOOD(cu.cuMemHostRegister_v2(at, BYTES, FLAGS));
	GOOD(cu.cuMemAlloc_v2(&device, BYTES));
	EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		     (off_t)BYTES),
	   0);
	at[0] = 2;
	GOOD(cu.cuMemcpyHtoD_v2(device, at, BYTES));
	GOOD(cu.cuMemcpyDtoH_v2(&got, device, 4));
	FACT("\"after_a_hole_the_device_reads\":\"%s\"",
	     got == 1 ? "the pinned page" : "the new page");
	GOOD(cu.cuMemcpyDtoH_v2(at, device, BYTES));
	GOOD(cu.cuMemHostUnregister(at));
	GOOD(cu.cuMemFree_v2(device));
	GOOD(cu.cuCtxSynchronize());
	munmap(at, BYTES);
	close(fd);
}

static void locking_limits_are_no_matter(void)
{
	static const uid_t uids[] = { 0, 65534 };

	for (size_t i = 0; i < 2; i++) {
		CUresult result = CUDA_ERROR_UNKNOWN;
		struct gpu_part part = { .socket = -1 };

		if (uids[i] && getuid() != 0) {
			SKIP(1, "not root: cannot be somebody else");
			continue;
		}
		if (!OK(gpu_part_begin("lock", uids[i], &part)))
			continue;
		OK(gpu_hear(part.socket, &result, sizeof(result), NULL));
		EQ(gpu_part_end(&part), 0);
		FACT("\"memlock\":65536,\"uid\":%d,\"register\":%d", uids[i],
		     result);
		EQ(result, CUDA_SUCCESS);
	}
}

/* Pages that are there already, so that it is pinning which is measured. */
static void pinning_takes_time(const char *pages, unsigned int flags)
{
	size_t bytes = gpu_is_real() ? 2 * GPU_GIB : 64 * GPU_MIB;
	int fd = make(bytes, flags);
	void *at = fd < 0 ? NULL : map(fd, bytes, PROT_READ | PROT_WRITE);
	double from, pinned, gib = (double)bytes / (double)GPU_GIB;

	if (!at) {
		FACT("\"pages\":\"%s\",\"lack\":\"%s\"", pages,
		     strerrorname_np(errno));
		SKIP(1, "no such pages here");
		if (fd >= 0)
			close(fd);
		return;
	}
	from = contract_now_ms();
	GOOD(cu.cuMemHostRegister_v2(at, bytes, FLAGS));
	pinned = contract_now_ms();
	GOOD(cu.cuMemHostUnregister(at));
	FACT("\"pages\":\"%s\",\"gib\":%.3f,\"register_s_per_gib\":%.4f,"
	     "\"unregister_s_per_gib\":%.4f",
	     pages, gib, (pinned - from) / 1e3 / gib,
	     (contract_now_ms() - pinned) / 1e3 / gib);
	munmap(at, bytes);
	close(fd);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc == 3)
		return play(argv);
	if (!gpu_begin(argv))
		return tap_done();
	if (gpu_attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) != 1) {
		SKIP(1, "attribute 99 is 0: no registered memory here");
		return tap_done();
	}
	locking_limits_are_no_matter();
	if (!contract_context())
		return tap_done();
	two_processes_register_one_memory();
	memory_may_be_read_only();
	a_hole_hurts_nobody();
	pinning_takes_time("4 KiB", 0);
	pinning_takes_time("2 MiB", MFD_HUGETLB | MFD_HUGE_2MB);
	contract_end_context();
	return tap_done();
}
