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

#include "tests/contract/contract.h"
#include "tests/contract/device_code.h"
#include "tests/support/fake_machine.h"

#define MIB      ((size_t)1 << 20)
#define GIB      ((size_t)1 << 30)

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- parts */

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

static int launch_loses_the_card(void)
{
	CUdeviceptr at;

	WANT(!start(0) && !cu.cuMemAlloc_v2(&at, 4096) && !store(at));
	WANT(cu.cuCtxSynchronize() == CUDA_ERROR_UNKNOWN);
	WANT(cu.cuDevicePrimaryCtxRelease_v2(0) == CUDA_ERROR_UNKNOWN);
	return 0;
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
	for (int i = 0; i < 15000 && !result; i++) {
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

/* The bytes that come back from the other card are not those that went
 * there. */
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

static const struct scene_part parts[] = {
	{ "third launch dies", NULL, third_launch_dies },
	{ "memory ends", NULL, memory_ends },
	{ "launch loses the card", NULL, launch_loses_the_card },
	{ "hang", NULL, hang },
	{ "hold memory", NULL, hold_memory },
	{ "card goes", NULL, card_goes },
	{ "symbols lack", NULL, symbols_lack },
	{ "driver is old", NULL, driver_is_old },
	{ "no init", NULL, no_init },
	{ "no memory operations", NULL, no_memory_operations },
	{ "no compiler", NULL, no_compiler },
	{ "others' kernels", NULL, others_kernels },
	{ "no card", NULL, no_card },
	{ "card is taken", NULL, card_is_taken },
	{ "card is prohibited", NULL, card_is_prohibited },
	{ "leave things behind", NULL, leave_things_behind },
	{ "links lie", NULL, links_lie },
	{ "queues are few", NULL, queues_are_few },
};

/* ---- scenes */

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

	for (size_t i = 0; i < COUNT(cases); i++)
		scene_run(cases[i].node, cases[i].plan, cases[i].part);
}

static void a_plan_may_be_for_one_process(void)
{
	struct scene scene;
	pid_t a, b;

	if (!scene_set(&scene, "laptop.yaml", NULL))
		return;
	a = scene_begin(&scene, "no memory operations", "attribute 122 is 0");
	b = scene_begin(&scene, "queues are few", NULL);
	EQ(scene_end(a), 0);
	EQ(scene_end(b), 0);
	scene_clear(&scene);
}

/* The stand-in's charge for one: less is left only once the process has memory
 * of its own, too, with the charge for its context. */
#define CONTEXT (256 * MIB)

static pid_t begin_with_memory(struct scene *scene, const char *part,
			       uint64_t *ret_before)
{
	uint64_t before = scene_left(scene, 0);
	pid_t pid = scene_begin(scene, part, NULL);

	for (int i = 0; i < 15000 && scene_left(scene, 0) >= before - CONTEXT;
	     i++)
		contract_rest_ms(2);
	OK(scene_left(scene, 0) < before - CONTEXT);
	*ret_before = before;
	return pid;
}

static void a_hang_ends_with_its_process(void)
{
	struct scene scene;
	uint64_t before;
	pid_t pid;

	if (!scene_set(&scene, "laptop.yaml", "row 0: launch 1: hang"))
		return;
	pid = begin_with_memory(&scene, "hang", &before);
	kill(pid, SIGKILL);
	EQ(scene_end(pid), -SIGKILL);
	EQ(scene_left(&scene, 0), before);
	scene_clear(&scene);
}

static bool is_dead(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) ==
		       0 &&
	       info.si_pid == pid;
}

/* Killed, it is there for a while, and so is what it had. */
static void a_process_may_take_long_to_die(void)
{
	struct scene scene;
	uint64_t before;
	double from;
	pid_t pid;

	if (!scene_set(&scene, "laptop.yaml", "exit takes 300 ms"))
		return;
	pid = begin_with_memory(&scene, "hold memory", &before);
	if (scene.hw.board->n_notes) {
		SKIP(4, scene.hw.board->notes[0]);
		kill(pid, SIGKILL);
		scene_end(pid);
		scene_clear(&scene);
		return;
	}
	from = contract_now_ms();
	kill(pid, SIGKILL);
	contract_rest_ms(20);
	OK(scene_left(&scene, 0) < before || contract_now_ms() - from > 300);
	OK(!is_dead(pid) || contract_now_ms() - from > 300);
	EQ(scene_end(pid), -SIGKILL);
	OK(contract_now_ms() - from >= 300);
	EQ(scene_left(&scene, 0), before);
	scene_clear(&scene);
}

