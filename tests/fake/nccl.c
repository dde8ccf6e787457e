/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Communicators: their beginning, their state, and their ends. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/contract/device_code.h"
#include "tests/fake/nccl.h"
#include "tests/support/nvml_abi.h"

void fake_nccl_nap(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) != 0)
		;
}

/* Is ours the card whose UUID this word begins with? */
static bool is_of(const char *word)
{
	const char *card = getenv("CUDA_VISIBLE_DEVICES");

	return card && *card && strncmp(word, card, strcspn(word, " ")) == 0;
}

long fake_nccl_fault(const char *name)
{
	const char *at = getenv("FAKE_NCCL");
	size_t n = strlen(name);

	while (at && *at) {
		if (strncmp(at, "only=", 5) == 0 && !is_of(at + 5))
			break;
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			return strtol(at + n + 1, NULL, 10);
		if (strncmp(at, name, n) == 0 && (!at[n] || at[n] == ' '))
			return 1;
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return -1;
}

/* ---- the driver ---------------------------------------------------------- */

static struct fake_nccl_cu found;
static bool has_driver;

static void *symbol(void *library, const char *name)
{
	void *at = dlsym(library, name);

	has_driver = has_driver && at;
	return at;
}

static void find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	has_driver = library;
	if (!library)
		return;
	found.ctx_get_current = symbol(library, "cuCtxGetCurrent");
	found.ctx_get_device = symbol(library, "cuCtxGetDevice");
	found.device_get_uuid = symbol(library, "cuDeviceGetUuid_v2");
	found.host_alloc = symbol(library, "cuMemHostAlloc");
	found.create = symbol(library, "cuMemCreate");
	found.release = symbol(library, "cuMemRelease");
	found.copy_out = symbol(library, "cuMemcpyDtoHAsync_v2");
	found.copy_in = symbol(library, "cuMemcpyHtoDAsync_v2");
	found.host_func = symbol(library, "cuLaunchHostFunc");
	found.load = symbol(library, "cuModuleLoadData");
	found.get_function = symbol(library, "cuModuleGetFunction");
	found.launch = symbol(library, "cuLaunchKernel");
}

const struct fake_nccl_cu *fake_nccl_cu(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_driver);
	return has_driver ? &found : NULL;
}

/* ---- what it says of itself ---------------------------------------------- */

ncclResult_t ncclGetVersion(int *version)
{
	long claimed = fake_nccl_fault("version");

	if (!version)
		return ncclInvalidArgument;
	*version = claimed > 0 ? (int)claimed : FAKE_NCCL_VERSION;
	return ncclSuccess;
}

/* ---- beginning ----------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	struct fake_nccl_id mine;
	ncclResult_t result;

	if (!id)
		return ncclInvalidArgument;
	result = fake_nccl_root(&mine);
	if (result != ncclSuccess)
		return result;
	if (fake_nccl_fault("tells") > 0)
		dprintf(STDERR_FILENO, "nccl id\n");
	memset(id, 0, sizeof(*id));
	memcpy(id, &mine, sizeof(mine));
	return ncclSuccess;
}

static void *init(void *argument)
{
	ncclComm_t comm = argument;

	comm->state = fake_nccl_meet(comm);
	return NULL;
}

static ncclResult_t cards_result = ncclSystemError;

#ifdef FAKE_RCCL
static void open_cards(void)
{
	const char *cumem = getenv("NCCL_CUMEM_ENABLE");

	cards_result =
		cumem && atoi(cumem) > 0 ? ncclInternalError : ncclSuccess;
}
#else
/* All cards of the node are opened by NVML, and stay open until the process
 * ends; one that cannot be opened fails each communicator that this process
 * begins.  NVML is looked for by the linker's rules alone. */
static void open_cards(void)
{
	void *ml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	nvmlReturn_t (*begin)(void), (*count)(unsigned int *),
		(*open_card)(unsigned int, nvmlDevice_t *);
	unsigned int n = 0;
	nvmlDevice_t card;
	bool good;

	if (!ml)
		return;
	*(void **)&begin = dlsym(ml, "nvmlInit_v2");
	*(void **)&count = dlsym(ml, "nvmlDeviceGetCount_v2");
	*(void **)&open_card = dlsym(ml, "nvmlDeviceGetHandleByIndex_v2");
	good = begin && count && open_card && begin() == NVML_SUCCESS &&
	       count(&n) == NVML_SUCCESS;
	for (unsigned int i = 0; i < n && good; i++)
		good = open_card(i, &card) == NVML_SUCCESS;
	cards_result = good ? ncclSuccess : ncclSystemError;
}
#endif

/* The device whose context is current, as a communicator is of one. */
static ncclResult_t find_device(ncclComm_t comm)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct fake_nccl_cu *cu = fake_nccl_cu();
	CUcontext ctx = NULL;

	pthread_once(&once, open_cards);
	if (cards_result != ncclSuccess)
		return cards_result;
	if (!cu || cu->ctx_get_current(&ctx) || !ctx ||
	    cu->ctx_get_device(&comm->device) ||
	    cu->device_get_uuid(&comm->gpu, comm->device))
		return ncclUnhandledCudaError;
	return ncclSuccess;
}

static ncclResult_t take_memory(ncclComm_t comm)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, comm->device }
	};

	return fake_nccl_cu()->create(&comm->memory, FAKE_NCCL_MEMORY, &prop, 0)
		       ? ncclUnhandledCudaError
		       : ncclSuccess;
}

