/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_compile - what gpumap-build does with a text or a module: the one
 * place where the compiler of a vendor's library meets one.
 */

#include "agent/device/opencl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device/spirv.h"

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

static int refuse_argument(char *ret_why, uint32_t i, const char *name)
{
	snprintf(ret_why, GM_BUILD_LOG,
		 "argument %u of kernel %s: kernels have __global uchar *, "
		 "ulong, __global uchar *, ulong, ulong and may have a struct",
		 i + 1, name);
	return -ENOEXEC;
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
	return i >= ARGS_LEAST && i == n ? 0 : refuse_argument(c->why, i, name);
}

/* ---- arguments of a module ----------------------------------------------- */

enum {
	MODEL_KERNEL = 6,
	STORAGE_CROSS_WORKGROUP = 5,
	STORAGE_FUNCTION = 7,
	DECORATION_FUNC_PARAM_ATTR = 38,
	ATTRIBUTE_BY_VAL = 2
};

/* A number of a module. */
struct number {
	const uint32_t *type; /* the instruction that makes it one, or NULL */
	bool by_value;
};

struct module {
	struct number *of;
	uint32_t n; /* numbers: all that are looked up are less */
	uint32_t kernel;
	bool is_in; /* its function */
	uint32_t args;
	bool is_odd;
};

static const uint32_t *type_of(const struct module *m, uint32_t number,
			       uint32_t op)
{
	const uint32_t *type = number < m->n ? m->of[number].type : NULL;

	return type && (*type & 0xffff) == op ? type : NULL;
}

/* As is_argument(). */
static bool is_parameter(const struct module *m, const uint32_t *at)
{
	const uint32_t *pointer = type_of(m, at[1], GM_SPIRV_TYPE_POINTER);
	const uint32_t *number = type_of(m, at[1], GM_SPIRV_TYPE_INT);

	if (m->args == 0 || m->args == 2)
		return pointer && pointer[2] == STORAGE_CROSS_WORKGROUP;
	if (m->args < ARGS_LEAST)
		return number && number[2] == 64;
	return m->args < ARGS_MOST && pointer &&
	       pointer[2] == STORAGE_FUNCTION &&
	       type_of(m, pointer[3], GM_SPIRV_TYPE_STRUCT) && at[2] < m->n &&
	       m->of[at[2]].by_value;
}

/* A number that is made twice could be another thing to the compiler. */
static void read_one(struct module *m, const uint32_t *at, const char *name)
{
	switch (*at & 0xffff) {
	case GM_SPIRV_ENTRY_POINT:
		if (!gm_spirv_is_entry(at, MODEL_KERNEL, name))
			return;
		m->is_odd |= m->kernel != 0;
		m->kernel = at[2];
		return;
	case GM_SPIRV_DECORATE:
		if (at[1] < m->n && *at >> 16 > 3 &&
		    at[2] == DECORATION_FUNC_PARAM_ATTR &&
		    at[3] == ATTRIBUTE_BY_VAL)
			m->of[at[1]].by_value = true;
		return;
	case GM_SPIRV_TYPE_INT:
	case GM_SPIRV_TYPE_STRUCT:
	case GM_SPIRV_TYPE_POINTER:
		m->is_odd |= at[1] >= m->n || m->of[at[1]].type;
		if (at[1] < m->n)
			m->of[at[1]].type = at;
		return;
	case GM_SPIRV_FUNCTION:
		m->is_in = m->kernel && at[2] == m->kernel;
		m->is_odd |= m->is_in && m->args > 0;
		return;
	case GM_SPIRV_FUNCTION_PARAMETER:
		m->is_odd |= m->is_in && !is_parameter(m, at);
		m->args += m->is_in && !m->is_odd;
	}
}

int gm_opencl_module(const struct gm_kernel_image *image,
		     char ret_why[GM_BUILD_LOG])
{
	const uint32_t *words = image->bytes;
	size_t n = image->n / sizeof(*words);
	struct module m = { .n = words[GM_SPIRV_BOUND] };

	if (m.n > n) /* each number has an instruction of its own */
		m.n = (uint32_t)n;
	m.of = calloc(m.n + 1, sizeof(*m.of));
	if (!m.of)
		return -ENOMEM;
	for (const uint32_t *at = words + GM_SPIRV_HEAD;
	     at < words + n && !m.is_odd; at += *at >> 16)
		read_one(&m, at, image->kernel);
	free(m.of);
	if (!m.kernel) {
		snprintf(ret_why, GM_BUILD_LOG,
			 "it has no kernel %s: an entry point of that name",
			 image->kernel);
		return -ENOENT;
	}
	return m.is_odd || m.args < ARGS_LEAST
		       ? refuse_argument(ret_why, m.args, image->kernel)
		       : 0;
}

/* ---- programs ------------------------------------------------------------ */

