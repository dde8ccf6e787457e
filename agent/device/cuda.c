/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/cuda/cuerror.h"
#include "agent/cuda/operators.h"
#include "gpumap/program.h"
#ifdef HAVE_HIP_OPERATORS
#include "agent/device/ops_hip_code.h" /* made when building */
#else
#define CODES
#endif

/* A step of opening: why it failed is kept. */
#define STEP(cuda, call, ...) \
	fail_to_open(cuda, (cuda)->driver->call(__VA_ARGS__), #call)

#define OWN_TIMES  4u /* as fast as the bus, if it says nothing */
#define BUS_RATE   UINT64_C(25000000000) /* bytes in a second */
#define LOG_BYTES  1024u
#define PARAMS_MAX 4096u /* bytes of a launch, on any card */

_Static_assert(GM_LIBRARY_WHY_BYTES <= GM_GPU_WHY_BYTES, "a line fits");

/* A process has one driver of each maker's. */
struct process {
	struct gm_driver driver;
	bool is_open;        /* with all its functions */
	gm_cu_result result; /* of cuInit() */
};

static struct process of_cuda = { .result = GM_CU_NOT_INITIALIZED };
static struct process of_hip = { .result = GM_CU_NOT_INITIALIZED };
static const struct gm_gpu_ops ops, hip_ops;

/* In words, behind @what and with what helps. */
static void explain(const struct gm_cuda *cuda, gm_cu_result result,
		    const char *what, char *ret_why, size_t bytes)
{
	const char *remedy = cuda->driver->is_hip
				     ? gm_cuerror_remedy_hip(result)
				     : gm_cuerror_remedy(result);

	snprintf(ret_why, bytes, "%s%s%s %u %s%s%s",
		 gm_driver_call(cuda->driver, what), *what ? ": " : "",
		 cuda->gpu.ops->maker, result, gm_cuerror_name(result),
		 remedy ? ": " : "", remedy ? remedy : "");
}

/* ---- a context that is lost --------------------------------------------- */

int gm_cuda_lose(struct gm_cuda *cuda, gm_cu_result result)
{
	char why[GM_GPU_WHY_BYTES];

	explain(cuda, result, "", why, sizeof(why));
	return gm_stream_lose(&cuda->gpu, (int)result, why);
}

/* A call that asks for next to nothing, and that a sound context answers. */
static bool is_sound(struct gm_cuda *cuda)
{
	gm_cu_result result =
		cuda->driver->cuStreamQuery(cuda->lanes[GM_GPU_SLOW].stream);

	return result == GM_CU_SUCCESS || result == GM_CU_NOT_READY;
}

int gm_cuda_check(struct gm_cuda *cuda, gm_cu_result result)
{
	if (result == GM_CU_SUCCESS)
		return 0;
	switch (gm_cuerror_class(result)) {
	case GM_CUERROR_STICKY:
	case GM_CUERROR_ABSENT: /* it was here */
		return gm_cuda_lose(cuda, result);
	case GM_CUERROR_DOUBT:
		return gm_cuda_suspect(cuda, result);
	default:
		return gm_cuerror_errno(result);
	}
}

int gm_cuda_suspect(struct gm_cuda *cuda, gm_cu_result result)
{
	if (result == GM_CU_SUCCESS)
		return 0;
	return is_sound(cuda) ? gm_cuerror_errno(result)
			      : gm_cuda_lose(cuda, result);
}

static int cuda_bind(struct gm_gpu *gpu)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;

	return GM_CUDA_CALL(cuda, cuCtxSetCurrent, cuda->ctx);
}

/* ---- the driver ---------------------------------------------------------- */

/* A step of opening failed: remember why. */
static int fail_to_open(struct gm_cuda *cuda, gm_cu_result result,
			const char *what)
{
	if (result == GM_CU_SUCCESS)
		return 0;
	cuda->gpu.code = (int)result;
	explain(cuda, result, what, cuda->gpu.why, sizeof(cuda->gpu.why));
	return gm_cuerror_errno(result);
}

