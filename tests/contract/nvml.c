/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* NVML: what it says of the cards, what it hears of them, who it agrees
 * with. */

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"
#include "tests/contract/device_code.h"
#include "tests/support/nvml_abi.h"

#define CARDS_MAX 64

static struct nvml_calls ml;
static __typeof__(&nvmlErrorString) error_string;

static bool load(void)
{
	void *library = contract_open("libnvidia-ml.so.1");

	if (!library) {
		LACK("nvml", 1, "no libnvidia-ml.so.1");
		return false;
	}
	nvml_calls_find(&ml, library);
	*(void **)&error_string = dlsym(library, "nvmlErrorString");
	return OK(ml.nvmlInit_v2 && ml.nvmlShutdown && error_string);
}

static void before_init_nothing_works(void)
{
	unsigned int n;

	EQ(ml.nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	OK(error_string(NVML_ERROR_GPU_IS_LOST) != NULL);
}

static void inits_are_counted(void)
{
	unsigned int n;

	EQ(ml.nvmlInit_v2(), NVML_SUCCESS);
	EQ(ml.nvmlInit_v2(), NVML_SUCCESS);
	EQ(ml.nvmlShutdown(), NVML_SUCCESS);
	EQ(ml.nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	EQ(ml.nvmlShutdown(), NVML_SUCCESS);
	EQ(ml.nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
}

static nvmlDevice_t card(unsigned int index)
{
	nvmlDevice_t device = NULL;

	EQ(ml.nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
	return device;
}

static unsigned int count(void)
{
	unsigned int n = 0;

	EQ(ml.nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	return n < CARDS_MAX ? n : CARDS_MAX;
}

static void the_system_says_its_versions(void)
{
	char text[80];
	int version = 0, cuda = 0;

	EQ(ml.nvmlSystemGetDriverVersion(text, sizeof(text)), NVML_SUCCESS);
	OK(text[0] >= '0' && text[0] <= '9');
	NOTE("driver %s", text);
	EQ(ml.nvmlSystemGetDriverVersion(text, 2),
	   NVML_ERROR_INSUFFICIENT_SIZE);
	EQ(ml.nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
	GOOD(cu.cuDriverGetVersion(&cuda));
	EQ(version, cuda);
}

static void a_card_is_found_by_all_its_names(void)
{
	for (unsigned int i = 0; i < count(); i++) {
		nvmlDevice_t device = card(i), same = NULL;
		unsigned int index = 99;
		nvmlPciInfo_t pci = { 0 };
		char uuid[96] = "";

		EQ(ml.nvmlDeviceGetIndex(device, &index), NVML_SUCCESS);
		EQ(index, i);
		EQ(ml.nvmlDeviceGetUUID(device, uuid, sizeof(uuid)),
		   NVML_SUCCESS);
		EQ(strncmp(uuid, "GPU-", 4), 0);
		EQ(ml.nvmlDeviceGetUUID(device, uuid, 8),
		   NVML_ERROR_INSUFFICIENT_SIZE);
		EQ(ml.nvmlDeviceGetUUID(device, uuid, sizeof(uuid)),
		   NVML_SUCCESS);
		EQ(ml.nvmlDeviceGetHandleByUUID(uuid, &same), NVML_SUCCESS);
		OK(same == device);
		EQ(ml.nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
		/* Eight digits for a domain that four would do for. */
		EQ(strlen(pci.busId), strlen("00000000:00:00.0"));
		EQ(strtoul(pci.busId, NULL, 16), pci.domain);
		EQ(strtoul(pci.busId + 9, NULL, 16), pci.bus);
		EQ(ml.nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &same),
		   NVML_SUCCESS);
		OK(same == device);
		NOTE("%u: %s at %s", i, uuid, pci.busId);
	}
}

static void what_is_no_card_is_refused(void)
{
	nvmlDevice_t device = NULL;

	EQ(ml.nvmlDeviceGetHandleByIndex_v2(count(), &device),
	   NVML_ERROR_INVALID_ARGUMENT);
	EQ(ml.nvmlDeviceGetHandleByUUID("GPU-none", &device),
	   NVML_ERROR_NOT_FOUND);
	EQ(ml.nvmlDeviceGetHandleByIndex_v2(0, NULL),
	   NVML_ERROR_INVALID_ARGUMENT);
}

/* CUDA's UUID of @device: a card, or an instance of a split one. */
static nvmlDevice_t handle_of(CUdevice device)
{
	char name[CONTRACT_NAME_BYTES];
	nvmlDevice_t handle = NULL;

	contract_name(device, name);
	EQ(ml.nvmlDeviceGetHandleByUUID(name, &handle), NVML_SUCCESS);
	return handle;
}

/* The card that it is, or is on: much is said of, and happens to, cards
 * only. */
static nvmlDevice_t card_of(CUdevice device)
{
	nvmlDevice_t handle = handle_of(device), whole = NULL;

	if (!contract_is_part(device))
		return handle;
	EQ(ml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle, &whole),
	   NVML_SUCCESS);
	return whole;
}

static void cuda_and_nvml_agree(void)
{
	int n = 0;

	GOOD(cu.cuDeviceGetCount(&n));
	for (int i = 0; i < n; i++) {
		nvmlDevice_t device = card_of(i);
		int major = 0, minor = 0, value = 0;
		char name[2][96] = { "", "" };
		nvmlPciInfo_t pci = { 0 };
		unsigned int mode = 99;

		EQ(ml.nvmlDeviceGetName(handle_of(i), name[0], 96),
		   NVML_SUCCESS);
		GOOD(cu.cuDeviceGetName(name[1], 96, i));
		STR(name[0], name[1]);
		EQ(ml.nvmlDeviceGetCudaComputeCapability(device, &major,
							 &minor),
		   NVML_SUCCESS);
		GOOD(cu.cuDeviceGetAttribute(
			&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
			i));
		EQ(major, value);
		EQ(ml.nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
		GOOD(cu.cuDeviceGetAttribute(
			&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
		EQ(pci.bus, value);
		EQ(ml.nvmlDeviceGetComputeMode(device, &mode), NVML_SUCCESS);
		GOOD(cu.cuDeviceGetAttribute(
			&value, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, i));
		EQ(mode, value);
	}
}

/* An instance is one, has a number on its card, and as many processors as CUDA
 * counts. */
static void instances_are_parts_of_cards(void)
{
	int n = 0, n_parts = 0, processors = 0;

	GOOD(cu.cuDeviceGetCount(&n));
	for (int i = 0; i < n; i++) {
		nvmlDevice_t part = handle_of(i);
		nvmlDeviceAttributes_t has = { 0 };
		unsigned int is_part = 99, id = 99;

		if (!contract_is_part(i))
			continue;
		n_parts++;
		EQ(ml.nvmlDeviceIsMigDeviceHandle(part, &is_part),
		   NVML_SUCCESS);
		EQ(is_part, 1);
		EQ(ml.nvmlDeviceIsMigDeviceHandle(card_of(i), &is_part),
		   NVML_SUCCESS);
		EQ(is_part, 0);
		EQ(ml.nvmlDeviceGetGpuInstanceId(part, &id), NVML_SUCCESS);
		EQ(ml.nvmlDeviceGetAttributes_v2(part, &has), NVML_SUCCESS);
		GOOD(cu.cuDeviceGetAttribute(
			&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
			i));
		EQ(has.multiprocessorCount, processors);
	}
	if (n_parts == 0)
		SKIP(1, "no card is split");
}

static void memory_moves_with_its_use(void)
{
	nvmlMemory_v2_t finer = { .version = 1 };
	nvmlMemory_t before, after;
	nvmlDevice_t device = handle_of(0);
	CUdeviceptr at = 0;

	if (ml.nvmlDeviceGetMemoryInfo(device, &before) ==
	    NVML_ERROR_NOT_SUPPORTED) {
		SKIP(1, "this card's memory is the host's");
		return;
	}
	if (!contract_context())
		return;
	EQ(ml.nvmlDeviceGetMemoryInfo(device, &before), NVML_SUCCESS);
	EQ(before.free + before.used, before.total);
	GOOD(cu.cuMemAlloc_v2(&at, (size_t)256 << 20));
	EQ(ml.nvmlDeviceGetMemoryInfo(device, &after), NVML_SUCCESS);
	OK(after.free + ((size_t)256 << 20) <= before.free);
	GOOD(cu.cuMemFree_v2(at));
	EQ(ml.nvmlDeviceGetMemoryInfo(device, &after), NVML_SUCCESS);
	EQ(after.free, before.free);

	EQ(ml.nvmlDeviceGetMemoryInfo_v2(device, &finer),
	   NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	finer.version = NVML_MEMORY_V2;
	EQ(ml.nvmlDeviceGetMemoryInfo_v2(device, &finer), NVML_SUCCESS);
	EQ(finer.total, after.total);
	EQ(finer.free + finer.used + finer.reserved, finer.total);
	contract_end_context();
}

/* The bytes that NVML lists for us; 0: it does not list us, or tells none. */
static uint64_t listed_for_us(nvmlDevice_t device)
{
	nvmlProcessInfo_t of[CARDS_MAX] = { 0 };
	unsigned int n = CARDS_MAX;
	uint64_t sum = 0;

	if (ml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, of) !=
	    NVML_SUCCESS)
		return 0;
	for (unsigned int i = 0; i < n; i++)
		if (of[i].pid == (unsigned int)getpid() &&
		    of[i].usedGpuMemory != NVML_VALUE_NOT_AVAILABLE)
			sum += of[i].usedGpuMemory;
	return sum;
}

/* The memory of a process is part of what is used.  In a pid namespace of its
 * own, and on some virtual GPUs, a process is not listed by its own pid. */
static void memory_of_processes_is_told(void)
{
	nvmlMemory_t memory = { 0 };
	nvmlDevice_t device = handle_of(0);
	CUdeviceptr at = 0;
	uint64_t before, after;

	if (!contract_context())
		return;
	before = listed_for_us(device);
	GOOD(cu.cuMemAlloc_v2(&at, (size_t)256 << 20));
	after = listed_for_us(device);
	if (after == 0) {
		SKIP(3, "NVML does not list this process with its memory");
	} else {
		OK(after >= before + ((uint64_t)256 << 20));
		EQ(ml.nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
		OK(memory.used >= after);
	}
	GOOD(cu.cuMemFree_v2(at));
	EQ(listed_for_us(device), before);
	contract_end_context();
}

static void two_cards_are_related(void)
{
	nvmlGpuTopologyLevel_t level = 0;
	nvmlGpuP2PStatus_t status = 99;

	if (count() < 2) {
		SKIP(2, "one card only");
		return;
	}
	EQ(ml.nvmlDeviceGetTopologyCommonAncestor(card(0), card(1), &level),
	   NVML_SUCCESS);
	OK(level >= NVML_TOPOLOGY_SINGLE && level <= NVML_TOPOLOGY_SYSTEM);
	EQ(ml.nvmlDeviceGetP2PStatus(card(0), card(1), NVML_P2P_CAPS_INDEX_READ,
				     &status),
	   NVML_SUCCESS);
	OK(status <= NVML_P2P_STATUS_UNKNOWN);
}

static void nothing_happens_until_it_does(void)
{
	nvmlEventSet_t set = NULL;
	nvmlEventData_t data;
	double from;

	EQ(ml.nvmlEventSetCreate(&set), NVML_SUCCESS);
	EQ(ml.nvmlDeviceRegisterEvents(card(0), NVML_EVENT_XID, set),
	   NVML_SUCCESS);
	from = contract_now_ms();
	EQ(ml.nvmlEventSetWait_v2(set, &data, 20), NVML_ERROR_TIMEOUT);
	OK(contract_now_ms() - from >= 19);
	EQ(ml.nvmlEventSetFree(set), NVML_SUCCESS);
}

/* A process whose kernel writes where nothing is. */
static int fault(void)
{
	CUdeviceptr at = 0x10;
	uint32_t value = 1;
	void *params[] = { &at, &value };
	CUcontext context;
	CUfunction f;
	CUmodule m;

	if (cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) ||
	    cu.cuCtxSetCurrent(context) ||
	    cu.cuModuleLoadData(&m, CONTRACT_KERNELS) ||
	    cu.cuModuleGetFunction(&f, m, "contract_store") ||
	    cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL))
		return 1;
	return cu.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 2;
}

static void a_strangers_fault_is_heard_of(void)
{
	nvmlEventData_t data = { 0 };
	nvmlEventSet_t set = NULL;
	nvmlDevice_t device = card_of(0);
	unsigned int instance = UINT32_MAX; /* of a card that is whole */
	char name[96];
	int status = -1;
	pid_t pid;

	if (contract_is_part(0))
		EQ(ml.nvmlDeviceGetGpuInstanceId(handle_of(0), &instance),
		   NVML_SUCCESS);
	EQ(ml.nvmlEventSetCreate(&set), NVML_SUCCESS);
	EQ(ml.nvmlDeviceRegisterEvents(device, NVML_EVENT_XID, set),
	   NVML_SUCCESS);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "nvml", "fault", (char *)NULL);
		_exit(127);
	}
	EQ(ml.nvmlEventSetWait_v2(set, &data, 10000), NVML_SUCCESS);
	EQ(data.eventType, NVML_EVENT_XID);
	/* An MMU fault, or an exception of the engine. */
	OK(data.eventData == 31 || data.eventData == 13);
	OK(data.device == device);
	EQ(data.gpuInstanceId, instance);
	waitpid(pid, &status, 0);
	EQ(status, 0);
	/* The card itself has nothing. */
	EQ(ml.nvmlDeviceGetName(device, name, sizeof(name)), NVML_SUCCESS);
	EQ(ml.nvmlEventSetFree(set), NVML_SUCCESS);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc == 2 && strcmp(argv[1], "fault") == 0)
		return contract_load(argv) ? 1 : fault();
	if (!contract_begin_devices(argv, 1) || !load())
		return tap_done();
	before_init_nothing_works();
	inits_are_counted();
	if (EQ(ml.nvmlInit_v2(), NVML_SUCCESS)) {
		the_system_says_its_versions();
		a_card_is_found_by_all_its_names();
		what_is_no_card_is_refused();
		cuda_and_nvml_agree();
		instances_are_parts_of_cards();
		memory_moves_with_its_use();
		memory_of_processes_is_told();
		two_cards_are_related();
		nothing_happens_until_it_does();
		a_strangers_fault_is_heard_of();
		EQ(ml.nvmlShutdown(), NVML_SUCCESS);
	}
	return tap_done();
}
