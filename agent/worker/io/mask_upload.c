/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/mask_upload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/async_op_private.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/io/test_pattern.h"
#include "gpumap.h"
#include "shm/point.h"

#define PART_BYTES (UINT64_C(16) << 20) /* bytes copied by one call */
/* Bytes of the pattern behind the mask. */
#define MARK_BYTES (UINT64_C(64) << 10)
#define MARK_WORDS (MARK_BYTES / sizeof(uint64_t))

struct job {
	struct gm_blocking_job job; /* first, see control/blocking_thread.h */
	struct gm_wire answer;
	uint64_t at;     /* offset in the file of fd */
	uint64_t theirs; /* handle of the copy that peer stands for */
	uint32_t flags;  /* GM_MASK_* */
	int fd;
	int peer; /* -1: none */
	int made;
};

static int store(struct gm_backend_device *dev, const struct gm_buffer *buffer,
		 const char *from)
{
	uint64_t done = 0;
	int rc = 0;

	while (rc == 0 && done < buffer->bytes) {
		uint64_t n = buffer->bytes - done;

		n = n < PART_BYTES ? n : PART_BYTES;
		rc = gm_device_store(dev, buffer->address + done, from + done,
				     n);
		done += n;
	}
	return rc;
}

/* ---- from another card --------------------------------------------------- */

/* Has the buffer's last granule room for the pattern? */
static bool has_mark(const struct gm_buffer *buffer)
{
	return buffer->charged >= MARK_BYTES &&
	       buffer->charged - MARK_BYTES >= buffer->bytes;
}

static int mark(struct gm_backend_device *dev, const struct gm_buffer *buffer,
		uint64_t handle)
{
	uint64_t *words = malloc(MARK_BYTES);
	int rc;

	if (!words)
		return -ENOMEM;
	gm_trial_fill(words, MARK_WORDS, handle);
	rc = gm_device_store(dev, buffer->address + buffer->bytes, words,
			     MARK_BYTES);
	free(words);
	return rc;
}

static int compare(struct gm_backend_device *dev, uint64_t address,
		   const void *want, uint64_t bytes)
{
	char *got = malloc(bytes < PART_BYTES ? bytes : PART_BYTES);
	int rc = got ? 0 : -ENOMEM;

	for (uint64_t done = 0; rc == 0 && done < bytes;) {
		uint64_t n = bytes - done;

		n = n < PART_BYTES ? n : PART_BYTES;
		rc = gm_device_fetch(dev, address + done, got, n);
		if (rc == 0 && memcmp(got, (const char *)want + done, n) != 0)
			rc = -EIO;
		done += n;
	}
	free(got);
	return rc;
}

/* A broken link may produce a mask's own bytes by accident, but not the pattern
 * behind them. */
static int try_path(const struct job *j, struct gm_backend_device *dev,
		    const struct gm_buffer *buffer, const char *want)
{
	uint64_t *words = malloc(MARK_BYTES);
	uint64_t address = buffer->address;
	int rc = words ? 0 : -ENOMEM;

	if (rc == 0)
		rc = dev->backend->copy_peer(dev, address, j->peer,
					     buffer->bytes + MARK_BYTES);
	if (rc == 0)
		rc = compare(dev, address, want, buffer->bytes);
	if (rc == 0) {
		gm_trial_fill(words, MARK_WORDS, j->theirs);
		rc = compare(dev, address + buffer->bytes, words, MARK_BYTES);
	}
	free(words);
	return rc;
}

/* Returns 0, or the error for which the buffer is not filled yet. */
static int copy_peer(struct job *j, struct gm_backend_device *dev,
		     const struct gm_buffer *buffer, const char *want)
{
	int rc;

	if (j->peer < 0 || !dev->backend->copy_peer)
		return -EOPNOTSUPP;
	if (!want) {
		rc = dev->backend->copy_peer(dev, buffer->address, j->peer,
					     buffer->bytes);
	} else if (!has_mark(buffer)) {
		return -EOPNOTSUPP;
	} else {
		rc = try_path(j, dev, buffer, want);
		j->answer.masked.code = rc;
		j->answer.masked.flags |= GM_MASK_TRY;
	}
	if (rc == 0)
		j->answer.masked.flags |= GM_MASK_PEER;
	GM_POINT("worker_mask_copied");
	return rc;
}

