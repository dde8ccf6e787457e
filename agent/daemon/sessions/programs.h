/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * programs - who may have programs run, and which files are some.
 *
 * A client may bring device code for CUDA rows in a memfd of its own, sealed as
 * a whole.  Every other program comes out of one directory.  Whoever could
 * change that directory, a folder above it or the file could have anything run
 * in the name of those who load it: so each of them belongs to root or to the
 * user that the agent runs as, is no symbolic link, and can be written by
 * nobody else.  Each is opened from the one before and judged by what was
 * opened, and the file is loaded from that very descriptor: what happens to
 * names meanwhile is of no account.
 */
#ifndef GM_DAEMON_SESSIONS_PROGRAMS_H
#define GM_DAEMON_SESSIONS_PROGRAMS_H

#include <stdbool.h>

#include "agent/daemon/base/refusal.h"
#include "agent/daemon/config.h"
#include "agent/daemon/base/connection.h"

#define GM_PROGRAM_NAME_BYTES 64u /* as in struct gm_program_ask */

/* May this client have programs run?  0, or -EPERM with the reason. */
int gm_program_policy(struct gm_connection *c);

/*
 * gm_program_open - the file of a program
 *
 * config	of [programs]
 * name		of a client: judged here; in a field of 64 bytes
 * is_image	for a CUDA row
 * ret_fd	read only, the caller's
 * ret_why	what was wrong and what to do
 *
 * Returns	0
 *		-EINVAL		that can be nobody's name
 *		-ENOENT		there is no such program, or no directory
 *		-EPERM		somebody else could have written it, or it is no
 *				regular file
 *		-EFBIG		an image with more bytes than the limit
 *		-EIO, -EMFILE, ...	from the kernel
 */
int gm_program_open(const struct gm_config *config, const char name[64],
		    bool is_image, int *ret_fd, char ret_why[GM_WHY_BYTES]);

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
 */
int gm_program_check_image(const struct gm_config *config, int fd,
			   uint64_t *ret_bytes, char ret_why[GM_WHY_BYTES]);

/* Is it made of what a linker's symbols are made of? */
bool gm_program_is_kernel(const char name[GM_PROGRAM_NAME_BYTES]);

#endif