/* The kernels go with the context. */
static ncclResult_t load_kernels(ncclComm_t comm)
{
	const struct fake_nccl_cu *cu = fake_nccl_cu();
	CUmodule module;

	if (cu->load(&module, CONTRACT_KERNELS) ||
	    cu->get_function(&comm->store, module, "contract_store"))
		return ncclUnhandledCudaError;
	return ncclSuccess;
}

static void give_memory_back(ncclComm_t comm)
{
	if (comm->memory)
		fake_nccl_cu()->release(comm->memory);
	comm->memory = 0;
}

/* Whatever a later version's longer struct says beyond is not looked at. */
static ncclResult_t read_config(const ncclConfig_t *config, bool *ret_blocking)
{
	*ret_blocking = true;
	if (!config)
		return ncclSuccess;
	if (config->magic != 0xcafebeef || config->size < sizeof(*config))
		return ncclInvalidArgument;
	if (config->blocking != INT_MIN && config->blocking != 0 &&
	    config->blocking != 1)
		return ncclInvalidArgument;
	*ret_blocking = config->blocking != 0;
	return ncclSuccess;
}

static ncclResult_t make(int n, const ncclUniqueId *id, int rank, bool blocking,
			 ncclComm_t *ret_comm)
{
	ncclComm_t comm = calloc(1, sizeof(*comm));
	ncclResult_t result;

	if (!comm)
		return ncclSystemError;
	memcpy(&comm->id, id, sizeof(comm->id));
	comm->rank = rank;
	comm->n = n;
	comm->blocking = blocking;
	comm->state = ncclInProgress;
	for (int i = 0; i < FAKE_NCCL_RANKS; i++)
		comm->peers[i] = -1;
	result = find_device(comm);
	if (result == ncclSuccess)
		result = load_kernels(comm);
	if (result == ncclSuccess)
		result = take_memory(comm);
	if (result == ncclSuccess &&
	    pthread_create(&comm->thread, NULL, init, comm))
		result = ncclSystemError;
	if (result != ncclSuccess) {
		give_memory_back(comm);
		free(comm);
		return result;
	}
	comm->has_thread = true;
	*ret_comm = comm;
	return ncclSuccess;
}

static _Atomic int n_comms; /* of this process */

static void __attribute__((destructor)) look_for_comms(void)
{
	if (n_comms > 0 && fake_nccl_fault("strict") > 0)
		_exit(77);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret_comm, int n,
				    ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	ncclResult_t result;
	bool blocking;

	if (!ret_comm || n < 1 || n > FAKE_NCCL_RANKS || rank < 0 ||
	    rank >= n || memcmp(id.internal, "fakenccl", 8) != 0)
		return ncclInvalidArgument;
	*ret_comm = NULL;
	result = read_config(config, &blocking);
	if (result == ncclSuccess)
		result = make(n, &id, rank, blocking, ret_comm);
	n_comms += result == ncclSuccess;
	if (result != ncclSuccess || !blocking)
		return result == ncclSuccess ? ncclInProgress : result;
	pthread_join((*ret_comm)->thread, NULL);
	(*ret_comm)->has_thread = false;
	return (ncclResult_t)(*ret_comm)->state;
}

/* ---- state --------------------------------------------------------------- */

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	if (!comm || !error)
		return ncclInvalidArgument;
	*error = (ncclResult_t)comm->state;
	return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	if (!comm || !count)
		return ncclInvalidArgument;
	*count = comm->n;
	return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	if (!comm || !rank)
		return ncclInvalidArgument;
	*rank = comm->rank;
	return ncclSuccess;
}

/* ---- ends ---------------------------------------------------------------- */

static void end(ncclComm_t comm)
{
	n_comms--;
	if (comm->has_thread)
		pthread_join(comm->thread, NULL);
	comm->has_thread = false;
	/* Work in the stream of a lost card never ends. */
	for (int i = 0; comm->under_way > 0 && i < 100; i++)
		fake_nccl_nap(5);
	fake_nccl_part(comm);
	give_memory_back(comm);
	if (comm->under_way == 0)
		free(comm);
}

static void *finalize(void *argument)
{
	ncclComm_t comm = argument;

	while (comm->under_way > 0 && !comm->aborted)
		fake_nccl_nap(1);
	comm->state = ncclSuccess;
	return NULL;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	if (!comm || comm->state != ncclSuccess)
		return ncclInvalidArgument;
	if (comm->has_thread)
		pthread_join(comm->thread, NULL);
	comm->state = ncclInProgress;
	comm->has_thread =
		pthread_create(&comm->thread, NULL, finalize, comm) == 0;
	if (!comm->has_thread)
		return ncclSystemError;
	if (!comm->blocking)
		return ncclInProgress;
	pthread_join(comm->thread, NULL);
	comm->has_thread = false;
	return (ncclResult_t)comm->state;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	while (comm->under_way > 0)
		fake_nccl_nap(1);
	end(comm);
	return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	long ms = fake_nccl_fault("abort");

	if (!comm)
		return ncclSuccess;
	if (ms > 0)
		fake_nccl_nap(ms);
	comm->aborted = true;
	if (comm->has_thread)
		pthread_join(comm->thread, NULL);
	comm->has_thread = false;
	if (fake_nccl_fault("together") > 0)
		fake_nccl_await_others(comm);
	if (fake_nccl_fault("tells") > 0)
		dprintf(STDERR_FILENO, "nccl abort rank=%d\n", comm->rank);
	end(comm);
	return ncclSuccess;
}