static int init_driver(struct process *process,
		       const struct gm_device_config *config, char *ret_why)
{
	int rc = 0;

	if (!process->is_open)
		rc = (process == &of_hip ? gm_driver_open_hip : gm_driver_open)(
			config->library, &process->driver, ret_why);
	if (rc < 0)
		return rc;
	process->is_open = true;
	if (process->result != GM_CU_SUCCESS)
		process->result = process->driver.cuInit(0);
	return 0;
}

/* open() tries again, and says why. */
static void cuda_prepare(const struct gm_device_config *config)
{
	char why[GM_LIBRARY_WHY_BYTES];

	(void)init_driver(&of_cuda, config, why);
}

static void hip_prepare(const struct gm_device_config *config)
{
	char why[GM_LIBRARY_WHY_BYTES];

	(void)init_driver(&of_hip, config, why);
}

/* ---- one device ---------------------------------------------------------- */

/* "GPU-" or "MIG-", 16 bytes in hexadecimal, dashes between some. */
static bool read_uuid(const char *text, unsigned char *ret_bytes)
{
	static const char digits[] = "0123456789abcdef";
	uint32_t n = 0;

	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return false;
	for (text += 4; *text; text++) {
		const char *digit = strchr(digits, *text | 0x20);

		if (*text == '-')
			continue;
		if (!digit || n == 32)
			return false;
		ret_bytes[n / 2] =
			(unsigned char)(n % 2 == 0 ? digit - digits
						   : ret_bytes[n / 2] * 16 +
							     (digit - digits));
		n++;
	}
	return n == 32;
}

/* HIP's is "GPU-" and the 16 digits that it has for the driver's UUID, or the
 * card's address on the bus, which those without digits have as well.  The
 * card's instruction set and a colon may stand in front. */
static bool is_hip_device(const struct gm_cuda *cuda, int dev, const char *uuid)
{
	const struct gm_driver *cu = cuda->driver;
	struct gm_cu_uuid found;
	char bus[32] = "";

	if (strncmp(uuid, "gfx", 3) == 0 && strchr(uuid, ':'))
		uuid = strchr(uuid, ':') + 1;
	if (strncmp(uuid, "GPU-", 4) == 0)
		return strlen(uuid) == 4 + sizeof(found.bytes) &&
		       cu->cuDeviceGetUuid(&found, dev) == GM_CU_SUCCESS &&
		       strncasecmp(uuid + 4, found.bytes,
				   sizeof(found.bytes)) == 0;
	return cu->cuDeviceGetPCIBusId(bus, sizeof(bus), dev) ==
		       GM_CU_SUCCESS &&
	       strcasecmp(uuid, bus) == 0;
}

static bool is_cuda_device(const struct gm_cuda *cuda, int dev,
			   const char *uuid)
{
	unsigned char wanted[16];
	struct gm_cu_uuid found;

	return read_uuid(uuid, wanted) &&
	       cuda->driver->cuDeviceGetUuid(&found, dev) == GM_CU_SUCCESS &&
	       memcmp(found.bytes, wanted, sizeof(wanted)) == 0;
}

static int no_such_device(struct gm_cuda *cuda, const char *uuid, int n)
{
	snprintf(cuda->gpu.why, sizeof(cuda->gpu.why),
		 "the driver shows %d devices, and none is %s", n, uuid);
	return -ENODEV;
}

/* The ordinal of the device, of those that the environment lets us see. */
static int find_device(struct gm_cuda *cuda, const char *uuid)
{
	const struct gm_driver *cu = cuda->driver;
	int n = 0, dev, rc;

	rc = STEP(cuda, cuDeviceGetCount, &n);
	if (rc < 0)
		return rc;
	if (!uuid)
		return STEP(cuda, cuDeviceGet, &cuda->ordinal, 0);
	for (int i = 0; i < n; i++) {
		/* One that does not answer is not ours, or we shall see. */
		if (cu->cuDeviceGet(&dev, i) != GM_CU_SUCCESS)
			continue;
		if (cu->is_hip ? is_hip_device(cuda, dev, uuid)
			       : is_cuda_device(cuda, dev, uuid)) {
			cuda->ordinal = dev;
			return 0;
		}
	}
	return no_such_device(cuda, uuid, n);
}

/* An attribute that the driver does not know is an ability that the device
 * lacks. */
