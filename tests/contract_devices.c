/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Devices, their orders and names, and contexts. */

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract.h"

#define DEVICES_MAX 64

static int attribute(CUdevice device, CUdevice_attribute which)
{
	int value = -1;

	GOOD(cu.cuDeviceGetAttribute(&value, which, device));
	return value;
}

static void every_device_says_what_it_is(void)
{
	char name[128] = "", id[32] = "";
	CUdevice device, same;
	size_t bytes = 0;
	int n = 0;

	GOOD(cu.cuDeviceGetCount(&n));
	for (int i = 0; i < n; i++) {
		GOOD(cu.cuDeviceGet(&device, i));
		GOOD(cu.cuDeviceGetName(name, sizeof(name), device));
		OK(name[0] != '\0');
		GOOD(cu.cuDeviceTotalMem_v2(&bytes, device));
		OK(bytes >= (size_t)1 << 30);
		GOOD(cu.cuDeviceGetPCIBusId(id, sizeof(id), device));
		GOOD(cu.cuDeviceGetByPCIBusId(&same, id));
		EQ(same, device);
		OK(attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) >
		   0);
		OK(attribute(device,
			     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >=
		   5);
		EQ(attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
		EQ(attribute(device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
		   1);
		NOTE("%d: %s at %s", i, name, id);
	}
}

static void every_device_has_a_uuid_of_its_own(void)
{
	CUuuid uuids[DEVICES_MAX];
	int n = 0, twins = 0;

	GOOD(cu.cuDeviceGetCount(&n));
	for (int i = 0; i < n && i < DEVICES_MAX; i++) {
		GOOD(cu.cuDeviceGetUuid_v2(&uuids[i], i));
		for (int j = 0; j < i; j++)
			twins += memcmp(&uuids[i], &uuids[j], 16) == 0;
	}
	EQ(twins, 0);
}

static void what_is_no_device_is_refused(void)
{
	CUdevice device;
	char id[32];
	int n = 0, value;
	size_t bytes;

	GOOD(cu.cuDeviceGetCount(&n));
	EQ(cu.cuDeviceGet(&device, n), CUDA_ERROR_INVALID_DEVICE);
	EQ(cu.cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
	EQ(cu.cuDeviceTotalMem_v2(&bytes, n), CUDA_ERROR_INVALID_DEVICE);
	EQ(cu.cuDeviceGetPCIBusId(id, sizeof(id), n),
	   CUDA_ERROR_INVALID_DEVICE);
	EQ(cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)100000, 0),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
}

/*
 * What a process of its own sees, which has @list for CUDA_VISIBLE_DEVICES:
 * how many devices, and in *ret_first where the first is, as a number.
 */
static int seen(const char *list, const char *order, int *ret_first)
{
	int pipes[2], answer[2] = { -1, -1 };
	pid_t pid;

	if (pipe(pipes))
		return -1;
	pid = fork();
	if (pid == 0) {
		char first[16], write_end[16];

		snprintf(write_end, sizeof(write_end), "%d", pipes[1]);
		snprintf(first, sizeof(first), "%d", pipes[0]);
		setenv("CUDA_VISIBLE_DEVICES", list, 1);
		setenv("CUDA_DEVICE_ORDER", order, 1);
		unsetenv("CONTRACT_UNDER");
		execl("/proc/self/exe", "contract_devices", "see", write_end,
		      (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	if (read(pipes[0], answer, sizeof(answer)) != sizeof(answer))
		answer[0] = -1;
	close(pipes[0]);
	waitpid(pid, NULL, 0);
	if (ret_first)
		*ret_first = answer[1];
	return answer[0];
}

/* Domain, bus and device in one. */
static int place(CUdevice device)
{
	int domain = 0, bus = 0, slot = 0;

	cu.cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
				device);
	cu.cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
	cu.cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
				device);
	return domain << 16 | bus << 8 | slot;
}

/* The other side of seen(). */
static int see(const char *fd, char **argv)
{
	int answer[2] = { 0, -1 };

	if (contract_load(argv))
		return 1;
	if (cu.cuInit(0) == CUDA_SUCCESS) {
		cu.cuDeviceGetCount(&answer[0]);
		answer[1] = place(0);
	}
	return write(atoi(fd), answer, sizeof(answer)) != sizeof(answer);
}

static void a_list_chooses_devices(void)
{
	char list[32];
	int n = seen("0,1,2,3,4,5,6,7,8,9", "PCI_BUS_ID", NULL), first, last;

	OK(n >= 1);
	EQ(seen("0", "PCI_BUS_ID", &first), 1);
	snprintf(list, sizeof(list), "%d", n - 1);
	EQ(seen(list, "PCI_BUS_ID", &last), 1);
	OK(n == 1 || first != last);
	EQ(seen("", "PCI_BUS_ID", NULL), 0);
	EQ(seen("-1", "PCI_BUS_ID", NULL), 0);
	EQ(seen("0,-1,0", "PCI_BUS_ID", NULL), 1);
	EQ(seen("0,99999", "PCI_BUS_ID", NULL), 1);
	EQ(seen("99999,0", "PCI_BUS_ID", NULL), 0);
	if (n < 2) {
		SKIP(3, "one device only");
		return;
	}
	EQ(seen("1,0", "PCI_BUS_ID", &last), 2);
	EQ(seen("1", "PCI_BUS_ID", &first), 1);
	EQ(first, last);
	snprintf(list, sizeof(list), "0,%d,1", n);
	EQ(seen(list, "PCI_BUS_ID", NULL), 1);
}

static void a_list_may_name_uuids(void)
{
	char name[64] = "GPU-", longer[80];
	int at = 4, mine = place(0), first;
	CUuuid uuid;

	GOOD(cu.cuDeviceGetUuid_v2(&uuid, 0));
	for (int i = 0; i < 16; i++)
		at += sprintf(name + at, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)uuid.bytes[i]);
	EQ(seen(name, "FASTEST_FIRST", &first), 1);
	EQ(first, mine);
	snprintf(longer, sizeof(longer), "%s,GPU-none", name);
	EQ(seen(longer, "FASTEST_FIRST", NULL), 1);
	EQ(seen("GPU-none", "FASTEST_FIRST", NULL), 0);
	name[4 + 13] = '\0';
	EQ(seen(name, "FASTEST_FIRST", &first), 1);
	EQ(first, mine);
}

static void by_place_is_ascending(void)
{
	int n = seen("0,1,2,3,4,5,6,7,8,9", "PCI_BUS_ID", NULL), before = -1;

	for (int i = 0; i < n; i++) {
		char list[16];
		int at = -1;

		snprintf(list, sizeof(list), "%d", i);
		EQ(seen(list, "PCI_BUS_ID", &at), 1);
		OK(at > before);
		before = at;
	}
}

static void a_primary_context_is_one(void)
{
	unsigned int flags = 99;
	CUcontext a = NULL, b = NULL, current = (CUcontext)1;
	int active = -1;
	CUdevice device;

	GOOD(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	EQ(active, 0);
	GOOD(cu.cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC));
	EQ(cu.cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC |
						       CU_CTX_SCHED_SPIN),
	   CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuDevicePrimaryCtxRetain(&a, 0));
	GOOD(cu.cuDevicePrimaryCtxRetain(&b, 0));
	OK(a && a == b);
	GOOD(cu.cuCtxGetCurrent(&current));
	OK(current == NULL);
	EQ(cu.cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
	GOOD(cu.cuCtxSetCurrent(a));
	GOOD(cu.cuCtxGetDevice(&device));
	EQ(device, 0);
	EQ(cu.cuCtxDestroy_v2(a), CUDA_ERROR_INVALID_CONTEXT);
	GOOD(cu.cuDevicePrimaryCtxRelease_v2(0));
	GOOD(cu.cuCtxSynchronize());
	GOOD(cu.cuDevicePrimaryCtxRelease_v2(0));
	GOOD(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	EQ(active, 0);
	EQ(flags, CU_CTX_SCHED_BLOCKING_SYNC);
	EQ(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	GOOD(cu.cuCtxSetCurrent(NULL));
}

static void contexts_stack(void)
{
	CUcontext a = NULL, b = NULL, top = NULL;

	GOOD(cu.cuCtxCreate_v2(&a, 0, 0));
	GOOD(cu.cuCtxCreate_v2(&b, 0, 0));
	OK(a != b);
	GOOD(cu.cuCtxGetCurrent(&top));
	OK(top == b);
	GOOD(cu.cuCtxPopCurrent_v2(&top));
	OK(top == b);
	GOOD(cu.cuCtxGetCurrent(&top));
	OK(top == a);
	GOOD(cu.cuCtxPushCurrent_v2(b));
	GOOD(cu.cuCtxDestroy_v2(b));
	GOOD(cu.cuCtxGetCurrent(&top));
	OK(top == a);
	GOOD(cu.cuCtxDestroy_v2(a));
}

static void a_context_costs_memory(void)
{
	size_t before = 0, after = 0, total = 0;
	CUcontext first = NULL, second = NULL;

	GOOD(cu.cuCtxCreate_v2(&first, 0, 0));
	GOOD(cu.cuMemGetInfo_v2(&before, &total));
	GOOD(cu.cuCtxCreate_v2(&second, 0, 0));
	GOOD(cu.cuMemGetInfo_v2(&after, &total));
	OK(after < before);
	OK(before < total);
	GOOD(cu.cuCtxDestroy_v2(second));
	GOOD(cu.cuCtxDestroy_v2(first));
}

static void a_forked_child_has_no_driver(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int n;

		_exit(cu.cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	}
	waitpid(pid, &status, 0);
	EQ(status, 0);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "see") == 0)
		return see(argv[2], argv);
	if (contract_begin_devices(argv, 1)) {
		every_device_says_what_it_is();
		every_device_has_a_uuid_of_its_own();
		what_is_no_device_is_refused();
		a_list_chooses_devices();
		a_list_may_name_uuids();
		by_place_is_ascending();
		a_primary_context_is_one();
		contexts_stack();
		a_context_costs_memory();
		a_forked_child_has_no_driver();
	}
	return tap_done();
}