/* ---- one replica --------------------------------------------------------- */

static int fill(struct job *j, struct gm_backend_device *dev,
		const struct gm_buffer *buffer)
{
	bool is_trial = j->flags & GM_MASK_TRY;
	struct gm_buffer_entry source = { .fd = -1 };
	int rc = is_trial ? -EAGAIN : copy_peer(j, dev, buffer, NULL);

	if (rc == 0 || rc == -ENOTRECOVERABLE)
		return rc;
	rc = gm_async_op_map(&source, j->fd, j->at, buffer->bytes, false);
	if (rc < 0)
		return rc;
	rc = is_trial ? copy_peer(j, dev, buffer, source.at) : -EAGAIN;
	if (rc != 0 && rc != -ENOTRECOVERABLE)
		rc = store(dev, buffer, source.at);
	munmap(source.map, source.map_bytes);
	return rc;
}

/* Returns a descriptor, which keeps the memory, or an error. */
static int make(struct job *j, struct gm_backend_device *dev)
{
	const struct gm_backend *backend = dev->backend;
	struct gm_buffer *buffer;
	int rc = backend->alloc(dev, 0, j->answer.masked.device_bytes,
				GPUMAP_BUFFER_EXPORTABLE, &buffer);

	if (rc < 0)
		return rc;
	j->answer.masked.device_bytes = buffer->charged;
	rc = fill(j, dev, buffer);
	if (rc == 0 && (j->flags & GM_MASK_MARK) && has_mark(buffer))
		rc = mark(dev, buffer, j->answer.handle);
	GM_POINT("worker_mask_stored");
	if (rc == 0)
		rc = backend->export_fd(dev, buffer);
	backend->free(dev, buffer);
	return rc;
}

static void close_fds(int fd, int peer)
{
	if (fd >= 0)
		close(fd);
	if (peer >= 0)
		close(peer);
}

static void work(struct gm_blocking_job *job, struct gm_backend_device *dev)
{
	struct job *j = (struct job *)job;
	int rc = make(j, dev);

	close_fds(j->fd, j->peer);
	j->made = rc < 0 ? -1 : rc;
	j->answer.status = rc < 0 ? rc : 0;
}

static void done(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct job *j = (struct job *)job;

	if (j->answer.status == -ENOTRECOVERABLE)
		gm_io_events_failed(w);
	gm_io_events_say(w, &j->answer, j->made);
	GM_POINT("worker_mask_made");
	free(j);
}

void gm_mask_upload(struct gm_worker *worker, const struct gm_wire *wire,
		    int fd, int peer)
{
	const struct gm_backend *backend = worker->dev->backend;
	struct gm_wire answer = gm_agent_socket_about(GM_WIRE_MASKED, 0, 0);
	struct job *j = NULL;

	answer.handle = wire->handle;
	answer.masked.device_bytes = wire->mask.bytes;
	if (wire->mask.bytes == 0 || wire->mask.bytes > INT64_MAX ||
	    wire->mask.at > INT64_MAX - wire->mask.bytes)
		answer.status = -EINVAL;
	else if (!backend->alloc || !backend->store || !backend->export_fd)
		answer.status = -EOPNOTSUPP;
	else if (fd < 0)
		answer.status = -EMFILE;
	else if (!(j = calloc(1, sizeof(*j))))
		answer.status = -ENOMEM;
	if (!j) {
		close_fds(fd, peer);
		gm_io_events_say(worker, &answer, -1);
		return;
	}
	j->job.call = wire->mask.bytes > GM_ALLOC_LARGE ? GM_CALL_ALLOC_LARGE
							: GM_CALL_ALLOC;
	j->job.work = work;
	j->job.done = done;
	j->answer = answer;
	j->at = wire->mask.at;
	j->theirs = wire->mask.peer;
	j->flags = wire->mask.flags;
	j->fd = fd;
	j->peer = peer;
	gm_blocking_thread_give(&worker->slow, NULL, &j->job);
}
