/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/opencl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/node_clock.h"

#define OWN_TIMES    4u      /* nothing says what a bus or memory does */
#define VENDOR_ERROR (-1000) /* and below: its own */

/* ---- errors -------------------------------------------------------------- */

static int meaning(int code, const char **ret_name)
{
	static const struct {
		int code;
		int rc;
		const char *name;
	} errors[] = {
#define ERROR(name, rc) { GM_CL_##name, rc, "CL_" #name }
		ERROR(DEVICE_NOT_AVAILABLE, -ENOTRECOVERABLE),
		ERROR(COMPILER_NOT_AVAILABLE, -ENOEXEC),
		ERROR(MEM_OBJECT_ALLOCATION_FAILURE, -ENOMEM),
		ERROR(OUT_OF_RESOURCES, -ENOTRECOVERABLE),
		ERROR(OUT_OF_HOST_MEMORY, -ENOMEM),
		ERROR(BUILD_PROGRAM_FAILURE, -ENOEXEC),
		ERROR(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
		      -ENOTRECOVERABLE),
		ERROR(INVALID_DEVICE, -ENOTRECOVERABLE),
		ERROR(INVALID_CONTEXT, -ENOTRECOVERABLE),
		ERROR(INVALID_COMMAND_QUEUE, -ENOTRECOVERABLE),
		ERROR(INVALID_KERNEL_NAME, -ENOENT),
		ERROR(INVALID_BUFFER_SIZE, -ENOMEM),
		ERROR(SUCCESS, 0),
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == code) {
			*ret_name = errors[i].name;
			return errors[i].rc;
		}
	*ret_name = "an error";
	return code <= VENDOR_ERROR ? -ENOTRECOVERABLE : -EINVAL;
}

/* ---- opening ------------------------------------------------------------- */

/* 0 is also the answer to a number that the device does not know. */
static uint64_t ask(const struct gm_opencl *opencl, gm_cl_uint what)
{
	uint64_t value = 0; /* little endian, as the device */

	(void)opencl->cl->clGetDeviceInfo(opencl->device, what, sizeof(value),
					  &value, NULL);
	return value;
}

static int find_abilities(struct gm_opencl *opencl)
{
	const uint64_t exact =
		GM_CL_FP_DENORM | GM_CL_FP_INF_NAN | GM_CL_FP_ROUND_TO_NEAREST;
	uint64_t type = ask(opencl, GM_CL_DEVICE_TYPE);
	char version[512] = ""; /* PoCL's has more than 128 */
	char vendor[128] = "";
	unsigned int major = 0, minor = 0;
	bool in_place;

	(void)opencl->cl->clGetDeviceInfo(opencl->device, GM_CL_DEVICE_VERSION,
					  sizeof(version) - 1, version, NULL);
	if (sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 ||
	    major * 10 + minor < 12)
		return gm_stream_lacks(&opencl->gpu, "OpenCL 1.2");
	if (!ask(opencl, GM_CL_DEVICE_AVAILABLE))
		return gm_stream_lacks(&opencl->gpu, "time for us");
	if (!ask(opencl, GM_CL_DEVICE_COMPILER_AVAILABLE))
		return gm_stream_lacks(&opencl->gpu, "compiler");
	if (!ask(opencl, GM_CL_DEVICE_ENDIAN_LITTLE))
		return gm_stream_lacks(&opencl->gpu,
				       "order of bytes that is ours");
	opencl->is_cpu = (type & GM_CL_DEVICE_TYPE_CPU) &&
			 !(type & GM_CL_DEVICE_TYPE_GPU);
	/* A device that shares memory with the processor may still keep a copy
	 * of what it uses in place. */
	opencl->is_apart = !opencl->is_cpu;
	opencl->total = ask(opencl, GM_CL_DEVICE_GLOBAL_MEM_SIZE);
	opencl->alloc_max = ask(opencl, GM_CL_DEVICE_MAX_MEM_ALLOC_SIZE);
	opencl->has_f32 =
		(ask(opencl, GM_CL_DEVICE_SINGLE_FP_CONFIG) & exact) == exact;
	opencl->has_f64 =
		(ask(opencl, GM_CL_DEVICE_DOUBLE_FP_CONFIG) & exact) == exact;
	/* Threads of Mesa block SIGBUS: a client that takes its memory away
	 * would end the worker.  Those of PoCL and of Intel's library do
	 * not. */
	(void)opencl->cl->clGetDeviceInfo(opencl->device, GM_CL_DEVICE_VENDOR,
					  sizeof(vendor) - 1, vendor, NULL);
	in_place = !opencl->is_apart &&
		   (strcasestr(version, "pocl") || strstr(vendor, "Intel(R)"));
	opencl->gpu.flags = in_place ? GM_GPU_REACH | GM_GPU_READ_ONLY : 0;
	/* On a processor launching a slice and waking for it take some 40 us,
	 * and 4 MiB 400 us on PoCL, but 6 ms on llvmpipe. */
	opencl->gpu.own_times = in_place || opencl->is_apart ? OWN_TIMES : 1;
	opencl->gpu.copy_times = OWN_TIMES;
	return 0;
}

