/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/job_trace.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/log.h"

void gm_job_trace_set(struct gm_job_clock *clock, int fd)
{
	void *at;

	if (clock->trace)
		munmap(clock->trace, GM_TRACE_BYTES);
	clock->trace = NULL;
	if (fd < 0)
		return;
	at = mmap(NULL, GM_TRACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  0);
	if (at != MAP_FAILED)
		clock->trace = at;
	else
		gm_log(GM_LOG_WARNING, "trace_failed", "error=%s",
		       gm_quote(strerror(errno)).text);
	close(fd);
}
