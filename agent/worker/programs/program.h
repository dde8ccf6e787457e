/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * program - loads and runs clients' programs: shared objects on host rows, and
 * images of device code if the device has backend->load_kernel().
 *
 * A shared object arrives as a descriptor of a file that gpumapd has checked.
 * The C library's loader requires a path, so it gets a path that stands for the
 * descriptor.  The filter of system calls forbids the worker to open files.  A
 * call to open one raises a signal, and the handler returns the descriptor for
 * that path and -EACCES for any other.  Thus no file is ever opened here.  Each
 * load uses its own copy of the file.
 *
 * Images are read, validated as far as possible (code_validate.h), and passed
 * to the driver.  The card confines their computation to the memory that this
 * worker has there.
 *
 * The slow thread does all of this except running.
 */
#ifndef GM_WORKER_PROGRAMS_PROGRAM_H
#define GM_WORKER_PROGRAMS_PROGRAM_H

#include <stdint.h>

#include <gpumap/program.h>

#include "agent/device/device.h"
#include "agent/device/task.h"

#define GM_PROGRAM_WHY_BYTES GM_KERNEL_WHY_BYTES

/* Size of the path that the loader gets in place of @fd. */
#define GM_PROGRAM_PATH_BYTES 32

struct gm_program {
	/* Kernel of an image, which uses no other field; or NULL. */
	struct gm_kernel *kernel;
	const struct gpumap_program *entry;
	void *handle; /* handle of the loader */
	/* Open while the program is loaded, so that no other has its path. */
	int fd;
	char path[GM_PROGRAM_PATH_BYTES];
};

/* Prepare a worker that may have programs, before it is confined.  Returns 0 or
 * -errno. */
int gm_program_init(void);

/*
 * gm_program_load - load a shared object
 *
 * fd		taken over, whatever is returned
 * ret_why	receives the cause of a failure
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
 * gm_program_load_image - load an image of device code
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

/* Unload a program; NULL is allowed. */
void gm_program_unload(struct gm_backend_device *dev,
		       struct gm_program *program);

/*
 * gm_program_run - run a shared object on a tile
 *
 * task		op RUN: dst, src, n; mask is the parameters, mask_n their bytes;
 *		pattern is the bytes of an item: of src in bits 0 to 31, of dst
 *		in bits 32 to 63
 *
 * Returns	0, or a negative errno of the program
 */
int gm_program_run(const struct gm_program *program, const struct gm_task *task,
		   uint32_t row);

#endif