static int make_lanes(struct gm_opencl *opencl)
{
	const struct gm_opencl_calls *cl = opencl->cl;
	const size_t bytes = (size_t)GM_GPU_LANES * GM_LINE;
	gm_cl_int error = GM_CL_SUCCESS;
	int rc;

	opencl->context = cl->clCreateContext(NULL, 1, &opencl->device, NULL,
					      NULL, &error);
	rc = gm_stream_step(&opencl->gpu, error, "clCreateContext");
	if (rc == 0)
		rc = gm_opencl_work_open(opencl);
	if (rc < 0)
		return rc;
	opencl->words = aligned_alloc(GM_LINE, bytes);
	if (!opencl->words)
		return -ENOMEM;
	memset(opencl->words, 0, bytes);
	for (uint32_t i = 0; i <= GM_GPU_SLOW && error == GM_CL_SUCCESS; i++) {
		opencl->queues[i] = cl->clCreateCommandQueue(
			opencl->context, opencl->device, 0, &error);
		if (i < GM_GPU_LANES)
			opencl->gpu.words[i] =
				opencl->words + i * (GM_LINE / sizeof(gm_a64));
	}
	return gm_stream_step(&opencl->gpu, error, "clCreateCommandQueue");
}

static int make_ready(struct gm_opencl *opencl,
		      const struct gm_device_config *config, uint64_t at_ns[4])
{
	const char *library = config->library ? config->library : "";
	int rc = gm_opencl_library(library, config->uuid, &opencl->cl,
				   &opencl->device, opencl->gpu.why);

	at_ns[1] = gm_node_clock_now();
	if (rc == 0)
		rc = find_abilities(opencl);
	if (rc == 0)
		rc = make_lanes(opencl);
	at_ns[2] = gm_node_clock_now();
	if (rc == 0)
		rc = gm_opencl_builder_open(opencl, config);
	if (rc == 0)
		rc = gm_opencl_operators(opencl);
	at_ns[3] = gm_node_clock_now();
	return rc;
}

/* Compilers in such libraries take these for themselves.  They are ours: for
 * memory that a client takes away, for calls that a filter refuses, and those
 * that a worker ignores. */
static const int signals[] = { SIGBUS, SIGSEGV, SIGSYS, SIGHUP,
			       SIGINT, SIGPIPE, SIGTERM };
#define N_SIGNALS (sizeof(signals) / sizeof(signals[0]))

static int opencl_open(struct gm_gpu *gpu,
		       const struct gm_device_config *config, char *ret_took)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	uint64_t at_ns[4] = { gm_node_clock_now() };
	struct sigaction ours[N_SIGNALS];
	int rc;

	opencl->next = GM_OPENCL_FIRST;
	for (size_t i = 0; i < N_SIGNALS; i++)
		sigaction(signals[i], NULL, &ours[i]);
	rc = make_ready(opencl, config, at_ns);
	for (size_t i = 0; i < N_SIGNALS; i++)
		sigaction(signals[i], &ours[i], NULL);
	if (rc < 0)
		return rc;
	gm_stream_took(at_ns, ret_took);
	return 0;
}

static void opencl_close(struct gm_gpu *gpu)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	const struct gm_opencl_calls *cl = opencl->cl;

	gm_opencl_builder_close(opencl);
	if (!opencl->context)
		return;
	gm_opencl_work_close(opencl);
	gm_opencl_operators_close(opencl);
	for (uint32_t i = 0; i <= GM_GPU_SLOW; i++)
		if (opencl->queues[i])
			(void)cl->clReleaseCommandQueue(opencl->queues[i]);
	(void)cl->clReleaseContext(opencl->context);
	free(opencl->words);
}

/* Nothing says what others have, so this is an estimate. */
static int opencl_memory(struct gm_gpu *gpu,
			 struct gm_device_memory *ret_memory)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;

	ret_memory->total = opencl->total;
	ret_memory->free = opencl->total - gm_get(&opencl->used);
	return 0;
}

static const struct gm_gpu_ops ops = { .bytes = sizeof(struct gm_opencl),
				       .maker = "OpenCL",
				       .meaning = meaning,
				       .open = opencl_open,
				       .close = opencl_close,
				       .memory = opencl_memory,
				       GM_OPENCL_DRIVER(GM_STREAM_DRIVER_SET) };

/* Loading the library takes most of the time that needs no context. */
static void prepare(const struct gm_device_config *config)
{
	const struct gm_opencl_calls *calls;
	char why[GM_GPU_WHY_BYTES];
	gm_cl device;

	(void)gm_opencl_library(config->library, config->uuid, &calls, &device,
				why);
}

GM_STREAM_BACKEND(opencl, OPENCL, ops, .prepare = prepare);