static int attribute(const struct gm_cuda *cuda, uint32_t which)
{
	int number = gm_driver_attribute(cuda->driver, which), value = 0;

	if (number < 0 ||
	    cuda->driver->cuDeviceGetAttribute(&value, (unsigned int)number,
					       cuda->ordinal) != GM_CU_SUCCESS)
		return 0;
	return value;
}

/* How many times as fast as over the bus the device works in its own memory.
 * The memory moves data twice in a cycle, and work reads half of it and writes
 * the other half. */
static uint32_t own_times(const struct gm_cuda *cuda)
{
	int khz = attribute(cuda, GM_CU_MEMORY_CLOCK_RATE);
	int bits = attribute(cuda, GM_CU_GLOBAL_MEMORY_BUS_WIDTH);

	if (khz <= 0 || bits <= 0)
		return OWN_TIMES;
	return (uint32_t)((uint64_t)khz * 1000 * (uint64_t)bits / 8 / BUS_RATE);
}

static void find_abilities(struct gm_cuda *cuda)
{
	const struct gm_driver *cu = cuda->driver;
	int units = attribute(cuda, GM_CU_MULTIPROCESSOR_COUNT);
	bool can_register = gm_driver_has(cu, GM_DRIVER_REGISTER) &&
			    attribute(cuda, GM_CU_HOST_REGISTER_SUPPORTED);

	cuda->units = units > 0 ? (uint32_t)units : 1;
	cuda->gpu.flags |= can_register ? GM_GPU_REACH : 0;
	if (attribute(cuda, GM_CU_READ_ONLY_HOST_REGISTER_SUPPORTED))
		cuda->gpu.flags |= GM_GPU_READ_ONLY;
	cuda->can_export =
		gm_driver_has(cu, GM_DRIVER_VMM) &&
		attribute(cuda, GM_CU_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
		attribute(cuda,
			  GM_CU_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
	/* Where the driver registers none, its own memory of the host moves as
	 * managed memory does (confidential computing), at each look. */
	cuda->can_write_words =
		can_register && gm_driver_has(cu, GM_DRIVER_MEMOPS) &&
		attribute(cuda, GM_CU_CAN_USE_64_BIT_STREAM_MEM_OPS);
	cuda->gpu.own_times = own_times(cuda);
}

/* The driver calls this an unknown error, as it does much else. */
static int ask_mode(struct gm_cuda *cuda)
{
	if (attribute(cuda, GM_CU_COMPUTE_MODE) != GM_CU_COMPUTEMODE_PROHIBITED)
		return 0;
	snprintf(cuda->gpu.why, sizeof(cuda->gpu.why),
		 "the card's compute mode is PROHIBITED: nvidia-smi -c "
		 "DEFAULT");
	return -ENODEV;
}

/* Threads that wait in the driver sleep: CPUs are for clients.  HIP refuses
 * flags of a context that is to be, and takes them later. */
static int take_context(struct gm_cuda *cuda)
{
	const struct gm_driver *cu = cuda->driver;
	int rc = cu->is_hip
			 ? 0
			 : STEP(cuda, cuDevicePrimaryCtxSetFlags, cuda->ordinal,
				GM_CU_CTX_SCHED_BLOCKING_SYNC);

	if (rc == 0)
		rc = STEP(cuda, cuDevicePrimaryCtxRetain, &cuda->ctx,
			  cuda->ordinal);
	if (rc == 0)
		rc = STEP(cuda, cuCtxSetCurrent, cuda->ctx);
	if (rc == 0 && cu->is_hip)
		(void)cu->cuCtxSetFlags(GM_CU_CTX_SCHED_BLOCKING_SYNC);
	return rc;
}

/* In memory that the driver has pinned and no client can see. */
static int make_words(struct gm_cuda *cuda)
{
	const size_t bytes = (size_t)GM_GPU_LANES * GM_LINE;
	int rc;

	if (!cuda->can_write_words)
		return 0;
	rc = gm_cuda_pin(&cuda->gpu, bytes, &cuda->words);
	if (rc < 0)
		return rc;
	memset(cuda->words->host, 0, bytes);
	for (uint32_t i = 0; i < GM_GPU_LANES; i++) {
		uint64_t at = (uint64_t)i * GM_LINE;

		cuda->gpu.words[i] = (gm_a64 *)(void *)(cuda->words->host + at);
		cuda->lanes[i].word_at = cuda->words->address + at;
	}
	return 0;
}

static int make_lane(struct gm_cuda *cuda, uint32_t index, int priority)
{
	struct gm_cuda_lane *lane = &cuda->lanes[index];
	uint32_t n = index == GM_GPU_SLOW ? 0 : GM_GPU_MARKS;
	int rc = STEP(cuda, cuStreamCreateWithPriority, &lane->stream,
		      GM_CU_STREAM_NON_BLOCKING, priority);

	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = STEP(cuda, cuEventCreate, &lane->events[i],
			  GM_CU_EVENT_BLOCKING_SYNC |
				  GM_CU_EVENT_DISABLE_TIMING);
	return rc;
}

static int make_lanes(struct gm_cuda *cuda)
{
	int least = 0, greatest = 0;
	int rc = make_lane(cuda, GM_GPU_SLOW, 0);

	if (rc == 0)
		rc = STEP(cuda, cuCtxGetStreamPriorityRange, &least, &greatest);
	if (rc == 0)
		rc = make_words(cuda);
	for (uint32_t i = 0; i < GM_GPU_LANES && rc == 0; i++)
		rc = make_lane(cuda, i, i == GM_GPU_SOON ? greatest : least);
	return rc;
}

static gm_cu_result compile(struct gm_cuda *cuda, const void *image,
			    struct CUmod_st **ret_module,
			    char ret_log[LOG_BYTES])
{
	uint32_t options[] = { GM_CU_JIT_ERROR_LOG_BUFFER,
			       GM_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { ret_log, (void *)(uintptr_t)(LOG_BYTES - 1) };
	struct CUmod_st *module = NULL;
	gm_cu_result result;

	memset(ret_log, 0, LOG_BYTES);
	result = cuda->driver->cuModuleLoadDataEx(&module, image, 2, options,
						  values);
	ret_log[LOG_BYTES - 1] = '\0';
	gm_stream_flatten(ret_log);
	if (result == GM_CU_SUCCESS)
		*ret_module = module;
	return result;
}

/* The code object for the instruction set in front of a card's id.  No other
 * is tried: a runtime may end the process for that. */
static const void *find_code(const char *id)
{
	static const struct {
		const char *set;
		const void *image;
	} codes[] = {
#define CODE(set) { #set ":", set },
		CODES{ NULL, NULL }
	};
	size_t i = 0;

	while (codes[i].set && id &&
	       strncmp(codes[i].set, id, strlen(codes[i].set)) != 0)
		i++;
	return id ? codes[i].image : NULL;
}

/*
 * Now, not at the first job: the text is compiled.  A driver that cannot do
 * that still copies, so it costs the row its operators and nothing more.
 */
static int load_operators(struct gm_cuda *cuda, const char *id)
{
	const void *image =
		cuda->driver->is_hip ? find_code(id) : gm_operators_ptx;
	char why[GM_LIBRARY_WHY_BYTES], log[LOG_BYTES];
	gm_cu_result result;

	if (!image) {
		gm_log(GM_LOG_WARNING, "operators_missing",
		       "device=%s reason=\"gpumap was built without operators "
		       "for its instruction set: the row copies and runs "
		       "programs\"",
		       gm_quote(id ? id : "").text);
		return 0;
	}
	result = compile(cuda, image, &cuda->module, log);
	if (result == GM_CU_SUCCESS)
		return 0;
	explain(cuda, result, "", why, sizeof(why));
	if (gm_cuda_check(cuda, result) == -ENOTRECOVERABLE)
		return fail_to_open(cuda, result, "cuModuleLoadDataEx");
	gm_log(GM_LOG_WARNING, "operators_missing",
	       "code=%u reason=%s compiler=%s", result, gm_quote(why).text,
	       gm_quote(log[0] ? log : "none").text);
	return 0;
}

static int make_ready(struct gm_cuda *cuda, const char *uuid)
{
	int rc = find_device(cuda, uuid);

	if (rc < 0)
		return rc;
	find_abilities(cuda);
	rc = ask_mode(cuda);
	if (rc == 0)
		rc = take_context(cuda);
	return rc < 0 ? rc : make_lanes(cuda);
}

static int cuda_open(struct gm_gpu *gpu, const struct gm_device_config *config,
		     char *ret_took)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	struct process *process = gpu->ops == &hip_ops ? &of_hip : &of_cuda;
	uint64_t at_ns[4] = { gm_node_clock_now() };
	int rc = init_driver(process, config, gpu->why);

	cuda->driver = &process->driver;
	if (rc == 0)
		rc = fail_to_open(cuda, process->result, "cuInit");
	if (rc < 0)
		return rc;
	at_ns[1] = gm_node_clock_now(); /* next to nothing where prepared */
	cuda->nccl = config->nccl;
	rc = make_ready(cuda, config->uuid);
	if (rc < 0)
		return rc;
	at_ns[2] = gm_node_clock_now();
	rc = load_operators(cuda, config->uuid);
	at_ns[3] = gm_node_clock_now();
	gm_stream_took(at_ns, ret_took);
	return rc;
}

static void cuda_close(struct gm_gpu *gpu)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	const struct gm_driver *cu = cuda->driver;

	if (!cuda->ctx)
		return;
	for (uint32_t i = 0; i <= GM_GPU_SLOW; i++) {
		struct gm_cuda_lane *lane = &cuda->lanes[i];

		for (uint32_t j = 0; j < GM_GPU_MARKS; j++) {
			if (lane->events[j])
				(void)cu->cuEventDestroy(lane->events[j]);
		}
		if (lane->stream)
			(void)cu->cuStreamDestroy(lane->stream);
	}
	if (cuda->words)
		gm_cuda_release(gpu, cuda->words);
	if (cuda->module)
		(void)cu->cuModuleUnload(cuda->module);
	(void)cu->cuCtxSetCurrent(NULL);
	(void)cu->cuDevicePrimaryCtxRelease(cuda->ordinal);
}

static int cuda_memory(struct gm_gpu *gpu, struct gm_device_memory *ret_memory)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	size_t left, total;
	int rc = GM_CUDA_CALL(cuda, cuMemGetInfo, &left, &total);

	if (rc < 0)
		return rc;
	ret_memory->total = total;
	ret_memory->free = left;
	return 0;
}

