/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/fd_limits.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/resource.h>

#include "agent/common/log.h"
#include "shm/layout.h"

#define OF_OURS       64u /* loop, log, segment, files that are read */
#define OF_ROW        11u /* worker, standby, recovery, watcher, trace */
#define OF_PROBE      16u /* its processes that ask for a moment */
#define OF_SESSION    3u  /* its memory, its socket */
#define OF_CONNECTION 3u  /* its socket and pidfd, a tensor to be a mask */

/* Descriptors of the hard limit that are for processes of rows. */
static uint64_t reserve;

static void allow_all_but(uint64_t kept)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return;
	files.rlim_cur = files.rlim_max - kept;
	setrlimit(RLIMIT_NOFILE, &files);
}

void gm_fd_limits_raise(void)
{
	allow_all_but(0);
}

int gm_fd_limits_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -3; /* ".", "..", and the directory's own */

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

void gm_fd_limits_open_reserve(void)
{
	if (reserve > 0)
		allow_all_but(0);
}

void gm_fd_limits_close_reserve(void)
{
	if (reserve > 0)
		allow_all_but(reserve);
}

/* With very few descriptors half of them are for clients. */
static void keep_for(uint32_t n_rows, uint64_t limit)
{
	reserve = OF_PROBE + (uint64_t)n_rows * OF_ROW;
	if (reserve > limit / 2)
		reserve = limit / 2;
	gm_fd_limits_close_reserve();
}

/* The descriptors that all of the configured limits allow. */
static uint64_t needed_by(const struct gm_config *config,
			  const struct gm_fd_limits_of *of)
{
	uint64_t session = OF_SESSION + of->rows; /* doorbells */

	/* The memory of one uid: others rarely have as much.  Each of its
	 * objects may be a mask with a replica on each card. */
	return OF_OURS + OF_PROBE + (uint64_t)of->rows * OF_ROW + of->kept +
	       of->processes + (uint64_t)config->connections * OF_CONNECTION +
	       config->sessions * session + GM_HOLDERS +
	       config->registrations_per_uid + config->exports_per_uid +
	       (uint64_t)config->objects_per_uid * of->cards;
}

void gm_fd_limits_check(const struct gm_config *config,
			const struct gm_fd_limits_of *of)
{
	uint64_t needed = needed_by(config, of);
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return;
	keep_for(of->rows, files.rlim_max);
	if (files.rlim_max >= needed)
		return;
	gm_log(GM_LOG_WARNING, "few_descriptors",
	       "limit=%" PRIu64 " needed=%" PRIu64
	       " remedy=\"raise LimitNOFILE of the unit (ulimit -Hn), or lower "
	       "sessions, connections and objects-per-uid in [limits] of "
	       "gpumapd.conf\"",
	       (uint64_t)files.rlim_max, needed);
}
