/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fd_limits - raises the limit of descriptors to as many as [limits] may take.
 *
 * Where the system allows fewer, the request that needs the first missing
 * descriptor is refused, long before any configured limit: the log says so at
 * the start, and again when rows have come.
 *
 * Some descriptors are for processes of rows alone, so that a worker that has
 * died can be replaced whatever clients have taken: the soft limit is lower by
 * as many, but while a process is started.
 */
#ifndef GM_DAEMON_BASE_FD_LIMITS_H
#define GM_DAEMON_BASE_FD_LIMITS_H

#include <stdint.h>

#include "agent/daemon/config.h"

/* Take all that we may have. */
void gm_fd_limits_raise(void);

/* Whatever takes descriptors beside what [limits] allows. */
struct gm_fd_limits_of {
	uint32_t rows;
	uint32_t cards; /* of these */
	/* that the service manager keeps: shares' records, and messages */
	uint32_t kept;
	uint32_t processes; /* that hold shares through an earlier agent */
};

/* Keep descriptors for the processes of the rows from now on.  Warn, with the
 * remedy, when all of that takes more than we have. */
void gm_fd_limits_check(const struct gm_config *config,
			const struct gm_fd_limits_of *of);

/* How many are open; -1: it is not known. */
int gm_fd_limits_count(void);

/* Between these calls the kept descriptors may be taken. */
void gm_fd_limits_open_reserve(void);
void gm_fd_limits_close_reserve(void);

#endif