/* ---- work ---------------------------------------------------------------- */

static gm_cu_ptr address_of(struct gm_gpu_at at)
{
	return (at.mem ? at.mem->address : 0) + at.offset;
}

/* As the processor has it; NULL: it does not. */
static void *host_of(struct gm_gpu_at at)
{
	if (!at.mem)
		return (void *)(uintptr_t)at.offset;
	return at.mem->host ? at.mem->host + at.offset : NULL;
}

static int cuda_copy(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		     struct gm_gpu_at from, uint64_t bytes)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	const struct gm_driver *cu = cuda->driver;
	struct CUstream_st *stream = cuda->lanes[lane].stream;
	void *dst = host_of(to), *src = host_of(from);
	gm_cu_result result;

	if (dst)
		result = cu->cuMemcpyDtoHAsync(dst, address_of(from), bytes,
					       stream);
	else if (src)
		result = cu->cuMemcpyHtoDAsync(address_of(to), src, bytes,
					       stream);
	else
		result = cu->cuMemcpyDtoDAsync(address_of(to), address_of(from),
					       bytes, stream);
	return gm_cuda_check(cuda, result);
}

static int cuda_fill(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		     uint64_t bytes, uint8_t value)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;

	return GM_CUDA_CALL(cuda, cuMemsetD8Async, address_of(to), value, bytes,
			    cuda->lanes[lane].stream);
}

