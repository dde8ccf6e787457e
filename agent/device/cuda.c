/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/cuda/cuerror.h"
#include "agent/cuda/operators.h"
#include "gpumap.h"

/* A process has one driver. */
static struct {
	struct gm_driver driver;
	bool is_open; /* with all its functions */
	bool is_ready;
	/* Why the last opening failed. */
	char why[GM_LIBRARY_WHY_BYTES];
	int code;
} process;

void gm_cuda_explain(gm_cu_result result, const char *what, char *ret_why,
		     size_t bytes)
{
	const char *remedy = gm_cuerror_remedy(result);

	snprintf(ret_why, bytes, "%s%sCUDA %u %s%s%s", what, *what ? ": " : "",
		 result, gm_cuerror_name(result), remedy ? ": " : "",
		 remedy ? remedy : "");
}

/* ---- a context that is lost --------------------------------------------- */

int gm_cuda_lose(struct gm_cuda *cuda, gm_cu_result result)
{
	bool is_first;

	pthread_mutex_lock(&cuda->lock);
	is_first = !gm_cuda_is_lost(cuda);
	if (is_first) {
		gm_cuda_explain(result, "", cuda->why, sizeof(cuda->why));
		gm_put(&cuda->lost, result);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (is_first)
		gm_cuda_tell(cuda);
	return -ENOTRECOVERABLE;
}

/* A call that asks for next to nothing, and that a sound context answers. */
static bool is_sound(struct gm_cuda *cuda)
{
	gm_cu_result result = cuda->driver->cuStreamQuery(cuda->slow);

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

int gm_cuda_bind(struct gm_cuda *cuda)
{
	if (gm_cuda_is_lost(cuda))
		return -ENOTRECOVERABLE;
	return gm_cuda_check(cuda, cuda->driver->cuCtxSetCurrent(cuda->ctx));
}

static const char *cuda_fault(struct gm_backend_device *dev, int *ret_code)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;

	if (!cuda) {
		*ret_code = process.code;
		return process.why;
	}
	/* The thread that lost the device may still be writing why. */
	pthread_mutex_lock(&cuda->lock);
	*ret_code = (int)gm_get(&cuda->lost);
	pthread_mutex_unlock(&cuda->lock);
	return cuda->why;
}

int gm_cuda_pin(struct gm_cuda *cuda, uint64_t bytes, char **ret_host,
		gm_cu_ptr *ret_at)
{
	const struct gm_driver *cu = cuda->driver;
	void *host = NULL;
	int rc = gm_cuda_check(
		cuda, cu->cuMemHostAlloc(&host, bytes,
					 GM_CU_MEMHOSTALLOC_PORTABLE |
						 GM_CU_MEMHOSTALLOC_DEVICEMAP));

	if (rc < 0)
		return rc;
	/* Memory that the driver has allocated has one address for all. */
	if (cu->cuMemHostGetDevicePointer(ret_at, host, 0) != GM_CU_SUCCESS)
		*ret_at = (gm_cu_ptr)(uintptr_t)host;
	*ret_host = host;
	return 0;
}

/* ---- the driver ---------------------------------------------------------- */

static int init_driver(const struct gm_device_config *config)
{
	gm_cu_result result;
	int rc;

	if (process.is_ready)
		return 0;
	process.code = 0;
	if (!process.is_open) {
		rc = gm_driver_open(config->library, &process.driver,
				    process.why);
		if (rc < 0)
			return rc;
		process.is_open = true;
	}
	result = process.driver.cuInit(0);
	if (result != GM_CU_SUCCESS) {
		process.code = (int)result;
		gm_cuda_explain(result, "cuInit", process.why,
				sizeof(process.why));
		return gm_cuerror_errno(result);
	}
	process.is_ready = true;
	return 0;
}

static void cuda_prepare(const struct gm_device_config *config)
{
	(void)init_driver(config);
}

/* ---- one device ---------------------------------------------------------- */

/* A step of opening failed: remember why. */
static int fail_to_open(gm_cu_result result, const char *what)
{
	int rc = gm_cuerror_errno(result);

	if (result == GM_CU_SUCCESS)
		return 0;
	process.code = (int)result;
	gm_cuda_explain(result, what, process.why, sizeof(process.why));
	return rc;
}

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

static int no_such_device(const char *uuid, int n)
{
	process.code = 0;
	snprintf(process.why, sizeof(process.why),
		 "the driver shows %d devices, and none is %s", n, uuid);
	return -ENODEV;
}

/* The ordinal of the device, of those that the environment lets us see. */
static int find_device(const struct gm_driver *cu, const char *uuid,
		       int *ret_dev)
{
	unsigned char wanted[16];
	struct gm_cu_uuid found;
	int n = 0, dev, rc;

	rc = fail_to_open(cu->cuDeviceGetCount(&n), "cuDeviceGetCount");
	if (rc < 0)
		return rc;
	if (!uuid)
		return fail_to_open(cu->cuDeviceGet(ret_dev, 0), "cuDeviceGet");
	if (!read_uuid(uuid, wanted))
		return no_such_device(uuid, n);
	for (int i = 0; i < n; i++) {
		/* One that does not answer is not ours, or we shall see. */
		if (cu->cuDeviceGet(&dev, i) != GM_CU_SUCCESS ||
		    cu->cuDeviceGetUuid(&found, dev) != GM_CU_SUCCESS)
			continue;
		if (memcmp(found.bytes, wanted, sizeof(wanted)) == 0) {
			*ret_dev = dev;
			return 0;
		}
	}
	return no_such_device(uuid, n);
}

/* An attribute that the driver does not know is an ability that the device
 * lacks. */
static int attribute(const struct gm_cuda *cuda, uint32_t which)
{
	int value = 0;

	if (cuda->driver->cuDeviceGetAttribute(&value, which, cuda->ordinal) !=
	    GM_CU_SUCCESS)
		return 0;
	return value;
}

static void find_abilities(struct gm_cuda *cuda)
{
	const struct gm_driver *cu = cuda->driver;
	int units = attribute(cuda, GM_CU_MULTIPROCESSOR_COUNT);

	cuda->units = units > 0 ? (uint32_t)units : 1;
	cuda->can_register = gm_driver_has(cu, GM_DRIVER_REGISTER) &&
			     attribute(cuda, GM_CU_HOST_REGISTER_SUPPORTED);
	cuda->can_read_only =
		attribute(cuda, GM_CU_READ_ONLY_HOST_REGISTER_SUPPORTED);
	cuda->can_export =
		gm_driver_has(cu, GM_DRIVER_VMM) &&
		attribute(cuda, GM_CU_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
		attribute(cuda,
			  GM_CU_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
	/* Where the driver registers none, its own memory of the host moves as
	 * managed memory does (confidential computing), at each look. */
	cuda->can_write_words =
		cuda->can_register && gm_driver_has(cu, GM_DRIVER_MEMOPS) &&
		attribute(cuda, GM_CU_CAN_USE_64_BIT_STREAM_MEM_OPS);
}

/* How many times as fast as over the bus the device works in its own memory.
 * The memory moves data twice in a cycle, and work reads half of it and writes
 * the other half. */
static uint64_t own_times(const struct gm_cuda *cuda)
{
	int khz = attribute(cuda, GM_CU_MEMORY_CLOCK_RATE);
	int bits = attribute(cuda, GM_CU_GLOBAL_MEMORY_BUS_WIDTH);

	if (khz <= 0 || bits <= 0)
		return GM_CUDA_OWN_TIMES;
	return (uint64_t)khz * 1000 * (uint64_t)bits / 8 / GM_CUDA_BUS_RATE;
}

/* As many bytes as take the time of a slice over the bus. */
static uint64_t own_bytes(const struct gm_cuda *cuda)
{
	uint64_t bytes = cuda->dev.slice_bytes * own_times(cuda);

	if (bytes < GM_CUDA_OWN_LEAST)
		return GM_CUDA_OWN_LEAST;
	return bytes < GM_CUDA_OWN_MOST ? bytes : GM_CUDA_OWN_MOST;
}

/* The driver calls this an unknown error, as it does much else. */
static int ask_mode(const struct gm_cuda *cuda)
{
	if (attribute(cuda, GM_CU_COMPUTE_MODE) != GM_CU_COMPUTEMODE_PROHIBITED)
		return 0;
	process.code = 0;
	snprintf(process.why, sizeof(process.why),
		 "the card's compute mode is PROHIBITED: nvidia-smi -c "
		 "DEFAULT");
	return -ENODEV;
}

/* Threads that wait in the driver sleep: CPUs are for clients. */
static int take_context(struct gm_cuda *cuda)
{
	const struct gm_driver *cu = cuda->driver;
	int rc = fail_to_open(
		cu->cuDevicePrimaryCtxSetFlags(cuda->ordinal,
					       GM_CU_CTX_SCHED_BLOCKING_SYNC),
		"cuDevicePrimaryCtxSetFlags");

	if (rc < 0)
		return rc;
	rc = fail_to_open(cu->cuDevicePrimaryCtxRetain(&cuda->ctx,
						       cuda->ordinal),
			  "cuDevicePrimaryCtxRetain");
	if (rc < 0)
		return rc;
	rc = fail_to_open(cu->cuCtxSetCurrent(cuda->ctx), "cuCtxSetCurrent");
	if (rc == 0)
		rc = fail_to_open(cu->cuStreamCreateWithPriority(
					  &cuda->slow,
					  GM_CU_STREAM_NON_BLOCKING, 0),
				  "cuStreamCreateWithPriority");
	return rc;
}

static struct CUfunc_st *find_function(struct gm_cuda *cuda, uint32_t op,
				       uint32_t dtype, uint32_t to)
{
	char name[GM_OPERATOR_NAME_BYTES];
	struct CUfunc_st *fn = NULL;

	if (gm_operators_name(op, dtype, to, name) < 0 ||
	    gm_cuda_check(cuda, cuda->driver->cuModuleGetFunction(
					&fn, cuda->module, name)) < 0)
		return NULL;
	return fn;
}

static void find_functions(struct gm_cuda *cuda)
{
	struct gm_cuda_functions *fn = &cuda->functions;

	fn->of[GM_OPERATOR_FILL][GPUMAP_DTYPE_U8] =
		find_function(cuda, GM_OPERATOR_FILL, GPUMAP_DTYPE_U8, 0);
	for (uint32_t d = 0; d < GM_CUDA_DTYPES; d++) {
		for (uint32_t op = GM_OPERATOR_SCALE; op < GM_OPERATORS; op++)
			if (op != GM_OPERATOR_CAST)
				fn->of[op][d] = find_function(cuda, op, d, 0);
		for (uint32_t to = 0; to < GM_CUDA_DTYPES; to++)
			fn->cast[d][to] =
				find_function(cuda, GM_OPERATOR_CAST, d, to);
	}
}

/*
 * Now, not at the first job: the text is compiled.  A driver that cannot do
 * that still copies, so it costs the row its operators and nothing more.
 */
static int load_operators(struct gm_cuda *cuda)
{
	char why[GM_LIBRARY_WHY_BYTES], log[GM_CUDA_LOG_BYTES];
	gm_cu_result result =
		gm_cuda_compile(cuda, gm_operators_ptx, &cuda->module, log);

	if (result != GM_CU_SUCCESS) {
		gm_cuda_explain(result, "", why, sizeof(why));
		if (gm_cuda_check(cuda, result) == -ENOTRECOVERABLE)
			return fail_to_open(result, "cuModuleLoadDataEx");
		gm_log(GM_LOG_WARNING, "operators-missing",
		       "code=%u reason=%s compiler=%s", result,
		       gm_quote(why).text,
		       gm_quote(log[0] ? log : "none").text);
		return 0;
	}
	find_functions(cuda);
	return 0;
}

/* A failed call knows the number only if the context ended with it. */
static int fail_to_make(struct gm_cuda *cuda, int rc, const char *what)
{
	process.code = (int)gm_get(&cuda->lost);
	snprintf(process.why, sizeof(process.why), "cannot make %s: %s", what,
		 process.code ? cuda->why : strerror(-rc));
	return rc;
}

static int make_scratch(struct gm_cuda *cuda)
{
	static const uint32_t lanes[] = { GM_CUDA_SOON, GM_CUDA_BULK };
	uint64_t bytes = GM_CUDA_SLICE_BYTES +
			 2 * GM_CUDA_REDUCERS * GM_CUDA_REDUCER_BYTES +
			 GM_CUDA_SMALL_BYTES + GM_CUDA_SLICE_BYTES;
	gm_cu_ptr at;
	int rc = fail_to_open(cuda->driver->cuMemAlloc(&cuda->bounce, bytes),
			      "cuMemAlloc");

	at = cuda->bounce + GM_CUDA_SLICE_BYTES;
	for (uint32_t l = 0; l < 2; l++) {
		struct gm_cuda_lane *lane = &cuda->lanes[lanes[l]];

		for (uint32_t i = 0; i < GM_CUDA_REDUCERS; i++) {
			lane->reducers[i].at = at;
			at += GM_CUDA_REDUCER_BYTES;
		}
		lane->bounce = at;
		at += l ? GM_CUDA_SLICE_BYTES : GM_CUDA_SMALL_BYTES;
	}
	return rc;
}

static int make_ready(struct gm_cuda *cuda, const char *uuid, uint64_t init_ns)
{
	uint64_t began_ns = gm_node_clock_now(), context_ns, module_ns;
	int rc = find_device(cuda->driver, uuid, &cuda->ordinal);

	if (rc < 0)
		return rc;
	find_abilities(cuda);
	cuda->dev.own_bytes = own_bytes(cuda);
	rc = ask_mode(cuda);
	if (rc == 0)
		rc = take_context(cuda);
	if (rc < 0)
		return rc;
	rc = make_scratch(cuda);
	if (rc < 0)
		return rc;
	rc = gm_cuda_lanes_open(cuda);
	if (rc < 0)
		return fail_to_make(cuda, rc, "lanes");
	context_ns = gm_node_clock_now() - began_ns;
	rc = load_operators(cuda);
	module_ns = gm_node_clock_now() - began_ns - context_ns;
	snprintf(cuda->dev.took, sizeof(cuda->dev.took),
		 "init_ms=%llu context_ms=%llu module_ms=%llu",
		 (unsigned long long)(init_ns / 1000000),
		 (unsigned long long)(context_ns / 1000000),
		 (unsigned long long)(module_ns / 1000000));
	return rc;
}

static void cuda_close(struct gm_backend_device *dev)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	const struct gm_driver *cu;

	if (!cuda)
		return;
	cu = cuda->driver;
	if (cuda->ctx) {
		/* A context that is lost refuses all this, and harmlessly. */
		(void)cu->cuCtxSetCurrent(cuda->ctx);
		(void)cu->cuCtxSynchronize();
		gm_cuda_lanes_close(cuda);
		gm_cuda_slabs_close(cuda);
		gm_cuda_regions_close(cuda);
		if (cuda->bounce)
			(void)cu->cuMemFree(cuda->bounce);
		if (cuda->module)
			(void)cu->cuModuleUnload(cuda->module);
		if (cuda->slow)
			(void)cu->cuStreamDestroy(cuda->slow);
		(void)cu->cuCtxSetCurrent(NULL);
		(void)cu->cuDevicePrimaryCtxRelease(cuda->ordinal);
	}
	pthread_mutex_destroy(&cuda->lock);
	free(cuda);
}

/* A staging unit takes all of one. */
static uint64_t slice_bytes(const struct gm_device_config *config)
{
	uint64_t bytes = config->slice_bytes;

	return bytes && bytes < GM_CUDA_SLICE_BYTES ? bytes
						    : GM_CUDA_SLICE_BYTES;
}

static int cuda_open(const struct gm_device_config *config,
		     struct gm_backend_device **ret_dev)
{
	uint64_t began_ns = gm_node_clock_now(), init_ns;
	struct gm_cuda *cuda;
	int rc = init_driver(config);

	if (rc < 0)
		return rc;
	/* next to nothing where prepared */
	init_ns = gm_node_clock_now() - began_ns;
	cuda = calloc(1, sizeof(*cuda));
	if (!cuda)
		return -ENOMEM;
	cuda->dev.backend = &gm_cuda_backend;
	cuda->dev.slice_bytes = slice_bytes(config);
	cuda->dev.slices = GM_CUDA_SESSION_SLICES;
	cuda->dev.ended_fd = -1;
	cuda->driver = &process.driver;
	cuda->nccl = config->nccl;
	cuda->piece_bytes = GM_CUDA_PIECE_BYTES;
	TAILQ_INIT(&cuda->slabs);
	pthread_mutex_init(&cuda->lock, NULL);
	rc = make_ready(cuda, config->uuid, init_ns);
	if (rc < 0) {
		cuda_close(&cuda->dev);
		return rc;
	}
	*ret_dev = &cuda->dev;
	return 0;
}

static int cuda_memory(struct gm_backend_device *dev,
		       struct gm_device_memory *ret_memory)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	size_t left, total;
	int rc = gm_cuda_bind(cuda);

	if (rc == 0)
		rc = gm_cuda_check(cuda,
				   cuda->driver->cuMemGetInfo(&left, &total));
	if (rc < 0)
		return rc;
	ret_memory->total = total;
	ret_memory->free = left;
	return 0;
}

const struct gm_backend gm_cuda_backend = {
	.name = "cuda",
	.kind = GPUMAP_DEVICE_CUDA,
	.prepare = cuda_prepare,
	.open = cuda_open,
	.close = cuda_close,
	.memory = cuda_memory,
	.start = gm_cuda_start,
	.quit = gm_cuda_quit,
	.ended = gm_cuda_ended,
	.arm = gm_cuda_arm,
	.alloc = gm_cuda_alloc,
	.free = gm_cuda_free,
	.reach = gm_cuda_reach,
	.unreach = gm_cuda_unreach,
	.export_fd = gm_cuda_export_fd,
	.import_fd = gm_cuda_import_fd,
	.import_peer = gm_cuda_import_peer,
	.try_peer = gm_cuda_try_peer,
	.copy_peer = gm_cuda_copy_peer,
	.fetch = gm_cuda_fetch,
	.store = gm_cuda_store,
	.load_kernel = gm_cuda_load_kernel,
	.unload_kernel = gm_cuda_unload_kernel,
	.clique_version = gm_cuda_clique_version,
	.clique_id = gm_cuda_clique_id,
	.clique_begin = gm_cuda_clique_begin,
	.clique_ready = gm_cuda_clique_ready,
	.clique_start = gm_cuda_clique_start,
	.clique_ended = gm_cuda_clique_ended,
	.clique_abort = gm_cuda_clique_abort,
	.fault = cuda_fault,
};
