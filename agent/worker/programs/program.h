/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * program - what jobs have run, in a worker for programs: shared objects on
 * host rows, images of device code where the device has backend->load_kernel().
 *
 * Shared objects come as descriptors of files that gpumapd has judged.  The
 * loader of the C library wants a path: it is given one that stands for the
 * descriptor.  Where system calls are filtered, opening is none that a worker
 * may make; the filter raises a signal instead, and its handler answers with
 * the descriptor for that path, and with -EACCES for any other.  So no file is
 * ever opened here.  What is loaded is a copy: one for each time that it is.
 *
 * Images are read, judged as far as that can be (code_validate.h), and left to
 * the driver: what they compute is confined by the card, to what this worker
 * has there.
 *
 * All but running is done by the slow thread.
 */
#ifndef GM_WORKER_PROGRAMS_PROGRAM_H
#define GM_WORKER_PROGRAMS_PROGRAM_H

#include <stdint.h>

#include <gpumap/program.h>

#include "agent/device/device.h"
#include "agent/device/task.h"

#define GM_PROGRAM_WHY_BYTES GM_KERNEL_WHY_BYTES

/* What the loader is told; stands for @fd. */
#define GM_PROGRAM_PATH_BYTES 32

struct gm_program {
	struct gm_kernel
		*kernel; /* of an image, which has nothing else; or NULL */
	const struct gpumap_program *entry;
	void *handle; /* the loader's */
	int fd; /* open as long as it is loaded: so no other has its path */
	char path[GM_PROGRAM_PATH_BYTES];
};

/* Before the worker is confined: it is to have programs.  Returns 0 or
 * -errno. */
int gm_program_init(void);

/*
 * gm_program_load - bring one in
 *
 * fd		taken over, whatever is returned
 * ret_why	what was wrong
 *
 * Returns	0
 *		-EOPNOTSUPP	this worker has no programs
 *		-ENOEXEC	it is no shared object that can be loaded here,
 *				has no entry point, or one of another version
 *		-ENOMEM, -EIO, ...	it could not be read, or copied
 */
int gm_program_load(int fd, struct gm_program **ret_program,
		    char ret_why[GM_PROGRAM_WHY_BYTES]);

/*
 * gm_program_load_image - the same of device code
 *
 * dev		has backend->load_kernel()
 * kernel	its entry point
 * fd		taken over, whatever is returned
 *
 * Returns	0
 *		-ENOEXEC	it is no image, or none that can run here
 *		-ENOENT		it has no such entry point
 *		-ENOMEM, -EIO, -ENOTRECOVERABLE, ...
 */
int gm_program_load_image(struct gm_backend_device *dev, int fd,
			  const char *kernel, struct gm_program **ret_program,
			  char ret_why[GM_PROGRAM_WHY_BYTES]);

/* Let it go; NULL is allowed. */
void gm_program_unload(struct gm_backend_device *dev,
		       struct gm_program *program);

/*
 * gm_program_run - have it do a tile, of a shared object
 *
 * task		op RUN: dst, src, n; mask and mask_n are the parameters and how
 *		many bytes they have; pattern is bytes of an item, of src:32 and
 *		of dst:32 above
 *
 * Returns	0, or a negative errno of the program's
 */
int gm_program_run(const struct gm_program *program, const struct gm_task *task,
		   uint32_t row);

#endif