/* As ops_hip.h has them: an item for each element or 8 bytes of FILL, or 32 for
 * a chunk. */
static struct gm_worker_exec hip_grid(const struct gm_gpu_launch *l)
{
	bool is_chunks = gm_operators_of(l->op) >= GM_OPERATOR_SUM;
	uint64_t each = is_chunks                 ? GM_OPERATOR_CHUNK
			: l->op == GPUMAP_OP_FILL ? 256 * 8
						  : 256;

	return (struct gm_worker_exec){ (uint32_t)((l->n + each - 1) / each),
					is_chunks ? 32 : 256 };
}

static int cuda_launch(struct gm_gpu *gpu, uint32_t lane,
		       const struct gm_gpu_launch *l)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	bool is_run = l->op == GPUMAP_OP_RUN;
	uint64_t words[PARAMS_MAX / sizeof(uint64_t)];
	size_t bytes = l->n_args * sizeof(words[0]) + l->params_bytes;
	void *params[GM_GPU_ARGS];
	void *extra[] = { GM_CU_LAUNCH_PARAM_BUFFER_POINTER, words,
			  GM_CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  gm_driver_launch_end(cuda->driver) };
	struct gm_worker_exec grid = gm_operators_launch(
		is_run ? GM_OPERATOR_SCALE : gm_operators_of(l->op), l->n,
		cuda->units);
	gm_cu_result result;

	if (cuda->driver->is_hip && !is_run)
		grid = hip_grid(l);
	if (bytes > sizeof(words))
		return -EINVAL;
	for (uint32_t i = 0; i < l->n_args; i++) {
		words[i] = gm_stream_word(&l->args[i]);
		params[i] = &words[i];
	}
	/* HIP reads what the kernel declares, whatever the size. */
	if (is_run && cuda->driver->is_hip)
		memset(words + l->n_args, 0,
		       sizeof(words) - l->n_args * sizeof(words[0]));
	if (is_run)
		memcpy(words + l->n_args, l->params, l->params_bytes);
	/* A client's kernel has one buffer of parameters, whose size the driver
	 * checks: those that a client declares need not match those that a
	 * launch by pointers would read. */
	result = cuda->driver->cuLaunchKernel(
		(struct CUfunc_st *)(uintptr_t)l->kernel, grid.blocks, 1, 1,
		grid.threads, 1, 1, 0, cuda->lanes[lane].stream,
		is_run ? NULL : params, is_run ? extra : NULL);
	return is_run ? gm_cuda_suspect(cuda, result)
		      : gm_cuda_check(cuda, result);
}

