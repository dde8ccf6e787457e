/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Calls that wait for the slow thread of a worker: each test reports the
 * longest wait.  A kernel runs for seconds, and beside it one thread allocates,
 * frees, loads, unloads, registers or unregisters, while another goes on to
 * copy and launch, as dispatch does.  And client memory is registered as a
 * worker registers it, in pieces of 1 GiB, while dispatch goes on, mappings
 * come and go in the same process, and another process asks NVML.
 */

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "agent/common/cgroup.h"
#include "agent/common/meminfo.h"
#include "tests/gpu/gpu.h"
#include "tests/support/nvml_abi.h"

#define PAGE  4096u
#define SMALL (64 * GPU_MIB) /* of an allocation and of a registration */
#define SPARE (4 * GPU_GIB)  /* that the machine keeps */
#define FLAGS (CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE)

static CUcontext context;
static CUfunction store, spin;

/* A kernel runs so long, and so much is registered at once. */
static double long_ms(void)
{
	return gpu_is_real() ? 3000 : 60;
}

static size_t unit_bytes(void)
{
	return gpu_is_real() ? GPU_GIB : 4 * GPU_MIB;
}

/* ---- threads that go on ------------------------------------------------- */

struct watch {
	pthread_t thread;
	bool (*once)(struct watch *watch, double *ret_ms);
	double most_ms;
	uint64_t n, n_failed;
	atomic_bool ends;
	/* For dispatch(): */
	CUstream stream;
	CUdeviceptr there;
	void *here;
};

static void *go_on(void *arg)
{
	struct watch *w = arg;
	double ms;

	w->n_failed += cu.cuCtxSetCurrent(context) != CUDA_SUCCESS;
	do {
		w->n_failed += !w->once(w, &ms);
		w->most_ms = ms > w->most_ms ? ms : w->most_ms;
		w->n++;
	} while (!w->ends);
	cu.cuCtxSetCurrent(NULL);
	return NULL;
}

static bool begin_watch(struct watch *w, bool (*once)(struct watch *, double *))
{
	*w = (struct watch){ .once = once };
	if (cu.cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING) ||
	    cu.cuMemAlloc_v2(&w->there, PAGE) ||
	    cu.cuMemHostAlloc(&w->here, PAGE, 0))
		return false;
	return pthread_create(&w->thread, NULL, go_on, w) == 0;
}

/* Memory of the driver's is given back when no kernel runs any more. */
static void end_watch(struct watch *w)
{
	w->ends = true;
	pthread_join(w->thread, NULL);
	EQ(w->n_failed, 0);
	GOOD(cu.cuStreamDestroy_v2(w->stream));
	GOOD(cu.cuMemFree_v2(w->there));
	GOOD(cu.cuMemFreeHost(w->here));
}

/* A call has ended that began at *from: the longest so far, and the next. */
static void note_call(double *from, double *longest)
{
	double now = contract_now_ms();

	*longest = now - *from > *longest ? now - *from : *longest;
	*from = now;
}

/* A slice by asynchronous calls, until it has ended: the longest call. */
static bool dispatch(struct watch *w, double *ret_ms)
{
	double from = contract_now_ms(), longest = 0;
	uint32_t value = 1;
	void *params[] = { &w->there, &value };
	CUresult result =
		cu.cuMemcpyHtoDAsync_v2(w->there, w->here, PAGE, w->stream);

	note_call(&from, &longest);
	if (!result)
		result = cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0,
					   w->stream, params, NULL);
	note_call(&from, &longest);
	while (!result) {
		result = cu.cuStreamQuery(w->stream);
		note_call(&from, &longest);
		if (result != CUDA_ERROR_NOT_READY || w->ends)
			break;
		contract_rest_ms(0);
		from = contract_now_ms();
		result = CUDA_SUCCESS;
	}
	*ret_ms = longest;
	return !result || result == CUDA_ERROR_NOT_READY;
}

/* Dispatch does this when a session attaches. */
static bool map_a_page(struct watch *w, double *ret_ms)
{
	double from = contract_now_ms();
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool is_mapped = at != MAP_FAILED;

	(void)w;
	if (is_mapped) {
		*at = 1;
		is_mapped = munmap(at, PAGE) == 0;
	}
	*ret_ms = contract_now_ms() - from;
	contract_rest_ms(0);
	return is_mapped;
}

/* ---- beside a kernel ---------------------------------------------------- */

struct slow {
	pthread_t thread;
	const char *name;
	CUresult (*call)(struct slow *slow);
	CUresult result;
	double ms;
	CUdeviceptr memory; /* to free */
	void *client;       /* to register */
	CUmodule module;    /* to unload */
};

static CUresult do_alloc(struct slow *s)
{
	return cu.cuMemAlloc_v2(&s->memory, SMALL);
}

static CUresult do_free(struct slow *s)
{
	return cu.cuMemFree_v2(s->memory);
}

