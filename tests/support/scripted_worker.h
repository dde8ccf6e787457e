/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The order that the index of a handle gives the worker of
 * scripted_worker.c. */
#ifndef GM_TEST_SUPPORT_SCRIPTED_WORKER_H
#define GM_TEST_SUPPORT_SCRIPTED_WORKER_H

#define ODD_EXPORT_BYTES 8192u

enum odd_index {
	ODD_DEADLY = 4000,       /* die of it */
	ODD_DEADLY_AGAIN = 4001, /* die of it, unless it is the first worker */
	ODD_SILENT = 4002,       /* never answer */
	ODD_SILENT_AGAIN = 4006, /* never answer, unless it is the first */
	ODD_REFUSED = 4003,      /* -ENOMEM */
	ODD_HUGE = 4004,         /* an export of 2^60 bytes */
	ODD_COUNT = 4005,   /* an export of as many bytes as registrations */
	ODD_PRIVATE = 4007, /* cannot be exported */
	ODD_PRIVATE_TOO = 4008,
	ODD_DEADLY_IMPORT = 4010, /* die of importing it */
	ODD_POWER = 3000 /* and up to 63 more: an export of 2^0 bytes and up */
};

#endif