/* ---- marks --------------------------------------------------------------- */

static struct CUevent_st *event_of(const struct gm_cuda *cuda,
				   const struct gm_async_exec *mark)
{
	return cuda->lanes[mark->lane].events[mark->slot];
}

/* Returns 0; 1: the word will not be written; -ENOTRECOVERABLE. */
static int write_word(struct gm_cuda *cuda, const struct gm_cuda_lane *lane,
		      uint64_t value)
{
	int rc;

	if (!lane->word_at)
		return 1;
	rc = GM_CUDA_CALL(cuda, cuStreamWriteValue64, lane->stream,
			  lane->word_at, value,
			  GM_CU_STREAM_WRITE_VALUE_DEFAULT);
	return rc < 0 && rc != -ENOTRECOVERABLE ? 1 : rc;
}

static int cuda_mark(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	const struct gm_cuda_lane *lane = &cuda->lanes[mark->lane];
	int rc = write_word(cuda, lane, mark->value);
	gm_cu_result result;

	if (rc < 0)
		return rc;
	result =
		cuda->driver->cuEventRecord(event_of(cuda, mark), lane->stream);
	return result == GM_CU_SUCCESS ? rc : gm_cuda_lose(cuda, result);
}

static int cuda_passed(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	gm_cu_result result = cuda->driver->cuEventQuery(event_of(cuda, mark));

	if (result == GM_CU_NOT_READY)
		return 0;
	return result == GM_CU_SUCCESS ? 1 : gm_cuda_lose(cuda, result);
}

static int cuda_after(struct gm_gpu *gpu, uint32_t lane,
		      const struct gm_async_exec *mark)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;

	return GM_CUDA_CALL(cuda, cuStreamWaitEvent, cuda->lanes[lane].stream,
			    event_of(cuda, mark), 0);
}

static int cuda_look(struct gm_gpu *gpu, uint32_t lane)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	gm_cu_result result =
		cuda->driver->cuStreamQuery(cuda->lanes[lane].stream);

	return result == GM_CU_NOT_READY ? 0 : gm_cuda_check(cuda, result);
}

static int cuda_wait(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	gm_cu_result result =
		cuda->driver->cuEventSynchronize(event_of(cuda, mark));

	return result == GM_CU_SUCCESS ? 0 : gm_cuda_lose(cuda, result);
}

