/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * kernel - device code of the stand-in: C functions by the names of PTX
 * entries.
 *
 * PTX that is loaded is read for its version, its target and its entries; what
 * an entry does is what the function of its name does, called once for the
 * whole grid.  The driver has a few for its own tests.  A program's come from
 * the shared object that $GPUMAP_FAKE_KERNELS names, which exports them as
 *
 *	const struct fake_kernel gpumap_fake_kernels[];
 *
 * up to one without a name.  An entry without a function is as one that is
 * not in the PTX.
 */
#ifndef FAKE_KERNEL_H
#define FAKE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_PARAMS_MAX 32

struct fake_launch {
	unsigned int grid[3], block[3];

	/*
	 * The bytes behind a device address, which must be a multiple of
	 * @align, a power of two.  NULL: the card may not use them so, and the
	 * kernel returns, for its launch has ended with the error of that.
	 */
	void *(*reach)(struct fake_launch *launch, uint64_t address,
		       uint64_t bytes, unsigned int align, bool is_write);

	/* End the launch with a CUresult; the kernel returns. */
	int error;
	void *driver; /* the driver's own */
};

struct fake_kernel {
	const char *name;
	const char *params; /* bytes of each: "884" is two of 8 and one of 4 */
	/* params[i] points to the value of parameter i. */
	void (*run)(struct fake_launch *launch, const void *const *params);
};

#endif
