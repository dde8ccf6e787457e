/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ptx - run a kernel of a PTX text on the CPU.
 *
 * The interpreter knows the instructions that our operators use, by the PTX
 * manual.  Warps run one after the other, and a warp's threads one after the
 * other up to an exchange.  Faults are what they are on a device: an address
 * outside of the launch's memory or no multiple of the access, threads that
 * meet at different exchanges, and a kernel that does not end.  A pass says
 * nothing about the code that a compiler or a card makes of the text.
 */
#ifndef GM_TEST_SUPPORT_PTX_H
#define GM_TEST_SUPPORT_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_WHY_BYTES 256

/* Memory that the kernel may use. */
struct ptx_span {
	const void *start;
	size_t bytes;
	bool writable;
};

struct ptx_launch {
	const char *text;
	const char *kernel;
	const uint64_t *params; /* the bits of each, in the low end */
	uint32_t n_params;
	uint32_t blocks;
	uint32_t threads; /* of a block: a multiple of 32 */
	const struct ptx_span *spans;
	uint32_t n_spans;
};

/*
 * ptx_run - run it to its end
 *
 * ret_why	PTX_WHY_BYTES, what went wrong
 *
 * Returns	0
 *		-ENOENT		the text has no such kernel
 *		-EINVAL		it cannot be read, or the launch does not fit
 *		-EFAULT		it did what would be a fault on a device
 */
int ptx_run(const struct ptx_launch *launch, char *ret_why);

#endif