static int cuda_finish(struct gm_gpu *gpu, uint32_t lane)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	const struct gm_driver *cu = cuda->driver;

	return gm_cuda_check(cuda, lane == GM_GPU_ALL
					   ? cu->cuCtxSynchronize()
					   : cu->cuStreamSynchronize(
						     cuda->lanes[lane].stream));
}

/* ---- kernels ------------------------------------------------------------- */

static const struct gm_gpu_kernel *cuda_find(struct gm_gpu *gpu, uint32_t op,
					     uint32_t dtype, uint32_t to)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	char name[GM_OPERATOR_NAME_BYTES];
	struct CUfunc_st *fn = NULL;

	if (!cuda->module ||
	    gm_operators_name(gm_operators_of(op), dtype, to, name) < 0 ||
	    GM_CUDA_CALL(cuda, cuModuleGetFunction, &fn, cuda->module, name) <
		    0)
		return NULL;
	return (const struct gm_gpu_kernel *)fn;
}

/* The compiler's own words are worth more than what we know of the number. */
static int refuse(struct gm_cuda *cuda, gm_cu_result result, const char *log,
		  char *ret_why)
{
	if (log[0])
		snprintf(ret_why, GM_KERNEL_WHY_BYTES, "%s %u %s: %s",
			 cuda->gpu.ops->maker, result, gm_cuerror_name(result),
			 log);
	else
		explain(cuda, result, "", ret_why, GM_KERNEL_WHY_BYTES);
	return gm_cuda_suspect(cuda, result);
}

static int cuda_load(struct gm_gpu *gpu, const struct gm_kernel_image *image,
		     struct gm_gpu_program **ret_program,
		     const struct gm_gpu_kernel **ret_kernel, char *ret_why)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	char log[LOG_BYTES];
	struct CUmod_st *module;
	struct CUfunc_st *fn;
	gm_cu_result result = compile(cuda, image->bytes, &module, log);
	int rc;

	if (result != GM_CU_SUCCESS)
		return refuse(cuda, result, log, ret_why);
	result = cuda->driver->cuModuleGetFunction(&fn, module, image->kernel);
	if (result == GM_CU_SUCCESS) {
		*ret_program = (struct gm_gpu_program *)module;
		*ret_kernel = (const struct gm_gpu_kernel *)fn;
		return 0;
	}
	rc = refuse(cuda, result, "", ret_why);
	if (rc == -ENOENT)
		snprintf(ret_why, GM_KERNEL_WHY_BYTES,
			 "it has no kernel %s: extern \"C\" __global__, or "
			 ".visible .entry, of that name",
			 image->kernel);
	(void)GM_CUDA_CALL(cuda, cuModuleUnload, module);
	return rc;
}

static void cuda_unload(struct gm_gpu *gpu, struct gm_gpu_program *program)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;

	(void)GM_CUDA_CALL(cuda, cuModuleUnload, (struct CUmod_st *)program);
}

/* clang-format off */
#define OPS(MAKER)                                                         \
	{                                                                  \
		.bytes = sizeof(struct gm_cuda), .maker = MAKER,           \
		.open = cuda_open, .close = cuda_close, .bind = cuda_bind, \
		.memory = cuda_memory, .copy = cuda_copy,                  \
		.fill = cuda_fill, .launch = cuda_launch,                  \
		.mark = cuda_mark, .passed = cuda_passed,                  \
		.after = cuda_after, .look = cuda_look, .wait = cuda_wait, \
		.finish = cuda_finish, .find = cuda_find,                  \
		.load = cuda_load, .unload = cuda_unload,                  \
		GM_CUDA_MEMORY(GM_STREAM_DRIVER_SET)                       \
	}
/* clang-format on */

static const struct gm_gpu_ops ops = OPS("CUDA");
static const struct gm_gpu_ops hip_ops = OPS("HIP");

GM_STREAM_BACKEND(cuda, CUDA, ops, .prepare = cuda_prepare,
		  GM_CUDA_CLIQUE_CALLS(GM_CUDA_SET));

GM_STREAM_BACKEND(hip, HIP, hip_ops, .prepare = hip_prepare,
		  GM_CUDA_CLIQUE_CALLS(GM_CUDA_SET));
