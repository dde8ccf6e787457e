/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The stand-in alone: what its plan of faults says comes to pass.  Each scene
 * has a machine of its own and one or two processes on it, which are this
 * program again with the name of their part.
 */

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract.h"
#include "tests/contract_kernels.h"
#include "tests/fake/machine.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* ---- parts: each returns 0, or the line of what went wrong */

#define WANT(condition)                            \
	do {                                       \
		if (!(condition))                  \
			return __LINE__ % 250 + 1; \
	} while (0)

static CUmodule module;

static int start(CUdevice device)
{
	CUcontext context;

	WANT(!cu.cuInit(0));
	WANT(!cu.cuDevicePrimaryCtxRetain(&context, device));
	WANT(!cu.cuCtxSetCurrent(context));
	return 0;
}

static int end(CUdevice device)
{
	if (module)
		WANT(!cu.cuModuleUnload(module));
	WANT(!cu.cuCtxSetCurrent(NULL));
	WANT(!cu.cuDevicePrimaryCtxRelease_v2(device));
	return 0;
}

static CUresult store(CUdeviceptr at)
{
	uint32_t value = 1;
	void *params[] = { &at, &value };
	CUfunction f;

	if (!module && cu.cuModuleLoadData(&module, CONTRACT_KERNELS))
		return CUDA_ERROR_UNKNOWN;
	if (cu.cuModuleGetFunction(&f, module, "contract_store"))
		return CUDA_ERROR_UNKNOWN;
	return cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

static int third_launch_dies(void)
{
	CUdeviceptr at;

	WANT(!start(0) && !cu.cuMemAlloc_v2(&at, 4096));
	WANT(!store(at) && !store(at) && !cu.cuCtxSynchronize());
	WANT(!store(at));
	WANT(cu.cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
	WANT(store(at) == CUDA_ERROR_UNKNOWN); /* from GetFunction, as all */
	WANT(cu.cuMemFree_v2(at) == CUDA_ERROR_LAUNCH_FAILED);
	return 0;
}

static int memory_ends(void)
{
	CUdeviceptr a, b;

	WANT(!start(0) && !cu.cuMemAlloc_v2(&a, 2 * GIB));
	WANT(cu.cuMemAlloc_v2(&b, 2 * GIB) == CUDA_ERROR_OUT_OF_MEMORY);
	WANT(!cu.cuMemFree_v2(a) && !cu.cuMemAlloc_v2(&b, 2 * GIB));
	WANT(!cu.cuMemFree_v2(b));
	return end(0);
}

/* Never ends: it is killed. */
static int hang(void)
{
	CUdeviceptr at;

	WANT(!start(0) && !cu.cuMemAlloc_v2(&at, 64 * MIB) && !store(at));
	cu.cuCtxSynchronize();
	return 1;
}

static int hold_memory(void)
{
	CUdeviceptr at;

	WANT(!start(0) && !cu.cuMemAlloc_v2(&at, 64 * MIB));
	pause();
	return 1;
}

static int card_goes(void)
{
	CUdeviceptr at;
	CUresult result = CUDA_SUCCESS;

	WANT(!start(0) && !cu.cuMemAlloc_v2(&at, 4096));
	for (int i = 0; i < 1000 && !result; i++) {
		result = cu.cuCtxSynchronize();
		contract_rest_ms(2);
	}
	WANT(result == CUDA_ERROR_UNKNOWN);
	WANT(cu.cuMemFree_v2(at) == CUDA_ERROR_UNKNOWN);
	return 0;
}

static int symbols_lack(void)
{
	WANT(!cu.cuStreamBatchMemOp_v2 && !cu.cuStreamBatchMemOp);
	WANT(cu.cuMemAlloc_v2 != NULL);
	return 0;
}

static int driver_is_old(void)
{
	int version = 0;
	CUmodule m;

	WANT(!cu.cuDriverGetVersion(&version) && version == 12020);
	WANT(!cu.cuCtxCreate_v4 && cu.cuCtxCreate_v2);
	WANT(!start(0));
	WANT(cu.cuModuleLoadData(&m,
				 CONTRACT_HEAD("8.3", "sm_52") CONTRACT_TRAP) ==
	     CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	WANT(!cu.cuModuleLoadData(&module,
				  CONTRACT_HEAD("8.2", "sm_52") CONTRACT_TRAP));
	return end(0);
}

static int no_init(void)
{
	double from = contract_now_ms();

	WANT(cu.cuInit(0) == CUDA_ERROR_SYSTEM_NOT_READY);
	WANT(contract_now_ms() - from >= 49);
	return 0;
}

static int no_memory_operations(void)
{
	CUdeviceptr at;

	WANT(!start(0) && !cu.cuMemAlloc_v2(&at, 4096));
	WANT(cu.cuStreamWriteValue64_v2(NULL, at, 1, 0) ==
	     CUDA_ERROR_NOT_SUPPORTED);
	WANT(!cu.cuMemFree_v2(at));
	return end(0);
}

static int no_compiler(void)
{
	WANT(!start(0));
	WANT(cu.cuModuleLoadData(&module, CONTRACT_KERNELS) ==
	     CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
	return end(0);
}

static int no_card(void)
{
	WANT(cu.cuInit(0) == CUDA_ERROR_NO_DEVICE);
	return 0;
}

static int card_is_taken(void)
{
	CUcontext context;

	WANT(!cu.cuInit(0));
	WANT(cu.cuDevicePrimaryCtxRetain(&context, 0) ==
	     CUDA_ERROR_DEVICE_UNAVAILABLE);
	return 0;
}

static int card_is_prohibited(void)
{
	CUcontext context;

	WANT(!cu.cuInit(0));
	WANT(cu.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_UNKNOWN);
	return 0;
}

static int leave_things_behind(void)
{
	CUstream stream;

	WANT(!start(0) && !cu.cuStreamCreate(&stream, 0));
	return 0;
}

/* What went to the other card is not what comes back. */
static int links_lie(void)
{
	uint32_t here[256], there[256];
	CUcontext contexts[2];
	CUdeviceptr at[2];
	int can = 0;

	for (uint32_t i = 0; i < 256; i++)
		here[i] = i;
	WANT(!cu.cuInit(0));
	WANT(!cu.cuDeviceCanAccessPeer(&can, 0, 1) && can);
	for (int i = 0; i < 2; i++)
		WANT(!cu.cuDevicePrimaryCtxRetain(&contexts[i], i) &&
		     !cu.cuCtxSetCurrent(contexts[i]) &&
		     !cu.cuMemAlloc_v2(&at[i], sizeof(here)));
	WANT(!cu.cuMemcpyHtoD_v2(at[0], here, sizeof(here)));
	WANT(!cu.cuMemcpyPeer(at[1], contexts[1], at[0], contexts[0],
			      sizeof(here)));
	WANT(!cu.cuMemcpyDtoH_v2(there, at[1], sizeof(there)));
	WANT(memcmp(here, there, sizeof(here)) != 0);
	WANT(!cu.cuMemcpyDtoH_v2(there, at[0], sizeof(there)));
	WANT(memcmp(here, there, sizeof(here)) == 0);
	for (int i = 0; i < 2; i++)
		WANT(!cu.cuMemFree_v2(at[i]) &&
		     !cu.cuDevicePrimaryCtxRelease_v2(i));
	return 0;
}

#define EXTRA                                                                 \
	CONTRACT_HEAD("6.4", "sm_52")                                         \
	".visible .entry extra_invert(.param .u64 a, .param .u64 n) {ret;}\n" \
	".visible .entry extra_mismatch(.param .u64 a) {ret;}\n"              \
	".visible .entry extra_unknown() {ret;}\n"

/* Kernels come from outside, and must take what their PTX says. */
static int others_kernels(void)
{
	uint64_t n = 3;
	CUdeviceptr at;
	void *params[] = { &at, &n };
	uint8_t got[4];
	CUfunction f;

	WANT(!start(0) && !cu.cuModuleLoadData(&module, EXTRA));
	WANT(!cu.cuMemAlloc_v2(&at, 64) && !cu.cuMemsetD8_v2(at, 0x0f, 64));
	WANT(!cu.cuModuleGetFunction(&f, module, "extra_invert"));
	WANT(!cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	WANT(!cu.cuMemcpyDtoH_v2(got, at, 4));
	WANT(got[0] == 0xf0 && got[2] == 0xf0 && got[3] == 0x0f);
	WANT(cu.cuModuleGetFunction(&f, module, "extra_mismatch") ==
	     CUDA_ERROR_NOT_FOUND);
	WANT(cu.cuModuleGetFunction(&f, module, "extra_unknown") ==
	     CUDA_ERROR_NOT_FOUND);
	WANT(!cu.cuMemFree_v2(at));
	return end(0);
}

/* One lane: what is behind a waiting operation waits with it. */
static int queues_are_few(void)
{
	_Atomic uint32_t *word;
	CUstream a, b;
	CUdeviceptr at;

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
	WANT(!start(0) && !cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	WANT(!cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	WANT(!cu.cuMemHostAlloc((void **)&word, 4096, 0));
	*word = 0;
	WANT(!cu.cuMemHostGetDevicePointer_v2(&at, (void *)word, 0));
	WANT(!cu.cuStreamWaitValue32_v2(a, at, 1, CU_STREAM_WAIT_VALUE_EQ));
	WANT(!cu.cuStreamWriteValue32_v2(b, at + 4, 1, 0));
	contract_rest_ms(20);
	WANT(cu.cuStreamQuery(b) == CUDA_ERROR_NOT_READY);
	*word = 1;
	WANT(!cu.cuStreamSynchronize(b) && !cu.cuStreamSynchronize(a));
	WANT(!cu.cuStreamDestroy_v2(a) && !cu.cuStreamDestroy_v2(b));
	WANT(!cu.cuMemFreeHost((void *)word));
	return end(0);
}

static const struct part {
	const char *name;
	int (*play)(void);
} parts[] = {
	{ "third launch dies", third_launch_dies },
	{ "memory ends", memory_ends },
	{ "hang", hang },
	{ "hold memory", hold_memory },
	{ "card goes", card_goes },
	{ "symbols lack", symbols_lack },
	{ "driver is old", driver_is_old },
	{ "no init", no_init },
	{ "no memory operations", no_memory_operations },
	{ "no compiler", no_compiler },
	{ "others' kernels", others_kernels },
	{ "no card", no_card },
	{ "card is taken", card_is_taken },
	{ "card is prohibited", card_is_prohibited },
	{ "leave things behind", leave_things_behind },
	{ "links lie", links_lie },
	{ "queues are few", queues_are_few },
};

static int play(const char *name, char **argv)
{
	if (contract_load(argv))
		return 251;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(parts[i].name, name) == 0)
			return parts[i].play();
	return 252;
}

/* ---- scenes */

struct scene {
	int fd;
	char path[64];
	char dev[32];
	struct fake_hardware hw;
};

static bool set(struct scene *scene, const char *node, const char *plan)
{
	const char *source = getenv("abs_top_srcdir");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/tests/nodes/%s", source ? source : ".",
		 node);
	scene->fd = memfd_create("scene", MFD_CLOEXEC);
	strcpy(scene->dev, "/tmp/gpumap-scene.XXXXXX");
	if (!OK(mkdtemp(scene->dev) != NULL))
		return false;
	if (!EQ(fake_machine_make(scene->fd, path, plan, scene->dev), 0)) {
		rmdir(scene->dev);
		return false;
	}
	snprintf(scene->path, sizeof(scene->path), "/proc/%d/fd/%d", getpid(),
		 scene->fd);
	return EQ(fake_hardware_open(scene->path, &scene->hw), 0);
}

static void clear(struct scene *scene)
{
	char path[64];

	for (uint32_t i = 0; i < scene->hw.board->n_gpus; i++) {
		snprintf(path, sizeof(path), "%s/nvidia%u", scene->dev, i);
		unlink(path);
	}
	EQ(rmdir(scene->dev), 0);
	fake_hardware_leave(&scene->hw);
	close(scene->fd);
}

static pid_t begin(struct scene *scene, const char *part, const char *plan)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setenv("GPUMAP_FAKE_HARDWARE", scene->path, 1);
	if (plan)
		setenv("GPUMAP_FAKE_PLAN", plan, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	execl("/proc/self/exe", "test_fake_faults", part, (char *)NULL);
	_exit(253);
}

static int finish(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static uint64_t left(struct scene *scene)
{
	uint64_t bytes;

	fake_lock(&scene->hw);
	bytes = fake_free_bytes(&scene->hw, 0);
	fake_unlock(&scene->hw);
	return bytes;
}

static bool add(struct scene *scene, const char *plan)
{
	const char *where;
	int r;

	fake_lock(&scene->hw);
	r = fake_plan_apply(&scene->hw, plan, false, &where);
	fake_unlock(&scene->hw);
	return EQ(r, 0);
}

static void each_part_meets_its_fault(void)
{
	static const struct {
		const char *node, *plan, *part;
	} cases[] = {
		{ "laptop.yaml", "row 0: launch 3: sticky 719",
		  "third launch dies" },
		{ "laptop.yaml", "row 0: out of memory after 3 GiB",
		  "memory ends" },
		{ "laptop.yaml", "symbol missing cuStreamBatchMemOp",
		  "symbols lack" },
		{ "laptop.yaml", "driver 12.2", "driver is old" },
		{ "laptop.yaml", "init takes 50 ms; init fails 802",
		  "no init" },
		{ "laptop.yaml", "attribute 122 is 0", "no memory operations" },
		{ "laptop.yaml", "jit fails 221", "no compiler" },
		{ "laptop.yaml", "row 0: prohibited", "card is prohibited" },
		{ "mixed.yaml", "peer copies corrupt", "links lie" },
		{ "laptop.yaml", NULL, "queues are few" },
		{ "laptop.yaml", NULL, "others' kernels" },
	};
	struct scene scene;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		NOTE("%s", cases[i].part);
		if (!set(&scene, cases[i].node, cases[i].plan))
			continue;
		EQ(finish(begin(&scene, cases[i].part, NULL)), 0);
		EQ(scene.hw.board->n_notes, 0);
		clear(&scene);
	}
}

static void a_plan_may_be_for_one_process(void)
{
	struct scene scene;
	pid_t a, b;

	if (!set(&scene, "laptop.yaml", NULL))
		return;
	a = begin(&scene, "no memory operations", "attribute 122 is 0");
	b = begin(&scene, "queues are few", NULL);
	EQ(finish(a), 0);
	EQ(finish(b), 0);
	clear(&scene);
}

static bool wait_for(struct scene *scene, uint64_t less_than)
{
	for (int i = 0; i < 1000 && left(scene) >= less_than; i++)
		contract_rest_ms(2);
	return left(scene) < less_than;
}

static void a_hang_ends_with_its_process(void)
{
	struct scene scene;
	uint64_t before;
	pid_t pid;

	if (!set(&scene, "laptop.yaml", "row 0: launch 1: hang"))
		return;
	before = left(&scene);
	pid = begin(&scene, "hang", NULL);
	OK(wait_for(&scene, before - 64 * MIB));
	kill(pid, SIGKILL);
	EQ(finish(pid), -SIGKILL);
	EQ(left(&scene), before);
	clear(&scene);
}

static void memory_may_stay_after_a_death(void)
{
	struct scene scene;
	uint64_t before, after;
	pid_t pid;

	if (!set(&scene, "laptop.yaml", "exit takes 100 ms"))
		return;
	before = left(&scene);
	pid = begin(&scene, "hold memory", NULL);
	OK(wait_for(&scene, before - 64 * MIB));
	kill(pid, SIGKILL);
	EQ(finish(pid), -SIGKILL);
	after = left(&scene);
	OK(after < before);
	contract_rest_ms(120);
	EQ(left(&scene), before);
	clear(&scene);
}

static void a_lost_card_takes_its_contexts_along(void)
{
	struct scene scene;
	uint64_t before;
	pid_t pid;

	if (!set(&scene, "laptop.yaml", NULL))
		return;
	before = left(&scene);
	pid = begin(&scene, "card goes", NULL);
	OK(wait_for(&scene, before));
	add(&scene, "row 0: lost");
	EQ(finish(pid), 0);
	add(&scene, "row 0: back");
	EQ(finish(begin(&scene, "queues are few", NULL)), 0);
	clear(&scene);
}

static void an_exclusive_card_is_one_process_s(void)
{
	struct scene scene;
	uint64_t before;
	pid_t pid;

	if (!set(&scene, "laptop.yaml", "row 0: exclusive process"))
		return;
	before = left(&scene);
	pid = begin(&scene, "hold memory", NULL);
	OK(wait_for(&scene, before - 64 * MIB));
	EQ(finish(begin(&scene, "card is taken", NULL)), 0);
	kill(pid, SIGKILL);
	finish(pid);
	EQ(finish(begin(&scene, "queues are few", NULL)), 0);
	clear(&scene);
}

static void what_is_left_behind_is_told(void)
{
	struct scene scene;

	if (!set(&scene, "laptop.yaml", NULL))
		return;
	EQ(finish(begin(&scene, "leave things behind", NULL)), 0);
	EQ(scene.hw.board->n_notes, 2);
	NOTE("%s", scene.hw.board->notes[0]);
	clear(&scene);
}

/* Whether a process has an open descriptor in the folder of device nodes. */
static int nodes_of(pid_t pid, const char *dev)
{
	char path[64], target[PATH_MAX];
	int n = 0;

	for (int fd = 0; fd < 64; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
		length = readlink(path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		n += strncmp(target, dev, strlen(dev)) == 0;
	}
	return n;
}

static void a_context_holds_the_device_node(void)
{
	struct scene scene;
	uint64_t before;
	pid_t pid;

	if (!set(&scene, "laptop.yaml", NULL))
		return;
	before = left(&scene);
	pid = begin(&scene, "hold memory", NULL);
	OK(wait_for(&scene, before - 64 * MIB));
	EQ(nodes_of(pid, scene.dev), 1);
	kill(pid, SIGKILL);
	finish(pid);
	clear(&scene);
}

/* A container without the node is a machine without the card. */
static void a_card_without_a_node_is_not_there(void)
{
	struct scene scene;
	char path[64];

	if (!set(&scene, "laptop.yaml", NULL))
		return;
	snprintf(path, sizeof(path), "%s/nvidia0", scene.dev);
	EQ(unlink(path), 0);
	EQ(finish(begin(&scene, "no card", NULL)), 0);
	clear(&scene);
}

/* Our processes find the stand-ins where the tool would let them. */
static void find_libraries(void)
{
	const char *build = getenv("abs_top_builddir");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/tests/fake/.libs",
		 build ? build : ".");
	setenv("LD_LIBRARY_PATH", path, 1);
	snprintf(path, sizeof(path), "%s/tests/fake/.libs/extra-kernels.so",
		 build ? build : ".");
	setenv("GPUMAP_FAKE_KERNELS", path, 1);
	unsetenv("CONTRACT_UNDER");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return play(argv[1], argv);
	find_libraries();
	each_part_meets_its_fault();
	a_plan_may_be_for_one_process();
	a_hang_ends_with_its_process();
	memory_may_stay_after_a_death();
	a_lost_card_takes_its_contexts_along();
	an_exclusive_card_is_one_process_s();
	what_is_left_behind_is_told();
	a_context_holds_the_device_node();
	a_card_without_a_node_is_not_there();
	return tap_done();
}