static CUresult do_load(struct slow *s)
{
	return cu.cuModuleLoadData(&s->module, CONTRACT_KERNELS);
}

static CUresult do_unload(struct slow *s)
{
	return cu.cuModuleUnload(s->module);
}

static CUresult do_register(struct slow *s)
{
	return cu.cuMemHostRegister_v2(s->client, SMALL, FLAGS);
}

static CUresult do_unregister(struct slow *s)
{
	return cu.cuMemHostUnregister(s->client);
}

static void *be_slow(void *arg)
{
	struct slow *s = arg;
	double from;

	s->result = cu.cuCtxSetCurrent(context);
	from = contract_now_ms();
	if (!s->result)
		s->result = s->call(s);
	s->ms = contract_now_ms() - from;
	cu.cuCtxSetCurrent(NULL);
	return NULL;
}

/* Ends the kernel, from a thread that makes no call of the driver's. */
static void *let_go(void *word)
{
	contract_rest_ms((int)long_ms());
	*(_Atomic uint32_t *)word = 1;
	return NULL;
}

static void beside_a_kernel(struct slow *s, CUstream stream,
			    _Atomic uint32_t *word)
{
	CUdeviceptr at = 0;
	void *params[] = { &at };
	pthread_t timer;
	struct watch w;

	*word = 0;
	GOOD(cu.cuMemHostGetDevicePointer_v2(&at, (void *)word, 0));
	if (!OK(begin_watch(&w, dispatch)))
		return;
	GOOD(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params,
			       NULL));
	EQ(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	contract_rest_ms(20); /* it runs by then, not that a check needs it */
	EQ(pthread_create(&timer, NULL, let_go, (void *)word), 0);
	EQ(pthread_create(&s->thread, NULL, be_slow, s), 0);
	pthread_join(s->thread, NULL);
	pthread_join(timer, NULL);
	GOOD(cu.cuStreamSynchronize(stream));
	end_watch(&w);
	GOOD(s->result);
	FACT("\"beside_a_kernel_of_ms\":%.0f,\"call\":\"%s\",\"call_ms\":%.2f,"
	     "\"dispatch_ms_max\":%.2f,\"slices\":%" PRIu64,
	     long_ms(), s->name, s->ms, w.most_ms, w.n);
}

static void slow_calls_beside_a_kernel(void)
{
	struct slow s = { .name = "alloc" };
	const struct {
		const char *name;
		CUresult (*call)(struct slow *slow);
	} calls[] = {
		{ "alloc", do_alloc },       { "free", do_free },
		{ "module load", do_load },  { "module unload", do_unload },
		{ "register", do_register }, { "unregister", do_unregister },
	};
	CUstream stream = NULL;
	void *word = NULL;

	s.client = mmap(NULL, SMALL, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!OK(s.client != MAP_FAILED))
		return;
	GOOD(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	GOOD(cu.cuMemHostAlloc(&word, PAGE, 0));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		s.name = calls[i].name;
		s.call = calls[i].call;
		beside_a_kernel(&s, stream, word);
	}
	GOOD(cu.cuMemFreeHost(word));
	GOOD(cu.cuStreamDestroy_v2(stream));
	munmap(s.client, SMALL);
}

/* ---- beside a registration ---------------------------------------------- */

struct answers {
	double most_ms;
	uint64_t n, n_failed;
};

/* Asks NVML until it is asked itself, and then from the beginning. */
static int ask_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	nvmlReturn_t (*init)(void), (*find)(unsigned int, nvmlDevice_t *);
	nvmlReturn_t (*ask)(nvmlDevice_t, nvmlMemory_v2_t *);
	struct pollfd told = { .fd = GPU_PART_SOCKET, .events = POLLIN };
	struct answers a = { 0 };
	nvmlDevice_t card = NULL;
	char byte;

	WANT(library);
	*(void **)&init = dlsym(library, "nvmlInit_v2");
	*(void **)&find = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&ask = dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
	WANT(init && find && ask && !init() && !find(0, &card));
	for (;;) {
		nvmlMemory_v2_t memory = { .version = NVML_MEMORY_V2 };
		double ms = contract_now_ms();

		a.n_failed += ask(card, &memory) != NVML_SUCCESS;
		ms = contract_now_ms() - ms;
		a.most_ms = ms > a.most_ms ? ms : a.most_ms;
		a.n++;
		if (poll(&told, 1, 1) == 0)
			continue;
		if (!gpu_hear(GPU_PART_SOCKET, &byte, 1, NULL))
			return 0;
		WANT(gpu_tell(GPU_PART_SOCKET, &a, sizeof(a), -1));
		a = (struct answers){ 0 };
	}
}

/* Since the last time. */
static struct answers hear_nvml(const struct gpu_part *part)
{
	struct answers a = { .n_failed = 1 };
	char byte = 0;

