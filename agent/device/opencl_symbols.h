/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_symbols - every function of OpenCL that gpumap calls.
 *
 * A table without a guard: who includes it defines
 *
 *	SYMBOL(slot, name, type, arguments)
 *
 * Every object of a vendor's library begins with a pointer to its table of
 * functions, in an order that cl_khr_icd has fixed: the slot is the number of
 * the function in it.  All are of OpenCL 1.2.
 */

/* One table, one shape. */
/* clang-format off */

SYMBOL(2, clGetDeviceIDs, gm_cl_int,
       (gm_cl platform, gm_cl_ulong type, gm_cl_uint room, gm_cl *ret_devices,
	gm_cl_uint *ret_n))
SYMBOL(3, clGetDeviceInfo, gm_cl_int,
       (gm_cl device, gm_cl_uint what, size_t bytes, void *ret,
	size_t *ret_bytes))
SYMBOL(4, clCreateContext, gm_cl,
       (const intptr_t *properties, gm_cl_uint n, const gm_cl *devices,
	void (*notify)(const char *, const void *, size_t, void *), void *arg,
	gm_cl_int *ret_error))
SYMBOL(7, clReleaseContext, gm_cl_int, (gm_cl context))
SYMBOL(9, clCreateCommandQueue, gm_cl,
       (gm_cl context, gm_cl device, gm_cl_ulong properties,
	gm_cl_int *ret_error))
SYMBOL(11, clReleaseCommandQueue, gm_cl_int, (gm_cl queue))
SYMBOL(14, clCreateBuffer, gm_cl,
       (gm_cl context, gm_cl_ulong flags, size_t bytes, void *host,
	gm_cl_int *ret_error))
SYMBOL(18, clReleaseMemObject, gm_cl_int, (gm_cl memory))
SYMBOL(26, clCreateProgramWithSource, gm_cl,
       (gm_cl context, gm_cl_uint n, const char **texts, const size_t *lengths,
	gm_cl_int *ret_error))
SYMBOL(27, clCreateProgramWithBinary, gm_cl,
       (gm_cl context, gm_cl_uint n, const gm_cl *devices,
	const size_t *lengths, const unsigned char **binaries,
	gm_cl_int *ret_status, gm_cl_int *ret_error))
SYMBOL(29, clReleaseProgram, gm_cl_int, (gm_cl program))
SYMBOL(30, clBuildProgram, gm_cl_int,
       (gm_cl program, gm_cl_uint n, const gm_cl *devices, const char *options,
	void (*notify)(gm_cl, void *), void *arg))
SYMBOL(32, clGetProgramInfo, gm_cl_int,
       (gm_cl program, gm_cl_uint what, size_t bytes, void *ret,
	size_t *ret_bytes))
SYMBOL(33, clGetProgramBuildInfo, gm_cl_int,
       (gm_cl program, gm_cl device, gm_cl_uint what, size_t bytes, void *ret,
	size_t *ret_bytes))
SYMBOL(34, clCreateKernel, gm_cl,
       (gm_cl program, const char *name, gm_cl_int *ret_error))
SYMBOL(37, clReleaseKernel, gm_cl_int, (gm_cl kernel))
SYMBOL(38, clSetKernelArg, gm_cl_int,
       (gm_cl kernel, gm_cl_uint index, size_t bytes, const void *value))
SYMBOL(39, clGetKernelInfo, gm_cl_int,
       (gm_cl kernel, gm_cl_uint what, size_t bytes, void *ret,
	size_t *ret_bytes))
SYMBOL(40, clGetKernelWorkGroupInfo, gm_cl_int,
       (gm_cl kernel, gm_cl device, gm_cl_uint what, size_t bytes, void *ret,
	size_t *ret_bytes))
SYMBOL(42, clGetEventInfo, gm_cl_int,
       (gm_cl event, gm_cl_uint what, size_t bytes, void *ret,
	size_t *ret_bytes))
SYMBOL(44, clReleaseEvent, gm_cl_int, (gm_cl event))
SYMBOL(46, clFlush, gm_cl_int, (gm_cl queue))
SYMBOL(47, clFinish, gm_cl_int, (gm_cl queue))
SYMBOL(48, clEnqueueReadBuffer, gm_cl_int,
       (gm_cl queue, gm_cl memory, gm_cl_uint blocking, size_t offset,
	size_t bytes, void *to, gm_cl_uint n, const gm_cl *after,
	gm_cl *ret_event))
SYMBOL(49, clEnqueueWriteBuffer, gm_cl_int,
       (gm_cl queue, gm_cl memory, gm_cl_uint blocking, size_t offset,
	size_t bytes, const void *from, gm_cl_uint n, const gm_cl *after,
	gm_cl *ret_event))
SYMBOL(50, clEnqueueCopyBuffer, gm_cl_int,
       (gm_cl queue, gm_cl from, gm_cl to, size_t from_offset,
	size_t to_offset, size_t bytes, gm_cl_uint n, const gm_cl *after,
	gm_cl *ret_event))
SYMBOL(59, clEnqueueNDRangeKernel, gm_cl_int,
       (gm_cl queue, gm_cl kernel, gm_cl_uint dimensions, const size_t *first,
	const size_t *items, const size_t *group, gm_cl_uint n,
	const gm_cl *after, gm_cl *ret_event))
SYMBOL(81, clSetEventCallback, gm_cl_int,
       (gm_cl event, gm_cl_int status,
	void (*notify)(gm_cl event, gm_cl_int status, void *arg), void *arg))
SYMBOL(101, clGetKernelArgInfo, gm_cl_int,
       (gm_cl kernel, gm_cl_uint index, gm_cl_uint what, size_t bytes,
	void *ret, size_t *ret_bytes))
SYMBOL(102, clEnqueueFillBuffer, gm_cl_int,
       (gm_cl queue, gm_cl memory, const void *pattern, size_t pattern_bytes,
	size_t offset, size_t bytes, gm_cl_uint n, const gm_cl *after,
	gm_cl *ret_event))
SYMBOL(105, clEnqueueMarkerWithWaitList, gm_cl_int,
       (gm_cl queue, gm_cl_uint n, const gm_cl *after, gm_cl *ret_event))
SYMBOL(106, clEnqueueBarrierWithWaitList, gm_cl_int,
       (gm_cl queue, gm_cl_uint n, const gm_cl *after, gm_cl *ret_event))

#undef SYMBOL
