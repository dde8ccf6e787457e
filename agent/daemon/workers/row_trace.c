/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/row_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/spawn.h"
#include "agent/daemon/workers/worker_child.h"
#include "shm/trace.h"

/* The memory, with all its pages, because a page that is missing later would
 * end the worker.  Only our own user may open it again for writing. */
static int make(int *ret_fd, int *ret_reader_fd)
{
	int fd = gm_spawn_memfd("gpumap-trace", GM_TRACE_BYTES), error;
	char path[40];

	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	error = posix_fallocate(fd, 0, GM_TRACE_BYTES);
	if (error == 0 && fchmod(fd, S_IRUSR | S_IWUSR) != 0)
		error = errno;
	*ret_reader_fd = error ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (!error && *ret_reader_fd < 0)
		error = errno;
	if (error)
		close(fd);
	else
		*ret_fd = fd;
	return -error;
}

/* A recovery process, which runs no jobs, takes no notice; the worker after it
 * is sent the memory as it starts. */
static int send_to_worker(struct gm_worker_process *worker)
{
	struct gm_wire wire = { .type = GM_WIRE_TRACE };

	return gm_worker_child_send(worker, &wire, &worker->trace.fd, 1);
}

int gm_row_trace_begin(struct gm_worker_process *worker, const void *reader,
		       int *ret_fd)
{
	int fd = -1, ret = make(&fd, ret_fd);

	if (ret != 0)
		return ret;
	gm_row_trace_end(worker);
	worker->trace = (struct gm_row_trace){ .reader = reader, .fd = fd };
	if (worker->socket.fd >= 0)
		ret = send_to_worker(worker);
	if (ret < 0) {
		gm_row_trace_end(worker);
		close(*ret_fd);
	}
	return ret;
}

bool gm_row_trace_has(const struct gm_worker_process *worker,
		      const void *reader)
{
	return worker->trace.reader == reader;
}

/* A worker that has no room for the record goes on to write, and no process
 * reads it. */
void gm_row_trace_end(struct gm_worker_process *worker)
{
	struct gm_wire wire = { .type = GM_WIRE_TRACE_END };

	if (!worker->trace.reader)
		return;
	close(worker->trace.fd);
	worker->trace = (struct gm_row_trace){ .fd = -1 };
	if (worker->socket.fd >= 0)
		gm_worker_child_send(worker, &wire, NULL, 0);
}

void gm_row_trace_resume(struct gm_worker_process *worker)
{
	int error;

	if (!worker->trace.reader)
		return;
	error = send_to_worker(worker);
	if (error)
		gm_log(GM_LOG_WARNING, "no_trace", "row=%u error=%d",
		       worker->row, -error);
}
