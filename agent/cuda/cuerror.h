/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuerror - classifies errors of the driver for the module that meets one.
 *
 * The driver has more than a hundred, of three kinds that matter: a call that
 * was refused and has harmed nothing, a state that passes or that the
 * administrator can change, and a context that is of no use any more.  The last
 * is sticky: every later call returns it, and only the end of the process
 * clears it.
 *
 * HIP's numbers are CUDA's where both have an error.  hipInit() without a card
 * says INVALID_DEVICE where cuInit() says NO_DEVICE.
 *
 * A result never travels in an int that may hold an errno: it stays a
 * gm_cu_result until gm_cuerror_errno() has made a status of it, and the number
 * itself goes to the log and the row.
 */
#ifndef GM_CUERROR_H
#define GM_CUERROR_H

#include "agent/cuda/abi.h"

enum gm_cuerror_class {
	GM_CUERROR_NONE = 0,    /* success */
	GM_CUERROR_PENDING = 1, /* no error: not finished yet */
	GM_CUERROR_REFUSED = 2, /* this call; what was there before works on */
	GM_CUERROR_RETRY = 3,   /* try again, later and later */
	GM_CUERROR_ABSENT = 4,  /* no such device for this process */
	GM_CUERROR_DOUBT = 5,   /* sticky if a trivial call fails too */
	GM_CUERROR_STICKY = 6   /* the process has to end */
};

/* Any number has a class: one that is not known is in doubt. */
uint32_t gm_cuerror_class(gm_cu_result result);

/* "ILLEGAL_ADDRESS" and so on, without the driver's prefix; "unknown error"
 * for a number that is newer than this table.  Never NULL. */
const char *gm_cuerror_name(gm_cu_result result);

/* The remedy for an administrator: a sentence, or NULL. */
const char *gm_cuerror_remedy(gm_cu_result result);
const char *gm_cuerror_remedy_hip(gm_cu_result result);

/*
 * gm_cuerror_errno - the status of a job that ended so
 *
 * Returns	0
 *		-EAGAIN		not finished, or worth trying again
 *		-ENOMEM		out of device memory
 *		-ENODEV		no such device, or it is taken
 *		-EOPNOTSUPP	the device or the driver cannot do this
 *		-EINVAL		an argument was refused
 *		-ENOEXEC	a program that cannot run here
 *		-ENOENT		a name that is not in the program
 *		-EPERM		not allowed
 *		-EIO		anything else, and all that is sticky
 */
int gm_cuerror_errno(gm_cu_result result);

#endif