	OK(gpu_tell(part->socket, &byte, 1, -1));
	OK(gpu_hear(part->socket, &a, sizeof(a), NULL));
	EQ(a.n_failed, 0);
	return a;
}

/* As far as it gets: some kernels refuse what is too much. */
static CUresult register_all(char *at, size_t bytes, size_t piece)
{
	CUresult result = CUDA_SUCCESS;
	size_t done = 0;

	for (; !result && done < bytes; done += piece)
		result = cu.cuMemHostRegister_v2(at + done, piece, FLAGS);
	if (result)
		for (done -= piece; done > 0; done -= piece)
			cu.cuMemHostUnregister(at + done - piece);
	return result;
}

static CUresult unregister_all(char *at, size_t bytes, size_t piece)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t done = 0; !result && done < bytes; done += piece)
		result = cu.cuMemHostUnregister(at + done);
	return result;
}

/* One of the two, beside calls that may wait for it. */
static CUresult watched(const char *name,
			CUresult (*call)(char *, size_t, size_t), char *at,
			size_t bytes, size_t piece, const struct gpu_part *nvml)
{
	struct watch calls, maps;
	struct answers a;
	CUresult result;
	double ms;

	if (!OK(begin_watch(&calls, dispatch)) ||
	    !OK(begin_watch(&maps, map_a_page)))
		return CUDA_ERROR_UNKNOWN;
	(void)hear_nvml(nvml);
	ms = contract_now_ms();
	result = call(at, bytes, piece);
	ms = contract_now_ms() - ms;
	a = hear_nvml(nvml);
	end_watch(&calls);
	end_watch(&maps);
	FACT("\"%s_gib\":%.3f,\"piece_gib\":%.3f,\"result\":%d,\"s\":%.3f,"
	     "\"dispatch_ms_max\":%.2f,\"mmap_ms_max\":%.2f,"
	     "\"nvml_ms_max\":%.2f,\"nvml_calls\":%" PRIu64,
	     name, (double)bytes / (double)GPU_GIB,
	     (double)piece / (double)GPU_GIB, result, ms / 1e3, calls.most_ms,
	     maps.most_ms, a.most_ms, a.n);
	return result;
}

static void both(char *at, size_t bytes, size_t piece,
		 const struct gpu_part *nvml)
{
	CUresult result =
		watched("register", register_all, at, bytes, piece, nvml);

	/* A piece larger than a worker's may be refused. */
	if (piece == unit_bytes())
		GOOD(result);
	if (!result)
		GOOD(watched("unregister", unregister_all, at, bytes, piece,
			     nvml));
}

/* Memory that this process could have now, by the machine and by limits. */
static uint64_t memory_left(void)
{
	uint64_t total = 0, left = 0, limited = UINT64_MAX;
	struct gm_cgroup group;
	struct gm_meminfo info;

	if (gm_meminfo_open(NULL, 0, &info) ||
	    gm_meminfo_read(&info, &total, &left))
		return 0;
	gm_cgroup_find(&group, NULL, "memory");
	gm_cgroup_memory(&group, &limited);
	return left < limited ? left : limited;
}

static void registrations(void)
{
	static const unsigned int units[] = { 1, 4, 16 };
	const size_t unit = unit_bytes();
	struct gpu_part nvml = { .socket = -1 };
	uint64_t left = memory_left();
	char *at;

	if (!OK(gpu_part_begin("nvml", 0, &nvml)))
		return;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t bytes = units[i] * unit;

		if (gpu_is_real() && left < bytes + SPARE) {
			FACT("\"memory_left_gib\":%.1f",
			     (double)left / (double)GPU_GIB);
			SKIP(1, "not enough memory to register");
			break;
		}
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (!OK(at != MAP_FAILED))
			break;
		both(at, bytes, unit, &nvml);
		if (units[i] == 4)
			both(at, bytes, bytes, &nvml);
		munmap(at, bytes);
	}
	shutdown(nvml.socket, SHUT_RDWR);
	EQ(gpu_part_end(&nvml), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	CUmodule module = NULL;

	if (argc == 3)
		return contract_load(argv) ? 251 : ask_nvml();
	/* Streams are to share no queue: that would be an order of its own. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	if (!gpu_begin(argv))
		return tap_done();
	context = contract_context();
	GOOD(cu.cuModuleLoadData(&module, CONTRACT_KERNELS));
	GOOD(cu.cuModuleGetFunction(&store, module, "contract_store"));
	GOOD(cu.cuModuleGetFunction(&spin, module, "contract_spin"));
	if (OK(context && store && spin)) {
		slow_calls_beside_a_kernel();
		if (gpu_attribute(
			    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) == 1)
			registrations();
		else
			SKIP(1, "attribute 99 is 0: no registered memory here");
	}
	GOOD(cu.cuModuleUnload(module));
	contract_end_context();
	return tap_done();
}
