/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_program - operators, and programs of clients.
 *
 * The operators are compiled for operands that begin at any byte, which costs a
 * CPU nothing, and for other devices once more, for operands that begin at
 * multiples of their elements' size.
 * */

#include "agent/device/opencl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/cuda/operators.h"

#define LANES      32u
#define GROUP_CPU  1024u /* of operators: measured, the most is the best */
#define GROUP_GPU  256u
#define GROUP_RUN  256u
#define FILL_BYTES 8u /* of an item */
#define ARGS_MOST  6u /* of a client's kernel */

/* Made when building: a literal for each line. */
static const char operators[] =
#include "agent/device/ops_opencl_text.h"
	;

/* ---- operators ----------------------------------------------------------- */

int gm_opencl_operators(struct gm_opencl *opencl)
{
	static const char *const kept[] = { "operators-any",
					    "operators-whole" };
	const struct gm_kernel_image text = { operators, sizeof(operators) - 1,
					      "" };
	char options[GM_BUILD_OPTIONS], log[GM_BUILD_LOG];
	int rc = 0;

	gm_stream_say_floats(opencl->has_f32, opencl->has_f64);
	for (int i = 0; rc == 0 && i < (opencl->is_cpu ? 1 : 2); i++) {
		snprintf(options, sizeof(options), "-cl-std=CL1.2%s%s%s%s",
			 opencl->has_f32 ? " -DGM_F32" : "",
			 opencl->has_f64 ? " -DGM_F64" : "",
			 opencl->is_cpu ? "" : " -DGM_LANES",
			 i ? "" : " -DGM_ANY");
		rc = gm_opencl_build(opencl, &text, options, kept[i],
				     &opencl->operators[i], log);
	}
	if (rc < 0)
		gm_log(GM_LOG_WARNING, "operators_missing",
		       "code=%d compiler=%s", rc, gm_quote(log).text);
	if (rc < 0 && rc != -ENOEXEC)
		snprintf(opencl->gpu.why, sizeof(opencl->gpu.why),
			 "the operators are not compiled: %.400s", log);
	return rc == -ENOEXEC ? 0 : rc;
}

void gm_opencl_operators_close(struct gm_opencl *opencl)
{
	const struct gm_opencl_calls *cl = opencl->cl;

	for (int i = 0; i < 2; i++) {
		for (uint32_t k = 0; k < opencl->n_kernels; k++)
			if (opencl->kernels[k].of[i])
				(void)cl->clReleaseKernel(
					opencl->kernels[k].of[i]);
		if (opencl->operators[i])
			(void)cl->clReleaseProgram(opencl->operators[i]);
	}
}

static gm_cl kernel_of(struct gm_opencl *opencl, gm_cl program,
		       const char *name)
{
	gm_cl_int error = GM_CL_SUCCESS;
	gm_cl kernel;

	if (!program)
		return NULL;
	kernel = opencl->cl->clCreateKernel(program, name, &error);
	return gm_stream_check(&opencl->gpu, error) == 0 ? kernel : NULL;
}

/* Items of a group, at most @most: as the kernel was compiled for, or fewer. */
static uint32_t group_of(struct gm_opencl *opencl, gm_cl kernel, uint32_t most)
{
	const struct gm_opencl_calls *cl = opencl->cl;
	size_t fixed[3] = { 0 }, can = 1;

	(void)cl->clGetKernelWorkGroupInfo(kernel, opencl->device,
					   GM_CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
					   sizeof(fixed), fixed, NULL);
	if (fixed[0])
		return (uint32_t)fixed[0];
	(void)cl->clGetKernelWorkGroupInfo(kernel, opencl->device,
					   GM_CL_KERNEL_WORK_GROUP_SIZE,
					   sizeof(can), &can, NULL);
	return can < most ? (uint32_t)can : most;
}

const struct gm_gpu_kernel *gm_opencl_find(struct gm_gpu *gpu, uint32_t op,
					   uint32_t dtype, uint32_t to)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	struct gm_opencl_kernel *k = &opencl->kernels[opencl->n_kernels];
	bool is_one = gm_ops_has(op) & GM_OPS_ONE;
	char name[GM_OPERATOR_NAME_BYTES];

	if (opencl->n_kernels == GM_OPENCL_KERNELS ||
	    gm_operators_name(gm_operators_of(op), dtype, to, name) < 0)
		return NULL;
	for (int i = 0; i < 2; i++)
		k->of[i] = kernel_of(opencl, opencl->operators[i], name);
	if (!k->of[0])
		return NULL;
	k->each = is_one ? GM_REDUCE_CHUNK : 1;
	k->items = is_one && !opencl->is_cpu ? LANES : 1;
	if (op == GPUMAP_OP_FILL)
		k->each = FILL_BYTES;
	k->group = is_one && opencl->is_cpu
			   ? 1
			   : group_of(opencl, k->of[0],
				      opencl->is_cpu ? GROUP_CPU : GROUP_GPU);
	opencl->n_kernels++;
	return (const struct gm_gpu_kernel *)k;
}

/* ---- programs of clients ------------------------------------------------- */

struct gm_gpu_program {
	gm_cl program;
	struct gm_opencl_kernel kernel;
};