static void a_lost_card_takes_its_contexts_along(void)
{
	struct scene scene;
	uint64_t before;
	pid_t pid;

	if (!scene_set(&scene, "laptop.yaml", NULL))
		return;
	pid = begin_with_memory(&scene, "card goes", &before);
	scene_add(&scene, "row 0: lost");
	EQ(scene_end(pid), 0);
	scene_add(&scene, "row 0: back");
	EQ(scene_end(scene_begin(&scene, "queues are few", NULL)), 0);
	scene_clear(&scene);
}

/* The Xid of the card alone: what died with it is not another's news. */
static void a_card_may_be_lost_by_a_launch(void)
{
	struct scene scene;

	if (!scene_set(&scene, "laptop.yaml", "row 0: launch 1: lost"))
		return;
	EQ(scene_end(scene_begin(&scene, "launch loses the card", NULL)), 0);
	EQ(scene.hw.board->n_xids, 1);
	EQ(scene.hw.board->xids[0].number, 79);
	OK(scene.hw.board->gpus[0].is_lost);
	EQ(scene_end(scene_begin(&scene, "no card", NULL)), 0);
	scene_clear(&scene);
}

static void an_exclusive_card_is_one_process_s(void)
{
	struct scene scene;
	uint64_t before;
	pid_t pid;

	if (!scene_set(&scene, "laptop.yaml", "row 0: exclusive process"))
		return;
	pid = begin_with_memory(&scene, "hold memory", &before);
	EQ(scene_end(scene_begin(&scene, "card is taken", NULL)), 0);
	kill(pid, SIGKILL);
	scene_end(pid);
	EQ(scene_end(scene_begin(&scene, "queues are few", NULL)), 0);
	scene_clear(&scene);
}

static void what_is_left_behind_is_told(void)
{
	struct scene scene;

	if (!scene_set(&scene, "laptop.yaml", NULL))
		return;
	EQ(scene_end(scene_begin(&scene, "leave things behind", NULL)), 0);
	EQ(scene.hw.board->n_notes, 2);
	NOTE("%s", scene.hw.board->notes[0]);
	scene_clear(&scene);
}

static void a_context_holds_the_device_node(void)
{
	struct scene scene;
	uint64_t before;
	pid_t pid;

	if (!scene_set(&scene, "laptop.yaml", NULL))
		return;
	pid = begin_with_memory(&scene, "hold memory", &before);
	EQ(scene_nodes_of(&scene, pid), 1);
	kill(pid, SIGKILL);
	scene_end(pid);
	scene_clear(&scene);
}

/* A container without the node is a machine without the card. */
static void a_card_without_a_node_is_not_there(void)
{
	struct scene scene;
	char path[64];

	if (!scene_set(&scene, "laptop.yaml", NULL))
		return;
	snprintf(path, sizeof(path), "%s/nvidia0", scene.dev);
	EQ(unlink(path), 0);
	EQ(scene_end(scene_begin(&scene, "no card", NULL)), 0);
	scene_clear(&scene);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc > 1)
		return contract_load(argv)
			       ? 251
			       : scene_play(argv[1], parts, COUNT(parts));
	scene_find_libraries();
	each_part_meets_its_fault();
	a_plan_may_be_for_one_process();
	a_hang_ends_with_its_process();
	a_process_may_take_long_to_die();
	a_lost_card_takes_its_contexts_along();
	a_card_may_be_lost_by_a_launch();
	an_exclusive_card_is_one_process_s();
	what_is_left_behind_is_told();
	a_context_holds_the_device_node();
	a_card_without_a_node_is_not_there();
	return tap_done();
}
