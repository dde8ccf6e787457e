/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Devices, their orders and names, and contexts. */

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define DEVICES_MAX 64

static int attribute(CUdevice device, CUdevice_attribute which)
{
	int value = -1;

	GOOD(cu.cuDeviceGetAttribute(&value, which, device));
	return value;
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
		/* All instances of a card are where it is. */
		if (contract_is_part(device))
			EQ(place(same), place(device));
		else
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

/* One process's view of the first of its devices. */
struct sight {
	int n; /* devices; -1: it could not tell */
	int place;
	int is_part; /* of a split card */
	CUuuid uuid;
};

/* Look from a process of its own, which has @list for CUDA_VISIBLE_DEVICES.
 * Returns how many devices it sees; ret_first may be NULL. */
static int seen(const char *list, const char *order, struct sight *ret_first)
{
	struct sight sight = { .n = -1 };
	int pipes[2];
	pid_t pid;

	if (pipe(pipes))
		return -1;
	pid = fork();
	if (pid == 0) {
		char write_end[16];

		snprintf(write_end, sizeof(write_end), "%d", pipes[1]);
		setenv("CUDA_VISIBLE_DEVICES", list, 1);
		setenv("CUDA_DEVICE_ORDER", order, 1);
		unsetenv("CONTRACT_UNDER");
		execl("/proc/self/exe", "device", "see", write_end,
		      (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	if (read(pipes[0], &sight, sizeof(sight)) != sizeof(sight))
		sight.n = -1;
	close(pipes[0]);
	waitpid(pid, NULL, 0);
	if (ret_first)
		*ret_first = sight;
	return sight.n;
}

/* The other side of seen(), which speaks for itself: no TAP here. */
static int see(const char *fd, char **argv)
{
	struct sight sight = { 0 };
	CUuuid card;

	if (contract_load(argv))
		return 1;
	if (cu.cuInit(0) == CUDA_SUCCESS)
		cu.cuDeviceGetCount(&sight.n);
	if (sight.n > 0) {
		sight.place = place(0);
		if (cu.cuDeviceGetUuid_v2(&sight.uuid, 0) ||
		    cu.cuDeviceGetUuid(&card, 0))
			return 1;
		sight.is_part = memcmp(&card, &sight.uuid, sizeof(card)) != 0;
	}
	return write(atoi(fd), &sight, sizeof(sight)) != sizeof(sight);
}

static bool is_same(const struct sight *a, const struct sight *b)
{
	return memcmp(&a->uuid, &b->uuid, sizeof(a->uuid)) == 0;
}

static void a_list_chooses_devices(void)
{
	int n = seen("0,1,2,3,4,5,6,7,8,9", "PCI_BUS_ID", NULL);
	struct sight first, last;
	char list[32];

	OK(n >= 1);
	EQ(seen("0", "PCI_BUS_ID", &first), 1);
	snprintf(list, sizeof(list), "%d", n - 1);
	EQ(seen(list, "PCI_BUS_ID", &last), 1);
	OK(n == 1 || !is_same(&first, &last));
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
	OK(is_same(&first, &last));
	snprintf(list, sizeof(list), "0,%d,1", n);
	EQ(seen(list, "PCI_BUS_ID", NULL), 1);
}

static void a_list_may_name_uuids(void)
{
	char name[CONTRACT_NAME_BYTES], none[16], longer[80];
	struct sight mine, first;

	contract_name(0, name);
	GOOD(cu.cuDeviceGetUuid_v2(&mine.uuid, 0));
	EQ(seen(name, "FASTEST_FIRST", &first), 1);
	OK(is_same(&first, &mine));
	snprintf(none, sizeof(none), "%.4snone", name);
	snprintf(longer, sizeof(longer), "%s,%s", name, none);
	EQ(seen(longer, "FASTEST_FIRST", NULL), 1);
	EQ(seen(none, "FASTEST_FIRST", NULL), 0);
	name[4 + 13] = '\0';
	EQ(seen(name, "FASTEST_FIRST", &first), 1);
	OK(is_same(&first, &mine));
}

/* Instances of one card are at one place. */
static void by_place_is_ascending(void)
{
	int n = seen("0,1,2,3,4,5,6,7,8,9", "PCI_BUS_ID", NULL);
	struct sight before = { .place = -1 };

	for (int i = 0; i < n; i++) {
		struct sight at = { .place = -1 };
		char list[16];

		snprintf(list, sizeof(list), "%d", i);
		EQ(seen(list, "PCI_BUS_ID", &at), 1);
		OK(at.place > before.place ||
		   (at.place == before.place && at.is_part && before.is_part &&
		    !is_same(&at, &before)));
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
	/* The driver may add how it maps host memory. */
	EQ(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_BLOCKING_SYNC);
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

TAP_CASE_ARGS(argc, argv)
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
