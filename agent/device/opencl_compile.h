/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* opencl_compile - compiles a text or a module for a device: gpumap-build's, in
 * a process that is ended after it. */
#ifndef GM_OPENCL_COMPILE_H
#define GM_OPENCL_COMPILE_H

#include <stddef.h>

#include "agent/device/build_wire.h"
#include "agent/device/device.h"

struct gm_opencl_binary {
	unsigned char *bytes; /* to be freed; NULL: none was made */
	size_t n;
	char why[GM_BUILD_LOG]; /* "", or a line of the compiler's */
};

/*
 * gm_opencl_compile - make the binary of a text
 *
 * library, id	as gm_opencl_library()
 * image	with a kernel that is not "": the program is a client's, and the
 *		kernel has the form that opencl.h describes
 *
 * Returns	0
 *		-ENOEXEC	the compiler refuses it, or the kernel's form is
 *				another
 *		-ENOENT		it has no such kernel
 *		-ENOMEM, -EIO, and what gm_opencl_library() returns
 */
int gm_opencl_compile(const char *library, const char *id,
		      const struct gm_kernel_image *image, const char *options,
		      struct gm_opencl_binary *ret_binary);

/*
 * gm_opencl_module - does a whole module have the kernel, in that form?
 *
 * A library need not tell the arguments of a module's kernel.
 *
 * Returns	0, -ENOEXEC, -ENOENT, -ENOMEM
 */
int gm_opencl_module(const struct gm_kernel_image *image,
		     char ret_why[GM_BUILD_LOG]);

#endif
