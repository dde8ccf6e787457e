/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * programs - the users that may run programs, and the files that are programs.
 *
 * A client may bring device code for cards in a memfd, sealed as a whole.
 * Every other program comes out of one directory.  A user that can change that
 * directory, a folder above it or the file could have any code run in the name
 * of the users who load it.  So each of them must belong to root or to the
 * agent's user, be no symbolic link, and be writable by no other user.  Each is
 * opened relative to the one before and checked by its descriptor, and the file
 * is loaded from that descriptor: later changes of names have no effect.
 */
#ifndef GM_DAEMON_SESSIONS_PROGRAMS_H
#define GM_DAEMON_SESSIONS_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/config.h"
#include "agent/daemon/base/connection.h"

struct gm_device;

#define GM_PROGRAM_NAME_BYTES 64u /* as in struct gm_program_ask */

/* The files that a program may have, by the rows that run it. */
enum gm_program_form {
	GM_PROGRAM_OBJECT = 0, /* host rows */
	GM_PROGRAM_IMAGE = 1,  /* CUDA rows */
	GM_PROGRAM_TEXT = 2,   /* OpenCL rows */
	GM_PROGRAM_MODULE = 3, /* Vulkan rows */
	GM_PROGRAM_CODE = 4,   /* HIP rows */
	GM_PROGRAM_FORMS = 5
};

enum gm_program_form gm_program_form(const struct gm_device *device);

/* May this client have programs run?  0, or -EPERM with the reason. */
int gm_program_policy(struct gm_connection *c);

/*
 * gm_program_open - open the file of a program
 *
 * config	of [programs]
 * name	the client's, checked here; in a field of 64 bytes
 * form		for these rows
 * ret_fd	read only, the caller's
 * ret_why	the error and its remedy
 *
 * Returns	0
 *		-EINVAL		no program can have this name
 *		-ENOENT		there is no such program, or no directory
 *		-EPERM		another user could have written it, or it is no
 *				regular file
 *		-EFBIG		an image with more bytes than the limit
 *		-EIO, -EMFILE, ...	from the kernel
 */
int gm_program_open(const struct gm_config *config, const char name[64],
		    enum gm_program_form form, int *ret_fd,
		    char ret_why[GM_WHY_BYTES]);

/*
 * gm_program_bytes - what a program takes that has a name
 *
 * Each worker has a copy of its own, and jobs of any row may name it: so many
 * bytes as all of the session's rows would have, each of what there is for its
 * kind.
 *
 * Returns	0, as gm_program_open(), -EOVERFLOW
 */
int gm_program_bytes(struct gm_connection *c, const struct gm_program_ask *ask,
		     uint64_t *ret_bytes);

/*
 * gm_program_check_image - a client's own descriptor
 *
 * Returns	0
 *		-EINVAL		no memfd, or an empty one
 *		-EPERM		not sealed against all change
 *		-EFBIG		more bytes than the limit
 *		-EMFILE		gpumapd has no descriptor left
 */
int gm_program_check_image(const struct gm_config *config, int fd,
			   uint64_t *ret_bytes, char ret_why[GM_WHY_BYTES]);

/* Is it made of what a linker's symbols are made of? */
bool gm_program_is_kernel(const char name[GM_PROGRAM_NAME_BYTES]);

#endif
