/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/replica.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/worker/errand.h"
#include "agent/worker/events.h"
#include "agent/worker/pair.h"
#include "gpumap.h"
#include "shm/point.h"

#define PART_BYTES (UINT64_C(16) << 20) /* that are copied at once */

struct job {
	struct gm_slow_job job; /* first, see slow.h */
	struct gm_wire answer;
	uint64_t at; /* in the file of fd */
	int fd;
	int made;
};

static int store(struct gm_device *dev, const struct gm_buffer *buffer,
		 const char *from)
{
	uint64_t done = 0;
	int rc = 0;

	while (rc == 0 && done < buffer->bytes) {
		uint64_t n = buffer->bytes - done;

		n = n < PART_BYTES ? n : PART_BYTES;
		rc = dev->backend->store(dev, buffer->address + done,
					 from + done, n);
		done += n;
	}
	return rc;
}

/* Returns a descriptor, which keeps the memory, or an error. */
static int make(struct gm_device *dev, const char *from, uint64_t bytes,
		uint64_t *ret_charged)
{
	const struct gm_backend *backend = dev->backend;
	struct gm_buffer *buffer;
	int rc = backend->alloc(dev, 0, bytes, GPUMAP_BUFFER_EXPORTABLE,
				&buffer);

	if (rc < 0)
		return rc;
	*ret_charged = buffer->charged;
	rc = store(dev, buffer, from);
	GM_POINT("worker_mask_stored");
	if (rc == 0)
		rc = backend->export_fd(dev, buffer);
	backend->free(dev, buffer);
	return rc;
}

static void work(struct gm_slow_job *job, struct gm_device *dev)
{
	struct job *j = (struct job *)job;
	struct gm_slot source = { .fd = -1 };
	int rc = gm_errand_map(&source, j->fd, j->at, j->answer.bytes, false);

	close(j->fd);
	if (rc == 0) {
		rc = make(dev, source.at, source.bytes, &j->answer.bytes);
		munmap(source.map, source.map_bytes);
	}
	j->made = rc < 0 ? -1 : rc;
	j->answer.status = rc < 0 ? rc : 0;
}

static void done(struct gm_slow_job *job, struct gm_worker *w)
{
	struct job *j = (struct job *)job;

	if (j->answer.status == -ENOTRECOVERABLE)
		gm_events_failed(w);
	gm_events_say(w, &j->answer, j->made);
	GM_POINT("worker_mask_made");
	free(j);
}

void gm_replica_make(struct gm_worker *worker, const struct gm_wire *wire,
		     int fd)
{
	const struct gm_backend *backend = worker->dev->backend;
	struct gm_wire answer = gm_pair_about(GM_WIRE_MASKED, 0, 0);
	struct job *j = NULL;

	answer.handle = wire->handle;
	answer.bytes = wire->bytes;
	if (wire->bytes == 0 || wire->bytes > INT64_MAX ||
	    wire->at > INT64_MAX - wire->bytes)
		answer.status = -EINVAL;
	else if (!backend->alloc || !backend->store || !backend->export_fd)
		answer.status = -EOPNOTSUPP;
	else if (fd < 0)
		answer.status = -EMFILE;
	else if (!(j = calloc(1, sizeof(*j))))
		answer.status = -ENOMEM;
	if (!j) {
		if (fd >= 0)
			close(fd);
		gm_events_say(worker, &answer, -1);
		return;
	}
	j->job.call = wire->bytes > GM_ALLOC_LARGE ? GM_CALL_ALLOC_LARGE
						   : GM_CALL_ALLOC;
	j->job.work = work;
	j->job.done = done;
	j->answer = answer;
	j->at = wire->at;
	j->fd = fd;
	gm_slow_give(&worker->slow, &j->job);
}
