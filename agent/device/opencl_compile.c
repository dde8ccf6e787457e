/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_compile - what gpumap-build does with a text: the one place where the
 * compiler of a vendor's library meets one.
 */

#include "agent/device/opencl_compile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device/opencl.h"

#define ARGS_LEAST 5u /* of a client's kernel */
#define ARGS_MOST  6u
#define TYPE_BYTES 256u

struct compiler {
	const struct gm_opencl_calls *cl;
	gm_cl device;
	char *why; /* GM_BUILD_LOG */
};

static bool is_argument(const struct compiler *c, gm_cl kernel, gm_cl_uint i)
{
	char type[TYPE_BYTES] = "";
	gm_cl_uint space = 0;

	if (c->cl->clGetKernelArgInfo(
		    kernel, i, GM_CL_KERNEL_ARG_ADDRESS_QUALIFIER,
		    sizeof(space), &space, NULL) != GM_CL_SUCCESS ||
	    c->cl->clGetKernelArgInfo(kernel, i, GM_CL_KERNEL_ARG_TYPE_NAME,
				      sizeof(type), type,
				      NULL) != GM_CL_SUCCESS)
		return false;
	if (i == 0 || i == 2)
		return space == GM_CL_KERNEL_ARG_ADDRESS_GLOBAL &&
		       strchr(type, '*');
	return space == GM_CL_KERNEL_ARG_ADDRESS_PRIVATE &&
	       (i < ARGS_LEAST ? strcmp(type, "ulong") == 0
			       : strncmp(type, "struct ", 7) == 0);
}

/* A library knows an argument by its size alone: it would take a client's
 * number for an object of its own, as a memory or a sampler, and follow it.  A
 * name of a type may hide what it is. */
static int check_arguments(const struct compiler *c, gm_cl kernel,
			   const char *name)
{
	gm_cl_uint i = 0, n = 0;

	(void)c->cl->clGetKernelInfo(kernel, GM_CL_KERNEL_NUM_ARGS, sizeof(n),
				     &n, NULL);
	while (i < n && i < ARGS_MOST && is_argument(c, kernel, i))
		i++;
	if (i >= ARGS_LEAST && i == n)
		return 0;
	snprintf(c->why, GM_BUILD_LOG,
		 "argument %u of kernel %s: kernels have __global uchar *, "
		 "ulong, __global uchar *, ulong, ulong and may have a struct",
		 i + 1, name);
	return -ENOEXEC;
}

static int check_local(const struct compiler *c, gm_cl kernel, const char *name)
{
	gm_cl_ulong uses = 0, has = 0;

	(void)c->cl->clGetKernelWorkGroupInfo(kernel, c->device,
					      GM_CL_KERNEL_LOCAL_MEM_SIZE,
					      sizeof(uses), &uses, NULL);
	(void)c->cl->clGetDeviceInfo(c->device, GM_CL_DEVICE_LOCAL_MEM_SIZE,
				     sizeof(has), &has, NULL);
	if (uses <= has)
		return 0;
	snprintf(c->why, GM_BUILD_LOG,
		 "kernel %s has %llu bytes of local memory, and a group has "
		 "%llu",
		 name, (unsigned long long)uses, (unsigned long long)has);
	return -ENOEXEC;
}

static int check_kernel(const struct compiler *c, gm_cl program,
			const char *name)
{
	gm_cl_int error = GM_CL_SUCCESS;
	gm_cl kernel = c->cl->clCreateKernel(program, name, &error);
	int rc;

	if (error != GM_CL_SUCCESS) {
		snprintf(c->why, GM_BUILD_LOG,
			 "it has no kernel %s: __kernel void, of that name",
			 name);
		return -ENOENT;
	}
	rc = check_arguments(c, kernel, name);
	if (rc == 0)
		rc = check_local(c, kernel, name);
	(void)c->cl->clReleaseKernel(kernel);
	return rc;
}

/* As much as there is room for: less than all of it is an error. */
static void read_log(const struct compiler *c, gm_cl program)
{
	size_t bytes = 0;
	char *log;

	(void)c->cl->clGetProgramBuildInfo(
		program, c->device, GM_CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
	log = calloc(1, bytes + 1);
	if (log && c->cl->clGetProgramBuildInfo(program, c->device,
						GM_CL_PROGRAM_BUILD_LOG, bytes,
						log, NULL) == GM_CL_SUCCESS)
		snprintf(c->why, GM_BUILD_LOG, "%s", log);
	free(log);
}

static int compile(const struct compiler *c, gm_cl program, const char *options)
{
	gm_cl_int error = c->cl->clBuildProgram(program, 1, &c->device, options,
						NULL, NULL);

	if (error == GM_CL_SUCCESS)
		return 0;
	read_log(c, program);
	gm_stream_flatten(c->why);
	if (!c->why[0])
		snprintf(c->why, GM_BUILD_LOG, "the compiler refuses it");
	return error == GM_CL_OUT_OF_HOST_MEMORY ? -ENOMEM : -ENOEXEC;
}

/* The program has one device, and so has the list of its binaries. */
static int read_binary(const struct compiler *c, gm_cl program,
		       struct gm_opencl_binary *binary)
{
	(void)c->cl->clGetProgramInfo(program, GM_CL_PROGRAM_BINARY_SIZES,
				      sizeof(binary->n), &binary->n, NULL);
	binary->bytes = binary->n ? malloc(binary->n) : NULL;
	if (binary->n && !binary->bytes)
		return -ENOMEM;
	if (binary->n &&
	    c->cl->clGetProgramInfo(program, GM_CL_PROGRAM_BINARIES,
				    sizeof(binary->bytes), &binary->bytes,
				    NULL) == GM_CL_SUCCESS)
		return 0;
	snprintf(c->why, GM_BUILD_LOG, "the library gives no binary");
	free(binary->bytes);
	binary->bytes = NULL;
	binary->n = 0;
	return -ENOEXEC;
}

/* The process ends after it, and with the process its context and program. */
static int make(const struct compiler *c, const struct gm_kernel_image *image,
		const char *options, struct gm_opencl_binary *binary)
{
	const char *text = image->bytes;
	gm_cl_int error = GM_CL_SUCCESS;
	gm_cl context =
		c->cl->clCreateContext(NULL, 1, &c->device, NULL, NULL, &error);
	gm_cl program;
	int rc;

	if (error != GM_CL_SUCCESS)
		return -EIO;
	program = c->cl->clCreateProgramWithSource(context, 1, &text, NULL,
						   &error);
	if (error != GM_CL_SUCCESS)
		return -ENOMEM;
	rc = compile(c, program, options);
	if (rc == 0 && image->kernel[0])
		rc = check_kernel(c, program, image->kernel);
	return rc == 0 ? read_binary(c, program, binary) : rc;
}

int gm_opencl_compile(const char *library, const char *id,
		      const struct gm_kernel_image *image, const char *options,
		      struct gm_opencl_binary *ret_binary)
{
	struct compiler c = { .why = ret_binary->why };
	int rc;

	memset(ret_binary, 0, sizeof(*ret_binary));
	rc = gm_opencl_library(library, id, &c.cl, &c.device, ret_binary->why);
	return rc < 0 ? rc : make(&c, image, options, ret_binary);
}
