/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/job_trace.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/log.h"

void gm_job_trace_begin(struct gm_job_clock *clock, const struct gm_wire *wire,
			int fd)
{
	void *at = mmap(NULL, GM_TRACE_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED, fd, 0);
	int error = errno;

	gm_job_trace_end(clock);
	close(fd);
	if (at == MAP_FAILED) {
		gm_log(GM_LOG_WARNING, "trace_failed", "error=%s",
		       gm_quote(strerror(error)).text);
		return;
	}
	clock->trace = at;
	clock->trace_uid = wire->trace.uid;
}

void gm_job_trace_end(struct gm_job_clock *clock)
{
	if (clock->trace)
		munmap(clock->trace, GM_TRACE_BYTES);
	clock->trace = NULL;
}