static int check_kernel(const struct compiler *c, gm_cl program,
			const struct gm_kernel_image *image)
{
	const char *name = image->kernel;
	gm_cl_int error = GM_CL_SUCCESS;
	gm_cl_ulong uses = 0, has = 0;
	gm_cl kernel = c->cl->clCreateKernel(program, name, &error);

	if (error != GM_CL_SUCCESS) {
		snprintf(c->why, GM_BUILD_LOG,
			 "it has no kernel %s: __kernel void, of that name",
			 name);
		return -ENOENT;
	}
	(void)c->cl->clGetKernelWorkGroupInfo(kernel, c->device,
					      GM_CL_KERNEL_LOCAL_MEM_SIZE,
					      sizeof(uses), &uses, NULL);
	(void)c->cl->clGetDeviceInfo(c->device, GM_CL_DEVICE_LOCAL_MEM_SIZE,
				     sizeof(has), &has, NULL);
	if (uses > has) {
		snprintf(c->why, GM_BUILD_LOG,
			 "kernel %s has %llu bytes of local memory, and a "
			 "group has %llu",
			 name, (unsigned long long)uses,
			 (unsigned long long)has);
		return -ENOEXEC;
	}
	return gm_spirv_is(image->bytes, image->n)
		       ? 0
		       : check_arguments(c, kernel, name);
}

static int create(const struct compiler *c, gm_cl context,
		  const struct gm_kernel_image *image, gm_cl *ret_program)
{
	const char *text = image->bytes;
	gm_opencl_create_with_il *with_il;
	gm_cl_int error = GM_CL_SUCCESS;
	int rc;

	if (!gm_spirv_is(image->bytes, image->n)) {
		*ret_program = c->cl->clCreateProgramWithSource(
			context, 1, &text, NULL, &error);
		return error == GM_CL_SUCCESS ? 0 : -ENOMEM;
	}
	with_il = gm_opencl_il(c->device, ((const uint32_t *)image->bytes)[1],
			       c->why);
	rc = with_il ? gm_opencl_module(image, c->why) : -ENOEXEC;
	if (rc < 0)
		return rc;
	*ret_program = with_il(context, image->bytes, image->n, &error);
	if (error == GM_CL_SUCCESS)
		return 0;
	snprintf(c->why, GM_BUILD_LOG, "the library refuses the module");
	return error == GM_CL_OUT_OF_HOST_MEMORY ? -ENOMEM : -ENOEXEC;
}

/* The log is cut to the room that there is: a library gives none of it for less
 * than all. */
static int compile(const struct compiler *c, gm_cl program, const char *options)
{
	gm_cl_int error = c->cl->clBuildProgram(program, 1, &c->device, options,
						NULL, NULL);
	size_t bytes = 0;
	char *log;

	if (error == GM_CL_SUCCESS)
		return 0;
	(void)c->cl->clGetProgramBuildInfo(
		program, c->device, GM_CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
	log = calloc(1, bytes + 1);
	if (log)
		(void)c->cl->clGetProgramBuildInfo(program, c->device,
						   GM_CL_PROGRAM_BUILD_LOG,
						   bytes, log, NULL);
	snprintf(c->why, GM_BUILD_LOG, "%s",
		 log && log[0] ? log : "the compiler refuses it");
	gm_stream_flatten(c->why);
	free(log);
	return error == GM_CL_OUT_OF_HOST_MEMORY ? -ENOMEM : -ENOEXEC;
}

/* The program has one device, and so has the list of its binaries. */
static int read_binary(const struct compiler *c, gm_cl program,
		       struct gm_kernel_image *ret_binary)
{
	unsigned char *binary;
	size_t n = 0;

	(void)c->cl->clGetProgramInfo(program, GM_CL_PROGRAM_BINARY_SIZES,
				      sizeof(n), &n, NULL);
	binary = malloc(n + 1);
	if (!binary)
		return -ENOMEM;
	if (n && c->cl->clGetProgramInfo(program, GM_CL_PROGRAM_BINARIES,
					 sizeof(binary), &binary,
					 NULL) == GM_CL_SUCCESS) {
		*ret_binary = (struct gm_kernel_image){ binary, n, "" };
		return 0;
	}
	free(binary);
	snprintf(c->why, GM_BUILD_LOG, "the library gives no binary");
	return -ENOEXEC;
}

/* The process ends after it, and with the process all that is made here. */
int gm_opencl_compile(const char *library, const char *id,
		      const struct gm_kernel_image *image, const char *options,
		      struct gm_kernel_image *ret_binary,
		      char ret_why[GM_BUILD_LOG])
{
	struct compiler c = { .why = ret_why };
	gm_cl_int error = GM_CL_SUCCESS;
	gm_cl context, program;
	int rc;

	ret_why[0] = '\0';
	rc = gm_opencl_library(library, id, &c.cl, &c.device, c.why);
	if (rc < 0)
		return rc;
	context = c.cl->clCreateContext(NULL, 1, &c.device, NULL, NULL, &error);
	if (error != GM_CL_SUCCESS)
		return -EIO;
	rc = create(&c, context, image, &program);
	if (rc == 0)
		rc = compile(&c, program, options);
	if (rc == 0 && image->kernel[0])
		rc = check_kernel(&c, program, image);
	return rc == 0 ? read_binary(&c, program, ret_binary) : rc;
}