int gm_opencl_load(struct gm_gpu *gpu, const struct gm_kernel_image *image,
		   struct gm_gpu_program **ret_program,
		   const struct gm_gpu_kernel **ret_kernel,
		   char ret_why[GM_KERNEL_WHY_BYTES])
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	struct gm_gpu_program *p = calloc(1, sizeof(*p));
	char log[GM_BUILD_LOG] = "";
	int rc = p ? gm_opencl_build(opencl, image, "-cl-kernel-arg-info", NULL,
				     &p->program, log)
		   : -ENOMEM;

	if (rc < 0) {
		snprintf(ret_why, GM_KERNEL_WHY_BYTES, "%.*s",
			 (int)GM_KERNEL_WHY_BYTES - 1, log);
		free(p);
		return rc;
	}
	p->kernel.of[0] = kernel_of(opencl, p->program, image->kernel);
	if (!p->kernel.of[0]) {
		snprintf(ret_why, GM_KERNEL_WHY_BYTES,
			 "the library does not find kernel %s", image->kernel);
		(void)opencl->cl->clReleaseProgram(p->program);
		free(p);
		return gm_stream_is_lost(gpu) ? -ENOTRECOVERABLE : -ENOENT;
	}
	(void)opencl->cl->clGetKernelInfo(p->kernel.of[0],
					  GM_CL_KERNEL_NUM_ARGS,
					  sizeof(p->kernel.n_args),
					  &p->kernel.n_args, NULL);
	p->kernel.each = p->kernel.items = 1;
	p->kernel.group = group_of(opencl, p->kernel.of[0], GROUP_RUN);
	*ret_program = p;
	*ret_kernel = (const struct gm_gpu_kernel *)&p->kernel;
	return 0;
}

void gm_opencl_unload(struct gm_gpu *gpu, struct gm_gpu_program *program)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;

	(void)opencl->cl->clReleaseKernel(program->kernel.of[0]);
	(void)opencl->cl->clReleaseProgram(program->program);
	free(program);
}

/* ---- launches ------------------------------------------------------------ */

static gm_cl_int set_args(const struct gm_opencl_calls *cl, gm_cl kernel,
			  const struct gm_gpu_launch *l)
{
	gm_cl_int error = GM_CL_SUCCESS;
	gm_cl_uint next = 0;

	for (uint32_t i = 0; i < l->n_args && error == GM_CL_SUCCESS; i++) {
		const struct gm_gpu_arg *arg = &l->args[i];
		gm_cl memory;

		if (arg->kind != GM_GPU_ARG_AT) {
			error = cl->clSetKernelArg(kernel, next++,
						   arg->kind == GM_GPU_ARG_F32
							   ? sizeof(arg->f32)
							   : sizeof(arg->u64),
						   &arg->u64);
			continue;
		}
		memory = arg->at.mem ? gm_opencl_memory_of(arg->at.mem) : NULL;
		error = cl->clSetKernelArg(kernel, next++, sizeof(memory),
					   memory ? &memory : NULL);
		if (error == GM_CL_SUCCESS)
			error = cl->clSetKernelArg(kernel, next++,
						   sizeof(arg->at.offset),
						   &arg->at.offset);
	}
	if (error == GM_CL_SUCCESS && l->params_bytes)
		error = cl->clSetKernelArg(kernel, next, l->params_bytes,
					   l->params);
	return error;
}

/* The parts of memory with a twin that a kernel uses: all, or dst back. */
static gm_cl_int copy_twins(struct gm_opencl *opencl, uint32_t lane,
			    const struct gm_gpu_launch *l, bool is_back)
{
	gm_cl_int error = GM_CL_SUCCESS;

	for (uint32_t i = 0; i < (is_back ? 1 : l->n_args); i++) {
		const struct gm_gpu_arg *arg = &l->args[i];
		char *host = arg->kind == GM_GPU_ARG_AT
				     ? gm_opencl_twin_of(arg->at)
				     : NULL;

		if (host && arg->bytes && error == GM_CL_SUCCESS)
			error = gm_opencl_move(opencl, lane, arg->at, host,
					       arg->bytes, is_back);
	}
	return error;
}

int gm_opencl_launch(struct gm_gpu *gpu, uint32_t lane,
		     const struct gm_gpu_launch *l)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	const struct gm_opencl_kernel *k =
		(const struct gm_opencl_kernel *)l->kernel;
	gm_cl kernel = k->of[l->is_whole && k->of[1]];
	size_t group = k->group;
	size_t items = (l->n / k->each + (l->n % k->each != 0)) * k->items;
	size_t all = (items / group + (items % group != 0)) * group;
	gm_cl queue = opencl->queues[lane];
	gm_cl_int error;

	/* Else it would have those of the launch before. */
	if (k->n_args && (k->n_args == ARGS_MOST) != (l->params_bytes > 0))
		return -EINVAL;
	error = set_args(opencl->cl, kernel, l);
	if (error == GM_CL_SUCCESS)
		error = copy_twins(opencl, lane, l, false);
	if (error == GM_CL_SUCCESS)
		error = opencl->cl->clEnqueueNDRangeKernel(
			queue, kernel, 1, NULL, &all, &group, 0, NULL,
			gm_opencl_event(opencl, lane));
	/* A client's kernel needs more than a group of this size may have. */
	if (error == GM_CL_OUT_OF_RESOURCES && l->op == GPUMAP_OP_RUN)
		error = GM_CL_INVALID_WORK_GROUP_SIZE;
	if (error == GM_CL_SUCCESS)
		error = copy_twins(opencl, lane, l, true);
	/* The lane would use twins that others have by then. */
	if (error != GM_CL_SUCCESS && opencl->is_apart)
		(void)gm_opencl_drain(opencl, lane);
	return gm_stream_check(&opencl->gpu, error);
}
